//! Releases by name: finds the object that keeps the list of a release, and reads its objects.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use http::Method;
use settled_manifest::ListItems;
use settled_watch::{Cluster, PARTIAL_LIST, RequestError, Resource, Resources, Verb, encode};

use crate::id::ObjectId;
use crate::inventory::{
    APPLY_SET_ID, Contents, HelmStorage, INVENTORY_ID, Inventory, InventoryError, KindName as Listed,
    Revisions, newest_revisions,
};
use crate::target::{KindName, Selection, Target};

/// So many objects that only a failed revision has are named.
const NAMED: usize = 5;

/// Who keeps the list of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseKind {
    /// Helm, in a Secret or a ConfigMap.
    Helm,
    /// Flux, in the status of a Kustomization.
    Kustomization,
    /// Flux, in the status of a HelmRelease, or Helm for it.
    HelmRelease,
    /// Argo CD, in the status of an Application.
    Application,
    /// cli-utils (kpt, Config Sync), in a ConfigMap or a ResourceGroup.
    Inventory,
    /// kubectl's ApplySet, as labels of its members; the parent is a Secret or a ConfigMap.
    ApplySet,
}

impl ReleaseKind {
    const ALL: &[(&str, Self)] = &[
        ("helm", Self::Helm),
        ("kustomization", Self::Kustomization),
        ("helmrelease", Self::HelmRelease),
        ("application", Self::Application),
        ("inventory", Self::Inventory),
        ("applyset", Self::ApplySet),
    ];

    /// All of them, each with the word that `--release` has for it.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        Self::ALL.iter().copied()
    }

    /// The kinds of the objects that keep the list: API group and kind.
    pub(crate) fn kinds(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Kustomization => &[("kustomize.toolkit.fluxcd.io", "Kustomization")],
            Self::HelmRelease => &[("helm.toolkit.fluxcd.io", "HelmRelease")],
            Self::Application => &[("argoproj.io", "Application")],
            Self::Inventory => &[("", "ConfigMap"), ("kpt.dev", "ResourceGroup")],
            Self::ApplySet | Self::Helm => &[("", "Secret"), ("", "ConfigMap")],
        }
    }

    /// The label of Secrets and ConfigMaps that hold an inventory.
    pub(crate) fn label(self) -> Option<&'static str> {
        match self {
            Self::Helm => Some("owner=helm"),
            Self::Inventory => Some(INVENTORY_ID),
            Self::ApplySet => Some(APPLY_SET_ID),
            Self::Kustomization | Self::HelmRelease | Self::Application => None,
        }
    }
}

/// A release, an application, an inventory: a set of objects that has a name.
///
/// ```
/// use settled_tracker::release::Release;
/// let release: Release = "helm/shop".parse().unwrap();
/// assert_eq!(release.to_string(), "helm/shop");
/// assert!("shop".parse::<Release>().unwrap_err().contains("helm/NAME"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Who keeps the list of its objects.
    pub release_kind: ReleaseKind,
    /// Its name.
    pub name: String,
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || {
            let names: Vec<String> =
                ReleaseKind::ALL.iter().map(|(word, _)| format!("{word}/NAME")).collect();
            format!("{text:?} names no release; write one of {}", names.join(", "))
        };
        let (word, name) = text.split_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(known)?;
        let release_kind =
            ReleaseKind::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).ok_or_else(known)?.1;
        Ok(Self { release_kind, name: name.to_owned() })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = ReleaseKind::ALL
            .iter()
            .find(|(_, release_kind)| *release_kind == self.release_kind)
            .map_or("", |(word, _)| word);
        write!(f, "{word}/{}", self.name)
    }
}

/// What a release consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseTargets {
    /// What it is called: `release shop, revision 3`.
    pub title: String,
    /// Its objects.
    pub targets: Vec<Target>,
    /// What a user should know: a newer revision failed, an object cannot be found by the list.
    pub notes: Vec<String>,
}

/// Why the objects of a release cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// What keeps the list cannot be had.
    #[error("{release}: {source}")]
    Request {
        /// The release.
        release: String,
        /// What the server says.
        source: RequestError,
    },
    /// The list cannot be read, or is not what was asked for.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// There is no such release.
    #[error("{0}")]
    Missing(String),
}

