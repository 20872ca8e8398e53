SELECT {slot_columns}
FROM outbox_consumer AS consumer
WINDOW slots AS (PARTITION BY consumer.name)
ORDER BY consumer.name, consumer.slot
