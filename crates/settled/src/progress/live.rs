//! Progress on a terminal: finished targets scroll away above a live view of the rest.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use settled_tracker::report::{Connection, Snapshot};
use settled_tracker::{Event, ObjectId, State, TargetReport};

use super::lines::Already;
use super::{Show, logs};
use crate::duration;
use crate::live::echo::Quiet;
use crate::live::screen::{Screen, Size};
use crate::live::view::{self, View};
use crate::names::Names;
use crate::render::explain;
use crate::style::Palette;

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// The live view.
pub(crate) struct LiveView<W: Write> {
    screen: Screen<W>,
    size: fn() -> Option<Size>,
    last_size: Size,
    palette: Palette,
    names: Names,
    /// The state of each target that there was a line about.
    reported: HashMap<ObjectId, State>,
    already: Already,
    /// Since when there is no connection, as of the last frame.
    lost: Option<Duration>,
    /// Lines that are to scroll away.
    above: Vec<String>,
    /// Something has changed since the last frame.
    changed: bool,
    last_frame: Option<Duration>,
    frames: usize,
    /// Keeps what is typed off the screen.
    quiet: Option<Quiet>,
}

impl<W: Write> LiveView<W> {
    /// A live view on a terminal, whose size can be asked for.
    pub(crate) fn new(out: W, size: fn() -> Option<Size>, palette: Palette) -> Self {
        let last_size = size().unwrap_or(Size { columns: 80, rows: 24 });
        Self {
            screen: Screen::new(out, last_size, palette.is_enabled()),
            size,
            last_size,
            palette,
            names: Names::default(),
            reported: HashMap::new(),
            already: Already::default(),
            lost: None,
            above: Vec::new(),
            changed: true,
            last_frame: None,
            frames: 0,
            quiet: None,
        }
    }

    /// Lets nothing that is typed appear on the screen.
    pub(crate) fn quiet(mut self) -> Self {
        self.quiet = Some(Quiet::stderr());
        self
    }

    /// Adds a line for a target that is done, has failed or is not waited for, and for one that no longer is.
    fn tell(&mut self, target: &TargetReport, elapsed: Duration) {
        let before = self.reported.get(&target.object).copied().unwrap_or(State::Waiting);
        if before != target.state {
            self.reported.insert(target.object.clone(), target.state);
            self.above.extend(view::finished(target, &self.names, elapsed, self.columns(), self.palette));
        }
    }

    fn draw(&mut self, snapshot: &dyn Fn(usize) -> Snapshot) -> io::Result<()> {
        if let Some(size) = (self.size)() {
            self.last_size = size;
        }
        let rows_max = view::rows_max(self.last_size.rows);
        let snapshot = snapshot(view::TARGETS_MAX);
        let lost = match &snapshot.connection {
            Connection::Lost { since, .. } => Some(*since),
            Connection::Connected => None,
        };
        if let (Some(since), None) = (self.lost, lost) {
            let lasted = duration::format(snapshot.elapsed.saturating_sub(since));
            self.above.push(format!("reconnected after {lasted}"));
        }
        self.lost = lost;
        let view = View::new(&snapshot, &self.names, self.frames, self.columns(), rows_max);
        self.frames += 1;
        self.screen.draw(&std::mem::take(&mut self.above), &view, view.height(), self.last_size)
    }

    /// How many columns may be used: what stands in the last one breaks lines on some terminals.
    fn columns(&self) -> usize {
        usize::from(self.last_size.columns).saturating_sub(1).max(1)
    }

    fn close(&mut self) -> io::Result<()> {
        self.screen.close(&std::mem::take(&mut self.above))
    }
}

impl<W: Write> Show for LiveView<W> {
    fn event(&mut self, elapsed: Duration, event: &Event) -> io::Result<()> {
        match event {
            Event::Synced { counts } => self.already = Already::new(elapsed, counts),
            Event::Target(target) => {
                self.names.see(&target.object);
                if self.already.takes(elapsed, target) {
                    self.reported.insert(target.object.clone(), target.state);
                    self.above.extend(self.already.line(elapsed, &self.names, self.palette));
                } else {
                    self.tell(target, elapsed);
                }
            }
            Event::Notice(notice) => {
                self.above.extend(explain::notice(notice, Some(self.columns()), self.palette));
            }
            Event::Log(log) => self.above.extend(logs::rows(log, Some(self.columns()), self.palette)),
            Event::Finished(_) => {
                let closed = self.close();
                self.quiet = None;
                return closed;
            }
        }
        self.changed = true;
        Ok(())
    }

    fn due(&self) -> Option<Duration> {
        Some(match self.last_frame {
            None => Duration::ZERO,
            Some(last) if self.changed => last + FRAME,
            // The clock moves.
            Some(last) => Duration::from_secs(last.as_secs() + 1),
        })
    }

