//! Run: a controller with a scenario and a schedule, from its start until everything is idle.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::Instant;

use crate::base::{self, Base, ExploreError};
use crate::checks::{self, Check, Violation};
use crate::cluster::{View, text, uid};
use crate::context::Context;
use crate::control::{Control, Writer};
use crate::edits::{self, TOUCHED};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::schedule::{Edits, Place, Schedule};
use crate::start::Start;
use crate::trace::{Actor, TraceLine};
use crate::world::World;

/// Maximum number of ends of the controller in one phase.
const MAX_ENDS: usize = 20;

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// Outcome after each number of edits, if the run became idle there.
    pub(crate) outcomes: Vec<Option<Outcome>>,
    /// Number of writes of the controller, without the extra round at the end.
    pub(crate) writes: usize,
    /// Writes of Leases and Events at which faults are injected, in order.
    pub(crate) auxiliary: Vec<Place>,
    /// Number of watched resources.
    pub(crate) watches: usize,
    /// Whether it sent lists that accept any version.
    pub(crate) cached_lists: bool,
    pub(crate) violations: Vec<Violation>,
    pub(crate) trace: Vec<TraceLine>,
}

/// Parameters of a run.
pub(crate) struct Setting<'a, W: World, C> {
    pub(crate) base: &'a Base,
    pub(crate) scenario: Arc<Scenario<W>>,
    pub(crate) controller: &'a C,
    pub(crate) options: &'a Options,
}

impl<W: World, C, F> Setting<'_, W, C>
where
    C: Fn(Context<W>) -> F,
    F: Future,
{
    /// Runs a schedule. `expected`: the outcomes without faults.
    pub(crate) fn run(
        &self,
        schedule: &Schedule,
        expected: Option<&[Option<Outcome>]>,
        trace: bool,
    ) -> Result<Run, ExploreError> {
        base::runtime()?.block_on(async {
            let start = self.base.start(self.options.seed)?;
            Ok(self.run_from(start, schedule, expected, trace).await.1)
        })
    }

    /// Runs a schedule from a start. The returned control has the final state of the server.
    pub(crate) async fn run_from(
        &self,
        start: Start,
        schedule: &Schedule,
        expected: Option<&[Option<Outcome>]>,
        trace: bool,
    ) -> (Arc<Control<W>>, Run) {
        let options = self.options.clone();
        let control = Control::new(start, self.scenario.clone(), schedule.clone(), options, trace);
        let mut runner =
            Runner { control: control.clone(), controller: self.controller, running: None, expected };
        let outcomes = runner.run().await;
        drop(runner);
        let trace = control.take_trace();
        let run = {
            let mut inner = control.inner();
            Run {
                outcomes,
                writes: inner.writes,
                auxiliary: std::mem::take(&mut inner.auxiliary_places),
                watches: inner.watches.numbers(),
                cached_lists: inner.watches.cached_lists,
                violations: std::mem::take(&mut inner.violations),
                trace,
            }
        };
        (control, run)
    }
}

struct Runner<'a, W: World, C, F> {
    control: Arc<Control<W>>,
    controller: &'a C,
    running: Option<Pin<Box<F>>>,
    expected: Option<&'a [Option<Outcome>]>,
}

/// How a start of the controller ended.
enum Ended {
    Returned,
    Panicked(Box<dyn Any + Send>),
}

