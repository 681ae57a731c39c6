//! Discovery: groups, versions and resources, one document a group version or aggregated (`apidiscovery.k8s.io/v2`).

pub(crate) mod digest;
pub(crate) mod openapi;
pub(crate) mod openapi_v2;
pub(crate) mod operations;
pub(crate) mod operations_v2;
pub(crate) mod publish;

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::kinds::builtin;
use crate::kinds::definition::{Catalog, Definition};
use crate::kinds::model::Model;
use crate::kinds::names::{Subresource, api_version};

/// `/api`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiVersions<'a> {
    kind: &'static str,
    versions: Vec<&'a str>,
    #[serde(rename = "serverAddressByClientCIDRs")]
    addresses: [Address<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Address<'a> {
    #[serde(rename = "clientCIDR")]
    clients: &'static str,
    server_address: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupList<'a> {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<Group<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Group<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: &'a str,
    versions: Vec<GroupVersion<'a>>,
    preferred_version: GroupVersion<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion<'a> {
    group_version: String,
    version: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceList<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<Resource<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource<'a> {
    name: String,
    singular_name: &'a str,
    namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    kind: &'a str,
    verbs: &'a [&'static str],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "String::is_empty")]
    storage_version_hash: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Aggregated<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Named<'a>,
    items: Vec<AggregatedGroup<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct AggregatedGroup<'a> {
    metadata: Named<'a>,
    versions: Vec<AggregatedVersion<'a>>,
}

#[derive(Serialize)]
struct AggregatedVersion<'a> {
    version: &'a str,
    resources: Vec<AggregatedResource<'a>>,
    freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource<'a> {
    resource: &'a str,
    response_kind: Kind<'a>,
    scope: &'static str,
    singular_resource: &'a str,
    verbs: &'a [&'static str],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<AggregatedSubresource<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedSubresource<'a> {
    subresource: &'a str,
    response_kind: Kind<'a>,
    verbs: &'a [&'static str],
}

#[derive(Serialize)]
struct Kind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

/// What is written here are texts, numbers and lists of them: it can't fail.
fn bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// The named groups in the order in which clients prefer them: built-in ones as upstream, others by name.
pub(crate) fn groups(catalog: &Catalog) -> Vec<&str> {
    let rank = |group: &str| builtin::kinds().iter().position(|row| row.group == group);
    let mut groups: Vec<&str> = catalog.groups().filter(|group| !group.is_empty()).collect();
    groups.sort_by_cached_key(|group| (rank(group).unwrap_or(usize::MAX), *group));
    groups
}

/// `/api`. The address is the one that the client used.
pub(crate) fn api_versions(catalog: &Catalog, address: &str) -> Vec<u8> {
    let addresses = [Address { clients: "0.0.0.0/0", server_address: address }];
    bytes(&ApiVersions { kind: "APIVersions", versions: catalog.versions(""), addresses })
}

fn group<'a>(catalog: &'a Catalog, name: &'a str, alone: bool) -> Option<Group<'a>> {
    let row = |version| GroupVersion { group_version: api_version(name, version), version };
    let versions = catalog.versions(name);
    Some(Group {
        kind: alone.then_some("APIGroup"),
        api_version: alone.then_some("v1"),
        name,
        preferred_version: row(versions.first()?),
        versions: versions.into_iter().map(row).collect(),
    })
}

/// `/apis`.
pub(crate) fn group_list(catalog: &Catalog) -> Vec<u8> {
    let groups = groups(catalog).into_iter().filter_map(|name| group(catalog, name, false)).collect();
    bytes(&GroupList { kind: "APIGroupList", api_version: "v1", groups })
}

/// `/apis/GROUP`, if there is such a group.
pub(crate) fn one_group(catalog: &Catalog, name: &str) -> Option<Vec<u8>> {
    group(catalog, name, true).map(|group| bytes(&group))
}

