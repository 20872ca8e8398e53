//! One attempt at one event: validate, deliver, and what the outcome means.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use outbox_sdk::Envelope;
use outbox_sdk::backend::{DeadReason, NewDeadLetter};
use outbox_sdk::injection::{crash_point, planted};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::consumer::{ConsumerSpec, OnDead};
use crate::history::History;
use crate::schemas::{Checked, Schemas, Validity};
use crate::sink::{Answer, Delivery, Outcome, Sink};
use crate::slot::{Send, Verdict};

/// The longest wait that a destination's own wish can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// How long an event waits for its schema between two looks, if nothing is heard of other schemas: as long as it has waited
/// already, within these bounds.
const SCHEMA_WAIT: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// How many characters of an error text are kept.
const MAX_ERROR_CHARS: usize = 2_000;

/// A consumer and where its events go.
pub(crate) struct Consumer {
    pub(crate) spec: ConsumerSpec,
    pub(crate) sink: Arc<dyn Sink>,
    /// Woken when something was settled: there may be something to record.
    pub(crate) settled: Arc<Notify>,
}

/// What happens to an event that the registry has no schema for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingSchema {
    /// It waits, burning no attempt, and is dead after this long.
    Wait {
        /// From the first look.
        dead_after: Duration,
    },
    /// It is delivered without validation.
    Deliver,
}

impl MissingSchema {
    const DEAD_AFTER: Duration = Duration::from_secs(24 * 3600);

    /// How long an event waits for a schema, or for a better one.
    pub(crate) fn dead_after(self) -> Duration {
        match self {
            Self::Wait { dead_after } => dead_after,
            Self::Deliver => Self::DEAD_AFTER,
        }
    }
}

impl Default for MissingSchema {
    /// Wait for 24 hours.
    fn default() -> Self {
        Self::Wait { dead_after: Self::DEAD_AFTER }
    }
}

/// What an attempt came to.
#[derive(Debug)]
pub(crate) enum Attempted {
    /// The sink was asked.
    Sink(Outcome),
    /// The event cannot be delivered, now or later.
    Dead(DeadReason, String),
    /// The event waits for a schema, and is dead for this reason if none comes.
    Held {
        reason: DeadReason,
        error: String,
        /// What [`Schemas::generation`] was before the look.
        generation: u64,
    },
    /// The lease was over before the sink could be called: it was not.
    Lapsed,
}

/// Until when an owner may send: shared with the sends that it has started. Counted from before the lease was last renewed,
/// so that it is over here before it is over in the database.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    began: Instant,
    /// Nanoseconds since `began`.
    ends: Arc<AtomicU64>,
}

impl Lease {
    pub(crate) fn until(ends: Instant) -> Self {
        let lease = Self { began: Instant::now(), ends: Arc::default() };
        lease.renew(ends);
        lease
    }

    pub(crate) fn renew(&self, ends: Instant) {
        let nanos = ends.saturating_duration_since(self.began).as_nanos();
        self.ends.store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn holds(&self) -> bool {
        planted("send-after-lease")
            || self.began.elapsed().as_nanos() < u128::from(self.ends.load(Ordering::Relaxed))
    }
}

/// Tries one event: the stages that need no database. A panic in one of them is a failed attempt.
pub(crate) async fn attempt(
    consumer: &Consumer,
    schemas: &Schemas,
    missing: MissingSchema,
    lease: &Lease,
    history: &History,
    send: &Send,
) -> Attempted {
    let (answer, began) = (Answer::default(), Instant::now());
    let stages = async {
        match form(&consumer.spec, send).and_then(|form| {
            // Consumers share the verdict on the event's own form only.
            let shared = matches!(form, Cow::Borrowed(_)).then_some(send.event.checked.as_deref()).flatten();
            validate(schemas, missing, shared, &form)?;
            Ok(form)
        }) {
            Err(refused) => refused,
            // A process that was stopped for a while wakes up here: somebody else may have sent the event by now.
            Ok(_) if !lease.holds() => Attempted::Lapsed,
            Ok(form) => {
                crash_point("before_send");
                let outcome = deliver(consumer, send, &form, &answer).await;
                crash_point(if send.replay { "replay_sent" } else { "sent" });
                Attempted::Sink(outcome)
            }
        }
    };
    let attempted = AssertUnwindSafe(stages).catch_unwind().await.unwrap_or_else(|panic| {
        let error = format!("the attempt panicked: {}", panic_text(panic.as_ref()));
        discard(panic);
        Attempted::Sink(Outcome::Retry { error, after: None })
    });
    if let Attempted::Sink(outcome) = &attempted {
        history.note(consumer, send, outcome, &answer, began.elapsed());
    }
    attempted
}

/// Drops what a panic has thrown, which may be a value whose drop panics too, and throws another such value ..
fn discard(panic: Box<dyn std::any::Any + std::marker::Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // .. which is not dropped at all.
        std::mem::forget(another);
    }
}

