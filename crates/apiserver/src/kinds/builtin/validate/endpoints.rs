//! Validation of Endpoints, EndpointSlice addresses and NetworkPolicies.

use std::net::IpAddr;

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given, integer, items, string};
use settled_apimachinery::{net, validation};

use super::check::{Check, join, selector};
use super::pod::port_or_name;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) fn endpoints(check: &mut Check, new: &Value, old: Option<&Value>) {
    // What was taken once stays as it is.
    if old.is_some_and(|old| field(old, "subsets") == field(new, "subsets")) {
        return;
    }
    for (index, subset) in items(new, "subsets").iter().enumerate() {
        let at = format!("subsets[{index}]");
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| items(subset, list).is_empty()) {
            check.required(at.as_str(), "must specify `addresses` or `notReadyAddresses`");
        }
        for list in lists {
            for (index, address) in items(subset, list).iter().enumerate() {
                let at = format!("{at}.{list}[{index}]");
                let (place, text) = (join(&at, "ip"), string(address, "ip"));
                check.form(&place, text, net::is_valid_ip_for_legacy_field);
                if !string(address, "hostname").is_empty() {
                    check.form(
                        &join(&at, "hostname"),
                        string(address, "hostname"),
                        validation::is_dns1123_label,
                    );
                }
                if let Some(node) = given(address, "nodeName").and_then(Value::as_str) {
                    check.form(&join(&at, "nodeName"), node, validation::is_dns1123_subdomain);
                }
                endpoint_address(check, &place, text);
            }
        }
        let ports = items(subset, "ports");
        for (index, port) in ports.iter().enumerate() {
            let at = format!("{at}.ports[{index}]");
            let name = string(port, "name");
            if name.is_empty() && ports.len() > 1 {
                check.required(join(&at, "name"), "");
            } else if !name.is_empty() {
                check.form(&join(&at, "name"), name, validation::is_dns1123_label);
            }
            let number = integer(port, "port").unwrap_or_default();
            for message in validation::is_valid_port_num(number) {
                check.invalid(join(&at, "port"), &number.into(), &message);
            }
            check.word(&join(&at, "protocol"), string(port, "protocol"), &PROTOCOLS);
            if let Some(protocol) = given(port, "appProtocol").and_then(Value::as_str) {
                check.form(&join(&at, "appProtocol"), protocol, validation::is_qualified_name);
            }
        }
    }
}

/// An address that others can reach.
pub(super) fn endpoint_address(check: &mut Check, at: &str, text: &str) {
    let Some(address) = net::parse_ip_sloppy(text) else {
        check.invalid(at, &text.into(), "must be a valid IP address");
        return;
    };
    let address = address.to_canonical();
    let [local, local_multicast] = match address {
        IpAddr::V4(v4) => [v4.is_link_local(), matches!(v4.octets(), [224, 0, 0, _])],
        IpAddr::V6(v6) => {
            [v6.is_unicast_link_local(), matches!(v6.segments(), [first, ..] if first & 0xff0f == 0xff02)]
        }
    };
    let wrong = [
        (address.is_unspecified(), format!("may not be unspecified ({text})")),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (
            local_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned(),
        ),
    ];
    for (_, detail) in wrong.iter().filter(|(wrong, _)| *wrong) {
        check.invalid(at, &text.into(), detail);
    }
}

pub(super) fn network_policy(check: &mut Check, new: &Value, old: Option<&Value>) {
    const RULES: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
    let spec = field(new, "spec");
    // Ranges that were taken once stay as they are.
    let mut known = Vec::new();
    if let Some(old) = old.map(|old| field(old, "spec")) {
        for (list, peers) in RULES {
            for peer in items(old, list).iter().flat_map(|rule| items(rule, peers)) {
                let block = field(peer, "ipBlock");
                known.push(string(block, "cidr"));
                known.extend(items(block, "except").iter().filter_map(Value::as_str));
            }
        }
    }
    selector(check, "spec.podSelector", field(spec, "podSelector"));
    for (list, peers) in RULES {
        for (index, rule) in items(spec, list).iter().enumerate() {
            let at = format!("spec.{list}[{index}]");
            for (index, port) in items(rule, "ports").iter().enumerate() {
                policy_port(check, port, &format!("{at}.ports[{index}]"));
            }
            for (index, peer) in items(rule, peers).iter().enumerate() {
                let at = format!("{at}.{peers}[{index}]");
                for name in ["podSelector", "namespaceSelector"] {
                    selector(check, &join(&at, name), field(peer, name));
                }
                if let Some(block) = given(peer, "ipBlock") {
                    address_block(check, block, &join(&at, "ipBlock"), &known);
                }
                let kinds =
                    ["podSelector", "namespaceSelector", "ipBlock"].map(|name| given(peer, name).is_some());
                match kinds {
                    [false, false, false] => check.required(at, "must specify a peer"),
                    [pods, namespaces, true] if pods || namespaces => {
                        check.forbidden(at, "may not specify both ipBlock and another peer");
                    }
                    _ => {}
                }
            }
        }
    }
    const TYPES: [&str; 2] = ["Ingress", "Egress"];
    let types = items(spec, "policyTypes");
    if types.len() > TYPES.len() {
        check.invalid(
            "spec.policyTypes",
            &types.to_vec().into(),
            "may not specify more than two policyTypes",
        );
        return;
    }
    for (index, kind) in types.iter().enumerate() {
        if !TYPES.contains(&kind.as_str().unwrap_or_default()) {
            check.not_supported(format!("spec.policyTypes[{index}]"), kind, &TYPES);
        }
    }
}

fn policy_port(check: &mut Check, port: &Value, at: &str) {
    if let Some(protocol) = given(port, "protocol")
        && !PROTOCOLS.contains(&protocol.as_str().unwrap_or_default())
    {
        check.not_supported(join(at, "protocol"), protocol, &["TCP", "UDP", "SCTP"]);
    }
    let end = integer(port, "endPort");
    let place = join(at, "endPort");
    match (given(port, "port"), end) {
        (None, Some(end)) => {
            check.invalid(place, &end.into(), "may not be specified when `port` is not specified");
        }
        (Some(number), end) => {
            port_or_name(check, number, &join(at, "port"));
            match (number.as_i64(), end) {
                (None, Some(end)) => {
                    check.invalid(place, &end.into(), "may not be specified when `port` is non-numeric");
                }
                (Some(start), Some(end)) => {
                    if end < start {
                        check.invalid(place.as_str(), number, "must be greater than or equal to `port`");
                    }
                    for message in validation::is_valid_port_num(end) {
                        check.invalid(place.as_str(), &end.into(), &message);
                    }
                }
                _ => {}
            }
        }
        (None, None) => {}
    }
}

fn address_block(check: &mut Check, block: &Value, at: &str, known: &[&str]) {
    let range = string(block, "cidr");
    if range.is_empty() {
        check.required(join(at, "cidr"), "");
        return;
    }
    if !known.contains(&range) {
        check.form(&join(at, "cidr"), range, net::is_valid_cidr_for_legacy_field);
    }
    let Some((network, bits)) = net::parse_cidr_sloppy(range) else { return };
    for (index, except) in items(block, "except").iter().enumerate() {
        let at = format!("{at}.except[{index}]");
        let text = except.as_str().unwrap_or_default();
        if !known.contains(&text) {
            check.form(&at, text, net::is_valid_cidr_for_legacy_field);
        }
        let Some((inner, more)) = net::parse_cidr_sloppy(text) else { continue };
        if more <= bits || net::masked(inner, bits) != net::masked(network, bits) {
            check.invalid(at, except, "must be a strict subset of `cidr`");
        }
    }
}