/// `/api/v1` and `/apis/GROUP/VERSION`, if there is such a version.
pub(crate) fn resource_list(catalog: &Catalog, group: &str, version: &str) -> Option<Vec<u8>> {
    let mut resources = Vec::new();
    for definition in catalog.resources(group, version) {
        resources.push(Resource {
            name: definition.names.plural.clone(),
            singular_name: &definition.names.singular,
            namespaced: definition.namespaced,
            kind: &definition.names.kind,
            verbs: &definition.verbs,
            short_names: &definition.names.short_names,
            categories: &definition.names.categories,
            storage_version_hash: storage_version_hash(definition),
            ..Resource::default()
        });
        for subresource in &definition.subresources {
            let (group, version) = other_group_version(subresource).unwrap_or_default();
            resources.push(Resource {
                name: format!("{}/{}", definition.names.plural, subresource.name),
                namespaced: definition.namespaced,
                group,
                version,
                kind: &subresource.kind,
                verbs: &subresource.verbs,
                ..Resource::default()
            });
        }
    }
    let group_version = api_version(group, version);
    (!resources.is_empty()).then(|| {
        bytes(&ResourceList {
            kind: "APIResourceList",
            // That of the core group has none, as it once was.
            api_version: (!group.is_empty()).then_some("v1"),
            group_version,
            resources,
        })
    })
}

fn other_group_version(subresource: &Subresource) -> Option<(&str, &str)> {
    subresource.group_version.as_ref().map(|(group, version)| (group.as_str(), version.as_str()))
}

/// Tells clients whether objects are stored in the same form as before.
fn storage_version_hash(definition: &Definition) -> String {
    match &definition.model {
        Model::Builtin(builtin) => builtin.row.storage_version_hash.to_owned(),
        Model::Custom(custom) => {
            let text =
                format!("{}/{}/{}", definition.names.group, custom.storage_version, definition.names.kind);
            let digest = digest::sha256(text.as_bytes());
            STANDARD.encode(digest.get(..8).unwrap_or_default())
        }
    }
}

/// The documents that have everything.
pub(crate) struct AggregatedDocuments {
    /// What they were made of.
    catalog: Arc<Catalog>,
    /// Of `/api`.
    pub(crate) core: Tagged,
    /// Of `/apis`.
    pub(crate) groups: Tagged,
}

/// JSON and its `ETag`.
pub(crate) struct Tagged {
    pub(crate) json: Vec<u8>,
    pub(crate) tag: String,
}

/// Keeps the documents until the catalog changes.
#[derive(Default)]
pub(crate) struct AggregatedCache(Mutex<Option<Arc<AggregatedDocuments>>>);

impl AggregatedCache {
    pub(crate) fn get(&self, catalog: &Arc<Catalog>) -> Arc<AggregatedDocuments> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cached {
            // The kept catalog is held, so that no other one can be where it was.
            Some(known) if Arc::ptr_eq(&known.catalog, catalog) => known.clone(),
            _ => {
                let tagged = |groups: &[&str]| {
                    let json = aggregated(catalog, groups);
                    let tag = digest::sha512_hex(&[&json]);
                    Tagged { json, tag }
                };
                let made = AggregatedDocuments {
                    catalog: catalog.clone(),
                    core: tagged(&[""]),
                    groups: tagged(&groups(catalog)),
                };
                cached.insert(Arc::new(made)).clone()
            }
        }
    }
}

fn aggregated(catalog: &Catalog, groups: &[&str]) -> Vec<u8> {
    let version = |group: &str, version| AggregatedVersion {
        version,
        resources: catalog
            .resources(group, version)
            .map(|definition| aggregated_resource(definition))
            .collect(),
        freshness: "Current",
    };
    let group = |name| AggregatedGroup {
        metadata: Named { name },
        versions: catalog.versions(name).into_iter().map(|it| version(name, it)).collect(),
    };
    bytes(&Aggregated {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Named { name: "" },
        items: groups.iter().map(|name| group(name)).collect(),
    })
}

fn aggregated_resource(definition: &Definition) -> AggregatedResource<'_> {
    // Upstream leaves the group and version of its own kinds out, and names them for custom ones.
    let (group, version): (&str, &str) = match definition.model {
        Model::Builtin(_) => ("", ""),
        Model::Custom(_) => (&definition.names.group, &definition.names.version),
    };
    let subresource = |it| {
        let (group, version) = other_group_version(it).unwrap_or((group, version));
        let response_kind = Kind { group, version, kind: &it.kind };
        AggregatedSubresource { subresource: &it.name, response_kind, verbs: &it.verbs }
    };
    AggregatedResource {
        resource: &definition.names.plural,
        response_kind: Kind { group, version, kind: &definition.names.kind },
        scope: if definition.namespaced { "Namespaced" } else { "Cluster" },
        singular_resource: &definition.names.singular,
        verbs: &definition.verbs,
        short_names: &definition.names.short_names,
        categories: &definition.names.categories,
        subresources: definition.subresources.iter().map(subresource).collect(),
    }
}
