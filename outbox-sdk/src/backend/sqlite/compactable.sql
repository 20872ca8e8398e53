{expired}
SELECT event_type, count(*) AS events FROM expired GROUP BY event_type ORDER BY event_type
