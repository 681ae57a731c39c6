//! Detection of providers: which profiles fit what runs in a cluster, and the evidence for each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::cluster::{Known, Labels};
use crate::profile::{Detect, DetectOption, Profile, Profiles, ProviderRef, VersionFrom};

/// What is known of a cluster. First come workloads and CRDs, then what [`lookups`] names of them.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// Workloads of the kinds and namespaces that [`kinds`] and [`namespaces`] name.
    pub workloads: Known<Workload>,
    /// Names of CustomResourceDefinitions, such as `ciliumnetworkpolicies.cilium.io`.
    pub crds: Known<Arc<str>>,
    /// Kubelet versions of the nodes.
    pub kubelets: BTreeSet<Arc<str>>,
    /// Objects that say a version.
    pub objects: BTreeMap<ObjectRef, Value>,
    /// Data of ConfigMaps with options, by namespace and name.
    pub config_maps: BTreeMap<(String, String), Labels>,
    /// Lookups that failed, a sentence each.
    pub failed: Vec<Arc<str>>,
}

/// An object of the cluster that says a version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// What is to be read beside workloads and CRDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Whether kubelet versions are needed.
    pub kubelets: bool,
    /// Objects that say a version.
    pub objects: BTreeSet<ObjectRef>,
    /// ConfigMaps by namespace and name.
    pub config_maps: BTreeSet<(String, String)>,
}

/// A workload, as far as profiles ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its kind: `DaemonSet`.
    pub kind: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// The images of its containers, init containers last.
    pub images: Vec<Arc<str>>,
    /// Words of the command lines of its containers, with the container's name.
    pub arguments: Vec<(Arc<str>, Arc<str>)>,
}

impl Workload {
    /// Reads a workload with a Pod template; None if it has no kind or name.
    #[must_use]
    pub fn read(object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(Arc::from);
        let metadata = object.get("metadata")?;
        let map = |name: &str| -> Labels {
            let entries = metadata.get(name).and_then(Value::as_object).into_iter().flatten();
            entries.filter_map(|(key, value)| Some((Arc::from(&**key), text(value)?))).collect()
        };
        let spec = object.pointer("/spec/template/spec");
        let containers = |name: &str| {
            let list = spec.and_then(|spec| spec.get(name)).and_then(Value::as_array);
            list.into_iter().flatten()
        };
        let words = |container: &Value| -> Vec<(Arc<str>, Arc<str>)> {
            let name: Arc<str> = container.get("name").and_then(text).unwrap_or_default();
            let lists = ["command", "args"].into_iter().filter_map(|list| container.get(list)?.as_array());
            lists.flatten().filter_map(|word| Some((Arc::clone(&name), text(word)?))).collect()
        };
        Some(Self {
            kind: text(object.get("kind")?)?,
            namespace: metadata.get("namespace").and_then(text).unwrap_or_default(),
            name: text(metadata.get("name")?)?,
            labels: map("labels"),
            annotations: map("annotations"),
            images: containers("containers")
                .chain(containers("initContainers"))
                .filter_map(|container| text(container.get("image")?))
                .collect(),
            arguments: containers("containers").flat_map(words).collect(),
        })
    }
}

/// A provider that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detected {
    /// Its name, version and variant. The version is None if nothing says it.
    pub reference: ProviderRef,
    /// Its name in sentences.
    pub title: String,
    /// What it was found by, a sentence each.
    pub evidence: Vec<String>,
}

/// What was found in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detection {
    /// What runs, by name, variant and version: one for each variant of a provider.
    pub providers: Vec<Detected>,
    /// Evidence that alone proves nothing: CRDs of providers that do not run.
    pub traces: Vec<Detected>,
    /// What could not be read, and why: something may be missing.
    pub unread: Vec<Arc<str>>,
}

impl Detection {
    /// Whether all that runs is one provider.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        let names: BTreeSet<&str> = self.providers.iter().map(|found| &*found.reference.name).collect();
        names.len() == 1
    }
}

/// The kinds of workloads that profiles ask for.
#[must_use]
pub fn kinds(profiles: &Profiles) -> BTreeSet<&str> {
    workloads(profiles).map(|(kind, _)| kind).collect()
}

/// The namespaces in which profiles ask for workloads of a kind; None if one asks for any.
#[must_use]
pub fn namespaces<'p>(profiles: &'p Profiles, kind: &str) -> Option<BTreeSet<&'p str>> {
    let mut all = BTreeSet::new();
    for (_, namespaces) in workloads(profiles).filter(|(found, _)| *found == kind) {
        if namespaces.is_empty() {
            return None;
        }
        all.extend(namespaces.iter().map(String::as_str));
    }
    Some(all)
}

fn workloads(profiles: &Profiles) -> impl Iterator<Item = (&str, &[String])> {
    let entries = profiles.iter().flat_map(|profile| &profile.detect);
    entries.filter_map(|entry| match entry {
        Detect::Workload { kind, namespaces, .. } => Some((&**kind, &**namespaces)),
        Detect::Crd { .. } => None,
    })
}

