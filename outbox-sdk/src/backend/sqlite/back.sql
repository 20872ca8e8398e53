-- Events whose dead letters changed, from ?1 on.
SELECT DISTINCT event_id FROM outbox_dead_letter WHERE NOT recorded AND event_id >= ?1 ORDER BY event_id LIMIT ?2
