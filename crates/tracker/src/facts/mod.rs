//! Facts: what explanations need of an object besides its verdict.

mod read;

use std::collections::BTreeMap;

use jiff::Timestamp;

pub(crate) use read::read;

use crate::link::Link;

/// What explanations need of an object besides the verdict. What a kind does not have is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Since when it is as it is.
    pub since: Option<Timestamp>,
    /// What it refers to.
    pub refs: Vec<Ref>,
    /// `metadata.finalizers`, and a namespace's own.
    pub finalizers: Vec<Box<str>>,
    /// What only its kind has.
    pub of_kind: KindFacts,
}

/// Labels and their values.
pub type Labels = BTreeMap<Box<str>, Box<str>>;

/// What explanations need of the objects of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum KindFacts {
    /// The kind has no facts of its own, or the object has none of them.
    #[default]
    None,
    /// Of a Pod.
    Pod(PodFacts),
    /// Of a Deployment, a ReplicaSet, a StatefulSet or a DaemonSet.
    Workload {
        /// The latest revision of its template; of a ReplicaSet, the one that it was made of.
        revision: Option<Box<str>>,
        /// What it selects Pods by.
        selector: Labels,
    },
    /// Of a Job.
    Job {
        /// What it selects Pods by.
        selector: Labels,
        /// How often its Pods may fail.
        backoff_limit: Option<u32>,
        /// `ttlSecondsAfterFinished`: it is deleted after that.
        ttl: Option<i64>,
        /// How it has ended. It keeps saying so while it is being deleted.
        completion: Option<Completion>,
    },
    /// Of a Service.
    Service {
        /// What it selects Pods by.
        selector: Labels,
    },
    /// Of an EndpointSlice.
    EndpointSlice {
        /// How many of its endpoints are ready.
        ready: u64,
    },
    /// Of a StorageClass.
    StorageClass {
        /// Its `volumeBindingMode`.
        binding_mode: Option<Box<str>>,
    },
    /// Of a NetworkPolicyReport.
    PolicyReport {
        /// The generation of the policy that it is of.
        generation: Option<i64>,
    },
    /// Of an Event.
    Event {
        /// How often it was repeated.
        count: u64,
    },
}

/// What explanations need of a Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodFacts {
    /// The revision of the template that it was made of.
    pub revision: Option<Box<str>>,
    /// The node that it runs on.
    pub node: Option<Box<str>>,
    /// Its node selector, as long as it has no node.
    pub node_selector: Labels,
    /// Containers that ended, and not well.
    pub crashed: Vec<Crash>,
    /// The most restarts of one of these.
    pub restarts: u32,
    /// Whether it has more than one container, init containers included.
    pub several_containers: bool,
    /// How it has ended. It keeps saying so while it is being deleted.
    pub completion: Option<Completion>,
    /// Whether the node controller says that it is not ready, and its kubelet still that its containers are: the node does not respond.
    pub is_cut_off: bool,
}

/// How something has ended that runs to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It has done its work.
    Succeeded,
    /// It has failed for good.
    Failed,
}

impl KindFacts {
    fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Pod(pod) => *pod == PodFacts::default(),
            Self::Workload { revision, selector } => revision.is_none() && selector.is_empty(),
            Self::Job { selector, backoff_limit, ttl, completion } => {
                selector.is_empty() && backoff_limit.is_none() && ttl.is_none() && completion.is_none()
            }
            Self::Service { selector } => selector.is_empty(),
            Self::StorageClass { binding_mode } => binding_mode.is_none(),
            Self::PolicyReport { generation } => generation.is_none(),
            Self::EndpointSlice { .. } | Self::Event { .. } => false,
        }
    }
}

impl Facts {
    /// The facts of a Pod.
    #[must_use]
    pub fn pod(&self) -> Option<&PodFacts> {
        match &self.of_kind {
            KindFacts::Pod(pod) => Some(pod),
            _ => None,
        }
    }

    /// Of what generates objects: which revision of its template is the latest. Of what was generated: which it was made of.
    #[must_use]
    pub fn revision(&self) -> Option<&str> {
        match &self.of_kind {
            KindFacts::Pod(PodFacts { revision, .. }) | KindFacts::Workload { revision, .. } => {
                revision.as_deref()
            }
            _ => None,
        }
    }

    /// The labels by which it selects Pods, if there are any.
    #[must_use]
    pub fn selector(&self) -> Option<&Labels> {
        match &self.of_kind {
            KindFacts::Workload { selector, .. }
            | KindFacts::Job { selector, .. }
            | KindFacts::Service { selector } => Some(selector).filter(|selector| !selector.is_empty()),
            _ => None,
        }
    }

    /// Containers of a Pod that ended, and not well.
    #[must_use]
    pub fn crashed(&self) -> &[Crash] {
        self.pod().map_or(&[], |pod| &pod.crashed)
    }

    /// How often it happened: the restarts of a Pod, the repetitions of an Event.
    #[must_use]
    pub fn times(&self) -> Option<u64> {
        match &self.of_kind {
            KindFacts::Pod(pod) => Some(u64::from(pod.restarts)).filter(|restarts| *restarts > 0),
            KindFacts::Event { count } => Some(*count),
            _ => None,
        }
    }

    /// How many endpoints of an EndpointSlice are ready.
    #[must_use]
    pub fn ready_endpoints(&self) -> Option<u64> {
        match &self.of_kind {
            KindFacts::EndpointSlice { ready } => Some(*ready),
            _ => None,
        }
    }

    /// How a Pod or a Job has ended, if it has.
    #[must_use]
    pub fn completion(&self) -> Option<Completion> {
        match &self.of_kind {
            KindFacts::Pod(PodFacts { completion, .. }) | KindFacts::Job { completion, .. } => *completion,
            _ => None,
        }
    }
}

/// An object that another refers to by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    /// How the one leads to the other.
    pub link: Link,
    /// The API group of the other.
    pub group: Box<str>,
    /// Its kind.
    pub kind: Box<str>,
    /// Its namespace, if it is another than the object's. For kinds of the cluster it says nothing.
    pub namespace: Option<Box<str>>,
    /// Its name.
    pub name: Box<str>,
}

/// A container that ended, and not well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Its name.
    pub container: Box<str>,
    /// Whether the run that ended is the one before the present one.
    pub previous: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// When it ended.
    pub at: Option<Timestamp>,
}
