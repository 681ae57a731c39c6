//! The rules of the kinds that schemas can't say, with upstream's reasons, fields and texts (pkg/apis/*/validation).
//!
//! Objects come decoded and defaulted. What is checked is what clients meet: required fields, names, words out of a
//! list, references inside of an object, and what may not change.

mod endpoints;
mod events;
mod pair;
mod pod;
mod quotas;
mod resources;
mod services;
mod signature;
mod signing_requests;
mod text;
mod webhooks;
mod workloads;

use serde_json::{Map, Value};

use super::BuiltinKind;
use crate::Cause;
use crate::metadata::{self, NameRule};
pub(crate) use services::{addresses, is_reachable, needs_health_check};
pub(crate) use signing_requests::organizations;
use text::Form;

/// What is wrong with a new object. Empty: nothing. At most some hundred causes.
pub(crate) fn validate(kind: &BuiltinKind, new: &Value) -> Vec<Cause> {
    let mut causes = validate_metadata(kind, new);
    causes.extend(validate_content(kind, new, None));
    causes
}

/// The part of [`validate`] that is about metadata: names by their kind's form, labels, owners.
pub(crate) fn validate_metadata(kind: &BuiltinKind, new: &Value) -> Vec<Cause> {
    let mut check = Check { causes: metadata::validate(new, kind.namespaced, name_rule(kind)) };
    if kind.group != "apiextensions.k8s.io" {
        finalizers(&mut check, field(new, "metadata"));
    }
    check.causes
}

/// The part of [`validate`] that is about everything but metadata.
pub(crate) fn validate_content(kind: &BuiltinKind, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut check = Check { causes: Vec::new() };
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::pod(&mut check, new, old),
        ("", "PodTemplate") => pod::template(&mut check, field(new, "template"), "template"),
        ("", "ReplicationController") => workloads::replication_controller(&mut check, new),
        ("apps", "Deployment") => workloads::deployment(&mut check, new, old),
        ("apps", "ReplicaSet") => workloads::replica_set(&mut check, new, old),
        ("apps", "DaemonSet") => workloads::daemon_set(&mut check, new, old),
        ("apps", "StatefulSet") => workloads::stateful_set(&mut check, new, old),
        ("apps", "ControllerRevision") => workloads::controller_revision(&mut check, new, old),
        ("batch", "Job") => workloads::job(&mut check, new, old),
        ("batch", "CronJob") => workloads::cron_job(&mut check, new, old),
        ("", "Namespace") => resources::namespace(&mut check, new),
        ("", "Service") => services::service(&mut check, new, old),
        ("", "ConfigMap") => resources::config_map(&mut check, new, old),
        ("", "Secret") => resources::secret(&mut check, new, old),
        ("", "PersistentVolumeClaim") => resources::claim(&mut check, new, old),
        ("", "PersistentVolume") => resources::volume(&mut check, new, old),
        ("", "ResourceQuota") => quotas::quota(&mut check, new, old),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => webhooks::configuration(&mut check, new, old),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            signing_requests::request(&mut check, new, old, signing_requests::Writes::Nothing);
        }
        ("", "LimitRange") => quotas::limit_range(&mut check, new),
        ("", "Node") => quotas::node(&mut check, new, old),
        ("", "Endpoints") => endpoints::endpoints(&mut check, new, old),
        (group @ ("" | "events.k8s.io"), "Event") => {
            events::event(&mut check, group.is_empty(), new, old);
        }
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            resources::role(&mut check, kind.namespaced, new)
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            resources::role_binding(&mut check, kind.namespaced, new, old);
        }
        ("networking.k8s.io", "Ingress") => resources::ingress(&mut check, new),
        ("networking.k8s.io", "NetworkPolicy") => endpoints::network_policy(&mut check, new, old),
        ("policy", "PodDisruptionBudget") => resources::disruption_budget(&mut check, new),
        ("autoscaling", "HorizontalPodAutoscaler") => resources::autoscaler(&mut check, new),
        ("coordination.k8s.io", "Lease") => resources::lease(&mut check, new),
        ("scheduling.k8s.io", "PriorityClass") => resources::priority_class(&mut check, new, old),
        ("storage.k8s.io", "StorageClass") => resources::storage_class(&mut check, new, old),
        ("discovery.k8s.io", "EndpointSlice") => resources::endpoint_slice(&mut check, new, old),
        _ => {}
    }
    check.causes
}

