//! LimitRanger: defaults and bounds of LimitRanges for containers, Pods and PVCs (`plugin/pkg/admission/limitranger` upstream).

use serde_json::{Map, Value, json};
use settled_apimachinery::quantity::{MAX_MILLI_VALUE, Quantity};
use settled_apimachinery::unstructured::items_at;

use crate::error::ApiError;
use crate::kinds::core::pod::quota::pod_amounts;
use crate::kinds::names::Part;
use crate::kinds::quota::{Amounts, amounts};
use crate::object::{is_terminating, member_mut, text};
use crate::state::State;
use crate::state::call::Target;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// One bound and what it is compared with.
struct Bound<'a> {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    kind: &'a str,
    name: &'a str,
    enforced: &'a Quantity,
    request: Option<&'a Quantity>,
    limit: Option<&'a Quantity>,
}

impl Bound<'_> {
    fn below(&self) -> Option<String> {
        let Self { kind, name, enforced, request, limit } = *self;
        let text = format!("minimum {name} usage per {kind} is {enforced}");
        match (request, limit) {
            (None, _) => Some(format!("{text}.  No request is specified")),
            (Some(request), _) if request < enforced => Some(format!("{text}, but request is {request}")),
            (_, Some(limit)) if limit < enforced => Some(format!("{text}, but limit is {limit}")),
            _ => None,
        }
    }

    fn above(&self) -> Option<String> {
        let Self { kind, name, enforced, request, limit } = *self;
        let text = format!("maximum {name} usage per {kind} is {enforced}");
        if kind == "PersistentVolumeClaim" {
            // Claims have no limits.
            return match request {
                None => Some(format!("{text}.  No request is specified")),
                Some(request) if request > enforced => Some(format!("{text}, but request is {request}")),
                Some(_) => None,
            };
        }
        match (limit, request) {
            (None, _) => Some(format!("{text}.  No limit is specified")),
            (Some(limit), _) if limit > enforced => Some(format!("{text}, but limit is {limit}")),
            (_, Some(request)) if request > enforced => Some(format!("{text}, but request is {request}")),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "as upstream")]
    fn ratio(&self) -> Option<String> {
        let Self { kind, name, enforced, request, limit } = *self;
        let text = format!("{name} max limit to request ratio per {kind} is {enforced}");
        let Some(request) = request.filter(|request| !request.is_zero()) else {
            return Some(format!("{text}, but no request is specified or request is 0"));
        };
        let Some(limit) = limit.filter(|limit| !limit.is_zero()) else {
            return Some(format!("{text}, but no limit is specified or limit is 0"));
        };
        let (request, limit) = request_limit_values(request, limit, enforced);
        let ratio = limit / request;
        let is_exceeded = match enforced.value() {
            value if value <= MAX_MILLI_VALUE => ratio * 1000.0 > enforced.milli_value() as f64,
            value => ratio > value as f64,
        };
        is_exceeded.then(|| format!("{text}, but provided ratio is {ratio:.6}"))
    }
}

/// `requestLimitEnforcedValues`: precise where amounts are small.
#[expect(clippy::cast_precision_loss, reason = "as upstream")]
fn request_limit_values(request: &Quantity, limit: &Quantity, enforced: &Quantity) -> (f64, f64) {
    if [request, limit, enforced].iter().all(|quantity| quantity.value() <= MAX_MILLI_VALUE) {
        (request.milli_value() as f64, limit.milli_value() as f64)
    } else {
        (request.value() as f64, limit.value() as f64)
    }
}

