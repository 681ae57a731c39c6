//! Control of a run: state that client, external system and runner share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use jiff::Timestamp;
use settled_apiserver::{Change, Server};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::checks::fencing::{self, Takeover};
use crate::checks::{self, Check, Delivered, Violation};
use crate::cluster::{Cluster, ObjectKey, uid};
use crate::kinds::Kinds;
use crate::options::Options;
use crate::scenario::Scenario;
use crate::schedule::{Fault, Place, Schedule};
use crate::start::Start;
use crate::trace::{Actor, TraceLine};
use crate::world::World;

/// Maximum number of recorded violations of a run.
const MAX_VIOLATIONS: usize = 16;
/// Maximum number of writes of Leases and Events after each other write at which faults are injected.
const MAX_AUXILIARY: usize = 8;
/// Maximum number of kept revisions, and so of writes by which lists can be stale.
const MAX_REVISIONS: usize = 16;

/// Shared state of a run.
pub(crate) struct Control<W: World> {
    pub(crate) server: Server,
    pub(crate) scenario: Arc<Scenario<W>>,
    pub(crate) schedule: Schedule,
    pub(crate) options: Options,
    pub(crate) clock: settled_apiserver::Clock,
    pub(crate) kinds: Arc<Kinds>,
    begin: Instant,
    /// Notified when the controller has crashed, or must be stopped.
    pub(crate) crashed: Notify,
    inner: Mutex<Inner<W>>,
}

pub(crate) struct Inner<W> {
    /// Number of the running start of the controller; 0 if none runs.
    alive: u32,
    starts: u32,
    /// Number of writes that the controller has sent, including calls of the external system.
    pub(crate) writes: usize,
    /// Number of writes of Leases and Events since then.
    auxiliary: usize,
    /// Writes of Leases and Events at which faults are injected, in order.
    pub(crate) auxiliary_places: Vec<Place>,
    /// The write before the last of them, and whether a Lease was renewed since that write.
    recorded_auxiliary: (usize, bool),
    /// Number of requests since the last edit.
    requests: usize,
    /// Number of its writes that changed something, and the time of the last one.
    pub(crate) changes: usize,
    /// Those of them in the present phase.
    phase_changes: usize,
    pub(crate) changed_at: Instant,
    /// The time of the last write, and the number of writes at that time.
    burst: (Instant, u32),
    /// It does not become idle.
    pub(crate) overrun: bool,
    pub(crate) edits_done: usize,
    /// Revisions of the responses to the edits of this run.
    pub(crate) edited: Vec<u64>,
    pub(crate) world: W,
    pub(crate) cluster: Cluster,
    /// Revision of the known cluster state.
    seen: u64,
    /// Revision at the start of the run, then those of writes other than of Leases and Events; the last ones.
    revisions: VecDeque<u64>,
    pub(crate) watches: Watches,
    pub(crate) delivered: Delivered,
    /// Writes of other clients that must survive: UID of the object, and value of the annotation.
    pub(crate) touched: BTreeMap<ObjectKey, (String, String)>,
    pub(crate) takeover: Option<Takeover>,
    pub(crate) violations: Vec<Violation>,
    trace: Option<Vec<TraceLine>>,
}

/// Faults of watches and lists.
#[derive(Default)]
pub(crate) struct Watches {
    /// Stale watches.
    lags: Vec<Lag>,
    /// Stale cache of the API server.
    pub(crate) past: Option<Past>,
    /// Watched resources by number: group and plural name.
    resources: Vec<(String, String)>,
    /// Whether the controller has sent a list that accepts any version.
    pub(crate) cached_lists: bool,
    /// Watches opened before the first time end at the second one.
    pub(crate) expiry: Option<(Instant, Instant)>,
    /// Number of injected duplicate events.
    pub(crate) duplicates: usize,
    pub(crate) wakers: Vec<Waker>,
}

/// Stale watches.
struct Lag {
    /// Number of the resource; `None` for all.
    watch: Option<usize>,
    events: usize,
    until: Instant,
}

/// Stale cache of the API server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past {
    /// Revision of the cache.
    pub(crate) revision: u64,
    /// When the cache is up to date again; `None` before the controller is started.
    pub(crate) until: Option<Instant>,
}

impl Watches {
    /// Delays watches.
    fn lag(&mut self, lag: Lag) {
        self.lags.retain(|other| other.watch != lag.watch);
        self.lags.push(lag);
    }

    /// Until when a watch with this many undelivered events delivers none.
    pub(crate) fn held_until(&self, watch: usize, events: usize, now: Instant) -> Option<Instant> {
        let held = self.lags.iter().filter(|lag| {
            lag.watch.is_none_or(|lagging| lagging == watch) && now < lag.until && events <= lag.events
        });
        held.map(|lag| lag.until).max()
    }

