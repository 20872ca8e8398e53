-- Each named letter is looked up: the order that a page has is made of these few.
(SELECT DISTINCT value AS id FROM json_each(?11)) AS named
CROSS JOIN outbox_dead_letter AS letter INDEXED BY outbox_dead_letter_event_idx ON letter.event_id = named.id
