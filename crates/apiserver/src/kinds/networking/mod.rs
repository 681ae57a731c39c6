//! Kinds of the group `networking.k8s.io`. Those that are little more than a row stand here.

pub(crate) mod ingress;
pub(crate) mod network_policy;

use serde_json::Value;

use crate::kinds::behavior::Behavior;
use crate::kinds::printers::{NONE, Read as _, Row, cells, joined, name_with_default_mark};
use crate::kinds::strategy::Strategy;
use crate::object::meta;

const NOT_ENFORCED: &str =
    "stored but not enforced: Services get addresses from the server's own range, which this does not change";
/// The ServiceCIDR of the server's own range, which the server maintains.
const OWN_RANGE: &str = "kubernetes";

pub(crate) static INGRESS_CLASS: Strategy = Strategy {
    behavior: Behavior { generation: true, ..Behavior::BUILTIN },
    print: Some(print_ingress_class),
    ..Strategy::DEFAULT
};

fn print_ingress_class(row: Row<'_>) -> Vec<Value> {
    let name = name_with_default_mark(row, &["ingressclass.kubernetes.io/is-default-class"]);
    let parameters = row.at("/spec/parameters").map(|parameters| {
        let dot = if parameters.has("/apiGroup") { "." } else { "" };
        let [kind, group, name] = ["/kind", "/apiGroup", "/name"].map(|pointer| parameters.text(pointer));
        format!("{kind}{dot}{group}/{name}")
    });
    cells![name, row.text("/spec/controller"), parameters.unwrap_or_else(|| NONE.to_owned()), row.age(),]
}

pub(crate) static SERVICE_CIDR: Strategy = Strategy {
    not_enforced: Some(|range| (meta(range, "name") != OWN_RANGE).then_some(NOT_ENFORCED)),
    print: Some(|row| cells![row.name(), joined(row.list("/spec/cidrs"), "", ","), row.age()]),
    ..Strategy::DEFAULT
};

pub(crate) static IP_ADDRESS: Strategy = Strategy {
    not_enforced: Some(|_address| Some(NOT_ENFORCED)),
    print: Some(print_ip_address),
    ..Strategy::DEFAULT
};

fn print_ip_address(row: Row<'_>) -> Vec<Value> {
    let parent = row.at("/spec/parentRef").map_or_else(
        || NONE.to_owned(),
        |parent| {
            let [group, resource] = ["/group", "/resource"].map(|pointer| parent.text(pointer));
            let dot = if group.is_empty() { "" } else { "." };
            let namespace = match parent.text("/namespace") {
                "" => String::new(),
                namespace => format!("/{namespace}"),
            };
            let resource = format!("{resource}{dot}{group}").to_lowercase();
            format!("{resource}{namespace}/{}", parent.text("/name"))
        },
    );
    // One more than it has columns, as upstream.
    cells![row.name(), parent, row.age()]
}
