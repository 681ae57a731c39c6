//! Prometheus metrics under controller-runtime's names, so that dashboards and alerts made for it work.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::queue::{Counts, Queue};

/// controller-runtime's buckets of reconcile durations, in seconds.
const RECONCILE_BUCKETS: [f64; 33] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0,
];
/// client-go's buckets of work queue durations, in seconds.
const QUEUE_BUCKETS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0];

/// The metrics of a process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    registry: Registry,
    /// Each metric is registered once, with a label for the controller, queue or lease.
    controllers: Families,
    queues: Queues,
    leading: Family<NameLabel, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut state = State {
            registry: Registry::default(),
            controllers: Families::default(),
            queues: Queues::default(),
            leading: Family::default(),
        };
        state.controllers.register(&mut state.registry);
        state.registry.register_collector(Box::new(state.queues.clone()));
        state.registry.register(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master",
            state.leading.clone(),
        );
        Self(Arc::new(Mutex::new(state)))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabel {
    name: String,
}

/// Result of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// No requeue.
    Success,
    /// Requeue after a delay.
    RequeueAfter,
    /// It failed.
    Error,
    /// It panicked.
    Panic,
}

impl Metrics {
    /// A process without metrics.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers custom metrics.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.state().registry);
    }

    /// The metrics of a controller with this many workers.
    #[must_use]
    pub fn controller(&self, name: &str, workers: usize) -> ControllerMetrics {
        let metrics =
            ControllerMetrics { controller: name.to_owned(), families: self.state().controllers.clone() };
        let Families { results, errors, panics, active, max, .. } = &metrics.families;
        let label = metrics.label();
        max.get_or_create(&label).set(i64::try_from(workers).unwrap_or(i64::MAX));
        // Initialized to zero, so that rates are defined from the start.
        for result in ["success", "requeue_after", "error"] {
            drop(results.get_or_create(&ResultLabels { controller: name.to_owned(), result }));
        }
        drop(errors.get_or_create(&label));
        drop(panics.get_or_create(&label));
        drop(active.get_or_create(&label));
        metrics
    }

    /// Adds a queue, whose counters are read with the metrics.
    pub fn queue<K>(&self, name: &str, queue: &Queue<K>)
    where
        K: Clone + Eq + Hash + Debug + Send + Sync + 'static,
    {
        let queue = queue.clone();
        self.state().queues.add(name, Box::new(move || queue.counts()));
    }

    /// Sets whether this process is the leader: 1 or 0.
    #[must_use]
    pub fn leader(&self, lease: &str) -> Gauge {
        self.state().leading.get_or_create_owned(&NameLabel { name: lease.to_owned() })
    }

    /// All metrics as text, in the `OpenMetrics` format.
    ///
    /// # Errors
    /// A custom collector failed.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.state().registry)?;
        Ok(text)
    }
}

/// The metrics of all controllers.
#[derive(Clone, Debug)]
struct Families {
    results: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabel, Counter>,
    panics: Family<ControllerLabel, Counter>,
    active: Family<ControllerLabel, Gauge>,
    max: Family<ControllerLabel, Gauge>,
    seconds: Family<ControllerLabel, Histogram, fn() -> Histogram>,
    waited: Family<NameLabel, Histogram, fn() -> Histogram>,
    worked: Family<NameLabel, Histogram, fn() -> Histogram>,
}

impl Default for Families {
    fn default() -> Self {
        Self {
            results: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            active: Family::default(),
            max: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(RECONCILE_BUCKETS)),
            waited: Family::new_with_constructor(|| Histogram::new(QUEUE_BUCKETS)),
            worked: Family::new_with_constructor(|| Histogram::new(QUEUE_BUCKETS)),
        }
    }
}

impl Families {
    fn register(&self, registry: &mut Registry) {
        let name = |name: &str| format!("controller_runtime_{name}");
        registry.register(
            name("reconcile"),
            "Total number of reconciliations per controller",
            self.results.clone(),
        );
        registry.register(
            name("reconcile_errors"),
            "Total number of reconciliation errors per controller",
            self.errors.clone(),
        );
        registry.register(
            name("reconcile_panics"),
            "Total number of reconciliation panics per controller",
            self.panics.clone(),
        );
        registry.register(
            name("reconcile_time_seconds"),
            "Length of time per reconciliation per controller",
            self.seconds.clone(),
        );
        registry.register(
            name("active_workers"),
            "Number of currently used workers per controller",
            self.active.clone(),
        );
        registry.register(
            name("max_concurrent_reconciles"),
            "Maximum number of concurrent reconciles per controller",
            self.max.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            self.waited.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            self.worked.clone(),
        );
    }
}

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    controller: String,
    families: Families,
}

impl ControllerMetrics {
    /// Starts a reconcile, whose key was ready for this long.
    pub fn begin(&self, waited: Duration) {
        self.families.active.get_or_create(&self.label()).inc();
        self.families
            .waited
            .get_or_create(&NameLabel { name: self.controller.clone() })
            .observe(waited.as_secs_f64());
    }

    /// Ends a reconcile.
    pub fn end(&self, result: ReconcileResult, took: Duration) {
        let label = self.label();
        self.families.active.get_or_create(&label).dec();
        let name = match result {
            ReconcileResult::Success => "success",
            ReconcileResult::RequeueAfter => "requeue_after",
            ReconcileResult::Error | ReconcileResult::Panic => "error",
        };
        self.families
            .results
            .get_or_create(&ResultLabels { controller: self.controller.clone(), result: name })
            .inc();
        if name == "error" {
            self.families.errors.get_or_create(&label).inc();
        }
        if result == ReconcileResult::Panic {
            self.families.panics.get_or_create(&label).inc();
        }
        self.families.seconds.get_or_create(&label).observe(took.as_secs_f64());
        self.families
            .worked
            .get_or_create(&NameLabel { name: self.controller.clone() })
            .observe(took.as_secs_f64());
    }

    fn label(&self) -> ControllerLabel {
        ControllerLabel { controller: self.controller.clone() }
    }
}

/// Counters of a queue.
type ReadCounts = Box<dyn Fn() -> Counts + Send + Sync>;

/// All queues, by name: each metric is written once, with all of them.
#[derive(Clone, Default)]
struct Queues(Arc<Mutex<Vec<(String, ReadCounts)>>>);

impl Queues {
    fn add(&self, name: &str, counts: ReadCounts) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), counts));
    }
}

impl Debug for Queues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        formatter.debug_list().entries(queues.iter().map(|(name, _)| name)).finish()
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queues.is_empty() {
            return Ok(());
        }
        let queues: Vec<_> = queues.iter().map(|(name, read)| ([("name", name.as_str())], read())).collect();
        let mut counter = |name: &str, help: &str, value: fn(&Counts) -> u64| -> fmt::Result {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            queues.iter().try_for_each(|(name, counts)| {
                ConstCounter::new(value(counts)).encode(metric.encode_family(name)?)
            })
        };
        counter("workqueue_adds", "Total number of adds handled by workqueue", |counts| counts.adds)?;
        counter("workqueue_retries", "Total number of retries handled by workqueue", |counts| {
            counts.retries
        })?;
        let mut gauge = |name: &str, help: &str, value: fn(&Counts) -> usize| -> fmt::Result {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            queues.iter().try_for_each(|(name, counts)| {
                let value = i64::try_from(value(counts)).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(metric.encode_family(name)?)
            })
        };
        gauge("workqueue_depth", "Current depth of workqueue", |counts| counts.depth)?;
        gauge("workqueue_delayed", "Current number of keys that wait for a delay or a backoff", |counts| {
            counts.delayed
        })
    }
}
