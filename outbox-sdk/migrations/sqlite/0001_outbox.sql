-- The outbox on SQLite: the tables of PostgreSQL's schema `outbox`, with the prefix `outbox_`.
--
-- Times are whole microseconds since 1970-01-01 UTC, so that they compare and add as numbers. The clock is
-- CAST(unixepoch('subsec') * 1000000 AS INTEGER), in this one form everywhere; it stands still during a statement and
-- has the resolution of a millisecond.
-- UUIDs are text in lower case with hyphens. Sets of ids are JSON, pairs of [from, until): [[1,5],[7,8]].
-- There is no created_by: SQLite knows no users. Needs SQLite 3.43 or newer, as does every program that writes here.

-- Written by services, never changed on the way to a consumer. AUTOINCREMENT: an id is never used twice, also after
-- the newest row was deleted. payload is kept as it was given, byte for byte. event_type and aggregate_type go into
-- logs and into messages of other systems, so they hold no control characters. Lengths are those of PostgreSQL.
CREATE TABLE outbox_event (
    id              INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id > 0),
    event_id        TEXT    NOT NULL
                            DEFAULT (lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4'
                                     || substr(hex(randomblob(2)), 2) || '-' || substr('89ab', 1 + (random() & 3), 1)
                                     || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))
                            CHECK (event_id GLOB '????????-????-????-????-????????????'
                                   AND length(unhex(event_id, '-')) IS 16 AND event_id = lower(event_id)),
    tenant_id       TEXT    CHECK (tenant_id IS NULL
                                   OR tenant_id GLOB '????????-????-????-????-????????????'
                                   AND length(unhex(tenant_id, '-')) IS 16 AND tenant_id = lower(tenant_id)),
    event_type      TEXT    NOT NULL
                            CHECK (event_type <> '' AND octet_length(event_type) <= 200
                                   AND instr(event_type, char(0)) = 0
                                   AND event_type NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'),
    schema_version  INTEGER NOT NULL DEFAULT 1 CHECK (schema_version BETWEEN 1 AND 2147483647),
    aggregate_type  TEXT    NOT NULL
                            CHECK (octet_length(aggregate_type) <= 255 AND instr(aggregate_type, char(0)) = 0
                                   AND aggregate_type NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'),
    aggregate_id    TEXT    CHECK (octet_length(aggregate_id) <= 255),
    audit_log_id    INTEGER,
    correlation_id  TEXT    CHECK (correlation_id IS NULL
                                   OR correlation_id GLOB '????????-????-????-????-????????????'
                                   AND length(unhex(correlation_id, '-')) IS 16
                                   AND correlation_id = lower(correlation_id)),
    causation_id    TEXT    CHECK (causation_id IS NULL
                                   OR causation_id GLOB '????????-????-????-????-????????????'
                                   AND length(unhex(causation_id, '-')) IS 16 AND causation_id = lower(causation_id)),
    actor           TEXT    CHECK (actor IS NULL OR json_valid(actor)),
    traceparent     TEXT,
    tracestate      TEXT,
    payload         TEXT    NOT NULL
                            CHECK (CASE WHEN json_valid(payload) THEN json_type(payload) = 'object' ELSE FALSE END),
    older_payloads  TEXT    CHECK (older_payloads IS NULL
                                   OR CASE WHEN json_valid(older_payloads) THEN json_type(older_payloads) = 'object'
                                           ELSE FALSE END),
    status          TEXT    NOT NULL DEFAULT 'pending'
                            CHECK (status IN ('pending', 'dispatched', 'failed', 'skipped')),
    attempts        INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    last_error      TEXT,
    dispatched_at   INTEGER,
    available_at    INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    occurred_at     INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    created_at      INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))
) STRICT;

-- Readers are past the ids that were handed out, so that an event which takes such an id would never be delivered. seq
-- is the last one before the statement: AUTOINCREMENT writes it when the statement ends.
CREATE TRIGGER outbox_event_id_trigger AFTER INSERT ON outbox_event
WHEN NEW.id <= ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'outbox_event'), 0)
BEGIN
    SELECT RAISE(ABORT, 'the id was handed out before, and its event would never be delivered; leave the id out');
END;

CREATE INDEX outbox_event_aggregate_idx ON outbox_event (aggregate_type, aggregate_id, id);
CREATE INDEX outbox_event_correlation_idx ON outbox_event (correlation_id) WHERE correlation_id IS NOT NULL;

-- One row is a consumer slot's whole progress. `epoch` comes from outbox_epoch and is never used again. `anchor_id` and
-- `anchor_event_id`: the last event that its owner had read when it last wrote; another event with that id means that the
-- ids were started again. `skipped`: what was settled without having been looked at, because the consumer began behind it;
-- for people.
CREATE TABLE outbox_consumer (
    name           TEXT    NOT NULL CHECK (name <> ''),
    slot           INTEGER NOT NULL DEFAULT 0 CHECK (slot >= 0),
    slots          INTEGER NOT NULL DEFAULT 1 CHECK (slots >= 1),
    settled        TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(settled)),
    void           TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(void)),
    skipped        TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(skipped)),
    anchor_id      INTEGER,
    anchor_event_id  TEXT,
    rev            INTEGER NOT NULL DEFAULT 0,
    epoch          INTEGER NOT NULL,
    owner          TEXT,
    lease_until    INTEGER,
    wanted         TEXT,
    wanted_until   INTEGER,
    paused_until   INTEGER,
    pause_reason   TEXT,
    paused_by      TEXT    CHECK (paused_by IN ('breaker', 'receiver', 'operator')),
    attempts       INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    last_error     TEXT,
    config         TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(config)),
    required_for_retention  INTEGER NOT NULL DEFAULT FALSE CHECK (required_for_retention IN (FALSE, TRUE)),
    registered_at  INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    PRIMARY KEY (name, slot),
    CHECK ((owner IS NULL) = (lease_until IS NULL))
) STRICT, WITHOUT ROWID;