fn check(limit: &Value, requests: &Amounts, limits: &Amounts, errors: &mut Vec<String>) {
    let kind = text(limit, "type");
    type Check = fn(&Bound<'_>) -> Option<String>;
    let checks: [(&str, Check); 3] = [
        ("min", |bound| bound.below()),
        ("max", |bound| bound.above()),
        ("maxLimitRequestRatio", |bound| bound.ratio()),
    ];
    for (field, check) in checks {
        if kind == "PersistentVolumeClaim" && field == "maxLimitRequestRatio" {
            continue;
        }
        for (name, enforced) in &amounts(limit.get(field)) {
            let (request, limit) = (requests.get(name), limits.get(name));
            errors.extend(check(&Bound { kind, name, enforced, request, limit }));
        }
    }
}

/// What of an object breaks a LimitRange.
fn violations(range: &Value, plural: &str, object: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    for limit in items_at(range, "/spec/limits") {
        match (plural, text(limit, "type")) {
            ("pods", "Container") => {
                let lists = [items_at(object, "/spec/containers"), items_at(object, "/spec/initContainers")];
                for container in lists.into_iter().flatten() {
                    let of = |what: &str| amounts(container.pointer(&format!("/resources/{what}")));
                    check(limit, &of("requests"), &of("limits"), &mut errors);
                }
            }
            ("pods", "Pod") => {
                check(
                    limit,
                    &pod_amounts(object, "requests", false),
                    &pod_amounts(object, "limits", false),
                    &mut errors,
                );
            }
            ("persistentvolumeclaims", "PersistentVolumeClaim") => {
                let requests = amounts(object.pointer("/spec/resources/requests"));
                check(limit, &requests, &Amounts::new(), &mut errors);
            }
            _ => {}
        }
    }
    // As errors are joined upstream: each once.
    let mut seen = std::collections::BTreeSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    errors
}

/// Gives containers what a LimitRange has as their defaults, and notes that.
fn set_defaults(range: &Value, pod: &mut Value) {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for limit in items_at(range, "/spec/limits").iter().filter(|limit| text(limit, "type") == "Container") {
        for (field, into) in [("defaultRequest", &mut requests), ("default", &mut limits)] {
            into.extend(limit.get(field).and_then(Value::as_object).cloned().unwrap_or_default());
        }
    }
    let mut notes = Vec::new();
    for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = text(container, "name").to_owned();
            for (field, defaults, what) in [("requests", &requests, "request"), ("limits", &limits, "limit")]
            {
                if defaults.is_empty() {
                    continue;
                }
                let given = member_mut(container, "resources").entry(field).or_insert_with(|| json!({}));
                if given.is_null() {
                    *given = json!({});
                }
                let Some(given) = given.as_object_mut() else { continue };
                let missing: Vec<&String> =
                    defaults.keys().filter(|name| !given.contains_key(*name)).collect();
                if missing.is_empty() {
                    continue;
                }
                let names: Vec<&str> = missing.iter().map(|name| name.as_str()).collect();
                notes.push(format!("{} {what} for {word} {name}", names.join(", ")));
                for name in missing {
                    given.insert(name.clone(), defaults[name].clone());
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        let annotations = crate::object::metadata_mut(pod).entry("annotations").or_insert_with(|| json!({}));
        annotations[ANNOTATION] = note.into();
    }
}

/// Completes a pod with the defaults of its namespace.
pub(super) fn default_limits(state: &State, target: &Target<'_>, pod: &mut Value) {
    for (_, range) in state.stored("", "limitranges", target.namespace) {
        set_defaults(&range, pod);
    }
}

/// Refuses what breaks a LimitRange of the namespace.
pub(super) fn check_limits(
    state: &State,
    target: &Target<'_>,
    part: Part,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let plural = target.definition.names.plural.as_str();
    let concerned = match (plural, old) {
        (_, Some(old)) if is_terminating(old) => false,
        ("pods", None) => true,
        ("pods", Some(_)) => part == Part::Resize,
        _ => part == Part::Main,
    };
    if !concerned {
        return Ok(());
    }
    for (_, range) in state.stored("", "limitranges", target.namespace) {
        let errors = violations(&range, plural, new);
        match errors.as_slice() {
            [] => {}
            [error] => return Err(target.forbidden(new, error)),
            errors => return Err(target.forbidden(new, &format!("[{}]", errors.join(", ")))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_named_as_upstream_names_them() {
        let range = json!({"spec": {"limits": [
            {"type": "Container", "min": {"cpu": "100m"}, "max": {"memory": "1Gi"}, "maxLimitRequestRatio": {"cpu": "2"}},
            {"type": "Pod", "max": {"cpu": "1"}},
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},
        ]}});
        let pod = |requests: Value, limits: Value| json!({"spec": {"containers": [{"name": "a", "resources": {"requests": requests, "limits": limits}}]}});
        let claim = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
        let cases: [(&str, Value, &[&str]); 6] = [
            ("pods", pod(json!({"cpu": "200m"}), json!({"cpu": "300m", "memory": "1Gi"})), &[]),
            (
                "pods",
                pod(json!({}), json!({})),
                &[
                    "minimum cpu usage per Container is 100m.  No request is specified",
                    "maximum memory usage per Container is 1Gi.  No limit is specified",
                    "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
                    "maximum cpu usage per Pod is 1.  No limit is specified",
                ],
            ),
            (
                "pods",
                pod(json!({"cpu": "50m"}), json!({"cpu": "2", "memory": "2Gi"})),
                &[
                    "minimum cpu usage per Container is 100m, but request is 50m",
                    "maximum memory usage per Container is 1Gi, but limit is 2Gi",
                    "cpu max limit to request ratio per Container is 2, but provided ratio is 40.000000",
                    "maximum cpu usage per Pod is 1, but limit is 2",
                ],
            ),
            ("persistentvolumeclaims", claim("1536Mi"), &[]),
            (
                "persistentvolumeclaims",
                claim("512Mi"),
                &["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"],
            ),
            (
                "persistentvolumeclaims",
                claim("3Gi"),
                &["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"],
            ),
        ];
        for (plural, object, wanted) in cases {
            assert_eq!(violations(&range, plural, &object), wanted, "{object}");
        }
    }

    #[test]
    fn defaults_are_noted() {
        let range = json!({"spec": {"limits": [
            {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}},
        ]}});
        let mut pod = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]}});
        set_defaults(&range, &mut pod);
        let wanted = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}});
        assert_eq!(pod["spec"]["containers"][0]["resources"], wanted);
        let note = "LimitRanger plugin set: cpu request for container a; memory limit for container a";
        assert_eq!(pod["metadata"]["annotations"][ANNOTATION], note);
    }
}
