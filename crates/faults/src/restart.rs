//! Restarts of the server: its built-in controllers, killed after every write.
//!
//! The built-in controllers write in the process of the server, without HTTP: no response of theirs gets lost, they follow the store
//! itself and no cache, and what they decide is decided again on the object as it is stored. What remains is that the process ends
//! between two writes, with all that it had in memory. A start on the objects as they were then is just that.

use std::future::{Pending, pending};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use crate::base::{self, Base, ExploreError};
use crate::cluster::Cluster;
use crate::context::Context;
use crate::control::Control;
use crate::explore::{Failed, in_parallel};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::{Failure, Report};
use crate::run::{Run, Setting};
use crate::scenario::Scenario;
use crate::schedule::{Fault, Schedule};
use crate::start::Start;
use crate::world::World;

type Idle<W> = fn(Context<W>) -> Pending<()>;

/// Runs a scenario with the server's [built-in controllers](Scenario::controllers), and again from each of its writes on, as if the server
/// had been killed there and had started again; and each of these runs again in the same way, as far as [`Options::schedules`] go.
///
/// # Errors
/// As [`explore`](crate::explore).
pub fn explore_server<W: World>(scenario: &Scenario<W>, options: &Options) -> Result<Report, ExploreError> {
    let begin = Instant::now();
    let base = Base::new(scenario, options.seed)?;
    let idle: Idle<W> = |_| pending();
    let setting = Setting { base: &base, scenario: Arc::new(scenario.clone()), controller: &idle, options };
    let runtime = base::runtime()?;
    let (origin, golden) = runtime.block_on(async {
        let start = base.start(options.seed)?;
        let begun = Begun { cluster: start.cluster.clone(), first: start.server.revision(), edits_done: 0 };
        let (control, golden) = setting.run_from(start, &Schedule::default(), None, true).await;
        Ok::<_, ExploreError>((begun.ended(control), golden))
    })?;
    let writes = origin.writes();
    let revisions: Vec<u64> = origin.revisions().collect();
    // Each restart has the same number of others after it.
    let followers = options.schedules.saturating_sub(writes + 1) / writes.max(1);
    let followers = if options.pairs { followers } else { 0 };
    let runs = in_parallel(options.threads, &revisions, |revision| {
        base::runtime()?.block_on(restart(&setting, &origin, *revision, &golden.outcomes, followers))
    })?;
    let runs: Vec<(Schedule, Run)> = runs.into_iter().flatten().collect();
    let schedules = runs.len() + 1;
    let mut failed = Failed::default();
    let all = || [(Schedule::default(), golden.clone())].into_iter().chain(runs.iter().cloned());
    for (schedule, run) in all() {
        failed.add(&schedule, &run);
    }
    let mut failures = Vec::new();
    for (check, schedule) in failed.0.into_iter().take(options.max_failures) {
        let run = all().find(|(known, _)| *known == schedule).map(|(_, run)| run).unwrap_or_default();
        let violation = run.violations.iter().find(|violation| violation.check == check);
        failures.extend(violation.cloned().map(|violation| Failure {
            violation,
            schedule,
            seed: options.seed,
            trace: run.trace.clone(),
        }));
    }
    let (scenario, elapsed) = (scenario.name.clone(), begin.elapsed());
    Ok(Report { scenario, writes, schedules, possible: schedules, elapsed, failures })
}

/// A run after whose writes other runs start.
struct Origin<W: World> {
    control: Arc<Control<W>>,
    /// The objects when it began, and the revision.
    cluster: Cluster,
    first: u64,
    edits_done: usize,
    /// When it ended.
    end: Timestamp,
}

/// Initial state of the run.
struct Begun {
    cluster: Cluster,
    first: u64,
    edits_done: usize,
}

impl<W: World> Origin<W> {
    fn revisions(&self) -> impl Iterator<Item = u64> {
        self.first + 1..=self.control.server.revision()
    }

    fn writes(&self) -> usize {
        self.revisions().count()
    }

    /// The state after a write. Must be called within a runtime.
    fn state(&self, revision: u64, seed: u64) -> Result<Start, ExploreError> {
        let server = &self.control.server;
        let (fork, clock) = base::fork(server, Some(revision), self.end, seed)?;
        let mut cluster = self.cluster.clone();
        let changes = server.changes_after(self.first).unwrap_or_default();
        for change in changes.into_iter().filter(|change| change.revision <= revision) {
            cluster.apply(change);
        }
        // Users repeat what they had no answer to.
        let made = self.control.inner().edited.iter().filter(|answered| **answered <= revision).count();
        let (kinds, edits_done) = (self.control.kinds.clone(), self.edits_done + made);
        Ok(Start { server: fork, clock, cluster, kinds, edits_done })
    }
}

/// Kills the server after a write, and again after some of those that follow.
async fn restart<W: World>(
    setting: &Setting<'_, W, Idle<W>>,
    origin: &Origin<W>,
    revision: u64,
    expected: &[Option<Outcome>],
    followers: usize,
) -> Result<Vec<(Schedule, Run)>, ExploreError> {
    let seed = setting.options.seed;
    let at = |origin: u64, revision: u64| usize::try_from(revision - origin).unwrap_or(usize::MAX);
    let schedule = Schedule::single(at(origin.first, revision), Fault::Restart);
    let start = origin.state(revision, seed)?;
    let begun = Begun { cluster: start.cluster.clone(), first: revision, edits_done: start.edits_done };
    let (control, run) = setting.run_from(start, &schedule, Some(expected), true).await;
    let failed = !run.violations.is_empty();
    let mut runs = vec![(schedule.clone(), run)];
    let again = begun.ended(control);
    let most = if failed { 0 } else { followers.min(again.writes()) };
    for index in 0..most {
        // Spread evenly over the writes.
        let write = again.first + 1 + u64::try_from(index * again.writes() / most).unwrap_or_default();
        let start = again.state(write, seed)?;
        let schedule = schedule.clone().and(at(origin.first, write), Fault::Restart);
        let (_, run) = setting.run_from(start, &schedule, Some(expected), true).await;
        runs.push((schedule, run));
    }
    Ok(runs)
}

impl Begun {
    fn ended<W: World>(self, control: Arc<Control<W>>) -> Origin<W> {
        let Self { cluster, first, edits_done } = self;
        let end = control.now();
        Origin { control, cluster, first, edits_done, end }
    }
}
