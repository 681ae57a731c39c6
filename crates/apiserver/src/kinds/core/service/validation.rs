//! Validation of Services: ports, addresses, IP families.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given, integer, items, string};
use settled_apimachinery::{net, validation};

use crate::error::Cause;
use crate::kinds::check::{Check, join, validate_labels};
use crate::kinds::core::endpoints::validate_endpoint_ip;
use crate::kinds::core::pod::containers::validate_port_num_or_name;

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

/// Three hours and a day: how long a client may stick to a Pod.
const STICKY: std::ops::RangeInclusive<i64> = 1..=86400;

/// Without an address of its own.
fn is_headless(spec: &Value) -> bool {
    items(spec, "clusterIPs") == [Value::from("None")]
}

fn balances(spec: &Value) -> bool {
    string(spec, "type") == "LoadBalancer"
}

/// Whether something outside of the cluster reaches it.
pub(crate) fn is_reachable(spec: &Value) -> bool {
    match string(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !items(spec, "externalIPs").is_empty(),
        _ => false,
    }
}

/// Whether nodes tell if they have a Pod of it.
pub(crate) fn needs_health_check(spec: &Value) -> bool {
    balances(spec) && string(spec, "externalTrafficPolicy") == "Local"
}

pub(super) fn validate_service(check: &mut Check, new: &Value) {
    validate_spec(check, field(new, "spec"), None);
}

pub(super) fn validate_service_update(check: &mut Check, new: &Value, old: &Value) {
    let (spec, before) = (field(new, "spec"), field(old, "spec"));
    validate_kept_fields(check, spec, before);
    validate_spec(check, spec, Some(before));
}

fn validate_spec(check: &mut Check, spec: &Value, old: Option<&Value>) {
    let kind = string(spec, "type");
    let ports = items(spec, "ports");
    if ports.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        check.required("spec.ports", "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            check.invalid("spec.clusterIPs[0]", &"None".into(), &detail);
        }
        "ExternalName" => {
            let given = [
                ("clusterIPs", !items(spec, "clusterIPs").is_empty()),
                ("ipFamilies", !items(spec, "ipFamilies").is_empty()),
                ("ipFamilyPolicy", given(spec, "ipFamilyPolicy").is_some()),
            ];
            for (name, _) in given.iter().filter(|(_, given)| *given) {
                check.forbidden(join("spec", name), "may not be set for ExternalName services");
            }
            let name = string(spec, "externalName");
            check.required_form(
                "spec.externalName",
                name.strip_suffix('.').unwrap_or(name),
                validation::is_dns1123_subdomain,
            );
        }
        _ => {}
    }
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = format!("spec.ports[{index}]");
        let name = string(port, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                check.required(join(&at, "name"), "");
            }
        } else {
            check.form(&join(&at, "name"), name, validation::is_dns1123_label);
            if !names.insert(name) {
                check.duplicate(join(&at, "name"), &name.into());
            }
        }
        let number = integer(port, "port").unwrap_or_default();
        for message in validation::is_valid_port_num(number) {
            check.invalid(join(&at, "port"), &number.into(), &message);
        }
        check.word(&join(&at, "protocol"), string(port, "protocol"), &["SCTP", "TCP", "UDP"]);
        validate_port_num_or_name(check, field(port, "targetPort"), &join(&at, "targetPort"));
        if let Some(protocol) = given(port, "appProtocol").and_then(Value::as_str) {
            check.form(&join(&at, "appProtocol"), protocol, validation::is_qualified_name);
        }
    }
    validate_labels(check, "spec.selector", spec, "selector");
    validate_session_affinity(check, spec);
    validate_cluster_ips_related_fields(check, spec, old);
    let known = old.map(|old| items(old, "externalIPs")).unwrap_or_default();
    for (index, address) in items(spec, "externalIPs").iter().enumerate() {
        let at = format!("spec.externalIPs[{index}]");
        let before = check.causes.len();
        if !known.contains(address) {
            check.form(&at, address.as_str().unwrap_or_default(), net::is_valid_ip_for_legacy_field);
        }
        if check.causes.len() == before {
            validate_endpoint_ip(check, &at, address.as_str().unwrap_or_default());
        }
    }
    check.word("spec.type", kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    if kind == "ClusterIP" {
        for (index, port) in ports.iter().enumerate() {
            if integer(port, "nodePort").is_some_and(|number| number != 0) {
                check.forbidden(
                    format!("spec.ports[{index}].nodePort"),
                    "may not be used when `type` is 'ClusterIP'",
                );
            }
        }
    }
    validate_unique_ports(check, ports);
    validate_load_balancer(check, spec, old);
    validate_traffic_policies(check, spec);
}