/// The event in the major that the consumer reads, if it can be delivered at all.
fn form<'s>(spec: &ConsumerSpec, send: &'s Send) -> Result<Cow<'s, Envelope>, Attempted> {
    let envelope = send.event.envelope.as_ref();
    let (event_type, major) = (envelope.event_type.as_str(), envelope.schema_version);
    // Only an event whose attempts were counted before they were made gets here with none left.
    if !send.replay && spec.retry_for(event_type).exhausted(send.attempts) {
        return Err(Attempted::Dead(
            DeadReason::Attempts,
            format!(
                "no attempt is left after {}: the process ended during the last one, or `max_attempts` was lowered; make \
                 the handler end without taking the process along, then replay the event",
                send.attempts
            ),
        ));
    }
    if let Some(defect) = send.event.defect {
        return Err(Attempted::Dead(DeadReason::Undecodable, defect.to_string()));
    }
    match spec.pinned(event_type) {
        None => Ok(Cow::Borrowed(envelope)),
        Some(pinned) if pinned == major => Ok(Cow::Borrowed(envelope)),
        Some(pinned) => envelope.in_major(pinned).map(Cow::Owned).ok_or_else(|| {
            Attempted::Dead(
                DeadReason::MajorMissing,
                format!(
                    "the consumer pins major {pinned} of `{event_type}` and the event has major {major}; move the pin, or \
                     have the producer store the older major too (`also_as`)"
                ),
            )
        }),
    }
}

/// Checks the form that is delivered.
fn validate(
    schemas: &Schemas,
    missing: MissingSchema,
    shared: Option<&Checked>,
    form: &Envelope,
) -> Result<(), Attempted> {
    let (event_type, major) = (form.event_type.as_str(), form.schema_version);
    let generation = schemas.generation();
    match schemas.check(shared, form) {
        Validity::Valid => Ok(()),
        Validity::Invalid(violations) => {
            Err(Attempted::Dead(DeadReason::SchemaViolation, violations.to_string()))
        }
        Validity::Refused(members) => Err(Attempted::Dead(
            DeadReason::SchemaViolation,
            format!(
                "{members}; commit the producer's schema as the next minor, or set `[registry] undeclared = \"count\"`"
            ),
        )),
        Validity::InDoubt(error) => {
            Err(Attempted::Held { reason: DeadReason::SchemaViolation, error, generation })
        }
        Validity::Unreadable(why) => Err(Attempted::Dead(DeadReason::Undecodable, why.to_string())),
        Validity::Unknown { .. } if missing == MissingSchema::Deliver => Ok(()),
        Validity::Unknown { known_majors } => Err(Attempted::Held {
            reason: DeadReason::SchemaMissing,
            error: format!(
                "the registry has no schema for `{event_type}` v{major}{}; add the file, or set `[registry] missing = \"deliver\"`",
                if known_majors.is_empty() {
                    String::new()
                } else {
                    format!(" (it has the majors {known_majors:?})")
                }
            ),
            generation,
        }),
    }
}

async fn deliver(consumer: &Consumer, send: &Send, form: &Envelope, answer: &Answer) -> Outcome {
    let attempt = send.attempts.saturating_add(1);
    let delivery = Delivery { envelope: form, attempt, replay: send.replay, answer };
    match timeout(consumer.spec.timeout, consumer.sink.deliver(delivery)).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::Retry {
            error: format!("no answer within the consumer's time limit of {:?}", consumer.spec.timeout),
            after: None,
        },
    }
}