impl Release {
    /// The objects of this release. `namespace` is where the list is kept.
    ///
    /// # Errors
    /// The list cannot be had or read.
    pub async fn targets(
        &self,
        cluster: &Cluster,
        resources: &Resources,
        namespace: &str,
    ) -> Result<ReleaseTargets, ReleaseError> {
        if self.release_kind == ReleaseKind::Helm {
            let storage =
                HelmStorage { namespace: namespace.to_owned(), release: self.name.clone(), revision: None };
            return self.helm(cluster, &storage).await;
        }
        match self.contents(cluster, resources, namespace).await? {
            Contents::Objects(inventory) => {
                let mut found = objects(inventory);
                found.targets.extend(self.keeper_itself(namespace));
                Ok(found)
            }
            Contents::Helm(storage) => {
                let mut found = self.helm(cluster, &storage).await?;
                found.targets.extend(self.keeper_itself(namespace));
                Ok(found)
            }
            Contents::ApplySet(set) => {
                let mut found = ReleaseTargets { title: set.title, ..ReleaseTargets::default() };
                for kind in set.kinds {
                    let kind = match kind {
                        Listed::Kind { group, kind } => {
                            KindName::Exact { group: group.into(), version: None, kind: kind.into() }
                        }
                        Listed::Resource { group, resource } if group.is_empty() => {
                            KindName::Spoken(resource.into())
                        }
                        Listed::Resource { group, resource } => {
                            KindName::Spoken(format!("{resource}.{group}"))
                        }
                    };
                    let namespaced = kind.find(resources).is_none_or(|resource| resource.namespaced);
                    let namespaces = if namespaced { set.namespaces.clone() } else { vec![String::new()] };
                    found.targets.extend(namespaces.into_iter().map(|namespace| {
                        Target::Select(Selection {
                            kind: kind.clone(),
                            namespace: Some(namespace),
                            everywhere: false,
                            labels: Some(set.selector.clone()),
                            fields: None,
                        })
                    }));
                }
                Ok(found)
            }
        }
    }

    /// The object that keeps the list, where its own status says whether the list is of its latest generation.
    fn keeper_itself(&self, namespace: &str) -> Option<Target> {
        let (group, kind) = match self.release_kind {
            ReleaseKind::Kustomization => ("kustomize.toolkit.fluxcd.io", "Kustomization"),
            ReleaseKind::HelmRelease => ("helm.toolkit.fluxcd.io", "HelmRelease"),
            ReleaseKind::Application => ("argoproj.io", "Application"),
            ReleaseKind::Helm | ReleaseKind::Inventory | ReleaseKind::ApplySet => return None,
        };
        Some(Target::Object {
            kind: KindName::Exact { group: group.to_owned(), version: None, kind: kind.to_owned() },
            namespace: Some(namespace.to_owned()),
            name: self.name.clone(),
            min_version: None,
        })
    }

    fn request_error(&self, source: RequestError) -> ReleaseError {
        ReleaseError::Request { release: self.to_string(), source }
    }

    /// Gets the object that keeps the list.
    async fn contents(
        &self,
        cluster: &Cluster,
        resources: &Resources,
        namespace: &str,
    ) -> Result<Contents, ReleaseError> {
        let kinds = self.release_kind.kinds();
        let mut resources_of: Vec<(&Arc<Resource>, &str)> = kinds
            .iter()
            .filter_map(|(group, kind)| Some((resources.of_kind(group, None, kind)?, &*self.name)))
            .collect();
        // applyset/KIND/NAME, as `apply --applyset KIND/NAME` has it.
        if self.release_kind == ReleaseKind::ApplySet
            && let Some((kind, name)) = self.name.split_once('/')
        {
            let Some(resource) = resources.named(kind) else {
                return Err(ReleaseError::Missing(format!("{self}: the cluster has no kind {kind:?}")));
            };
            resources_of = vec![(resource, name)];
        }
        for (resource, name) in resources_of {
            let found = match cluster.object(resource, Some(namespace), name).await {
                Ok(found) => found,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(self.request_error(error)),
            };
            if let Some(contents) = Contents::of(&found)? {
                return Ok(contents);
            }
        }
        let kinds: Vec<&str> = kinds.iter().map(|(_, kind)| *kind).collect();
        Err(ReleaseError::Missing(format!(
            "{self}: namespace {namespace} has no {} {} that keeps a list of objects; check the name and -n",
            kinds.join(" or "),
            self.name
        )))
    }

