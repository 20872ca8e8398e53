-- Which of the events in ?1 (JSON, ids) a waiting lane covers.
SELECT seen.id FROM json_each(?1) AS given CROSS JOIN outbox_event AS seen ON seen.id = given.value WHERE {covered}
