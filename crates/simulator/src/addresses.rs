//! Addresses: Services of type LoadBalancer and Ingresses get theirs, as a cloud and an Ingress controller give them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    LoadBalancerIngress, LoadBalancerStatus, PortStatus, Service, ServiceStatus,
};
use k8s_openapi::api::networking::v1::{
    Ingress, IngressLoadBalancerIngress, IngressLoadBalancerStatus, IngressStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::events::EventType;
use serde_json::json;
use settled_controller::ObjectKey;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::scenario::{After, Scenario};

/// How long an address takes, unless the scenario says something else.
const TAKES: Duration = Duration::from_secs(1);
/// The finalizer of Services with a load balancer.
const CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The range of addresses: 198.18.0.0/15, which is for tests (RFC 2544).
const RANGE: u32 = 0xC612_0000;

/// How long the address of something takes; none if it never comes.
pub(crate) fn delay(scenario: &Scenario, kind: &str, namespace: &str, name: &str) -> Option<Duration> {
    match scenario.address(kind, namespace, name).map(|script| script.takes) {
        None => Some(TAKES),
        Some(After::Delay(delay)) => Some(delay.0),
        Some(After::Never) => None,
    }
}

/// The address of something, which always is the same.
pub(crate) fn address(of: &str) -> String {
    // FNV-1a with 32 bits.
    let hash =
        of.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let number = (hash ^ (hash >> 17)) % 0x0001_fffe + 1;
    std::net::Ipv4Addr::from(RANGE | number).to_string()
}

/// How long an address takes still that takes so long from the creation on.
fn left(created: Option<&Time>, takes: Duration, context: &Context) -> Option<Duration> {
    let created = created.map_or_else(|| context.now(), |time| time.0);
    let passed = Duration::try_from(context.now().duration_since(created)).unwrap_or_default();
    takes.checked_sub(passed).filter(|left| !left.is_zero())
}

/// The load balancers of a cloud.
pub(crate) struct LoadBalancers {
    status: StatusWriter<Service>,
    scenario: Scenario,
}

impl LoadBalancers {
    pub(crate) fn new(shared: &Shared) -> Self {
        let status = Context::status_writer(&shared.client, &shared.clock, Self::NAME);
        Self { status, scenario: shared.scenario.clone() }
    }

    async fn release(&self, key: &ObjectKey, service: &Service, context: &Context) -> Result<(), Error> {
        let finalizers = service.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
            return Ok(());
        }
        let event = |reason: &str, note: &str| {
            context.event(service, EventType::Normal, reason, reason, note.to_owned());
        };
        event("DeletingLoadBalancer", "Deleting load balancer");
        let mut status = service.status.clone().unwrap_or_default();
        status.load_balancer = Some(LoadBalancerStatus::default());
        context.write_status(key, &self.status, service, &status).await?;
        // The status was just written: the next look has the version that it has now.
        let Some(current) = context.informers.services.get(key) else { return Ok(()) };
        let left: Vec<_> = finalizers.into_iter().filter(|finalizer| finalizer != CLEANUP).collect();
        let patch = json!({"metadata": {"finalizers": left}});
        match context.patch(key, &*current, patch).await {
            Ok(_) => event("DeletedLoadBalancer", "Deleted load balancer"),
            Err(error) if Error::is_code(&error, 404) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn has_address(service: &Service) -> bool {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    balancer.and_then(|balancer| balancer.ingress.as_ref()).is_some_and(|ingress| !ingress.is_empty())
}

impl Controller for LoadBalancers {
    const NAME: &'static str = "service-controller";

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Service(change) => vec![change.key.clone()],
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(service) = context.informers.services.get(key) else { return Ok(Next::AwaitChange) };
        let spec = service.spec.as_ref();
        let is_wanted = spec.and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer");
        if !is_wanted || meta::is_deleting(&*service) {
            self.release(key, &service, context).await?;
            return Ok(Next::AwaitChange);
        }
        if has_address(&service) {
            return Ok(Next::AwaitChange);
        }
        let mut finalizers = service.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
            let note = "Ensuring load balancer".to_owned();
            context.event(&*service, EventType::Normal, "EnsuringLoadBalancer", "EnsuringLoadBalancer", note);
            finalizers.push(CLEANUP.to_owned());
            context.patch(key, &*service, json!({"metadata": {"finalizers": finalizers}})).await?;
            // The change wakes this key again.
            return Ok(Next::AwaitChange);
        }
        let Some(takes) = delay(&self.scenario, "Service", &key.namespace, &key.name) else {
            return Ok(Next::AwaitChange);
        };
        if let Some(left) = left(service.metadata.creation_timestamp.as_ref(), takes, context) {
            return Ok(Next::RequeueAfter(left));
        }
        let asked = spec.and_then(|spec| spec.load_balancer_ip.clone()).filter(|asked| !asked.is_empty());
        let ports = spec.and_then(|spec| spec.ports.as_ref()).into_iter().flatten().map(|port| PortStatus {
            port: port.port,
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            error: None,
        });
        let ingress = LoadBalancerIngress {
            ip: Some(asked.unwrap_or_else(|| address(&format!("service/{key}")))),
            ip_mode: Some("VIP".to_owned()),
            ports: Some(ports.collect::<Vec<_>>()).filter(|ports| !ports.is_empty()),
            ..LoadBalancerIngress::default()
        };
        let status = ServiceStatus {
            load_balancer: Some(LoadBalancerStatus { ingress: Some(vec![ingress]) }),
            ..service.status.clone().unwrap_or_default()
        };
        context.write_status(key, &self.status, &service, &status).await?;
        let note = "Ensured load balancer".to_owned();
        context.event(&*service, EventType::Normal, "EnsuredLoadBalancer", "EnsuredLoadBalancer", note);
        Ok(Next::AwaitChange)
    }
}

/// An Ingress controller for all classes.
pub(crate) struct Ingresses {
    status: StatusWriter<Ingress>,
    scenario: Scenario,
}

impl Ingresses {
    pub(crate) fn new(shared: &Shared) -> Self {
        let status = Context::status_writer(&shared.client, &shared.clock, Self::NAME);
        Self { status, scenario: shared.scenario.clone() }
    }
}

impl Controller for Ingresses {
    const NAME: &'static str = "ingress-controller";

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Ingress(change) => vec![change.key.clone()],
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(ingress) = context.informers.ingresses.get(key) else { return Ok(Next::AwaitChange) };
        let balancer = ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let has = balancer.and_then(|balancer| balancer.ingress.as_ref()).is_some_and(|all| !all.is_empty());
        if has || meta::is_deleting(&*ingress) {
            return Ok(Next::AwaitChange);
        }
        let Some(takes) = delay(&self.scenario, "Ingress", &key.namespace, &key.name) else {
            return Ok(Next::AwaitChange);
        };
        if let Some(left) = left(ingress.metadata.creation_timestamp.as_ref(), takes, context) {
            return Ok(Next::RequeueAfter(left));
        }
        // Ingresses of a class share the address of its controller.
        let class =
            ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.clone()).unwrap_or_default();
        let place = IngressLoadBalancerIngress {
            ip: Some(address(&format!("ingress/{class}"))),
            ..IngressLoadBalancerIngress::default()
        };
        let status =
            IngressStatus { load_balancer: Some(IngressLoadBalancerStatus { ingress: Some(vec![place]) }) };
        context.write_status(key, &self.status, &ingress, &status).await?;
        let note = "Scheduled for sync".to_owned();
        context.event(&*ingress, EventType::Normal, "Sync", "Sync", note);
        Ok(Next::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_the_range_for_tests() {
        let all: std::collections::BTreeSet<_> =
            (0..200).map(|number| address(&format!("service/shop/{number}"))).collect();
        assert!(all.len() > 195, "{}", all.len());
        assert!(all.iter().all(|address| address.starts_with("198.18.") || address.starts_with("198.19.")));
        assert_eq!(address("a"), address("a"));
    }

    #[test]
    fn scenarios_delay_addresses() {
        let text = "addresses: [{kind: Service, name: slow, takes: 90s}, {kind: Ingress, takes: never}]";
        let scenario = Scenario::parse("test.yaml", text).expect("a scenario");
        assert_eq!(delay(&scenario, "Service", "shop", "slow"), Some(Duration::from_secs(90)));
        assert_eq!(delay(&scenario, "Service", "shop", "web"), Some(TAKES));
        assert_eq!(delay(&scenario, "Ingress", "shop", "web"), None);
    }
}
