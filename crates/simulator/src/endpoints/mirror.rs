//! Mirroring: EndpointSlices of the Endpoints that others write for Services without a selector.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort as LegacyPort, Endpoints};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::events::EventType;
use settled_apimachinery::net;
use settled_controller::ObjectKey;
use settled_controller::worker::Next;

use super::is_namespace_ending;
use super::legacy::LEADER;
use super::plan::{MANAGED_BY, SERVICE_NAME, TRIGGER};
use super::subsets::repack;
use crate::controller::{Context, Controller, Error};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::selector;
use crate::selector::Labels;

/// This controller in labels of slices.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// `--mirroring-max-endpoints-per-subset`.
const MAX: usize = 1000;
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The controller that mirrors Endpoints.
pub(crate) struct EndpointSliceMirroring;

/// The Endpoints of a slice that this controller manages.
fn endpoints_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    let label = |key| selector::label(slice.metadata.labels.as_ref(), key);
    let name = label(SERVICE_NAME).filter(|_| label(MANAGED_BY) == Some(MANAGER))?;
    Some(ObjectKey::new(meta::namespace(slice), name))
}

/// `shouldMirror`.
fn is_mirrored(endpoints: &Endpoints) -> bool {
    let is_lock = endpoints.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(LEADER));
    !is_lock && selector::label(endpoints.metadata.labels.as_ref(), SKIP) != Some("true")
}

/// A map without some of its keys; none if nothing is left.
fn without(map: Option<&Labels>, keys: [&str; 2]) -> Labels {
    let rest = map.into_iter().flatten().filter(|(key, _)| !keys.contains(&key.as_str()));
    rest.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Slices with the same ports and address type. Slices are made of subsets, one of each.
type Group = (String, Vec<String>);

fn group(address_type: &str, ports: &[EndpointPort]) -> Group {
    let mut ports: Vec<String> = ports.iter().map(|port| format!("{port:?}")).collect();
    ports.sort();
    (address_type.to_owned(), ports)
}

fn ports(ports: Option<&Vec<LegacyPort>>) -> Vec<EndpointPort> {
    let port = |port: &LegacyPort| EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        app_protocol: port.app_protocol.clone(),
    };
    ports.into_iter().flatten().map(port).collect()
}

/// `addressToEndpoint`: none if it is no address. And its type.
fn endpoint(address: &EndpointAddress, is_ready: bool) -> Option<(&'static str, Endpoint)> {
    let ip = net::parse_ip_sloppy(&address.ip)?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions { ready: Some(is_ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    };
    Some((if ip.is_ipv6() { "IPv6" } else { "IPv4" }, endpoint))
}

fn key(endpoint: &Endpoint) -> (Vec<String>, Option<String>) {
    (endpoint.addresses.clone(), endpoint.target_ref.as_ref().and_then(|target| target.uid.clone()))
}

/// What the slices should be, and how many addresses were left out: those that are none, and those that are too many.
fn desired(endpoints: &Endpoints) -> (BTreeMap<Group, EndpointSlice>, usize, usize) {
    let (mut slices, mut invalid, mut too_many) = (BTreeMap::new(), 0, 0);
    for subset in repack(endpoints.subsets.as_deref().unwrap_or_default()) {
        let ports = ports(subset.ports.as_ref());
        let ready = subset.addresses.iter().flatten().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
        let mut added = 0;
        for (address, is_ready) in ready.chain(not_ready) {
            if added >= MAX {
                too_many += 1;
                continue;
            }
            let Some((type_, endpoint)) = endpoint(address, is_ready) else {
                invalid += 1;
                continue;
            };
            added += 1;
            let slice: &mut EndpointSlice =
                slices.entry(group(type_, &ports)).or_insert_with(|| new_slice(endpoints, type_, &ports));
            slice.endpoints.get_or_insert_default().push(endpoint);
        }
    }
    (slices, invalid, too_many)
}

fn new_slice(endpoints: &Endpoints, type_: &str, ports: &[EndpointPort]) -> EndpointSlice {
    let mut labels = endpoints.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), meta::name(endpoints).to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", meta::name(endpoints))),
            namespace: endpoints.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(without(endpoints.metadata.annotations.as_ref(), [TRIGGER, LAST_APPLIED])),
            owner_references: Some(vec![meta::controller_reference(endpoints)]),
            ..ObjectMeta::default()
        },
        address_type: type_.to_owned(),
        endpoints: Some(Vec::new()),
        ports: Some(ports.to_vec()),
    }
}

/// Does a slice mirror what it should?
fn is_same(slice: &EndpointSlice, wanted: &EndpointSlice, endpoints: &Endpoints) -> bool {
    let sorted = |slice: &EndpointSlice| {
        let mut all = slice.endpoints.clone().unwrap_or_default();
        all.sort_by_key(key);
        all
    };
    let own = |slice: &EndpointSlice| without(slice.metadata.labels.as_ref(), [MANAGED_BY, SERVICE_NAME]);
    let annotations = |slice: &EndpointSlice| slice.metadata.annotations.clone().unwrap_or_default();
    let owners = slice.metadata.owner_references.iter().flatten();
    let is_of_another = owners.into_iter().any(|owner| {
        owner.kind == "Endpoints" && owner.name == meta::name(endpoints) && owner.uid != meta::uid(endpoints)
    });
    sorted(slice) == sorted(wanted)
        && own(slice) == own(wanted)
        && annotations(slice) == annotations(wanted)
        && !is_of_another
}