/// What upstream warns of in an object that is valid.
pub(crate) fn warnings(kind: &BuiltinKind, new: &Value) -> Vec<String> {
    match (kind.group, kind.kind) {
        ("", "Secret") => resources::certificate_warning(new).into_iter().collect(),
        ("", "Service") => services::warnings(new),
        _ => Vec::new(),
    }
}

/// The numbers in the status of a kind that counts Pods; those after the bar are at most `replicas`.
fn counts(kind: &BuiltinKind) -> (&'static [&'static str], &'static [&'static str]) {
    match (kind.group, kind.kind) {
        ("apps", "Deployment") => (
            &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ],
            &["updatedReplicas", "readyReplicas", "availableReplicas"],
        ),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => (
            &[
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
                "terminatingReplicas",
            ],
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        ),
        ("apps", "StatefulSet") => (
            &[
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ],
            &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        ),
        ("apps", "DaemonSet") => (
            &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
            &[],
        ),
        _ => (&[], &[]),
    }
}

/// What is wrong with a change of a status.
pub(crate) fn validate_status(kind: &BuiltinKind, new: &Value, old: &Value) -> Vec<Cause> {
    let mut check = Check { causes: Vec::new() };
    match (kind.group, kind.kind) {
        ("", "Service") => services::service_status(&mut check, new, old),
        ("", "ResourceQuota") => quotas::quota_status(&mut check, new),
        ("", "Node") => quotas::node_change(&mut check, new, old),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            signing_requests::request(&mut check, new, Some(old), signing_requests::Writes::Certificate);
        }
        _ => {}
    }
    let (numbers, bounded) = counts(kind);
    let status = field(new, "status");
    for name in numbers {
        check.not_negative("status", status, name);
    }
    let of = |name: &str| integer(status, name).unwrap_or_default();
    for name in bounded.iter().filter(|name| of(name) > of("replicas")) {
        let at = format!("status.{name}");
        check.invalid(at, &of(name).into(), "cannot be greater than status.replicas");
    }
    if !bounded.is_empty() && of("availableReplicas") > of("readyReplicas") {
        let than = if kind.kind == "StatefulSet" { "status.readyReplicas" } else { "readyReplicas" };
        let why = format!("cannot be greater than {than}");
        check.invalid("status.availableReplicas", &of("availableReplicas").into(), &why);
    }
    let collisions = |object| integer(field(object, "status"), "collisionCount");
    if kind.kind != "ReplicaSet"
        && numbers.contains(&"collisionCount")
        && collisions(old).is_some_and(|before| collisions(new).unwrap_or_default() < before)
    {
        let value = collisions(new).unwrap_or_default();
        check.invalid("status.collisionCount", &value.into(), "cannot be decremented");
    }
    check.causes
}

/// What is wrong with a change of an approval.
pub(crate) fn validate_approval(new: &Value, old: &Value) -> Vec<Cause> {
    let mut check = Check { causes: Vec::new() };
    signing_requests::request(&mut check, new, Some(old), signing_requests::Writes::Conditions);
    check.causes
}

/// The form of a kind's names.
fn name_rule(kind: &BuiltinKind) -> NameRule {
    match (kind.group, kind.kind) {
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => NameRule::Label,
        ("rbac.authorization.k8s.io", _) | ("certificates.k8s.io", _) => NameRule::Path,
        // Theirs are made of other names: whoever serves them checks what they are made of.
        ("apiregistration.k8s.io", _) => NameRule::Path,
        ("authentication.k8s.io" | "authorization.k8s.io", _) => NameRule::Any,
        _ => NameRule::Subdomain,
    }
}

/// More causes than this say nothing.
const MOST: usize = 200;

/// The causes found so far.
struct Check {
    causes: Vec<Cause>,
}

