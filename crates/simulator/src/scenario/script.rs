//! Scripts: the entries of a scenario, as its YAML has them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::Deserialize;
use serde_json::Value;

use super::values::{After, Delay};

/// How an image pull fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PullFailure {
    /// The registry has no such image.
    NotFound,
    /// The registry refuses it.
    Unauthorized,
    /// The registry cannot be reached.
    Unavailable,
    /// With the `message` of the entry.
    Message,
}

/// How an image is pulled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Pull {
    /// Whether the Nodes have it from the start.
    #[serde(default)]
    pub present: bool,
    /// For how long.
    pub takes: Option<Delay>,
    /// How it fails. Without it, it succeeds.
    pub fails: Option<PullFailure>,
    /// The error, instead of the runtime's usual one.
    pub message: Option<String>,
    /// How many times it fails before it succeeds; always without it.
    pub times: Option<u32>,
}

/// How the images that match a glob are pulled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct ImageScript {
    /// Glob on the image as the Pod has it.
    pub image: String,
    /// Whether the Nodes have it from the start.
    #[serde(default)]
    pub present: bool,
    /// For how long.
    pub takes: Option<Delay>,
    /// How it fails. Without it, it succeeds.
    pub fails: Option<PullFailure>,
    /// The error, instead of the runtime's usual one.
    pub message: Option<String>,
    /// How many times it fails before it succeeds; always without it.
    pub times: Option<u32>,
}

impl ImageScript {
    pub(super) fn pull(&self) -> Pull {
        let message = self.message.clone();
        Pull { present: self.present, takes: self.takes, fails: self.fails, message, times: self.times }
    }
}

/// What fails when a container starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StartFailure {
    /// `CreateContainerError`.
    Create,
    /// `RunContainerError`.
    Run,
}

/// How a container starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Start {
    /// For how long, after its image is there.
    pub takes: Option<Delay>,
    /// What fails.
    pub fails: Option<StartFailure>,
    /// The runtime's error.
    pub message: Option<String>,
    /// How many times it fails before it succeeds; always without it.
    pub times: Option<u32>,
}

/// How a container ends by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Exit {
    /// How long it runs.
    pub after: Delay,
    /// With which code: 1 for `crash`, 0 for `exit`, 137 for the reason `OOMKilled`.
    pub code: Option<i32>,
    /// Reason in its status: `Completed` or `Error` by its code, or such as `OOMKilled`.
    pub reason: Option<String>,
    /// What it leaves in its termination message file.
    pub message: Option<String>,
    /// What it logs before.
    pub logs: Vec<String>,
    /// How many of its runs end like that; all without it.
    pub times: Option<u32>,
}

/// A liveness probe that fails.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Liveness {
    /// From how long after the start on.
    pub fails_after: Delay,
    /// In how many runs of the container; all without it.
    pub times: Option<u32>,
    /// Output of the failed probe.
    pub message: Option<String>,
}

/// Readiness that is lost.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Unready {
    /// From how long after the start on.
    pub after: Delay,
    /// For how long; for ever without it.
    #[serde(rename = "for")]
    pub lasts: Option<Delay>,
}

/// A lifecycle hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Hook {
    /// How long it takes.
    pub takes: Option<Delay>,
    /// Whether it fails.
    pub fails: bool,
}

/// How a container ends that is asked to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Stop {
    /// How long it takes to end after SIGTERM. After the grace period it is killed.
    pub takes: Option<After>,
    /// With which code.
    pub code: Option<i32>,
}

/// How a container that runs gets other resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Resize {
    /// How long it takes, after the Node had room for it.
    pub takes: Option<Delay>,
    /// The runtime's error. Without it, it succeeds.
    pub fails: Option<String>,
}

