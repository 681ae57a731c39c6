//! Metrics of the reporter, beside those of every controller.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use settled_controller::metrics::Metrics;

use crate::evaluation::Totals;
use crate::location::Location;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    provider: String,
    outcome: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LocationLabel {
    location: &'static str,
}

/// | metric | labels | value |
/// |---|---|---|
/// | `settled_netpol_policies` | `provider`, `outcome` | policies |
/// | `settled_netpol_evaluated_policies_total` | | policies that were evaluated: after a change, those of its namespace |
/// | `settled_netpol_location` | `location` | 1 for where conditions are written |
/// | `settled_netpol_owned_by_others_total` | | conditions that another manager owns, and that were left alone |
pub(crate) struct ReportMetrics {
    policies: Family<PolicyLabels, Gauge>,
    evaluated: Counter,
    location: Family<LocationLabel, Gauge>,
    pub(crate) owned_by_others: Counter,
    known: Mutex<BTreeSet<(String, &'static str)>>,
}

impl ReportMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let this = Self {
            policies: Family::default(),
            evaluated: Counter::default(),
            location: Family::default(),
            owned_by_others: Counter::default(),
            known: Mutex::default(),
        };
        metrics.register(|registry| {
            registry.register(
                "settled_netpol_policies",
                "Policies by provider and outcome",
                this.policies.clone(),
            );
            registry.register(
                "settled_netpol_evaluated_policies",
                "Policies that were evaluated",
                this.evaluated.clone(),
            );
            registry.register(
                "settled_netpol_location",
                "Where conditions are written",
                this.location.clone(),
            );
            registry.register(
                "settled_netpol_owned_by_others",
                "Conditions that another manager owns, and that were left alone",
                this.owned_by_others.clone(),
            );
        });
        this
    }

    pub(crate) fn evaluated(&self, count: usize, totals: &Totals) {
        self.evaluated.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(totals.keys().cloned());
        for (provider, outcome) in known.iter() {
            let labels = PolicyLabels { provider: provider.clone(), outcome: (*outcome).to_owned() };
            let count = totals.get(&(provider.clone(), *outcome)).copied().unwrap_or_default();
            self.policies.get_or_create(&labels).set(count);
        }
    }

    pub(crate) fn set_location(&self, current: Location) {
        for location in Location::ALL {
            let label = LocationLabel { location: location.as_str() };
            self.location.get_or_create(&label).set(i64::from(location == current));
        }
    }
}
