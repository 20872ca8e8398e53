SELECT {slot_columns}
FROM {schema}.consumer
ORDER BY consumer.name, consumer.slot
