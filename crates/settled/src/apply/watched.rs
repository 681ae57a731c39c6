//! The wait after an apply, which notices when other field managers change what was applied.

use std::collections::{HashMap, VecDeque};

use settled_tracker::apply::AppliedState;
use settled_tracker::report::{ForeignChange, Notice, Snapshot};
use settled_tracker::{Cluster, Event, ObjectId, Report, TargetReport, Tracker};

use crate::progress::Source;

/// A tracker whose targets were just applied.
pub(crate) struct Watched {
    tracker: Tracker,
    cluster: Cluster,
    states: HashMap<ObjectId, AppliedState>,
    /// Up to which generation each target was examined.
    examined: HashMap<ObjectId, i64>,
    changes: Vec<ForeignChange>,
    notices: Vec<Notice>,
    /// The event that is being examined. It stays until that is over, because a call may be given up.
    held: Option<Event>,
    ready: VecDeque<Event>,
}

impl Watched {
    pub(crate) fn new(tracker: Tracker, cluster: Cluster, states: Vec<AppliedState>) -> Self {
        let states = states.into_iter().map(|state| (state.object.clone(), state)).collect();
        Self {
            tracker,
            cluster,
            states,
            examined: HashMap::new(),
            changes: Vec::new(),
            notices: Vec::new(),
            held: None,
            ready: VecDeque::new(),
        }
    }

    /// The targets of an event that have another generation than the one that was applied.
    fn suspects(&self, event: &Event) -> Vec<(ObjectId, i64)> {
        let targets: &[TargetReport] = match event {
            Event::Target(target) => std::slice::from_ref(target),
            Event::Finished(report) => &report.targets,
            _ => &[],
        };
        let suspect = |target: &TargetReport| {
            let generation = target.verdict.generation?;
            let applied = self.states.get(&target.object)?.generation;
            let examined = self.examined.get(&target.object).copied().unwrap_or(applied);
            (generation > examined).then(|| (target.object.clone(), generation))
        };
        targets.iter().filter_map(suspect).collect()
    }

    async fn examine(&mut self, object: ObjectId, generation: i64) {
        let Some(state) = self.states.get(&object) else { return };
        let notice = match state.change(&self.cluster).await {
            Ok(None) => None,
            Ok(Some(change)) => {
                let known = |known: &ForeignChange| {
                    (&known.object, &known.managers, &known.fields)
                        == (&change.object, &change.managers, &change.fields)
                };
                let is_known = self.changes.iter().any(known);
                let message = change.to_string();
                self.changes.retain(|earlier| !known(earlier));
                self.changes.push(change);
                (!is_known).then_some(message)
            }
            Err(error) => Some(format!(
                "{}/{} was changed during the wait (generation {} -> {generation}); who did it cannot be read: {error}",
                object.kind, object.name, state.generation
            )),
        };
        self.examined.insert(object, generation);
        if let Some(message) = notice {
            let remedy = Some("apply again to restore the values of the manifest, or show field owners with kubectl get --show-managed-fields -o yaml".to_owned());
            let notice = Notice { message, remedy };
            self.notices.push(notice.clone());
            self.ready.push_back(Event::Notice(notice));
        }
    }
}

impl Source for Watched {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.held.is_none() {
                self.held = Some(self.tracker.next().await?);
            }
            let suspects = self.held.as_ref().map(|event| self.suspects(event)).unwrap_or_default();
            for (object, generation) in suspects {
                self.examine(object, generation).await;
            }
            match self.held.take()? {
                Event::Finished(mut report) => {
                    report.changed_by_others.append(&mut self.changes);
                    report.notices.append(&mut self.notices);
                    self.ready.push_back(Event::Finished(report));
                }
                event => self.ready.push_back(event),
            }
        }
    }

    fn snapshot(&self, limit: usize) -> Snapshot {
        self.tracker.snapshot(limit)
    }

    fn interrupt(&mut self) {
        self.tracker.interrupt();
    }
}

/// A wait that is over.
pub(super) struct Finished {
    report: Option<Report>,
    snapshot: Snapshot,
}

impl Finished {
    pub(super) fn new(report: Report, snapshot: Snapshot) -> Self {
        Self { report: Some(report), snapshot }
    }
}

impl Source for Finished {
    async fn next(&mut self) -> Option<Event> {
        self.report.take().map(Event::Finished)
    }

    fn snapshot(&self, _limit: usize) -> Snapshot {
        self.snapshot.clone()
    }

    fn interrupt(&mut self) {}
}
