//! Defaulting steps of `defaults.yaml`, and the functions that it names.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use settled_apimachinery::quantity::Quantity;

use super::text;

/// A step of `defaults.yaml`: see there.
#[derive(Debug)]
pub(super) struct Step {
    when: Vec<(String, Value)>,
    has: Vec<String>,
    apply: Option<Function>,
    set: Vec<(String, Value)>,
}

pub(super) type Fields = Map<String, Value>;
type Function = fn(&mut Fields);

/// What a table can't say, by the names that `defaults.yaml` has for it.
const FUNCTIONS: [(&str, Function); 20] = [
    ("claim_kinds", claim_kinds),
    ("cpu_target", cpu_target),
    ("definition", definition),
    ("deprecated_generation", deprecated_generation),
    ("host_network_ports", host_network_ports),
    ("image_pull_policy", image_pull_policy),
    ("image_volume_pull_policy", image_volume_pull_policy),
    ("limit_range_item", limit_range_item),
    ("load_balancer_ip_mode", load_balancer_ip_mode),
    ("namespace_label", namespace_label),
    ("node_allocatable", node_allocatable),
    ("node_ranges", node_ranges),
    ("pod_requests", pod_requests),
    ("replication_controller", replication_controller),
    ("service_account_alias", service_account_alias),
    ("session_affinity_config", session_affinity_config),
    ("string_data", string_data),
    ("target_port", target_port),
    ("template_labels", template_labels),
    ("volume_source", volume_source),
];

static TEXT: &[u8] = include_bytes!("../../../data/defaults.yaml");

static STEPS: LazyLock<HashMap<String, Vec<Step>>> = LazyLock::new(|| read().unwrap_or_default());

/// Reads `defaults.yaml`. A test reads it too, so the error is for whoever edits it.
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

/// What lies at a path. `null`s and what Go takes for absent are absent.
fn at<'a>(fields: &'a Fields, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let mut value = fields.get(names.next()?)?;
    for name in names {
        value = value.get(name)?;
    }
    Some(value).filter(|value| !value.is_null())
}

/// Puts a value at a path, with the objects on its way, unless there is one.
fn set_absent(fields: &mut Fields, path: &str, value: &Value) {
    if at(fields, path).is_some_and(|known| known != "" || value == "") {
        return;
    }
    let (parents, last) = path.rsplit_once('.').map_or((None, path), |(parents, last)| (Some(parents), last));
    let mut fields = fields;
    for name in parents.into_iter().flat_map(|parents| parents.split('.')) {
        let parent = fields.entry(name).or_insert_with(|| Value::Object(Fields::new()));
        if parent.is_null() {
            *parent = Value::Object(Fields::new());
        }
        let Value::Object(inner) = parent else { return };
        fields = inner;
    }
    fields.insert(last.to_owned(), value.clone());
}

