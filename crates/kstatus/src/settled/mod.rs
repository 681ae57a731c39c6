//! The profile `settled`: the vocabulary of kstatus without its known defects.
//!
//! Order of the checks: deletion, generation, the standard conditions `Stalled` and `Reconciling`, then the rule for
//! the kind, then what any object may say (see [`custom`]).

mod cluster;
mod context;
mod custom;
mod deletion;
mod network;
mod pod;
mod scaling;
mod statusless;
mod storage;
mod workloads;

use crate::node::{Kind, Node};
use crate::object::{Field, Object};
use crate::options::Options;
use crate::verdict::{Basis, FailureClass, RECONCILING, STALLED, Status, Verdict};
pub(crate) use context::generation_number;
use context::{Condition, Context, not_observed, path};

/// Which conditions are evidence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// All of them.
    Whole,
    /// All but `Reconciling` and `Stalled` on kinds that have a rule: there they are an earlier verdict, written by
    /// `augment`, for no controller of these kinds sets them.
    WithoutEarlierVerdicts,
}

type Rule = fn(&Context<'_, '_>) -> Verdict;

/// The rule for a kind; the version does not matter.
fn rule(group: &str, kind: &str) -> Option<Rule> {
    Some(match (group, kind) {
        ("apps" | "extensions", "Deployment") => workloads::deployment,
        ("apps", "StatefulSet") => workloads::stateful_set,
        ("apps" | "extensions", "DaemonSet") => workloads::daemon_set,
        ("apps" | "extensions", "ReplicaSet") | ("", "ReplicationController") => workloads::replica_set,
        ("batch", "Job") => workloads::job,
        ("batch", "CronJob") => workloads::cron_job,
        ("", "Pod") => pod::pod,
        ("policy", "PodDisruptionBudget") => scaling::pod_disruption_budget,
        ("autoscaling", "HorizontalPodAutoscaler") => scaling::horizontal_pod_autoscaler,
        ("", "Service") => network::service,
        ("networking.k8s.io" | "extensions", "Ingress") => network::ingress,
        ("gateway.networking.k8s.io", "Gateway") => network::gateway,
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice,
        ("", "PersistentVolumeClaim") => storage::persistent_volume_claim,
        ("", "PersistentVolume") => storage::persistent_volume,
        ("storage.k8s.io", "VolumeAttachment") => storage::volume_attachment,
        ("snapshot.storage.k8s.io", "VolumeSnapshot" | "VolumeSnapshotContent")
        | ("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshot" | "VolumeGroupSnapshotContent") => {
            storage::snapshot
        }
        ("", "Namespace") => cluster::namespace,
        ("", "Node") => cluster::node,
        ("", "ResourceQuota") => cluster::resource_quota,
        ("apiregistration.k8s.io", "APIService") => cluster::api_service,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => cluster::custom_resource_definition,
        ("certificates.k8s.io", "CertificateSigningRequest") => cluster::certificate_signing_request,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => cluster::validating_admission_policy,
        ("resource.k8s.io", "ResourceClaim") => cluster::resource_claim,
        ("coordination.k8s.io", "Lease") => cluster::lease,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => cluster::flow_schema,
        _ => return None,
    })
}

/// Whether this library knows the kind, rather than what any object may say.
pub(crate) fn has_own_rule(group: &str, kind: &str) -> bool {
    rule(group, kind).is_some() || statusless::contains(group, kind)
}

/// The verdict of the profile `settled`.
pub(crate) fn compute(object: &Object<'_>, options: &Options, evidence: Evidence) -> Verdict {
    let mut context = Context::new(object, options);
    context.generation = context.int(Field::Generation);
    context.observed = observed_generation(&context);
    let verdict = decide(&context, evidence);
    context.finish(verdict)
}

