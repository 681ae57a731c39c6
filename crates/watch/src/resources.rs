//! API discovery: which kinds the server has, and their names.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

/// A kind that the server has, at one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// The API group, empty for the core group.
    pub group: Box<str>,
    /// The version, such as `v1`.
    pub version: Box<str>,
    /// The kind, as in a manifest.
    pub kind: Box<str>,
    /// The name in URLs, such as `deployments`.
    pub plural: Box<str>,
    /// The singular that people may say.
    pub singular: Box<str>,
    /// Shorter names that people may say.
    pub short_names: Box<[Box<str>]>,
    /// Groups of kinds that it belongs to, such as `all`.
    pub categories: Box<[Box<str>]>,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether it can be listed.
    pub list: bool,
    /// Whether it can be watched.
    pub watch: bool,
}

impl Resource {
    /// `group/version`, or `v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of all objects, of those in a namespace, or of one.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        if let Some(name) = name {
            path.push('/');
            path.push_str(name);
        }
        path
    }

    /// `pods`, or `deployments.apps`, as permissions name it.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}

/// All kinds that a server has, as its discovery documents say.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// In the server's order: the core group first, the preferred version of each group first.
    all: Vec<Arc<Resource>>,
}

/// What a discovery document turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// It has all kinds.
    Whole(Vec<Resource>),
    /// The server does not know aggregated discovery; these group versions are to be asked for.
    Groups(Vec<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDocument {
    #[serde(default)]
    kind: String,
    /// Of an `APIGroupDiscoveryList`.
    #[serde(default)]
    items: Vec<RawGroup>,
    /// Of an `APIGroupList`.
    #[serde(default)]
    groups: Vec<RawLegacyGroup>,
    /// Of `APIVersions`.
    #[serde(default)]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct RawGroup {
    #[serde(default)]
    metadata: RawName,
    #[serde(default)]
    versions: Vec<RawVersion>,
}

#[derive(Default, Deserialize)]
struct RawName {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct RawVersion {
    version: String,
    #[serde(default)]
    resources: Vec<RawResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResource {
    resource: String,
    #[serde(default)]
    response_kind: Option<RawKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<Box<str>>,
    #[serde(default)]
    categories: Vec<Box<str>>,
}

#[derive(Deserialize)]
struct RawKind {
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLegacyGroup {
    versions: Vec<RawLegacyVersion>,
    #[serde(default)]
    preferred_version: Option<RawLegacyVersion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLegacyVersion {
    group_version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResourceList {
    group_version: String,
    #[serde(default)]
    resources: Vec<RawLegacyResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLegacyResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<Box<str>>,
    #[serde(default)]
    categories: Vec<Box<str>>,
}

/// Reads the answer to `/api` or `/apis`.
///
/// # Errors
/// It is no discovery document.
pub fn read_document(json: &[u8]) -> Result<Document, serde_json::Error> {
    let raw: RawDocument = serde_json::from_slice(json)?;
    if raw.kind == "APIGroupDiscoveryList" {
        let mut resources = Vec::new();
        for group in raw.items {
            for version in group.versions {
                for resource in version.resources {
                    // Without a kind it has only subresources.
                    let Some(kind) = resource.response_kind.filter(|kind| !kind.kind.is_empty()) else {
                        continue;
                    };
                    resources.push(Resource {
                        group: group.metadata.name.as_str().into(),
                        version: version.version.as_str().into(),
                        kind: kind.kind.into(),
                        plural: resource.resource.into(),
                        singular: resource.singular_resource.into(),
                        short_names: resource.short_names.into(),
                        categories: resource.categories.into(),
                        namespaced: resource.scope == "Namespaced",
                        list: resource.verbs.iter().any(|verb| verb == "list"),
                        watch: resource.verbs.iter().any(|verb| verb == "watch"),
                    });
                }
            }
        }
        return Ok(Document::Whole(resources));
    }
    let mut groups = raw.versions;
    for group in raw.groups {
        let preferred = group.preferred_version.map(|version| version.group_version);
        groups.extend(preferred.clone());
        let others = group.versions.into_iter().map(|version| version.group_version);
        groups.extend(others.filter(|version| Some(version) != preferred.as_ref()));
    }
    Ok(Document::Groups(groups))
}

/// Reads the answer to `/apis/GROUP/VERSION`.
///
/// # Errors
/// It is no `APIResourceList`.
pub fn read_resource_list(json: &[u8]) -> Result<Vec<Resource>, serde_json::Error> {
    let raw: RawResourceList = serde_json::from_slice(json)?;
    let (group, version) = raw.group_version.split_once('/').unwrap_or(("", &raw.group_version));
    let whole = raw.resources.into_iter().filter(|resource| !resource.name.contains('/'));
    Ok(whole
        .map(|resource| Resource {
            group: group.into(),
            version: version.into(),
            kind: resource.kind.into(),
            plural: resource.name.into(),
            singular: resource.singular_name.into(),
            short_names: resource.short_names.into(),
            categories: resource.categories.into(),
            namespaced: resource.namespaced,
            list: resource.verbs.iter().any(|verb| verb == "list"),
            watch: resource.verbs.iter().any(|verb| verb == "watch"),
        })
        .collect())
}

impl Resources {
    /// The kinds of discovery documents, in their order.
    #[must_use]
    pub fn new(all: Vec<Resource>) -> Self {
        Self { all: all.into_iter().map(Arc::new).collect() }
    }

    /// All kinds, in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.all.iter()
    }

    /// The kind of a manifest: at this version, or at the preferred one where the version isn't served (any more).
    #[must_use]
    pub fn of_kind(&self, group: &str, version: Option<&str>, kind: &str) -> Option<&Arc<Resource>> {
        let mut fits = self.all.iter().filter(|r| &*r.group == group && &*r.kind == kind);
        let first = fits.next()?;
        let wanted = |r: &&Arc<Resource>| version.is_none_or(|version| &*r.version == version);
        Some(Some(first).filter(wanted).or_else(|| fits.find(wanted)).unwrap_or(first))
    }

    /// The resource for `deploy`, `deployments.apps`, `deployments.v1.apps` or `Deployment`, as kubectl reads it: the
    /// first one in the server's order that fits.
    ///
    /// ```
    /// # use settled_watch::{Resource, Resources};
    /// # let resource = |group: &str, plural: &str, kind: &str, short: &str| Resource { group: group.into(), version: "v1".into(),
    /// #     kind: kind.into(), plural: plural.into(), singular: kind.to_lowercase().into(), short_names: [short.into()].into(),
    /// #     categories: Box::default(), namespaced: true, list: true, watch: true };
    /// let resources = Resources::new(vec![resource("apps", "deployments", "Deployment", "deploy")]);
    /// for name in ["deploy", "deployment", "Deployments", "deployments.apps", "deploy.v1.apps"] {
    ///     assert_eq!(&*resources.named(name).unwrap().kind, "Deployment");
    /// }
    /// assert!(resources.named("deployments.example.com").is_none());
    /// ```
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Resource>> {
        let name = name.to_lowercase();
        let called = |resource: &Resource, name: &str| {
            *name == *resource.plural
                || *name == *resource.singular
                || resource.kind.to_lowercase() == name
                || resource.short_names.iter().any(|short| **short == *name)
        };
        if let Some(found) = self.all.iter().find(|resource| called(resource, &name)) {
            return Some(found);
        }
        let (word, rest) = name.split_once('.')?;
        if let Some((version, group)) = rest.split_once('.') {
            let at_version =
                |r: &&Arc<Resource>| called(r, word) && *r.version == *version && *r.group == *group;
            if let Some(found) = self.all.iter().find(at_version) {
                return Some(found);
            }
        }
        // `deployments.v1.` and `pods.v1` name a version alone.
        let group_fits = |r: &&Arc<Resource>| {
            called(r, word)
                && (*r.group == *rest || *r.version == *rest.trim_end_matches('.') && r.group.is_empty())
        };
        self.all.iter().find(group_fits)
    }

    /// The kinds of a category, such as `all`; one version of each.
    #[must_use]
    pub fn category(&self, name: &str) -> Vec<Arc<Resource>> {
        let fits = |r: &&Arc<Resource>| r.categories.iter().any(|category| **category == *name);
        self.preferred().filter(fits).cloned().collect()
    }

    /// Each kind at its preferred version.
    pub fn preferred(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let mut seen = BTreeMap::new();
        self.all.iter().filter(move |r| seen.insert((&r.group, &r.plural), ()).is_none())
    }

    /// Similar names, for a mistyped one.
    #[must_use]
    pub fn similar(&self, name: &str) -> Vec<String> {
        let name = name.to_lowercase();
        let stem: String = name.chars().take(4).collect();
        let mut found: Vec<_> = self
            .preferred()
            .filter(|r| r.plural.starts_with(&*stem) || stem.len() >= 3 && r.plural.contains(&*stem))
            .map(|r| r.qualified())
            .collect();
        found.truncate(3);
        found
    }
}
