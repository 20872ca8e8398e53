-- Whether anybody has run the migrations.
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'outbox_event'