impl EndpointSliceMirroring {
    async fn mirror(
        key: &ObjectKey,
        context: &Context,
        endpoints: &Endpoints,
        mut existing: Vec<Arc<EndpointSlice>>,
    ) -> Result<(), Error> {
        let (wanted, invalid, too_many) = desired(endpoints);
        let warn = |reason, note| context.event(endpoints, EventType::Warning, reason, reason, note);
        if invalid > 0 {
            let note = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            warn("InvalidIPAddress", note);
        }
        if too_many > 0 {
            let skipped = invalid + too_many;
            let note = format!(
                "A max of {MAX} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
            );
            warn("TooManyAddressesToMirror", note);
        }
        let (mut create, mut update) = (Vec::new(), Vec::new());
        for (group_key, mut slice) in wanted {
            let is_of = |slice: &Arc<EndpointSlice>| {
                group(&slice.address_type, slice.ports.as_deref().unwrap_or_default()) == group_key
            };
            let Some(place) = existing.iter().position(is_of) else {
                create.push(slice);
                continue;
            };
            let old = existing.remove(place);
            if !is_same(&old, &slice, endpoints) {
                slice.metadata.generate_name = None;
                slice.metadata.name.clone_from(&old.metadata.name);
                update.push(slice);
            }
        }
        // `recycleSlices`: those that would go take over what would be new, of the same address type.
        let mut delete = Vec::new();
        for old in existing {
            match create.iter().position(|new| new.address_type == old.address_type) {
                Some(place) => {
                    let mut new = create.remove(place);
                    new.metadata.generate_name = None;
                    new.metadata.name.clone_from(&old.metadata.name);
                    update.push(new);
                }
                None => delete.push(old),
            }
        }
        if meta::is_deleting(endpoints) {
            create.clear();
        }
        for slice in &create {
            match context.create(key, slice).await {
                Err(error) if is_namespace_ending(&error) => return Ok(()),
                created => drop(created?),
            }
        }
        for slice in &update {
            context.replace(key, slice).await?;
        }
        for slice in &delete {
            context.delete(key, &**slice).await?;
        }
        Ok(())
    }
}

impl Controller for EndpointSliceMirroring {
    const NAME: &'static str = "endpoint-slice-mirroring-controller";

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Service(change) => vec![change.key.clone()],
            AnyChange::Endpoints(change) => vec![change.key.clone()],
            AnyChange::EndpointSlice(change) => {
                let slices = change.new.iter().chain(&change.old);
                slices.filter_map(|slice| endpoints_of(slice)).take(1).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let mut slices = context.informers.slices_with(&key.namespace, SERVICE_NAME, &key.name);
        slices.retain(|slice| endpoints_of(slice).is_some() && !meta::is_deleting(&**slice));
        let service = context.informers.services.get(key);
        let has_none = |selector: Option<&Labels>| selector.is_none_or(Labels::is_empty);
        let is_manual = service
            .is_some_and(|service| has_none(service.spec.as_ref().and_then(|spec| spec.selector.as_ref())));
        let endpoints = context.informers.endpoints.get(key).filter(|one| is_manual && is_mirrored(one));
        match endpoints {
            Some(endpoints) => Self::mirror(key, context, &endpoints, slices).await?,
            None => {
                for slice in &slices {
                    context.delete(key, &**slice).await?;
                }
            }
        }
        Ok(Next::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_address_type_and_set_of_ports_has_a_slice() {
        let endpoints = json!({
            "metadata": {"name": "db", "namespace": "shop", "uid": "e", "labels": {"team": "a"},
                "annotations": {"note": "x", LAST_APPLIED: "{}"}},
            "subsets": [
                {"addresses": [{"ip": "10.9.0.1"}, {"ip": "fd00::1"}, {"ip": "nonsense"}], "notReadyAddresses": [{"ip": "10.9.0.2"}],
                    "ports": [{"port": 5432}]},
            ],
        });
        let endpoints: Endpoints = serde_json::from_value(endpoints).expect("Endpoints");
        let (slices, invalid, too_many) = desired(&endpoints);
        assert_eq!((slices.len(), invalid, too_many), (2, 1, 0));
        let v4 = slices.values().find(|slice| slice.address_type == "IPv4").expect("a slice");
        let ready: Vec<_> = v4
            .endpoints
            .iter()
            .flatten()
            .map(|one| {
                (one.addresses[0].as_str(), one.conditions.as_ref().and_then(|conditions| conditions.ready))
            })
            .collect();
        assert_eq!(ready, [("10.9.0.1", Some(true)), ("10.9.0.2", Some(false))]);
        assert_eq!(v4.metadata.annotations, Some([("note".to_owned(), "x".to_owned())].into()));
        assert!(is_same(v4, v4, &endpoints));
        let mut other = v4.clone();
        other.metadata.labels.get_or_insert_default().remove("team");
        assert!(!is_same(&other, v4, &endpoints));
    }
}
