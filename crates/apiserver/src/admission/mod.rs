//! Admission: what kube-apiserver's default admission plugins do, mutating before validation and validating after it.
//!
//! | plugin | where |
//! |---|---|
//! | NamespaceLifecycle | `verbs/write.rs`, `verbs/delete.rs` |
//! | LimitRanger | `limits.rs` |
//! | ServiceAccount, Priority, DefaultTolerationSeconds, RuntimeClass | `pods.rs` |
//! | TaintNodesByCondition, DefaultStorageClass, StorageObjectInUseProtection, DefaultIngressClass | here |
//! | PodTopologyLabels | `verbs/pods.rs`, with bindings |
//! | CertificateApproval, CertificateSigning, CertificateSubjectRestriction | `signing_requests.rs` |
//! | ResourceQuota | `quota.rs` |

pub(crate) mod limits;
mod pods;
pub(crate) mod quota;
mod signing_requests;

use serde_json::{Value, json};

use crate::auth::PolicyKind;
use crate::auth::rbac::{PolicyWrite, check_escalation};
use crate::error::ApiError;
use crate::kinds::definition::Definition;
use crate::kinds::names::{Part, SIGNING_REQUESTS, SIGNING_REQUESTS_GROUP};
use crate::object::{meta, metadata_mut};
use crate::state::State;
use crate::state::call::{Call, Target};
use crate::state::identity::RBAC_GROUP;
use quota::Charge;
pub(crate) use quota::settle;

/// The kinds whose objects mutating admission completes.
#[derive(Clone, Copy)]
enum Mutated {
    Pod,
    Node,
    Claim,
    Volume,
    AttributesClass,
    Ingress,
}

impl Mutated {
    fn find(definition: &Definition, part: Part) -> Option<Self> {
        if part != Part::Main {
            return None;
        }
        match (definition.names.group.as_str(), definition.names.plural.as_str()) {
            ("", "pods") => Some(Self::Pod),
            ("", "nodes") => Some(Self::Node),
            ("", "persistentvolumeclaims") => Some(Self::Claim),
            ("", "persistentvolumes") => Some(Self::Volume),
            ("storage.k8s.io", "volumeattributesclasses") => Some(Self::AttributesClass),
            ("networking.k8s.io", "ingresses") => Some(Self::Ingress),
            _ => None,
        }
    }
}

/// Whether [`mutate`] does anything, for which it may look at the cluster.
pub(crate) fn mutates(definition: &Definition, part: Part) -> bool {
    Mutated::find(definition, part).is_some()
}

/// Completes a write before it is checked. `old`: it is an update.
pub(crate) async fn mutate(
    state: &State,
    target: &Target<'_>,
    part: Part,
    new: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(mutated) = Mutated::find(target.definition, part) else { return Ok(()) };
    match mutated {
        Mutated::Pod => pods::mutate(state, target, new, old).await,
        Mutated::Node if old.is_none() => {
            taint(new);
            Ok(())
        }
        Mutated::Claim if old.is_none() => {
            if new.pointer("/spec/storageClassName").is_none()
                && new.pointer("/metadata/annotations/volume.beta.kubernetes.io~1storage-class").is_none()
                && let Some(class) =
                    default_class(state, "storage.k8s.io", "storageclasses", STORAGE_CLASS_MARKS)
            {
                new["spec"]["storageClassName"] = class.into();
            }
            hold(new, "kubernetes.io/pvc-protection");
            Ok(())
        }
        Mutated::Volume if old.is_none() => {
            hold(new, "kubernetes.io/pv-protection");
            Ok(())
        }
        Mutated::AttributesClass if old.is_none() => {
            hold(new, "kubernetes.io/vac-protection");
            Ok(())
        }
        Mutated::Ingress if old.is_none() => {
            if new.pointer("/spec/ingressClassName").is_none()
                && new.pointer("/metadata/annotations/kubernetes.io~1ingress.class").is_none()
                && let Some(class) =
                    default_class(state, "networking.k8s.io", "ingressclasses", INGRESS_CLASS_MARKS)
            {
                new["spec"]["ingressClassName"] = class.into();
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The newest of the classes that are marked as the default, by name if there are several.
fn default_class(state: &State, group: &str, plural: &str, marks: &[&str]) -> Option<String> {
    let marked = |class: &Value| {
        let annotations = class.pointer("/metadata/annotations");
        marks
            .iter()
            .any(|mark| annotations.and_then(|map| map.get(mark)).is_some_and(|value| value == "true"))
    };
    let classes = state.stored(group, plural, "");
    let mut classes: Vec<&Value> =
        classes.iter().map(|(_, class)| class).filter(|class| marked(class)).collect();
    classes.sort_by_key(|class| (std::cmp::Reverse(meta(class, "creationTimestamp")), meta(class, "name")));
    classes.first().map(|class| meta(class, "name").to_owned())
}

/// Whether an update that changes nothing is admitted whatever else there is in the cluster, and by whomever.
pub(crate) fn ignores_noop_updates(definition: &Definition) -> bool {
    let (group, plural) = (definition.names.group.as_str(), definition.names.plural.as_str());
    let depends = matches!(group, RBAC_GROUP | SIGNING_REQUESTS_GROUP | "scheduling.k8s.io")
        || (group.is_empty() && matches!(plural, "pods" | "persistentvolumeclaims"));
    !depends
}

/// Lets a write pass or refuses it, after it was found valid. `old`: it is an update. What it is charged for must be
/// [settled](settle) once the write is done.
pub(crate) async fn admit<'a>(
    state: &'a State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    part: Part,
    new: &Value,
    old: Option<&Value>,
    dry_run: bool,
) -> Result<Option<Charge<'a>>, ApiError> {
    let definition = target.definition;
    match (definition.names.group.as_str(), definition.names.plural.as_str()) {
        (RBAC_GROUP, plural) => {
            if let Some(kind) = PolicyKind::of_resource(plural) {
                let (user, namespace, name) = (&call.user, target.namespace, target.name);
                let write = PolicyWrite { user, kind, namespace, name, new, old };
                check_escalation(&state.identity.rbac(), &write)?;
            }
        }
        (SIGNING_REQUESTS_GROUP, SIGNING_REQUESTS) => {
            signing_requests::check(state, call, target, part, new, old)?;
        }
        ("", "pods" | "persistentvolumeclaims") => limits::check_limits(state, target, part, new, old)?,
        ("scheduling.k8s.io", "priorityclasses") => pods::check_priority_class(state, target, new)?,
        _ => {}
    }
    if definition.namespaced { quota::charge(state, target, part, new, old, dry_run).await } else { Ok(None) }
}

const STORAGE_CLASS_MARKS: &[&str] =
    &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const INGRESS_CLASS_MARKS: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];

/// Adds a finalizer.
fn hold(object: &mut Value, finalizer: &str) {
    let finalizers = metadata_mut(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|name| name == finalizer)
    {
        list.push(finalizer.into());
    }
}

/// A new node takes no pods until it is reported ready.
fn taint(node: &mut Value) {
    let (key, effect) = ("node.kubernetes.io/not-ready", "NoSchedule");
    let spec = crate::object::member_mut(node, "spec");
    let taints = spec.entry("taints").or_insert_with(|| json!([]));
    if taints.is_null() {
        *taints = json!([]);
    }
    if let Some(list) = taints.as_array_mut()
        && !list.iter().any(|taint| taint["key"] == key && taint["effect"] == effect)
    {
        list.push(json!({"key": key, "effect": effect}));
    }
}
