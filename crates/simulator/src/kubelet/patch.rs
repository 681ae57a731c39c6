//! Patch of a Pod's status: the fields that a look has changed. Nothing else is made into JSON.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use serde::Serialize;
use serde_json::{Map, Value};

fn change<T: Serialize + PartialEq>(
    fields: &mut Map<String, Value>,
    name: &str,
    (old, new): (&Option<T>, &Option<T>),
) -> serde_json::Result<()> {
    if old != new {
        let value = new.as_ref().map(serde_json::to_value).transpose()?.unwrap_or_default();
        fields.insert(name.to_owned(), value);
    }
    Ok(())
}

/// Conditions in the order that they have already; new ones come last.
fn in_order(old: Option<&Vec<PodCondition>>, new: &mut [PodCondition]) {
    let old = old.map(Vec::as_slice).unwrap_or_default();
    let place = |condition: &PodCondition| {
        old.iter().position(|known| known.type_ == condition.type_).unwrap_or(old.len())
    };
    new.sort_by_key(place);
}

/// The fields of a status that differ from the old one, and null for those that it no longer has. Only fields that kubelets write.
pub(super) fn changed_fields(old: &PodStatus, mut new: PodStatus) -> serde_json::Result<Map<String, Value>> {
    if let Some(conditions) = &mut new.conditions {
        in_order(old.conditions.as_ref(), conditions);
    }
    let mut fields = Map::new();
    change(&mut fields, "conditions", (&old.conditions, &new.conditions))?;
    change(&mut fields, "containerStatuses", (&old.container_statuses, &new.container_statuses))?;
    change(&mut fields, "hostIP", (&old.host_ip, &new.host_ip))?;
    change(&mut fields, "hostIPs", (&old.host_ips, &new.host_ips))?;
    let init = (&old.init_container_statuses, &new.init_container_statuses);
    change(&mut fields, "initContainerStatuses", init)?;
    change(&mut fields, "message", (&old.message, &new.message))?;
    change(&mut fields, "observedGeneration", (&old.observed_generation, &new.observed_generation))?;
    change(&mut fields, "phase", (&old.phase, &new.phase))?;
    change(&mut fields, "podIP", (&old.pod_ip, &new.pod_ip))?;
    change(&mut fields, "podIPs", (&old.pod_ips, &new.pod_ips))?;
    change(&mut fields, "reason", (&old.reason, &new.reason))?;
    change(&mut fields, "startTime", (&old.start_time, &new.start_time))?;
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(value: Value) -> PodStatus {
        serde_json::from_value(value).expect("a status")
    }

    #[test]
    fn only_what_differs_is_written() {
        let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null});
        let ready = json!({"type": "Ready", "status": "False", "lastProbeTime": null});
        let old = status(
            json!({"phase": "Pending", "reason": "Why", "qosClass": "Burstable", "conditions": [scheduled]}),
        );
        let same = status(json!({"phase": "Pending", "reason": "Why", "conditions": [scheduled]}));
        assert_eq!(changed_fields(&old, same).expect("fields"), Map::new());
        let new = status(json!({"phase": "Running", "conditions": [ready, scheduled]}));
        let expected = json!({
            "phase": "Running", "reason": null,
            // What was there stays where it is.
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}],
        });
        assert_eq!(Value::Object(changed_fields(&old, new).expect("fields")), expected);
    }
}
