//! HorizontalPodAutoscalers: replicas follow metrics, which the scenario says (`pkg/controller/podautoscaler`). A metric that it does
//! not mention meets its target.

mod metrics;
mod normalize;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::EventType;
use serde_json::{Value, json};
use settled_controller::ObjectKey;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use self::metrics::{Proposal, Unreadable, propose};
use self::normalize::Memory;
use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::requests;
use crate::scenario::Scenario;

/// How often it looks: `--horizontal-pod-autoscaler-sync-period`.
const PERIOD: Duration = Duration::from_secs(15);
/// Nothing was proposed for the target: its number of replicas is out of bounds.
type Proposals = Vec<Result<Proposal, Unreadable>>;

/// The controller of autoscalers.
pub(crate) struct Autoscalers {
    status: StatusWriter<HorizontalPodAutoscaler>,
    scenario: Scenario,
    begin: Timestamp,
    memory: Mutex<HashMap<ObjectKey, Memory>>,
}

/// What an autoscaler scales.
struct Target {
    key: ObjectKey,
    kind: &'static str,
    replicas: i32,
    selector: LabelSelector,
}

/// The target of an autoscaler, or why it has none.
fn target(autoscaler: &HorizontalPodAutoscaler, informers: &Informers) -> Result<Target, String> {
    let reference = autoscaler.spec.scale_target_ref.clone();
    let key = ObjectKey::new(meta::namespace(autoscaler), &reference.name);
    let missing = |resource: &str| format!("{resource} {:?} not found", reference.name);
    let target = |kind, replicas: Option<i32>, selector: LabelSelector| Target {
        key: key.clone(),
        kind,
        replicas: replicas.unwrap_or(1),
        selector,
    };
    match reference.kind.as_str() {
        "Deployment" => {
            let object = informers.deployments.get(&key).ok_or_else(|| missing("deployments.apps"))?;
            let spec = object.spec.clone().unwrap_or_default();
            Ok(target("Deployment", spec.replicas, spec.selector))
        }
        "StatefulSet" => {
            let object = informers.stateful_sets.get(&key).ok_or_else(|| missing("statefulsets.apps"))?;
            let spec = object.spec.clone().unwrap_or_default();
            Ok(target("StatefulSet", spec.replicas, spec.selector))
        }
        "ReplicaSet" => {
            let object = informers.replica_sets.get(&key).ok_or_else(|| missing("replicasets.apps"))?;
            let spec = object.spec.clone().unwrap_or_default();
            Ok(target("ReplicaSet", spec.replicas, spec.selector))
        }
        kind => {
            let group = reference.api_version.clone().unwrap_or_default();
            Err(format!(
                "no matches for kind {kind:?} in group {:?}",
                group.split('/').next().unwrap_or_default()
            ))
        }
    }
}

/// The status while it is made: conditions are set one after the other.
struct Draft {
    status: HorizontalPodAutoscalerStatus,
    now: Timestamp,
}

impl Draft {
    fn set(&mut self, type_: &str, is_true: bool, reason: &str, message: String) {
        let value = if is_true { "True" } else { "False" };
        let conditions = self.status.conditions.get_or_insert_default();
        if !conditions.iter().any(|condition| condition.type_ == type_) {
            let new = HorizontalPodAutoscalerCondition { type_: type_.to_owned(), ..Default::default() };
            conditions.push(new);
        }
        let Some(condition) = conditions.iter_mut().find(|condition| condition.type_ == type_) else {
            return;
        };
        if condition.status != value {
            condition.last_transition_time = Some(meta::time(self.now));
        }
        condition.status = value.to_owned();
        condition.reason = Some(reason.to_owned());
        condition.message = Some(message);
    }
}

