//! Difference of connectivity between two sets of policies, exact over classes of ports and addresses.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use crate::cluster::{Cluster, Known, Pod};
use crate::model::{Cidr, Family, Protocol};
use crate::reach::classes::{
    AddressClass, PortClass, address_classes, families, join, port_classes, to_cidrs, whole,
};
use crate::reach::equivalent::{Class, end_classes};
use crate::reach::matching::{End, Traffic};
use crate::reach::table::Compiled;
use crate::reach::{Evaluator, Outcome, PortRanges, UnknownReason, View, Workload};

/// How many classes of addresses are compared at once, which bounds the memory.
const ADDRESS_CLASSES_AT_ONCE: usize = 2048;

/// What changes between two sets of policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    /// The changes, in the order of their parties.
    pub changes: Vec<Change>,
    /// What was left out because it could not be read.
    pub left_out: Vec<UnknownReason>,
}

/// Connections with one change of outcome: each of `from` with each of `to`, except of a pod with itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The sources.
    pub from: Party,
    /// The destinations.
    pub to: Party,
    /// The IP family; None if both sides have connections of one family only, or the change is the same in both.
    pub family: Option<Family>,
    /// Ports of the destinations by protocol, as ranges with both ends included.
    pub traffic: Vec<(Protocol, PortRanges)>,
    /// The outcome with the first set.
    pub before: Outcome,
    /// The outcome with the second set.
    pub after: Outcome,
}

/// One side of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Party {
    /// Pods of a workload.
    Pods {
        /// The workload.
        workload: Workload,
        /// Their names.
        pods: Vec<Arc<str>>,
        /// Whether they are all pods of the workload.
        all: bool,
    },
    /// Nodes by name.
    Nodes(Vec<Arc<str>>),
    /// Addresses that are no pod's and no node's.
    Addresses(Vec<Cidr>),
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, items: &mut dyn Iterator<Item = &dyn fmt::Display>| {
            for (index, item) in items.enumerate() {
                write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
            }
            Ok(())
        };
        match self {
            Self::Pods { workload, all: true, .. } => workload.fmt(f),
            Self::Pods { workload, pods, all: false } => {
                write!(f, "{workload} (pods ")?;
                list(f, &mut pods.iter().map(|name| name as &dyn fmt::Display))?;
                f.write_str(")")
            }
            Self::Nodes(names) => {
                f.write_str("nodes ")?;
                list(f, &mut names.iter().map(|name| name as &dyn fmt::Display))
            }
            Self::Addresses(cidrs) => list(f, &mut cidrs.iter().map(|cidr| cidr as &dyn fmt::Display)),
        }
    }
}

impl Party {
    /// Workloads before nodes before addresses, each in the order of names.
    fn order(&self) -> (u8, String) {
        let kind = match self {
            Self::Pods { .. } => 0,
            Self::Nodes(_) => 1,
            Self::Addresses(_) => 2,
        };
        (kind, self.to_string())
    }
}

impl Change {
    fn order(&self) -> impl Ord + use<> {
        let traffic = (self.family, self.traffic.clone());
        (self.from.order(), self.to.order(), traffic, self.before, self.after)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {} ", self.from, self.to)?;
        for (index, (protocol, ranges)) in self.traffic.iter().enumerate() {
            write!(f, "{}{protocol} ", if index > 0 { "; " } else { "" })?;
            for (index, (first, last)) in ranges.iter().enumerate() {
                f.write_str(if index > 0 { "," } else { "" })?;
                if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }?;
            }
        }
        if let Some(family) = self.family {
            write!(f, " ({family})")?;
        }
        write!(f, ": {} -> {}", self.before, self.after)
    }
}

/// A change of a pair of ends for one class of ports in one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Step {
    family: Family,
    class: usize,
    before: Outcome,
    after: Outcome,
}

/// Lists of steps, shared by all pairs that have the same.
#[derive(Default)]
struct Steps {
    /// The list that is continued, and the step that is added to it; 0 is the empty list.
    lists: Vec<(usize, Step)>,
    ids: HashMap<(usize, Step), usize>,
}

impl Steps {
    fn extended(&mut self, list: usize, step: Step) -> usize {
        *self.ids.entry((list, step)).or_insert_with(|| {
            self.lists.push((list, step));
            self.lists.len()
        })
    }

    fn list(&self, mut id: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some((previous, step)) = id.checked_sub(1).and_then(|index| self.lists.get(index)) {
            steps.push(*step);
            id = *previous;
        }
        steps
    }
}

/// Ends that are reported together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Workload(usize),
    Nodes,
    Outside(Family),
}

