//! Connectivity of all pods with each other on one port, by pod and by workload.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::classes::families;
use super::connection::Evaluator;
use super::matching::{End, Traffic};
use super::outcome::{Outcome, UnknownReason};
use super::table::{Compiled, Table};
use super::workload::Workload;
use crate::cluster::{Known, Pod};
use crate::model::{Family, Protocol};

/// Outcomes between all pods on one port. Finished pods are left out.
pub struct Matrix<'a> {
    pods: Vec<&'a Pod>,
    tables: Vec<(Family, Table)>,
}

/// Outcomes between two workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The source.
    pub from: Workload,
    /// The destination.
    pub to: Workload,
    /// How many connections are allowed; pods with themselves are not counted.
    pub allowed: usize,
    /// How many are denied.
    pub denied: usize,
    /// Of how many it is unknown.
    pub unknown: usize,
}

impl Cell {
    /// The outcome, if it is the same for all connections.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        match (self.allowed, self.denied, self.unknown) {
            (1.., 0, 0) => Some(Outcome::Allowed),
            (0, 1.., 0) => Some(Outcome::Denied),
            (0, 0, 1..) => Some(Outcome::Unknown),
            _ => None,
        }
    }
}

impl<'a> Evaluator<'a> {
    /// Evaluates the connections between all pods on one port.
    ///
    /// # Errors
    /// If pods could not be read.
    pub fn all_pairs(&self, protocol: Protocol, port: u16) -> Result<Matrix<'a>, UnknownReason> {
        let pods = match &self.cluster().pods {
            Known::Read(pods) => pods.iter().filter(|pod| !pod.finished).collect::<Vec<_>>(),
            Known::Unread(reason) => return Err(UnknownReason::Pods(Arc::clone(reason))),
        };
        let ends: Vec<End<'_>> = pods.iter().map(|pod| End::Pod(pod)).collect();
        let tables = families(self.cluster()).into_iter().map(|family| {
            let compiled = Compiled::new(self, &ends, family);
            (family, compiled.table(Traffic { protocol, port }))
        });
        let tables = tables.collect();
        Ok(Matrix { pods, tables })
    }
}

impl<'a> Matrix<'a> {
    /// The pods, in the order of indexes.
    #[must_use]
    pub fn pods(&self) -> &[&'a Pod] {
        &self.pods
    }

    /// The families in which the cluster has pods.
    pub fn families(&self) -> impl Iterator<Item = Family> + '_ {
        self.tables.iter().map(|(family, _)| *family)
    }

    /// The outcome between two pods by index; None if they do not both have the family.
    #[must_use]
    pub fn outcome(&self, family: Family, source: usize, destination: usize) -> Option<Outcome> {
        let (_, table) = self.tables.iter().find(|(other, _)| *other == family)?;
        let has_family =
            |index: usize| self.pods.get(index).is_some_and(|pod| End::Pod(pod).has_family(family));
        (has_family(source) && has_family(destination)).then(|| table.outcome(source, destination))
    }

    /// The outcomes by workload, each family counted on its own, in the order of names. Pairs without connections are left out.
    #[must_use]
    pub fn by_workload(&self) -> Vec<Cell> {
        let workloads: Vec<Workload> = self.pods.iter().map(|pod| Workload::of(pod)).collect();
        let mut names: Vec<&Workload> = workloads.iter().collect();
        names.sort_unstable();
        names.dedup();
        let of_pod: Vec<usize> =
            workloads.iter().map(|workload| names.binary_search(&workload).unwrap_or_default()).collect();
        let mut counts: BTreeMap<(usize, usize), [usize; 3]> = BTreeMap::new();
        for family in self.families().collect::<Vec<_>>() {
            for (source, from) in of_pod.iter().enumerate() {
                for (destination, to) in of_pod.iter().enumerate() {
                    if source == destination {
                        continue;
                    }
                    let Some(outcome) = self.outcome(family, source, destination) else { continue };
                    let count = counts.entry((*from, *to)).or_default();
                    count[outcome as usize] += 1;
                }
            }
        }
        let cells = counts.into_iter().map(|((from, to), [allowed, denied, unknown])| Cell {
            from: names[from].clone(),
            to: names[to].clone(),
            allowed,
            denied,
            unknown,
        });
        cells.collect()
    }
}
