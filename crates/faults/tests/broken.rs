//! Controllers with one bug each: every bug is found, by the check that is meant for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use settled_faults::{
    CallFailed, Check, Context, Effect, External, Fault, Options, Scenario, World, explore, replay,
};

use crate::controller::resource;
use crate::scenario::{definition, site};

const FINALIZER: &str = "example.com/balancer";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// Status claims the balancer before it is made.
    StatusFirst,
    /// The balancer is made without a key to find it again.
    NoKey,
    /// The finalizer comes after what it is for.
    LateFinalizer,
    /// Each reconciliation writes.
    HotLoop,
    /// Status names the newest generation, not the one that was acted on.
    LatestGeneration,
    /// It takes its own status write for a new generation.
    NextGeneration,
    /// Each write is a transition.
    TransitionTime,
    /// A write that was refused is sent again over what others wrote.
    BlindRetry,
    /// The first error of the watch is the last thing that it does.
    GivesUp,
    /// What was done is remembered by name.
    RemembersNames,
    /// It counts edits.
    CountsEdits,
    /// It takes for granted that both of two writes were made.
    Panics,
}

/// Balancers, by number: whom each is for, and what it serves.
#[derive(Clone, Debug, Default, PartialEq)]
struct Cloud {
    balancers: BTreeMap<u32, (String, String)>,
    made: u32,
}

impl Cloud {
    fn make(&mut self, owner: &str, host: &str) -> u32 {
        self.made += 1;
        self.balancers.insert(self.made, (owner.to_owned(), host.to_owned()));
        self.made
    }

    fn find(&self, owner: &str) -> Option<u32> {
        self.balancers.iter().find(|(_, balancer)| balancer.0 == owner).map(|(number, _)| *number)
    }

    fn ensure(&mut self, owner: &str, host: &str) -> u32 {
        let Some(number) = self.find(owner) else { return self.make(owner, host) };
        self.balancers.insert(number, (owner.to_owned(), host.to_owned()));
        number
    }
}

impl World for Cloud {
    fn effects(&self) -> Vec<Effect> {
        let effect =
            |(number, (owner, _)): (&u32, &(String, String))| Effect::new(id(*number), owner, "balancer");
        self.balancers.iter().map(effect).collect()
    }
}

fn id(number: u32) -> String {
    format!("lb-{number}")
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Cloud(#[from] CallFailed),
}

struct Shared {
    bug: Bug,
    client: Client,
    cloud: External<Cloud>,
    now: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
    done: Mutex<HashMap<String, Option<i64>>>,
}

impl Shared {
    fn done(&self) -> MutexGuard<'_, HashMap<String, Option<i64>>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(bug: Bug, context: Context<Cloud>) {
    let client = context.client();
    let (cloud, now) = (context.external(), context.clock());
    let shared = Arc::new(Shared { bug, client: client.clone(), cloud, now, done: Mutex::default() });
    let sites = Api::<DynamicObject>::all_with(client.clone(), &resource());
    if bug == Bug::GivesUp {
        let mut events = std::pin::pin!(watcher(sites, watcher::Config::default()));
        while let Some(Ok(event)) = events.next().await {
            if let watcher::Event::Apply(site) | watcher::Event::InitApply(site) = event {
                let site = Arc::new(site);
                while reconcile(site.clone(), shared.clone()).await.is_err_and(|error| !is_conflict(&error)) {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
        return std::future::pending().await;
    }
    Controller::new_with(sites, watcher::Config::default(), resource())
        .owns(Api::<ConfigMap>::all(client), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), shared)
        .for_each(|_| std::future::ready(()))
        .await;
}

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Kube(kube::Error::Api(status)) if matches!(status.code, 404 | 409))
}

async fn reconcile(site: Arc<DynamicObject>, shared: Arc<Shared>) -> Result<Action, Error> {
    let Shared { bug, client, cloud, .. } = &*shared;
    let sites: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource());
    let (name, uid, generation) = (site.name_any(), site.uid().unwrap_or_default(), site.meta().generation);
    if *bug == Bug::RemembersNames
        && shared.done().insert(name.clone(), generation) == Some(generation)
        && site.data.pointer("/status/address").is_none()
    {
        return Ok(Action::await_change());
    }
    if site.meta().deletion_timestamp.is_some() {
        if !site.finalizers().is_empty() {
            cloud.call("remove", |cloud| cloud.balancers.retain(|_, balancer| balancer.0 != uid)).await?;
            let patch = guarded(&site, json!({"metadata": {"finalizers": []}}));
            sites.patch(&name, &PatchParams::default(), &patch).await?;
        }
        return Ok(Action::await_change());
    }
    if *bug != Bug::LateFinalizer && site.finalizers().is_empty() {
        add_finalizer(&sites, &site, *bug).await?;
        return Ok(Action::await_change());
    }
    let host = site.data.pointer("/spec/host").and_then(Value::as_str).unwrap_or_default().to_owned();
    if *bug == Bug::StatusFirst {
        let next = cloud.read(|cloud| cloud.find(&uid).unwrap_or(cloud.made + 1)).await;
        write_status(&sites, &site, &shared, &id(next)).await?;
    }
    let known = site.data.pointer("/status/address").and_then(Value::as_str).map(str::to_owned);
    let address = match known.filter(|_| *bug == Bug::NoKey) {
        Some(known) => {
            cloud
                .call("update", |cloud| {
                    let number = cloud.balancers.keys().copied().find(|number| id(*number) == known);
                    number.map(|number| cloud.balancers.insert(number, (uid.clone(), host.clone())))
                })
                .await?;
            known
        }
        None if *bug == Bug::NoKey => id(cloud.call("make", |cloud| cloud.make(&uid, &host)).await?),
        None => id(cloud.call("ensure", |cloud| cloud.ensure(&uid, &host)).await?),
    };
    if *bug == Bug::LateFinalizer && site.finalizers().is_empty() {
        add_finalizer(&sites, &site, *bug).await?;
        return Ok(Action::await_change());
    }
    let configs = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let mut data = json!({"host": host});
    let existing = configs.get_opt(&name).await?;
    if *bug == Bug::Panics {
        assert!(
            existing.is_none() || site.data.get("status").is_some(),
            "there is a ConfigMap, but no status"
        );
    }
    if *bug == Bug::CountsEdits {
        let old = existing.and_then(|config| config.data).unwrap_or_default();
        let number =
            |name: &str| old.get(name).and_then(|number| number.parse::<i64>().ok()).unwrap_or_default();
        let seen = generation.unwrap_or_default();
        let edits = number("edits") + i64::from(number("generation") != seen);
        data = json!({"host": host, "edits": edits.to_string(), "generation": seen.to_string()});
    }
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": name, "ownerReferences": [site.controller_owner_ref(&resource())]},
    });
    configs.patch(&name, &PatchParams::apply("sites").force(), &Patch::Apply(config)).await?;
    if *bug != Bug::StatusFirst {
        write_status(&sites, &site, &shared, &address).await?;
    }
    Ok(Action::await_change())
}

