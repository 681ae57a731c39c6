//! Services. Their addresses and ports are allocated in `state::services`.

pub(crate) mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};
use settled_apimachinery::quantity::Quantity;
use settled_apimachinery::unstructured::{field, given, items, items_at, string, string_at};

use crate::human;
use crate::kinds::behavior::Behavior;
use crate::kinds::core::service::validation::{
    validate_service, validate_service_status_update, validate_service_update,
};
use crate::kinds::fields::{Fields, set_absent};
use crate::kinds::names::Part;
use crate::kinds::printers::{NONE, Read as _, Row, cells, format_labels, joined};
use crate::kinds::quota::{Amounts, Evaluator, Quota};
use crate::kinds::strategy::Strategy;
use crate::metadata::NameRule;
use crate::selector::{FieldSelectors, Source};

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior {
        create_on_update: true,
        returns_deleted: true,
        whole_metadata: true,
        ..Behavior::BUILTIN
    },
    name_rule: NameRule::Label,
    field_selectors: FieldSelectors::of(&[
        ("spec.clusterIP", Source::Text(&["/spec/clusterIP"])),
        ("spec.type", Source::Text(&["/spec/type"])),
    ]),
    validate: validate_service,
    validate_update: Some(validate_service_update),
    validate_status_update: validate_service_status_update,
    warnings,
    print: Some(print_service),
    quota: Quota::Evaluator(&EVALUATOR),
    ..Strategy::DEFAULT
};

pub(crate) fn set_session_affinity_config(service: &mut Fields) {
    let Some(Value::Object(spec)) = service.get_mut("spec") else { return };
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => drop(spec.remove("sessionAffinityConfig")),
        Some("ClientIP") => set_absent(spec, "sessionAffinityConfig.clientIP.timeoutSeconds", &json!(10800)),
        _ => {}
    }
}

pub(crate) fn set_ip_mode(service: &mut Fields) {
    let ingress = service.get_mut("status").and_then(|status| status.pointer_mut("/loadBalancer/ingress"));
    for address in ingress.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(address) = address
            && address.contains_key("ip")
        {
            set_absent(address, "ipMode", &"VIP".into());
        }
    }
}

pub(crate) fn set_target_port(port: &mut Fields) {
    let number = port.get("port").cloned().unwrap_or_else(|| 0.into());
    set_absent(port, "targetPort", &number);
}

/// What a Service says that counts for nothing.
fn warnings(service: &Value) -> Vec<String> {
    let spec = field(service, "spec");
    let outside = !items(spec, "externalIPs").is_empty();
    let headless = string(spec, "type") == "ClusterIP" && string(spec, "clusterIP") == "None";
    let named = string(spec, "type") == "ExternalName";
    let hints = "service.kubernetes.io/topology-aware-hints";
    let annotations = field(field(service, "metadata"), "annotations");
    let all = [
        (
            given(annotations, hints).is_some(),
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
        ),
        (
            headless && !string(spec, "loadBalancerIP").is_empty(),
            "spec.loadBalancerIP is ignored for headless services",
        ),
        (headless && outside, "spec.externalIPs is ignored for headless services"),
        (
            headless && string(spec, "sessionAffinity") != "None",
            "spec.SessionAffinity is ignored for headless services",
        ),
        (
            outside && !headless && !named,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (named && outside, "spec.externalIPs is ignored when spec.type is \"ExternalName\""),
        (
            !named && !string(spec, "externalName").is_empty(),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            string(spec, "trafficDistribution") == "PreferClose",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ),
    ];
    all.iter().filter(|(warns, _)| *warns).map(|(_, text)| (*text).to_owned()).collect()
}

/// The addresses of a load balancer. Columns are always those of wide output, so nothing is cut.
pub(crate) fn format_load_balancer(ingress: &[Value]) -> String {
    let mut addresses: Vec<&str> =
        ingress.iter().map(|point| point.filled_or("/ip", point.text("/hostname"))).collect();
    addresses.retain(|address| !address.is_empty());
    addresses.sort_unstable();
    addresses.dedup();
    addresses.join(",")
}

fn print_service(row: Row<'_>) -> Vec<Value> {
    let kind = row.text("/spec/type");
    let external_ips = joined(row.list("/spec/externalIPs"), "", ",");
    let external = match kind {
        "ClusterIP" | "NodePort" if external_ips.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => external_ips,
        "LoadBalancer" => {
            let addresses = [format_load_balancer(row.list("/status/loadBalancer/ingress")), external_ips];
            let addresses: Vec<String> = addresses.into_iter().filter(|text| !text.is_empty()).collect();
            if addresses.is_empty() { "<pending>".to_owned() } else { addresses.join(",") }
        }
        "ExternalName" => row.text("/spec/externalName").to_owned(),
        _ => human::UNKNOWN.to_owned(),
    };
    let ports = row.list("/spec/ports").iter().map(|port| {
        let (number, node_port, protocol) =
            (port.int("/port"), port.int("/nodePort"), port.text("/protocol"));
        if node_port > 0 {
            format!("{number}:{node_port}/{protocol}")
        } else {
            format!("{number}/{protocol}")
        }
    });
    let ports = ports.collect::<Vec<_>>().join(",");
    let internal = row.text_or("/spec/clusterIPs/0", row.filled_or("/spec/clusterIP", NONE));
    let ports = if ports.is_empty() { NONE } else { &ports };
    cells![row.name(), kind, internal, external, ports, row.age(), format_labels(row.at("/spec/selector"))]
}

static EVALUATOR: Evaluator = Evaluator {
    usage,
    matches_resource: |name| matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
    handles_update: |part, _new, _old| part == Part::Main,
    ..Evaluator::DEFAULT
};

fn usage(service: &Value, _now: Timestamp) -> Amounts {
    let one = || Quantity::from(1);
    let ports = items_at(service, "/spec/ports");
    let count = |ports: usize| Quantity::from(i64::try_from(ports).unwrap_or(i64::MAX));
    let (mut balancers, mut node_ports) = (Quantity::from(0), Quantity::from(0));
    match string_at(service, "/spec/type") {
        "NodePort" => node_ports = count(ports.len()),
        "LoadBalancer" => {
            balancers = one();
            let allocated = service.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&false.into());
            let given = |port: &&Value| port["nodePort"].as_i64().is_some_and(|number| number != 0);
            node_ports = count(if allocated { ports.len() } else { ports.iter().filter(given).count() });
        }
        _ => {}
    }
    Amounts::from([
        ("services".to_owned(), one()),
        ("services.loadbalancers".to_owned(), balancers),
        ("services.nodeports".to_owned(), node_ports),
    ])
}
