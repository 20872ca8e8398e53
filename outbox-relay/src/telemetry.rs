//! Every metric of the relay, by name. No other file names one.
//!
//! | name | kind | labels | meaning |
//! |---|---|---|---|
//! | `outbox_read_events_total` | counter | consumer | events read, wanted or not |
//! | `outbox_delivered_total` | counter | consumer | events that a sink took |
//! | `outbox_retried_total` | counter | consumer | attempts that failed and will be repeated |
//! | `outbox_dead_letters_total` | counter | consumer, reason | events that became dead |
//! | `outbox_late_events_total` | counter | consumer | events that came after a later one of their lane had gone |
//! | `outbox_swept_events_total` | counter | consumer | events that came although their ids had been given up |
//! | `outbox_dead_gaps_total` | counter | consumer | ids given up because their transactions rolled back |
//! | `outbox_open_gaps` | gauge | consumer, slot | ranges of ids that may still come |
//! | `outbox_in_flight` | gauge | consumer, slot | events at the sink |
//! | `outbox_paused` | gauge | consumer, slot | 1 while the destination is taken to be down, or an operator paused it |
//! | `outbox_settle_seconds` | histogram | consumer | time of a settling transaction |
//! | `outbox_lease_lost_total` | counter | consumer | leases lost while running |
//! | `outbox_database_errors_total` | counter | consumer | database calls that failed or took too long |
//! | `outbox_shared_read_consumers` | gauge | | consumers that have caught up and share one read |
//! | `outbox_shared_read_errors_total` | counter | | shared reads that failed or took too long |
//! | `outbox_running_slots` | gauge | consumer | slots that this relay owns or is claiming |
//! | `outbox_forced_changes_total` | counter | consumer | changes made while somebody owned a slot |
//! | `outbox_consumers_nobody_runs` | gauge | | registered consumers that no running relay can run |
//! | `outbox_recorded_total` | counter | status | events that got a status from this relay |
//! | `outbox_overdue_events` | gauge | | events that are through for all, and pending for over 10 minutes |
//! | `outbox_compacted_total` | counter | | events that this relay deleted |
//! | `outbox_duty_last_success_timestamp_seconds` | gauge | duty | when recorder or retention last succeeded, in whatever relay |
//! | `outbox_duty_failures` | gauge | duty | its failures in a row; from 3 on somebody must look |
//! | `outbox_undeclared_members_total` | counter | | members of delivered payloads that their schemas do not declare |
//! | `outbox_schemas_in_doubt` | gauge | | schemas that so many events in a row violate that further ones wait |
//! | `outbox_certificate_days_to_expiry` | gauge | consumer, certificate (client, ca) | until the first certificate in the consumer's file ends; below zero: since then |
//! | `outbox_listener_connected` | gauge | | 1 while the relay hears the notifications of other processes, 0 while it should and does not |
//!
//! Labels never hold ids, tenants, URLs or error texts: the number of series stays small.

use std::time::{Duration, SystemTime};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use outbox_sdk::backend::{DeadReason, Duty, DutyState, Recorded};

/// Whether the relay hears the notifications of other processes.
pub(crate) fn listener_connected(connected: bool) {
    gauge!("outbox_listener_connected").set(f64::from(u8::from(connected)));
}

/// When the first certificate in a file of a consumer's webhook ends.
#[cfg(feature = "webhook")]
pub(crate) fn certificate_ends(consumer: &str, certificate: &'static str, end: SystemTime) {
    let seconds = match end.duration_since(SystemTime::now()) {
        Ok(left) => left.as_secs_f64(),
        Err(past) => -past.duration().as_secs_f64(),
    };
    gauge!("outbox_certificate_days_to_expiry", "consumer" => consumer.to_owned(), "certificate" => certificate)
        .set(seconds / 86_400.0);
}

/// A delivered payload had so many members that its schema does not declare.
pub(crate) fn undeclared(members: usize) {
    counter!("outbox_undeclared_members_total").increment(members as u64);
}

/// How many schemas may be wrong: events wait for better ones.
pub(crate) fn schemas_in_doubt(schemas: usize) {
    gauge!("outbox_schemas_in_doubt").set(schemas as f64);
}

/// How many consumers share one read.
pub(crate) fn shared_read(consumers: usize) {
    gauge!("outbox_shared_read_consumers").set(consumers as f64);
}

/// A shared read did not come about.
pub(crate) fn shared_read_failed() {
    counter!("outbox_shared_read_errors_total").increment(1);
}

/// How many slots of a consumer this relay owns or is claiming.
pub(crate) fn running_slots(consumer: &str, slots: usize) {
    gauge!("outbox_running_slots", "consumer" => consumer.to_owned()).set(slots as f64);
}