    /// Revision of the stale cache of the API server, and when it is up to date again.
    pub(crate) fn past(&self, now: Instant) -> Option<(u64, Instant)> {
        let past = self.past?;
        past.until.filter(|until| now < *until).map(|until| (past.revision, until))
    }

    /// Number of a watched resource.
    pub(crate) fn number(&mut self, group: &str, resource: &str) -> usize {
        let known = self.resources.iter().position(|known| (&*known.0, &*known.1) == (group, resource));
        known.map_or_else(
            || {
                self.resources.push((group.to_owned(), resource.to_owned()));
                self.resources.len()
            },
            |index| index + 1,
        )
    }

    /// Number of watched resources.
    pub(crate) fn numbers(&self) -> usize {
        self.resources.len()
    }

    fn name(&self, watch: usize) -> &str {
        let known = watch.checked_sub(1).and_then(|index| self.resources.get(index));
        known.map_or("a resource that is not watched", |(_, resource)| resource)
    }
}

/// Author of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writer<'a> {
    /// The controller's, to an object of a resource.
    Controller(&'a ObjectKey),
    Other(Actor),
}

/// Faults of a write.
pub(crate) struct Write {
    pub(crate) place: Place,
    pub(crate) faults: Vec<Fault>,
    /// How long it takes.
    pub(crate) takes: Duration,
}

impl Write {
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}