/// The ends that are compared.
struct Ends<'a> {
    pods: Vec<&'a Pod>,
    workloads: Vec<Workload>,
    /// Of each pod, its workload.
    workload_of: Vec<usize>,
    /// Of each workload, how many pods it has.
    sizes: Vec<usize>,
    nodes: &'a [crate::cluster::Node],
    outside: Vec<AddressClass>,
}

impl<'a> Ends<'a> {
    fn end(&self, index: usize) -> End<'a> {
        match index.checked_sub(self.pods.len()) {
            None => End::Pod(self.pods[index]),
            Some(rest) => match rest.checked_sub(self.nodes.len()) {
                None => End::Node(&self.nodes[rest]),
                Some(class) => End::Outside(self.outside[class].representative()),
            },
        }
    }

    fn unit(&self, index: usize) -> Unit {
        match index.checked_sub(self.pods.len()) {
            None => Unit::Workload(self.workload_of[index]),
            Some(rest) => match rest.checked_sub(self.nodes.len()) {
                None => Unit::Nodes,
                Some(class) => Unit::Outside(self.outside[class].family),
            },
        }
    }

    fn len(&self) -> usize {
        self.pods.len() + self.nodes.len() + self.outside.len()
    }

    fn party(&self, unit: Unit, indexes: &[usize]) -> Party {
        match unit {
            Unit::Workload(workload) => {
                let mut pods: Vec<Arc<str>> =
                    indexes.iter().map(|&index| Arc::clone(&self.pods[index].name)).collect();
                pods.sort_unstable();
                let all = pods.len() == self.sizes[workload];
                Party::Pods { workload: self.workloads[workload].clone(), pods, all }
            }
            Unit::Nodes => {
                let nodes = indexes.iter().map(|index| &self.nodes[index - self.pods.len()]);
                let mut names: Vec<Arc<str>> = nodes.map(|node| Arc::clone(&node.name)).collect();
                names.sort_unstable();
                Party::Nodes(names)
            }
            Unit::Outside(family) => {
                let first = self.pods.len() + self.nodes.len();
                let ranges = indexes.iter().flat_map(|index| &self.outside[index - first].ranges).copied();
                Party::Addresses(to_cidrs(family, &join(ranges.collect())))
            }
        }
    }
}

/// Compares the connectivity that two sets of policies allow: of all pods with each other, with nodes and with addresses outside.
///
/// Nothing is sampled: ports and addresses are compared in classes that both sets treat alike.
///
/// # Errors
/// If pods could not be read.
pub fn diff(cluster: &Cluster, before: &View<'_>, after: &View<'_>) -> Result<Diff, UnknownReason> {
    let pods = match &cluster.pods {
        Known::Read(pods) => pods,
        Known::Unread(reason) => return Err(UnknownReason::Pods(Arc::clone(reason))),
    };
    let views = [before, after];
    let mut left_out = Vec::new();
    let nodes = match &cluster.nodes {
        Known::Read(nodes) => nodes.as_slice(),
        Known::Unread(reason) => {
            left_out.push(UnknownReason::Nodes(Arc::clone(reason)));
            &[]
        }
    };
    let families = families(cluster);
    let outside = families.iter().flat_map(|family| address_classes(&views, *family, &[whole(*family)]));
    let ends = ends(pods, nodes, outside.collect());
    let classes = port_classes(&views, pods);
    let (steps, rows) = compare(cluster, views, &ends, &families, &classes);
    let mut changes = group(&ends, &classes, &steps, &rows, families.len() > 1);
    changes.sort_by_cached_key(Change::order);
    Ok(Diff { changes, left_out })
}

fn ends<'a>(pods: &'a [Pod], nodes: &'a [crate::cluster::Node], outside: Vec<AddressClass>) -> Ends<'a> {
    let pods: Vec<&Pod> = pods.iter().filter(|pod| !pod.finished).collect();
    let of_pod: Vec<Workload> = pods.iter().map(|pod| Workload::of(pod)).collect();
    let mut workloads = of_pod.clone();
    workloads.sort_unstable();
    workloads.dedup();
    let workload_of: Vec<usize> =
        of_pod.iter().map(|workload| workloads.binary_search(workload).unwrap_or_default()).collect();
    let mut sizes = vec![0; workloads.len()];
    for workload in &workload_of {
        sizes[*workload] += 1;
    }
    Ends { pods, workloads, workload_of, sizes, nodes, outside }
}

/// For each source, the destinations with changes, as lists of steps.
type Rows = Vec<BTreeMap<usize, usize>>;

/// A pair of classes, and whether one end is on the node of the other.
type ClassPair = (usize, usize, bool);