/// What is to be read of a cluster in which these workloads run.
#[must_use]
pub fn lookups(profiles: &Profiles, workloads: &[Workload]) -> Lookups {
    let mut lookups = Lookups::default();
    for profile in profiles.iter() {
        let mut runs = false;
        for (_, version, _) in matching(profile, workloads) {
            runs = true;
            match version {
                VersionFrom::Kubelet => lookups.kubelets = true,
                VersionFrom::Object { api_version, kind, name, .. } => {
                    let (api_version, kind, name) = (api_version.clone(), kind.clone(), name.clone());
                    lookups.objects.insert(ObjectRef { api_version, kind, name });
                }
                VersionFrom::Tag | VersionFrom::Label(_) | VersionFrom::Annotation(_) | VersionFrom::None => {
                }
            }
        }
        let options = profile.options.values().filter(|_| runs).flat_map(|option| &option.detect);
        lookups.config_maps.extend(options.filter_map(|entry| match entry {
            DetectOption::ConfigMap { namespace, name, .. } => Some((namespace.clone(), name.clone())),
            DetectOption::Argument { .. } => None,
        }));
    }
    lookups
}

/// Finds the providers of a cluster. Workloads prove that a provider runs; CRDs may be left over.
#[must_use]
pub fn detect(profiles: &Profiles, inventory: &Inventory) -> Detection {
    let mut detection = Detection::default();
    detection.unread.extend(unread(&inventory.workloads));
    detection.unread.extend(unread(&inventory.crds));
    for profile in profiles.iter() {
        let running = running(profile, inventory);
        let traces = traces(profile, inventory.crds.read().unwrap_or_default());
        if running.is_empty() {
            if !traces.is_empty() {
                let reference = reference(profile, None, None, Vec::new());
                detection.traces.push(Detected { reference, title: profile.title.clone(), evidence: traces });
            }
            continue;
        }
        for mut provider in running {
            provider.evidence.extend(traces.iter().cloned());
            detection.providers.push(provider);
        }
    }
    detection
}

fn unread<T>(known: &Known<T>) -> Option<Arc<str>> {
    match known {
        Known::Read(_) => None,
        Known::Unread(reason) => Some(Arc::clone(reason)),
    }
}

fn reference(
    profile: &Profile,
    version: Option<String>,
    variant: Option<String>,
    options: Vec<String>,
) -> ProviderRef {
    ProviderRef { name: profile.name.clone(), version, variant, options }
}

/// The workloads of a profile, with where each has its version and which variant it is of.
fn matching<'p, 'w>(
    profile: &'p Profile,
    workloads: &'w [Workload],
) -> Vec<(Match<'w>, &'p VersionFrom, Option<&'p String>)> {
    let mut found = Vec::new();
    for entry in &profile.detect {
        let Detect::Workload { kind, namespaces, names, image, version, variant } = entry else { continue };
        let is_listed = |list: &[String], name: &str| list.is_empty() || list.iter().any(|item| item == name);
        for workload in workloads {
            let is_meant = *workload.kind == **kind
                && is_listed(namespaces, &workload.namespace)
                && is_listed(names, &workload.name);
            let used = match image {
                Some(image) => workload.images.iter().find(|used| is_of(used, image)),
                None => workload.images.first(),
            };
            if is_meant && (image.is_none() || used.is_some()) {
                found.push((Match { workload, image: used }, version, variant.as_ref()));
            }
        }
    }
    found
}

/// A workload of a profile, with the image that the profile asks for.
struct Match<'w> {
    workload: &'w Workload,
    image: Option<&'w Arc<str>>,
}

/// What runs of a provider: one for each variant and version.
fn running(profile: &Profile, inventory: &Inventory) -> Vec<Detected> {
    let mut all: Vec<Detected> = Vec::new();
    for (found, version, variant) in matching(profile, inventory.workloads.read().unwrap_or_default()) {
        let mut evidence = vec![evidence(&found)];
        let options = options(profile, found.workload, inventory, &mut evidence);
        for (version, source) in versions(&found, version, inventory) {
            let mut evidence = evidence.clone();
            evidence.extend(source);
            let reference = reference(profile, version, variant.cloned(), options.clone());
            match all.iter_mut().find(|known| known.reference == reference) {
                Some(known) => {
                    evidence.retain(|new| !known.evidence.contains(new));
                    known.evidence.extend(evidence);
                }
                None => all.push(Detected { reference, title: profile.title.clone(), evidence }),
            }
        }
    }
    for found in &mut all {
        found.evidence.extend(inventory.failed.iter().map(ToString::to_string));
    }
    // A workload that does not say the version is of no use beside one of the same provider that does.
    let with_version = |wanted: &Detected, all: &[Detected]| {
        all.iter().any(|other| {
            other.reference.version.is_some() && other.reference.variant == wanted.reference.variant
        })
    };
    let kept: Vec<bool> =
        all.iter().map(|found| found.reference.version.is_some() || !with_version(found, &all)).collect();
    let mut kept = kept.into_iter();
    all.retain(|_| kept.next().unwrap_or_default());
    all.sort_by(|a, b| {
        let key = |found: &Detected| (found.reference.variant.clone(), found.reference.version.clone());
        key(a).cmp(&key(b))
    });
    all
}

