//! What a Service is given by the server: addresses, ports, families (`pkg/registry/core/service/storage` upstream).
//!
//! Nothing routes to these addresses here, but clients read them, and upstream never gives one twice.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use settled_store::{Entry, Resource, Scope, Store, Watch};

use crate::core::{Core, Target};
use crate::error::{ApiError, Cause};
use crate::metadata::invalid;
use crate::object::{member_mut, text};

/// Addresses are `10.96.0.0/12`, as kubeadm has it; the first ones are for well-known Services.
const NETWORK: u32 = 0x0a60_0000;
const ADDRESSES: u32 = 1 << 20;
const RESERVED: u32 = 256;
/// Ports of nodes.
const PORTS: std::ops::RangeInclusive<u64> = 30_000..=32_767;

/// What only one Service can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Claim {
    Address(Ipv4Addr),
    Port(u64),
}

/// Who has what: the Services that are stored, and those that are being written.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<Ledger>);

#[derive(Debug, Default)]
struct Ledger {
    /// What happened to Services since they were counted. It is read when somebody asks, and never waited for: a write is
    /// in here before it is acknowledged.
    changes: Option<Watch>,
    stored: HashMap<Claim, usize>,
    reserved: HashMap<Claim, usize>,
}

/// Claims that nobody else gets while their Service is being written.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    claims: &'a Claims,
    held: Vec<Claim>,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut ledger = self.claims.ledger();
        for claim in self.held.drain(..) {
            subtract(&mut ledger.reserved, claim);
        }
    }
}

fn add(counts: &mut HashMap<Claim, usize>, claim: Claim) {
    *counts.entry(claim).or_default() += 1;
}

fn subtract(counts: &mut HashMap<Claim, usize>, claim: Claim) {
    if let Some(count) = counts.get_mut(&claim) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&claim);
        }
    }
}

fn claims_of(entry: &Entry) -> Vec<Claim> {
    serde_json::from_slice(entry.value()).map(|service| claimed(&service)).unwrap_or_default()
}

impl Claims {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    /// Takes in what happened since the last time.
    fn catch_up(&mut self, store: &Store, services: &Resource) -> Result<(), ApiError> {
        while let Some(changes) = &mut self.changes {
            match changes.try_recv() {
                Ok(Some(event)) => {
                    for claim in event.previous().into_iter().flat_map(|entry| claims_of(entry)) {
                        subtract(&mut self.stored, claim);
                    }
                    for claim in event.entry().into_iter().flat_map(|entry| claims_of(entry)) {
                        add(&mut self.stored, claim);
                    }
                }
                Ok(None) => return Ok(()),
                // More happened than was kept: count again.
                Err(_) => self.changes = None,
            }
        }
        let watch = store.snapshot_and_watch(services, &Scope::All);
        let (snapshot, changes) = watch.map_err(ApiError::internal)?;
        self.stored.clear();
        for claim in snapshot.iter(&Scope::All).flat_map(|entry| claims_of(entry)) {
            add(&mut self.stored, claim);
        }
        self.changes = Some(changes);
        Ok(())
    }

    fn is_free(&self, claim: Claim) -> bool {
        !self.stored.contains_key(&claim) && !self.reserved.contains_key(&claim)
    }

    fn free_address(&self) -> Option<Ipv4Addr> {
        let (from, size) = (u32::from_be_bytes(chance()), ADDRESSES - RESERVED - 1);
        let address = |at| Ipv4Addr::from(NETWORK + RESERVED + from.wrapping_add(at) % size);
        (0..size).map(address).find(|address| self.is_free(Claim::Address(*address)))
    }

    fn free_port(&self) -> Option<u64> {
        let (from, size) = (u64::from(u32::from_be_bytes(chance())), PORTS.end() - PORTS.start() + 1);
        let port = |at| PORTS.start() + (from + at) % size;
        (0..size).map(port).find(|port| self.is_free(Claim::Port(*port)))
    }
}

/// Adds claims to a reservation, one by one.
struct Taking<'a> {
    ledger: MutexGuard<'a, Ledger>,
    /// What the Service has already.
    before: Vec<Claim>,
    reservation: Reservation<'a>,
}