/// Compares all pairs of ends: one pair of each two classes is evaluated, and stands for the others.
fn compare(
    cluster: &Cluster,
    views: [&View<'_>; 2],
    ends: &Ends<'_>,
    families: &[Family],
    classes: &[PortClass],
) -> (Steps, Rows) {
    let mut steps = Steps::default();
    let mut rows = vec![BTreeMap::new(); ends.len()];
    let evaluators = views.map(|view| Evaluator::new(cluster, view));
    for family in families {
        let (inside, outside): (Vec<usize>, Vec<usize>) = (0..ends.len())
            .filter(|index| ends.end(*index).has_family(*family))
            .partition(|index| !matches!(ends.unit(*index), Unit::Outside(_)));
        let mut chunks = outside.chunks(ADDRESS_CLASSES_AT_ONCE).collect::<Vec<_>>();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        for (chunk, outside) in chunks.into_iter().enumerate() {
            let indexes = [&inside, outside].concat();
            let here: Vec<End<'_>> = indexes.iter().map(|index| ends.end(*index)).collect();
            let alike = end_classes(&views, &here, *family);
            // Pairs inside of the cluster are compared with the first chunk.
            let is_compared = |source: &Class, destination: &Class| {
                let is_inside =
                    |class: &Class| class.members.first().is_some_and(|index| *index < inside.len());
                chunk == 0 || !is_inside(source) || !is_inside(destination)
            };
            let found =
                compare_classes(&evaluators, (&here, &alike), *family, classes, &mut steps, is_compared);
            spread(&here, &alike, &indexes, &found, &mut steps, &mut rows);
        }
    }
    (steps, rows)
}

/// The steps of each pair of classes.
fn compare_classes(
    evaluators: &[Evaluator<'_>; 2],
    (here, alike): (&[End<'_>], &[Class]),
    family: Family,
    classes: &[PortClass],
    steps: &mut Steps,
    is_compared: impl Fn(&Class, &Class) -> bool,
) -> BTreeMap<ClassPair, usize> {
    // Two of each class: the connection of an end to itself is another one than that to its like.
    let (mut reduced, mut class_of) = (Vec::new(), Vec::new());
    let mut firsts = Vec::new();
    for (class, Class { members, .. }) in alike.iter().enumerate() {
        firsts.push(reduced.len());
        for index in members.iter().take(2) {
            reduced.push(here[*index]);
            class_of.push(class);
        }
    }
    let mut found: BTreeMap<ClassPair, usize> = BTreeMap::new();
    let has_nodes = alike.iter().any(|class| class.is_on_node);
    for is_own in [false, true].into_iter().filter(|is_own| has_nodes || !is_own) {
        let compiled = evaluators
            .each_ref()
            .map(|evaluator| Compiled::new(evaluator, &reduced, family).with_own_nodes(is_own));
        for (class, PortClass { protocol, ranges }) in classes.iter().enumerate() {
            let Some((port, _)) = ranges.first() else { continue };
            let traffic = Traffic { protocol: *protocol, port: *port };
            let [before, after] = compiled.each_ref().map(|compiled| compiled.table(traffic));
            for (from, source) in firsts.iter().copied().enumerate() {
                for destination in before.differing(&after, source).iter() {
                    let to = class_of[destination];
                    // Of its own class, the second; of others, the first.
                    if destination != firsts[to] + usize::from(from == to)
                        || is_own && !may_be_own(&alike[from], &alike[to])
                        || !is_compared(&alike[from], &alike[to])
                    {
                        continue;
                    }
                    let step = Step {
                        family,
                        class,
                        before: before.outcome(source, destination),
                        after: after.outcome(source, destination),
                    };
                    let list = found.entry((from, to, is_own)).or_default();
                    *list = steps.extended(*list, step);
                }
            }
        }
    }
    found
}

/// Whether an end of one class may be on the node of an end of the other.
const fn may_be_own(one: &Class, other: &Class) -> bool {
    one.is_subject && other.is_on_node || one.is_on_node && other.is_subject
}

/// Adds the steps of pairs of classes to all pairs of their ends.
fn spread(
    here: &[End<'_>],
    alike: &[Class],
    indexes: &[usize],
    found: &BTreeMap<ClassPair, usize>,
    steps: &mut Steps,
    rows: &mut Rows,
) {
    // Lists that were continued, so that each is continued once.
    let mut continued: HashMap<(usize, usize), usize> = HashMap::new();
    for (&(from, to, is_own), &list) in found {
        let (sources, destinations) = (&alike[from].members, &alike[to].members);
        let may_be_own = may_be_own(&alike[from], &alike[to]);
        for &source in sources {
            let own = here[source].subject().and_then(|pod| pod.node.as_deref());
            for &destination in destinations {
                let is_pair_own = may_be_own
                    && (own.is_some_and(|node| here[destination].node() == Some(node))
                        || here[source].node().is_some_and(|node| {
                            here[destination].subject().is_some_and(|pod| pod.node.as_deref() == Some(node))
                        }));
                if source == destination || is_pair_own != is_own {
                    continue;
                }
                let row: &mut BTreeMap<usize, usize> = &mut rows[indexes[source]];
                let known = row.entry(indexes[destination]).or_default();
                *known = match *known {
                    0 => list,
                    before => *continued.entry((before, list)).or_insert_with(|| {
                        steps
                            .list(list)
                            .into_iter()
                            .rev()
                            .fold(before, |list, step| steps.extended(list, step))
                    }),
                };
            }
        }
    }
}

/// Sources by the destinations that they have a change with.
type Group = BTreeMap<Vec<usize>, Vec<usize>>;

/// Groups pairs of ends with the same changes.
fn group(
    ends: &Ends<'_>,
    classes: &[PortClass],
    steps: &Steps,
    rows: &[BTreeMap<usize, usize>],
    is_dual: bool,
) -> Vec<Change> {
    // For two units and a list of steps, the sources by the destinations that they have it with.
    let mut groups: BTreeMap<(Unit, Unit, usize), Group> = BTreeMap::new();
    for (source, row) in rows.iter().enumerate() {
        let mut destinations: BTreeMap<(Unit, usize), Vec<usize>> = BTreeMap::new();
        for (destination, list) in row {
            destinations.entry((ends.unit(*destination), *list)).or_default().push(*destination);
        }
        for ((unit, list), destinations) in destinations {
            let group = groups.entry((ends.unit(source), unit, list)).or_default();
            group.entry(destinations).or_default().push(source);
        }
    }
    let mut changes = Vec::new();
    for ((from, to, list), group) in groups {
        let by_outcome = traffic(classes, &steps.list(list));
        let is_within = from == to && matches!(from, Unit::Workload(_));
        for (sources, destinations) in rectangles(is_within, group) {
            for (before, after, families, traffic) in &by_outcome {
                let outside = [from, to].iter().any(|unit| matches!(unit, Unit::Outside(_)));
                let family = match families.as_slice() {
                    [family] if is_dual && !outside => Some(*family),
                    _ => None,
                };
                changes.push(Change {
                    from: ends.party(from, &sources),
                    to: ends.party(to, &destinations),
                    family,
                    traffic: traffic.clone(),
                    before: *before,
                    after: *after,
                });
            }
        }
    }
    changes
}

/// Sources with the destinations of each of them, as few as possible. A pod's connection to itself is in no group and belongs to any.
fn rectangles(is_within: bool, group: Group) -> Vec<(Vec<usize>, Vec<usize>)> {
    if !is_within {
        return group.into_iter().map(|(destinations, sources)| (sources, destinations)).collect();
    }
    let mut with_itself: Group = BTreeMap::new();
    for (destinations, sources) in group {
        for source in sources {
            let mut all = destinations.clone();
            let position = all.partition_point(|destination| *destination < source);
            all.insert(position, source);
            with_itself.entry(all).or_default().push(source);
        }
    }
    let mut rectangles = Vec::new();
    let mut alone: Group = BTreeMap::new();
    for (mut destinations, sources) in with_itself {
        if let [source] = sources.as_slice() {
            destinations.retain(|destination| destination != source);
            alone.entry(destinations).or_default().push(*source);
        } else {
            rectangles.push((sources, destinations));
        }
    }
    rectangles.extend(alone.into_iter().map(|(destinations, sources)| (sources, destinations)));
    rectangles
}

type Traffics = Vec<(Protocol, PortRanges)>;

/// The ports of a list of steps by outcomes, with families that have the same ports together.
fn traffic(classes: &[PortClass], steps: &[Step]) -> Vec<(Outcome, Outcome, Vec<Family>, Traffics)> {
    let mut ports: BTreeMap<(Outcome, Outcome, Family), BTreeMap<Protocol, PortRanges>> = BTreeMap::new();
    for step in steps {
        let PortClass { protocol, ranges } = &classes[step.class];
        let by_protocol = ports.entry((step.before, step.after, step.family)).or_default();
        by_protocol.entry(*protocol).or_default().extend(ranges);
    }
    let mut merged: Vec<(Outcome, Outcome, Vec<Family>, Traffics)> = Vec::new();
    for ((before, after, family), by_protocol) in ports {
        let traffic: Traffics =
            by_protocol.into_iter().map(|(protocol, ranges)| (protocol, join(ranges))).collect();
        let same =
            merged.iter_mut().find(|other| other.0 == before && other.1 == after && other.3 == traffic);
        match same {
            Some(other) => other.2.push(family),
            None => merged.push((before, after, vec![family], traffic)),
        }
    }
    merged
}
