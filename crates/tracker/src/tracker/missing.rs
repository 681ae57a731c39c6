//! Missing objects: whether a name is mistyped, or its namespace does not exist.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use settled_manifest::ListItems;
use settled_watch::{Cluster, PARTIAL_LIST, Resource, Verb, encode};
use tokio::time::Instant;

use super::{Answer, Tracker};
use crate::condition::WaitCondition;
use crate::id::ObjectId;
use crate::ids::TargetId;
use crate::report::State;

/// How long an object may not exist before its name is doubted: it may be about to be created.
const MISSING_AFTER: Duration = Duration::from_secs(3);
/// Of how many objects the names are doubted.
const ABSENT_MAX: usize = 5;
/// How many names are read to find a similar one.
const NAMES_MAX: usize = 500;
/// How many similar names a notice has.
const SIMILAR_MAX: usize = 3;
/// How long all of it may take.
const FIND_MAX: Duration = Duration::from_secs(2);

/// What is known of named objects that don't exist.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// Targets that were named by type and name, and may be mistyped.
    pub(super) named: Vec<TargetId>,
    asked: bool,
    synced: Option<Instant>,
}

/// An object that does not exist, and its kind.
pub(super) type Absent = (ObjectId, Arc<Resource>);

/// What was found out about absent objects.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

#[derive(Debug)]
struct Finding {
    object: ObjectId,
    similar: Vec<String>,
    /// It can't exist: its namespace does not.
    no_namespace: bool,
}

impl Tracker {
    /// When the names of objects that don't exist are to be doubted.
    pub(super) fn missing_at(&self) -> Option<Instant> {
        let waits = self.limits.timeout.is_none_or(|timeout| !timeout.is_zero()) && !self.surveying;
        let at = self.missing.synced.filter(|_| waits && !self.missing.asked)? + MISSING_AFTER;
        Some(at).filter(|_| !self.missing.named.is_empty())
    }

    /// All was read once.
    pub(super) fn count_missing_from(&mut self, synced: Instant) {
        self.missing.synced = Some(synced);
    }

    pub(super) fn has_asked_for_missing(&self) -> bool {
        self.missing.asked
    }

    /// Named objects that a complete answer did not have.
    pub(super) fn absentees(&self) -> Vec<Absent> {
        let expected =
            |wanted: &WaitCondition| wanted.waits_for_absence() || matches!(wanted, WaitCondition::Create);
        if self.limits.missing == crate::limits::Missing::Done
            || self.evaluator.conditions().iter().any(expected)
        {
            return Vec::new();
        }
        let absent = self.missing.named.iter().filter_map(|number| {
            let target = self.targets.get(*number)?;
            let open = matches!(self.policy.state(*number), Some(State::Waiting | State::Failed));
            let read = self.streams.get(target.stream?.0)?.seen;
            let absent = open && read && target.last.is_none() && self.graph.get(&target.id).is_none();
            absent.then_some((target.id.clone(), target.kind.clone()?))
        });
        absent.take(ABSENT_MAX).collect()
    }

    pub(super) fn ask_for_missing(&mut self) {
        self.missing.asked = true;
        let absent = self.absentees();
        if absent.is_empty() {
            return;
        }
        let (cluster, to) = (self.cluster.clone(), self.answer_to.clone());
        tokio::spawn(async move {
            let _gone = to.send(Answer::Missing(find(&cluster, absent).await)).await;
        });
    }

    /// The same, for a look at one moment.
    pub(super) async fn find_missing(&mut self) {
        self.missing.asked = true;
        let findings = find(&self.cluster, self.absentees()).await;
        self.notify_missing(findings);
    }

