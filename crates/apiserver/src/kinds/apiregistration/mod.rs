//! Kinds of the group `apiregistration.k8s.io`.

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given};

use crate::kinds::behavior::Behavior;
use crate::kinds::printers::{Read as _, Row, cells};
use crate::kinds::strategy::Strategy;
use crate::metadata::NameRule;

const NOT_ENFORCED: &str =
    "stored but not enforced: this server does not proxy requests to aggregated API servers";

pub(crate) static API_SERVICE: Strategy = Strategy {
    behavior: Behavior { unconditional_update: false, ..Behavior::BUILTIN },
    // Composed of a version and a group; the aggregator validates both.
    name_rule: NameRule::Path,
    // Without a service it is served here.
    not_enforced: Some(|service| given(field(service, "spec"), "service").map(|_| NOT_ENFORCED)),
    print: Some(print_api_service),
    ..Strategy::DEFAULT
};

fn print_api_service(row: Row<'_>) -> Vec<Value> {
    let service = row.at("/spec/service");
    let service = service.map(|service| format!("{}/{}", service.text("/namespace"), service.text("/name")));
    let conditions = row.list("/status/conditions");
    let available = conditions.iter().find(|condition| condition.text("/type") == "Available");
    let available = available.map_or_else(
        || "Unknown".to_owned(),
        |condition| match (condition.text("/status"), condition.text("/reason")) {
            (status @ "True", _) | (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    );
    cells![row.name(), service.unwrap_or_else(|| "Local".to_owned()), available, row.age()]
}