/// A consumer was changed while somebody owned one of its slots.
pub(crate) fn forced_change(consumer: &str) {
    counter!("outbox_forced_changes_total", "consumer" => consumer.to_owned()).increment(1);
}

/// How many registered consumers no running relay can run.
pub(crate) fn consumers_nobody_runs(consumers: usize) {
    gauge!("outbox_consumers_nobody_runs").set(consumers as f64);
}

/// What a batch of the recorder came to.
pub(crate) fn recorded(batch: &Recorded) {
    for (status, events) in
        [("dispatched", batch.dispatched), ("failed", batch.failed), ("skipped", batch.skipped)]
    {
        if events > 0 {
            counter!("outbox_recorded_total", "status" => status).increment(events);
        }
    }
}

/// How many events should have been recorded long ago.
pub(crate) fn overdue(events: u64) {
    gauge!("outbox_overdue_events").set(events as f64);
}

/// How many events a batch of retention deleted.
pub(crate) fn compacted(events: u64) {
    counter!("outbox_compacted_total").increment(events);
}

/// How a duty stands in the database.
pub(crate) fn duty(duty: Duty, state: &DutyState) {
    duty_failed(duty, state.failures);
    if let Some(ago) = state.succeeded_ago {
        last_success(duty, ago);
    }
}

/// A duty has succeeded a moment ago.
pub(crate) fn duty_succeeded(duty: Duty) {
    duty_failed(duty, 0);
    last_success(duty, Duration::ZERO);
}

/// So many failures in a row.
pub(crate) fn duty_failed(duty: Duty, failures: u32) {
    gauge!("outbox_duty_failures", "duty" => duty.as_str()).set(f64::from(failures));
}

fn last_success(duty: Duty, ago: Duration) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let at = now.saturating_sub(ago).as_secs_f64();
    gauge!("outbox_duty_last_success_timestamp_seconds", "duty" => duty.as_str()).set(at);
}

/// The metrics of one slot of a consumer, looked up once.
pub(crate) struct Telemetry {
    consumer: String,
    read: Counter,
    delivered: Counter,
    retried: Counter,
    late: Counter,
    swept: Counter,
    dead_gaps: Counter,
    lease_lost: Counter,
    database_errors: Counter,
    open_gaps: Gauge,
    in_flight: Gauge,
    paused: Gauge,
    settle_seconds: Histogram,
}

impl Telemetry {
    pub(crate) fn of(consumer: &str, slot: i32) -> Self {
        let name = || consumer.to_owned();
        let slot = || slot.to_string();
        Self {
            read: counter!("outbox_read_events_total", "consumer" => name()),
            delivered: counter!("outbox_delivered_total", "consumer" => name()),
            retried: counter!("outbox_retried_total", "consumer" => name()),
            late: counter!("outbox_late_events_total", "consumer" => name()),
            swept: counter!("outbox_swept_events_total", "consumer" => name()),
            dead_gaps: counter!("outbox_dead_gaps_total", "consumer" => name()),
            lease_lost: counter!("outbox_lease_lost_total", "consumer" => name()),
            database_errors: counter!("outbox_database_errors_total", "consumer" => name()),
            open_gaps: gauge!("outbox_open_gaps", "consumer" => name(), "slot" => slot()),
            in_flight: gauge!("outbox_in_flight", "consumer" => name(), "slot" => slot()),
            paused: gauge!("outbox_paused", "consumer" => name(), "slot" => slot()),
            settle_seconds: histogram!("outbox_settle_seconds", "consumer" => name()),
            consumer: name(),
        }
    }

    pub(crate) fn read(&self, events: usize, late: usize, dead_gaps: u64) {
        self.read.increment(events as u64);
        self.late.increment(late as u64);
        self.dead_gaps.increment(dead_gaps);
    }

    pub(crate) fn swept(&self, events: usize) {
        self.swept.increment(events as u64);
    }

    pub(crate) fn delivered(&self) {
        self.delivered.increment(1);
    }

    pub(crate) fn retried(&self) {
        self.retried.increment(1);
    }

    pub(crate) fn dead(&self, reason: DeadReason) {
        counter!("outbox_dead_letters_total", "consumer" => self.consumer.clone(), "reason" => reason.as_str())
            .increment(1);
    }

    pub(crate) fn state(&self, in_flight: usize, open_gaps: usize, paused: bool) {
        self.in_flight.set(in_flight as f64);
        self.open_gaps.set(open_gaps as f64);
        self.paused.set(f64::from(u8::from(paused)));
    }

    pub(crate) fn settled(&self, took: Duration) {
        self.settle_seconds.record(took.as_secs_f64());
    }

    pub(crate) fn lease_lost(&self) {
        self.lease_lost.increment(1);
    }

    pub(crate) fn database_error(&self) {
        self.database_errors.increment(1);
    }
}
