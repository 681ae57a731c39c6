//! Adding targets, and opening the streams that report them: one by one where that is cheaper, else one for a kind and namespace.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use settled_watch::{Cluster, PARTIAL_LIST, Resource, Verb};

use super::request::StartError;
use super::{Followed, Role, Tracker};
use crate::id::ObjectId;
use crate::ids::TargetId;
use crate::observation::MinVersion;
use crate::stream::Spec;
use crate::target::{KindName, Selection};

/// So few objects of a kind are watched one by one without asking how many others there are.
const MAX_BY_NAME_UNCOUNTED: usize = 3;
/// Not more are watched one by one: of a kind in a namespace, and in all. Servers limit the streams of a connection, some to 200.
pub(super) const MAX_WATCHES_BY_NAME: usize = 100;
const MAX_STREAMS_BY_NAME: usize = 150;
/// More namespaces are watched as one.
const MAX_NAMESPACES: usize = 8;

impl Tracker {
    /// Adds a named target; nothing if there is one already.
    pub(super) fn add_object(
        &mut self,
        kind: KindName,
        namespace: &str,
        name: &str,
        min_version: Option<MinVersion>,
    ) -> Result<Option<TargetId>, StartError> {
        let resource = kind.find(&self.resources).cloned();
        let id = match (&resource, &kind) {
            (Some(resource), _) => {
                let namespace = if resource.namespaced { namespace } else { "" };
                self.evaluator.id(&resource.group, &resource.kind, namespace, name)
            }
            (None, KindName::Exact { group, kind, .. }) => self.evaluator.id(group, kind, namespace, name),
            (None, KindName::Spoken(spoken)) => {
                let similar = self.resources.similar(spoken);
                return Err(StartError::NoKind { name: spoken.clone(), similar });
            }
            (None, KindName::Overview) => {
                return Err(StartError::NoKind { name: kind.to_string(), similar: Vec::new() });
            }
        };
        if self.target_id(&id).is_some() {
            return Ok(None);
        }
        let unknown = resource.is_none();
        let by_hand = matches!(kind, KindName::Spoken(_)) && min_version.is_none();
        let number = self.add_target(id, resource, min_version, false);
        if by_hand {
            self.missing.named.push(number);
        }
        if unknown {
            self.unknown.push((number, kind));
        }
        Ok(Some(number))
    }

    pub(super) fn add_target(
        &mut self,
        id: ObjectId,
        kind: Option<Arc<Resource>>,
        min_version: Option<MinVersion>,
        selected: bool,
    ) -> TargetId {
        let number = self.policy.add(min_version);
        debug_assert_eq!(number, self.targets.next_id(), "targets have the ids of the policy");
        if id.is("", "PersistentVolumeClaim") {
            self.claims.push(number);
        }
        self.targets.push(Box::new(Followed {
            id,
            kind,
            stream: None,
            also: Vec::new(),
            selected,
            last: None,
            reported: None,
            explored: None,
        }));
        self.index.insert(number, &self.targets);
        self.dirty.insert(number);
        number
    }

    pub(super) fn add_selection(&mut self, selection: &Selection, default: &str) -> Result<(), StartError> {
        let mut of_category = false;
        let kinds = match (&selection.kind, selection.kind.find(&self.resources)) {
            (_, Some(resource)) => vec![Arc::clone(resource)],
            (KindName::Spoken(spoken), None) => {
                let kinds = self.resources.category(spoken);
                if kinds.is_empty() {
                    let similar = self.resources.similar(spoken);
                    return Err(StartError::NoKind { name: spoken.clone(), similar });
                }
                of_category = true;
                kinds
            }
            (KindName::Exact { kind, .. }, None) => {
                return Err(StartError::NoKind { name: kind.clone(), similar: self.resources.similar(kind) });
            }
            (KindName::Overview, None) => {
                of_category = true;
                self.overview_kinds()
            }
        };
        for resource in kinds {
            let namespace = selection.namespace.as_deref().unwrap_or(default);
            let within = (resource.namespaced && !selection.everywhere).then_some(namespace);
            let mut spec = Spec::new(&resource, within);
            spec.scope.labels = selection.labels.as_deref().map(Into::into);
            spec.scope.fields = selection.fields.as_deref().map(Into::into);
            spec.target = true;
            let stream = self.open(spec, Role::Selection);
            if let Some(stream) = self.streams.get_mut(stream) {
                stream.of_category = of_category;
            }
        }
        Ok(())
    }