impl Check {
    fn push(&mut self, reason: &str, field: impl Into<String>, message: String) {
        if self.causes.len() < MOST {
            self.causes.push(Cause { reason: reason.to_owned(), message, field: field.into() });
        }
    }

    fn required(&mut self, field: impl Into<String>, detail: &str) {
        self.push("FieldValueRequired", field, with("Required value".into(), detail));
    }

    fn forbidden(&mut self, field: impl Into<String>, detail: &str) {
        self.push("FieldValueForbidden", field, with("Forbidden".into(), detail));
    }

    fn invalid(&mut self, field: impl Into<String>, value: &Value, detail: &str) {
        self.push("FieldValueInvalid", field, with(format!("Invalid value: {}", shown(value)), detail));
    }

    /// As `invalid`, with the value as Go writes it.
    fn invalid_shown(&mut self, field: impl Into<String>, shown: &str, detail: &str) {
        self.push("FieldValueInvalid", field, with(format!("Invalid value: {shown}"), detail));
    }

    fn not_supported(&mut self, field: impl Into<String>, value: &Value, supported: &[&str]) {
        let words: Vec<String> = supported.iter().map(|word| format!("{word:?}")).collect();
        let detail = format!("supported values: {}", words.join(", "));
        self.push(
            "FieldValueNotSupported",
            field,
            with(format!("Unsupported value: {}", shown(value)), &detail),
        );
    }

    fn duplicate(&mut self, field: impl Into<String>, value: &Value) {
        self.push("FieldValueDuplicate", field, format!("Duplicate value: {}", shown(value)));
    }

    fn not_found(&mut self, field: impl Into<String>, value: &Value) {
        self.push("FieldValueNotFound", field, format!("Not found: {}", shown(value)));
    }

    fn too_long(&mut self, field: impl Into<String>, bytes: usize) {
        self.push("FieldValueTooLong", field, format!("Too long: may not be more than {bytes} bytes"));
    }

    /// One without a domain is Kubernetes' own.
    fn standard_finalizer(&mut self, field: &str, finalizer: &Value) {
        let known = ["kubernetes", "orphan", "foregroundDeletion"];
        if finalizer.as_str().is_some_and(|name| !name.contains('/') && !known.contains(&name)) {
            self.invalid(
                field,
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            );
        }
    }

    /// A text of a form.
    fn form(&mut self, field: &str, value: &str, form: Form) {
        for message in form(value) {
            self.invalid(field, &value.into(), &message);
        }
    }

    /// A text that has to be there, and of a form.
    fn required_form(&mut self, field: &str, value: &str, form: Form) {
        if value.is_empty() {
            self.required(field, "");
        } else {
            self.form(field, value, form);
        }
    }

    /// A word out of a list that has to be there.
    fn word(&mut self, field: &str, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(field, "");
        } else if !supported.contains(&value) {
            self.not_supported(field, &value.into(), supported);
        }
    }

    /// A number that is not below zero.
    fn not_negative(&mut self, at: &str, object: &Value, name: &str) {
        if let Some(number) = integer(object, name).filter(|number| *number < 0) {
            self.invalid(join(at, name), &number.into(), "must be greater than or equal to 0");
        }
    }

    fn immutable(&mut self, field: &str, new: Option<&Value>, old: Option<&Value>) {
        if !same(new, old) {
            let shown = new.map_or_else(|| "null".to_owned(), shown);
            self.invalid_shown(field, &shown, "field is immutable");
        }
    }
}

fn with(text: String, detail: &str) -> String {
    if detail.is_empty() { text } else { format!("{text}: {detail}") }
}

/// The fields of the structs that errors show, in the order of Go.
const ORDERS: [&[&str]; 3] = [
    &["matchLabels", "matchExpressions"],
    &["key", "operator", "values"],
    &["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"],
];

/// A value as Go's errors show it: JSON, with the fields of selectors and owners in the order of Go.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let order = ORDERS.iter().find(|order| map.keys().all(|name| order.contains(&name.as_str())));
            let pair = |name: &str, value: &Value| format!("{}:{}", Value::from(name), shown(value));
            let pairs: Vec<String> = match order {
                Some(order) => order.iter().filter_map(|name| Some(pair(name, map.get(*name)?))).collect(),
                None => map.iter().map(|(name, value)| pair(name, value)).collect(),
            };
            format!("{{{}}}", pairs.join(","))
        }
        other => other.to_string(),
    }
}

