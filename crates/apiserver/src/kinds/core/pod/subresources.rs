//! The subresources `ephemeralcontainers` and `resize` of Pods: what a write to them may change, and the QoS class.

use std::collections::HashMap;

use serde_json::Value;
use settled_apimachinery::quantity::Quantity;

use crate::kinds::names::Part;
use crate::object::{self, member_mut, metadata_mut, text};

/// How the pod is treated when a node runs short, by what its containers ask for
/// (`pkg/apis/core/v1/helper/qos`).
pub(crate) fn quality_of_service(pod: &Value) -> &'static str {
    const COUNTED: [&str; 2] = ["cpu", "memory"];
    let containers =
        ["containers", "initContainers"].into_iter().filter_map(|list| pod["spec"][list].as_array());
    let positive = |resources: &Value, which: &str, name: &str| {
        Quantity::from_value(&resources[which][name]).filter(|quantity| !quantity.is_zero())
    };
    // What the pod asks for as a whole goes before its containers.
    let own: Vec<&Value> = match &pod["spec"]["resources"] {
        Value::Object(_) => vec![&pod["spec"]["resources"]],
        _ => containers.flatten().map(|container| &container["resources"]).collect(),
    };
    let asks = own.iter().any(|resources| {
        ["requests", "limits"]
            .iter()
            .any(|which| COUNTED.iter().any(|name| positive(resources, which, name).is_some()))
    });
    if !asks {
        return "BestEffort";
    }
    let guaranteed = own.iter().all(|resources| {
        COUNTED.iter().all(|name| {
            match (positive(resources, "limits", name), positive(resources, "requests", name)) {
                (Some(limit), Some(request)) => limit == request,
                (Some(_), None) => true,
                _ => false,
            }
        })
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}

/// The old pod, with what a write to `ephemeralcontainers` or `resize` may change of it taken from the new one.
pub(crate) fn update_part(part: Part, new: &mut Value, old: &Value) {
    let mut result = old.clone();
    let managers = object::metadata(new).and_then(|metadata| metadata.get("managedFields")).cloned();
    if part == Part::Ephemeral {
        let spec = member_mut(&mut result, "spec");
        match new.pointer("/spec/ephemeralContainers") {
            Some(containers) => spec.insert("ephemeralContainers".to_owned(), containers.clone()),
            None => spec.remove("ephemeralContainers"),
        };
    } else {
        for list in ["containers", "initContainers"] {
            let wanted = new.pointer(&format!("/spec/{list}")).and_then(Value::as_array);
            let containers = result.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
            let wanted = by_name(wanted.map_or(&[], Vec::as_slice));
            for container in containers.into_iter().flatten() {
                let wanted = wanted.get(text(container, "name")).copied();
                for field in ["resources", "resizePolicy"] {
                    if let (Some(value), Some(container)) =
                        (wanted.and_then(|wanted| wanted.get(field)), container.as_object_mut())
                    {
                        container.insert(field.to_owned(), value.clone());
                    }
                }
            }
        }
    }
    if let Some(managers) = managers {
        metadata_mut(&mut result).insert("managedFields".to_owned(), managers);
    }
    *new = result;
}

/// Containers by their names; the first of a name counts.
pub(crate) fn by_name(containers: &[Value]) -> HashMap<&str, &Value> {
    containers.iter().rev().map(|container| (text(container, "name"), container)).collect()
}