    pub(super) fn notify_missing(&mut self, findings: Findings) {
        // A look has said already that it is not there; a wait has not.
        let waits = self.missing_at().is_some() || self.missing.asked && !self.surveying;
        for Finding { object, similar, no_namespace } in findings.0 {
            if no_namespace {
                self.notify(format!("namespace \"{}\" does not exist", object.namespace), None);
                continue;
            }
            if similar.is_empty() && !waits || self.graph.get(&object).is_some() {
                continue;
            }
            let mut message = format!("no {object}");
            if !object.namespace.is_empty() {
                message.push_str(&format!(" in namespace {}", object.namespace));
            }
            if !similar.is_empty() {
                let names: Vec<String> = similar.iter().map(|name| format!("\"{name}\"")).collect();
                message.push_str(&format!("; there is {}", names.join(", ")));
            }
            let ends = waits && self.limits.missing == crate::limits::Missing::Auto;
            self.notify(message, ends.then(|| "--on-missing=fail ends at once".to_owned()));
        }
    }
}

/// Finds out about absent objects what a few small requests can tell.
pub(super) async fn find(cluster: &Cluster, absent: Vec<Absent>) -> Findings {
    let all = absent.into_iter().map(|absent| find_one(cluster, absent));
    let found = tokio::time::timeout(FIND_MAX, futures::future::join_all(all)).await;
    Findings(found.unwrap_or_default())
}

async fn find_one(cluster: &Cluster, (object, resource): Absent) -> Finding {
    let namespace = Some(&*object.namespace).filter(|namespace| !namespace.is_empty());
    let path = format!("{}?limit={NAMES_MAX}", resource.path(namespace, None));
    let mut names = Vec::new();
    if let Ok(list) = cluster.fetch(Verb::List, Method::GET, &path, PARTIAL_LIST, None).await {
        let each = |item: &[u8]| {
            names.extend(kstatus::Object::parse(item).ok().and_then(|o| Some(o.name()?.into_owned())));
        };
        // Names that cannot be read are not similar.
        ListItems::default().push(&list, each).ok();
    }
    let mut no_namespace = false;
    if let Some(namespace) = namespace.filter(|_| names.is_empty()) {
        let asked = cluster.get(Verb::Get, &format!("/api/v1/namespaces/{}", encode(namespace))).await;
        no_namespace = asked.is_err_and(|error| error.is_not_found());
    }
    let similar = similar(&object.name, names);
    Finding { object, similar, no_namespace }
}

/// The names that may have been meant, the most similar first.
fn similar(name: &str, names: Vec<String>) -> Vec<String> {
    let most = (name.chars().count() / 3).clamp(1, 3);
    let rank = |other: String| {
        let distance = match other.strip_prefix(name) {
            // A Pod is called after its workload.
            Some(rest) if rest.starts_with('-') => most,
            _ => distance(name, &other),
        };
        (distance <= most).then_some((distance, other))
    };
    let mut found: Vec<(usize, String)> = names.into_iter().filter_map(rank).collect();
    found.sort_unstable();
    found.into_iter().take(SIMILAR_MAX).map(|(_, name)| name).collect()
}

/// How many letters are to be added, removed, changed or swapped with their neighbor.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, a) in one.iter().enumerate() {
        let mut present = vec![row + 1];
        for (column, b) in other.iter().enumerate() {
            let mut least = last[column] + usize::from(a != b);
            least = least.min(last[column + 1] + 1).min(present[column] + 1);
            let swapped = row > 0 && column > 0 && *a == other[column - 1] && one[row - 1] == *b;
            if swapped {
                least = least.min(before[column - 1] + 1);
            }
            present.push(least);
        }
        before = std::mem::replace(&mut last, present);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_similar_that_are_a_slip_away() {
        let check = |name: &str, names: &[&str], expected: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(similar(name, names), expected, "{name}");
        };
        check("wbe", &["web", "db", "worker"], &["web"]);
        check("checkout", &["chekout", "checkout-v2", "check"], &["chekout", "checkout-v2"]);
        check("web", &["frontend"], &[]);
        check("web", &["web-5d9-x", "webhook"], &["web-5d9-x"]);
        check("a", &["b", "abc", "a1"], &["a1", "b"]);
        check("web", &[], &[]);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abcdef", "abcdef"), 0);
    }
}
