//! Preparation: namespaces and kinds that manifests expect to be there already.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use serde_json::{Value, json};

use crate::findings::{Check, Finding, Manifest, Severity, removal};

/// Namespaces that every cluster has.
const GIVEN: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Namespaces that manifests are in and none of them creates, each with the first manifest in it.
#[must_use]
pub fn missing_namespaces(manifests: &[Manifest]) -> BTreeMap<String, usize> {
    let created: BTreeSet<&str> = manifests
        .iter()
        .filter(|manifest| manifest.kind == "Namespace")
        .map(|manifest| &*manifest.name)
        .collect();
    let mut missing = BTreeMap::new();
    for (index, manifest) in manifests.iter().enumerate() {
        let namespace = &*manifest.namespace;
        if !namespace.is_empty() && !created.contains(namespace) && !GIVEN.contains(&namespace) {
            missing.entry(namespace.to_owned()).or_insert(index);
        }
    }
    missing
}

/// A finding about a namespace that is taken for granted.
#[must_use]
pub fn namespace_finding(name: &str, index: usize) -> Finding {
    let message =
        format!("the manifests do not create namespace {name}; the rehearsal assumes that it exists");
    Finding::new(Severity::Note, Check::MissingNamespace, Some(index), "metadata.namespace", message)
}

/// Findings about API versions that a minor version of Kubernetes 1 does not serve.
#[must_use]
pub fn removed_apis(manifests: &[Manifest], minor: u32) -> Vec<Finding> {
    let removed = manifests.iter().enumerate().filter_map(|(index, manifest)| {
        let found = removal(&manifest.api_version, &manifest.kind).filter(|found| found.since <= minor)?;
        let message =
            format!("Kubernetes 1.{} removed {} {}", found.since, manifest.api_version, manifest.kind);
        let finding = Finding::new(Severity::Error, Check::RemovedApi, Some(index), "apiVersion", message);
        Some(match found.replacement {
            Some(replacement) => finding.remedy(format!("use {replacement}")),
            None => finding,
        })
    });
    removed.collect()
}

/// Letters of generated names: without vowels, as the API server has them.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Changes what cannot be rehearsed as it is: names that the server would generate follow from the seed, and conversion webhooks are left
/// out. Findings about what is not called.
pub fn adapt(manifests: &mut [Manifest], seed: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, manifest) in manifests.iter_mut().enumerate() {
        generate_name(manifest, index, seed);
        let note = |field: &str, what: &str| {
            let message = format!("{what} are not called in a rehearsal");
            Finding::new(Severity::Note, Check::NotCalled, Some(index), field, message)
        };
        match &*manifest.kind {
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
                findings.push(note("webhooks", "webhooks"));
            }
            "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
                findings.push(note("spec", "admission policies"));
            }
            "APIService" if manifest.object().pointer("/spec/service").is_some_and(Value::is_object) => {
                findings.push(note("spec.service", "aggregated API servers"));
            }
            "CustomResourceDefinition" => {
                let mut object = manifest.object();
                let strategy = object.pointer("/spec/conversion/strategy").and_then(Value::as_str);
                if strategy != Some("Webhook") {
                    continue;
                }
                findings.push(note("spec.conversion", "conversion webhooks"));
                if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.remove("conversion");
                }
                manifest.replace(&object);
            }
            _ => {}
        }
    }
    findings
}

fn generate_name(manifest: &mut Manifest, index: usize, seed: u64) {
    if !manifest.name.is_empty() {
        return;
    }
    let mut object = manifest.object();
    let prefix = object.pointer("/metadata/generateName").and_then(Value::as_str);
    let Some(prefix) = prefix else { return };
    // SplitMix64, once for each manifest.
    let mut bits = seed ^ (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let mut name = prefix.to_owned();
    for _ in 0..5 {
        let letter = usize::try_from(bits % 27).unwrap_or_default();
        name.push(LETTERS.get(letter).copied().map_or('x', char::from));
        bits /= 27;
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), name.clone().into());
        metadata.remove("generateName");
    }
    manifest.replace(&object);
    manifest.name = name;
}