impl<W: World> Control<W> {
    pub(crate) fn new(
        start: Start,
        scenario: Arc<Scenario<W>>,
        schedule: Schedule,
        options: Options,
        trace: bool,
    ) -> Arc<Self> {
        let Start { server, clock, cluster, kinds, edits_done } = start;
        let now = Instant::now();
        let inner = Inner {
            alive: 0,
            starts: 0,
            writes: 0,
            auxiliary: 0,
            auxiliary_places: Vec::new(),
            recorded_auxiliary: (0, false),
            requests: 0,
            changes: 0,
            phase_changes: 0,
            changed_at: now,
            burst: (now, 0),
            overrun: false,
            edits_done,
            edited: Vec::new(),
            world: scenario.world.clone(),
            cluster,
            seen: server.revision(),
            revisions: VecDeque::from([server.revision()]),
            watches: Watches::default(),
            delivered: Delivered::default(),
            touched: BTreeMap::new(),
            takeover: None,
            violations: Vec::new(),
            trace: trace.then(Vec::new),
        };
        let inner = Mutex::new(inner);
        Arc::new(Self {
            server,
            scenario,
            schedule,
            options,
            clock,
            kinds,
            begin: now,
            crashed: Notify::new(),
            inner,
        })
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner<W>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Adds a line to the trace, if there is one.
    pub(crate) fn note(&self, actor: Actor, write: Option<Place>, text: impl FnOnce() -> String) {
        let at = self.elapsed();
        if let Some(trace) = &mut self.inner().trace {
            trace.push(TraceLine { at, actor, write, text: text() });
        }
    }

    pub(crate) fn take_trace(&self) -> Vec<TraceLine> {
        self.inner().trace.take().unwrap_or_default()
    }

    pub(crate) fn violate(&self, violation: Violation) {
        self.inner().violate(violation);
    }

    /// Begins a start of the controller, and returns its number.
    pub(crate) fn start(&self) -> u32 {
        let mut inner = self.inner();
        inner.starts += 1;
        inner.alive = inner.starts;
        inner.delivered.clear();
        let start = inner.starts;
        let end = Instant::now() + self.options.fault_window;
        // Only for the start after the crash: the cache does not become stale again later.
        let past = inner.watches.past.as_mut().filter(|past| past.until.is_none());
        let behind = past.map(|past| past.until = Some(end)).is_some();
        drop(inner);
        self.note(Actor::Controller(start), None, || "starts".to_owned());
        if behind {
            self.note(Actor::Fault, None, || "the cache of the API server is behind".to_owned());
        }
        start
    }

    /// Ends the controller: its remaining tasks have no effect.
    pub(crate) fn kill(&self) {
        self.inner().alive = 0;
    }

    /// Crashes the controller. The caller must wait forever afterwards.
    pub(crate) fn crash(&self, write: Option<Place>) {
        let start = std::mem::take(&mut self.inner().alive);
        self.note(Actor::Controller(start), write, || "crashes".to_owned());
        self.crashed.notify_one();
    }

    pub(crate) fn is_alive(&self, start: u32) -> bool {
        self.inner().alive == start
    }

    /// Begins a phase, and resets the counters.
    pub(crate) fn begin_phase(&self) {
        let mut inner = self.inner();
        (inner.requests, inner.phase_changes, inner.overrun) = (0, 0, false);
        inner.changed_at = Instant::now();
    }

    /// Counts a request. Returns false if there were so many that the controller is stopped.
    pub(crate) fn admit(&self) -> bool {
        let mut inner = self.inner();
        inner.requests += 1;
        let most = &self.options;
        if inner.requests <= most.max_requests && inner.phase_changes <= most.max_writes {
            return true;
        }
        inner.overrun = true;
        inner.alive = 0;
        drop(inner);
        self.crashed.notify_one();
        false
    }

    /// Counts a write, and begins its faults. `call`: it is a call of the external system.
    pub(crate) fn begin_write(&self, call: bool) -> Write {
        let mut inner = self.inner();
        inner.writes += 1;
        inner.auxiliary = 0;
        let place = Place::of_write(inner.writes);
        let faults: Vec<Fault> =
            self.schedule.at(place).filter(|fault| !call || fault.befalls_calls()).collect();
        let now = Instant::now();
        let until = now + self.options.fault_window;
        let takes = inner.takes(now, self.options.fault_window);
        let number = |number: &u32| usize::try_from(*number).unwrap_or(usize::MAX);
        let mut notes = Vec::new();
        for fault in &faults {
            match fault {
                Fault::Stale(events) => {
                    inner.watches.lag(Lag { watch: None, events: number(events), until });
                    notes.push(format!("from here on, watches lag by {events} events"));
                }
                Fault::StaleWatch { watch, events } => {
                    let watch = number(watch);
                    inner.watches.lag(Lag { watch: Some(watch), events: number(events), until });
                    let resource = inner.watches.name(watch);
                    notes.push(format!("from here on, watches of {resource} lag by {events} events"));
                }
                Fault::Expired => {
                    inner.watches.expiry = Some((now, until));
                    notes
                        .push("from here on, nothing comes through the watches until they expire".to_owned());
                }
                Fault::Duplicate => {
                    inner.watches.duplicates += 1;
                    notes.push("the next event of each watch comes twice".to_owned());
                }
                _ => {}
            }
        }
        let wakers = std::mem::take(&mut inner.watches.wakers);
        drop(inner);
        for note in notes {
            self.note(Actor::Fault, Some(place), || note);
        }
        wakers.into_iter().for_each(Waker::wake);
        Write { place, faults, takes }
    }

    /// Counts a write of a Lease or an Event.
    pub(crate) fn begin_auxiliary(&self) -> Write {
        let mut inner = self.inner();
        inner.auxiliary += 1;
        let place = Place { write: inner.writes, auxiliary: inner.auxiliary };
        let faults = self.schedule.at(place).filter(|fault| fault.befalls_auxiliary()).collect();
        Write { place, faults, takes: Duration::ZERO }
    }

    /// Records a write of a Lease or an Event. Returns whether faults are injected there: not at renewals of a Lease after the
    /// first one since the last other write, nor after [`MAX_AUXILIARY`] writes.
    pub(crate) fn record_auxiliary(&self, place: Place, renews: bool) -> bool {
        let mut inner = self.inner();
        let (recorded, renewed) = &mut inner.recorded_auxiliary;
        if *recorded == place.write && *renewed && renews {
            return false;
        }
        (*recorded, *renewed) = (place.write, renews || (*recorded == place.write && *renewed));
        let since = inner.auxiliary_places.iter().rev().take_while(|known| known.write == place.write);
        let is_recorded = since.count() < MAX_AUXILIARY;
        if is_recorded {
            inner.auxiliary_places.push(place);
        }
        is_recorded
    }

    /// Makes the cache of the API server stale by this many writes, from the next start of the controller.
    pub(crate) fn fall_behind(&self, writes: u32) {
        let mut inner = self.inner();
        let writes = usize::try_from(writes).unwrap_or(usize::MAX);
        let index = inner.revisions.len().saturating_sub(writes.saturating_add(1));
        let revision = inner.revisions.get(index).copied().unwrap_or_default();
        inner.watches.past = Some(Past { revision, until: None });
    }

    /// Applies the writes since the last call, and checks each of them.
    pub(crate) fn observe(&self, writer: Writer<'_>) {
        let mut inner = self.inner();
        if self.server.revision() == inner.seen {
            return;
        }
        // The server remembers more than a run can write.
        let changes = self.server.changes_after(inner.seen).unwrap_or_default();
        for change in changes {
            inner.seen = change.revision;
            self.take_in(&mut inner, change, writer);
        }
    }

    fn take_in(&self, inner: &mut Inner<W>, change: Change, writer: Writer<'_>) {
        let revision = change.revision;
        let (key, old, new) = inner.cluster.apply(change);
        let actor = match writer {
            Writer::Controller(target) if is_target(&key, target) => Actor::Controller(inner.starts),
            Writer::Controller(_) => Actor::Server,
            Writer::Other(actor) => actor,
        };
        let is_own = matches!(actor, Actor::Controller(_));
        if actor == Actor::Server && inner.trace.is_some() {
            let verb = match (&old, &new) {
                (None, _) => "creates",
                (_, None) => "removes",
                _ => "updates",
            };
            let line = TraceLine { at: self.elapsed(), actor, write: None, text: format!("{verb} {key}") };
            inner.trace.iter_mut().for_each(|trace| trace.push(line.clone()));
        }
        if !key.is_exempt() {
            if inner.revisions.len() >= MAX_REVISIONS {
                inner.revisions.pop_front();
            }
            inner.revisions.push_back(revision);
            inner.changed_at = Instant::now();
            if is_own {
                inner.changes += 1;
                inner.phase_changes += 1;
            }
        }
        if let Some(new) = &new
            && is_own
        {
            let old = old.as_deref().filter(|old| uid(old) == uid(new));
            let found: Vec<_> = checks::of_write(old, new, &inner.delivered, self.now()).collect();
            found.into_iter().for_each(|violation| inner.violate(violation));
        }
        if is_own && let Some(found) = fencing::check(inner.takeover.as_ref(), &key, new.as_deref()) {
            inner.violate(Violation::new(Check::Fencing, found));
        }
        inner.check_state(&self.scenario);
    }

    /// Changes the external system, and checks the result. Returns whether something changed.
    pub(crate) fn change_world<T>(&self, own: bool, change: impl FnOnce(&mut W) -> T) -> (T, bool) {
        let mut inner = self.inner();
        let before = inner.world.clone();
        let result = change(&mut inner.world);
        let changed = inner.world != before;
        if changed {
            inner.changed_at = Instant::now();
            if own {
                inner.changes += 1;
                inner.phase_changes += 1;
                let found = checks::of_call(&self.scenario, &before, &inner.cluster, &inner.world);
                found.into_iter().for_each(|violation| inner.violate(violation));
            }
            inner.check_state(&self.scenario);
        }
        (result, changed)
    }

    /// Checks before a write of the controller that no other instance holds its Lease.
    pub(crate) fn check_lease(&self, write: Place, what: &str) {
        let mut inner = self.inner();
        let Some(takeover) = &inner.takeover else { return };
        if let Some(late) = takeover.is_ignored(self.options.lease_grace) {
            let message = format!(
                "write #{write} ({what}) comes {:.1}s after another instance took over the Lease",
                late.as_secs_f64()
            );
            inner.violate(Violation::new(Check::Fencing, message));
        }
    }

    /// Records that the controller has received an object.
    pub(crate) fn deliver(&self, uid: &str, generation: i64) {
        self.inner().delivered.add(uid, generation);
    }
}

impl<W: World> Inner<W> {
    /// How long a write takes. Most take no time; but whoever writes without an end does not outrun the faults, which end when time passes.
    fn takes(&mut self, now: Instant, fault_window: Duration) -> Duration {
        const BURST: u32 = 50;
        let (at, writes) = self.burst;
        self.burst = (now, if at == now { writes + 1 } else { 1 });
        if self.burst.1.is_multiple_of(BURST) { fault_window } else { Duration::ZERO }
    }

    fn violate(&mut self, violation: Violation) {
        let known = self.violations.iter().any(|known| known.check == violation.check);
        if known || self.violations.len() >= MAX_VIOLATIONS {
            return;
        }
        if let Some(trace) = &mut self.trace {
            let at = trace.last().map(|line| line.at).unwrap_or_default();
            let text = format!("<-- {violation}");
            trace.push(TraceLine { at, actor: Actor::Fault, write: None, text });
        }
        self.violations.push(violation);
    }

    fn check_state(&mut self, scenario: &Scenario<W>) {
        let found = checks::of_state(scenario, &self.cluster, &self.world);
        found.into_iter().for_each(|violation| self.violate(violation));
    }
}

/// Whether a request is about the object, whose name may be generated.
fn is_target(key: &ObjectKey, target: &ObjectKey) -> bool {
    let same = (&key.group, &key.resource) == (&target.group, &target.resource);
    let within = target.namespace.is_empty() || key.namespace == target.namespace;
    same && within && (target.name.is_empty() || key.name == target.name)
}
