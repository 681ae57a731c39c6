//! Objects of the API server itself: the Service `kubernetes` with its endpoints (`pkg/controlplane/controller/kubernetesservice`
//! upstream), the ServiceCIDR `kubernetes`, and the authentication ConfigMap (`clusterauthenticationtrust`).

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use settled_store::Scope;
use tokio::sync::watch;

use super::feed::Feed;
use super::retry::backoff;
use crate::error::ApiError;
use crate::kinds::apiextensions::custom_resource_definition::{condition, set_condition};
use crate::kinds::names::Part;
use crate::object;
use crate::options::WriteOptions;
use crate::state::State;
use crate::state::call::{Call, Target};
use crate::state::service_range::Family;
use crate::verbs::change::Change;
use crate::verbs::{create, update};

const NAME: &str = "kubernetes";
const AUTHENTICATION: &str = "extension-apiserver-authentication";
const SLICE_OF: &str = "kubernetes.io/service-name";
const NOT_MIRRORED: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Where upstream listens, and where the Service leads to while this server listens nowhere.
const PORT: u16 = 6443;
const AGENT: &str = "kube-apiserver";

/// What the objects tell of the server.
#[derive(Clone)]
pub(crate) struct Facts {
    /// Whose client certificates are accepted, as PEM.
    pub(crate) client_ca: String,
    /// Where the server listens.
    pub(crate) address: watch::Receiver<Option<SocketAddr>>,
}

/// Writes what is missing and mends what was changed. Objects are independent: each is tried.
pub(crate) async fn ensure(state: &State, facts: &Facts) -> Result<(), ApiError> {
    let address = *facts.address.borrow();
    // At once: few commits are made of them.
    let (service, endpoints, slice, cidr, trust) = tokio::join!(
        service(state, address),
        endpoints(state, address),
        endpoint_slice(state, address),
        service_cidr(state),
        authentication(state, &facts.client_ca),
    );
    [service, endpoints, slice, cidr, trust].into_iter().collect()
}

/// Keeps the objects until the server stops.
pub(crate) async fn run(state: Arc<State>, mut facts: Facts) {
    let mut own = Feed::new(&state, own_scope(), |definition| {
        matches!(
            (definition.names.group.as_str(), definition.names.plural.as_str()),
            ("", "services" | "endpoints") | ("discovery.k8s.io", "endpointslices")
        )
    });
    let mut cidr =
        Feed::new(&state, object_scope("", NAME), |definition| definition.names.plural == "servicecidrs");
    let mut trust = Feed::new(&state, object_scope("kube-system", AUTHENTICATION), |definition| {
        definition.is("", "configmaps")
    });
    let mut attempts = None;
    loop {
        let retry = async {
            match attempts {
                None => std::future::pending().await,
                Some(attempts) => tokio::time::sleep(backoff(attempts)).await,
            }
        };
        let news = tokio::select! {
            news = own.next() => news.map(drop),
            news = cidr.next() => news.map(drop),
            news = trust.next() => news.map(drop),
            changed = facts.address.changed() => changed.ok(),
            () = retry => Some(()),
        };
        if news.is_none() {
            return;
        }
        for feed in [&mut own, &mut cidr, &mut trust] {
            while feed.try_next().is_some() {}
        }
        attempts = match ensure(&state, &facts).await {
            Ok(()) => None,
            Err(error) if error.code == 503 => return,
            Err(_) => Some(attempts.map_or(0, |attempts| attempts + 1)),
        };
    }
}

fn own_scope() -> Scope {
    object_scope("default", NAME)
}

fn object_scope(namespace: &str, name: &str) -> Scope {
    Scope::Object { namespace: namespace.to_owned(), name: name.to_owned() }
}

/// Creates an object, or changes the one that is there; a change that changes nothing is not written.
async fn keep(
    state: &State,
    (group, plural): (&str, &str),
    namespace: &str,
    part: Part,
    create: Value,
    change: &(dyn Fn(&mut Value) + Sync),
) -> Result<(), ApiError> {
    let catalog = state.catalog();
    let Some(definition) = catalog.find(group, "v1", plural) else { return Ok(()) };
    let name = object::meta(&create, "name").to_owned();
    let target = Target { definition, namespace, name: &name };
    let options = WriteOptions::internal();
    let mut call = Call::new(AGENT);
    call.now = state.now();
    let Ok(entry) = state.get(&target) else {
        return match create::create(state, &mut call, &target, create, &options).await {
            Err(error) if error.reason == "AlreadyExists" => Ok(()),
            // Its namespace is on its way out, or not here yet.
            Err(error) if matches!(error.reason, "NotFound" | "Forbidden") => Ok(()),
            written => written.map(drop),
        };
    };
    let old = definition.read(&entry);
    let mut new = old.clone();
    change(&mut new);
    if new == old {
        return Ok(());
    }
    let changed = |old: &Value| {
        let mut new = old.clone();
        change(&mut new);
        Ok(new)
    };
    match update::update(state, &mut call, &target, part, Change::With(&changed), &options).await {
        Err(error) if error.code == 404 => Ok(()),
        written => written.map(drop),
    }
}

/// Upstream never changes the Service. Here the port may be another at each start, and the target follows it.
async fn service(state: &State, address: Option<SocketAddr>) -> Result<(), ApiError> {
    let Some(cluster_ip) = state.claims.range().first() else { return Ok(()) };
    let port = address.map_or(PORT, |address| address.port());
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "labels": {"component": "apiserver", "provider": NAME}},
        "spec": {
            "type": "ClusterIP", "clusterIP": cluster_ip.to_string(), "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
        },
    });
    let follow = |service: &mut Value| {
        let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
        let own = ports.into_iter().flatten().find(|port| object::text(port, "name") == "https");
        if let Some(own) = own.filter(|_| address.is_some()) {
            own["targetPort"] = port.into();
        }
    };
    keep(state, ("", "services"), "default", Part::Main, service, &follow).await
}

