-- The outbox: what services write, and what consumers have done with it. {schema} is the quoted name of the schema,
-- which exists; {tenant_setting} is the setting that holds a transaction's tenant.

-- Functions and operators below are those of the server, whatever others have created.
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TYPE {schema}.event_status AS ENUM ('pending', 'dispatched', 'failed', 'skipped');

-- The tenant of the running transaction, if the application sets one; events without a tenant of their own take it.
CREATE FUNCTION {schema}.current_tenant() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('{tenant_setting}', true), '')::uuid;

-- Which lock orders the writers of an aggregate: one of 4096, by the hash of tenant, type and id. NULL without
-- an aggregate id, and a lock on NULL is none. Every writer computes it here, so all of them agree.
CREATE FUNCTION {schema}.bucket(tenant_id uuid, aggregate_type text, aggregate_id text) RETURNS int
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (hashtextextended(
        aggregate_id,
        hashtextextended(aggregate_type, coalesce(uuid_hash_extended(tenant_id, 0), 0))
    ) & 4095)::int;

-- A version 7 UUID: 48 bits of milliseconds, the version, then the random bits (and the variant) of a version 4.
CREATE FUNCTION {schema}.new_event_id() RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (
        lpad(to_hex(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
        || '7'
        || substr(replace(gen_random_uuid()::text, '-', ''), 14)
    )::uuid;

-- Written by services, by INSERT only; a writer under a role of its own needs INSERT, and SELECT on (id, event_id) for
-- the answer. Ids come from the identity default and from nowhere else: an id drawn outside an INSERT has no writer's
-- lock behind it, and readers would take it for one that was rolled back. So the sequence hands out ids one by one, and
-- nobody but the owner gets a right to draw from it (INSERT needs none). A relay under a role of its own needs SELECT on
-- the sequence.
CREATE TABLE {schema}.event (
    id bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME {schema}.event_id_seq CACHE 1) PRIMARY KEY
        CHECK (id > 0),
    event_id uuid NOT NULL DEFAULT gen_random_uuid(),
    tenant_id uuid,
    event_type text NOT NULL,
    schema_version integer NOT NULL DEFAULT 1 CHECK (schema_version > 0),
    aggregate_type text NOT NULL,
    aggregate_id text,
    audit_log_id bigint,
    correlation_id uuid,
    causation_id uuid,
    actor jsonb,
    traceparent text,
    tracestate text,
    payload jsonb NOT NULL CHECK (jsonb_typeof(payload) = 'object'),
    older_payloads jsonb CHECK (jsonb_typeof(older_payloads) = 'object'),
    status {schema}.event_status NOT NULL DEFAULT 'pending',
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    last_error text,
    dispatched_at timestamptz,
    available_at timestamptz NOT NULL DEFAULT now(),
    occurred_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL DEFAULT current_user,
    -- Both go into logs and into messages of other systems, where a control character would do harm.
    CONSTRAINT event_type_check CHECK (
        event_type <> '' AND octet_length(event_type) <= 200 AND event_type COLLATE "C" !~ '[\x01-\x1f\x7f]'
    ),
    -- A lane's key holds both, escaped, and must fit into the index of the stalls.
    CONSTRAINT event_aggregate_type_check CHECK (
        octet_length(aggregate_type) <= 255 AND aggregate_type COLLATE "C" !~ '[\x01-\x1f\x7f]'
    ),
    CONSTRAINT event_aggregate_id_check CHECK (octet_length(aggregate_id) <= 255)
);
REVOKE ALL ON SEQUENCE {schema}.event_id_seq FROM PUBLIC;

-- The table only grows between two runs of retention. A twentieth of it, not the usual fifth, is what a vacuum and
-- the visibility map may lag behind.
ALTER TABLE {schema}.event SET (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.05
);

-- A lane in id order.
CREATE INDEX event_aggregate_idx ON {schema}.event (aggregate_type, aggregate_id, id);
CREATE INDEX event_correlation_idx ON {schema}.event (correlation_id) WHERE correlation_id IS NOT NULL;
-- Rows lie in the order of their time, so that a few bytes for each range of pages are enough to search by it.
CREATE INDEX event_created_idx ON {schema}.event USING brin (created_at);

-- Epochs of owners. From one sequence, so that none comes back when a consumer is removed and registered again.
CREATE SEQUENCE {schema}.epoch CACHE 1;

-- A consumer's whole progress, one row per slot.
CREATE TABLE {schema}.consumer (
    name text NOT NULL CHECK (name <> ''),
    slot integer NOT NULL CHECK (slot >= 0),
    slots integer NOT NULL DEFAULT 1,
    settled int8multirange NOT NULL DEFAULT '{}',
    void int8multirange NOT NULL DEFAULT '{}',
    -- What was settled without having been looked at, because the consumer began behind it; for people.
    skipped int8multirange NOT NULL DEFAULT '{}',
    -- The last event that its owner had read when it last wrote: another event with that id means that the ids were
    -- started again.
    anchor_id bigint,
    anchor_event_id uuid,
    rev bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL,
    owner text,
    lease_until timestamptz,
    -- Who asks for the slot, and until when nobody else may claim it: a change that needs the owner drained.
    wanted text,
    wanted_until timestamptz,
    paused_until timestamptz,
    pause_reason text,
    -- An operator's pause ends at its time or when an operator says so, a receiver's (410) only then, a breaker's when the
    -- destination answers.
    paused_by text CHECK (paused_by IN ('breaker', 'receiver', 'operator')),
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    last_error text,
    config jsonb NOT NULL DEFAULT '{}',
    required_for_retention boolean NOT NULL DEFAULT false,
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (name, slot)
)
-- A handful of rows, updated many times a second: half of each page is left free, so that a new version fits beside
-- the old one and no index is touched; vacuum by count, since a fraction of a handful means nothing.
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Lanes that wait. One row stands for its head and for every later event of the lane.
CREATE TABLE {schema}.stall (
    consumer text NOT NULL,
    lane text NOT NULL,
    head_id bigint NOT NULL,
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    available_at timestamptz NOT NULL,
    blocked boolean NOT NULL DEFAULT false,
    single boolean NOT NULL DEFAULT false,
    last_error text,
    -- Since when the head has waited for its schema, if that is why it waits.
    missing_since timestamptz,
    PRIMARY KEY (consumer, lane)
)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
CREATE INDEX stall_due_idx ON {schema}.stall (consumer, available_at);
-- A blocked lane waits for an operator's word about its head.
CREATE INDEX stall_blocked_idx ON {schema}.stall (consumer, head_id) WHERE blocked;

-- The name of an aggregate's lane in a stall row: a JSON array without spaces, as the relay writes it. STABLE, as
-- to_json is: declared otherwise it would be called for each row and not be made a part of the statement.
CREATE FUNCTION {schema}.lane(tenant_id uuid, aggregate_type text, aggregate_id text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN '[' || coalesce('"' || tenant_id::text || '"', 'null') || ',' || to_json(aggregate_type)::text || ','
        || to_json(aggregate_id)::text || ']';

-- The relays that are running, and which consumers each of them can run: name to configuration.
CREATE TABLE {schema}.relay (
    name text PRIMARY KEY,
    seen_until timestamptz NOT NULL,
    consumers jsonb NOT NULL DEFAULT '{}'
);

-- What is done once for the whole outbox, by whichever relay comes first: when it is due again, and how far it is.
CREATE TABLE {schema}.duty (
    name text PRIMARY KEY,
    due_at timestamptz NOT NULL DEFAULT now(),
    -- Ids that are done with.
    done int8multirange NOT NULL DEFAULT '{}',
    -- Where the next pass over the ids goes on.
    position bigint NOT NULL DEFAULT 0,
    succeeded_at timestamptz,
    -- In a row.
    failures integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    last_error text
)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- Behind a waiting lane of 100,000 events `done` has as many ranges. Compressing them takes ten times as long as writing
-- them.
ALTER TABLE {schema}.duty ALTER COLUMN done SET STORAGE EXTERNAL;
INSERT INTO {schema}.duty (name) VALUES ('recorder'), ('retention');

-- Events that a consumer will not get. Operators change nothing here but the state, and say who decided.
CREATE TABLE {schema}.dead_letter (
    consumer text NOT NULL,
    event_id bigint NOT NULL,
    reason text NOT NULL,
    attempts integer NOT NULL CHECK (attempts >= 0),
    max_attempts integer NOT NULL CHECK (max_attempts >= 0),
    last_error text NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    acknowledged_at timestamptz,
    state text NOT NULL DEFAULT 'dead' CHECK (state IN ('dead', 'replay', 'replayed', 'discarded', 'reset')),
    -- When an operator last said what becomes of it, and under which role.
    decided_at timestamptz,
    decided_by text,
    -- Whether the event's status reflects this state; false again whenever the state changes.
    recorded boolean NOT NULL DEFAULT false,
    PRIMARY KEY (consumer, event_id)
);
CREATE INDEX dead_letter_event_idx ON {schema}.dead_letter (event_id, consumer);
CREATE INDEX dead_letter_failed_idx ON {schema}.dead_letter (failed_at, event_id, consumer);
CREATE INDEX dead_letter_replay_idx ON {schema}.dead_letter (consumer, event_id) WHERE state = 'replay';
-- What an owner may not have seen yet.
CREATE INDEX dead_letter_discarded_idx ON {schema}.dead_letter (consumer, event_id)
    WHERE state = 'discarded' AND NOT recorded;
-- Discarded letters are recorded soon: taken for independent of each other, the two would make the planner expect many.
CREATE STATISTICS {schema}.dead_letter_decided (mcv) ON state, recorded FROM {schema}.dead_letter;
CREATE INDEX dead_letter_unrecorded_idx ON {schema}.dead_letter (event_id) WHERE NOT recorded;

-- Keys of publishes that must happen once, and the event each of them led to.
-- How deliveries that did not go well at once have ended, for people. Nothing is decided by it.
CREATE TABLE {schema}.delivery_attempt (
    id bigint GENERATED ALWAYS AS IDENTITY,
    event_id bigint NOT NULL,
    consumer text NOT NULL,
    attempt integer NOT NULL CHECK (attempt >= 0),
    replay boolean NOT NULL,
    outcome text NOT NULL,
    -- What the destination's protocol answered, such as an HTTP status.
    status integer,
    error text,
    ended_at timestamptz NOT NULL,
    duration_us bigint NOT NULL CHECK (duration_us >= 0),
    PRIMARY KEY (event_id, consumer, id)
);

CREATE TABLE {schema}.idempotency (
    key text PRIMARY KEY,
    event_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
-- A key goes with its event.
CREATE INDEX idempotency_event_idx ON {schema}.idempotency (event_id);

-- Publish from any language, inside the caller's transaction and with its rights. Call it by parameter names. NULL
-- stands for the default. Returns the id.
CREATE FUNCTION {schema}.publish(
    event_type text,
    payload jsonb,
    aggregate_type text,
    aggregate_id text = NULL,
    schema_version int = 1,
    tenant_id uuid = NULL,
    correlation_id uuid = NULL,
    causation_id uuid = NULL,
    actor jsonb = NULL,
    traceparent text = NULL,
    available_at timestamptz = now(),
    event_id uuid = NULL,
    audit_log_id bigint = NULL,
    tracestate text = NULL,
    occurred_at timestamptz = clock_timestamp(),
    older_payloads jsonb = NULL
) RETURNS bigint
    LANGUAGE sql VOLATILE SECURITY INVOKER
BEGIN ATOMIC
    -- The aggregate's lock is a source of the rows, so it is held before the id is drawn.
    INSERT INTO {schema}.event (
        event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id, correlation_id,
        causation_id, actor, traceparent, tracestate, payload, older_payloads, available_at, occurred_at
    )
    SELECT
        coalesce(publish.event_id, {schema}.new_event_id()), effective.tenant_id, publish.event_type,
        coalesce(publish.schema_version, 1), publish.aggregate_type, publish.aggregate_id, publish.audit_log_id,
        publish.correlation_id, publish.causation_id, publish.actor, publish.traceparent, publish.tracestate,
        publish.payload, publish.older_payloads, coalesce(publish.available_at, now()),
        coalesce(publish.occurred_at, clock_timestamp())
    FROM
        (SELECT coalesce(publish.tenant_id, {schema}.current_tenant()) AS tenant_id) AS effective,
        LATERAL (
            SELECT pg_advisory_xact_lock(
                1870099554,
                {schema}.bucket(effective.tenant_id, publish.aggregate_type, publish.aggregate_id)
            )
        ) AS locked
    RETURNING id;
END;