fn guarded(site: &DynamicObject, mut patch: Value) -> Patch<Value> {
    patch["metadata"]["resourceVersion"] = json!(site.resource_version());
    Patch::Merge(patch)
}

async fn add_finalizer(sites: &Api<DynamicObject>, site: &DynamicObject, bug: Bug) -> Result<(), Error> {
    let mut whole = site.clone();
    whole.finalizers_mut().push(FINALIZER.to_owned());
    match sites.replace(&site.name_any(), &PostParams::default(), &whole).await {
        Err(kube::Error::Api(status)) if status.code == 409 && bug == Bug::BlindRetry => {
            whole.meta_mut().resource_version = sites.get(&site.name_any()).await?.resource_version();
            sites.replace(&site.name_any(), &PostParams::default(), &whole).await?;
        }
        written => drop(written?),
    }
    Ok(())
}

async fn write_status(
    sites: &Api<DynamicObject>,
    site: &DynamicObject,
    shared: &Shared,
    address: &str,
) -> Result<(), Error> {
    let latest = match shared.bug {
        Bug::LatestGeneration => sites.get(&site.name_any()).await?,
        _ => site.clone(),
    };
    let own = i64::from(shared.bug == Bug::NextGeneration);
    let generation = latest.meta().generation.map(|generation| generation + own);
    let ready = site.data.pointer("/status/conditions/0");
    let now = json!(format!("{:.0}", (shared.now)()));
    let since = ready.and_then(|ready| ready.get("lastTransitionTime")).cloned();
    let since = since.filter(|_| shared.bug != Bug::TransitionTime).unwrap_or_else(|| now.clone());
    let mut status = json!({
        "observedGeneration": generation, "address": address,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Served", "message": "", "lastTransitionTime": since}],
    });
    let changed = |field: &str| site.data.pointer(&format!("/status/{field}")) != status.get(field);
    if shared.bug == Bug::HotLoop {
        status["checks"] =
            json!(site.data.pointer("/status/checks").and_then(Value::as_i64).unwrap_or_default() + 1);
    } else if !changed("observedGeneration") && !changed("address") {
        return Ok(());
    }
    let patch = guarded(&latest, json!({"status": status}));
    sites.patch_status(&site.name_any(), &PatchParams::default(), &patch).await?;
    Ok(())
}

