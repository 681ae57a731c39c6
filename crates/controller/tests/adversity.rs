//! What goes wrong around a controller, and what comes of it: the Site controller on kube's `Controller`, and a cache of the kit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use settled_controller::cache::{Cache, CacheStatus};
use settled_controller::conditions::meta::find_status_condition;
use settled_controller::health::Health;
use settled_controller::metrics::Metrics;
use settled_controller::predicate::EventKind;
use settled_controller::run::{Runtime, Shutdown};
use settled_controller::worker::{Panicked, catch_panic};
use settled_controller::{Clock, ObjectKey};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::gate::{Gate, Outage};
use crate::harness::{api, server_in_virtual_time, wait};
use crate::intercept::record;
use crate::site::condition;
use crate::site::scenario::controller;
use crate::site::scenario::kind::{self, Site, SiteSpec};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const CRD: &str = "sites.example.com";

/// The Site controller while it runs.
struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(client: Client, clock: Clock) -> Self {
        let (stop, shutdown) = Shutdown::new();
        let (metrics, health) = (Metrics::new(), Health::new());
        let runtime = Runtime { client, clock, metrics, health, shutdown, token: None };
        Self { stop, task: tokio::spawn(controller::run(runtime)) }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.task.await.unwrap();
    }
}

async fn create(client: &Client, name: &str, page: &str) {
    let site = Site::new(name, SiteSpec { page: page.to_owned() });
    api::<Site>(client).create(&PostParams::default(), &site).await.unwrap();
}

