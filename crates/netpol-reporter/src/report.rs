//! `NetworkPolicyReport`: the object beside a NetworkPolicy that has its conditions where the API server has no field for them.
//!
//! KEP-2527 calls it the form of two objects. A report has the name and namespace of its policy, an owner reference with the policy's UID, and
//! nothing but `status`.

use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::evaluation::Desired;

/// API group.
pub const GROUP: &str = "netpol.settled.dev";
/// Version.
pub const VERSION: &str = "v1alpha1";
/// Kind.
pub const KIND: &str = "NetworkPolicyReport";
/// Name in URLs.
pub const PLURAL: &str = "networkpolicyreports";

pub(crate) fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

/// The kind, for kube's `Api<DynamicObject>`.
#[must_use]
pub fn resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, KIND), PLURAL)
}

/// The report of a policy, without a status.
pub(crate) fn of(policy: &DynamicObject) -> Option<DynamicObject> {
    let name = policy.metadata.name.clone()?;
    let mut report = DynamicObject::new(&name, &resource());
    report.metadata.namespace.clone_from(&policy.metadata.namespace);
    report.metadata.owner_references =
        Some(vec![k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
            api_version: "networking.k8s.io/v1".to_owned(),
            kind: "NetworkPolicy".to_owned(),
            name,
            uid: policy.metadata.uid.clone()?,
            controller: Some(true),
            block_owner_deletion: None,
        }]);
    Some(report)
}

/// Whether a report is of this incarnation of its policy.
pub(crate) fn is_of(report: &DynamicObject, policy: &DynamicObject) -> bool {
    policy.metadata.uid.is_some() && owner(report) == policy.metadata.uid.as_deref()
}

/// The UID of the policy that owns a report; None if another client created it.
pub(crate) fn owner(report: &DynamicObject) -> Option<&str> {
    let mut owners = report.metadata.owner_references.iter().flatten();
    owners
        .find(|owner| owner.kind == "NetworkPolicy" && owner.controller == Some(true))
        .map(|owner| &*owner.uid)
}

/// The status of a report, with its conditions. Their `observedGeneration` would be that of the report: the generation of the policy has a
/// field of its own.
pub(crate) fn status(desired: &Desired, mut conditions: Vec<Value>) -> Value {
    for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
        condition.remove("observedGeneration");
    }
    json!({"policyGeneration": desired.generation, "conditions": conditions, "rules": desired.rules})
}

/// The CustomResourceDefinition.
#[must_use]
pub fn definition() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": {
                "type": "string", "maxLength": 316,
                "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                "description": "Accepted, PartialFailure or Failure; with the provider's domain in front if several run.",
            },
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": {
                "type": "string", "minLength": 1, "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
            "message": {"type": "string", "maxLength": 32768},
        },
    });
    let rule = json!({
        "type": "object",
        "required": ["provider", "field", "feature", "effect", "message"],
        "properties": {
            "provider": text("Provider and version: cilium@1.15.0."),
            "field": text("Field of the policy: spec.egress[0].ports[0].endPort."),
            "direction": {"type": "string", "enum": ["ingress", "egress"], "description": "Direction of the rule, if it is about one."},
            "feature": text("Feature that is not carried out as written: port.end."),
            "effect": {
                "type": "string", "enum": ["AllowsMore", "AllowsLess", "AllowsMoreOrLess", "None"],
                "description": "What the policy allows, compared with what is written.",
            },
            "message": text("What is done instead."),
            "supportedSince": text("The first version that supports the feature."),
            "source": text("Where this is documented."),
        },
    });
    let column = |name: &str, path: &str, priority: i64| json!({"name": name, "type": "string", "jsonPath": path, "priority": priority});
    let of_type = |name: &str, field: &str| format!(r#".status.conditions[?(@.type=="{name}")].{field}"#);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": KIND, "plural": PLURAL, "singular": "networkpolicyreport", "shortNames": ["netpolreport"]},
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Accepted", &of_type("Accepted", "status"), 0),
                    column("Partial", &of_type("PartialFailure", "status"), 0),
                    column("Failure", &of_type("Failure", "status"), 0),
                    column("Message", &of_type("Accepted", "message"), 1),
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "What the network provider makes of the NetworkPolicy of the same name.",
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "metadata": {"type": "object"},
                        "status": {
                            "type": "object",
                            "properties": {
                                "policyGeneration": {
                                    "type": "integer", "format": "int64", "minimum": 0,
                                    "description": "Generation of the policy that was evaluated.",
                                },
                                "conditions": {
                                    "type": "array", "items": condition,
                                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                                },
                                "rules": {
                                    "type": "array", "items": rule, "maxItems": 100,
                                    "x-kubernetes-list-type": "atomic",
                                },
                            },
                        },
                    },
                }},
            }],
        },
    })
}
