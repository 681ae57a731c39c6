//! Progress of a wait: the event loop that dispatches to the displays.

mod lines;
mod live;
mod logs;
mod signals;

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use settled_tracker::report::Snapshot;
use settled_tracker::{Event, ObjectId, Report, State};
use tokio::time::{Instant, sleep_until};

pub(crate) use lines::{JsonLines, PlainLines, write_timed};
pub(crate) use live::LiveView;
pub(crate) use signals::{Signal, Signals, stop};

use crate::names::Names;
use crate::render::Ending;
use crate::time;

/// Where a wait happens.
pub(crate) trait Source {
    /// The next event; none after [`Event::Finished`]. Cancel-safe.
    async fn next(&mut self) -> Option<Event>;

    /// Current state, with at most this many targets.
    fn snapshot(&self, limit: usize) -> Snapshot;

    /// Ends it: [`Event::Finished`] comes next.
    fn interrupt(&mut self);
}

/// Shows a wait.
pub(crate) trait Show {
    /// Something has happened, so long after the beginning.
    fn event(&mut self, elapsed: Duration, event: &Event) -> io::Result<()>;

    /// When it wants to be asked for a new picture, counted from the beginning.
    fn due(&self) -> Option<Duration> {
        None
    }

    /// Shows a new picture.
    fn picture(&mut self, elapsed: Duration, snapshot: &dyn Fn(usize) -> Snapshot) -> io::Result<()> {
        let _ = (elapsed, snapshot);
        Ok(())
    }

    /// The terminal was resized, or used by another program.
    fn disturbed(&mut self) {}

    /// The process is about to be suspended.
    fn pause(&mut self) {}
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Outcome of the wait.
    pub(crate) report: Report,
    /// Time from the start until each target was done or failed; empty unless requested.
    pub(crate) times: HashMap<ObjectId, Duration>,
}

impl Ended {
    /// For what is written at the end.
    pub(crate) fn ending(&self) -> Ending<'_> {
        let names = Names::of(self.report.targets.iter().map(|target| &target.object));
        Ending { report: &self.report, names, times: &self.times, now: time::now() }
    }
}

/// Why there is no end to tell of.
#[derive(Debug)]
pub(crate) enum Abandoned {
    /// The user asked twice.
    Impatient,
    /// Nobody reads what is shown.
    Unread(io::Error),
}

/// Follows a wait until its end; `with_times` records when each target was done or failed.
pub(crate) async fn follow<S: Source>(
    source: &mut S,
    shows: &mut [Box<dyn Show>],
    signals: &mut Signals,
    with_times: bool,
) -> Result<Ended, Abandoned> {
    let start = Instant::now();
    let mut times = HashMap::new();
    let mut interrupted = false;
    let mut exhausted = false;
    loop {
        let due = shows.iter().filter_map(|show| show.due()).min();
        let picture = async {
            match due {
                Some(due) => sleep_until(start + due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = source.next(), if !exhausted => {
                let Some(event) = event else {
                    exhausted = true;
                    continue;
                };
                let elapsed = start.elapsed();
                if let Event::Target(target) = &event
                    && with_times
                {
                    match target.state {
                        State::Done | State::Failed => times.insert(target.object.clone(), elapsed),
                        State::Waiting | State::Skipped => times.remove(&target.object),
                    };
                }
                for show in &mut *shows {
                    show.event(elapsed, &event).map_err(Abandoned::Unread)?;
                }
                if let Event::Finished(report) = event {
                    return Ok(Ended { report, times });
                }
            }
            () = picture => {}
            signal = signals.next() => match signal {
                Signal::Interrupt if interrupted => return Err(Abandoned::Impatient),
                Signal::Hangup => {
                    shows.iter_mut().for_each(|show| show.pause());
                    return Err(Abandoned::Impatient);
                }
                Signal::Interrupt => {
                    interrupted = true;
                    source.interrupt();
                }
                Signal::Resize => shows.iter_mut().for_each(|show| show.disturbed()),
                Signal::Stop => {
                    shows.iter_mut().for_each(|show| show.pause());
                    stop();
                    shows.iter_mut().for_each(|show| show.disturbed());
                }
            },
        }
        // Also when something happens all the time.
        let elapsed = start.elapsed();
        for show in &mut *shows {
            if show.due().is_some_and(|due| due <= elapsed) {
                show.picture(elapsed, &|limit| source.snapshot(limit)).map_err(Abandoned::Unread)?;
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::scenes;

    /// A wait that happens as it is written: with the seconds from its beginning.
    pub(crate) struct Script {
        events: std::vec::IntoIter<(f64, Event)>,
        next: Option<(f64, Event)>,
        start: Instant,
        snapshot: fn(u64) -> Snapshot,
        report: Report,
        interrupted: bool,
    }

    impl Script {
        pub(crate) fn new(events: Vec<(f64, Event)>, snapshot: fn(u64) -> Snapshot) -> Self {
            let mut events = events.into_iter();
            let next = events.next();
            let report = scenes::failed_rollout();
            Self { events, next, start: Instant::now(), snapshot, report, interrupted: false }
        }
    }

    impl Source for Script {
        async fn next(&mut self) -> Option<Event> {
            if self.interrupted {
                self.next = None;
                return Some(Event::Finished(self.report.clone()));
            }
            let Some((at, _)) = &self.next else { std::future::pending().await };
            sleep_until(self.start + Duration::from_secs_f64(*at)).await;
            let next = self.events.next();
            std::mem::replace(&mut self.next, next).map(|(_, event)| event)
        }

        fn snapshot(&self, limit: usize) -> Snapshot {
            let mut snapshot = (self.snapshot)(self.start.elapsed().as_secs());
            snapshot.targets.truncate(limit);
            snapshot.branches.truncate(limit);
            snapshot
        }

        fn interrupt(&mut self) {
            self.interrupted = true;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn times_are_when_targets_became_what_they_are() {
        let mut source = Script::new(scenes::failing(), scenes::rollout);
        let ended = follow(&mut source, &mut [], &mut Signals::none(), true).await.unwrap();
        let time = |kind, name| ended.times.get(&scenes::id(kind, name)).map(Duration::as_millis);
        assert_eq!(time("Service", "web"), Some(12_300));
        assert_eq!(time("Deployment", "web"), Some(95_000));
        assert_eq!(time("StatefulSet", "db"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn times_that_nobody_asked_for_are_not_kept() {
        let mut source = Script::new(scenes::failing(), scenes::rollout);
        let ended = follow(&mut source, &mut [], &mut Signals::none(), false).await.unwrap();
        assert_eq!(ended.times.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_interrupt_ends_it_and_a_second_one_at_once() {
        let (sender, mut signals) = Signals::by_hand();
        let mut source = Script::new(Vec::new(), scenes::rollout);
        sender.send(Signal::Interrupt).unwrap();
        let ended = follow(&mut source, &mut [], &mut signals, true).await.unwrap();
        assert_eq!(ended.report.counts.total, 4);

        /// Does not care for interrupts.
        struct Deaf;
        impl Source for Deaf {
            async fn next(&mut self) -> Option<Event> {
                std::future::pending().await
            }
            fn snapshot(&self, _: usize) -> Snapshot {
                scenes::rollout(0)
            }
            fn interrupt(&mut self) {}
        }
        sender.send(Signal::Interrupt).unwrap();
        sender.send(Signal::Interrupt).unwrap();
        let ended = follow(&mut Deaf, &mut [], &mut signals, true).await;
        assert!(matches!(ended, Err(Abandoned::Impatient)));
    }
}