/// What metrics show in the status.
fn current_metrics(autoscaler: &HorizontalPodAutoscaler, proposals: &Proposals) -> Value {
    let specs = autoscaler.spec.metrics.clone().unwrap_or_default();
    let shown = specs.iter().zip(proposals).map(|(spec, proposal)| {
        let Ok(proposal) = proposal else { return json!({"type": ""}) };
        let spec = serde_json::to_value(spec).unwrap_or_default();
        let type_ = spec["type"].as_str().unwrap_or_default().to_owned();
        let field = format!(
            "{}{}",
            type_.get(..1).unwrap_or_default().to_lowercase(),
            type_.get(1..).unwrap_or_default()
        );
        let quantity = match proposal.value % 1000 {
            0 => (proposal.value / 1000).to_string(),
            _ => format!("{}m", proposal.value),
        };
        let is_value = spec[&field]["target"]["type"] == "Value";
        let mut current =
            if is_value { json!({"value": quantity}) } else { json!({"averageValue": quantity}) };
        if let Some(utilization) = proposal.utilization {
            current["averageUtilization"] = utilization.into();
        }
        let mut source = spec[&field].clone();
        if let Some(source) = source.as_object_mut() {
            source.remove("target");
            source.insert("current".to_owned(), current);
        }
        let mut shown = json!({"type": type_});
        shown[&field] = source;
        shown
    });
    shown.collect()
}

impl Autoscalers {
    pub(crate) fn new(shared: &Shared) -> Self {
        let status = Context::status_writer(&shared.client, &shared.clock, Self::NAME);
        Self { status, scenario: shared.scenario.clone(), begin: shared.begin, memory: Mutex::default() }
    }

    async fn set_scale(&self, target: &Target, replicas: i32, context: &Context) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let parameters = PatchParams::default();
        let (namespace, name) = (&target.key.namespace, &target.key.name);
        let kind = match target.kind {
            "Deployment" => requests::of::<Deployment>(namespace),
            "StatefulSet" => requests::of::<StatefulSet>(namespace),
            _ => requests::of::<ReplicaSet>(namespace),
        };
        let request = kind.patch_subresource("scale", name, &parameters, &patch);
        requests::send(&context.client, request).await.map(drop)
    }

    fn proposals(
        &self,
        autoscaler: &HorizontalPodAutoscaler,
        target: &Target,
        context: &Context,
    ) -> Proposals {
        let pods = context.informers.pods_matching(&target.key.namespace, &target.selector);
        let script = self.scenario.autoscaler(meta::namespace(autoscaler), meta::name(autoscaler));
        let since = Duration::try_from(context.now().duration_since(self.begin)).unwrap_or_default();
        let read = |name: &str| match script {
            Some(script)
                if script.metrics.iter().any(|metric| metric.metric == name && metric.after.0 <= since) =>
            {
                script.value(name, since).map(|value| Some(value.to_owned())).ok_or(())
            }
            _ => Ok(None),
        };
        let specs = autoscaler.spec.metrics.clone().unwrap_or_default();
        specs.iter().map(|spec| propose(spec, target.replicas, &pods, read)).collect()
    }

    /// The number of replicas to set and why; `None` if the metrics say nothing.
    fn decide(
        &self,
        key: &ObjectKey,
        autoscaler: &HorizontalPodAutoscaler,
        target: &Target,
        draft: &mut Draft,
        context: &Context,
    ) -> Option<(i32, String)> {
        let spec = autoscaler.spec.clone();
        let (min, current) = (spec.min_replicas.unwrap_or(1), target.replicas);
        if current == 0 {
            let message = "scaling is disabled since the replica count of the target is zero".to_owned();
            draft.set("ScalingActive", false, "ScalingDisabled", message);
            return Some((0, String::new()));
        }
        if current > spec.max_replicas {
            return Some((spec.max_replicas, "Current number of replicas above Spec.MaxReplicas".to_owned()));
        }
        if current < min {
            return Some((min, "Current number of replicas below Spec.MinReplicas".to_owned()));
        }
        let proposals = self.proposals(autoscaler, target, context);
        draft.status.current_metrics = meta::typed(&current_metrics(autoscaler, &proposals));
        let warn =
            |reason: &str, note: String| context.event(autoscaler, EventType::Warning, reason, reason, note);
        let invalid: Vec<&Unreadable> =
            proposals.iter().filter_map(|proposal| proposal.as_ref().err()).collect();
        for unreadable in &invalid {
            warn(unreadable.reason, unreadable.message.clone());
        }
        let best = proposals.iter().flatten().max_by_key(|proposal| proposal.replicas);
        let usable = best.filter(|best| invalid.is_empty() || best.replicas >= current);
        let Some(best) = usable else {
            if let Some(first) = invalid.first() {
                let message = format!("the HPA was unable to compute the replica count: {}", first.message);
                draft.set("ScalingActive", false, first.reason, message);
                let (count, all) = (invalid.len(), proposals.len());
                let what = first
                    .message
                    .split(": ")
                    .next()
                    .unwrap_or_default()
                    .replace("utilization", "resource metric value");
                let note = format!(
                    "invalid metrics ({count} invalid out of {all}), first error is: {what}: {}",
                    first.message
                );
                warn("FailedComputeMetricsReplicas", note);
            }
            return None;
        };
        let message =
            format!("the HPA was able to successfully calculate a replica count from {}", best.name);
        draft.set("ScalingActive", true, "ValidMetricFound", message);
        let reason = match best.replicas.cmp(&current) {
            std::cmp::Ordering::Greater => format!("{} above target", best.name),
            std::cmp::Ordering::Less => "All metrics below target".to_owned(),
            std::cmp::Ordering::Equal => String::new(),
        };
        let normalized = {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.entry(key.clone()).or_default().normalize(&spec, current, best.replicas, draft.now)
        };
        draft.set("AbleToScale", true, normalized.able.0, normalized.able.1.to_owned());
        draft.set(
            "ScalingLimited",
            normalized.is_limited,
            normalized.limited.0,
            normalized.limited.1.to_owned(),
        );
        Some((normalized.replicas, reason))
    }
}