    fn picture(&mut self, elapsed: Duration, snapshot: &dyn Fn(usize) -> Snapshot) -> io::Result<()> {
        self.changed = false;
        self.last_frame = Some(elapsed);
        self.above.extend(self.already.line(elapsed, &self.names, self.palette));
        self.draw(snapshot)
    }

    fn disturbed(&mut self) {
        self.changed = true;
        if let Some(quiet) = &mut self.quiet {
            quiet.again();
        }
    }

    fn pause(&mut self) {
        self.close().ok();
        if let Some(quiet) = &mut self.quiet {
            quiet.undo();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use insta::assert_snapshot;

    use super::*;
    use crate::progress::tests::Script;
    use crate::progress::{Signal, Signals, follow};
    use crate::scenes;

    /// A terminal, and how often something was written to it.
    struct Terminal {
        parser: vt100::Parser,
        writes: usize,
    }

    #[derive(Clone)]
    struct Shared(Rc<RefCell<Terminal>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut terminal = self.0.borrow_mut();
            terminal.parser.process(bytes);
            terminal.writes += 1;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn terminal() -> Shared {
        let parser = vt100::Parser::new(16.try_into().unwrap(), 80.try_into().unwrap(), 100);
        Shared(Rc::new(RefCell::new(Terminal { parser, writes: 0 })))
    }

    fn view(terminal: &Shared) -> LiveView<Shared> {
        LiveView::new(terminal.clone(), || Some(Size { columns: 80, rows: 16 }), Palette::NONE)
    }

    #[tokio::test(start_paused = true)]
    async fn finished_targets_stay_and_the_view_goes() {
        let terminal = terminal();
        let mut source = Script::new(scenes::failing(), scenes::rollout);
        follow(&mut source, &mut [Box::new(view(&terminal))], &mut Signals::none(), false).await.unwrap();
        let seen = terminal.0.borrow();
        assert!(!seen.parser.screen().hide_cursor());
        assert_snapshot!(seen.parser.screen().contents(), @"
        ✓ done already: ConfigMap/web
        warning: events cannot be listed in namespace shop
        hint: allow `list` on `events`
        ✓ Service/web  12s
        ✗ Deployment/web  failed after 1m35s  ImagePullBackOff
        ");
        // One frame a second for 95 seconds, and at most one for each of the events.
        assert!((95..=95 + 8).contains(&seen.writes), "{}", seen.writes);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_comes_back_is_a_line() {
        let interrupted = |seconds| {
            let mut snapshot = scenes::rollout(seconds);
            if (3..15).contains(&seconds) {
                let error = "connection refused".to_owned();
                snapshot.connection = Connection::Lost { since: Duration::from_secs(3), error };
            }
            snapshot
        };
        let terminal = terminal();
        let events = vec![(20.0, Event::Finished(scenes::settled()))];
        let mut source = Script::new(events, interrupted);
        follow(&mut source, &mut [Box::new(view(&terminal))], &mut Signals::none(), false).await.unwrap();
        assert_eq!(terminal.0.borrow().parser.screen().contents(), "reconnected after 12s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_storm_of_events_makes_ten_frames_a_second() {
        let terminal = terminal();
        let mut events: Vec<(f64, Event)> = (0..5000_u32)
            .map(|at| (f64::from(at) / 1000.0, Event::Target(scenes::waiting("web", at % 3))))
            .collect();
        events.push((5.0, Event::Finished(scenes::failed_rollout())));
        let mut source = Script::new(events, scenes::rollout);
        follow(&mut source, &mut [Box::new(view(&terminal))], &mut Signals::none(), false).await.unwrap();
        assert!((40..=52).contains(&terminal.0.borrow().writes), "{}", terminal.0.borrow().writes);
    }

    #[tokio::test(start_paused = true)]
    async fn an_interrupt_leaves_the_terminal_clean() {
        let terminal = terminal();
        let (sender, mut signals) = Signals::by_hand();
        let mut source = Script::new(scenes::failing(), scenes::rollout);
        let later = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            sender.send(Signal::Resize).unwrap();
            sender.send(Signal::Interrupt).unwrap();
            // Kept until the end: without a sender there would be no more signals.
            sender
        });
        follow(&mut source, &mut [Box::new(view(&terminal))], &mut signals, false).await.unwrap();
        later.await.unwrap();
        let seen = terminal.0.borrow();
        assert!(!seen.parser.screen().hide_cursor());
        assert_snapshot!(seen.parser.screen().contents(), @"
        ✓ done already: ConfigMap/web
        warning: events cannot be listed in namespace shop
        hint: allow `list` on `events`
        ");
    }
}
