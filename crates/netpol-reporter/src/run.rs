//! Run of the reporter: discovery, caches, evaluations and workers, until the process is to end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use kube::Client;
use kube::api::DynamicObject;
use settled_controller::cache::{CacheStatus, Change};
use settled_controller::decision::RepairScan;
use settled_controller::health::Health;
use settled_controller::queue::{Backoff, Queue};
use settled_controller::run::Runtime;
use settled_controller::{ObjectKey, worker};
use settled_netpol::parse::parse_policy;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep, timeout};

use crate::detection::{self, Providers};
use crate::evaluation::{Observed, Part, Policies, evaluate};
use crate::location::{Location, Served, discover};
use crate::reconcile::Reporter;
use crate::{CONTROLLER, Config};

/// Policies that are written at the same time.
const WORKERS: usize = 8;
/// After failures of one policy.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(60) };
/// Priority of policies that were changed: before those whose provider was.
const CHANGED: i32 = 1;
/// Up to so many policies are evaluated at once; more on another thread, so that leases and probes go on.
const MAX_INLINE: usize = 256;
/// How often the loop of evaluations shows that it goes on, and for how long it may not.
const BEAT: Duration = Duration::from_secs(15);
const MAX_SILENCE: Duration = Duration::from_secs(120);
/// How soon discovery is tried again: at first, and at most.
const DISCOVERY_RETRY: Duration = Duration::from_millis(500);
const DISCOVERY_RETRY_MAX: Duration = Duration::from_secs(30);
/// For how long a report has to be without a policy before it is deleted: the garbage collector is faster.
const ORPHAN_GRACE: Duration = Duration::from_secs(300);
/// For how long events are waited for at the end.
const EVENTS_GRACE: Duration = Duration::from_secs(5);

/// Parts of `/readyz`.
const POLICIES: &str = "networkpolicies";
const PROVIDERS: &str = "providers";
const REPORTS: &str = "networkpolicyreports";
/// Part of `/livez`.
const EVALUATION: &str = "evaluation";

/// Reports until the process is to end.
pub fn run(runtime: Runtime, config: Config) -> BoxFuture<'static, ()> {
    // Boxed, so that it is compiled here, and not again in each program.
    Box::pin(report(runtime, config))
}

async fn report(runtime: Runtime, config: Config) {
    for part in [POLICIES, PROVIDERS] {
        runtime.health.set_ready(part, false);
    }
    let served = tokio::select! {
        biased;
        () = runtime.shutdown.clone().requested() => return,
        served = served(&runtime.client) => served,
    };
    let location = if served.status && !config.only_reports { Location::Status } else { Location::Report };
    let reporter = Reporter::new(&runtime, location);
    // Reports may be left over from a time without the field.
    if served.reports || location != Location::Status {
        let _followed = reporter.reports();
    }
    let queue = Queue::new(BACKOFF);
    runtime.metrics.queue(CONTROLLER, &queue);
    let metrics = runtime.metrics.controller(CONTROLLER, WORKERS);
    let config = Arc::new(config);
    let (providers, found) = watch::channel(None);
    let evaluations =
        Evaluations { reporter: &reporter, config: &config, queue: &queue, health: &runtime.health };
    let shared = &reporter;
    let background = async {
        tokio::join!(
            detection::follow(&runtime.client, &config, &providers),
            evaluations.run(found),
            follow_reports(&reporter, &queue, &runtime.health),
            poll(&reporter, &config),
        )
    };
    let work =
        worker::run(
            &queue,
            WORKERS,
            Some(&metrics),
            |key: ObjectKey| async move { shared.reconcile(&key).await },
        );
    let stop = async {
        runtime.shutdown.clone().requested().await;
        queue.shut_down();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = stop => {}
        _ = background => {}
        () = work => {}
    }
    runtime.health.remove(EVALUATION);
    if timeout(EVENTS_GRACE, reporter.finish()).await.is_err() {
        tracing::warn!("events were not written in time");
    }
}

