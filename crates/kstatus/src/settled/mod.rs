//! The profile `settled`: the vocabulary of kstatus without its known defects.
//!
//! Order of the checks: deletion, generation, the standard conditions `Stalled` and `Reconciling`, then the rule for
//! the kind, then what any object may say (see [`custom`]).

mod cluster;
mod context;
mod custom;
mod deletion;
mod lexicon;
mod meanings;
mod network;
mod phases;
mod pod;
mod scaling;
mod statusless;
mod storage;
mod structures;
mod suspension;
mod vocabulary;
mod words;
mod workloads;

use crate::fields::Field;
use crate::node::Node;
use crate::object::Object;
use crate::options::Options;
use crate::text::text;
use crate::verdict::{Basis, FailureClass, RECONCILING, STALLED, Status, Verdict};
pub(crate) use context::generation_number;
use context::{Condition, Context, not_observed, path};

/// Conditions that count as evidence.
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
fn rule(group: &[u8], kind: &[u8]) -> Option<Rule> {
    if !is_of_kubernetes(group) {
        return None;
    }
    own_rule(group, kind).or_else(|| statusless::contains(group, kind).then_some(statusless::verdict))
}

/// Whether a group may be one of Kubernetes itself. Most kinds that have no rule are of other groups.
fn is_of_kubernetes(group: &[u8]) -> bool {
    group.ends_with(b".k8s.io") || !group.contains(&b'.')
}

fn own_rule(group: &[u8], kind: &[u8]) -> Option<Rule> {
    // By group first: comparing is what this costs.
    let rule: Rule = match group {
        b"" => match kind {
            b"Pod" => pod::pod,
            b"Service" => network::service,
            b"PersistentVolumeClaim" => storage::persistent_volume_claim,
            b"PersistentVolume" => storage::persistent_volume,
            b"Namespace" => cluster::namespace,
            b"Node" => cluster::node,
            b"ResourceQuota" => cluster::resource_quota,
            b"ReplicationController" => workloads::replica_set,
            _ => return None,
        },
        b"apps" | b"extensions" => match kind {
            b"Deployment" => workloads::deployment,
            b"ReplicaSet" => workloads::replica_set,
            b"DaemonSet" => workloads::daemon_set,
            b"StatefulSet" if group == b"apps" => workloads::stateful_set,
            b"Ingress" if group == b"extensions" => network::ingress,
            b"NetworkPolicy" if group == b"extensions" => network::network_policy,
            _ => return None,
        },
        b"batch" => match kind {
            b"Job" => workloads::job,
            b"CronJob" => workloads::cron_job,
            _ => return None,
        },
        b"snapshot.storage.k8s.io" | b"groupsnapshot.storage.k8s.io" => match kind {
            b"VolumeSnapshot"
            | b"VolumeSnapshotContent"
            | b"VolumeGroupSnapshot"
            | b"VolumeGroupSnapshotContent" => storage::snapshot,
            _ => return None,
        },
        b"policy" if kind == b"PodDisruptionBudget" => scaling::pod_disruption_budget,
        b"autoscaling" if kind == b"HorizontalPodAutoscaler" => scaling::horizontal_pod_autoscaler,
        b"networking.k8s.io" => match kind {
            b"Ingress" => network::ingress,
            b"NetworkPolicy" => network::network_policy,
            _ => return None,
        },
        b"gateway.networking.k8s.io" if kind == b"Gateway" => network::gateway,
        b"discovery.k8s.io" if kind == b"EndpointSlice" => network::endpoint_slice,
        b"storage.k8s.io" if kind == b"VolumeAttachment" => storage::volume_attachment,
        b"apiregistration.k8s.io" if kind == b"APIService" => cluster::api_service,
        b"apiextensions.k8s.io" if kind == b"CustomResourceDefinition" => cluster::custom_resource_definition,
        b"certificates.k8s.io" if kind == b"CertificateSigningRequest" => {
            cluster::certificate_signing_request
        }
        b"admissionregistration.k8s.io" if kind == b"ValidatingAdmissionPolicy" => {
            cluster::validating_admission_policy
        }
        b"resource.k8s.io" if kind == b"ResourceClaim" => cluster::resource_claim,
        b"coordination.k8s.io" if kind == b"Lease" => cluster::lease,
        b"flowcontrol.apiserver.k8s.io" if kind == b"FlowSchema" => cluster::flow_schema,
        _ => return None,
    };
    Some(rule)
}