    async fn helm(&self, cluster: &Cluster, storage: &HelmStorage) -> Result<ReleaseTargets, ReleaseError> {
        let HelmStorage { namespace, release, .. } = storage;
        let (core, mut errors) = (format!("/api/v1/namespaces/{namespace}"), Vec::new());
        for plural in ["secrets", "configmaps"] {
            let path = format!("{core}/{plural}?labelSelector={}", encode(&storage.selector()));
            let list = match cluster.fetch(Verb::List, Method::GET, &path, PARTIAL_LIST, None).await {
                Ok(list) => list,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            let (mut items, mut stored) = (ListItems::default(), Vec::new());
            items
                .push(&list, |item| stored.push(item.to_vec()))
                .map_err(|error| self.request_error(RequestError::answer(error)))?;
            if stored.is_empty() {
                continue;
            }
            let heads: Vec<&[u8]> = stored.iter().map(Vec::as_slice).collect();
            let Revisions { current, failed } = newest_revisions(release, &heads)?;
            let read = async |index: usize| {
                let name = stored.get(index).and_then(|json| {
                    let object = kstatus::Object::parse(json).ok()?;
                    object.name().map(std::borrow::Cow::into_owned)
                });
                let path = format!("{core}/{plural}/{}", encode(&name.unwrap_or_default()));
                let secret =
                    cluster.get(Verb::Get, &path).await.map_err(|error| self.request_error(error))?;
                match Contents::of(&secret)? {
                    Some(Contents::Objects(inventory)) => Ok(Some(objects(inventory))),
                    _ => Ok::<_, ReleaseError>(None),
                }
            };
            let Some(mut found) = read(current).await? else { continue };
            match failed {
                None => {}
                Some(failed) if failed == current => found.notes.push("it failed".to_owned()),
                Some(failed) => {
                    if let Some(newer) = read(failed).await? {
                        add_failed(&mut found, newer);
                    }
                }
            }
            return Ok(found);
        }
        match errors.pop() {
            Some(error) => Err(self.request_error(error)),
            None => Err(ReleaseError::Missing(format!(
                "helm/{release}: namespace {namespace} has no such release; `helm list -A` shows where releases are"
            ))),
        }
    }
}

/// Adds the objects that only a newer revision has, which failed. What it removes is still there: Helm deletes at the end.
fn add_failed(found: &mut ReleaseTargets, newer: ReleaseTargets) {
    let mut known: HashSet<String> = found.targets.iter().filter_map(name_of).collect();
    let mut only = Vec::new();
    for target in newer.targets {
        if let Some(name) = name_of(&target)
            && known.insert(name.clone())
        {
            only.push(name);
            found.targets.push(target);
        }
    }
    let mut note = format!("{} failed; the objects are those of both", newer.title);
    if !only.is_empty() {
        let more = only.len().saturating_sub(NAMED);
        only.truncate(NAMED);
        note = format!("{note}, only the newer one has {}", only.join(", "));
        if more > 0 {
            note = format!("{note} and {more} more");
        }
    }
    found.notes.push(note);
    found
        .notes
        .extend(newer.notes.into_iter().filter(|note| !found.notes.contains(note)).collect::<Vec<_>>());
}

/// `Deployment.apps/web in shop`
fn name_of(target: &Target) -> Option<String> {
    let Target::Object { kind: KindName::Exact { group, kind, .. }, namespace, name, .. } = target else {
        return None;
    };
    Some(ObjectId::new(&**group, &**kind, namespace.as_deref().unwrap_or_default(), &**name).full())
}

fn objects(inventory: Inventory) -> ReleaseTargets {
    let targets = inventory.members.into_iter().map(|member| Target::Object {
        kind: KindName::Exact {
            group: member.id.group.to_string(),
            version: member.version.map(Into::into),
            kind: member.id.kind.to_string(),
        },
        namespace: Some(member.id.namespace.to_string()),
        name: member.id.name.to_string(),
        min_version: None,
    });
    ReleaseTargets { title: inventory.title, targets: targets.collect(), notes: inventory.left_out }
}
