//! Custom resources of the catalog: the definitions that a CustomResourceDefinition adds to it.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use settled_schema::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
};
use settled_store::Resource;

use crate::error::ApiError;
use crate::kinds::apiextensions::custom_resource_definition::versions;
use crate::kinds::conversion::Conversion;
use crate::kinds::custom::{CrdSchema, Custom};
use crate::kinds::definition::Definition;
use crate::kinds::model::Model;
use crate::kinds::names::{Names, PART_VERBS, Subresource, api_version, stored_as, version_rank};
use crate::kinds::scale_paths::ScalePaths;
use crate::kinds::table::Columns;
use crate::selector::SelectableFields;

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";
/// All verbs: custom resources have no other.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// Where definitions are in the store.
pub(crate) fn resource() -> Result<Resource, ApiError> {
    stored_as(GROUP, PLURAL).map_err(ApiError::internal)
}

/// The schemas of all versions, by `apiVersion`. Versions that are alike share one.
fn schemas(spec: &CustomResourceDefinitionSpec<'_>) -> Arc<[(String, Arc<CrdSchema>)]> {
    let mut schemas: Vec<(String, Arc<CrdSchema>)> = Vec::new();
    for version in spec.versions() {
        let own = CrdSchema::new(version.open_api_v3_schema());
        let same = schemas.iter().find(|(_, other)| **other == own).map(|(_, other)| Arc::clone(other));
        schemas.push((api_version(spec.group, version.name), same.unwrap_or_else(|| Arc::new(own))));
    }
    schemas.into()
}

/// The subresources of a version.
fn subresources(
    version: &CustomResourceDefinitionVersion<'_>,
    kind: &str,
    has_scale: bool,
) -> Vec<Subresource> {
    let mut subresources = Vec::new();
    if version.subresources.is_some_and(|subresources| subresources.status) {
        subresources.push(Subresource::status(kind));
    }
    if has_scale {
        subresources.push(Subresource {
            name: "scale".to_owned(),
            kind: "Scale".to_owned(),
            group_version: Some(("autoscaling".to_owned(), "v1".to_owned())),
            verbs: PART_VERBS.to_vec(),
        });
    }
    subresources
}

/// The selectable fields of all versions: a field that any version selects by is kept for all.
fn selectable_fields(spec: &CustomResourceDefinitionSpec<'_>) -> Value {
    let mut paths: Vec<&str> = Vec::new();
    for field in spec.versions().iter().filter_map(|version| version.selectable_fields.as_ref()).flatten() {
        if !paths.contains(&field.json_path) {
            paths.push(field.json_path);
        }
    }
    paths.into_iter().map(|path| json!({"jsonPath": path})).collect()
}

