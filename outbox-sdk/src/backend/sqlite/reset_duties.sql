-- Of one duty (?1), whose set of done ids is computed outside: nothing is known of the ids from ?3 on any more.
UPDATE outbox_duty SET done = ?2, position = max(min(position, ?3), 0) WHERE name = ?1