/// A site that is made, changed twice, deleted and made again.
fn scenario() -> Scenario<Cloud> {
    let host = |host: &str| json!({"spec": {"host": host}});
    let kind = ("example.com/v1", "Site", "default/shop");
    base()
        .patch(kind.0, kind.1, kind.2, host("b.example.com"))
        .patch(kind.0, kind.1, kind.2, host("c.example.com"))
        .delete(kind.0, kind.1, kind.2)
        .create(site("shop", "a.example.com"))
}

fn base() -> Scenario<Cloud> {
    Scenario::with_world("broken", Cloud::default())
        .object(definition())
        .object(site("shop", "a.example.com"))
        .claims(|object| {
            let address = object.pointer("/status/address").and_then(Value::as_str);
            address.filter(|_| object["kind"] == "Site").map(str::to_owned).into_iter().collect()
        })
        .ready_means(|site, view| {
            let (uid, host) = (&site["metadata"]["uid"], &site["spec"]["host"]);
            match view.world().balancers.values().find(|balancer| *uid == balancer.0) {
                Some(balancer) if *host == balancer.1 => Ok(()),
                Some(balancer) => Err(format!("the balancer serves {}", balancer.1)),
                None => Err("there is no balancer".to_owned()),
            }
        })
        .finally("each site has an address", |view| {
            let without = view.objects("Site").find(|site| site.pointer("/status/address").is_none());
            without.map_or(Ok(()), |_| Err("one has none".to_owned()))
        })
}

fn deleted() -> Scenario<Cloud> {
    base().delete("example.com/v1", "Site", "default/shop")
}

/// The same, where the creator of a balancer must have asked for its removal.
fn ordered() -> Scenario<Cloud> {
    base().order("a finalizer comes before a balancer", |before, view| {
        let made = view.world().balancers.iter().filter(|(number, _)| !before.balancers.contains_key(number));
        made.map(|(_, (owner, _))| owner).try_for_each(|owner| {
            let site = view.objects("Site").find(|site| site["metadata"]["uid"] == **owner);
            let finalizers = site.and_then(|site| site.pointer("/metadata/finalizers"));
            finalizers.map(drop).ok_or_else(|| format!("{owner} has none"))
        })
    })
}

/// A bug, where it shows, under which faults, and the checks that find it.
type Row = (Bug, fn() -> Scenario<Cloud>, &'static [Fault], &'static [Check]);

#[test]
fn each_bug_is_found_by_its_check() {
    // The faults are those that show the bug; the edits come together in any case.
    let all: &[Fault] = &Fault::ALL;
    let table: [Row; 15] = [
        (Bug::None, scenario, all, &[]),
        (Bug::StatusFirst, scenario, all, &[Check::FalseClaim]),
        (Bug::NoKey, scenario, &[Fault::CrashAfter], &[Check::DoubleGrant]),
        (Bug::None, ordered, all, &[]),
        (Bug::LateFinalizer, ordered, &[], &[Check::Order]),
        (Bug::LateFinalizer, deleted, &[Fault::Edit], &[Check::Leak]),
        (Bug::HotLoop, scenario, all, &[Check::Quiescence]),
        (Bug::LatestGeneration, scenario, &[Fault::Edit], &[Check::FalseClaim]),
        (Bug::NextGeneration, scenario, all, &[Check::ObservedGeneration]),
        (Bug::TransitionTime, scenario, all, &[Check::TransitionTime]),
        (Bug::BlindRetry, scenario, &[Fault::Conflict], &[Check::LostUpdate]),
        (Bug::GivesUp, scenario, &[Fault::Expired], &[Check::Convergence]),
        (Bug::RemembersNames, scenario, all, &[Check::Invariant]),
        (Bug::CountsEdits, scenario, &[], &[Check::LevelBased]),
        (Bug::Panics, scenario, &[Fault::CrashBefore], &[Check::Panic]),
    ];
    for (bug, scenario, faults, wanted) in table {
        let mut options = Options::share(50).without_pairs();
        options.faults = faults.to_vec();
        options.max_writes = 40;
        let controller = |context| run(bug, context);
        let report = explore(controller, &scenario(), &options).unwrap();
        let found: Vec<Check> = report.failures.iter().map(|failure| failure.violation.check).collect();
        assert!(
            wanted.iter().all(|check| found.contains(check)),
            "{bug:?}: {wanted:?}, and not {found:?}\n{report}"
        );
        assert_eq!(wanted.is_empty(), report.is_clean(), "{bug:?}: {report}");
        for failure in &report.failures {
            assert!(failure.schedule.injections.len() <= 1, "{bug:?}: {failure}");
            let again = replay(controller, &scenario(), &failure.schedule, &options).unwrap();
            assert!(
                again.iter().any(|again| again.violation.check == failure.violation.check),
                "{bug:?}: {failure}"
            );
        }
    }
}
