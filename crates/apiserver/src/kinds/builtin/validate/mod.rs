//! Validation of built-in kinds beyond their schemas, with upstream's reasons, fields and messages (`pkg/apis/*/validation`).
//!
//! Objects come decoded and defaulted. What is checked is what clients meet: required fields, names, words out of a
//! list, references inside of an object, and what may not change.

mod check;
mod endpoints;
mod events;
mod pair;
mod pod;
mod quotas;
mod resources;
mod schedule;
mod services;
mod signature;
mod signing_requests;
mod webhooks;
mod workloads;

use serde_json::Value;
use settled_apimachinery::unstructured::{field, integer, items};

use super::BuiltinKind;
use crate::error::Cause;
use crate::metadata::{self, NameRule};
use check::Check;
pub(crate) use services::{addresses, is_reachable, needs_health_check};
pub(crate) use signing_requests::organizations;

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
        // Composed of a version and a group; the aggregator validates both.
        ("apiregistration.k8s.io", _) => NameRule::Path,
        ("authentication.k8s.io" | "authorization.k8s.io", _) => NameRule::Any,
        _ => NameRule::Subdomain,
    }
}

/// Those without a domain are Kubernetes' own.
fn finalizers(check: &mut Check, metadata: &Value) {
    for (index, finalizer) in items(metadata, "finalizers").iter().enumerate() {
        check.standard_finalizer(&format!("metadata.finalizers[{index}]"), finalizer);
    }
}
