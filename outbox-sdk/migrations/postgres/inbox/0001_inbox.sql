-- The inbox: which events a consumer has processed. It lies in the consumer's database, so that the row here and the
-- effect of the event commit together. {schema} is the quoted name of the schema, which is there.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE {schema}.processed_event (
    consumer text NOT NULL,
    event_id uuid NOT NULL,
    processed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, event_id)
);
-- Rows lie in the order of their time: deleting the old ones needs no more than this.
CREATE INDEX processed_event_processed_idx ON {schema}.processed_event USING brin (processed_at);
