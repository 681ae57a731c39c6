//! Exploration: enumerates schedules, runs them on all threads, and shrinks failing ones.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::base::{Base, ExploreError};
use crate::checks::{Check, Violation};
use crate::context::Context;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::report::{Failure, Report};
use crate::run::{Run, Setting};
use crate::scenario::Scenario;
use crate::schedule::{Edits, Fault, Injection, Place, Schedule};
use crate::world::World;

/// Runs a controller with a scenario under every fault at every write, and under pairs of them.
///
/// The controller is a function that is called for each of its starts, and runs until it is dropped. It has no memory between starts but
/// the cluster and the [external system](Context::external).
///
/// # Errors
/// The server does not start, or refuses an object of the scenario. What the controller does wrong is in the report.
pub fn explore<W, C, F>(
    controller: C,
    scenario: &Scenario<W>,
    options: &Options,
) -> Result<Report, ExploreError>
where
    W: World,
    C: Fn(Context<W>) -> F + Sync,
    F: Future,
{
    let begin = Instant::now();
    let base = Base::new(scenario, options.seed)?;
    let setting =
        Setting { base: &base, scenario: Arc::new(scenario.clone()), controller: &controller, options };
    let golden = setting.run(&Schedule::default(), None, false)?;
    let mut report = Report {
        scenario: scenario.name.clone(),
        writes: golden.writes,
        schedules: 1,
        possible: 1,
        elapsed: begin.elapsed(),
        failures: Vec::new(),
    };
    let mut failed = Failed::default();
    failed.add(&Schedule::default(), &golden);
    // What fails without faults would fail with any, and hide what they do.
    if failed.0.is_empty() {
        let again = setting.run(&Schedule::default(), Some(&golden.outcomes), false)?;
        report.schedules += 1;
        report.possible += 1;
        if again.writes != golden.writes {
            let message = format!("{} writes the first time, {} the second", golden.writes, again.writes);
            failed.insert(Violation::new(Check::Determinism, message), Schedule::default());
        }
        failed.add(&Schedule::default(), &again);
        explore_faults(&setting, &golden, &mut report, &mut failed)?;
    }
    for (check, schedule) in failed.0.into_iter().take(options.max_failures) {
        report.failures.push(setting.shrink(check, schedule, &golden.outcomes)?);
    }
    report.elapsed = begin.elapsed();
    Ok(report)
}

/// Runs one schedule in the format of a failure, and returns its failures with their traces.
///
/// # Errors
/// As [`explore`].
pub fn replay<W, C, F>(
    controller: C,
    scenario: &Scenario<W>,
    schedule: &Schedule,
    options: &Options,
) -> Result<Vec<Failure>, ExploreError>
where
    W: World,
    C: Fn(Context<W>) -> F + Sync,
    F: Future,
{
    let base = Base::new(scenario, options.seed)?;
    let setting =
        Setting { base: &base, scenario: Arc::new(scenario.clone()), controller: &controller, options };
    let golden = setting.run(&Schedule::default(), None, false)?;
    let run = setting.run(schedule, Some(&golden.outcomes), true)?;
    let failure = |violation| Failure {
        violation,
        schedule: schedule.clone(),
        seed: options.seed,
        trace: run.trace.clone(),
    };
    Ok(run.violations.iter().cloned().map(failure).collect())
}

/// By check: the first schedule that fails, in the order of schedules.
#[derive(Default)]
pub(crate) struct Failed(pub(crate) BTreeMap<Check, Schedule>);

impl Failed {
    pub(crate) fn add(&mut self, schedule: &Schedule, run: &Run) {
        for violation in &run.violations {
            self.insert(violation.clone(), schedule.clone());
        }
    }

    fn insert(&mut self, violation: Violation, schedule: Schedule) {
        let simplicity = |schedule: &Schedule| (schedule.injections.len(), schedule.clone());
        let known = self.0.entry(violation.check).or_insert_with(|| schedule.clone());
        if simplicity(&schedule) < simplicity(known) {
            *known = schedule;
        }
    }
}

