//! Rules for PodDisruptionBudget and HorizontalPodAutoscaler.

use std::borrow::Cow;

use super::context::{Condition, Context, Truth, current, in_progress, recoverable};
use super::member;
use crate::fields::Field;
use crate::node::{Kind, Node};
use crate::text::text;
use crate::verdict::{FailureClass, Verdict};

/// Current once observed, while the controller says that there are sufficient Pods: `DisruptionAllowed`, or without
/// that condition (servers before 1.22) the counts it is made of.
pub(super) fn pod_disruption_budget(context: &Context<'_, '_>) -> Verdict {
    let condition = context.conditions().find("DisruptionAllowed");
    if context.observed.is_none() && condition.is_none() {
        return in_progress("NotObserved", "the allowed disruptions have not been computed yet");
    }
    let allowed = context.count(Field::DisruptionsAllowed);
    let healthy = context.count(Field::CurrentHealthy);
    let desired = context.count(Field::DesiredHealthy);
    let counts = || text!("allowed disruptions: {allowed}, healthy Pods: {healthy}, required: {desired}");
    match &condition {
        Some(condition) if condition.is_reason("SyncFailed") => context.decided_by(condition, || {
            recoverable(FailureClass::Configuration, "SyncFailed", condition.describe())
        }),
        Some(condition) if condition.is_true() => {
            context.decided_by(condition, || current("SufficientPods", counts()))
        }
        None if healthy >= desired => current("SufficientPods", counts()),
        _ => in_progress("InsufficientPods", counts()),
    }
}

pub(super) fn horizontal_pod_autoscaler(context: &Context<'_, '_>) -> Verdict {
    if let Some(annotated) = context.get(Field::Annotations).and_then(|a| member(a, V1_CONDITIONS)) {
        return from_annotation(context, &annotated);
    }
    let conditions: Vec<Scaling<'_>> = context.conditions().iter().map(Scaling::of).collect();
    scaling_verdict(context, &conditions)
}

/// autoscaling/v1 has no conditions: the API server writes those of v2 into this annotation, as a JSON list.
const V1_CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

fn from_annotation(context: &Context<'_, '_>, annotated: &str) -> Verdict {
    let list: serde_json::Value = match serde_json::from_str(annotated) {
        Ok(list) => list,
        Err(error) => {
            context.unreadable(text!(".metadata.annotations[{V1_CONDITIONS}]"), error.to_string());
            return in_progress("NotObserved", "the autoscaler's conditions cannot be read");
        }
    };
    let conditions: Vec<Scaling<'_>> = Node::Value(&list).elements().filter_map(Scaling::of_node).collect();
    scaling_verdict(context, &conditions)
}

/// A condition of an autoscaler, from whichever of the two places.
struct Scaling<'a> {
    type_: Cow<'a, str>,
    truth: Truth,
    reason: Cow<'a, str>,
    message: String,
    source: Option<Condition<'a>>,
}

impl<'a> Scaling<'a> {
    fn of(condition: Condition<'a>) -> Self {
        Self {
            type_: condition.type_text(),
            truth: condition.truth,
            reason: condition.reason_or(""),
            message: condition.describe().to_string(),
            source: Some(condition),
        }
    }

    fn of_node(node: Node<'a>) -> Option<Self> {
        let truth = match &*member(node, "status")? {
            "True" => Truth::True,
            "False" => Truth::False,
            _ => Truth::Unknown,
        };
        let reason = member(node, "reason").unwrap_or_default();
        let message = member(node, "message").unwrap_or_else(|| reason.clone()).into_owned();
        Some(Self { type_: member(node, "type")?, truth, reason, message, source: None })
    }