impl Taking<'_> {
    fn hold(&mut self, claim: Claim) {
        add(&mut self.ledger.reserved, claim);
        self.reservation.held.push(claim);
    }

    fn has(&self, claim: Claim) -> bool {
        self.before.contains(&claim) || self.reservation.held.contains(&claim)
    }

    /// An address that the client names.
    fn address(&mut self, address: Ipv4Addr) -> Result<(), &'static str> {
        let host = u32::from(address).wrapping_sub(NETWORK);
        if self.has(Claim::Address(address)) {
            return Ok(());
        }
        // Neither the network itself nor its last address, which is for everybody.
        if !(1..ADDRESSES - 1).contains(&host) {
            return Err("the provided network does not match the current range");
        }
        if !self.ledger.is_free(Claim::Address(address)) {
            return Err("provided IP is already allocated");
        }
        self.hold(Claim::Address(address));
        Ok(())
    }

    /// A port that the client names.
    fn port(&mut self, port: u64) -> Result<(), &'static str> {
        if self.has(Claim::Port(port)) {
            return Ok(());
        }
        if !PORTS.contains(&port) {
            return Err("provided port is not in the valid range. The range of valid ports is 30000-32767");
        }
        if !self.ledger.is_free(Claim::Port(port)) {
            return Err("provided port is already allocated");
        }
        self.hold(Claim::Port(port));
        Ok(())
    }

    fn any_address(&mut self, name: &str) -> Result<Ipv4Addr, ApiError> {
        let address = self.ledger.free_address().ok_or_else(|| {
            let name = settled_go_text::quote(name);
            ApiError::internal(format_args!(
                "failed to allocate a serviceIP for Service {name}: range is full"
            ))
        })?;
        self.hold(Claim::Address(address));
        Ok(address)
    }

    fn any_port(&mut self, what: &str) -> Result<u64, ApiError> {
        let full = || ApiError::internal(format_args!("failed to allocate a {what}: range is full"));
        let port = self.ledger.free_port().ok_or_else(full)?;
        self.hold(Claim::Port(port));
        Ok(port)
    }
}

fn spec(service: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    service.get("spec").and_then(Value::as_object).unwrap_or(&EMPTY)
}

fn word<'a>(service: &'a Value, name: &str) -> &'a str {
    service.get("spec").map(|spec| text(spec, name)).unwrap_or_default()
}