fn validate_session_affinity(check: &mut Check, spec: &Value) {
    let kind = string(spec, "sessionAffinity");
    check.word("spec.sessionAffinity", kind, &["ClientIP", "None"]);
    let at = "spec.sessionAffinityConfig";
    let config = given(spec, "sessionAffinityConfig");
    match (kind, config) {
        ("None", Some(_)) => check.forbidden(at, "must not be set when session affinity is None"),
        ("ClientIP", config) => {
            let client = config.and_then(|config| given(config, "clientIP"));
            let seconds = client.and_then(|client| integer(client, "timeoutSeconds"));
            let detail = "when session affinity type is ClientIP";
            match (config, client, seconds) {
                (None, ..) => check.required(at, detail),
                (_, None, _) => check.required(join(at, "clientIP"), detail),
                (.., None) => check.required(join(at, "clientIP.timeoutSeconds"), detail),
                (.., Some(seconds)) if !STICKY.contains(&seconds) => {
                    let detail = format!("must be greater than 0 and less than {}", STICKY.end());
                    check.invalid(join(at, "clientIP.timeoutSeconds"), &seconds.into(), &detail);
                }
                _ => {}
            }
        }
        _ => {}
    }
}

/// No port of a protocol is there twice, neither inside nor on the nodes.
fn validate_unique_ports(check: &mut Check, ports: &[Value]) {
    let mut taken = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let number = integer(port, "nodePort").unwrap_or_default();
        if number != 0 && !taken.insert((string(port, "protocol"), number)) {
            check.duplicate(format!("spec.ports[{index}].nodePort"), &number.into());
        }
    }
    let mut taken = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let (protocol, number) = (string(port, "protocol"), integer(port, "port").unwrap_or_default());
        if !taken.insert((protocol, number)) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
                Value::from(protocol)
            );
            check.push(
                "FieldValueDuplicate",
                format!("spec.ports[{index}]"),
                format!("Duplicate value: {shown}"),
            );
        }
    }
}

/// What only load balancers have.
fn validate_load_balancer(check: &mut Check, spec: &Value, old: Option<&Value>) {
    let only = "may only be used when `type` is 'LoadBalancer'";
    let ranges = items(spec, "loadBalancerSourceRanges");
    if !ranges.is_empty() && !balances(spec) {
        check.forbidden("spec.LoadBalancerSourceRanges", only);
    }
    let known = old.map(|old| items(old, "loadBalancerSourceRanges")).unwrap_or_default();
    let known: Vec<&str> = known.iter().filter_map(Value::as_str).map(str::trim).collect();
    for (index, range) in ranges.iter().enumerate() {
        let range = range.as_str().unwrap_or_default().trim();
        if !known.contains(&range) {
            check.form(
                &format!("spec.LoadBalancerSourceRanges[{index}]"),
                range,
                net::is_valid_cidr_for_legacy_field,
            );
        }
    }
    if balances(spec) {
        if given(spec, "allocateLoadBalancerNodePorts").is_none() {
            check.required("allocateLoadBalancerNodePorts", "");
        }
        if let Some(class) = given(spec, "loadBalancerClass").and_then(Value::as_str) {
            check.form("spec.loadBalancerClass", class, validation::is_qualified_name);
        }
    } else {
        for name in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if given(spec, name).is_some() {
                check.forbidden(join("spec", name), only);
            }
        }
    }
}