fn panic_text(panic: &(dyn std::any::Any + std::marker::Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is no text")
}

/// What the attempt means for the slot: pure. `random` is uniform in `0.0..1.0`.
pub(crate) fn judge(
    spec: &ConsumerSpec,
    missing: MissingSchema,
    send: &Send,
    attempted: Attempted,
    now: Instant,
    random: f64,
) -> Verdict {
    let attempts = send.attempts.saturating_add(if planted("attempts-twice") { 2 } else { 1 });
    let event_type = send.event.envelope.event_type.as_str();
    let policy = spec.retry_for(event_type);
    let dead = |reason, attempts, error: &str| Verdict::Dead {
        letter: NewDeadLetter {
            event_id: send.event.envelope.id,
            reason,
            attempts,
            max_attempts: policy.max_attempts,
            last_error: clip(error),
        },
        block: spec.on_dead_for(event_type) == OnDead::Block,
    };
    match attempted {
        Attempted::Sink(Outcome::Delivered) => Verdict::Delivered,
        Attempted::Sink(Outcome::Unavailable { .. } | Outcome::Gone { .. }) | Attempted::Lapsed => {
            Verdict::Unavailable
        }
        Attempted::Sink(Outcome::Reject { error }) => dead(DeadReason::Rejected, attempts, &error),
        // A replay is one more attempt, and no more than one.
        Attempted::Sink(Outcome::Retry { error, .. }) if send.replay || policy.exhausted(attempts) => {
            dead(DeadReason::Attempts, attempts, &error)
        }
        Attempted::Sink(Outcome::Retry { error, after }) => {
            let own = policy.delay(attempts, random);
            let delay = after.map_or(own, |wish| wish.clamp(own, MAX_RETRY_AFTER.max(own)));
            Verdict::Park { attempts, delay, error: clip(&error), schema_missing_since: None }
        }
        Attempted::Dead(reason, error) => dead(reason, send.attempts, &error),
        Attempted::Held { reason, error, .. } => {
            let since = send.schema_missing_since.unwrap_or(now);
            let waited = now.saturating_duration_since(since);
            if send.replay || waited >= missing.dead_after() {
                return dead(reason, send.attempts, &error);
            }
            let delay = waited.clamp(SCHEMA_WAIT.0, SCHEMA_WAIT.1).mul_f64(1.0 + 0.2 * random);
            Verdict::Park {
                attempts: send.attempts,
                // The last look is when the time is over.
                delay: delay.min(missing.dead_after() - waited),
                error: clip(&error),
                schema_missing_since: Some(since),
            }
        }
    }
}

/// Error texts are kept short and free of control characters: they go to a column and to logs.
pub(crate) fn clip(error: &str) -> String {
    let text: String = error.chars().take(MAX_ERROR_CHARS).collect();
    text.replace(|c: char| c.is_control() && c != '\n', " ")
}

#[cfg(test)]
mod tests {
    use outbox_sdk::{Envelope, Lane};

    use super::*;
    use crate::retry::{RetryPolicy, Schedule};
    use crate::slot::Event;

    fn send(attempts: u32) -> Send {
        Send {
            lane: Lane::Single(1),
            event: Event {
                envelope: Arc::new(Envelope::example("customer.updated", 1, "{}")),
                defect: None,
                filled_gap: false,
                checked: None,
            },
            attempts,
            schema_missing_since: None,
            replay: false,
        }
    }

    fn spec() -> ConsumerSpec {
        let schedule = Schedule::List(vec![Duration::from_secs(10), Duration::from_secs(60)]);
        ConsumerSpec::new("crm").unwrap().retry(RetryPolicy { schedule, max_attempts: 3 })
    }

    fn retry(after: Option<u64>) -> Attempted {
        Attempted::Sink(Outcome::Retry { error: "503".into(), after: after.map(Duration::from_secs) })
    }

    fn judged(send: &Send, attempted: Attempted) -> Verdict {
        judge(&spec(), MissingSchema::default(), send, attempted, Instant::now(), 0.0)
    }

    fn delay(verdict: &Verdict) -> u64 {
        match verdict {
            Verdict::Park { delay, .. } => delay.as_secs(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_failure_waits_by_the_policy_and_ends_dead() {
        assert_eq!(delay(&judged(&send(0), retry(None))), 10);
        assert_eq!(delay(&judged(&send(1), retry(None))), 60);
        let Verdict::Dead { letter, block: false } = judged(&send(2), retry(None)) else {
            panic!("not dead")
        };
        assert_eq!((letter.reason, letter.attempts, letter.max_attempts), (DeadReason::Attempts, 3, 3));
    }

    #[test]
    fn a_wish_counts_between_the_own_delay_and_an_hour() {
        assert_eq!(delay(&judged(&send(0), retry(Some(1)))), 10);
        assert_eq!(delay(&judged(&send(0), retry(Some(120)))), 120);
        assert_eq!(delay(&judged(&send(0), retry(Some(999_999)))), 3600);
    }

    #[test]
    fn waiting_for_a_schema_burns_no_attempt_and_ends_after_its_time() {
        let now = Instant::now();
        let missing = || Attempted::Held {
            reason: DeadReason::SchemaMissing,
            error: "no schema".into(),
            generation: 0,
        };
        let first = judge(&spec(), MissingSchema::default(), &send(2), missing(), now, 0.0);
        let Verdict::Park { attempts: 2, delay, schema_missing_since: Some(since), .. } = first else {
            panic!("{first:?}")
        };
        assert_eq!((delay, since), (Duration::from_secs(60), now));
        let mut waiting = send(2);
        waiting.schema_missing_since = Some(since);
        let later = now + Duration::from_secs(300);
        let second = judge(&spec(), MissingSchema::default(), &waiting, missing(), later, 0.0);
        let Verdict::Park { delay, .. } = second else { panic!("{second:?}") };
        assert_eq!(delay.as_secs(), 300);
        let near = now + Duration::from_secs(24 * 3600 - 7);
        let last = judge(&spec(), MissingSchema::default(), &waiting, missing(), near, 1.0);
        let Verdict::Park { delay, .. } = last else { panic!("{last:?}") };
        assert_eq!(delay.as_secs(), 7, "not beyond the limit");
        let end = now + Duration::from_secs(24 * 3600);
        let last = judge(&spec(), MissingSchema::default(), &waiting, missing(), end, 0.0);
        assert!(matches!(last, Verdict::Dead { letter, .. } if letter.reason == DeadReason::SchemaMissing));
    }

    #[test]
    fn an_event_that_meets_a_receiver_that_is_gone_keeps_its_attempts() {
        let gone = Attempted::Sink(Outcome::Gone { error: "410".into() });
        assert_eq!(judged(&send(2), gone), Verdict::Unavailable, "the last one would make it dead");
    }

    #[test]
    fn a_rejected_event_blocks_its_lane_only_when_told_to() {
        let rejected = || Attempted::Sink(Outcome::Reject { error: "no".into() });
        assert!(matches!(judged(&send(0), rejected()), Verdict::Dead { block: false, .. }));
        let blocking = spec().on_dead(OnDead::Block);
        let verdict = judge(&blocking, MissingSchema::default(), &send(0), rejected(), Instant::now(), 0.0);
        assert!(matches!(verdict, Verdict::Dead { block: true, letter } if letter.attempts == 1));
        let other_type = blocking.override_on_dead("customer.*", OnDead::Continue).unwrap();
        let verdict = judge(&other_type, MissingSchema::default(), &send(0), rejected(), Instant::now(), 0.0);
        assert!(matches!(verdict, Verdict::Dead { block: false, .. }), "as the event's type says");
    }

    /// Counts its calls.
    #[derive(Default)]
    struct Counting(AtomicU64);

    impl Sink for Counting {
        fn deliver<'a>(&'a self, _: Delivery<'a>) -> futures_util::future::BoxFuture<'a, Outcome> {
            self.0.fetch_add(1, Ordering::Relaxed);
            futures_util::future::ready(Outcome::Delivered).boxed()
        }
    }

    #[tokio::test]
    async fn no_sink_is_called_after_the_lease() {
        let sink = Arc::new(Counting::default());
        let consumer = Consumer { spec: spec(), sink: sink.clone(), settled: Arc::default() };
        let over = Lease::until(Instant::now());
        let (schemas, event) = (Schemas::none(), send(0));
        let lapsed =
            attempt(&consumer, &schemas, MissingSchema::Deliver, &over, &History::default(), &event).await;
        assert!(matches!(lapsed, Attempted::Lapsed), "{lapsed:?}");
        assert_eq!(sink.0.load(Ordering::Relaxed), 0);
        assert_eq!(judged(&event, lapsed), Verdict::Unavailable, "no attempt is counted");

        over.renew(Instant::now() + Duration::from_secs(60));
        let sent =
            attempt(&consumer, &schemas, MissingSchema::Deliver, &over, &History::default(), &event).await;
        assert!(matches!(sent, Attempted::Sink(Outcome::Delivered)), "{sent:?}");
        assert_eq!(sink.0.load(Ordering::Relaxed), 1);
    }

    /// What a panic may throw.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Self);
        }
    }

    struct Exploding;

    impl Sink for Exploding {
        fn deliver<'a>(&'a self, _: Delivery<'a>) -> futures_util::future::BoxFuture<'a, Outcome> {
            async { std::panic::panic_any(Bomb) }.boxed()
        }
    }

    #[tokio::test]
    async fn a_panic_that_throws_a_value_which_panics_is_a_failed_attempt() {
        let consumer = Consumer { spec: spec(), sink: Arc::new(Exploding), settled: Arc::default() };
        let lease = Lease::until(Instant::now() + Duration::from_secs(60));
        let tried = attempt(
            &consumer,
            &Schemas::none(),
            MissingSchema::Deliver,
            &lease,
            &History::default(),
            &send(0),
        )
        .await;
        assert!(matches!(tried, Attempted::Sink(Outcome::Retry { .. })), "{tried:?}");
    }

    #[test]
    fn a_lease_that_is_over_lets_nothing_through_until_it_is_renewed() {
        let now = Instant::now();
        let lease = Lease::until(now);
        let shared = lease.clone();
        assert!(!shared.holds());
        lease.renew(now + Duration::from_secs(60));
        assert!(shared.holds());
        lease.renew(now.checked_sub(Duration::from_secs(1)).unwrap_or(now));
        assert!(!shared.holds());
    }

    #[test]
    fn error_texts_are_short_and_without_control_characters() {
        assert_eq!(clip("a\u{1b}[31mb\r\nc"), "a [31mb \nc");
        assert_eq!(clip(&"é".repeat(5_000)).chars().count(), MAX_ERROR_CHARS);
    }
}