impl<W: World, C, F> Runner<'_, W, C, F>
where
    C: Fn(Context<W>) -> F,
    F: Future,
{
    async fn run(&mut self) -> Vec<Option<Outcome>> {
        let edits = self.control.scenario.edits.len();
        let mut outcomes: Vec<Option<Outcome>> = vec![None; edits + 1];
        self.start();
        loop {
            self.control.begin_phase();
            let at_rest = self.settle().await;
            let done = self.control.inner().edits_done;
            if !at_rest {
                return outcomes;
            }
            let outcome = self.end_phase(done);
            if let Some(slot) = outcomes.get_mut(done) {
                *slot = Some(outcome);
            }
            if done >= edits {
                break;
            }
            self.edit(done + 1).await;
        }
        let empty = outcomes.last().and_then(Option::as_ref).is_some_and(Outcome::is_empty);
        self.check_goals();
        // With nothing left there is nothing to be done again.
        if !empty {
            self.extra_round().await;
        }
        outcomes
    }

    /// Makes the next edit, and those made at the same time.
    async fn edit(&mut self, next: usize) {
        let edits = self.control.schedule.edits;
        let last = edits.range().filter(|(first, _)| *first == next).map_or(next, |(_, last)| last);
        let unobserved = matches!(edits, Edits::Unobserved { first, .. } if first == next);
        if unobserved {
            self.stop("is stopped");
        }
        for _ in next..=last {
            edits::perform_next(&self.control).await;
        }
        if unobserved {
            self.start();
        }
    }

    fn start(&mut self) {
        let start = self.control.start();
        let context = Context::new(&self.control, start);
        self.running = Some(Box::pin((self.controller)(context)));
    }

    fn stop(&mut self, why: &str) {
        self.control.kill();
        self.running = None;
        self.control.note(Actor::Fault, None, || format!("the controller {why}"));
    }

    /// Runs until nothing was written for a while. Returns false if that does not happen.
    async fn settle(&mut self) -> bool {
        let control = self.control.clone();
        let options = &control.options;
        let deadline = Instant::now() + options.deadline;
        let mut ends = 0;
        // What the controller would do after a pause, it does so long after its own start.
        let mut restarted_at = None;
        loop {
            let (changed_at, overrun, taken) = {
                let inner = control.inner();
                (inner.changed_at, inner.overrun, inner.takeover.is_some())
            };
            let now = Instant::now();
            if overrun || now >= deadline {
                let changes = control.inner().changes;
                let message = match overrun {
                    true => format!("it does not come to rest: {changes} writes, and more"),
                    false => format!("it still writes after {}s", options.deadline.as_secs()),
                };
                control.violate(Violation::new(Check::Quiescence, message));
                return false;
            }
            // Nothing is at rest before the Lease is back.
            let active_at = restarted_at.map_or(changed_at, |restarted: Instant| restarted.max(changed_at));
            let quiet_at = if taken { now.max(active_at) } else { active_at } + options.quiet;
            if now >= quiet_at {
                control.observe(Writer::Other(Actor::Server));
                if control.inner().changed_at == changed_at {
                    return true;
                }
                continue;
            }
            tokio::select! {
                biased;
                () = control.crashed.notified() => {
                    self.running = None;
                    if !control.inner().overrun {
                        tokio::time::sleep(options.restart).await;
                        self.start();
                        restarted_at = Some(Instant::now());
                    }
                }
                ended = poll_running(&mut self.running) => {
                    if let Ended::Panicked(payload) = ended {
                        control.violate(Violation::new(Check::Panic, panic_message(&*payload)));
                    }
                    self.stop("ends");
                    ends += 1;
                    if ends > MAX_ENDS {
                        let message = format!("the controller has ended {ends} times");
                        control.violate(Violation::new(Check::Quiescence, message));
                        return false;
                    }
                    tokio::time::sleep(options.restart).await;
                    self.start();
                    restarted_at = Some(Instant::now());
                }
                () = tokio::time::sleep_until(quiet_at.min(deadline)) => {}
            }
        }
    }

    /// Checks the final state.
    fn end_phase(&self, done: usize) -> Outcome {
        let control = &self.control;
        let outcome = {
            let inner = control.inner();
            let effects = inner.world.effects();
            Outcome::new(&inner.cluster, &effects, &control.scenario.ignored)
        };
        let expected = self.expected.and_then(|expected| expected.get(done)).and_then(Option::as_ref);
        if let Some(difference) = expected.and_then(|expected| outcome.difference(expected)) {
            let check = match control.schedule.injections.is_empty() {
                true => Check::LevelBased,
                false => Check::Convergence,
            };
            control.violate(Violation::new(check, difference));
        }
        let (leaked, lost) = {
            let inner = control.inner();
            let leaked = checks::leaks(&inner.cluster, &inner.world.effects());
            let pointer = format!("/metadata/annotations/{}", TOUCHED.replace('/', "~1"));
            let lost = inner.touched.iter().find_map(|(key, (owner, value))| {
                let object = inner.cluster.get(key).filter(|object| uid(object) == owner)?;
                (text(object, &pointer) != value)
                    .then(|| format!("{key} has lost an annotation that another client wrote"))
            });
            (leaked, lost)
        };
        if let Err(message) = leaked {
            control.violate(Violation::new(Check::Leak, message));
        }
        if let Some(message) = lost {
            control.violate(Violation::new(Check::LostUpdate, message));
        }
        outcome
    }

    fn check_goals(&self) {
        let control = &self.control;
        let found: Vec<Violation> = {
            let inner = control.inner();
            let view = View { cluster: &inner.cluster, world: &inner.world };
            let goals = control.scenario.goals.iter();
            goals
                .filter_map(|(name, holds)| holds(&view).err().map(|message| format!("{name}: {message}")))
                .map(|message| Violation::new(Check::Invariant, message))
                .collect()
        };
        found.into_iter().for_each(|violation| control.violate(violation));
    }

    /// Checks that a new start writes nothing when all is idle.
    async fn extra_round(&mut self) {
        let (writes, auxiliary, changes) = {
            let inner = self.control.inner();
            (inner.writes, inner.auxiliary_places.len(), inner.changes)
        };
        self.stop("is started again, for a round with nothing to do");
        self.start();
        self.control.begin_phase();
        if self.settle().await {
            let more = self.control.inner().changes - changes;
            if more > 0 {
                let message = format!("{more} writes in a round with nothing to do");
                self.control.violate(Violation::new(Check::Quiescence, message));
            }
        }
        let mut inner = self.control.inner();
        inner.writes = writes;
        inner.auxiliary_places.truncate(auxiliary);
    }
}

/// Polls the controller; a stopped one is pending forever.
async fn poll_running<F: Future>(running: &mut Option<Pin<Box<F>>>) -> Ended {
    poll_fn(|context| {
        let Some(running) = running else { return Poll::Pending };
        match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context))) {
            Ok(polled) => polled.map(|_| Ended::Returned),
            Err(payload) => Poll::Ready(Ended::Panicked(payload)),
        }
    })
    .await
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the controller panicked".to_owned())
}
