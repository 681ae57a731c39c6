//! Matching: the first entry for a thing, and the entries that nothing has matched.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Node;

use super::annotations::{AnnotationError, from_annotations};
use super::glob::matches;
use super::script::{
    AddressScript, Autoscaler, ContainerScript, Exit, NodeScript, PodScript, Pull, ResourceScript,
};
use super::{Entry, Scenario};

/// What entries select Pods by.
#[derive(Clone, Debug, Default)]
pub struct PodFacts<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: Option<&'a BTreeMap<String, String>>,
    /// Kind and name of its controller, the controller's controller and so on.
    pub owners: Vec<(String, String)>,
}

/// An entry that nothing has matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// The file of the scenario.
    pub file: String,
    /// Line of the entry, counted from 1.
    pub line: usize,
    /// Column of the entry, counted from 1.
    pub column: usize,
    /// The list that it stands in, such as `images`.
    pub list: &'static str,
}

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, list } = self;
        write!(f, "{file}:{line}:{column}: this entry of {list} has matched nothing")
    }
}

fn fits(pattern: Option<&String>, text: &str) -> bool {
    pattern.is_none_or(|pattern| matches(pattern, text))
}

fn first<T>(entries: &[Entry<T>], wanted: impl Fn(&T) -> bool) -> Option<&T> {
    entries.iter().find(|entry| wanted(&entry.script)).map(Entry::mark)
}

impl PodFacts<'_> {
    fn has_owner(&self, wanted: &str) -> bool {
        let (kind, name) = wanted.split_once('/').unwrap_or((wanted, "*"));
        self.owners.iter().any(|(owner, its)| owner.eq_ignore_ascii_case(kind) && matches(name, its))
    }

    fn fits(
        &self,
        (namespace, pod): (Option<&String>, Option<&String>),
        owner: Option<&String>,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        let has = |(key, value): (&String, &String)| {
            self.labels.and_then(|labels| labels.get(key)).is_some_and(|has| has == value)
        };
        fits(namespace, self.namespace)
            && fits(pod, self.name)
            && owner.is_none_or(|owner| self.has_owner(owner))
            && labels.iter().all(has)
    }
}

/// Keeps a value, or takes over another one.
fn or<T: Clone>(mine: &mut Option<T>, other: Option<&T>) {
    if mine.is_none() {
        *mine = other.cloned();
    }
}

impl ContainerScript {
    /// Takes over what another one says and this one does not.
    pub(crate) fn fill(&mut self, other: &Self) {
        or(&mut self.pull, other.pull.as_ref());
        or(&mut self.start, other.start.as_ref());
        or(&mut self.post_start, other.post_start.as_ref());
        or(&mut self.startup, other.startup.as_ref());
        or(&mut self.ready, other.ready.as_ref());
        or(&mut self.unready, other.unready.as_ref());
        or(&mut self.liveness, other.liveness.as_ref());
        or::<Exit>(&mut self.crash, other.crash.as_ref());
        or(&mut self.exit, other.exit.as_ref());
        or(&mut self.pre_stop, other.pre_stop.as_ref());
        or(&mut self.stop, other.stop.as_ref());
        or(&mut self.resize, other.resize.as_ref());
        if self.logs.is_empty() {
            self.logs.clone_from(&other.logs);
        }
    }
}

impl Scenario {
    /// How an image is pulled.
    #[must_use]
    pub fn image(&self, image: &str) -> Option<Pull> {
        first(&self.entries.images, |script| matches(&script.image, image)).map(|script| script.pull())
    }

    /// What happens to a container: of each field, what the first entry says that has it.
    #[must_use]
    pub fn container(&self, pod: &PodFacts<'_>, container: &str) -> ContainerScript {
        let mut script = ContainerScript::default();
        for entry in &self.entries.containers {
            let one = &entry.script;
            let is_pod =
                pod.fits((one.namespace.as_ref(), one.pod.as_ref()), one.owner.as_ref(), &one.labels);
            if is_pod && fits(one.container.as_ref(), container) {
                script.fill(entry.mark());
            }
        }
        script
    }

    /// What happens to a Pod.
    #[must_use]
    pub fn pod(&self, pod: &PodFacts<'_>) -> Option<&PodScript> {
        first(&self.entries.pods, |one| {
            pod.fits((one.namespace.as_ref(), one.pod.as_ref()), one.owner.as_ref(), &one.labels)
        })
    }

    /// What happens to a Node.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&NodeScript> {
        first(&self.entries.nodes, |script| matches(&script.node, name))
    }

    /// What happens to a Node: an entry, or else its annotations.
    ///
    /// # Errors
    /// The annotations cannot be read.
    pub(crate) fn node_or_annotations<'s>(
        &'s self,
        node: &Node,
    ) -> Result<Option<Cow<'s, NodeScript>>, AnnotationError> {
        if let Some(script) = self.node(node.metadata.name.as_deref().unwrap_or_default()) {
            return Ok(Some(Cow::Borrowed(script)));
        }
        let Some(annotations) = &node.metadata.annotations else { return Ok(None) };
        Ok(from_annotations(annotations, None)?.map(Cow::Owned))
    }

    /// How the controller of a custom resource is played.
    #[must_use]
    pub fn resource(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<&ResourceScript> {
        let group = api_version.split_once('/').map_or(api_version, |(group, _)| group);
        first(&self.entries.resources, |script| {
            let is_version = |wanted: &String| matches(wanted, api_version) || matches(wanted, group);
            script.kind == kind
                && script.api_version.as_ref().is_none_or(is_version)
                && fits(script.namespace.as_ref(), namespace)
                && fits(script.name.as_ref(), name)
        })
    }

    /// When a Service, an Ingress or a Gateway gets its address.
    #[must_use]
    pub fn address(&self, kind: &str, namespace: &str, name: &str) -> Option<&AddressScript> {
        first(&self.entries.addresses, |script| {
            script.kind.as_ref().is_none_or(|wanted| wanted == kind)
                && fits(script.namespace.as_ref(), namespace)
                && fits(script.name.as_ref(), name)
        })
    }

    /// The metrics of a HorizontalPodAutoscaler.
    #[must_use]
    pub fn autoscaler(&self, namespace: &str, name: &str) -> Option<&Autoscaler> {
        first(&self.entries.autoscalers, |script| {
            fits(script.namespace.as_ref(), namespace) && fits(script.name.as_ref(), name)
        })
    }

    /// The entries that nothing has matched so far, in the order of the file.
    #[must_use]
    pub fn unmatched(&self) -> Vec<Unmatched> {
        let entries = &*self.entries;
        let mut all = Vec::new();
        collect(&entries.images, &entries.file, "images", &mut all);
        collect(&entries.containers, &entries.file, "containers", &mut all);
        collect(&entries.pods, &entries.file, "pods", &mut all);
        collect(&entries.nodes, &entries.file, "nodes", &mut all);
        collect(&entries.resources, &entries.file, "resources", &mut all);
        collect(&entries.addresses, &entries.file, "addresses", &mut all);
        collect(&entries.autoscalers, &entries.file, "autoscalers", &mut all);
        all.sort_by_key(|one| (one.line, one.column));
        all
    }
}

fn collect<T>(entries: &[Entry<T>], file: &str, list: &'static str, all: &mut Vec<Unmatched>) {
    for entry in entries.iter().filter(|entry| !entry.is_matched()) {
        all.push(Unmatched { file: file.to_owned(), line: entry.line, column: entry.column, list });
    }
}