/// Kinds whose status is written by what a rehearsal does not call: their objects are not waited for.
#[must_use]
pub fn is_not_called(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy")
            | ("apiregistration.k8s.io", "APIService")
    )
}

/// A kind that nobody defines.
#[derive(Clone, Debug)]
pub struct Opaque {
    /// Its API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    versions: BTreeSet<String>,
    is_namespaced: bool,
    /// The first manifest of it.
    pub index: usize,
}

/// Kinds of manifests that neither the server has nor a CRD among them defines.
#[must_use]
pub fn opaque_kinds(manifests: &[Manifest], is_served: impl Fn(&str, &str) -> bool) -> Vec<Opaque> {
    let defined: BTreeSet<(String, String)> = manifests
        .iter()
        .filter(|manifest| manifest.kind == "CustomResourceDefinition")
        .filter_map(|manifest| {
            let object = manifest.object();
            let text = |pointer: &str| Some(object.pointer(pointer)?.as_str()?.to_owned());
            text("/spec/group").zip(text("/spec/names/kind"))
        })
        .collect();
    let mut found: BTreeMap<(String, String), Opaque> = BTreeMap::new();
    for (index, manifest) in manifests.iter().enumerate() {
        let (group, kind) = (manifest.group(), &*manifest.kind);
        let Some((_, version)) = manifest.api_version.split_once('/') else { continue };
        let key = (group.to_owned(), kind.to_owned());
        let is_known = is_served(group, kind) || defined.contains(&key);
        if is_known || removal(&manifest.api_version, kind).is_some() {
            continue;
        }
        let opaque = found.entry(key).or_insert_with(|| Opaque {
            group: group.to_owned(),
            kind: kind.to_owned(),
            versions: BTreeSet::new(),
            is_namespaced: false,
            index,
        });
        opaque.versions.insert(version.to_owned());
        opaque.is_namespaced |= manifest.object().pointer("/metadata/namespace").is_some();
    }
    found.into_values().collect()
}

impl Opaque {
    /// A definition that takes any object of the kind.
    fn definition(&self) -> Value {
        let plural = format!("{}s", self.kind.to_lowercase());
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let versions = self.versions.iter().enumerate().map(|(index, version)| {
            json!({
                "name": version, "served": true, "storage": index == 0,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            })
        });
        // Names in k8s.io need the reference to their approval.
        let annotation = "unapproved, assumed by a rehearsal";
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.{}", self.group),
                "annotations": {"api-approved.kubernetes.io": annotation},
            },
            "spec": {
                "group": self.group,
                "names": {"kind": self.kind, "plural": plural, "listKind": format!("{}List", self.kind)},
                "scope": if self.is_namespaced { "Namespaced" } else { "Cluster" },
                "versions": versions.collect::<Vec<_>>(),
            },
        })
    }

    /// A finding about its first manifest.
    #[must_use]
    pub fn finding(&self, is_strict: bool) -> Finding {
        let severity = if is_strict { Severity::Error } else { Severity::Warning };
        let message = format!(
            "nobody defines the kind {} of {}: its objects are stored without validation, and not waited for",
            self.kind, self.group
        );
        let finding = Finding::new(severity, Check::MissingKind, Some(self.index), "kind", message);
        finding.remedy("add its CustomResourceDefinition to the manifests")
    }
}

/// Creates what is assumed to be there.
///
/// # Errors
/// The server refuses it.
pub async fn create(
    client: &Client,
    namespaces: impl Iterator<Item = &str>,
    kinds: &[Opaque],
) -> Result<(), kube::Error> {
    let objects = namespaces
        .map(|name| {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            ("/api/v1/namespaces", namespace)
        })
        .chain(
            kinds
                .iter()
                .map(|kind| ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kind.definition())),
        );
    for (path, object) in objects {
        let body = serde_json::to_vec(&object).map_err(kube::Error::SerdeError)?;
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        client.request::<Value>(request).await?;
    }
    Ok(())
}