-- The last epoch given out: one row.
CREATE TABLE outbox_epoch (
    only_row  INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    value     INTEGER NOT NULL
) STRICT;

INSERT INTO outbox_epoch (value) VALUES (0);

-- A lane that waits. `missing_since`: when its head began to wait for its schema, if that is why it waits.
CREATE TABLE outbox_stall (
    consumer       TEXT    NOT NULL,
    lane           TEXT    NOT NULL,
    head_id        INTEGER NOT NULL,
    attempts       INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    available_at   INTEGER NOT NULL,
    blocked        INTEGER NOT NULL DEFAULT FALSE CHECK (blocked IN (FALSE, TRUE)),
    single         INTEGER NOT NULL DEFAULT FALSE CHECK (single IN (FALSE, TRUE)),
    missing_since  INTEGER,
    last_error     TEXT,
    PRIMARY KEY (consumer, lane)
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_stall_due_idx ON outbox_stall (consumer, available_at);
CREATE INDEX outbox_stall_blocked_idx ON outbox_stall (consumer, head_id) WHERE blocked;

-- The live relays, so that each takes its share of the slots; `consumers`: those that it can run, name to configuration.
CREATE TABLE outbox_relay (
    name        TEXT    PRIMARY KEY,
    seen_until  INTEGER NOT NULL,
    consumers   TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(consumers))
) STRICT, WITHOUT ROWID;

-- What is done once for the whole outbox, by whichever relay comes first. `done`: ids that are done with; `position`:
-- where the next pass over the ids goes on; `failures`: in a row.
CREATE TABLE outbox_duty (
    name          TEXT    PRIMARY KEY,
    due_at        INTEGER NOT NULL DEFAULT 0,
    done          TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(done)),
    position      INTEGER NOT NULL DEFAULT 0,
    succeeded_at  INTEGER,
    failures      INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    last_error    TEXT
) STRICT, WITHOUT ROWID;

INSERT INTO outbox_duty (name) VALUES ('recorder'), ('retention');

-- `event_id` is the event's id here. Operators change `state` and `acknowledged_at`, and leave when and by whom.
-- `recorded`: the event's status reflects the state; false again whenever the state changes.
CREATE TABLE outbox_dead_letter (
    consumer         TEXT    NOT NULL,
    event_id         INTEGER NOT NULL,
    reason           TEXT    NOT NULL CHECK (reason IN ('schema_violation', 'schema_missing', 'major_missing',
                                                        'rejected', 'attempts', 'undecodable')),
    attempts         INTEGER NOT NULL CHECK (attempts >= 0),
    max_attempts     INTEGER NOT NULL CHECK (max_attempts >= 0),
    last_error       TEXT    NOT NULL,
    failed_at        INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    acknowledged_at  INTEGER,
    state            TEXT    NOT NULL DEFAULT 'dead'
                             CHECK (state IN ('dead', 'replay', 'replayed', 'discarded', 'reset')),
    decided_at       INTEGER,
    decided_by       TEXT,
    recorded         INTEGER NOT NULL DEFAULT FALSE CHECK (recorded IN (FALSE, TRUE)),
    PRIMARY KEY (consumer, event_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_dead_letter_event_idx ON outbox_dead_letter (event_id);
CREATE INDEX outbox_dead_letter_failed_idx ON outbox_dead_letter (failed_at, event_id, consumer);
CREATE INDEX outbox_dead_letter_replay_idx ON outbox_dead_letter (consumer, event_id) WHERE state = 'replay';
-- What an owner may not have seen yet.
CREATE INDEX outbox_dead_letter_discarded_idx ON outbox_dead_letter (consumer, event_id)
    WHERE state = 'discarded' AND NOT recorded;
CREATE INDEX outbox_dead_letter_unrecorded_idx ON outbox_dead_letter (event_id) WHERE NOT recorded;

-- How deliveries that did not go well at once have ended, for people. Nothing is decided by it. `status` is what the
-- destination's protocol answered, such as an HTTP status.
CREATE TABLE outbox_delivery_attempt (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id     INTEGER NOT NULL,
    consumer     TEXT    NOT NULL,
    attempt      INTEGER NOT NULL CHECK (attempt >= 0),
    replay       INTEGER NOT NULL CHECK (replay IN (FALSE, TRUE)),
    outcome      TEXT    NOT NULL,
    status       INTEGER,
    error        TEXT,
    ended_at     INTEGER NOT NULL,
    duration_us  INTEGER NOT NULL CHECK (duration_us >= 0)
) STRICT;

CREATE INDEX outbox_delivery_attempt_event_idx ON outbox_delivery_attempt (event_id, consumer, id);

-- Keys that were given with a publish: a second publish answers with the first one's event_id.
CREATE TABLE outbox_idempotency (
    key         TEXT    PRIMARY KEY,
    event_id    TEXT    NOT NULL,
    created_at  INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))
) STRICT, WITHOUT ROWID;

-- A key goes with its event.
CREATE INDEX outbox_idempotency_event_idx ON outbox_idempotency (event_id);
