//! Service IP and node port allocator (`pkg/registry/core/service/storage` upstream).
//!
//! Nothing routes to these addresses here, but clients read them, and upstream never gives one twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use settled_store::{Entry, Resource, Scope, Store, Watch};

use crate::error::{ApiError, Cause};
use crate::kinds::core::service::validation::{self, is_reachable, validate_addresses};
use crate::kinds::definition::Definition;
use crate::metadata::invalid;
use crate::object::{member_mut, text};
use crate::state::call::Target;
use crate::state::random::Random;
use crate::state::service_range::{Family, Network, ServiceRange};

/// Ports of nodes.
const PORTS: std::ops::RangeInclusive<u64> = 30_000..=32_767;

/// What only one Service can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Claim {
    Address(IpAddr),
    Port(u64),
}

/// Who has what: the Services that are stored, and those that are being written.
#[derive(Debug)]
pub(crate) struct Claims {
    range: ServiceRange,
    random: Arc<Random>,
    ledger: Mutex<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    /// What happened to Services since they were counted. It is read on request, and never waited for: a write is
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

fn claims_of(entry: &Entry) -> BTreeSet<Claim> {
    serde_json::from_slice(entry.value()).map(|service| claimed(&service)).unwrap_or_default()
}

impl Claims {
    pub(crate) fn new(range: ServiceRange, random: Arc<Random>) -> Self {
        Self { range, random, ledger: Mutex::default() }
    }

    /// Where addresses come from.
    pub(crate) fn range(&self) -> &ServiceRange {
        &self.range
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn free_address(&self, network: &Network, random: &Random) -> Option<IpAddr> {
        let mut candidates = network.candidates(random.uuid().as_u128());
        candidates.find(|address| self.is_free(Claim::Address(*address)))
    }

    fn free_port(&self, random: &Random) -> Option<u64> {
        let (from, size) =
            (u64::from(u32::from_be_bytes(random_bytes(random))), PORTS.end() - PORTS.start() + 1);
        let port = |at| PORTS.start() + (from + at) % size;
        (0..size).map(port).find(|port| self.is_free(Claim::Port(*port)))
    }
}

/// Adds claims to a reservation, one by one.
struct Taking<'a> {
    ledger: MutexGuard<'a, Ledger>,
    reservation: Reservation<'a>,
}

/// Of addresses that are not in the network.
const ELSEWHERE: &str = "the provided network does not match the current range";

impl Taking<'_> {
    fn hold(&mut self, claim: Claim) {
        add(&mut self.ledger.reserved, claim);
        self.reservation.held.push(claim);
    }

    /// An address that the client names.
    fn address(&mut self, address: IpAddr) -> Result<(), &'static str> {
        let range = self.reservation.claims.range();
        if range.of(Family::of(address)).is_none_or(|network| !network.contains(address)) {
            return Err(ELSEWHERE);
        }
        if !self.ledger.is_free(Claim::Address(address)) {
            return Err("provided IP is already allocated");
        }
        self.hold(Claim::Address(address));
        Ok(())
    }

    /// A port that the client names.
    fn port(&mut self, port: u64) -> Result<(), &'static str> {
        if !PORTS.contains(&port) {
            return Err("provided port is not in the valid range. The range of valid ports is 30000-32767");
        }
        if !self.ledger.is_free(Claim::Port(port)) {
            return Err("provided port is already allocated");
        }
        self.hold(Claim::Port(port));
        Ok(())
    }

    fn any_address(&mut self, name: &str, family: Family) -> Result<IpAddr, ApiError> {
        let network = self.reservation.claims.range().of(family);
        let random = &self.reservation.claims.random;
        let address =
            network.and_then(|network| self.ledger.free_address(network, random)).ok_or_else(|| {
                let name = settled_go::strconv::quote(name);
                ApiError::internal(format_args!(
                    "failed to allocate a serviceIP for Service {name}: range is full"
                ))
            })?;
        self.hold(Claim::Address(address));
        Ok(address)
    }

    fn any_port(&mut self) -> Result<u64, &'static str> {
        let port = self.ledger.free_port(&self.reservation.claims.random).ok_or("range is full")?;
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

