//! NetworkPolicies, with the status that Kubernetes had from 1.24 to 1.27 (KEP-2943).

use serde_json::{Map, Value};
use settled_apimachinery::conditions::validate_conditions;
use settled_apimachinery::field::Path;
use settled_apimachinery::unstructured::{field, given, integer, items, string};
use settled_apimachinery::{net, validation};

use crate::error::Cause;
use crate::features::Feature;
use crate::kinds::behavior::Behavior;
use crate::kinds::check::{Check, join, validate_label_selector};
use crate::kinds::core::pod::containers::validate_port_num_or_name;
use crate::kinds::names::Part;
use crate::kinds::printers::{Read as _, Row, cells, format_label_selector};
use crate::kinds::strategy::{Strategy, UpdateContext};

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { generation: true, ..Behavior::BUILTIN },
    adds_status_subresource: true,
    prepare_for_update,
    validate: |check, policy| validate_network_policy(check, policy, None),
    validate_update: Some(|check, new, old| validate_network_policy(check, new, Some(old))),
    validate_status_update: |check, policy, _old| validate_status(check, policy),
    print: Some(print_network_policy),
    ..Strategy::DEFAULT
};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Without the feature gate, a status is kept or cleared, never written: what was stored with the gate can still be removed.
///
/// A create never takes a status, and an update of the rest never changes it, with the gate or without. Without it, upstream took the
/// status of both unvalidated where none was stored.
fn prepare_for_update(new: &mut Value, old: &Value, context: &UpdateContext<'_>) {
    if context.part != Part::Status || context.gates.has(Feature::NetworkPolicyStatus) {
        return;
    }
    let kept = given(old, "status").filter(|_| has_conditions(new));
    let status = kept.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    if let Some(policy) = new.as_object_mut() {
        policy.insert("status".to_owned(), status);
    }
}

fn has_conditions(policy: &Value) -> bool {
    !items(field(policy, "status"), "conditions").is_empty()
}

/// `ValidateNetworkPolicyStatusUpdate`.
fn validate_status(check: &mut Check, policy: &Value) {
    let mut errors = Vec::new();
    let conditions = field(field(policy, "status"), "conditions");
    validate_conditions(conditions, &Path::Nil.child("status").child("conditions"), &mut errors);
    check.extend(errors.iter().map(Cause::from));
}

fn validate_network_policy(check: &mut Check, new: &Value, old: Option<&Value>) {
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
    validate_label_selector(check, "spec.podSelector", field(spec, "podSelector"));
    for (list, peers) in RULES {
        for (index, rule) in items(spec, list).iter().enumerate() {
            let at = format!("spec.{list}[{index}]");
            for (index, port) in items(rule, "ports").iter().enumerate() {
                validate_network_policy_port(check, port, &format!("{at}.ports[{index}]"));
            }
            for (index, peer) in items(rule, peers).iter().enumerate() {
                let at = format!("{at}.{peers}[{index}]");
                for name in ["podSelector", "namespaceSelector"] {
                    validate_label_selector(check, &join(&at, name), field(peer, name));
                }
                if let Some(block) = given(peer, "ipBlock") {
                    validate_ip_block(check, block, &join(&at, "ipBlock"), &known);
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

fn validate_network_policy_port(check: &mut Check, port: &Value, at: &str) {
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
            validate_port_num_or_name(check, number, &join(at, "port"));
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

fn validate_ip_block(check: &mut Check, block: &Value, at: &str, known: &[&str]) {
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

fn print_network_policy(row: Row<'_>) -> Vec<Value> {
    // Not a pointer upstream: absent is the same as empty.
    let empty = Value::Object(Map::new());
    cells![row.name(), format_label_selector(Some(row.at("/spec/podSelector").unwrap_or(&empty))), row.age()]
}