/// What happens to containers. What selects nothing selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ContainerScript {
    /// Glob on the namespace.
    pub namespace: Option<String>,
    /// Glob on the name of the Pod.
    pub pod: Option<String>,
    /// A controller of the Pod, also an indirect one: `deployment/web`, with a glob for its name.
    pub owner: Option<String>,
    /// Labels that the Pod has.
    pub labels: BTreeMap<String, String>,
    /// Glob on the name of the container.
    pub container: Option<String>,
    /// How its image is pulled.
    pub pull: Option<Pull>,
    /// How it starts.
    pub start: Option<Start>,
    /// Its hook `postStart`.
    pub post_start: Option<Hook>,
    /// How long after its start the startup probe would succeed.
    pub startup: Option<After>,
    /// How long after its start the readiness probe would succeed.
    pub ready: Option<After>,
    /// When it stops to be ready.
    pub unready: Option<Unready>,
    /// When the liveness probe fails.
    pub liveness: Option<Liveness>,
    /// How it crashes.
    pub crash: Option<Exit>,
    /// How it ends with success, or goes on for longer than its kind does.
    pub exit: Option<Exit>,
    /// Its hook `preStop`.
    pub pre_stop: Option<Hook>,
    /// How it ends when it is asked to.
    pub stop: Option<Stop>,
    /// How its resources are changed in place.
    pub resize: Option<Resize>,
    /// What it logs when it starts.
    pub logs: Vec<String>,
}

/// An eviction by the kubelet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Eviction {
    /// How long after the start of the Pod.
    pub after: Delay,
    /// What the Node runs out of, such as `memory` or `ephemeral-storage`.
    pub resource: String,
}

/// What happens to whole Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct PodScript {
    /// Glob on the namespace.
    pub namespace: Option<String>,
    /// Glob on the name.
    pub pod: Option<String>,
    /// A controller, as in [`ContainerScript`].
    pub owner: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// When it is evicted by the kubelet.
    pub evict: Option<Eviction>,
}

/// What happens to a Node, at times since the start of the simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct NodeScript {
    /// Glob on its name.
    #[serde(default)]
    pub node: String,
    /// When its kubelet falls silent.
    pub dies: Option<Delay>,
    /// When it is back.
    pub returns: Option<Delay>,
    /// When it is drained.
    pub drains: Option<Delay>,
    /// How many images its kubelet pulls at a time: one, as `serializeImagePulls` is true by default.
    pub max_parallel_image_pulls: Option<NonZeroU32>,
}

impl NodeScript {
    /// Is its kubelet silent so long after the start of the simulation?
    #[must_use]
    pub fn is_dead(&self, since_start: std::time::Duration) -> bool {
        let has_died = self.dies.is_some_and(|dies| dies.0 <= since_start);
        has_died && self.returns.is_none_or(|returns| returns.0 > since_start)
    }
}

/// A status that a custom resource's controller writes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Step {
    /// How long after the creation of the object, or the last change of its generation.
    #[serde(default)]
    pub after: Delay,
    /// The whole status.
    pub status: Value,
}

/// How the controller of a custom resource is played.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct ResourceScript {
    /// Glob on the group, or on group and version: `cert-manager.io` or `cert-manager.io/v1`.
    pub api_version: Option<String>,
    /// The kind.
    pub kind: String,
    /// Glob on the namespace.
    pub namespace: Option<String>,
    /// Glob on the name.
    pub name: Option<String>,
    /// What it reports, one after the other.
    pub play: Vec<Step>,
}

/// When something that is exposed gets its address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct AddressScript {
    /// `Service`, `Ingress` or `Gateway`; any of them without it.
    pub kind: Option<String>,
    /// Glob on the namespace.
    pub namespace: Option<String>,
    /// Glob on the name.
    pub name: Option<String>,
    /// How long it takes.
    pub takes: After,
}

/// A metric from a time on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Metric {
    /// How long after the start of the simulation.
    #[serde(default)]
    pub after: Delay,
    /// Name of the resource or metric, such as `cpu`.
    pub metric: String,
    /// What each Pod uses, as a quantity, or the value of an external or object metric. `unavailable` for none.
    pub value: String,
}

/// Metrics that a HorizontalPodAutoscaler reads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Autoscaler {
    /// Glob on its namespace.
    pub namespace: Option<String>,
    /// Glob on its name.
    pub name: Option<String>,
    /// The metrics over time.
    pub metrics: Vec<Metric>,
}

impl Autoscaler {
    /// The value of a metric so long after the start of the simulation; none if it is unavailable.
    #[must_use]
    pub fn value(&self, metric: &str, since_start: std::time::Duration) -> Option<&str> {
        let known = self.metrics.iter().filter(|one| one.metric == metric && one.after.0 <= since_start);
        let latest = known.max_by_key(|one| one.after)?;
        Some(&*latest.value).filter(|value| *value != "unavailable")
    }
}