/// What the API server serves, once it answers.
async fn served(client: &Client) -> Served {
    let mut pause = DISCOVERY_RETRY;
    loop {
        match discover(client).await {
            Ok(served) => return served,
            Err(error) => tracing::warn!(%error, ?pause, "cannot ask the API server for what it serves"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(DISCOVERY_RETRY_MAX);
    }
}

/// The loop of evaluations.
struct Evaluations<'r> {
    reporter: &'r Reporter,
    config: &'r Arc<Config>,
    queue: &'r Queue<ObjectKey>,
    health: &'r Health,
}

impl Evaluations<'_> {
    /// Evaluates a namespace whenever the spec of a policy in it has changed, and all when a provider has, and queues the policies whose
    /// conditions are to change.
    async fn run(&self, mut providers: watch::Receiver<Option<Arc<Providers>>>) {
        if self.reporter.policies.wait_until_ready().await.is_err() {
            return;
        }
        self.health.set_ready(POLICIES, true);
        if providers.wait_for(Option::is_some).await.is_err() {
            return;
        }
        self.health.set_ready(PROVIDERS, true);
        let mut policies = Policies::new();
        let mut changes = self.reporter.policies.changes();
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Namespaces with a policy that was not evaluated yet, and policies with an event.
        let (mut changed, mut touched) = (BTreeSet::new(), Vec::new());
        let mut is_provider_new = true;
        loop {
            while let Some(Some(change)) = changes.next().now_or_never() {
                changed.extend(note(&mut policies, &change));
                touched.push(change.key);
            }
            is_provider_new |= providers.has_changed().unwrap_or_default();
            if is_provider_new {
                changed.extend(policies.keys().cloned());
            }
            if !changed.is_empty() {
                let found = providers.borrow_and_update().clone().unwrap_or_default();
                let Some((count, parts)) = self.evaluate(found, &policies, &changed).await else { continue };
                for key in self.reporter.take(count, parts) {
                    self.queue.add(key, 0);
                }
                for namespace in std::mem::take(&mut changed) {
                    if policies.get(&namespace).is_some_and(BTreeMap::is_empty) {
                        policies.remove(&namespace);
                    }
                }
            }
            is_provider_new = false;
            for key in touched.drain(..) {
                self.queue.add(key, CHANGED);
            }
            tokio::select! {
                biased;
                _ = beat.tick() => self.health.beat(EVALUATION, MAX_SILENCE),
                changed = providers.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    is_provider_new = true;
                }
                change = changes.next() => {
                    let Some(change) = change else { return };
                    changed.extend(note(&mut policies, &change));
                    touched.push(change.key);
                }
            }
        }
    }

    /// Evaluates these namespaces, and counts their policies. None if the evaluation failed: it is tried again.
    async fn evaluate(
        &self,
        providers: Arc<Providers>,
        policies: &Policies,
        namespaces: &BTreeSet<Arc<str>>,
    ) -> Option<(usize, BTreeMap<Arc<str>, Part>)> {
        let namespaces = namespaces
            .iter()
            .map(|namespace| (namespace.clone(), policies.get(namespace).cloned().unwrap_or_default()));
        let policies: Policies = namespaces.collect();
        let count = policies.values().map(BTreeMap::len).sum();
        if count <= MAX_INLINE {
            return Some((count, evaluate(&self.config.profiles, &providers, &policies)));
        }
        let config = Arc::clone(self.config);
        let evaluated =
            tokio::task::spawn_blocking(move || evaluate(&config.profiles, &providers, &policies));
        match evaluated.await {
            Ok(parts) => Some((count, parts)),
            Err(error) => {
                tracing::error!(%error, "an evaluation failed");
                sleep(BACKOFF.max).await;
                None
            }
        }
    }
}

/// Records a change of a policy. Returns its namespace if there is anything new to evaluate.
fn note(policies: &mut Policies, change: &Change<DynamicObject>) -> Option<Arc<str>> {
    let namespace = &change.key.namespace;
    let removed =
        |policies: &mut Policies| policies.get_mut(namespace)?.remove(&change.key).map(|_| namespace.clone());
    let Some(policy) = &change.new else { return removed(policies) };
    let uid = policy.metadata.uid.clone().unwrap_or_default();
    let generation = policy.metadata.generation;
    let known = policies.get(namespace).and_then(|policies| policies.get(&change.key));
    if known.is_some_and(|known| {
        known.uid == uid && generation.is_some() && known.parsed.generation == generation
    }) {
        return None;
    }
    match parsed(policy) {
        Ok(parsed) => {
            let observed = Observed { uid, parsed: Arc::new(parsed) };
            policies.entry(namespace.clone()).or_default().insert(change.key.clone(), observed);
            Some(namespace.clone())
        }
        Err(error) => {
            tracing::error!(policy = %change.key, %error, "cannot read a policy");
            removed(policies)
        }
    }
}

fn parsed(policy: &DynamicObject) -> Result<settled_netpol::parse::Parsed, String> {
    let mut object = serde_json::to_value(policy).map_err(|error| error.to_string())?;
    // Items of lists have neither.
    object["apiVersion"] = "networking.k8s.io/v1".into();
    object["kind"] = "NetworkPolicy".into();
    parse_policy(&object, "").map_err(|error| error.to_string())
}

/// Queues the policies of reports that others change or delete, and all policies when conditions are to be written elsewhere or the API
/// server begins to serve reports.
async fn follow_reports(reporter: &Reporter, queue: &Queue<ObjectKey>, health: &Health) {
    let mut location = reporter.watch_location();
    let queue_all = || reporter.policies.keys().into_iter().for_each(|key| queue.add(key, 0));
    while !reporter.has_reports() {
        // The sender lives as long as the reporter.
        if location.changed().await.is_err() {
            return;
        }
        queue_all();
        if reporter.location() != Location::Status {
            break;
        }
    }
    let reports = reporter.reports();
    let (mut changes, mut status) = (reports.changes(), reports.watch_status());
    let mut was_served = None;
    loop {
        let current = status.borrow_and_update().clone();
        let is_served = current != CacheStatus::NoKind;
        let is_ready = is_served || reporter.location() == Location::Status;
        health.set_ready(REPORTS, is_ready);
        if was_served.replace(is_ready) != Some(is_ready) && !is_ready {
            tracing::error!(
                "the API server serves no networkpolicyreports; install the CRD: \
                 settled netpol report --print-crd | kubectl apply -f -"
            );
        }
        tokio::select! {
            biased;
            changed = location.changed() => {
                if changed.is_err() {
                    return;
                }
                queue_all();
            }
            changed = status.changed() => {
                if changed.is_err() {
                    return;
                }
                if reporter.location() != Location::Status && *status.borrow() == CacheStatus::Synced {
                    queue_all();
                }
            }
            change = changes.next() => {
                let Some(change) = change else { return };
                queue.add(change.key, 0);
            }
        }
    }
}

/// Checks periodically for changes without an event.
async fn poll(reporter: &Reporter, config: &Config) {
    let mut ticks = interval_at(Instant::now() + config.poll_interval, config.poll_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut scan = RepairScan::new(ORPHAN_GRACE);
    loop {
        ticks.tick().await;
        if !config.only_reports {
            reporter.look_for_status().await;
        }
        reporter.repair(&mut scan).await;
    }
}