fn validate_traffic_policies(check: &mut Check, spec: &Value) {
    let policy = string(spec, "externalTrafficPolicy");
    if is_reachable(spec) {
        check.word("spec.externalTrafficPolicy", policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        check.invalid(
            "spec.externalTrafficPolicy",
            &policy.into(),
            "may only be set for externally-accessible services",
        );
    }
    let port = integer(spec, "healthCheckNodePort").unwrap_or_default();
    match (needs_health_check(spec), port) {
        (true, 0) => check.required("spec.healthCheckNodePort", ""),
        (true, port) => {
            for message in validation::is_valid_port_num(port) {
                check.invalid("spec.healthCheckNodePort", &port.into(), &message);
            }
        }
        (false, 0) => {}
        (false, port) => check.invalid(
            "spec.healthCheckNodePort",
            &port.into(),
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ),
    }
    match given(spec, "internalTrafficPolicy") {
        Some(policy) if !["Cluster", "Local"].contains(&policy.as_str().unwrap_or_default()) => {
            check.not_supported("spec.internalTrafficPolicy", policy, &["Cluster", "Local"]);
        }
        None if ["ClusterIP", "LoadBalancer", "NodePort"].contains(&string(spec, "type")) => {
            check.required("spec.internalTrafficPolicy", "");
        }
        _ => {}
    }
    const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(distribution) = given(spec, "trafficDistribution")
        && !DISTRIBUTIONS.contains(&distribution.as_str().unwrap_or_default())
    {
        check.not_supported("spec.trafficDistribution", distribution, &DISTRIBUTIONS);
    }
}

/// [`validate_cluster_ips_related_fields`] alone: upstream checks it before it gives addresses.
pub(crate) fn validate_addresses(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut check = Check::default();
    validate_cluster_ips_related_fields(&mut check, field(new, "spec"), old.map(|old| field(old, "spec")));
    check.causes
}

/// `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` (`ValidateServiceClusterIPsRelatedFields` upstream).
fn validate_cluster_ips_related_fields(check: &mut Check, spec: &Value, old: Option<&Value>) {
    if string(spec, "type") == "ExternalName" {
        return;
    }
    let (one, many) = (string(spec, "clusterIP"), items(spec, "clusterIPs"));
    let all = Value::from(many.to_vec());
    match (one, many.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            check.invalid("spec.clusterIPs", &all, "must be empty when `clusterIP` is not specified");
        }
        (_, None) => check.required("spec.clusterIPs", ""),
        (one, Some(first)) if first != one => {
            check.invalid("spec.clusterIPs", &all, "first value must match `clusterIP`");
        }
        _ => {}
    }
    let families = items(spec, "ipFamilies");
    let mut seen = BTreeSet::new();
    for (index, family) in families.iter().enumerate() {
        let name = family.as_str().unwrap_or_default();
        if !FAMILIES.contains(&name) {
            check.not_supported(format!("spec.ipFamilies[{index}]"), family, &FAMILIES);
        }
        if !seen.insert(name) {
            check.duplicate(format!("spec.ipFamilies[{index}]"), family);
        }
    }
    if let Some(policy) = given(spec, "ipFamilyPolicy")
        && !POLICIES.contains(&policy.as_str().unwrap_or_default())
    {
        check.not_supported("spec.ipFamilyPolicy", policy, &POLICIES);
    }
    let before = check.causes.len();
    let known = old.map(|old| items(old, "clusterIPs")).unwrap_or_default();
    for (index, address) in many.iter().enumerate() {
        let text = address.as_str().unwrap_or_default();
        if index == 0 && text == "None" {
            if many.len() > 1 {
                check.invalid("spec.clusterIPs", &all, "'None' must be the first and only value");
            }
        } else if !known.contains(address) {
            check.form(&format!("spec.clusterIPs[{index}]"), text, net::is_valid_ip_for_legacy_field);
        }
    }
    let wrong = check.causes.len() > before;
    if many.len() > 2 {
        check.invalid("spec.clusterIPs", &all, "may only hold up to 2 values");
    }
    if wrong {
        return;
    }
    let is_v6 = |address: &Value| address.as_str().is_some_and(|text| text.contains(':'));
    let sixes = many.iter().filter(|address| is_v6(address)).count();
    if many.len() > 1 && (many.len() > 2 || sixes != 1) {
        check.invalid("spec.clusterIPs", &all, "may specify no more than one IP for each IP family");
    }
    if is_headless(spec) {
        return;
    }
    for (index, (address, family)) in many.iter().zip(families).enumerate() {
        let wanted = if is_v6(address) { "IPv6" } else { "IPv4" };
        if FAMILIES.contains(&family.as_str().unwrap_or_default()) && family != wanted {
            let family = family.as_str().unwrap_or_default();
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            check.invalid(format!("spec.clusterIPs[{index}]"), address, &detail);
        }
    }
}

