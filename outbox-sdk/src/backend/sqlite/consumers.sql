SELECT {slot_columns}
FROM outbox_consumer AS consumer
ORDER BY consumer.name, consumer.slot
