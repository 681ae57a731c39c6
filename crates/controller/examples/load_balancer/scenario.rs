//! Fault scenarios of the load balancer example, and their checks.

use std::net::IpAddr;
use std::time::Duration;

use kube::runtime::watcher;
use serde_json::{Value, json};
use settled_controller::Clock;
use settled_controller::decision::pool::AddressRange;
use settled_controller::decision::{IdempotencyKey, Permit};
use settled_controller::faults::{
    Context, Effect, ExploreError, External, Fault, Options, Report, Scenario, View, World, explore,
};

#[path = "controller.rs"]
pub mod controller;

use controller::{Announcer, CONDITION, Error};

/// A network: announced addresses with their idempotency keys, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network(Vec<(IpAddr, IdempotencyKey)>);

impl Network {
    /// The addresses that are announced for a Service.
    fn of<'n>(&'n self, uid: &str) -> impl Iterator<Item = IpAddr> + use<'n> {
        let key = IdempotencyKey::new("lb", uid);
        self.0.iter().filter(move |(_, holder)| *holder == key).map(|(address, _)| *address)
    }
}

impl World for Network {
    /// A Service has two addresses while one replaces the other.
    fn effects(&self) -> Vec<Effect> {
        let effect = |(index, (address, key)): (usize, &(IpAddr, IdempotencyKey))| {
            let older = self.0.iter().take(index).filter(|(_, holder)| holder == key).count();
            let uid = key.as_str().strip_prefix("lb-").unwrap_or_default();
            Effect::new(address.to_string(), uid, format!("address {}", older + 1))
        };
        self.0.iter().enumerate().map(effect).collect()
    }
}

impl Announcer for External<Network> {
    async fn announce(&self, permit: &Permit, address: IpAddr) -> Result<(), Error> {
        let key = permit.key();
        let announce = |network: &mut Network| match network.0.iter().find(|(other, _)| *other == address) {
            Some((_, holder)) => holder == key,
            None => {
                network.0.push((address, key.clone()));
                true
            }
        };
        let failed = |reason: String| Error::Announce { address, reason };
        let done = self.call(&format!("announce {address} as {key}"), announce).await;
        match done.map_err(|lost| failed(lost.to_string()))? {
            true => Ok(()),
            false => Err(failed("another Service has it".to_owned())),
        }
    }

    async fn withdraw(&self, permit: &Permit, address: IpAddr) -> Result<(), Error> {
        let key = permit.key();
        let withdraw =
            |network: &mut Network| network.0.retain(|(other, holder)| *other != address || holder != key);
        let done = self.call(&format!("withdraw {address} of {key}"), withdraw).await;
        done.map_err(|lost| Error::Announce { address, reason: lost.to_string() })
    }

    async fn announced(&self) -> Result<Vec<(IdempotencyKey, IpAddr)>, Error> {
        Ok(self
            .read(|network| network.0.iter().map(|(address, key)| (key.clone(), *address)).collect())
            .await)
    }
}

/// Starts the controller with two addresses.
async fn start(context: Context<Network>) {
    let [first, last] = [1, 2].map(|number| IpAddr::from([192, 0, 2, number]));
    let Some(pool) = AddressRange::new(first, last) else { return };
    let (clock, config) = (Clock::from(&context), watcher::Config::default());
    let never = std::future::pending();
    controller::run(context.client(), context.external(), pool, clock, config, never).await;
}

/// A Service that asks for an address; an empty one: for any.
fn service(name: &str, requested: &str) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    if !requested.is_empty() {
        service["spec"]["loadBalancerIP"] = json!(requested);
    }
    service
}

fn published(service: &Value) -> Option<&str> {
    let address = service.pointer("/status/loadBalancer/ingress/0/ip").and_then(Value::as_str);
    address.filter(|_| service["kind"] == "Service")
}

fn answer(service: &Value) -> Option<&Value> {
    let conditions = service.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition["type"] == CONDITION)
}

/// Checks of all scenarios.
fn checked(name: &str) -> Scenario<Network> {
    let addresses = |service: &Value| published(service).map(str::to_owned).into_iter().collect::<Vec<_>>();
    Scenario::with_world(name, Network::default())
        .condition(CONDITION)
        .claims(addresses)
        .grants(addresses)
        // The server takes the address out of the status when the type changes, and leaves the condition. Services have no generation:
        // if the type is back before the controller saw that, the address is still announced.
        .ready_means(|service, view| {
            let uid = service["metadata"]["uid"].as_str().unwrap_or_default();
            let has_none = published(service).is_none() && view.world().of(uid).next().is_none();
            match has_none && service["spec"]["type"] == "LoadBalancer" {
                true => Err("it has no address".to_owned()),
                false => Ok(()),
            }
        })
        // Allocated by the server.
        .ignore("/spec/clusterIP")
        .ignore("/spec/clusterIPs")
        .ignore("/spec/ports/0/nodePort")
        .order("a Service that gets an address has a finalizer", |before, view| {
            let mut new = view.world().0.iter().filter(|entry| !before.0.contains(entry));
            new.try_for_each(|(address, key)| {
                let of_key = |service: &&Value| {
                    service["metadata"]["uid"].as_str().is_some_and(|uid| key.as_str().ends_with(uid))
                };
                let finalizers = view
                    .objects("Service")
                    .find(of_key)
                    .and_then(|service| service.pointer("/metadata/finalizers"));
                finalizers.map(drop).ok_or_else(|| format!("{address} is announced for one without"))
            })
        })
        .finally("each Service has an answer, and what is announced is published", answered)
}

