//! Configuration of the reporter.

use std::time::Duration;

use settled_netpol::profile::{Profiles, ProviderRef};

/// What the reporter evaluates policies with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Profiles of providers.
    pub profiles: Profiles,
    /// Providers that are known. If there are none, they are detected in the cluster, and detected again when it changes.
    pub providers: Vec<ProviderRef>,
    /// Whether conditions are written into reports even if the API server has a field for them.
    pub only_reports: bool,
    /// How often that is read for which there is no watch: versions that nodes and other objects say, and ConfigMaps with options; how
    /// often a status that the API server ignores is tried again; and how often reports without a policy are looked for.
    pub poll_interval: Duration,
}

impl Config {
    /// Detection with these profiles, polling once a minute.
    #[must_use]
    pub const fn new(profiles: Profiles) -> Self {
        Self { profiles, providers: Vec::new(), only_reports: false, poll_interval: Duration::from_secs(60) }
    }

    /// These providers, without detection.
    #[must_use]
    pub fn providers(mut self, providers: impl IntoIterator<Item = ProviderRef>) -> Self {
        self.providers = providers.into_iter().collect();
        self
    }

    /// Conditions in reports, whatever the API server has.
    #[must_use]
    pub const fn only_reports(mut self) -> Self {
        self.only_reports = true;
        self
    }

    /// Another interval for polls.
    #[must_use]
    pub const fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }
}
