-- The inbox on SQLite, for a consumer's own database: which events a consumer has processed. The row commits together
-- with the effect of the event. event_id is a UUID as text in lower case with hyphens; processed_at is whole
-- microseconds since 1970-01-01 UTC.
CREATE TABLE outbox_processed_event (
    consumer      TEXT    NOT NULL,
    event_id      TEXT    NOT NULL,
    processed_at  INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    PRIMARY KEY (consumer, event_id)
) STRICT, WITHOUT ROWID;

-- Deleting the old ones.
CREATE INDEX outbox_processed_event_processed_idx ON outbox_processed_event (processed_at);
