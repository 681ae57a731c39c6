//! What a Service is given by the server: addresses, ports, families (`pkg/registry/core/service/storage` upstream).
//!
//! Nothing routes to these addresses here, but clients read them, and upstream never gives one twice.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::builtin;
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

impl Core {
    /// Gives a Service what it needs and does not say. Other kinds need nothing.
    pub(crate) fn allocate(
        &self,
        target: &Target<'_>,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        if (target.definition.group.as_str(), target.definition.plural.as_str()) != ("", "services") {
            return Ok(());
        }
        if let Some(old) = old {
            keep(service, old);
        }
        normalize(service, old);
        if has_address(service) {
            let refused = |causes| ApiError::invalid("", "Service", target.name, causes);
            families(service, old).map_err(refused)?;
            let others: OnceCell<Vec<Value>> = OnceCell::new();
            let others = || {
                others.get_or_init(|| {
                    self.stored("", "services", "").into_iter().map(|(_, other)| other).collect()
                })
            };
            address(service, old, others).map_err(|cause| refused(vec![cause]))?;
            ports(service, old, others, refused)?;
        }
        if let Some(old) = old {
            drop_what_is_left(service, old);
        }
        if !has_address(service) {
            // Upstream stores and does not show it.
            member_mut(service, "spec").remove("internalTrafficPolicy");
        }
        Ok(())
    }
}

/// Gives an address, or takes the one that was asked for.
fn address<'o>(
    service: &mut Value,
    old: Option<&Value>,
    others: impl Fn() -> &'o Vec<Value>,
) -> Result<(), Cause> {
    let given = word(service, "clusterIP").to_owned();
    if given == "None" || old.is_some_and(has_address) {
        return Ok(());
    }
    let used: BTreeSet<&str> = others().iter().map(|other| word(other, "clusterIP")).collect();
    if !given.is_empty() {
        let within = given.parse().is_ok_and(|address: std::net::Ipv4Addr| {
            (NETWORK + 1..NETWORK + ADDRESSES - 1).contains(&u32::from(address))
        });
        let why = match within {
            false => "the provided network does not match the current range",
            true if used.contains(given.as_str()) => "provided IP is already allocated",
            true => return Ok(()),
        };
        let all = Value::from(list(service, "clusterIPs"));
        return Err(invalid("spec.clusterIPs", &all, &format!("failed to allocate IP {given}: {why}")));
    }
    let mut at = u32::from_be_bytes(chance());
    let address = loop {
        let host = RESERVED + at % (ADDRESSES - RESERVED - 1);
        let address = std::net::Ipv4Addr::from(NETWORK + host).to_string();
        if !used.contains(address.as_str()) {
            break address;
        }
        at = at.wrapping_add(1);
    };
    let spec = member_mut(service, "spec");
    spec.insert("clusterIP".to_owned(), address.clone().into());
    spec.insert("clusterIPs".to_owned(), json!([address]));
    Ok(())
}

