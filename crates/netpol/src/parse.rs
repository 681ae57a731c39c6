//! Parser of policies: an object of one of the four kinds becomes a [`Policy`], with its problems.
//!
//! What is valid of a half-valid object is read; what is not never widens it: a peer that cannot be read is one that matches nothing,
//! not an absent one.

mod admin;
mod network_policy;
mod problem;
mod read;

use std::sync::Arc;

use serde_json::{Map, Value};
use settled_apimachinery::field::{Error, Path};
use settled_apimachinery::validation::{is_dns1123_label, is_dns1123_subdomain};

use crate::model::{Kind, Policy, PolicyId, Tier};

use problem::Problems;
pub use problem::{Lost, Problem, Severity};

/// Why an object is not read as a policy at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is no JSON object.
    #[error("expected an object, found {found}")]
    NotAnObject {
        /// The type that was found.
        found: &'static str,
    },
    /// It is no policy of a kind that is evaluated: another object, or a provider's own kind of policy.
    #[error("{kind} of {api_version} is none of the evaluated kinds: {}", KINDS)]
    UnsupportedKind {
        /// Its `apiVersion`, shortened.
        api_version: String,
        /// Its `kind`, shortened.
        kind: String,
    },
    /// It is a policy of an API version whose fields are not known.
    #[error("{kind} of {api_version} has an unknown version; known: {known}")]
    UnsupportedVersion {
        /// Its `apiVersion`, shortened.
        api_version: String,
        /// Its kind.
        kind: Kind,
        /// The versions that are known.
        known: String,
    },
}

const KINDS: &str = "NetworkPolicy of networking.k8s.io/v1, AdminNetworkPolicy and BaselineAdminNetworkPolicy of \
                     policy.networking.k8s.io/v1alpha1, ClusterNetworkPolicy of policy.networking.k8s.io/v1alpha2 and v1beta1";

/// An object that was read, as far as it could be.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// Which object it is.
    pub id: PolicyId,
    /// `metadata.generation`, as far as there is one.
    pub generation: Option<i64>,
    /// Whether the object comes from an API server, which gave it a UID: it was validated there.
    pub is_stored: bool,
    /// The valid rest; None if nobody can say which pods it is for.
    pub policy: Option<Policy>,
    /// Problems in the order of the fields.
    pub problems: Vec<Problem>,
}

impl Parsed {
    /// Whether the API server would refuse the object.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

/// The kind of an object by its group and kind, whatever its version; None for others.
#[must_use]
pub fn kind_of(api_version: &str, kind: &str) -> Option<Kind> {
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    match (group, kind) {
        ("networking.k8s.io", "NetworkPolicy") => Some(Kind::NetworkPolicy),
        ("policy.networking.k8s.io", "AdminNetworkPolicy") => Some(Kind::AdminNetworkPolicy),
        ("policy.networking.k8s.io", "BaselineAdminNetworkPolicy") => Some(Kind::BaselineAdminNetworkPolicy),
        ("policy.networking.k8s.io", "ClusterNetworkPolicy") => Some(Kind::ClusterNetworkPolicy),
        _ => None,
    }
}

const fn versions(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::NetworkPolicy => &["v1"],
        Kind::AdminNetworkPolicy | Kind::BaselineAdminNetworkPolicy => &["v1alpha1"],
        Kind::ClusterNetworkPolicy => &["v1alpha2", "v1beta1"],
    }
}

/// Reads a policy. A NetworkPolicy without a namespace is in the default one.
///
/// ```
/// use serde_json::json;
/// use settled_netpol::parse::parse_policy;
///
/// let parsed = parse_policy(
///     &json!({
///         "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "web"},
///         "spec": {"podSelector": {}, "egress": [{"ports": [{"port": 32000, "endPort": 30000}, {"port": 443}]}]},
///     }),
///     "shop",
/// )?;
/// assert_eq!(parsed.id.to_string(), "NetworkPolicy/shop/web");
/// assert_eq!(
///     parsed.problems[0].to_string(),
///     "spec.egress[0].ports[0].endPort: Invalid value: 30000: must be greater than or equal to `port`",
/// );
/// assert!(parsed.policy.is_some());
/// # Ok::<(), settled_netpol::parse::ParseError>(())
/// ```
///
/// # Errors
/// If the object is no policy of a known kind and version. Everything else is a [`Problem`].
pub fn parse_policy(object: &Value, default_namespace: &str) -> Result<Parsed, ParseError> {
    let Some(map) = object.as_object() else {
        let found = match object {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            _ => "a list",
        };
        return Err(ParseError::NotAnObject { found });
    };
    let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default();
    let short = |text: &str| text.chars().take(253).collect::<String>();
    let api_version = text("apiVersion");
    let Some(kind) = kind_of(api_version, text("kind")) else {
        return Err(ParseError::UnsupportedKind {
            api_version: short(api_version),
            kind: short(text("kind")),
        });
    };
    let version = api_version.rsplit('/').next().unwrap_or_default();
    if !versions(kind).contains(&version) {
        let known = versions(kind).join(", ");
        return Err(ParseError::UnsupportedVersion { api_version: short(api_version), kind, known });
    }
    let mut problems = Problems::default();
    let nil = Path::Nil;
    read::only(map, &["apiVersion", "kind", "metadata", "spec", "status"], &nil, &mut problems);
    let metadata = metadata(kind, map, default_namespace, &mut problems);
    let policy = spec(&metadata, map, &mut problems);
    let Metadata { id, generation, uid } = metadata;
    Ok(Parsed { id, generation, is_stored: uid.is_some(), policy, problems: problems.finish() })
}