fn list(service: &Value, name: &str) -> Vec<Value> {
    spec(service).get(name).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn has_address(service: &Value) -> bool {
    word(service, "type") != "ExternalName"
}

fn has_node_ports(service: &Value) -> bool {
    match word(service, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec(service).get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
        _ => false,
    }
}

fn node_port(port: &Value) -> u64 {
    port.get("nodePort").and_then(Value::as_u64).unwrap_or_default()
}

fn needs_health_check(service: &Value) -> bool {
    is_load_balancer(service) && word(service, "externalTrafficPolicy") == "Local"
}

/// The address that a Service has, if it is one: there may be none, or `None`.
fn address(service: &Value) -> Option<Ipv4Addr> {
    word(service, "clusterIP").parse().ok()
}

fn health_check_port(service: &Value) -> u64 {
    spec(service).get("healthCheckNodePort").and_then(Value::as_u64).unwrap_or_default()
}

/// What a Service has that no other can have.
fn claimed(service: &Value) -> Vec<Claim> {
    let mut ports: Vec<u64> = list(service, "ports").iter().map(node_port).collect();
    ports.push(health_check_port(service));
    // Two protocols may share a port.
    ports.sort_unstable();
    ports.dedup();
    let ports = ports.into_iter().filter(|port| *port != 0).map(Claim::Port);
    address(service).filter(|_| has_address(service)).map(Claim::Address).into_iter().chain(ports).collect()
}

impl Core {
    /// Gives a Service what it needs and does not say. Other kinds need nothing.
    ///
    /// Nobody else gets the same while the reservation lives, which must be until the Service is stored.
    pub(crate) fn allocate(
        &self,
        target: &Target<'_>,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<Option<Reservation<'_>>, ApiError> {
        if (target.definition.group.as_str(), target.definition.plural.as_str()) != ("", "services") {
            return Ok(None);
        }
        if let Some(old) = old {
            drop_unused(service, old);
            keep(service, old);
        }
        normalize(service, old);
        if !has_address(service) {
            return Ok(None);
        }
        let refused = |causes| ApiError::invalid("", "Service", target.name, causes);
        families(service, old).map_err(refused)?;

        let before = old.map(claimed).unwrap_or_default();
        let health_check = needs_health_check(service) && health_check_port(service) == 0;
        let port = has_node_ports(service) && list(service, "ports").iter().any(|port| node_port(port) == 0);
        let complete = !word(service, "clusterIP").is_empty() && !port && !health_check;
        if complete && claimed(service).iter().all(|claim| before.contains(claim)) {
            return Ok(None);
        }
        let mut ledger = self.claims.ledger();
        ledger.catch_up(&self.store, &target.definition.resource)?;
        let reservation = Reservation { claims: &self.claims, held: Vec::new() };
        let mut taking = Taking { ledger, before, reservation };
        let taken = take(&mut taking, target, service);
        // Without the lock, which the reservation takes when it is dropped.
        let Taking { ledger, reservation, .. } = taking;
        drop(ledger);
        taken.map(|()| Some(reservation))
    }
}

fn take(taking: &mut Taking<'_>, target: &Target<'_>, service: &mut Value) -> Result<(), ApiError> {
    let refused = |at: &str, value: Value, why: &str| {
        ApiError::invalid("", "Service", target.name, vec![invalid(at, &value, why)])
    };
    if word(service, "clusterIP").is_empty() {
        let address = taking.any_address(target.name)?.to_string();
        let spec = member_mut(service, "spec");
        spec.insert("clusterIP".to_owned(), address.clone().into());
        spec.insert("clusterIPs".to_owned(), json!([address]));
    } else if let Some(address) = address(service) {
        taking.address(address).map_err(|why| {
            refused("spec.clusterIPs", json!([address]), &format!("failed to allocate IP {address}: {why}"))
        })?;
    }

    // Ports with one number share one port of the node, whatever their protocols.
    let mut shared: BTreeMap<u64, u64> = BTreeMap::new();
    let mut ports = list(service, "ports");
    for port in &ports {
        let number = port.get("port").and_then(Value::as_u64).unwrap_or_default();
        let given = node_port(port);
        if given != 0 {
            shared.entry(number).or_insert(given);
        }
    }
    let all = has_node_ports(service);
    for (at, port) in ports.iter_mut().enumerate() {
        let number = port.get("port").and_then(Value::as_u64).unwrap_or_default();
        let at = format!("spec.ports[{at}].nodePort");
        let given = node_port(port);
        if given != 0 {
            taking.port(given).map_err(|why| refused(&at, given.into(), why))?;
        } else if all {
            let given = match shared.get(&number) {
                Some(given) => {
                    taking.port(*given).map_err(|why| refused(&at, (*given).into(), why))?;
                    *given
                }
                None => taking.any_port("nodePort")?,
            };
            shared.insert(number, given);
            if let Some(port) = port.as_object_mut() {
                port.insert("nodePort".to_owned(), given.into());
            }
        }
    }
    let health_check = match health_check_port(service) {
        0 if needs_health_check(service) => Some(taking.any_port("HealthCheck NodePort")?),
        0 => None,
        given => {
            let failed = |why| format!("failed to allocate requested HealthCheck NodePort {given}: {why}");
            taking.port(given).map_err(|why| ApiError::internal(failed(why)))?;
            None
        }
    };
    let spec = member_mut(service, "spec");
    if !ports.is_empty() {
        spec.insert("ports".to_owned(), ports.into());
    }
    if let Some(port) = health_check {
        spec.insert("healthCheckNodePort".to_owned(), port.into());
    }
    Ok(())
}

/// Four bytes that hold nothing but chance.
fn chance() -> [u8; 4] {
    let [a, b, c, d, ..] = uuid::Uuid::new_v4().into_bytes();
    [a, b, c, d]
}

/// What was given before stays, even if the client does not repeat it.
fn keep(service: &mut Value, old: &Value) {
    let needs = needs_health_check(service);
    if has_address(old) && has_address(service) {
        let (one, many) = (word(old, "clusterIP").to_owned(), list(old, "clusterIPs"));
        let spec = member_mut(service, "spec");
        if spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default().is_empty() && !one.is_empty() {
            spec.insert("clusterIP".to_owned(), one.into());
        }
        if spec.get("clusterIPs").and_then(Value::as_array).is_none_or(Vec::is_empty) && !many.is_empty() {
            spec.insert("clusterIPs".to_owned(), many.into());
        }
    }
    if needs_health_check(old) {
        let port = health_check_port(old);
        let spec = member_mut(service, "spec");
        let given = spec.get("healthCheckNodePort").and_then(Value::as_u64).unwrap_or_default();
        if needs && given == 0 && port != 0 {
            spec.insert("healthCheckNodePort".to_owned(), port.into());
        }
    }
    if has_node_ports(old) && has_node_ports(service) {
        let before = list(old, "ports");
        let taken: Vec<u64> = list(service, "ports").iter().map(node_port).collect();
        let ports = member_mut(service, "spec").get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter(|port| node_port(port) == 0) {
            let same = before.iter().find(|other| text(other, "name") == text(port, "name"));
            let known = same.map(node_port).filter(|known| *known != 0 && !taken.contains(known));
            if let (Some(known), Some(port)) = (known, port.as_object_mut()) {
                port.insert("nodePort".to_owned(), known.into());
            }
        }
    }
}

fn is_load_balancer(service: &Value) -> bool {
    word(service, "type") == "LoadBalancer"
}

fn is_reached_from_outside(service: &Value) -> bool {
    matches!(word(service, "type"), "NodePort" | "LoadBalancer")
        || (word(service, "type") == "ClusterIP" && !list(service, "externalIPs").is_empty())
}

/// Fields, and the Services that have a use for them.
type Use = (&'static [&'static str], fn(&Value) -> bool);
const USES: &[Use] = &[
    (&["clusterIP", "clusterIPs"], has_address),
    (&["ipFamilies"], has_address),
    (&["ipFamilyPolicy"], has_address),
    (&["healthCheckNodePort"], needs_health_check),
    (&["allocateLoadBalancerNodePorts"], is_load_balancer),
    (&["loadBalancerClass"], is_load_balancer),
    (&["externalTrafficPolicy"], is_reached_from_outside),
];

/// What a Service had and has no more use for goes, if the client left it as it was (`dropTypeDependentFields` upstream).
fn drop_unused(service: &mut Value, old: &Value) {
    for (fields, used) in USES {
        let same = || fields.iter().all(|field| spec(service).get(*field) == spec(old).get(*field));
        if used(old) && !used(service) && same() {
            let spec = member_mut(service, "spec");
            fields.iter().for_each(|field| drop(spec.remove(*field)));
        }
    }
    let ports = |service: &Value| list(service, "ports").iter().map(node_port).collect::<Vec<_>>();
    if has_node_ports(old) && !has_node_ports(service) && ports(old) == ports(service) {
        let ports = member_mut(service, "spec").get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
}

/// `clusterIP` is the first of `clusterIPs`, whichever the client knows of.
fn normalize(service: &mut Value, old: Option<&Value>) {
    let one = word(service, "clusterIP").to_owned();
    let many = list(service, "clusterIPs");
    let first = many.first().and_then(Value::as_str).unwrap_or_default().to_owned();
    let spec = member_mut(service, "spec");
    if !one.is_empty() && many.is_empty() {
        spec.insert("clusterIPs".to_owned(), json!([one]));
    } else if one.is_empty() && !first.is_empty() && old.is_none() {
        spec.insert("clusterIP".to_owned(), first.into());
    }
}

/// The families of addresses. There are only IPv4 ones here.
fn families(service: &mut Value, old: Option<&Value>) -> Result<(), Vec<Cause>> {
    let headless = word(service, "clusterIP") == "None"
        && spec(service).get("selector").and_then(Value::as_object).is_none_or(Map::is_empty);
    let policy = match word(service, "ipFamilyPolicy") {
        "" => match old.map(|old| word(old, "ipFamilyPolicy")) {
            Some(before) if !before.is_empty() => before.to_owned(),
            _ if headless => "RequireDualStack".to_owned(),
            _ => "SingleStack".to_owned(),
        },
        given => given.to_owned(),
    };
    let mut families = list(service, "ipFamilies");
    let mut causes = Vec::new();
    if policy == "SingleStack" && families.len() > 1 {
        if old.is_some_and(|old| list(old, "ipFamilies") == families) {
            families.truncate(1);
        } else {
            let why =
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
            causes.push(invalid("spec.ipFamilyPolicy", &json!(policy), why));
        }
    }
    if causes.is_empty() && headless {
        if families.is_empty() {
            families.push("IPv4".into());
        }
        if families.len() < 2 && policy != "SingleStack" {
            let other = if families == [json!("IPv4")] { "IPv6" } else { "IPv4" };
            families.push(other.into());
        }
    } else if causes.is_empty() {
        if policy == "RequireDualStack" {
            let why = "this cluster is not configured for dual-stack services";
            causes.push(invalid("spec.ipFamilyPolicy", &json!(policy), why));
        }
        for (at, family) in families.iter().enumerate().filter(|(_, family)| *family != "IPv4") {
            causes.push(invalid(&format!("spec.ipFamilies[{at}]"), family, "not configured on this cluster"));
        }
        if families.is_empty() {
            families.push("IPv4".into());
        }
    }
    if !causes.is_empty() {
        return Err(causes);
    }
    let spec = member_mut(service, "spec");
    spec.insert("ipFamilyPolicy".to_owned(), policy.into());
    spec.insert("ipFamilies".to_owned(), families.into());
    Ok(())
}