/// Where others reach the server. None: only this machine does.
fn advertised(address: SocketAddr) -> Option<SocketAddr> {
    let ip = match address.ip() {
        ip if ip.is_unspecified() => own_ip(Family::of(ip))?,
        ip => ip,
    };
    // Endpoints cannot have such an address.
    (!ip.is_loopback()).then(|| SocketAddr::new(ip, address.port()))
}

/// The address from which the machine reaches others. Nothing is sent.
fn own_ip(family: Family) -> Option<IpAddr> {
    let (any, somewhere) = match family {
        Family::V4 => ("0.0.0.0:0", "192.0.2.1:9"),
        Family::V6 => ("[::]:0", "[2001:db8::1]:9"),
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(somewhere).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

async fn endpoints(state: &State, address: Option<SocketAddr>) -> Result<(), ApiError> {
    let Some(address) = address else { return Ok(()) };
    let subsets = advertised(address).map_or_else(
        || json!([]),
        |address| {
            json!([{
                "addresses": [{"ip": address.ip().to_string()}],
                "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
            }])
        },
    );
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": NAME, "labels": {NOT_MIRRORED: "true"}}, "subsets": subsets,
    });
    let mend = |endpoints: &mut Value| {
        labels(endpoints).insert(NOT_MIRRORED.to_owned(), "true".into());
        set_list(endpoints, "subsets", &subsets);
    };
    keep(state, ("", "endpoints"), "default", Part::Main, endpoints, &mend).await
}

async fn endpoint_slice(state: &State, address: Option<SocketAddr>) -> Result<(), ApiError> {
    let Some(address) = address else { return Ok(()) };
    let reached = advertised(address);
    let endpoints = reached.map_or_else(
        || json!([]),
        |address| json!([{"addresses": [address.ip().to_string()], "conditions": {"ready": true}}]),
    );
    let ports = reached.map_or_else(
        || json!([]),
        |address| json!([{"name": "https", "port": address.port(), "protocol": "TCP"}]),
    );
    let family = Family::of(reached.unwrap_or(address).ip());
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": NAME, "labels": {SLICE_OF: NAME}},
        "addressType": family.name(), "endpoints": endpoints, "ports": ports,
    });
    let mend = |slice: &mut Value| {
        labels(slice).insert(SLICE_OF.to_owned(), NAME.into());
        set_list(slice, "endpoints", &endpoints);
        set_list(slice, "ports", &ports);
    };
    keep(state, ("discovery.k8s.io", "endpointslices"), "default", Part::Main, slice, &mend).await
}

fn labels(object: &mut Value) -> &mut Map<String, Value> {
    object::member_mut(&mut object["metadata"], "labels")
}

/// An empty list may be none, or null.
fn set_list(object: &mut Value, name: &str, list: &Value) {
    let is_empty = |list: Option<&Value>| list.and_then(Value::as_array).is_none_or(Vec::is_empty);
    if !(is_empty(object.get(name)) && is_empty(Some(list))) {
        object[name] = list.clone();
    }
}

async fn service_cidr(state: &State) -> Result<(), ApiError> {
    let kind = ("networking.k8s.io", "servicecidrs");
    let cidrs = state.claims.range().cidrs();
    let cidr = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": NAME}, "spec": {"cidrs": cidrs},
    });
    // A second family may be added; other changes are inconsistent, and upstream leaves them.
    let extend = |cidr: &mut Value| {
        let before = cidr.pointer("/spec/cidrs").and_then(Value::as_array);
        if cidrs.len() == 2 && before.is_some_and(|before| before.len() == 1 && before[0] == cidrs[0]) {
            cidr["spec"]["cidrs"] = json!(cidrs);
        }
    };
    keep(state, kind, "", Part::Main, cidr.clone(), &extend).await?;
    let now = state.now();
    let ready = |cidr: &mut Value| {
        let same = cidr.pointer("/spec/cidrs") == Some(&json!(cidrs));
        if same && !object::is_terminating(cidr) && condition(cidr, "Ready").is_none() {
            let message = "Kubernetes default Service CIDR is ready";
            set_condition(cidr, ("Ready", "True", "", message), now);
        }
    };
    keep(state, kind, "", Part::Status, cidr, &ready).await
}

async fn authentication(state: &State, client_ca: &str) -> Result<(), ApiError> {
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": AUTHENTICATION}, "data": {"client-ca-file": client_ca},
    });
    let mend = |config: &mut Value| {
        object::member_mut(config, "data").insert("client-ca-file".to_owned(), client_ca.into());
    };
    keep(state, ("", "configmaps"), "kube-system", Part::Main, config, &mend).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reachable_addresses_are_advertised() {
        for (address, wanted) in [
            ("192.0.2.7:6443", Some("192.0.2.7:6443")),
            ("[2001:db8::7]:6443", Some("[2001:db8::7]:6443")),
            ("127.0.0.1:6443", None),
            ("[::1]:6443", None),
        ] {
            let found = advertised(address.parse().unwrap());
            assert_eq!(found, wanted.map(|wanted| wanted.parse().unwrap()), "{address}");
        }
        // What a machine without a network has is none; else it is neither all addresses nor loopback.
        let found = advertised("0.0.0.0:6443".parse().unwrap()).map(|address| address.ip());
        assert!(found.is_none_or(|ip| !ip.is_unspecified() && !ip.is_loopback()));
    }
}