impl Controller for Autoscalers {
    const NAME: &'static str = "horizontal-pod-autoscaler";

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::HorizontalPodAutoscaler(change) => {
                let spec = |one: &Option<std::sync::Arc<HorizontalPodAutoscaler>>| {
                    one.as_deref().map(|one| one.spec.clone())
                };
                if spec(&change.old) == spec(&change.new) { Vec::new() } else { vec![change.key.clone()] }
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(autoscaler) = context.informers.autoscalers.get(key) else {
            self.memory.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            return Ok(Next::AwaitChange);
        };
        let now = context.now();
        // A new one waits for the first period to pass.
        let created = autoscaler.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
        if let Some(left) = PERIOD.checked_sub(age).filter(|left| !left.is_zero()) {
            return Ok(Next::RequeueAfter(left));
        }
        let mut draft = Draft { status: autoscaler.status.clone().unwrap_or_default(), now };
        draft.status.observed_generation = autoscaler.metadata.generation;
        let event =
            |type_, reason: &str, note: String| context.event(&*autoscaler, type_, reason, reason, note);
        let target = match target(&autoscaler, &context.informers) {
            Ok(target) => target,
            Err(why) => {
                event(EventType::Warning, "FailedGetScale", why.clone());
                let message =
                    format!("the HPA controller was unable to get the target's current scale: {why}");
                draft.set("AbleToScale", false, "FailedGetScale", message);
                context.write_status(key, &self.status, &autoscaler, &draft.status).await?;
                return Ok(Next::RequeueAfter(PERIOD));
            }
        };
        let message = "the HPA controller was able to get the target's current scale".to_owned();
        draft.set("AbleToScale", true, "SucceededGetScale", message);
        draft.status.current_replicas = Some(target.replicas);
        if let Some((replicas, reason)) = self.decide(key, &autoscaler, &target, &mut draft, context) {
            if replicas == target.replicas {
                draft.status.desired_replicas = replicas;
            } else {
                match self.set_scale(&target, replicas, context).await {
                    Ok(()) => {
                        let message =
                            format!("the HPA controller was able to update the target scale to {replicas}");
                        draft.set("AbleToScale", true, "SucceededRescale", message);
                        event(
                            EventType::Normal,
                            "SuccessfulRescale",
                            format!("New size: {replicas}; reason: {reason}"),
                        );
                        draft.status.desired_replicas = replicas;
                        draft.status.last_scale_time = Some(meta::time(now));
                        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
                        memory.entry(key.clone()).or_default().scaled(target.replicas, replicas, now);
                    }
                    Err(error) => {
                        let note = format!("New size: {replicas}; reason: {reason}; error: {error}");
                        event(EventType::Warning, "FailedRescale", note);
                        let message =
                            format!("the HPA controller was unable to update the target scale: {error}");
                        draft.set("AbleToScale", false, "FailedUpdateScale", message);
                    }
                }
            }
        }
        context.write_status(key, &self.status, &autoscaler, &draft.status).await?;
        Ok(Next::RequeueAfter(PERIOD))
    }
}
