//! What is decided about a write besides its validity, in place of the admission plugins that kube-apiserver has on by default.
//!
//! | plugin | where |
//! |---|---|
//! | NamespaceLifecycle | `write.rs`, `delete.rs` |
//! | LimitRanger | `limits.rs` |
//! | ServiceAccount, Priority, DefaultTolerationSeconds, RuntimeClass | `pods.rs` |
//! | TaintNodesByCondition, DefaultStorageClass, StorageObjectInUseProtection, DefaultIngressClass | here |
//! | PodTopologyLabels | `pods.rs` of the crate, with bindings |
//! | CertificateApproval, CertificateSigning, CertificateSubjectRestriction | `signing_requests.rs` |
//! | ResourceQuota | `quota.rs` |

pub(crate) mod limits;
mod pods;
pub(crate) mod quota;
mod signing_requests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use settled_store::{At, Entry, Scope};

use crate::auth::PolicyKind;
use crate::auth::rbac::PolicyWrite;
use crate::core::{Call, Core, Target};
use crate::error::ApiError;
use crate::identity::RBAC_GROUP;
use crate::names::{Part, SIGNING_REQUESTS, SIGNING_REQUESTS_GROUP, stored_as};
use crate::object::{meta, metadata_mut};
pub(crate) use quota::Charge;

/// What admission remembers.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// ServiceAccounts must be there: somebody makes the one called `default`.
    accounts: AtomicBool,
    /// How many writes in a namespace have been charged to quotas and are not done yet.
    charging: Mutex<HashMap<String, usize>>,
    /// Rings when there are fewer.
    charged: tokio::sync::Notify,
}

impl Admission {
    /// Refuses pods whose ServiceAccount isn't there.
    pub(crate) fn require_accounts(&self) {
        self.accounts.store(true, Ordering::Relaxed);
    }

    fn requires_accounts(&self) -> bool {
        self.accounts.load(Ordering::Relaxed)
    }

    fn charging(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.charging.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `pods "web" is forbidden: …`.
fn forbidden(target: &Target<'_>, object: &Value, why: &str) -> ApiError {
    let names = [target.name, meta(object, "name"), meta(object, "generateName")];
    let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
    ApiError::forbidden(target.definition.group_resource(), name, why)
}

/// A text somewhere in an object, empty if there is none.
fn text_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A list somewhere in an object.
fn list_at<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl Core {
    /// The stored objects of a resource, whatever its version: namespaced ones of one namespace, or all if it is empty.
    pub(crate) fn stored(&self, group: &str, plural: &str, namespace: &str) -> Vec<(Arc<Entry>, Value)> {
        let Ok(resource) = stored_as(group, plural) else { return Vec::new() };
        let Ok(snapshot) = self.store.snapshot(&resource, At::Latest) else { return Vec::new() };
        let scope = if namespace.is_empty() { Scope::All } else { Scope::Namespace(namespace.to_owned()) };
        if snapshot.len(&scope) == 0 {
            return Vec::new();
        }
        let parse =
            |entry: &Arc<Entry>| (entry.clone(), serde_json::from_slice(entry.value()).unwrap_or_default());
        snapshot.iter(&scope).map(parse).collect()
    }

    /// Completes a write before it is checked. `old`: it is an update.
    pub(crate) async fn mutate(
        &self,
        target: &Target<'_>,
        part: Part,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let definition = target.definition;
        if part != Part::Main {
            return Ok(());
        }
        match (definition.group.as_str(), definition.plural.as_str()) {
            ("", "pods") => self.mutate_pod(target, new, old).await,
            ("", "nodes") if old.is_none() => {
                taint(new);
                Ok(())
            }
            ("", "persistentvolumeclaims") if old.is_none() => {
                if new.pointer("/spec/storageClassName").is_none()
                    && new.pointer("/metadata/annotations/volume.beta.kubernetes.io~1storage-class").is_none()
                    && let Some(class) =
                        self.default_class("storage.k8s.io", "storageclasses", STORAGE_CLASS_MARKS)
                {
                    new["spec"]["storageClassName"] = class.into();
                }
                hold(new, "kubernetes.io/pvc-protection");
                Ok(())
            }
            ("", "persistentvolumes") if old.is_none() => {
                hold(new, "kubernetes.io/pv-protection");
                Ok(())
            }
            ("storage.k8s.io", "volumeattributesclasses") if old.is_none() => {
                hold(new, "kubernetes.io/vac-protection");
                Ok(())
            }
            ("networking.k8s.io", "ingresses") if old.is_none() => {
                if new.pointer("/spec/ingressClassName").is_none()
                    && new.pointer("/metadata/annotations/kubernetes.io~1ingress.class").is_none()
                    && let Some(class) =
                        self.default_class("networking.k8s.io", "ingressclasses", INGRESS_CLASS_MARKS)
                {
                    new["spec"]["ingressClassName"] = class.into();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The newest of the classes that are marked as the default, by name if there are several.
    fn default_class(&self, group: &str, plural: &str, marks: &[&str]) -> Option<String> {
        let marked = |class: &Value| {
            let annotations = class.pointer("/metadata/annotations");
            marks
                .iter()
                .any(|mark| annotations.and_then(|map| map.get(mark)).is_some_and(|value| value == "true"))
        };
        let classes = self.stored(group, plural, "");
        let mut classes: Vec<&Value> =
            classes.iter().map(|(_, class)| class).filter(|class| marked(class)).collect();
        classes
            .sort_by_key(|class| (std::cmp::Reverse(meta(class, "creationTimestamp")), meta(class, "name")));
        classes.first().map(|class| meta(class, "name").to_owned())
    }

    /// Lets a write pass or refuses it, after it was found valid. `old`: it is an update. What it is charged for must be
    /// [settled](Core::settle) once the write is done.
    pub(crate) async fn admit(
        &self,
        call: &mut Call<'_>,
        target: &Target<'_>,
        part: Part,
        new: &Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Option<Charge<'_>>, ApiError> {
        let definition = target.definition;
        match (definition.group.as_str(), definition.plural.as_str()) {
            (RBAC_GROUP, plural) => {
                if let Some(kind) = PolicyKind::of_resource(plural) {
                    let (user, namespace, name) = (&call.user, target.namespace, target.name);
                    self.identity.rbac().check_escalation(&PolicyWrite {
                        user,
                        kind,
                        namespace,
                        name,
                        new,
                        old,
                    })?;
                }
            }
            (SIGNING_REQUESTS_GROUP, SIGNING_REQUESTS) => {
                self.check_signing_request(call, target, part, new, old)?;
            }
            ("", "pods" | "persistentvolumeclaims") => self.check_limits(target, part, new, old)?,
            ("scheduling.k8s.io", "priorityclasses") => self.check_priority_class(target, new)?,
            _ => {}
        }
        if definition.namespaced { self.charge(target, part, new, old, dry_run).await } else { Ok(None) }
    }
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

/// A new node takes no pods until somebody says that it is ready.
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