    fn reason_or(&self, fallback: &'static str) -> Cow<'static, str> {
        if self.reason.is_empty() {
            Cow::Borrowed(fallback)
        } else {
            Cow::Owned(self.reason.clone().into_owned())
        }
    }
}

fn scaling_verdict(context: &Context<'_, '_>, conditions: &[Scaling<'_>]) -> Verdict {
    let find = |type_: &str| conditions.iter().find(|c| c.type_ == type_);
    let (able, active, limited) = (find("AbleToScale"), find("ScalingActive"), find("ScalingLimited"));
    let Some(able) = able else {
        return in_progress("NotObserved", "the autoscaler has not reported its conditions yet");
    };
    let decided = |by: &Scaling<'_>, verdict: Verdict| match &by.source {
        Some(condition) => context.decided_by(condition, || verdict),
        None => verdict,
    };
    // Within the window after a scaling the controller reports a back-off: that is its normal work.
    if able.truth == Truth::False && !able.reason.starts_with("Backoff") {
        let verdict =
            recoverable(FailureClass::Configuration, able.reason_or("NotAbleToScale"), able.message.clone());
        return decided(able, verdict);
    }
    let Some(active) = active else {
        return in_progress("MetricsNotRead", "the autoscaler has not read its metrics yet");
    };
    match active.truth {
        Truth::False if active.reason == "ScalingDisabled" => {
            return decided(active, current("ScalingDisabled", active.message.clone()));
        }
        Truth::False => {
            let message = match missing_metrics(context) {
                missing if missing.is_empty() => active.message.clone(),
                missing => text!("{} (missing: {missing})", active.message),
            };
            let verdict =
                recoverable(FailureClass::Configuration, active.reason_or("ScalingNotActive"), message);
            return decided(active, verdict);
        }
        Truth::Unknown => return in_progress(active.reason_or("ScalingNotActive"), active.message.clone()),
        Truth::True => {}
    }
    let replicas = context.count(Field::CurrentReplicas);
    match limited.filter(|limited| limited.truth == Truth::True) {
        Some(limited) => {
            let message = text!("scaling works within its limits. Replicas: {replicas}; {}", limited.message);
            decided(active, current("ScalingLimited", message))
        }
        None => decided(active, current("ScalingActive", text!("scaling works. Replicas: {replicas}"))),
    }
}

/// The metrics that the spec names and the status has no value for.
fn missing_metrics(context: &Context<'_, '_>) -> String {
    let has_value = |metric: &Metric<'_>| {
        context
            .list(Field::CurrentMetrics)
            .filter_map(|node| Metric::read(node, "current"))
            .any(|current| current.kind == metric.kind && current.name == metric.name && current.has_value)
    };
    let mut missing = String::new();
    // Each metric is searched in the current ones, so their number is limited for hostile objects.
    const MAX_METRICS: usize = 64;
    for metric in
        context.list(Field::SpecMetrics).take(MAX_METRICS).filter_map(|node| Metric::read(node, "target"))
    {
        if !has_value(&metric) {
            if !missing.is_empty() {
                missing.push_str(", ");
            }
            missing.push_str(metric.kind);
            missing.push_str(" metric ");
            missing.push_str(&metric.name);
        }
    }
    if missing.is_empty() && context.get(Field::TargetCpu).is_some() {
        missing.push_str("resource metric cpu");
    }
    missing
}

/// A metric of an autoscaler's spec or status.
struct Metric<'a> {
    kind: &'static str,
    name: Cow<'a, str>,
    has_value: bool,
}

impl<'a> Metric<'a> {
    fn read(node: Node<'a>, value_key: &str) -> Option<Self> {
        const SOURCES: [(&str, &str); 5] = [
            ("resource", "resource"),
            ("containerResource", "container resource"),
            ("pods", "Pods"),
            ("object", "object"),
            ("external", "external"),
        ];
        SOURCES.iter().find_map(|&(key, kind)| {
            let source = node.get(key).filter(|source| source.kind() == Kind::Map)?;
            let name = member(source, "name").or_else(|| member(source.get("metric")?, "name"))?;
            let has_value = source.get(value_key).is_some_and(|value| value.members().next().is_some());
            Some(Self { kind, name, has_value })
        })
    }
}