fn answered(view: &View<'_, Network>) -> Result<(), String> {
    for service in view.objects("Service") {
        let name = &service["metadata"]["name"];
        let wants = service["spec"]["type"] == "LoadBalancer";
        if wants != answer(service).is_some() {
            return Err(format!("{name}: {:?}", answer(service)));
        }
        let uid = service["metadata"]["uid"].as_str().unwrap_or_default();
        let announced: Vec<String> = view.world().of(uid).map(|address| address.to_string()).collect();
        if announced != published(service).into_iter().collect::<Vec<_>>() {
            return Err(format!("{name}: {announced:?} is announced, {:?} is published", published(service)));
        }
    }
    Ok(())
}

const SERVICE: (&str, &str) = ("v1", "Service");

fn change(scenario: Scenario<Network>, name: &str, spec: Value) -> Scenario<Network> {
    scenario.patch(SERVICE.0, SERVICE.1, name, json!({"spec": spec}))
}

/// One Service: asks for an address that there is not, for any, for another one; is no load balancer for a while; is deleted and made again.
fn changed() -> Scenario<Network> {
    let name = "default/web";
    let mut scenario = checked("load-balancer: changes").object(service("web", "198.51.100.1"));
    scenario = change(scenario, name, json!({"loadBalancerIP": null}));
    scenario = change(scenario, name, json!({"loadBalancerIP": "192.0.2.2"}));
    scenario = change(scenario, name, json!({"type": "ClusterIP", "loadBalancerIP": null}));
    scenario = change(scenario, name, json!({"type": "LoadBalancer", "loadBalancerIP": "192.0.2.1"}));
    scenario.delete(SERVICE.0, SERVICE.1, name).create(service("web", ""))
}

/// A Service asks for what there is not, and for something else again: it keeps what it has.
fn kept() -> Scenario<Network> {
    let name = "default/web";
    let scenario = checked("load-balancer: last good address").object(service("web", "192.0.2.1"));
    let scenario = change(scenario, name, json!({"loadBalancerIP": "198.51.100.1"}));
    change(scenario, name, json!({"loadBalancerIP": "192.0.2.2"})).delete(SERVICE.0, SERVICE.1, name)
}

/// Two Services want one address, and the first is deleted while another finalizer still keeps it.
fn contended() -> Scenario<Network> {
    let mut first = service("first", "192.0.2.1");
    first["metadata"]["finalizers"] = json!(["example.com/audit"]);
    let audited = json!({"metadata": {"finalizers": null}});
    checked("load-balancer: contention")
        .object(first)
        .create(service("second", "192.0.2.1"))
        .delete(SERVICE.0, SERVICE.1, "default/first")
        .patch(SERVICE.0, SERVICE.1, "default/first", audited)
}

/// A Service gets another address, and another Service the one that it had.
fn replaced() -> Scenario<Network> {
    let scenario = checked("load-balancer: replacement").object(service("first", "192.0.2.1"));
    change(scenario, "default/first", json!({"loadBalancerIP": "192.0.2.2"}))
        .create(service("second", "192.0.2.1"))
}

/// Three Services want two addresses.
fn exhausted() -> Scenario<Network> {
    checked("load-balancer: exhaustion")
        .object(service("first", "192.0.2.1"))
        .object(service("second", "192.0.2.2"))
        .create(service("third", ""))
        .delete(SERVICE.0, SERVICE.1, "default/first")
}

/// A user removes the finalizer, and the Service.
fn stripped() -> Scenario<Network> {
    checked("load-balancer: stripped finalizer")
        .object(service("web", "192.0.2.1"))
        .patch(SERVICE.0, SERVICE.1, "default/web", json!({"metadata": {"finalizers": null}}))
        .delete(SERVICE.0, SERVICE.1, "default/web")
        .create(service("web", ""))
}

/// Explores all of it.
pub fn explore_all(options: &Options) -> Result<Vec<Report>, ExploreError> {
    // Longer than the grace period of the repair scan.
    let mut patient = options.clone();
    patient.quiet = Duration::from_secs(600);
    // First come, first served, and a refused Service keeps its last good address: the result depends on the order of edits.
    let in_order = patient.clone().without(Fault::Edit);
    Ok(vec![
        explore(start, &changed(), &patient)?,
        explore(start, &kept(), &in_order)?,
        explore(start, &contended(), &in_order)?,
        explore(start, &replaced(), &in_order)?,
        explore(start, &exhausted(), &in_order)?,
        // No order of writes keeps a user from removing the finalizer in the middle of it.
        explore(start, &stripped(), &in_order)?,
    ])
}
