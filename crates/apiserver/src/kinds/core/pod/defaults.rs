//! Defaults of Pods that a table can't say (`pkg/apis/core/v1/defaults.go` upstream).

use serde_json::{Value, json};
use settled_apimachinery::quantity::Quantity;

use crate::kinds::fields::{Fields, copy_absent, set_absent};
use crate::object::text;

/// `Always` for an image of the tag `latest`, or with neither tag nor digest.
fn pull_policy(image: &str) -> &'static str {
    // What is no image name has no tag; it isn't valid either.
    let after_slash = image.rsplit('/').next().unwrap_or_default();
    let (name, digest) =
        after_slash.split_once('@').map_or((after_slash, None), |(name, digest)| (name, Some(digest)));
    match name.split_once(':') {
        Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
        None if digest.is_some() || !named(image) => "IfNotPresent",
        None => "Always",
    }
}

/// Whether an image has a name that Docker's reference grammar takes: lower case, no empty parts.
fn named(image: &str) -> bool {
    let mut parts = image.split('/').peekable();
    // The first part may be a host, which is wider.
    if image.contains('/')
        && parts.peek().is_some_and(|first| {
            first.contains(['.', ':'])
                || *first == "localhost"
                || first.chars().any(|c| c.is_ascii_uppercase())
        })
    {
        parts.next();
    }
    parts.all(|part| {
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(edge) && part.ends_with(edge) && part.chars().all(|c| edge(c) || "._-".contains(c))
    })
}

pub(crate) fn set_image_pull_policy(container: &mut Fields) {
    let policy = pull_policy(container.get("image").and_then(Value::as_str).unwrap_or_default());
    set_absent(container, "imagePullPolicy", &policy.into());
}

pub(crate) fn set_image_volume_pull_policy(volume: &mut Fields) {
    if let Some(Value::Object(image)) = volume.get_mut("image") {
        let policy = pull_policy(image.get("reference").and_then(Value::as_str).unwrap_or_default());
        set_absent(image, "pullPolicy", &policy.into());
    }
}

pub(crate) fn set_volume_source(volume: &mut Fields) {
    if !volume.iter().any(|(name, value)| name != "name" && value.is_object()) {
        volume.insert("emptyDir".into(), json!({}));
    }
}

pub(crate) fn set_service_account_alias(spec: &mut Fields) {
    let name = ["serviceAccountName", "serviceAccount"]
        .into_iter()
        .find_map(|field| spec.get(field).and_then(Value::as_str).filter(|name| !name.is_empty()))
        .map(str::to_owned);
    if let Some(name) = name {
        spec.insert("serviceAccountName".into(), name.clone().into());
        spec.insert("serviceAccount".into(), name.into());
    }
}

/// The containers of a Pod that start with it.
fn containers(pod: &mut Fields) -> impl Iterator<Item = &mut Fields> {
    let spec = pod.get_mut("spec").and_then(Value::as_object_mut).into_iter();
    let lists = spec
        .flat_map(|spec| spec.iter_mut())
        .filter(|(name, _)| *name == "containers" || *name == "initContainers");
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten().filter_map(Value::as_object_mut)
}

/// Requests are limits where they are not given: of containers, and of the Pod as a whole.
pub(crate) fn set_requests(pod: &mut Fields) {
    for container in containers(pod) {
        if let Some(Value::Object(resources)) = container.get_mut("resources") {
            copy_absent(resources, "limits", "requests");
        }
    }
    set_pod_level_requests(pod);
}

/// A sum, begun with the first amount.
fn plus(sum: Option<Quantity>, more: Quantity) -> Quantity {
    match sum {
        Some(mut sum) => {
            sum.add(&more);
            sum
        }
        None => more,
    }
}

/// A Pod's own requests: the sum of its containers', else its limits.
fn set_pod_level_requests(pod: &mut Fields) {
    let limited =
        pod.get("spec").and_then(|spec| spec.pointer("/resources/limits")).is_some_and(Value::is_object);
    if !limited {
        return;
    }
    // Containers at work together, and the largest of those that run before them. (Sidecars are among the first.)
    let sums = ["cpu", "memory"].map(|resource| {
        let request = |container: &Value| {
            container
                .pointer("/resources/requests")
                .and_then(|requests| requests.get(resource)?.as_str())
                .and_then(|text| Quantity::parse(text).ok())
        };
        let list = |name: &str| pod.get("spec").and_then(|spec| spec.get(name)).and_then(Value::as_array);
        let mut together: Option<Quantity> = None;
        for container in list("containers").into_iter().flatten() {
            if let Some(more) = request(container) {
                together = Some(plus(together, more));
            }
        }
        let mut sidecars: Option<Quantity> = None;
        let mut before: Option<Quantity> = None;
        for container in list("initContainers").into_iter().flatten() {
            let Some(more) = request(container) else { continue };
            let with = plus(sidecars.clone(), more);
            if text(container, "restartPolicy") == "Always" {
                sidecars = Some(with.clone());
            }
            before = Some(before.filter(|most| *most > with).unwrap_or(with));
        }
        let together = match (together, sidecars) {
            (sum, Some(more)) => Some(plus(sum, more)),
            (sum, None) => sum,
        };
        let most = match (together, before) {
            (Some(sum), Some(most)) => Some(if most > sum { most } else { sum }),
            (sum, most) => sum.or(most),
        };
        (resource, most)
    });
    let Some(Value::Object(resources)) = pod.get_mut("spec").and_then(|spec| spec.get_mut("resources"))
    else {
        return;
    };
    for (resource, sum) in sums {
        if let Some(sum) = sum {
            set_absent(resources, &format!("requests.{resource}"), &sum.to_string().into());
        }
    }
    copy_absent(resources, "limits", "requests");
}

pub(crate) fn set_host_network_ports(pod: &mut Fields) {
    if pod.get("spec").and_then(|spec| spec.get("hostNetwork")) != Some(&Value::Bool(true)) {
        return;
    }
    for container in containers(pod) {
        for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(port) = port
                && let Some(number) = port.get("containerPort").cloned()
            {
                port.entry("hostPort").or_insert(number);
            }
        }
    }
}
