-- What every slot of every consumer has settled, and its dead gaps.
SELECT settled, void FROM outbox_consumer