fn to_strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// The definitions of all served versions of a custom resource, under the names that were accepted.
pub(crate) fn definitions(crd: &Value, revision: u64) -> Result<Vec<Definition>, ApiError> {
    let CustomResourceDefinition { spec, status, .. } = CustomResourceDefinition::read(crd);
    let names = &status.accepted_names;
    let resource = stored_as(spec.group, names.plural).map_err(ApiError::internal)?;
    let namespaced = spec.scope == "Namespaced";
    let schemas = schemas(&spec);
    let has_several_schemas = schemas.windows(2).any(|pair| pair[0].1 != pair[1].1);
    let selectable_fields = selectable_fields(&spec);
    let storage_version = spec.storage_version().unwrap_or_default();
    let first_stored = status.stored_versions.iter().flatten().next().copied().unwrap_or(storage_version);
    let conversion = match spec.conversion.as_ref().map(|conversion| conversion.strategy) {
        Some("Webhook") => Conversion::Webhook,
        _ => Conversion::None,
    };
    let mut found = Vec::new();
    for ((version, json), (_, schema)) in spec.versions().iter().zip(versions(crd)).zip(schemas.iter()) {
        if !version.served {
            continue;
        }
        let scale = json.pointer("/subresources/scale").and_then(ScalePaths::custom);
        let deprecation = version.deprecated.then(|| match version.deprecation_warning.unwrap_or_default() {
            "" => deprecation_warning(&spec, version.name, names.kind),
            text => text.to_owned(),
        });
        let paths = version.selectable_fields.iter().flatten().map(|field| field.json_path.to_owned());
        let custom = Custom {
            kind: names.kind.to_owned(),
            crd_schema: Arc::clone(schema),
            preserve_unknown: spec.preserve_unknown_fields,
            selectable_paths: paths.collect(),
            versions: Arc::clone(&schemas),
            changed: revision,
            several: has_several_schemas
                || storage_version != first_stored
                || conversion == Conversion::Webhook && schemas.len() > 1,
            conversion,
            storage_version: storage_version.to_owned(),
            first_stored: first_stored.to_owned(),
            generation: crd.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default(),
            names: crd.pointer("/status/acceptedNames").cloned().unwrap_or_default(),
            terminating: crate::object::is_terminating(crd),
            types: OnceLock::new(),
        };
        found.push(Definition::new(
            Names {
                group: spec.group.to_owned(),
                version: version.name.to_owned(),
                kind: names.kind.to_owned(),
                list_kind: names.list_kind.to_owned(),
                plural: names.plural.to_owned(),
                singular: names.singular.to_owned(),
                short_names: to_strings(&names.short_names),
                categories: to_strings(&names.categories),
            },
            resource.clone(),
            namespaced,
            VERBS.to_vec(),
            subresources(version, names.kind, scale.is_some()),
            deprecation,
            SelectableFields::custom(&selectable_fields, namespaced),
            Columns::custom(json.get("additionalPrinterColumns").unwrap_or(&Value::Null)),
            scale,
            Model::Custom(Box::new(custom)),
        ));
    }
    Ok(found)
}

/// What the use of a version is answered with, and which one to use instead.
fn deprecation_warning(spec: &CustomResourceDefinitionSpec<'_>, name: &str, kind: &str) -> String {
    let group = spec.group;
    let better = spec
        .versions()
        .iter()
        .filter(|version| version.served && !version.deprecated)
        .map(|version| version.name)
        .filter(|other| version_rank(other) < version_rank(name))
        .min_by_key(|other| version_rank(other));
    let instead = better.map_or_else(String::new, |other| format!("; use {group}/{other} {kind}"));
    format!("{group}/{name} {kind} is deprecated{instead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_are_alike_share_one_schema() {
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}});
        let other = json!({"openAPIV3Schema": {"type": "object"}});
        let version = |name: &str, schema: &Value| json!({"name": name, "served": true, "storage": name == "v2", "schema": schema});
        let crd = json!({
            "metadata": {"name": "webs.example.com", "generation": 3},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "webs", "kind": "Web"},
                "versions": [version("v1", &schema), version("v2", &schema), version("v3", &other)],
            },
            "status": {
                "acceptedNames": {"plural": "webs", "singular": "web", "kind": "Web", "listKind": "WebList"},
                "storedVersions": ["v1", "v2"],
            },
        });
        let definitions = definitions(&crd, 7).unwrap();
        let customs: Vec<&Custom> =
            definitions.iter().filter_map(|definition| definition.model.custom()).collect();
        let [v1, v2, v3] = customs[..] else { panic!("{} versions", customs.len()) };
        // What one of them has read, the other need not.
        assert!(v1.schema().is_some());
        let is_same = |a: &Custom, b: &Custom| std::ptr::eq(a.open_api(), b.open_api());
        assert_eq!((is_same(v1, v2), is_same(v2, v3)), (true, false));
        assert_eq!((v1.storage_version.as_str(), v1.first_stored.as_str()), ("v2", "v1"));
        assert!(v1.several && v1.has_version("v3") && !v1.has_version("v4"));
    }
}
