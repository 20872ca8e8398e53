SELECT {slot_columns}
FROM {schema}.consumer
WINDOW slots AS (PARTITION BY consumer.name)
ORDER BY consumer.name, consumer.slot
