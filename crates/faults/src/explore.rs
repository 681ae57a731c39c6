//! Exploration: enumerates schedules, runs them on all threads, and shrinks what fails.

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
use crate::schedule::{Edits, Fault, Injection, Schedule};
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

/// Runs one schedule, as a failure prints it: what fails, each with its trace.
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
    let singles: Vec<Schedule> =
        collapsed(edits).chain(faults_from(1, golden.writes, &options.faults).map(single)).collect();
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
            let from = first.map_or(1, |injection| injection.write);
            let seconds = faults_from(from, run.writes, &options.faults);
            let after = seconds.filter(|second| first.is_none_or(|first| second > first));
            pairs.extend(after.map(|second| schedule.clone().and(second.write, second.fault)));
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
    Schedule::single(injection.write, injection.fault)
}

/// All faults at all writes from one up to another.
fn faults_from(first: usize, last: usize, faults: &[Fault]) -> impl Iterator<Item = Injection> {
    (first..=last).flat_map(move |write| faults.iter().map(move |fault| Injection { write, fault: *fault }))
}

/// All ways in which some of the edits come at once.
fn collapsed(edits: usize) -> impl Iterator<Item = Schedule> {
    let ranges = (1..=edits).flat_map(move |first| (first..=edits).map(move |last| (first, last)));
    ranges.flat_map(|(first, last)| {
        let together = (first < last).then_some(Edits::Together { first, last });
        let edits = together.into_iter().chain([Edits::Unobserved { first, last }]);
        edits.map(|edits| Schedule { edits, injections: Vec::new() })
    })
}

/// A share of so many, which depends on the seed; in order.
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

/// Works on items with so many threads; what comes of them is in their order.
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
    /// Runs schedules on all threads; the runs are in their order.
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
    fn a_share_is_the_same_for_a_seed() {
        let all: Vec<Schedule> = faults_from(1, 20, &Fault::ALL).map(single).collect();
        assert_eq!(all.len(), 200);
        let some = share(all.clone(), 50, 7);
        assert_eq!(some.len(), 50);
        assert!(some.is_sorted() && some == share(all.clone(), 50, 7) && some != share(all.clone(), 50, 8));
        assert_eq!(share(all.clone(), 200, 7), all);
    }
}
