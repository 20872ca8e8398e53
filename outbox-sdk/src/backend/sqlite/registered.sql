SELECT DISTINCT name FROM outbox_consumer ORDER BY name
