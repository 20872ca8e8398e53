use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use outbox_relay::sink::{Delivery, Outcome, Sink};
use outbox_sdk::{Envelope, Lane};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::PATIENCE;

/// One call of a [`RecordingSink`].
#[derive(Clone, Debug)]
pub struct Call {
    /// Which call it was, from 0.
    pub index: usize,
    /// The event.
    pub envelope: Envelope,
    /// The attempt that the relay counted, from 1.
    pub attempt: u32,
    /// Whether an operator has it sent again.
    pub replay: bool,
    /// What was answered; `None` while the call runs, or when it was dropped or panicked.
    pub outcome: Option<Outcome>,
}

impl Call {
    /// The event's id.
    pub fn id(&self) -> i64 {
        self.envelope.id
    }
}

type Script = dyn Fn(&Call) -> Outcome + Send + Sync;

/// A sink that writes down every call and answers as its script says.
pub struct RecordingSink {
    script: Box<Script>,
    state: Mutex<State>,
    changed: Notify,
    gate: tokio::sync::watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    running: BTreeMap<Lane, usize>,
    most_lanes: usize,
    overlaps: usize,
}

/// Ends a call's count when the call ends, however it ends.
struct Running<'s> {
    sink: &'s RecordingSink,
    lane: Lane,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.sink.state.lock().expect("no panic while locked");
        state.running.remove(&self.lane);
        drop(state);
        self.sink.changed.notify_waiters();
    }
}

impl RecordingSink {
    /// A sink that takes everything.
    pub fn new() -> Arc<Self> {
        Self::scripted(|_| Outcome::Delivered)
    }

    /// A sink that answers each call as `script` says. The script may panic.
    pub fn scripted(script: impl Fn(&Call) -> Outcome + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            script: Box::new(script),
            state: Mutex::default(),
            changed: Notify::new(),
            gate: tokio::sync::watch::Sender::new(true),
        })
    }

    /// Holds every call from now on until [`open`](Self::open).
    pub fn hold(&self) {
        self.gate.send_replace(false);
    }

    /// Lets held calls go on.
    pub fn open(&self) {
        self.gate.send_replace(true);
    }

    /// Every call so far.
    pub fn calls(&self) -> Vec<Call> {
        self.state.lock().expect("no panic while locked").calls.clone()
    }

    /// The ids that were taken, in the order of the calls.
    pub fn delivered(&self) -> Vec<i64> {
        self.calls().iter().filter(|call| call.outcome == Some(Outcome::Delivered)).map(Call::id).collect()
    }

    /// How many lanes were at the sink at once, at most.
    pub fn most_lanes(&self) -> usize {
        self.state.lock().expect("no panic while locked").most_lanes
    }

    /// How often a lane had two events at the sink at once.
    pub fn overlaps(&self) -> usize {
        self.state.lock().expect("no panic while locked").overlaps
    }

    /// Waits until the calls are as wanted.
    ///
    /// # Panics
    /// After [`PATIENCE`], with `what` and the calls.
    pub async fn wait_until(&self, what: &str, mut enough: impl FnMut(&[Call]) -> bool) -> Vec<Call> {
        let waited = timeout(PATIENCE, async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let calls = self.calls();
                if enough(&calls) {
                    return calls;
                }
                changed.await;
            }
        });
        match waited.await {
            Ok(calls) => calls,
            Err(_) => panic!("waited {PATIENCE:?} in vain until {what}; calls: {:?}", self.summary()),
        }
    }

    /// Waits until this many events were taken.
    pub async fn wait_for_delivered(&self, number: usize) -> Vec<i64> {
        let taken = |calls: &[Call]| {
            calls.iter().filter(|call| call.outcome == Some(Outcome::Delivered)).count() >= number
        };
        self.wait_until(&format!("{number} events are delivered"), taken).await;
        self.delivered()
    }

    fn summary(&self) -> Vec<(i64, u32, Option<Outcome>)> {
        self.calls().into_iter().map(|call| (call.id(), call.attempt, call.outcome)).collect()
    }

    fn begin(&self, delivery: Delivery<'_>) -> (Call, Running<'_>) {
        let lane = delivery.envelope.lane();
        let mut state = self.state.lock().expect("no panic while locked");
        let call = Call {
            index: state.calls.len(),
            envelope: delivery.envelope.clone(),
            attempt: delivery.attempt,
            replay: delivery.replay,
            outcome: None,
        };
        state.calls.push(call.clone());
        if state.running.insert(lane.clone(), call.index).is_some() {
            state.overlaps += 1;
        }
        state.most_lanes = state.most_lanes.max(state.running.len());
        drop(state);
        self.changed.notify_waiters();
        (call, Running { sink: self, lane })
    }
}

impl Sink for RecordingSink {
    fn deliver<'a>(
        &'a self,
        delivery: Delivery<'a>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Outcome> + Send + 'a>> {
        Box::pin(async move {
            let (call, running) = self.begin(delivery);
            let mut gate = self.gate.subscribe();
            // The sender lives as long as the sink.
            let _ = gate.wait_for(|open| *open).await;
            // Lets the other lanes come in, so that overlaps show.
            tokio::task::yield_now().await;
            let outcome = (self.script)(&call);
            self.state.lock().expect("no panic while locked").calls[call.index].outcome =
                Some(outcome.clone());
            drop(running);
            outcome
        })
    }
}