fn forwards(service: &Value) -> bool {
    matches!(word(service, "type"), "NodePort" | "LoadBalancer")
}

fn needs_health_check(service: &Value) -> bool {
    service.get("spec").is_some_and(validation::needs_health_check)
}

fn health_check_port(service: &Value) -> u64 {
    spec(service).get("healthCheckNodePort").and_then(Value::as_u64).unwrap_or_default()
}

/// What a Service has that no other can have. Two protocols may share a port.
fn claimed(service: &Value) -> BTreeSet<Claim> {
    let ports = list(service, "ports");
    let ports = ports.iter().map(node_port).chain([health_check_port(service)]).filter(|port| *port != 0);
    let mut addresses = list(service, "clusterIPs");
    if addresses.is_empty() {
        addresses.push(word(service, "clusterIP").into());
    }
    let addresses = addresses.iter().filter_map(|address| address.as_str()?.parse().ok());
    ports.map(Claim::Port).chain(addresses.filter(|_| has_address(service)).map(Claim::Address)).collect()
}

impl Claims {
    /// Whether objects of a kind need any: those of Services do.
    pub(crate) fn has(definition: &Definition) -> bool {
        definition.is("", "services")
    }

    /// Gives a Service what it needs and does not say. Other kinds need nothing.
    ///
    /// Nobody else gets the same while the reservation lives, which must be until the Service is stored.
    pub(crate) fn allocate(
        &self,
        store: &Store,
        target: &Target<'_>,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<Option<Reservation<'_>>, ApiError> {
        if !Self::has(target.definition) {
            return Ok(None);
        }
        if let Some(old) = old {
            keep(service, old);
        }
        normalize(service, old);
        let mut reservation = None;
        if has_address(service) {
            let refused = |causes| ApiError::invalid("", "Service", target.name, causes);
            families(service, old, &self.range).map_err(refused)?;
            if !is_complete(service, old) {
                reservation = Some(self.take(store, target, service, old)?);
            }
        }
        if let Some(old) = old {
            drop_what_is_left(service, old);
        }
        if !has_address(service) {
            // Upstream stores and does not show it.
            member_mut(service, "spec").remove("internalTrafficPolicy");
        }
        Ok(reservation)
    }

    fn take(
        &self,
        store: &Store,
        target: &Target<'_>,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<Reservation<'_>, ApiError> {
        let mut ledger = self.ledger();
        ledger.catch_up(store, &target.definition.resource)?;
        let reservation = Reservation { claims: self, held: Vec::new() };
        let mut taking = Taking { ledger, reservation };
        let refused = |cause| ApiError::invalid("", "Service", target.name, vec![cause]);
        let taken = address(&mut taking, target.name, service, old, refused)
            .and_then(|()| ports(&mut taking, service, old, refused))
            .and_then(|()| health_check(&mut taking, service, old));
        // Without the lock, which the reservation takes when it is dropped.
        let Taking { ledger, reservation } = taking;
        drop(ledger);
        taken.map(|()| reservation)
    }
}

/// Whether a Service has all that it needs, and nothing that it did not have before.
fn is_complete(service: &Value, old: Option<&Value>) -> bool {
    let port = has_node_ports(service) && list(service, "ports").iter().any(|port| node_port(port) == 0);
    let check = needs_health_check(service) && health_check_port(service) == 0;
    let before = old.map(claimed).unwrap_or_default();
    let headless = word(service, "clusterIP") == "None";
    let addresses = headless || list(service, "clusterIPs").len() >= list(service, "ipFamilies").len();
    !word(service, "clusterIP").is_empty()
        && addresses
        && !port
        && !check
        && claimed(service).is_subset(&before)
}

/// Gives an address of each family, or takes those that were asked for.
fn address(
    taking: &mut Taking<'_>,
    name: &str,
    service: &mut Value,
    old: Option<&Value>,
    refused: impl Fn(Cause) -> ApiError,
) -> Result<(), ApiError> {
    if word(service, "clusterIP") == "None" {
        return Ok(());
    }
    // What was given before stays, whatever the client says.
    let known = old.filter(|old| has_address(old)).map_or(0, |old| list(old, "clusterIPs").len().max(1));
    let mut addresses = list(service, "clusterIPs");
    if addresses.is_empty() && !word(service, "clusterIP").is_empty() {
        addresses.push(word(service, "clusterIP").into());
    }
    let asked = Value::from(addresses.clone());
    for (index, family) in list(service, "ipFamilies").iter().enumerate().skip(known) {
        let family = if family == Family::V6.name() { Family::V6 } else { Family::V4 };
        let given = addresses.get(index).and_then(Value::as_str).unwrap_or_default();
        if given.is_empty() {
            let address = taking.any_address(name, family)?.to_string();
            addresses.truncate(index);
            addresses.push(address.into());
            continue;
        }
        let taken = match given.parse() {
            Ok(address) => taking.address(address),
            Err(_) => Err(ELSEWHERE),
        };
        taken.map_err(|why| {
            refused(invalid("spec.clusterIPs", &asked, &format!("failed to allocate IP {given}: {why}")))
        })?;
    }
    if let Some(first) = addresses.first().cloned() {
        let spec = member_mut(service, "spec");
        spec.insert("clusterIP".to_owned(), first);
        spec.insert("clusterIPs".to_owned(), addresses.into());
    }
    Ok(())
}

/// Gives ports of nodes, or takes those that were asked for.
fn ports(
    taking: &mut Taking<'_>,
    service: &mut Value,
    old: Option<&Value>,
    refused: impl Fn(Cause) -> ApiError,
) -> Result<(), ApiError> {
    if !forwards(service) {
        return Ok(());
    }
    let gives = has_node_ports(service);
    let own = old.map(claimed).unwrap_or_default();
    let asked = list(service, "ports");
    // Both protocols of a port have one on the nodes.
    let mut shared: BTreeMap<u64, u64> = BTreeMap::new();
    let number = |port: &Value| port.get("port").and_then(Value::as_u64).unwrap_or_default();
    let ports = member_mut(service, "spec").get_mut("ports").and_then(Value::as_array_mut);
    for (index, port) in ports.into_iter().flatten().enumerate() {
        let given = match node_port(port) {
            0 if !gives => continue,
            0 if old.is_none() => {
                let same = asked.iter().filter(|other| number(other) == number(port)).map(node_port);
                same.into_iter().find(|port| *port != 0).unwrap_or_default()
            }
            given => given,
        };
        let known = old.is_none() && shared.get(&number(port)).is_some_and(|known| *known == given);
        let again = old.is_some() && taking.reservation.held.contains(&Claim::Port(given));
        let chosen = match (given, shared.get(&number(port))) {
            (0, Some(known)) if old.is_none() => *known,
            (0, _) => taking
                .any_port()
                .map_err(|why| ApiError::internal(format_args!("failed to allocate a nodePort: {why}")))?,
            (given, _) if known || again || own.contains(&Claim::Port(given)) => given,
            (given, _) => {
                taking.port(given).map_err(|why| {
                    refused(invalid(&format!("spec.ports[{index}].nodePort"), &given.into(), why))
                })?;
                given
            }
        };
        shared.entry(number(port)).or_insert(chosen);
        if let Some(port) = port.as_object_mut() {
            port.insert("nodePort".to_owned(), chosen.into());
        }
    }
    Ok(())
}

/// Gives the port at which nodes tell whether they have a Pod of the Service, or takes the one that was asked for.
fn health_check(taking: &mut Taking<'_>, service: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
    if !needs_health_check(service) || old.is_some_and(needs_health_check) {
        return Ok(());
    }
    let failed = |what: &str, why: &str| {
        ApiError::internal(format_args!("failed to allocate {what}HealthCheck NodePort {why}"))
    };
    let port = match health_check_port(service) {
        0 => taking.any_port().map_err(|why| failed("a ", &format!("0: {why}")))?,
        given => {
            taking.port(given).map_err(|why| failed("requested ", &format!("{given}: {why}")))?;
            given
        }
    };
    member_mut(service, "spec").insert("healthCheckNodePort".to_owned(), port.into());
    Ok(())
}

/// A change of type leaves fields that mean nothing any more: unless the client changed them too, they go
/// (`dropTypeDependentFields` upstream).
fn drop_what_is_left(service: &mut Value, old: &Value) {
    let same = |service: &Value, name: &str| spec(service).get(name) == spec(old).get(name);
    let mut gone: Vec<&str> = Vec::new();
    if has_address(old) && !has_address(service) {
        if same(service, "clusterIP") && same(service, "clusterIPs") {
            gone.extend(["clusterIP", "clusterIPs"]);
        }
        gone.extend(["ipFamilies", "ipFamilyPolicy"].into_iter().filter(|name| same(service, name)));
    }
    let has = |service: &Value, what: fn(&Value) -> bool| service.get("spec").is_some_and(what);
    let balances = |service: &Value| word(service, "type") == "LoadBalancer";
    let lost = |what: fn(&Value) -> bool| has(old, what) && !has(service, what);
    let mut candidates = Vec::new();
    if lost(validation::needs_health_check) {
        candidates.push("healthCheckNodePort");
    }
    if balances(old) && !balances(service) {
        candidates.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if lost(is_reachable) {
        candidates.push("externalTrafficPolicy");
    }
    gone.extend(candidates.into_iter().filter(|name| same(service, name)));
    let unused = has_node_ports(old) && !has_node_ports(service);
    let known: BTreeSet<u64> = list(old, "ports").iter().map(node_port).collect();
    let new_ones =
        list(service, "ports").iter().map(node_port).any(|port| port != 0 && !known.contains(&port));
    let loses_status = !balances(service);
    let spec = member_mut(service, "spec");
    for name in gone {
        spec.remove(name);
    }
    if unused && !new_ones {
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    if loses_status && let Some(status) = service.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("loadBalancer".to_owned(), json!({}));
    }
}

/// Four bytes that hold nothing but chance.
fn random_bytes(random: &Random) -> [u8; 4] {
    let [a, b, c, d, ..] = random.uuid().into_bytes();
    [a, b, c, d]
}

/// What was given before stays, even if the client does not repeat it.
pub(crate) fn keep(service: &mut Value, old: &Value) {
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
    if has_node_ports(old) && has_node_ports(service) {
        let before = list(old, "ports");
        let before: BTreeMap<&str, u64> =
            before.iter().rev().map(|port| (text(port, "name"), node_port(port))).collect();
        let taken: BTreeSet<u64> = list(service, "ports").iter().map(node_port).collect();
        let ports = member_mut(service, "spec").get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter(|port| node_port(port) == 0) {
            let same = before.get(text(port, "name")).copied();
            let known = same.filter(|known| *known != 0 && !taken.contains(known));
            if let (Some(known), Some(port)) = (known, port.as_object_mut()) {
                port.insert("nodePort".to_owned(), known.into());
            }
        }
    }
}

/// `clusterIP` is the first of `clusterIPs`, whichever the client knows of (`normalizeClusterIPs` upstream).
pub(crate) fn normalize(service: &mut Value, old: Option<&Value>) {
    let one = word(service, "clusterIP").to_owned();
    let many = list(service, "clusterIPs");
    let Some(old) = old else {
        if !one.is_empty() && many.is_empty() {
            member_mut(service, "spec").insert("clusterIPs".to_owned(), json!([one]));
        }
        return;
    };
    let (before, all_before) = (word(old, "clusterIP"), list(old, "clusterIPs"));
    if one == before {
        if many.is_empty() && !all_before.is_empty() {
            member_mut(service, "spec").insert("clusterIPs".to_owned(), all_before.into());
        }
    } else if many == all_before {
        let spec = member_mut(service, "spec");
        match one.is_empty() {
            true => spec.remove("clusterIPs"),
            false => spec.insert("clusterIPs".to_owned(), json!([one])),
        };
    }
}

/// The families of addresses, and how many there are (`initIPFamilyFields` upstream).
fn families(service: &mut Value, old: Option<&Value>, range: &ServiceRange) -> Result<(), Vec<Cause>> {
    let configured: Vec<Value> = range.families().into_iter().map(|family| family.name().into()).collect();
    let usual = configured.first().cloned().unwrap_or_default();
    let same = |service: &Value, name: &str| old.is_some_and(|old| list(old, name) == list(service, name));
    if word(service, "ipFamilyPolicy") == "PreferDualStack"
        && old.is_some_and(|old| {
            word(old, "type") == word(service, "type")
                && ["", "PreferDualStack"].contains(&word(old, "ipFamilyPolicy"))
        })
        && same(service, "clusterIPs")
        && same(service, "ipFamilies")
    {
        return Ok(());
    }
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
    member_mut(service, "spec").insert("ipFamilyPolicy".to_owned(), policy.clone().into());
    let wrong = validate_addresses(service, old);
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let single = policy == "SingleStack";
    let mut causes = Vec::new();
    let refuse = |causes: &mut Vec<Cause>, why: &str| {
        causes.push(invalid("spec.ipFamilyPolicy", &json!(policy), why));
    };
    for (name, released, several) in
        [("clusterIPs", "cluster IP", "cluster IPs"), ("ipFamilies", "IP family", "IP families")]
    {
        let mut items = list(service, name);
        let before = old.map(|old| list(old, name).len()).unwrap_or_default();
        if single && same(service, name) {
            items.truncate(1);
            if !items.is_empty() {
                member_mut(service, "spec").insert(name.to_owned(), items.clone().into());
            }
        } else if !single && !items.is_empty() && items.len() < before {
            refuse(&mut causes, &format!("must be 'SingleStack' to release the secondary {released}"));
        }
        if single && items.len() == 2 {
            let why = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {several} are specified"
            );
            refuse(&mut causes, &why);
        }
    }
    let mut families = list(service, "ipFamilies");
    let addresses = list(service, "clusterIPs");
    for (at, address) in addresses.iter().enumerate().skip(families.len()) {
        match address.as_str().unwrap_or_default() {
            "None" => break,
            text => {
                let family = if text.contains(':') { "IPv6" } else { "IPv4" };
                if configured.iter().any(|known| known == family) {
                    families.push(family.into());
                } else {
                    let all = Value::from(addresses.clone());
                    let why = format!("{family} is not configured on this cluster");
                    causes.push(invalid(&format!("spec.clusterIPs[{at}]"), &all, &why));
                }
            }
        }
    }
    if !causes.is_empty() {
        return Err(causes);
    }
    if !headless {
        if policy == "RequireDualStack" && configured.len() < 2 {
            refuse(&mut causes, "this cluster is not configured for dual-stack services");
        }
        for (at, family) in families.iter().enumerate().filter(|(_, family)| !configured.contains(family)) {
            causes.push(invalid(&format!("spec.ipFamilies[{at}]"), family, "not configured on this cluster"));
        }
        if !causes.is_empty() {
            return Err(causes);
        }
    }
    if families.is_empty() {
        families.push(usual);
    }
    // Headless Services without a selector may have both families anywhere.
    if !single && families.len() == 1 && (headless || configured.len() == 2) {
        let other = if families == [json!("IPv4")] { "IPv6" } else { "IPv4" };
        families.push(other.into());
    }
    member_mut(service, "spec").insert("ipFamilies".to_owned(), families.into());
    Ok(())
}