/// What may not change: addresses and their families, once given; a load balancer's class; the port of its health.
fn validate_kept_fields(check: &mut Check, new: &Value, old: &Value) {
    let named = [new, old].iter().any(|spec| string(spec, "type") == "ExternalName");
    let headless = [new, old].map(is_headless);
    if !named && headless != [true, true] {
        validate_kept_list(
            check,
            new,
            old,
            "clusterIPs",
            "primary clusterIP can not be unset",
            "secondary clusterIP",
        );
    }
    if !named && headless == [false, false] {
        validate_kept_list(
            check,
            new,
            old,
            "ipFamilies",
            "primary ipFamily can not be unset",
            "secondary ipFamily",
        );
    }
    if balances(new) && balances(old) {
        let class = given(new, "loadBalancerClass");
        if class != given(old, "loadBalancerClass") {
            let detail = "may not change once set";
            check.invalid("spec.loadBalancerClass", class.unwrap_or(&Value::Null), detail);
        }
    }
    let port = |spec: &Value| integer(spec, "healthCheckNodePort").unwrap_or_default();
    if needs_health_check(new) && needs_health_check(old) && port(new) != port(old) {
        check.forbidden("spec.healthCheckNodePort", "field is immutable");
    }
}

/// The first of a list stays; the second may come, and go if that is said.
fn validate_kept_list(check: &mut Check, new: &Value, old: &Value, name: &str, unset: &str, second: &str) {
    let (now, before) = (items(new, name), items(old, name));
    let (at, all) = (join("spec", name), Value::from(now.to_vec()));
    if now.is_empty() && !before.is_empty() {
        check.invalid(format!("{at}[0]"), &all, unset);
    }
    let comparable = if now.len() == before.len() { before.len() } else { 1 };
    for (index, (now, before)) in now.iter().zip(before).enumerate().take(comparable) {
        if now != before {
            check.invalid(format!("{at}[{index}]"), &all, "may not change once set");
        }
    }
    if now.len() == 1 && before.len() > 1 && string(new, "ipFamilyPolicy") != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the {second}");
        check.invalid("spec.ipFamilyPolicy", field(new, "ipFamilyPolicy"), &detail);
    }
}

/// What a load balancer says of itself.
pub(crate) fn validate_service_status_update(check: &mut Check, new: &Value, old: &Value) {
    let ingress = |object: &'_ Value| -> Vec<Value> {
        items(field(field(object, "status"), "loadBalancer"), "ingress").to_vec()
    };
    let (now, before) = (ingress(new), ingress(old));
    let at = "status.loadBalancer.ingress";
    if !now.is_empty() && !balances(field(new, "spec")) {
        check.forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    let known: HashSet<&str> = before.iter().map(|other| string(other, "ip")).collect();
    for (index, point) in now.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let address = string(point, "ip");
        if !address.is_empty() && !known.contains(address) {
            check.form(&join(&at, "ip"), address, net::is_valid_ip_for_legacy_field);
        }
        match given(point, "ipMode") {
            None if !address.is_empty() => {
                check.required(join(&at, "ipMode"), "must be specified when `ip` is set")
            }
            Some(_) if address.is_empty() => {
                check.forbidden(join(&at, "ipMode"), "may not be specified when `ip` is not set");
            }
            Some(mode) if !["Proxy", "VIP"].contains(&mode.as_str().unwrap_or_default()) => {
                check.not_supported(join(&at, "ipMode"), mode, &["Proxy", "VIP"]);
            }
            _ => {}
        }
        let host = string(point, "hostname");
        if !host.is_empty() {
            check.form(&join(&at, "hostname"), host, validation::is_dns1123_subdomain);
            if net::parse_ip_sloppy(host).is_some() {
                check.invalid(join(&at, "hostname"), &host.into(), "must be a DNS name, not an IP address");
            }
        }
    }
}
