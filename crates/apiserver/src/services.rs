//! What a Service is given by the server: addresses, ports, families (`pkg/registry/core/service/storage` upstream).
//!
//! Nothing routes to these addresses here, but clients read them, and upstream never gives one twice.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

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
        if !has_address(service) {
            return Ok(());
        }
        families(service, old).map_err(|causes| ApiError::invalid("", "Service", target.name, causes))?;
        let needs_port = has_node_ports(service) && list(service, "ports").iter().any(|port| node_port(port) == 0);
        if !word(service, "clusterIP").is_empty() && !needs_port {
            return Ok(());
        }
        let others: Vec<Value> = self.stored("", "services", "").into_iter().map(|(_, other)| other).collect();
        if word(service, "clusterIP").is_empty() {
            let used: BTreeSet<&str> = others.iter().map(|other| word(other, "clusterIP")).collect();
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
        }
        if needs_port {
            let ports = others.iter().flat_map(|other| list(other, "ports")).map(|port| node_port(&port));
            let mut used: BTreeSet<u64> = ports.collect();
            used.extend(list(service, "ports").iter().map(node_port));
            let size = PORTS.end() - PORTS.start() + 1;
            let ports = member_mut(service, "spec").get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter(|port| node_port(port) == 0) {
                let from = u64::from(u32::from_be_bytes(chance()));
                let free = (0..size).map(|at| PORTS.start() + (from + at) % size).find(|port| !used.contains(port));
                let free = free.ok_or_else(|| ApiError::internal("failed to allocate a nodePort: range is full"))?;
                used.insert(free);
                if let Some(port) = port.as_object_mut() {
                    port.insert("nodePort".to_owned(), free.into());
                }
            }
        }
        Ok(())
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

/// `clusterIP` is the first of `clusterIPs`, whichever the client knows of.
fn normalize(service: &mut Value, old: Option<&Value>) {
    let one = word(service, "clusterIP").to_owned();
    let many = list(service, "clusterIPs");
    let first = many.first().and_then(Value::as_str).unwrap_or_default().to_owned();
    let before = old.map(|old| word(old, "clusterIP").to_owned());
    if !has_address(service) && before.as_deref().is_some_and(|before| !before.is_empty() && before == one) {
        // It lost its address with its type.
        let spec = member_mut(service, "spec");
        for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            spec.remove(name);
        }
        return;
    }
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
            let why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
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