    /// Opens streams for named targets: one by one where that is cheaper, else one for a kind and namespace.
    pub(super) async fn watch_objects(&mut self, numbers: &[TargetId]) {
        let mut groups: BTreeMap<(String, Arc<str>), Vec<TargetId>> = BTreeMap::new();
        let mut namespaces: HashMap<String, BTreeSet<Arc<str>>> = HashMap::new();
        for number in numbers {
            let Some(target) = self.targets.get(*number) else { continue };
            let Some(resource) = &target.kind else { continue };
            let key = format!("{} {}", resource.api_version(), resource.plural);
            namespaces.entry(key.clone()).or_default().insert(target.id.namespace.clone());
            groups.entry((key, target.id.namespace.clone())).or_default().push(*number);
        }
        let mut wide: BTreeMap<String, Vec<TargetId>> = BTreeMap::new();
        groups.retain(|(key, _), numbers| {
            let many = namespaces.get(key).is_some_and(|namespaces| namespaces.len() > MAX_NAMESPACES);
            if many {
                wide.entry(key.clone()).or_default().append(numbers);
            }
            !many
        });
        let plans = groups.into_iter().map(|((_, namespace), numbers)| (Some(namespace), numbers));
        let plans: Vec<_> = plans.chain(wide.into_values().map(|numbers| (None, numbers))).collect();
        let specs = plans.into_iter().filter_map(|(namespace, numbers)| {
            let resource = self.targets.get(*numbers.first()?)?.kind.clone()?;
            let mut spec =
                Spec::new(&resource, namespace.as_deref().filter(|namespace| !namespace.is_empty()));
            spec.target = true;
            Some((spec, numbers))
        });
        let specs: Vec<_> = specs.collect();
        let cluster = self.cluster.clone();
        let by_name = specs.iter().map(|(spec, numbers)| by_name(&cluster, spec, numbers.len()));
        let by_name = futures::future::join_all(by_name).await;
        for ((spec, numbers), by_name) in specs.into_iter().zip(by_name) {
            if by_name
                && (numbers.len() <= MAX_BY_NAME_UNCOUNTED
                    || self.streams.len() + numbers.len() <= MAX_STREAMS_BY_NAME)
            {
                self.open_each(&spec, &numbers);
            } else {
                let of = |number: &TargetId| Some(self.targets.get(*number)?.id.name.clone());
                let mut spec = spec;
                spec.only = Some(Arc::new(numbers.iter().filter_map(of).collect()));
                let stream = self.open(spec, Role::Targets);
                for number in numbers {
                    self.assign(number, stream);
                }
            }
        }
    }

    pub(super) fn open_each(&mut self, spec: &Spec, numbers: &[TargetId]) {
        for number in numbers {
            let Some(target) = self.targets.get(*number) else { continue };
            let name = target.id.name.clone();
            let mut spec = spec.clone();
            spec.only = None;
            // A stream for all namespaces may have to be split.
            spec.scope.namespace =
                Some(&*target.id.namespace).filter(|namespace| !namespace.is_empty()).map(Into::into);
            let stream = self.open(spec.name(&name), Role::Targets);
            self.assign(*number, stream);
        }
    }
}

/// Whether so many objects among all of their kind are cheaper to watch one by one.
async fn by_name(cluster: &Cluster, spec: &Spec, count: usize) -> bool {
    if count <= MAX_BY_NAME_UNCOUNTED {
        return true;
    }
    if count > MAX_WATCHES_BY_NAME {
        return false;
    }
    let path = format!("{}?limit=1", spec.scope.resource.path(spec.scope.namespace.as_deref(), None));
    // Where listing is forbidden, each may be watched all the same.
    let Ok(bytes) = cluster.fetch(Verb::List, http::Method::GET, &path, PARTIAL_LIST, None).await else {
        return true;
    };
    let remaining = kstatus::Object::parse(&bytes)
        .ok()
        .and_then(|list| list.root().get("metadata")?.get("remainingItemCount")?.as_int())
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(0);
    remaining > 500 && remaining > 10 * count
}
