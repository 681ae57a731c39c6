//! Targets: objects by name, and selections.

use kstatus::{Node, Object};
use settled_watch::{Resource, Resources};

use crate::id::Uid;
use crate::observation::MinVersion;

/// A kind, as it is named in arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KindName {
    /// As people say it: `deploy`, `deployments.apps`.
    Spoken(String),
    /// As manifests have it.
    Exact {
        /// The API group.
        group: String,
        /// The version; any if none.
        version: Option<String>,
        /// The kind.
        kind: String,
    },
    /// All kinds that workloads are made of, to be selected for an overview: the category `all`, PersistentVolumeClaims, Ingresses and at most
    /// 50 namespaced custom kinds. What may not be listed is left out, and objects whose owner is shown are not shown themselves.
    Overview,
}

impl KindName {
    /// The kind, if the server has it.
    #[must_use]
    pub fn find<'r>(&self, resources: &'r Resources) -> Option<&'r std::sync::Arc<Resource>> {
        match self {
            Self::Spoken(name) => resources.named(name),
            Self::Exact { group, version, kind } => resources.of_kind(group, version.as_deref(), kind),
            Self::Overview => None,
        }
    }
}

impl std::fmt::Display for KindName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Spoken(name) => f.write_str(name),
            Self::Overview => f.write_str("all kinds"),
            Self::Exact { group, kind, .. } if group.is_empty() => f.write_str(kind),
            Self::Exact { group, kind, .. } => write!(f, "{kind}.{group}"),
        }
    }
}

/// What is waited for.
///
/// ```
/// use settled_tracker::Target;
/// let one = Target::object("deploy", None, "web");
/// let all = Target::select("pods").labels("app=web");
/// let applied = Target::manifest(br#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"}}"#);
/// assert!(applied.is_ok());
/// # let _ = (one, all);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One object.
    Object {
        /// Its kind.
        kind: KindName,
        /// Its namespace; the client's if none.
        namespace: Option<String>,
        /// Its name.
        name: String,
        /// What it must not be older than.
        min_version: Option<MinVersion>,
    },
    /// All objects that are selected, now or later.
    Select(Selection),
}

/// What selects objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Their kind.
    pub kind: KindName,
    /// Their namespace; the client's if none.
    pub namespace: Option<String>,
    /// In all namespaces.
    pub everywhere: bool,
    /// A label selector.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
}

/// Why a manifest is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is no JSON object.
    #[error("{0}")]
    Malformed(String),
    /// It lacks something.
    #[error("the object has no {0}")]
    Lacks(&'static str),
}

impl Target {
    /// An object of a kind as people name it.
    #[must_use]
    pub fn object(kind: impl Into<String>, namespace: Option<&str>, name: impl Into<String>) -> Self {
        Self::Object {
            kind: KindName::Spoken(kind.into()),
            namespace: namespace.map(str::to_owned),
            name: name.into(),
            min_version: None,
        }
    }

    /// All objects of a kind in the client's namespace.
    #[must_use]
    pub fn select(kind: impl Into<String>) -> Self {
        Self::Select(Selection {
            kind: KindName::Spoken(kind.into()),
            namespace: None,
            everywhere: false,
            labels: None,
            fields: None,
        })
    }

    /// The same with a label selector, if this selects.
    #[must_use]
    pub fn labels(mut self, labels: impl Into<String>) -> Self {
        if let Self::Select(selection) = &mut self {
            selection.labels = Some(labels.into());
        }
        self
    }

    /// The object of a manifest. One that was printed after it was applied (`kubectl apply -o yaml`) knows its generation and
    /// revision: nothing older counts.
    ///
    /// # Errors
    /// It names no object.
    pub fn manifest(json: &[u8]) -> Result<Self, TargetError> {
        let object = Object::parse(json).map_err(|error| TargetError::Malformed(error.to_string()))?;
        let (group, kind) = object.type_names();
        if kind.is_empty() {
            return Err(TargetError::Lacks("kind"));
        }
        let name =
            object.name().filter(|name| !name.is_empty()).ok_or(TargetError::Lacks("metadata.name"))?;
        let metadata = object.root().get("metadata");
        let text = |key: &str| metadata?.get(key)?.as_str();
        let uid = text("uid").map(|uid| Uid::from(&*uid));
        // Without a uid it was never on a server, whatever it says of generations.
        let min_version = uid.is_some().then(|| MinVersion {
            uid,
            generation: metadata.and_then(|m| m.get("generation")).and_then(Node::as_int),
            resource_version: text("resourceVersion")
                .and_then(|resource_version| resource_version.parse().ok()),
            changed: false,
        });
        let version =
            object.api_version().map(|v| v.rsplit_once('/').map_or(&*v, |(_, version)| version).to_owned());
        Ok(Self::Object {
            kind: KindName::Exact { group: group.into_owned(), version, kind: kind.into_owned() },
            namespace: object
                .namespace()
                .filter(|namespace| !namespace.is_empty())
                .map(std::borrow::Cow::into_owned),
            name: name.into_owned(),
            min_version,
        })
    }
}
