//! Findings: what only a whole rehearsal can tell about manifests, each with the field that it is about.

mod budgets;
mod fields;
mod hooks;
mod order;
mod references;
mod removed;
mod selectors;
mod state;

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;
use serde::Serialize;
use serde_json::Value;

pub use hooks::{Hook, Phase};
pub use order::hook_order;
pub use references::{Referred, references};
pub use removed::{Removal, removal};

use state::State;

/// How urgent a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It will not work.
    Error,
    /// It will probably not work as meant.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// `error`, `warning` or `note`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

macro_rules! checks {
    ($($(#[$doc:meta])* $variant:ident = $id:literal, $title:literal;)+) => {
        /// What was checked.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Check {
            $($(#[$doc])* $variant,)+
        }

        impl Check {
            /// All checks.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its id in reports.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$variant => $id,)+
                }
            }

            /// What it finds, in one line.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$variant => $title,)+
                }
            }
        }
    };
}

checks! {
    /// The server refused the object.
    Refused = "refused", "The API server refuses the object";
    /// A field cannot be changed.
    Immutable = "immutable-field", "A field of an existing object cannot be changed";
    /// A field that the kind does not have.
    UnknownField = "unknown-field", "The kind has no such field";
    /// A kind without a definition.
    MissingKind = "missing-kind", "No CustomResourceDefinition of the kind is among the manifests";
    /// An API version that is no longer served.
    RemovedApi = "removed-api", "The version of Kubernetes does not serve this API version";
    /// A namespace that nobody creates.
    MissingNamespace = "missing-namespace", "No Namespace of this name is among the manifests";
    /// A reference to an object that is not there.
    MissingReference = "missing-reference", "The object refers to one that does not exist";
    /// A reference to a key that is not there.
    MissingKey = "missing-key", "The object refers to a key that does not exist";
    /// A selector without matches.
    EmptySelector = "empty-selector", "The selector matches nothing";
    /// A Service that nobody answers for.
    NoEndpoints = "no-endpoints", "The Service has no ready endpoints";
    /// A port that no Pod has.
    MissingPort = "missing-port", "No selected Pod has the port";
    /// A budget that no drain can respect.
    BlockedDrain = "blocked-drain", "The PodDisruptionBudget blocks every drain";
    /// A quota that is used up.
    ExceededQuota = "exceeded-quota", "A ResourceQuota does not allow what is asked for";
    /// A Pod that fits on no Node.
    Unschedulable = "unschedulable", "A Pod fits on no Node";
    /// A hook that needs what comes later.
    HookOrder = "hook-order", "A hook needs an object that is created after it";
    /// Endpoints that are missing during a rollout.
    LostAvailability = "lost-availability", "A Service has no ready endpoints during the rollout";
    /// A network policy that is not carried out as written.
    NetworkPolicy = "network-policy", "The network provider does not carry out a NetworkPolicy as written";
    /// A webhook or an aggregated API that is not called.
    NotCalled = "not-called", "A rehearsal does not call webhooks";
    /// An object whose controller is not simulated.
    Opaque = "opaque", "Nobody plays the controller of this kind";
    /// The rehearsal did not end.
    Unfinished = "unfinished", "An object is not done at the end";
    /// A controller that goes on writing.
    Loop = "endless-loop", "An object is written again and again";
    /// A Node that takes no Pods.
    LeftOutNode = "left-out-node", "A Node of the cluster is left out";
    /// Live objects that could not be read.
    Unread = "unread", "Objects of the cluster cannot be read";
    /// An entry of the scenario without effect.
    Scenario = "unused-scenario", "An entry of the scenario matches nothing";
}

impl Serialize for Check {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

/// Something that was found out about a manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How urgent it is.
    pub severity: Severity,
    /// What was checked.
    pub check: Check,
    /// Which manifest, by its place among those that were given. None for what is about none of them.
    #[serde(skip)]
    pub manifest: Option<usize>,
    /// The field, such as `spec.template.spec.volumes[0].configMap.name`; empty for the whole object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What is the matter.
    pub message: String,
    /// What helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    /// A finding about a field of a manifest.
    #[must_use]
    pub fn new(
        severity: Severity,
        check: Check,
        manifest: Option<usize>,
        field: &str,
        message: String,
    ) -> Self {
        Self { severity, check, manifest, field: field.to_owned(), message, remedy: None }
    }

    /// The same with a remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// A manifest that was rehearsed.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty if its kind has none.
    pub namespace: String,
    /// Its name; empty if the server generates one.
    pub name: String,
    /// All of it: a tenth of the memory of a [`Value`]. Clones share it.
    json: Arc<str>,
}

impl Manifest {
    /// Reads an object. A namespaced object that names no namespace is in the default one.
    #[must_use]
    pub fn new(object: Value, default_namespace: &str) -> Self {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let namespace = match text("/metadata/namespace") {
            named if !named.is_empty() => named,
            _ if is_cluster_scoped(&api_version, &kind) => String::new(),
            _ => default_namespace.to_owned(),
        };
        let name = text("/metadata/name");
        Self { api_version, kind, namespace, name, json: object.to_string().into() }
    }

    /// All of it, as JSON.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// All of it, read anew.
    #[must_use]
    pub fn object(&self) -> Value {
        // It was written from a value.
        serde_json::from_str(&self.json).unwrap_or_default()
    }

    /// Changes it, but for what identifies it.
    pub(crate) fn replace(&mut self, object: &Value) {
        self.json = object.to_string().into();
    }

    /// The API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// `Deployment shop/web`.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { kind, namespace, name, .. } = self;
        if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
    }
}

/// Built-in kinds without a namespace.
const CLUSTER_SCOPED: [&str; 23] = [
    "APIService",
    "CSIDriver",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "FlowSchema",
    "IngressClass",
    "IPAddress",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "RuntimeClass",
    "ServiceCIDR",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

fn is_cluster_scoped(api_version: &str, kind: &str) -> bool {
    let is_builtin = !api_version.contains('.') || api_version.contains(".k8s.io/");
    is_builtin && CLUSTER_SCOPED.contains(&kind)
}

/// All that can be told once the objects are applied and the wait is over.
///
/// # Errors
/// The server cannot be read.
pub fn find<'a>(
    client: &'a Client,
    manifests: &'a [Manifest],
) -> BoxFuture<'a, Result<Vec<Finding>, kube::Error>> {
    Box::pin(all(client, manifests))
}

async fn all(client: &Client, manifests: &[Manifest]) -> Result<Vec<Finding>, kube::Error> {
    let state = State::read(client).await?;
    let mut findings = Vec::new();
    for (index, manifest) in manifests.iter().enumerate() {
        references::check(index, manifest, &state, &mut findings);
        selectors::check(index, manifest, &state, &mut findings);
        budgets::check(index, manifest, &state, &mut findings);
    }
    findings.sort();
    findings.dedup();
    Ok(findings)
}