fn explore_faults<W, C, F>(
    setting: &Setting<'_, W, C>,
    golden: &Run,
    report: &mut Report,
    failed: &mut Failed,
) -> Result<(), ExploreError>
where
    W: World,
    C: Fn(Context<W>) -> F + Sync,
    F: Future,
{
    let options = setting.options;
    let edits = setting.scenario.edits.len();
    let faults = injectable(&options.faults, golden);
    let singles: Vec<Schedule> = collapsed(edits).chain(faults_of(golden, &faults).map(single)).collect();
    report.possible += singles.len();
    let singles = share(singles, options.schedules, options.seed);
    let runs = setting.run_all(&singles, &golden.outcomes)?;
    report.schedules += singles.len();
    let mut pairs = Vec::new();
    for (schedule, run) in singles.iter().zip(&runs) {
        failed.add(schedule, run);
        // What fails alone fails in company.
        if run.violations.is_empty() && options.pairs {
            let first = schedule.injections.first();
            let seconds = faults_of(run, &faults);
            let after = seconds.filter(|second| first.is_none_or(|first| second > first));
            pairs.extend(after.map(|second| schedule.clone().with(second)));
        }
    }
    report.possible += pairs.len();
    let pairs = share(pairs, options.schedules.saturating_sub(singles.len()), options.seed);
    let runs = setting.run_all(&pairs, &golden.outcomes)?;
    report.schedules += pairs.len();
    for (schedule, run) in pairs.iter().zip(&runs) {
        failed.add(schedule, run);
    }
    Ok(())
}

fn single(injection: Injection) -> Schedule {
    Schedule::default().with(injection)
}

/// The faults that can affect a controller, according to its run without faults.
fn injectable(faults: &[Fault], golden: &Run) -> Vec<Fault> {
    let watches = u32::try_from(golden.watches).unwrap_or(u32::MAX);
    let mut injectable = Vec::new();
    for fault in faults {
        match *fault {
            // Same as `Stale`.
            Fault::StaleWatch { .. } if watches < 2 => {}
            Fault::StaleWatch { watch: 0, events } => {
                injectable.extend((1..=watches).map(|watch| Fault::StaleWatch { watch, events }));
            }
            Fault::StaleWatch { watch, .. } if watch > watches => {}
            // Consistent lists are never stale.
            Fault::StaleList(_) if !golden.cached_lists => {}
            fault => injectable.push(fault),
        }
    }
    injectable
}

/// All faults at all writes of a run, in order.
fn faults_of(run: &Run, faults: &[Fault]) -> impl Iterator<Item = Injection> {
    let mut places: Vec<Place> = (1..=run.writes).map(Place::of_write).collect();
    places.extend(&run.auxiliary);
    places.sort_unstable();
    places.into_iter().flat_map(move |place| {
        let befalls = move |fault: &&Fault| place.auxiliary == 0 || fault.befalls_auxiliary();
        faults.iter().filter(befalls).map(move |fault| Injection { place, fault: *fault })
    })
}

/// All variants in which some edits are made at once.
fn collapsed(edits: usize) -> impl Iterator<Item = Schedule> {
    let ranges = (1..=edits).flat_map(move |first| (first..=edits).map(move |last| (first, last)));
    ranges.flat_map(|(first, last)| {
        let together = (first < last).then_some(Edits::Together { first, last });
        let edits = together.into_iter().chain([Edits::Unobserved { first, last }]);
        edits.map(|edits| Schedule { edits, injections: Vec::new() })
    })
}

/// A sample of this size, which depends on the seed; in order.
fn share(schedules: Vec<Schedule>, most: usize, seed: u64) -> Vec<Schedule> {
    if schedules.len() <= most {
        return schedules;
    }
    let mut state = seed;
    let mut indexes: Vec<usize> = (0..schedules.len()).collect();
    let mut chosen = BTreeSet::new();
    for index in 0..most {
        let left = u64::try_from(indexes.len() - index).unwrap_or(u64::MAX);
        let other = index + usize::try_from(next(&mut state) % left).unwrap_or_default();
        indexes.swap(index, other);
        chosen.insert(indexes[index]);
    }
    let wanted = |(index, schedule)| chosen.contains(&index).then_some(schedule);
    schedules.into_iter().enumerate().filter_map(wanted).collect()
}

/// splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Maps items on this many threads; results are in the order of the items.
pub(crate) fn in_parallel<I: Sync, T: Send>(
    threads: usize,
    items: &[I],
    work: impl Fn(&I) -> Result<T, ExploreError> + Sync,
) -> Result<Vec<T>, ExploreError> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::default();
    let run = || -> Result<(), ExploreError> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return Ok(()) };
            let result = work(item)?;
            done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(run)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|payload| resume_unwind(payload)))
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

impl<W, C, F> Setting<'_, W, C>
where
    W: World,
    C: Fn(Context<W>) -> F + Sync,
    F: Future,
{
    /// Runs schedules on all threads; results are in the order of the schedules.
    fn run_all(
        &self,
        schedules: &[Schedule],
        expected: &[Option<Outcome>],
    ) -> Result<Vec<Run>, ExploreError> {
        in_parallel(self.options.threads, schedules, |schedule| {
            let mut run = self.run(schedule, Some(expected), false)?;
            run.outcomes.clear();
            Ok(run)
        })
    }

    /// The smallest schedule that still fails the check, with its trace.
    fn shrink(
        &self,
        check: Check,
        mut schedule: Schedule,
        expected: &[Option<Outcome>],
    ) -> Result<Failure, ExploreError> {
        'smaller: loop {
            for simpler in schedule.simpler() {
                let run = self.run(&simpler, Some(expected), false)?;
                if run.violations.iter().any(|violation| violation.check == check) {
                    schedule = simpler;
                    continue 'smaller;
                }
            }
            break;
        }
        let run = self.run(&schedule, Some(expected), true)?;
        let found = run.violations.iter().find(|violation| violation.check == check).cloned();
        let violation = found.unwrap_or_else(|| {
            Violation::new(check, "it does not fail each time: the controller depends on chance")
        });
        Ok(Failure { violation, schedule, seed: self.options.seed, trace: run.trace })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_collapse_in_all_ways() {
        let texts: Vec<String> = collapsed(2).map(|schedule| schedule.to_string()).collect();
        let wanted = [
            "edits=unobserved(1-1)",
            "edits=together(1-2)",
            "edits=unobserved(1-2)",
            "edits=unobserved(2-2)",
        ];
        assert_eq!(texts, wanted);
    }

    #[test]
    fn faults_are_those_that_make_a_difference() {
        let run = Run {
            writes: 2,
            auxiliary: vec![Place { write: 0, auxiliary: 1 }, Place { write: 1, auxiliary: 2 }],
            watches: 2,
            cached_lists: true,
            ..Run::default()
        };
        let faults =
            [Fault::StaleList(1), Fault::StaleWatch { watch: 0, events: 1 }, Fault::CrashBefore, Fault::Edit];
        let text = |run: &Run| {
            let faults = injectable(&faults, run);
            faults_of(run, &faults).map(|fault| fault.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            text(&run),
            "crash-before@0.1 \
             stale-list(1)@1 stale-watch(1,1)@1 stale-watch(2,1)@1 crash-before@1 edit@1 \
             crash-before@1.2 \
             stale-list(1)@2 stale-watch(1,1)@2 stale-watch(2,1)@2 crash-before@2 edit@2"
        );
        let plain = Run { writes: 1, watches: 1, ..Run::default() };
        assert_eq!(text(&plain), "crash-before@1 edit@1");
    }

    #[test]
    fn a_share_is_the_same_for_a_seed() {
        let run = Run { writes: 20, ..Run::default() };
        let faults = injectable(&Fault::ALL, &run);
        let all: Vec<Schedule> = faults_of(&run, &faults).map(single).collect();
        // Without cached lists, and with one watch: the ten faults that befall all controllers.
        assert_eq!(all.len(), 200);
        let some = share(all.clone(), 50, 7);
        assert_eq!(some.len(), 50);
        assert!(some.is_sorted() && some == share(all.clone(), 50, 7) && some != share(all.clone(), 50, 8));
        assert_eq!(share(all.clone(), 200, 7), all);
    }
}
