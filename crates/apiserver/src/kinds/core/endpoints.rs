//! Endpoints.

use std::net::IpAddr;

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given, integer, items, string};
use settled_apimachinery::{net, validation};

use crate::kinds::behavior::Behavior;
use crate::kinds::check::{Check, join};
use crate::kinds::printers::{NONE, Read as _, cells};
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { create_on_update: true, ..Behavior::BUILTIN },
    deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    validate: validate_endpoints,
    // What was taken once stays as it is.
    validate_update: Some(|check, new, old| {
        if field(old, "subsets") != field(new, "subsets") {
            validate_endpoints(check, new);
        }
    }),
    print: Some(|row| cells![row.name(), format_endpoints(row.list("/subsets")), row.age()]),
    ..Strategy::DEFAULT
};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

fn validate_endpoints(check: &mut Check, new: &Value) {
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
                validate_endpoint_ip(check, &place, text);
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
pub(crate) fn validate_endpoint_ip(check: &mut Check, at: &str, text: &str) {
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

fn format_endpoints(subsets: &[Value]) -> String {
    let mut list = Vec::new();
    let mut count = 0;
    for subset in subsets {
        let addresses = subset.list("/addresses");
        let ports: Vec<Option<i64>> = match subset.list("/ports") {
            [] => vec![None],
            ports => ports.iter().map(|port| Some(port.int("/port"))).collect(),
        };
        for port in ports {
            count += addresses.len();
            let room = 3_usize.saturating_sub(list.len());
            list.extend(addresses.iter().take(room).map(|address| match (address.text("/ip"), port) {
                (ip, None) => ip.to_owned(),
                (ip, Some(port)) if ip.contains(':') => format!("[{ip}]:{port}"),
                (ip, Some(port)) => format!("{ip}:{port}"),
            }));
        }
    }
    match count.saturating_sub(3) {
        _ if subsets.is_empty() => NONE.to_owned(),
        0 => list.join(","),
        more => format!("{} + {more} more...", list.join(",")),
    }
}