impl Step {
    pub(super) fn run(&self, fields: &mut Fields) {
        let holds = self.when.iter().all(|(path, wanted)| match (at(fields, path), wanted) {
            (found, Value::Null) => found.is_none_or(|value| value == ""),
            (Some(found), Value::Array(any)) => any.contains(found),
            (found, wanted) => found == Some(wanted),
        });
        if !holds || self.has.iter().any(|path| at(fields, path).is_none()) {
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

fn image_pull_policy(container: &mut Fields) {
    let policy = pull_policy(container.get("image").and_then(Value::as_str).unwrap_or_default());
    set_absent(container, "imagePullPolicy", &policy.into());
}

fn image_volume_pull_policy(volume: &mut Fields) {
    if let Some(Value::Object(image)) = volume.get_mut("image") {
        let policy = pull_policy(image.get("reference").and_then(Value::as_str).unwrap_or_default());
        set_absent(image, "pullPolicy", &policy.into());
    }
}

fn volume_source(volume: &mut Fields) {
    if !volume.iter().any(|(name, value)| name != "name" && value.is_object()) {
        volume.insert("emptyDir".into(), json!({}));
    }
}

fn service_account_alias(spec: &mut Fields) {
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
fn pod_requests(pod: &mut Fields) {
    for container in containers(pod) {
        if let Some(Value::Object(resources)) = container.get_mut("resources") {
            copy_absent(resources, "limits", "requests");
        }
    }
    pod_level_requests(pod);
}

/// Copies the entries of one map into another where it has none of that name.
fn copy_absent(fields: &mut Fields, from: &str, to: &str) {
    let Some(Value::Object(source)) = fields.get(from).cloned() else { return };
    let target = fields.entry(to).or_insert_with(|| Value::Object(Fields::new()));
    if target.is_null() {
        *target = Value::Object(Fields::new());
    }
    if let Value::Object(target) = target {
        for (name, value) in source {
            target.entry(name).or_insert(value);
        }
    }
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
fn pod_level_requests(pod: &mut Fields) {
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
                .and_then(|requests| text(requests, resource))
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
            if text(container, "restartPolicy") == Some("Always") {
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

fn host_network_ports(pod: &mut Fields) {
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

fn claim_kinds(set: &mut Fields) {
    let claims = set.get_mut("spec").and_then(|spec| spec.get_mut("volumeClaimTemplates"));
    for claim in claims.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(claim) = claim {
            claim.insert("apiVersion".into(), "v1".into());
            claim.insert("kind".into(), "PersistentVolumeClaim".into());
        }
    }
}

/// `autoscaling/v1` keeps metrics other than the CPU's in an annotation.
fn cpu_target(scaler: &mut Fields) {
    let annotations = scaler.get("metadata").and_then(|metadata| metadata.get("annotations"));
    if annotations.is_none_or(|known| known.get("autoscaling.alpha.kubernetes.io/metrics").is_none()) {
        set_absent(scaler, "spec.targetCPUUtilizationPercentage", &json!(80));
    }
}

/// The labels of the template go to the object's, if it has none.
fn template_labels(object: &mut Fields) {
    let labels = object.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if let Some(labels @ Value::Object(_)) = labels {
        set_absent(object, "metadata.labels", &labels);
    }
}

fn replication_controller(object: &mut Fields) {
    template_labels(object);
    let labels = object.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if let Some(labels @ Value::Object(_)) = labels {
        set_absent(object, "spec.selector", &labels);
    }
}

fn session_affinity_config(service: &mut Fields) {
    let Some(Value::Object(spec)) = service.get_mut("spec") else { return };
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => drop(spec.remove("sessionAffinityConfig")),
        Some("ClientIP") => set_absent(spec, "sessionAffinityConfig.clientIP.timeoutSeconds", &json!(10800)),
        _ => {}
    }
}

fn load_balancer_ip_mode(service: &mut Fields) {
    let ingress = service.get_mut("status").and_then(|status| status.pointer_mut("/loadBalancer/ingress"));
    for address in ingress.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(address) = address
            && address.contains_key("ip")
        {
            set_absent(address, "ipMode", &"VIP".into());
        }
    }
}

fn target_port(port: &mut Fields) {
    let number = port.get("port").cloned().unwrap_or_else(|| 0.into());
    set_absent(port, "targetPort", &number);
}

fn limit_range_item(item: &mut Fields) {
    if item.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        copy_absent(item, from, to);
    }
}

fn namespace_label(namespace: &mut Fields) {
    let Some(Value::Object(metadata)) = namespace.get_mut("metadata") else { return };
    let Some(name) =
        metadata.get("name").filter(|name| name.as_str().is_some_and(|name| !name.is_empty())).cloned()
    else {
        return;
    };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if labels.is_null() {
        *labels = json!({});
    }
    if let Value::Object(labels) = labels {
        // Whatever was there: it is not the user's to choose.
        labels.insert("kubernetes.io/metadata.name".into(), name);
    }
}

fn node_allocatable(status: &mut Fields) {
    if let Some(capacity) = status.get("capacity").filter(|capacity| capacity.is_object()).cloned() {
        set_absent(status, "allocatable", &capacity);
    }
}

/// `podCIDR` is the first of `podCIDRs`, whichever a client writes, and it counts where they differ.
fn node_ranges(spec: &mut Fields) {
    let one = spec.get("podCIDR").and_then(Value::as_str).filter(|range| !range.is_empty());
    let first = spec.get("podCIDRs").and_then(|ranges| ranges.get(0)).and_then(Value::as_str);
    match (one, first) {
        (Some(one), first) if first != Some(one) => {
            let ranges = json!([one]);
            spec.insert("podCIDRs".into(), ranges);
        }
        (None, Some(first)) => {
            let first = json!(first);
            spec.insert("podCIDR".into(), first);
        }
        _ => {}
    }
}

/// How often the template of a DaemonSet has changed: inside of upstream a number, outside an annotation.
pub(super) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn deprecated_generation(set: &mut Fields) {
    let Some(Value::Object(metadata)) = set.get_mut("metadata") else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if annotations.is_null() {
        *annotations = json!({});
    }
    if let Value::Object(annotations) = annotations {
        annotations.entry(TEMPLATE_GENERATION).or_insert_with(|| "0".into());
    }
}

fn string_data(secret: &mut Fields) {
    let Some(Value::Object(texts)) = secret.remove("stringData") else { return };
    let data = secret.entry("data").or_insert_with(|| json!({}));
    if data.is_null() {
        *data = json!({});
    }
    if let Value::Object(data) = data {
        for (name, text) in texts {
            data.insert(name, encode_base64(text.as_str().unwrap_or_default().as_bytes()).into());
        }
    }
}

fn encode_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let index = (bits >> (18 - 6 * place)) & 63;
            let letter = ALPHABET.get(index as usize).copied().unwrap_or(b'=');
            out.push(char::from(if place <= chunk.len() { letter } else { b'=' }));
        }
    }
    out
}

/// The names that a definition may leave out, its conversion, and its first stored version.
fn definition(definition: &mut Fields) {
    let stored = definition
        .get("spec")
        .and_then(|spec| spec.get("versions"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .and_then(|version| version.get("name"))
        .cloned();
    let kind = at(definition, "spec.names.kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !kind.is_empty() {
        set_absent(definition, "spec.names.singular", &kind.to_lowercase().into());
        set_absent(definition, "spec.names.listKind", &format!("{kind}List").into());
    }
    if at(definition, "spec.conversion").is_none() {
        set_absent(definition, "spec.conversion.strategy", &"None".into());
    }
    if let Some(stored) = stored {
        set_absent(definition, "status.storedVersions", &json!([stored]));
    }
}
