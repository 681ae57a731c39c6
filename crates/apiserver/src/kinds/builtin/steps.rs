//! Defaulting steps of `defaults.yaml`. The functions that it names stand in the files of their kinds.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::kinds::apiextensions::custom_resource_definition;
use crate::kinds::apps::{daemon_set, stateful_set, workload};
use crate::kinds::autoscaling::horizontal_pod_autoscaler;
use crate::kinds::core::pod::defaults as pod;
use crate::kinds::core::{limit_range, namespace, node, replication_controller, secret, service};
use crate::kinds::fields::{Fields, field_at, set_absent};

/// A step of `defaults.yaml`: see there.
#[derive(Debug)]
pub(super) struct Step {
    when: Vec<(String, Value)>,
    has: Vec<String>,
    apply: Option<Function>,
    set: Vec<(String, Value)>,
}

type Function = fn(&mut Fields);

/// What a table can't say, by the names that `defaults.yaml` has for it.
const FUNCTIONS: [(&str, Function); 20] = [
    ("claim_kinds", stateful_set::set_claim_kinds),
    ("cpu_target", horizontal_pod_autoscaler::set_cpu_target),
    ("definition", custom_resource_definition::set_names_and_conversion),
    ("deprecated_generation", daemon_set::set_template_generation),
    ("host_network_ports", pod::set_host_network_ports),
    ("image_pull_policy", pod::set_image_pull_policy),
    ("image_volume_pull_policy", pod::set_image_volume_pull_policy),
    ("limit_range_item", limit_range::set_item_defaults),
    ("load_balancer_ip_mode", service::set_ip_mode),
    ("namespace_label", namespace::set_name_label),
    ("node_allocatable", node::set_allocatable),
    ("node_ranges", node::set_pod_cidrs),
    ("pod_requests", pod::set_requests),
    ("replication_controller", replication_controller::set_labels_and_selector),
    ("service_account_alias", pod::set_service_account_alias),
    ("session_affinity_config", service::set_session_affinity_config),
    ("string_data", secret::set_string_data),
    ("target_port", service::set_target_port),
    ("template_labels", workload::set_template_labels),
    ("volume_source", pod::set_volume_source),
];

static TEXT: &[u8] = include_bytes!("../../../data/defaults.yaml");

static STEPS: LazyLock<HashMap<String, Vec<Step>>> = LazyLock::new(|| read().unwrap_or_default());

/// Reads `defaults.yaml`. A test reads it too, so an error is found before it lands.
pub(super) fn read() -> Result<HashMap<String, Vec<Step>>, String> {
    let mut json = Vec::new();
    settled_manifest::yaml_to_json(TEXT, &mut json).map_err(|error| error.to_string())?;
    let Value::Object(structs) = serde_json::from_slice(&json).map_err(|error| error.to_string())? else {
        return Err("not a map".into());
    };
    let mut out = HashMap::new();
    for (name, steps) in structs {
        let steps = steps.as_array().ok_or_else(|| format!("{name}: no list of steps"))?;
        let steps = steps.iter().map(|step| read_step(step).map_err(|error| format!("{name}: {error}")));
        out.insert(name.clone(), steps.collect::<Result<_, _>>()?);
    }
    Ok(out)
}

fn read_step(step: &Value) -> Result<Step, String> {
    let mut read = Step { when: Vec::new(), has: Vec::new(), apply: None, set: Vec::new() };
    for (key, value) in step.as_object().ok_or("a step is a map")? {
        match key.as_str() {
            "when" => {
                let conditions = value.as_object().ok_or("`when` is a map")?;
                read.when = conditions.iter().map(|(path, value)| (path.clone(), value.clone())).collect();
            }
            "has" => {
                let paths = value.as_array().ok_or("`has` is a list")?;
                read.has = paths.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            }
            "do" => {
                let name = value.as_str().unwrap_or_default();
                let found = FUNCTIONS.iter().find(|(known, _)| *known == name);
                read.apply = Some(found.ok_or_else(|| format!("no function {name}"))?.1);
            }
            _ => read.set.push((key.clone(), value.clone())),
        }
    }
    Ok(read)
}

/// The steps of a component: `core.v1.Pod` is the end of `io.k8s.api.core.v1.Pod`.
pub(super) fn steps(component: &str) -> &'static [Step] {
    let mut ends = component.rmatch_indices('.').map(|(at, _)| component.get(at + 1..).unwrap_or_default());
    ends.nth(2).and_then(|end| STEPS.get(end)).map_or(&[], Vec::as_slice)
}

impl Step {
    pub(super) fn run(&self, fields: &mut Fields) {
        let holds = self.when.iter().all(|(path, wanted)| match (field_at(fields, path), wanted) {
            (found, Value::Null) => found.is_none_or(|value| value == ""),
            (Some(found), Value::Array(any)) => any.contains(found),
            (found, wanted) => found == Some(wanted),
        });
        if !holds || self.has.iter().any(|path| field_at(fields, path).is_none()) {
            return;
        }
        if let Some(apply) = self.apply {
            apply(fields);
        }
        for (path, value) in &self.set {
            set_absent(fields, path, value);
        }
    }
}