fn decide(context: &Context<'_, '_>, evidence: Evidence) -> Verdict {
    let (group, kind) = context.object.group_kind();
    check_type(context, &kind);
    if let Some(verdict) = deletion::deletion(context, &group, &kind) {
        return verdict;
    }
    if let (Some(latest), Some(observed)) = (context.generation, context.observed)
        && latest != observed
    {
        return not_observed(format!(
            "{kind} generation is {latest}, but latest observed generation is {observed}"
        ));
    }
    if !(evidence == Evidence::WithoutEarlierVerdicts && has_own_rule(&group, &kind))
        && let Some(verdict) = standard_conditions(context)
    {
        return verdict;
    }
    match rule(&group, &kind) {
        Some(rule) => rule(context),
        None if statusless::contains(&group, &kind) => statusless::verdict(&kind),
        None => custom::verdict(context, &kind),
    }
}

/// What makes an object of Kubernetes: a kind, and an apiVersion of at most two parts.
fn check_type(context: &Context<'_, '_>, kind: &str) {
    if kind.is_empty() && context.text(Field::ObjectKind).is_none_or(|kind| kind.is_empty()) {
        context.unreadable(".kind", "missing: this is no Kubernetes object");
    }
    match context.object.get(Field::ApiVersion) {
        Some(version) if !kind.is_empty() && version.kind() == Kind::String && !version.is("") => {}
        _ => match context.text(Field::ApiVersion) {
            // More than one slash leaves the group and the kind empty.
            Some(version) if version.contains('/') => {
                context.unreadable(
                    ".apiVersion",
                    format!("expected `version` or `group/version`, found `{version}`"),
                );
            }
            Some(version) if !version.is_empty() => {}
            _ => context.note(".apiVersion", "missing; read as `v1`"),
        },
    }
}

/// `status.observedGeneration`. A string that holds a number counts as one, any other string (a hash, as older Argo
/// Rollouts wrote) cannot be compared.
fn observed_generation(context: &Context<'_, '_>) -> Option<i64> {
    let node = context.get(Field::ObservedGeneration)?;
    let number = generation_number(node);
    if number.is_none() {
        let path = path(Field::ObservedGeneration);
        match node.as_str() {
            Some(text) => {
                context.note(path, format!("expected an integer, found the string `{text}`; not compared"))
            }
            None => context.wrong_type(path, "an integer", node),
        }
    } else if node.kind() == Kind::String {
        context.note(path(Field::ObservedGeneration), "a number in a string; read as a number");
    }
    number
}

/// The conditions that kstatus defines. `Stalled` decides wherever it stands in the list, unless it speaks of an older
/// generation and `Reconciling` does not.
fn standard_conditions(context: &Context<'_, '_>) -> Option<Verdict> {
    let (mut stalled, mut reconciling): (Option<Condition<'_>>, Option<Condition<'_>>) = (None, None);
    for condition in context.conditions().iter().filter(Condition::is_true) {
        if condition.is_type(STALLED) {
            stalled.get_or_insert(condition);
        } else if condition.is_type(RECONCILING) {
            reconciling.get_or_insert(condition);
        }
    }
    let stalled = stalled.map(|condition| {
        let verdict = Verdict::new(
            Status::Failed,
            Basis::StandardCondition,
            condition.reason_or(STALLED),
            condition.message_or(|| "the controller reports that it does not get on".to_owned()),
        );
        context.decided_by(&condition, verdict.failure(FailureClass::Other, false))
    });
    let reconciling = reconciling.map(|condition| {
        let verdict = Verdict::new(
            Status::InProgress,
            Basis::StandardCondition,
            condition.reason_or(RECONCILING),
            condition.message_or(|| "the controller is working on the latest changes".to_owned()),
        );
        context.decided_by(&condition, verdict)
    });
    match (stalled, reconciling) {
        (Some(stalled), Some(reconciling)) if stalled.basis == Basis::Generation => Some(reconciling),
        (Some(stalled), _) => Some(stalled),
        (None, reconciling) => reconciling,
    }
}

/// A member of a map as text.
fn text<'a>(map: Node<'a>, key: &str) -> Option<std::borrow::Cow<'a, str>> {
    map.get(key)?.as_str().filter(|text| !text.is_empty())
}