/// Gives ports of nodes, or takes those that were asked for.
fn ports<'o>(
    service: &mut Value,
    old: Option<&Value>,
    others: impl Fn() -> &'o Vec<Value>,
    refused: impl Fn(Vec<Cause>) -> ApiError,
) -> Result<(), ApiError> {
    let checked = |service: &Value| service.get("spec").is_some_and(builtin::needs_health_check);
    let watched = checked(service) && !old.is_some_and(checked);
    let forwards = matches!(word(service, "type"), "NodePort" | "LoadBalancer");
    if !forwards && !watched {
        return Ok(());
    }
    let mut used: BTreeSet<u64> = others().iter().flat_map(ports_of).collect();
    let take = |used: &mut BTreeSet<u64>, port: u64| match PORTS.contains(&port) {
        false => Err(format!(
            "provided port is not in the valid range. The range of valid ports is {}-{}",
            PORTS.start(),
            PORTS.end()
        )),
        true if used.insert(port) => Ok(()),
        true => Err("provided port is already allocated".to_owned()),
    };
    let next = |used: &mut BTreeSet<u64>| {
        let size = PORTS.end() - PORTS.start() + 1;
        let from = u64::from(u32::from_be_bytes(chance()));
        let mut all = (0..size).map(|at| PORTS.start() + (from + at) % size);
        let free = all.find(|port| !used.contains(port)).ok_or("range is full")?;
        used.insert(free);
        Ok(free)
    };
    if forwards {
        let gives = has_node_ports(service);
        let own: BTreeSet<u64> = old.into_iter().flat_map(ports_of).collect();
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
            let chosen = match (given, shared.get(&number(port))) {
                (0, Some(known)) if old.is_none() => *known,
                (0, _) => next(&mut used).map_err(|why: &str| {
                    ApiError::internal(format!("failed to allocate a nodePort: {why}"))
                })?,
                (given, _) if known || own.contains(&given) => given,
                (given, _) => {
                    take(&mut used, given).map_err(|why| {
                        refused(vec![invalid(&format!("spec.ports[{index}].nodePort"), &given.into(), &why)])
                    })?;
                    given
                }
            };
            shared.entry(number(port)).or_insert(chosen);
            if let Some(port) = port.as_object_mut() {
                port.insert("nodePort".to_owned(), chosen.into());
            }
        }
    }
    if watched {
        let failed = |what: &str, why: &str| {
            ApiError::internal(format!("failed to allocate {what}HealthCheck NodePort {why}"))
        };
        let given = spec(service).get("healthCheckNodePort").and_then(Value::as_u64).unwrap_or_default();
        let port = match given {
            0 => next(&mut used).map_err(|why: &str| failed("a ", &format!("0: {why}")))?,
            given => {
                take(&mut used, given).map_err(|why| failed("requested ", &format!("{given}: {why}")))?;
                given
            }
        };
        member_mut(service, "spec").insert("healthCheckNodePort".to_owned(), port.into());
    }
    Ok(())
}

/// The ports of nodes that a Service has.
fn ports_of(service: &Value) -> impl Iterator<Item = u64> {
    let health = spec(service).get("healthCheckNodePort").and_then(Value::as_u64);
    let ports: Vec<u64> = list(service, "ports").iter().map(node_port).chain(health).collect();
    ports.into_iter().filter(|port| *port != 0)
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
    if lost(builtin::needs_health_check) {
        candidates.push("healthCheckNodePort");
    }
    if balances(old) && !balances(service) {
        candidates.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if lost(builtin::is_reachable) {
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
fn chance() -> [u8; 4] {
    let [a, b, c, d, ..] = uuid::Uuid::new_v4().into_bytes();
    [a, b, c, d]
}

/// What was given before stays, even if the client does not repeat it.
fn keep(service: &mut Value, old: &Value) {
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
        let taken: BTreeSet<u64> = list(service, "ports").iter().map(node_port).collect();
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

/// The families of addresses, and how many there are. There are only IPv4 ones here (`initIPFamilyFields` upstream).
fn families(service: &mut Value, old: Option<&Value>) -> Result<(), Vec<Cause>> {
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
    let wrong = builtin::addresses(service, old);
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
            text if text.contains(':') => {
                let all = Value::from(addresses.clone());
                let why = "IPv6 is not configured on this cluster";
                causes.push(invalid(&format!("spec.clusterIPs[{at}]"), &all, why));
            }
            _ => families.push("IPv4".into()),
        }
    }
    if !causes.is_empty() {
        return Err(causes);
    }
    if headless {
        if families.is_empty() {
            families.push("IPv4".into());
        }
        if families.len() < 2 && !single {
            let other = if families == [json!("IPv4")] { "IPv6" } else { "IPv4" };
            families.push(other.into());
        }
    } else {
        if policy == "RequireDualStack" {
            refuse(&mut causes, "this cluster is not configured for dual-stack services");
        }
        for (at, family) in families.iter().enumerate().filter(|(_, family)| *family != "IPv4") {
            causes.push(invalid(&format!("spec.ipFamilies[{at}]"), family, "not configured on this cluster"));
        }
        if !causes.is_empty() {
            return Err(causes);
        }
        if families.is_empty() {
            families.push("IPv4".into());
        }
    }
    member_mut(service, "spec").insert("ipFamilies".to_owned(), families.into());
    Ok(())
}
