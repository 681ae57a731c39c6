//! Input and output of the kubelet's core: what one look at a Pod depends on, and what comes of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, PodStatus, Secret,
};

use super::pulls::{PullRequest, Turn};
use crate::scenario::{ContainerScript, Eviction};

/// Objects that a Pod refers to, in its namespace.
pub(crate) trait References {
    fn config_map(&self, name: &str) -> Option<Arc<ConfigMap>>;
    fn secret(&self, name: &str) -> Option<Arc<Secret>>;
    fn has_service_account(&self, name: &str) -> bool;
    fn claim(&self, name: &str) -> Option<Arc<PersistentVolumeClaim>>;
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>>;
}

/// Why a resize does not fit: reason and message of the admission handler, such as `OutOfcpu`.
pub(crate) type Refusal = (String, String);

/// What the scenario says about a Pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripts {
    /// Of each container by its name; images are among them.
    pub(crate) containers: BTreeMap<String, ContainerScript>,
    pub(crate) evict: Option<Eviction>,
}

/// What a look at a Pod depends on. Times are whole seconds: what is in a status decides what comes next, and there
/// times have no more.
pub(crate) struct Input<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) spec: &'a PodSpec,
    pub(crate) host_ips: &'a [String],
    /// The address that the Pod gets, unless it is in the Node's network.
    pub(crate) pod_ip: &'a str,
    pub(crate) references: &'a dyn References,
    /// Since when an image is on the Node.
    pub(crate) image_since: &'a dyn Fn(&str) -> Option<i64>,
    /// When it is the turn of a pull on the Node.
    pub(crate) pull: &'a dyn Fn(&PullRequest<'_>) -> Turn,
    pub(crate) scripts: &'a Scripts,
    /// Why the Node has no room for what a Pod asks for, beside what its other Pods were given.
    pub(crate) refuses: &'a dyn Fn(&Pod) -> Option<Refusal>,
    pub(crate) seed: u64,
    /// The last look. Without it (after a restart), Events of the past are not recorded again.
    pub(crate) since: Option<i64>,
    pub(crate) now: i64,
}

/// An Event about a Pod or one of its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodEvent {
    pub(crate) at: i64,
    pub(crate) is_warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) note: String,
    /// `spec.containers{web}`.
    pub(crate) field_path: Option<String>,
}

/// What comes of a look.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: PodStatus,
    pub(crate) events: Vec<PodEvent>,
    /// When to look again.
    pub(crate) next: Option<i64>,
    /// Its containers have ended, and it is to be deleted.
    pub(crate) delete: bool,
}

/// What happens over time: Events up to now, and when more is to come.
#[derive(Debug)]
pub(super) struct Timeline {
    since: Option<i64>,
    pub(super) now: i64,
    pub(super) events: Vec<PodEvent>,
    pub(super) next: Option<i64>,
}

impl Timeline {
    pub(super) const fn new(since: Option<i64>, now: i64) -> Self {
        Self { since, now, events: Vec::new(), next: None }
    }

    /// Has an earlier look seen this time?
    pub(super) fn is_past(&self, at: i64) -> bool {
        self.since.is_some_and(|since| at <= since)
    }

    /// To look again at a time that is to come. What never happens has a time, too.
    pub(super) fn wake(&mut self, at: i64) {
        if at > self.now && at < i64::MAX / 2 {
            self.next = Some(self.next.map_or(at, |next| next.min(at)));
        }
    }

    /// An Event, now or later.
    pub(super) fn event(&mut self, at: i64, kind: EventKind, path: Option<&str>, note: impl Into<String>) {
        if at > self.now {
            self.wake(at);
        } else if at > self.since.unwrap_or(self.now - 1) {
            let EventKind(is_warning, reason) = kind;
            let field_path = path.map(str::to_owned);
            self.events.push(PodEvent { at, is_warning, reason, note: note.into(), field_path });
        }
    }
}

impl Timeline {
    /// An Event of what this look decides, which what is in the status keeps from being decided again.
    pub(super) fn decided(&mut self, kind: EventKind, note: String) {
        let EventKind(is_warning, reason) = kind;
        self.events.push(PodEvent { at: self.now, is_warning, reason, note, field_path: None });
    }
}

/// Type and reason of an Event.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventKind(bool, &'static str);

impl EventKind {
    pub(super) const fn normal(reason: &'static str) -> Self {
        Self(false, reason)
    }

    pub(super) const fn warning(reason: &'static str) -> Self {
        Self(true, reason)
    }
}

/// What a container is in its Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Init,
    /// An init container with the restart policy Always.
    Sidecar,
    Regular,
}

impl Role {
    /// `podutil.IsRestartableInitContainer`.
    pub(super) fn of_init(container: &Container) -> Self {
        if container.restart_policy.as_deref() == Some("Always") { Self::Sidecar } else { Self::Init }
    }

    /// `GenerateContainerRef`.
    pub(super) fn field_path(self, container: &str) -> String {
        let field = if self == Self::Regular { "containers" } else { "initContainers" };
        format!("spec.{field}{{{container}}}")
    }
}
