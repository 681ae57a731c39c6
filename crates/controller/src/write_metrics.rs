//! Metrics of status writes and events, which controller-runtime does not have.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Resource;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use crate::events::{EventCounts, Recorder};
use crate::metrics::Metrics;
use crate::status::{Counts, StatusWriter};

/// Status writers and event recorders of a process, by controller. Clones share them.
///
/// | metric | labels | counts |
/// |---|---|---|
/// | `settled_status_writes_total` | `controller`, `outcome`: `written`, `unchanged`, `gone`, `failed` | status writes
/// |
/// | `settled_status_conflicts_total` | `controller` | conflicts |
/// | `settled_status_fights_total` | `controller` | writes that restored fields changed by another manager |
/// | `settled_events_total` | `controller`, `outcome`: `written`, `dropped`, `failed` | events |
#[derive(Clone, Default)]
pub struct WriteMetrics(Arc<Mutex<Sources>>);

#[derive(Default)]
struct Sources {
    writers: Vec<Source<Counts>>,
    recorders: Vec<Source<EventCounts>>,
}

/// A controller with its counters.
struct Source<T> {
    controller: String,
    counts: Box<dyn Fn() -> T + Send + Sync>,
}

impl WriteMetrics {
    /// Registers the metrics of a process. Call it once.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let sources = Self::default();
        metrics.register(|registry| registry.register_collector(Box::new(sources.clone())));
        sources
    }

    /// Adds a status writer of a controller.
    pub fn status<K>(&self, controller: impl Into<String>, writer: &StatusWriter<K>)
    where
        K: Resource + 'static,
    {
        let writer = writer.clone();
        let source = Source { controller: controller.into(), counts: Box::new(move || writer.counts()) };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).writers.push(source);
    }

    /// Adds an event recorder of a controller.
    pub fn events(&self, controller: impl Into<String>, recorder: &Recorder) {
        let counts = recorder.counter();
        let source = Source { controller: controller.into(), counts: Box::new(counts) };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recorders.push(source);
    }
}

impl fmt::Debug for WriteMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WriteMetrics").finish_non_exhaustive()
    }
}

impl Collector for WriteMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let writers: Vec<(&str, Counts)> = read(&sources.writers);
        let writes = writers.iter().flat_map(|(controller, counts)| {
            let outcomes = [
                ("written", counts.written),
                ("unchanged", counts.unchanged),
                ("gone", counts.gone),
                ("failed", counts.failed),
            ];
            outcomes.map(|(outcome, value)| (*controller, Some(outcome), value))
        });
        let conflicts = writers.iter().map(|(controller, counts)| (*controller, None, counts.conflicts));
        let fights = writers.iter().map(|(controller, counts)| (*controller, None, counts.fights));
        let recorders: Vec<(&str, EventCounts)> = read(&sources.recorders);
        let events = recorders.iter().flat_map(|(controller, counts)| {
            let outcomes =
                [("written", counts.written), ("dropped", counts.dropped), ("failed", counts.failed)];
            outcomes.map(|(outcome, value)| (*controller, Some(outcome), value))
        });
        family(&mut encoder, "settled_status_writes", "Decided statuses by outcome", writes)?;
        family(&mut encoder, "settled_status_conflicts", "Status writes that came too late", conflicts)?;
        let help = "Status writes that set back what another manager changed";
        family(&mut encoder, "settled_status_fights", help, fights)?;
        family(&mut encoder, "settled_events", "Events by outcome", events)
    }
}

fn read<T>(sources: &[Source<T>]) -> Vec<(&str, T)> {
    sources.iter().map(|source| (source.controller.as_str(), (source.counts)())).collect()
}

fn family<'c>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (&'c str, Option<&'c str>, u64)>,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (controller, outcome, value) in values {
        let counter = ConstCounter::new(value);
        match outcome {
            Some(outcome) => {
                let labels = [("controller", controller), ("outcome", outcome)];
                counter.encode(metric.encode_family(&labels)?)?;
            }
            None => counter.encode(metric.encode_family(&[("controller", controller)])?)?,
        }
    }
    Ok(())
}