fn traces(profile: &Profile, crds: &[Arc<str>]) -> Vec<String> {
    let names = profile.detect.iter().filter_map(|entry| match entry {
        Detect::Crd { name } => Some(name),
        Detect::Workload { .. } => None,
    });
    let names = names.filter(|name| crds.iter().any(|crd| **crd == ***name));
    names.map(|name| format!("CustomResourceDefinition {name}")).collect()
}

fn evidence(found: &Match<'_>) -> String {
    let Workload { kind, namespace, name, .. } = found.workload;
    match found.image {
        Some(image) => format!("{kind} {namespace}/{name} with image {image}"),
        None => format!("{kind} {namespace}/{name}"),
    }
}

/// The versions that run, with where each is from if that is not the workload; None if nothing says it.
fn versions(
    found: &Match<'_>,
    from: &VersionFrom,
    inventory: &Inventory,
) -> Vec<(Option<String>, Option<String>)> {
    let workload = found.workload;
    let own = match from {
        VersionFrom::Tag => found.image.and_then(|image| tag(image)).map(str::to_owned),
        VersionFrom::Label(name) => workload.labels.get(&**name).map(ToString::to_string),
        VersionFrom::Annotation(name) => workload.annotations.get(&**name).map(ToString::to_string),
        VersionFrom::None => None,
        VersionFrom::Kubelet => {
            let kubelets = inventory.kubelets.iter();
            let found: Vec<_> = kubelets
                .map(|version| (Some(version.to_string()), Some(format!("nodes with kubelet {version}"))))
                .collect();
            return if found.is_empty() { vec![(None, None)] } else { found };
        }
        VersionFrom::Object { api_version, kind, name, field } => {
            let (api_version, kind) = (api_version.clone(), kind.clone());
            let object = ObjectRef { api_version, kind, name: name.clone() };
            let value = inventory.objects.get(&object).and_then(|object| {
                let value = field.split('.').try_fold(object, |value, name| value.get(name))?;
                value.as_str()
            });
            let source = value.map(|value| format!("{} {name} with {field} {value}", object.kind));
            return vec![(value.map(str::to_owned), source)];
        }
    };
    vec![(own, None)]
}

/// The options of a provider that are on.
fn options(
    profile: &Profile,
    workload: &Workload,
    inventory: &Inventory,
    evidence: &mut Vec<String>,
) -> Vec<String> {
    let mut on = Vec::new();
    for (name, option) in &profile.options {
        let found = option.detect.iter().find_map(|entry| match entry {
            DetectOption::ConfigMap { namespace, name, key, value } => {
                let data = inventory.config_maps.get(&(namespace.clone(), name.clone()))?;
                let is_on = data.get(&**key).is_some_and(|set| **set == **value);
                is_on.then(|| format!("ConfigMap {namespace}/{name} with {key}: {value}"))
            }
            DetectOption::Argument { container, value } => {
                let is_on = workload.arguments.iter().any(|(of, word)| {
                    **word == **value && container.as_ref().is_none_or(|container| **of == **container)
                });
                is_on.then(|| format!("argument {value}"))
            }
        });
        if let Some(found) = found {
            evidence.push(format!("{found} ({name})"));
            on.push(name.clone());
        }
    }
    on
}

/// An image without its digest: repository and tag.
fn split(image: &str) -> (&str, Option<&str>) {
    let image = image.split_once('@').map_or(image, |(image, _)| image);
    // A colon before the last slash is that of a port.
    match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (image, None),
    }
}

fn tag(image: &str) -> Option<&str> {
    split(image).1
}

/// Whether an image is of a repository, from whichever registry: `quay.io/cilium/cilium:v1.16.2` is of `cilium/cilium`.
fn is_of(image: &str, repository: &str) -> bool {
    let name = split(image).0;
    name.strip_suffix(repository).is_some_and(|registry| registry.is_empty() || registry.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_repositories_and_tags() {
        for (image, repository, expected) in [
            ("quay.io/cilium/cilium:v1.16.2@sha256:abc", true, Some("v1.16.2")),
            ("cilium/cilium", true, None),
            ("localhost:5000/cilium/cilium", true, None),
            ("localhost:5000/mirror/cilium/cilium:1.15", true, Some("1.15")),
            ("quay.io/cilium/cilium-envoy:v1.30", false, Some("v1.30")),
            ("evilcilium/cilium:v1", false, Some("v1")),
        ] {
            assert_eq!((is_of(image, "cilium/cilium"), tag(image)), (repository, expected), "{image}");
        }
    }
}