struct Metadata {
    id: PolicyId,
    generation: Option<i64>,
    uid: Option<Arc<str>>,
}

fn metadata(
    kind: Kind,
    map: &Map<String, Value>,
    default_namespace: &str,
    problems: &mut Problems,
) -> Metadata {
    let empty = Map::new();
    let nil = Path::Nil;
    let path = nil.child("metadata");
    let metadata = map.get("metadata").filter(|value| !value.is_null());
    let metadata =
        metadata.and_then(|value| read::object(value, &path, Lost::Nothing, problems)).unwrap_or(&empty);
    let mut text = |name| read::text(metadata, name, &path, Lost::Nothing, problems);
    let (name, generate_name, namespace) = (text("name"), text("generateName"), text("namespace"));
    let uid = text("uid").map(Into::into);
    let generation = read::integer(metadata, "generation", &path, Lost::Nothing, problems);
    let field = path.child("name");
    match name {
        None | Some("") if generate_name.is_none() => {
            problems.error(Lost::Nothing, &Error::required(field, "name or generateName is required"));
        }
        Some(name) if !name.is_empty() => {
            for why in is_dns1123_subdomain(name) {
                problems.error(Lost::Nothing, &Error::invalid(field, name, why));
            }
            if kind == Kind::BaselineAdminNetworkPolicy && name != "default" {
                let why = "Only one baseline admin network policy with metadata.name=\"default\" can be created in the cluster";
                problems.error(Lost::Nothing, &Error::invalid(field, name, why));
            }
        }
        _ => {}
    }
    let field = path.child("namespace");
    let namespace = match (kind, namespace) {
        (Kind::NetworkPolicy, None | Some("")) => default_namespace,
        (Kind::NetworkPolicy, Some(namespace)) => {
            for why in is_dns1123_label(namespace) {
                problems.error(Lost::Nothing, &Error::invalid(field, namespace, why));
            }
            namespace
        }
        (_, None | Some("")) => "",
        (_, Some(_)) => {
            problems.error(Lost::Nothing, &Error::forbidden(field, "not allowed on this type"));
            ""
        }
    };
    let short = |text: &str| Arc::from(text.chars().take(253).collect::<String>());
    let name = name.filter(|name| !name.is_empty()).or(generate_name).unwrap_or_default();
    Metadata { id: PolicyId { kind, namespace: short(namespace), name: short(name) }, generation, uid }
}

fn spec(metadata: &Metadata, map: &Map<String, Value>, problems: &mut Problems) -> Option<Policy> {
    let kind = metadata.id.kind;
    let empty = Map::new();
    let nil = Path::Nil;
    let path = nil.child("spec");
    let spec = match map.get("spec").filter(|value| !value.is_null()) {
        Some(value) => read::object(value, &path, Lost::Policy, problems)?,
        // A NetworkPolicy without a spec isolates all pods of its namespace.
        None if kind == Kind::NetworkPolicy => &empty,
        None => {
            problems.error(Lost::Policy, &Error::required(path, ""));
            return None;
        }
    };
    let (tier, subject, ingress, egress, types_defaulted) = if kind == Kind::NetworkPolicy {
        let spec = network_policy::spec(spec, &path, problems)?;
        (Tier::Namespace, spec.subject, spec.ingress, spec.egress, spec.types_defaulted)
    } else {
        let spec = admin::spec(kind, spec, &path, problems)?;
        (spec.tier, spec.subject, spec.ingress, spec.egress, false)
    };
    Some(Policy {
        id: metadata.id.clone(),
        generation: metadata.generation,
        uid: metadata.uid.clone(),
        tier,
        subject,
        ingress,
        egress,
        types_defaulted,
    })
}