static NULL: Value = Value::Null;

/// A field, or null.
fn field<'a>(object: &'a Value, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&NULL)
}

/// A field that is there and not null.
fn given<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// A text, or an empty one.
fn string<'a>(object: &'a Value, name: &str) -> &'a str {
    field(object, name).as_str().unwrap_or_default()
}

fn integer(object: &Value, name: &str) -> Option<i64> {
    field(object, name).as_i64()
}

/// The items of a list, or none.
fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The items of a field that is a list, or none.
fn items<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    array(field(object, name))
}

/// The entries of a field that is a map, or none.
fn entries<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    field(object, name).as_object().into_iter().flatten()
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

/// Whether two fields are the same. Null is absent.
fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    a.filter(|value| !value.is_null()) == b.filter(|value| !value.is_null())
}

/// Those without a domain are Kubernetes' own.
fn finalizers(check: &mut Check, metadata: &Value) {
    for (index, finalizer) in items(metadata, "finalizers").iter().enumerate() {
        check.standard_finalizer(&format!("metadata.finalizers[{index}]"), finalizer);
    }
}

fn labels(check: &mut Check, at: &str, object: &Value, name: &str) {
    metadata::validate_labels(object.get(name), at, &mut check.causes);
}

/// A label selector. False if it is none.
fn selector(check: &mut Check, at: &str, selector: &Value) -> bool {
    let before = check.causes.len();
    labels(check, &join(at, "matchLabels"), selector, "matchLabels");
    for (index, expression) in items(selector, "matchExpressions").iter().enumerate() {
        let at = format!("{at}.matchExpressions[{index}]");
        let values = items(expression, "values");
        match string(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                check.required(join(&at, "values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                check.forbidden(
                    join(&at, "values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            "Exists" | "DoesNotExist" => {}
            other => check.invalid(join(&at, "operator"), &other.into(), "not a valid selector operator"),
        }
        check.form(&join(&at, "key"), string(expression, "key"), text::label_key);
        for (index, value) in values.iter().enumerate() {
            check.form(
                &format!("{at}.values[{index}]"),
                value.as_str().unwrap_or_default(),
                text::label_value,
            );
        }
    }
    check.causes.len() == before
}

/// Whether a label selector is one of those that select everything.
fn selects_all(selector: &Value) -> bool {
    items(selector, "matchExpressions").is_empty() && entries(selector, "matchLabels").next().is_none()
}

/// Whether a label selector matches; one that is not there matches nothing.
fn matches(selector: &Value, labels: Option<&Map<String, Value>>) -> bool {
    if selector.is_null() {
        return false;
    }
    let label = |key: &str| labels.and_then(|labels| labels.get(key));
    entries(selector, "matchLabels").all(|(key, value)| label(key) == Some(value))
        && items(selector, "matchExpressions").iter().all(|expression| {
            let found = label(string(expression, "key"));
            let listed = found.is_some_and(|value| items(expression, "values").contains(value));
            match string(expression, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// A number, not negative, or a percentage.
fn positive_or_percent(check: &mut Check, at: &str, value: &Value) {
    match value {
        Value::String(text) => {
            for message in text::percent(text) {
                check.invalid(at, value, &message);
            }
        }
        _ => {
            if value.as_i64().is_some_and(|number| number < 0) {
                check.invalid(at, value, "must be greater than or equal to 0");
            }
        }
    }
}

fn at_most_all(check: &mut Check, at: &str, value: &Value) {
    let percent =
        value.as_str().filter(|text| text::percent(text).is_empty()).and_then(|text| text.strip_suffix('%'));
    if percent.and_then(|digits| digits.parse::<i64>().ok()).is_some_and(|percent| percent > 100) {
        check.invalid(at, value, "must not be greater than 100%");
    }
}

/// A number or the digits of a percentage.
fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}