/// Whether this library knows the kind, rather than what any object may say.
pub(crate) fn has_own_rule(group: &[u8], kind: &[u8]) -> bool {
    rule(group, kind).is_some()
}

/// A rule from outside this library: it decides before what this library knows of the kind.
///
/// Methods get the object and the options of the caller, and none of them must panic. See the crate `settled-rules` for
/// rules that users write.
pub trait CustomRule {
    /// Whether there is a rule for the object at all: one without is read as it would be without `self`.
    fn has_rule(&self) -> bool {
        true
    }

    /// Whether this object with a `deletionTimestamp` is Terminating before the rule is asked.
    fn checks_deletion(&self, object: &Object<'_>, options: &Options) -> bool {
        let _ = (object, options);
        true
    }

    /// Whether this object whose latest generation was not observed is InProgress before [`decide`](Self::decide).
    fn checks_generation(&self, object: &Object<'_>, options: &Options) -> bool {
        let _ = (object, options);
        true
    }

    /// Asked before the check of the generation: an object that is paused observes nothing.
    fn suspended(&self, object: &Object<'_>, options: &Options) -> Option<Verdict>;

    /// The verdict; none where the rule says nothing, and this library's own rules go on.
    fn decide(&self, object: &Object<'_>, options: &Options) -> Option<Verdict>;
}

/// The verdict of the profile `settled`.
pub(crate) fn compute(
    object: &Object<'_>,
    options: &Options,
    evidence: Evidence,
    rule: Option<&dyn CustomRule>,
) -> Verdict {
    let mut context = Context::new(object, options);
    context.generation = context.int(Field::Generation);
    context.observed = observed_generation(&context);
    let mut verdict = decide(&context, evidence, rule);
    context.finish(&mut verdict);
    verdict
}

fn decide(context: &Context<'_, '_>, evidence: Evidence, custom: Option<&dyn CustomRule>) -> Verdict {
    let (group, kind) = context.object.group_kind();
    check_type(context, &kind);
    if let Some(verdict) = deletion::deletion(context, &group, &kind)
        && custom.is_none_or(|rule| rule.checks_deletion(context.object, context.options))
    {
        return verdict;
    }
    if let Some(verdict) = custom.and_then(|rule| rule.suspended(context.object, context.options)) {
        return verdict;
    }
    if let (Some(latest), Some(observed)) = (context.generation, context.observed)
        && latest != observed
        && custom.is_none_or(|rule| rule.checks_generation(context.object, context.options))
    {
        return unobserved(context, latest, observed, custom);
    }
    if let Some(verdict) = custom.and_then(|rule| rule.decide(context.object, context.options)) {
        return verdict;
    }
    let Some(rule) = rule(&group, &kind) else { return custom::verdict(context, &kind) };
    if evidence == Evidence::Whole
        && let Some(verdict) = standard_conditions(context)
    {
        return verdict;
    }
    rule(context)
}

/// The verdict on an object whose latest generation the status as a whole is not of.
fn unobserved(
    context: &Context<'_, '_>,
    latest: i64,
    observed: i64,
    custom: Option<&dyn CustomRule>,
) -> Verdict {
    let (group, kind) = context.object.group_kind();
    let has_own_rule = has_own_rule(&group, &kind);
    // A paused controller observes no changes.
    if custom.is_none_or(|custom| !custom.has_rule())
        && !has_own_rule
        && let Some(verdict) = custom::unobserved(context)
    {
        return verdict;
    }
    // What is odd in the status does not count here.
    let mut aside = Context::new(context.object, context.options);
    (aside.generation, aside.observed) = (context.generation, context.observed);
    let own = custom.and_then(|rule| rule.decide(context.object, context.options));
    if own.is_none()
        && !has_own_rule
        && let Some(failure) = custom::failure_of(&aside, latest, &kind)
    {
        return failure;
    }
    let own = match own.filter(|own| own.status == Status::Failed) {
        Some(failure) if is_of(&aside, latest, &failure) => return failure,
        own => own,
    };
    let kind = context.object.kind().unwrap_or_default();
    let generations =
        format_args!("{kind} generation is {latest}, but latest observed generation is {observed}");
    not_observed(match own {
        // Many controllers report a failure without the generation that they looked at.
        Some(own) => text!("{generations}; reported failure: {}: {}", own.reason, own.message),
        None => text!("{generations}"),
    })
}

/// Whether a failure is one of the latest generation, although the status as a whole is of another one: some controllers write
/// that with success only, but conditions always. An object that was never changed has had no other generation.
fn is_of(context: &Context<'_, '_>, latest: i64, failure: &Verdict) -> bool {
    latest == 1 || context.conditions().iter().any(|condition| condition.is_of(latest, failure))
}

/// Whether the type is valid: a kind, and an apiVersion with at most two parts.
fn check_type(context: &Context<'_, '_>, kind: &[u8]) {
    if context.object.is_plainly_typed() {
        return;
    }
    if kind.is_empty() && context.text(Field::ObjectKind).is_none_or(|kind| kind.is_empty()) {
        context.unreadable(".kind", "missing: this is no Kubernetes object");
    }
    match context.object.get(Field::ApiVersion) {
        Some(version) if !kind.is_empty() && version.is_filled() => {}
        _ => match context.text(Field::ApiVersion) {
            // More than one slash leaves the group and the kind empty.
            Some(version) if version.contains('/') => {
                context.unreadable(
                    ".apiVersion",
                    text!("expected `version` or `group/version`, found `{version}`"),
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
                context.note(path, text!("expected an integer, found the string `{text}`; not compared"))
            }
            None => context.wrong_type(path, "an integer", node),
        }
    } else if node.is_string() {
        context.note(path(Field::ObservedGeneration), "a number in a string; read as a number");
    }
    number
}

/// The verdict of the conditions that kstatus defines.
fn standard_conditions(context: &Context<'_, '_>) -> Option<Verdict> {
    let mut standard = Standard::default();
    for condition in context.conditions().iter() {
        standard.record(&condition);
    }
    standard.verdict(context)
}

/// The conditions that kstatus defines, where they are True.
#[derive(Default)]
struct Standard<'a> {
    stalled: Option<Condition<'a>>,
    reconciling: Option<Condition<'a>>,
}

impl<'a> Standard<'a> {
    /// Whether it is one of them, True or not.
    fn record(&mut self, condition: &Condition<'a>) -> bool {
        let slot = if condition.is_type(STALLED) {
            &mut self.stalled
        } else if condition.is_type(RECONCILING) {
            &mut self.reconciling
        } else {
            return false;
        };
        if condition.is_true() {
            slot.get_or_insert(*condition);
        }
        true
    }

    /// `Stalled` decides wherever it stands in the list, unless it speaks of an older generation and `Reconciling`
    /// does not.
    fn verdict(&self, context: &Context<'_, '_>) -> Option<Verdict> {
        if self.stalled.is_none() && self.reconciling.is_none() {
            return None;
        }
        let stalled = self.stalled.map(|condition| {
            context.decided_by(&condition, || {
                let message = condition.message_or(|| "the controller reports that it is stalled".to_owned());
                let (reason, basis) = (condition.reason_or(STALLED), Basis::StandardCondition);
                Verdict::new(Status::Failed, basis, reason, message).failure(FailureClass::Other, false)
            })
        });
        if stalled.as_ref().is_some_and(|verdict| verdict.basis != Basis::Generation) {
            return stalled;
        }
        let reconciling = self.reconciling.map(|condition| {
            context.decided_by(&condition, || {
                let message =
                    condition.message_or(|| "the controller is working on the latest changes".to_owned());
                let (reason, basis) = (condition.reason_or(RECONCILING), Basis::StandardCondition);
                Verdict::new(Status::InProgress, basis, reason, message)
            })
        });
        reconciling.or(stalled)
    }
}

/// A member of a map as text.
fn member<'a>(map: Node<'a>, key: &str) -> Option<std::borrow::Cow<'a, str>> {
    map.get(key)?.as_str().filter(|text| !text.is_empty())
}
