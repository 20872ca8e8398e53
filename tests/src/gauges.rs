use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, Gauge, GaugeFn, Histogram, Key, KeyName, LocalRecorderGuard, Metadata, Recorder, SharedString,
    Unit,
};

/// The last value of each gauge, by name, of what runs on this thread.
#[derive(Clone, Debug, Default)]
pub struct Gauges(Arc<Mutex<BTreeMap<String, f64>>>);

struct Named(Gauges, String);

impl Gauges {
    /// Listens until the guard is dropped.
    #[must_use]
    pub fn listen(&self) -> LocalRecorderGuard<'_> {
        metrics::set_default_local_recorder(self)
    }

    /// The gauge's last value, if it was ever set.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.lock().expect("no panic while locked").get(name).copied()
    }
}

impl GaugeFn for Named {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}
    fn set(&self, value: f64) {
        self.0.0.lock().expect("no panic while locked").insert(self.1.clone(), value);
    }
}

impl Recorder for Gauges {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(Named(self.clone(), key.name().to_owned())))
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
