//! Kinds of the core group. Those that are little more than a row stand here.

pub(crate) mod config_map;
pub(crate) mod data;
pub(crate) mod endpoints;
pub(crate) mod event;
pub(crate) mod key_pair;
pub(crate) mod limit_range;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod persistent_volume;
pub(crate) mod persistent_volume_claim;
pub(crate) mod pod;
pub(crate) mod replication_controller;
pub(crate) mod resource_names;
pub(crate) mod resource_quota;
pub(crate) mod secret;
pub(crate) mod service;

use serde_json::Value;
use settled_apimachinery::unstructured::field;

use crate::kinds::behavior::Behavior;
use crate::kinds::check::Check;
use crate::kinds::core::pod::spec::validate_pod_template_spec;
use crate::kinds::printers::{
    Read as _, Row, cells, format_labels, layout_container_cells, print_name_and_age,
};
use crate::kinds::strategy::Strategy;

pub(crate) static SERVICE_ACCOUNT: Strategy = Strategy {
    behavior: Behavior { returns_deleted: true, whole_metadata: true, ..Behavior::BUILTIN },
    print: Some(print_name_and_age),
    ..Strategy::DEFAULT
};

pub(crate) static POD_TEMPLATE: Strategy = Strategy {
    behavior: Behavior { generation: true, returns_deleted: true, ..Behavior::BUILTIN },
    validate: validate_pod_template,
    print: Some(print_pod_template),
    ..Strategy::DEFAULT
};

fn validate_pod_template(check: &mut Check, template: &Value) {
    validate_pod_template_spec(check, field(template, "template"), "template");
}

fn print_pod_template(row: Row<'_>) -> Vec<Value> {
    let [names, images] = layout_container_cells(row.list("/template/spec/containers"));
    cells![row.name(), names, images, format_labels(row.at("/template/metadata/labels"))]
}

pub(crate) static COMPONENT_STATUS: Strategy = Strategy {
    deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
    print: Some(print_component_status),
    ..Strategy::DEFAULT
};

fn print_component_status(row: Row<'_>) -> Vec<Value> {
    let healthy = row.list("/conditions").iter().find(|condition| condition.text("/type") == "Healthy");
    let status = match healthy.map(|condition| condition.text("/status")) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let text = |pointer| healthy.map_or("", |condition| condition.text(pointer));
    cells![row.name(), status, text("/message"), text("/error")]
}