async fn patch(client: &Client, patch: Value) -> Site {
    api::<Site>(client).patch("shop", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

async fn set_page(client: &Client, page: &str) {
    patch(client, json!({"spec": {"page": page}})).await;
}

/// Waits until the Site is ready at its present generation, and checks that this is true.
async fn ready(client: &Client, page: &str) -> Site {
    let is_ready = |site: &Site| condition(site, "Ready").is_some_and(|(status, _)| status == "True");
    let site = wait(api(client), "shop", |site: &Site| site.spec.page == page && is_ready(site)).await;
    let map = api::<ConfigMap>(client).get("shop").await.unwrap();
    assert_eq!(map.data.unwrap()["index.html"], page);
    site
}

fn transition(site: &Site, name: &str) -> String {
    let conditions = &site.status.as_ref().unwrap().conditions;
    find_status_condition(conditions, name).unwrap().last_transition_time.0.to_string()
}

/// The server is not there for ten minutes, or answers 429 to everything, or forgets each resourceVersion at once. Meanwhile the Site is
/// changed, and its ConfigMap is deleted, by another client.
#[tokio::test(start_paused = true)]
async fn a_controller_makes_up_for_an_outage_and_asks_seldom_during_it() {
    for outage in [Outage::Down, Outage::Busy, Outage::Forgetful] {
        let (server, clock) = server_in_virtual_time(&[kind::definition()]).await;
        let (admin, gate) = (server.client(), Gate::new(server.client()));
        let running = Running::start(gate.client(), clock);
        create(&admin, "shop", "one").await;
        ready(&admin, "one").await;

        let before = gate.requests();
        gate.set_outage(Some(outage));
        set_page(&admin, "two").await;
        api::<ConfigMap>(&admin).delete("shop", &DeleteParams::default()).await.unwrap();
        sleep(10 * MINUTE).await;
        let asked = gate.requests() - before;
        // Two watches, each of which is tried every half minute in the end; after 410 with a list.
        assert!(asked <= 150, "{outage:?}: {asked} requests in ten minutes");

        gate.set_outage(None);
        let over = Instant::now();
        ready(&admin, "two").await;
        assert!(over.elapsed() <= 2 * MINUTE, "{outage:?}: {:?}", over.elapsed());
        running.stop().await;
    }
}

/// The same with a cache of the kit: what it has is there during the outage, and it says what is wrong.
#[tokio::test(start_paused = true)]
async fn a_cache_makes_up_for_an_outage_and_asks_seldom_during_it() {
    for outage in [Outage::Down, Outage::Busy, Outage::Forgetful] {
        let (server, _) = server_in_virtual_time(&[kind::definition()]).await;
        let (admin, gate) = (server.client(), Gate::new(server.client()));
        create(&admin, "shop", "one").await;
        create(&admin, "gone", "one").await;
        let cache = Cache::<Site>::builder(gate.client()).start();
        cache.wait_until_ready().await.unwrap();
        let mut changes = cache.changes();
        for _ in 0..2 {
            assert_eq!(changes.next().await.unwrap().kind, EventKind::Create);
        }

        let before = gate.requests();
        gate.set_outage(Some(outage));
        sleep(Duration::from_secs(5)).await;
        set_page(&admin, "two").await;
        api::<Site>(&admin).delete("gone", &DeleteParams::default()).await.unwrap();
        sleep(10 * MINUTE).await;
        let asked = gate.requests() - before;
        // Every ten seconds in the end; after 410 with a list.
        assert!(asked <= 150, "{outage:?}: {asked} requests in ten minutes");
        let status = cache.status();
        match outage {
            Outage::Down => assert!(matches!(status, CacheStatus::Unreachable(_)), "{status:?}"),
            Outage::Busy => {
                let CacheStatus::Unreachable(error) = status else { panic!("{status:?}") };
                assert_eq!(error.code(), Some(429));
            }
            Outage::Forgetful => {}
        }
        // With lists it is up to date, without them as it was.
        let page = if outage == Outage::Forgetful { "two" } else { "one" };
        assert_eq!(cache.get(ObjectKey::new("default", "shop")).unwrap().spec.page, page);

        gate.set_outage(None);
        let over = Instant::now();
        let (mut changed, mut deleted) = (false, false);
        while !(changed && deleted) {
            let change = changes.next().await.unwrap();
            match (change.kind, &*change.key.name) {
                (EventKind::Update, "shop") => changed = change.new.unwrap().spec.page == "two",
                (EventKind::Delete, "gone") => deleted = true,
                other => panic!("{other:?}"),
            }
        }
        assert!(over.elapsed() <= Duration::from_secs(20), "{outage:?}: {:?}", over.elapsed());
        cache.watch_status().wait_for(|status| *status == CacheStatus::Synced).await.unwrap();
        assert_eq!(cache.len(), 1);
    }
}

/// A watch that is silent, as a half-open connection is, while another client writes.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_resumed() {
    let (server, _) = server_in_virtual_time(&[kind::definition()]).await;
    let (admin, gate) = (server.client(), Gate::new(server.client()));
    create(&admin, "shop", "one").await;
    let cache = Cache::<Site>::builder(gate.client()).start();
    cache.wait_until_ready().await.unwrap();
    let mut changes = cache.changes();
    assert_eq!(changes.next().await.unwrap().kind, EventKind::Create);

    gate.freeze();
    set_page(&admin, "two").await;
    let silent = Instant::now();
    let change = changes.next().await.unwrap();
    assert_eq!((change.kind, &*change.new.unwrap().spec.page), (EventKind::Update, "two"));
    assert!(silent.elapsed() <= Duration::from_secs(91), "{:?}", silent.elapsed());
    // From where it was: nothing is listed again.
    assert_eq!(cache.metrics().lists, 1);
}

async fn install(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.create(&PostParams::default(), &kind::definition()).await.unwrap();
    await_condition(crds, CRD, is_crd_established()).await.unwrap();
}

async fn withdraw(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.delete(CRD, &DeleteParams::default()).await.unwrap();
    await_condition(crds, CRD, |found: Option<&CustomResourceDefinition>| found.is_none()).await.unwrap();
}

/// Without the CRD, a controller and a cache wait for it; when it is withdrawn and installed again, they go on.
#[tokio::test(start_paused = true)]
async fn a_crd_may_be_missing_at_the_start_and_withdrawn_later() {
    let (server, clock) = server_in_virtual_time(&[]).await;
    let (client, requests) = record(server.client());
    let admin = server.client();
    let running = Running::start(client, clock);
    let cache = Cache::<Site>::builder(admin.clone()).start();
    let (mut status, mut changes) = (cache.watch_status(), cache.changes());
    status.wait_for(|status| *status == CacheStatus::NoKind).await.unwrap();
    sleep(10 * MINUTE).await;
    assert!(!cache.is_ready());
    let asked = requests.take().len();
    assert!(asked <= 100, "{asked} requests in ten minutes");

    install(&admin).await;
    timeout(MINUTE, cache.wait_until_ready()).await.unwrap().unwrap();
    create(&admin, "shop", "one").await;
    let first = timeout(2 * MINUTE, ready(&admin, "one")).await.unwrap();
    assert_eq!(changes.next().await.unwrap().kind, EventKind::Create);

    withdraw(&admin).await;
    timeout(MINUTE, status.wait_for(|status| *status == CacheStatus::NoKind)).await.unwrap().unwrap();
    assert!(cache.is_empty(), "the objects are reported as deleted before their watch ends");
    sleep(10 * MINUTE).await;

    install(&admin).await;
    timeout(MINUTE, status.wait_for(|status| *status == CacheStatus::Synced)).await.unwrap().unwrap();
    assert!(cache.is_empty(), "the objects went with the CRD");
    // Read before the next one is created: else both would be merged.
    assert_eq!(changes.next().await.unwrap().kind, EventKind::Delete);
    create(&admin, "shop", "two").await;
    let second = timeout(2 * MINUTE, ready(&admin, "two")).await.unwrap();
    assert_ne!(first.uid(), second.uid());
    assert_eq!(changes.next().await.unwrap().kind, EventKind::Create);
    running.stop().await;
}

/// The clock goes back an hour, and then a century ahead: nothing is written because of it, and a transition time changes with the status.
#[tokio::test(start_paused = true)]
async fn a_clock_that_steps_causes_no_write() {
    let (server, _) = server_in_virtual_time(&[kind::definition()]).await;
    let admin = server.client();
    let seconds = Arc::new(AtomicI64::new(1_767_225_600));
    let read = Arc::clone(&seconds);
    let clock = Clock::new(move || jiff::Timestamp::from_second(read.load(Ordering::Relaxed)).unwrap());
    let running = Running::start(admin.clone(), clock);
    create(&admin, "shop", "one").await;
    let site = ready(&admin, "one").await;
    assert_eq!(transition(&site, "Ready"), "2026-01-01T00:00:00Z");

    for (step, page) in [(-3600, "two"), (3_155_760_000, "three")] {
        seconds.fetch_add(step, Ordering::Relaxed);
        // It is reconciled because of the annotation, and has nothing to write.
        let touched = patch(&admin, json!({"metadata": {"annotations": {"step": step.to_string()}}})).await;
        sleep(HOUR).await;
        assert_eq!(
            api::<Site>(&admin).get("shop").await.unwrap().resource_version(),
            touched.resource_version()
        );
        // Its status is as before: so is the time since when.
        set_page(&admin, page).await;
        assert_eq!(transition(&ready(&admin, page).await, "Ready"), "2026-01-01T00:00:00Z");
    }
    seconds.fetch_add(-86_400, Ordering::Relaxed);
    set_page(&admin, "").await;
    let site = wait(api(&admin), "shop", |site: &Site| condition(site, "Stalled").is_some()).await;
    let now = jiff::Timestamp::from_second(seconds.load(Ordering::Relaxed)).unwrap();
    assert_eq!(transition(&site, "Published"), now.to_string());
    running.stop().await;
}

/// Two instances, of which neither asks for a lease: they get to the same end, and do not undo each other's work forever.
#[tokio::test(start_paused = true)]
async fn two_instances_without_a_lease_agree() {
    let (server, clock) = server_in_virtual_time(&[kind::definition()]).await;
    let admin = server.client();
    let clients = [record(server.client()), record(server.client())];
    let running = clients.each_ref().map(|(client, _)| Running::start(client.clone(), clock.clone()));
    create(&admin, "shop", "start").await;
    for edit in 0..20 {
        let page = format!("page {edit}");
        set_page(&admin, &page).await;
        if edit % 3 == 0 {
            ready(&admin, &page).await;
        }
    }
    ready(&admin, "page 19").await;
    sleep(MINUTE).await;
    let quiet = api::<Site>(&admin).get("shop").await.unwrap();
    let writes = || {
        clients.each_ref().map(|(_, requests)| {
            requests.take().into_iter().filter(|request| !request.starts_with("GET")).count()
        })
    };
    let first = writes();
    // Both have written, or it shows nothing.
    assert!(first.iter().all(|writes| *writes > 0), "{first:?}");
    sleep(HOUR).await;
    assert_eq!(writes(), [0, 0]);
    assert_eq!(ready(&admin, "page 19").await.resource_version(), quiet.resource_version());
    for running in running {
        running.stop().await;
    }
}

/// A status that cannot be written: the page is there all the same, it is tried again each second and no more often, and nothing else is
/// written in its place.
#[tokio::test(start_paused = true)]
async fn a_status_that_may_not_be_written_is_tried_again_and_nothing_else_is_touched() {
    let (server, clock) = server_in_virtual_time(&[kind::definition()]).await;
    let admin = server.client();
    let role = json!({"items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "site-controller", "namespace": "default"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "site-controller"}, "rules": [
            {"apiGroups": ["example.com"], "resources": ["sites"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch"]},
        ]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "site-controller"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "site-controller"},
         "subjects": [{"kind": "ServiceAccount", "name": "site-controller", "namespace": "default"}]},
    ]});
    let restricted = crate::harness::client_with_role(&server, &role.to_string()).await;
    let (client, requests) = record(restricted);
    let running = Running::start(client, clock);
    create(&admin, "shop", "one").await;
    wait(api(&admin), "shop", |map: &ConfigMap| map.data.is_some()).await;
    sleep(Duration::from_secs(30)).await;
    let site = api::<Site>(&admin).get("shop").await.unwrap();
    assert_eq!((site.status, site.metadata.generation), (None, Some(1)));
    let path = "PATCH /apis/example.com/v1/namespaces/default/sites/shop/status";
    let seen = requests.take();
    let tried = seen.iter().filter(|request| *request == path).count();
    assert!((25..=35).contains(&tried), "{tried} times in 30 s");
    // The ConfigMap is applied once, and not with each try.
    let applied = seen.iter().filter(|request| request.starts_with("PATCH /api/v1/")).count();
    assert_eq!(applied, 1, "{seen:?}");

    let rule = json!({"rules": [
        {"apiGroups": ["example.com"], "resources": ["sites"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch"]},
        {"apiGroups": ["example.com"], "resources": ["sites/status"], "verbs": ["patch"]},
    ]});
    let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(admin.clone());
    roles.patch("site-controller", &PatchParams::default(), &Patch::Merge(rule)).await.unwrap();
    timeout(2 * MINUTE, ready(&admin, "one")).await.unwrap();
    running.stop().await;
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Panicked(#[from] Panicked),
    #[error("it never works")]
    Poison,
}

/// With kube's `Controller`, too: an object whose reconcile panics, or always fails, delays no other, and is tried again.
#[tokio::test(start_paused = true)]
async fn a_panic_fails_the_reconcile_of_one_object() {
    let (server, _) = server_in_virtual_time(&[]).await;
    let maps = api::<ConfigMap>(&server.client());
    let names = (0..20).map(|number| format!("map-{number}"));
    let names: Vec<String> = ["panic".to_owned(), "poison".to_owned()].into_iter().chain(names).collect();
    for name in &names {
        let map = json!({"metadata": {"name": name, "labels": {"app": "test"}}});
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }
    let counts = Arc::new(Mutex::new(BTreeMap::<String, u32>::new()));
    let reconcile = |map: Arc<ConfigMap>, counts: Arc<Mutex<BTreeMap<String, u32>>>| async move {
        let work = async {
            let name = map.name_any();
            *counts.lock().unwrap().entry(name.clone()).or_default() += 1;
            // A panic that is meant: the message is in the output of the test.
            assert_ne!(name, "panic", "a bug in the reconciler");
            if name == "poison" { Err(Failed::Poison) } else { Ok(Action::await_change()) }
        };
        catch_panic(work).await?
    };
    let controller = Controller::new(maps, watcher::Config::default().labels("app=test"))
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(10)), Arc::clone(&counts))
        .for_each(|_| std::future::ready(()));
    assert!(timeout(Duration::from_secs(35), controller).await.is_err(), "the controller has ended");
    let counts = counts.lock().unwrap();
    // After 0, 10, 20 and 30 seconds they were tried.
    assert_eq!((counts["panic"], counts["poison"]), (4, 4));
    assert!(names[2..].iter().all(|name| counts[name] == 1), "{counts:?}");
}
