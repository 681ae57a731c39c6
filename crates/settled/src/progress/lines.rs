//! A wait as lines: for people who read a log, and for programs.

use std::io::{self, Write};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use settled_tracker::{Event, Snapshot, State, TargetReport};

use super::Show;
use crate::duration;
use crate::names::Names;
use crate::render::junit::root_cause;
use crate::render::{explain, write_json_line};
use crate::style::{self, Palette};
use crate::text;

/// How often a log shows that we are alive. Some CI systems end jobs that are silent for minutes.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How many objects a heartbeat names.
const HEARTBEAT_NAMES: usize = 5;

/// A line per change, and a heartbeat.
#[derive(Debug)]
pub(crate) struct PlainLines<W> {
    out: W,
    palette: Palette,
    names: Names,
    last_heartbeat: Duration,
    over: bool,
}

impl<W: Write> PlainLines<W> {
    pub(crate) fn new(out: W, palette: Palette) -> Self {
        Self { out, palette, names: Names::default(), last_heartbeat: Duration::ZERO, over: false }
    }

    fn line(&mut self, elapsed: Duration, line: &str) -> io::Result<()> {
        let time = self.palette.dim(&format!("{:>8}", duration::elapsed(elapsed)));
        // One write for each, however it is buffered.
        self.out.write_all(format!("{time}  {}\n", line.trim_end()).as_bytes())
    }

    /// `✗ Failed  Job/migrate  BackoffLimitExceeded  the message`
    fn target(&self, target: &TargetReport) -> String {
        let verdict = &target.verdict;
        let state = target.state;
        let mark = self.palette.state(state, style::mark(state));
        let status = self.palette.status(verdict.status, &format!("{:<11}", verdict.status.as_str()));
        let name = self.palette.heading(&self.names.name(&target.object));
        let mut line = format!("{mark} {status} {name}");
        // What is done has no more to say; what has failed has its cause.
        if state != State::Done {
            let (reason, message) = match state {
                State::Failed => root_cause(target),
                _ => (verdict.reason.to_string(), verdict.message.to_string()),
            };
            for text in [&*reason, &*message].into_iter().filter(|text| *text != verdict.status.as_str()) {
                line.push_str("  ");
                text::push_clean(&mut line, text);
            }
        }
        if state == State::Skipped {
            line.push_str("  (not waited for)");
        }
        if let Some(note) = &target.note {
            line.push_str(&self.palette.dim(&format!("  — {}", text::clean(note))));
        }
        line
    }
}

impl<W: Write> Show for PlainLines<W> {
    fn event(&mut self, elapsed: Duration, event: &Event) -> io::Result<()> {
        match event {
            Event::Synced { counts } => {
                self.line(elapsed, &format!("  all seen: {}", explain::counts(counts)))
            }
            Event::Target(target) => {
                self.names.see(&target.object);
                let line = self.target(target);
                self.line(elapsed, &line)
            }
            Event::Notice(notice) => {
                let lines = explain::notice(notice, self.palette);
                lines.iter().try_for_each(|line| self.line(elapsed, &format!("  {line}")))
            }
            Event::Finished(_) => {
                self.over = true;
                self.out.flush()
            }
        }
    }

    fn due(&self) -> Option<Duration> {
        (!self.over).then_some(self.last_heartbeat + HEARTBEAT)
    }

    fn picture(&mut self, elapsed: Duration, snapshot: &dyn Fn(usize) -> Snapshot) -> io::Result<()> {
        self.last_heartbeat = elapsed;
        let snapshot = snapshot(HEARTBEAT_NAMES);
        let open = snapshot.targets.iter().filter(|target| explain::is_open(target));
        let open: Vec<String> = open
            .map(|target| {
                format!("{} {}", self.names.name(&target.object), text::clean(&target.verdict.reason))
            })
            .collect();
        let counts = snapshot.counts;
        let more = (counts.failed + counts.waiting).saturating_sub(open.len());
        let mut line = format!("  {}", explain::counts(&counts));
        if !open.is_empty() {
            line.push_str(&format!(": {}", open.join(", ")));
        }
        if more > 0 {
            line.push_str(&format!(" and {more} more"));
        }
        self.line(elapsed, &line)
    }
}

/// A JSON object per event.
#[derive(Debug)]
pub(crate) struct JsonLines<W> {
    out: W,
    now: fn() -> Timestamp,
}

/// An event, and when it was.
#[derive(Serialize)]
struct Timed<'a, T> {
    time: Timestamp,
    #[serde(flatten)]
    event: &'a T,
}

/// Writes an event as a line of JSON, with the time. Milliseconds are what a reader can make use of.
pub(crate) fn write_timed<T: Serialize>(event: &T, now: Timestamp, out: &mut impl Write) -> io::Result<()> {
    let time = now.round(jiff::Unit::Millisecond).unwrap_or(now);
    write_json_line(&Timed { time, event }, out)
}

impl<W: Write> JsonLines<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, now: Timestamp::now }
    }
}

impl<W: Write> Show for JsonLines<W> {
    fn event(&mut self, _elapsed: Duration, event: &Event) -> io::Result<()> {
        write_timed(event, (self.now)(), &mut self.out)?;
        // Whoever reads it wants it as it happens.
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use insta::assert_snapshot;

    use super::*;
    use crate::progress::tests::Script;
    use crate::progress::{Signals, follow};
    use crate::scenes;

    /// A place to write to that can be looked at.
    #[derive(Clone, Default)]
    struct Shared(Rc<RefCell<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.borrow().clone()).unwrap()
        }
    }

    async fn followed(show: impl Show + 'static) {
        let mut source = Script::new(scenes::failing(), scenes::rollout);
        follow(&mut source, &mut [Box::new(show)], &mut Signals::none()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_per_change_and_a_heartbeat() {
        let out = Shared::default();
        followed(PlainLines::new(out.clone(), Palette::NONE)).await;
        assert_snapshot!(out.text(), @r#"
         0.2s  • InProgress  Deployment/web  LessReady  Ready: 0/3
         0.2s  ✓ Current     ConfigMap/web
         0.2s    all seen: 1 failed, 1 not done, 2 of 4 done
         0.3s    warning: events can't be listed in namespace shop
         0.3s    hint: allow `list` on `events`
         4.0s  • InProgress  Deployment/web  LessReady  Ready: 1/3
        12.3s  ✓ Current     Service/web
        30.0s    2 not done, 3 of 5 done: Deployment/web LessReady, Deployment/search LessReady
        1m00s    2 not done, 3 of 5 done: Deployment/web LessReady, Deployment/search LessReady
        1m30s    2 not done, 3 of 5 done: Deployment/web LessReady, Deployment/search LessReady
        1m35s  ✗ InProgress  Deployment/web  ImagePullBackOff  container app: ImagePullBackOff: Back-off pulling image "registry.example.com/shop/web:1.9.0": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image: manifest unknown  — counts as failed: image, for more than 1m0s
        "#);
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_json() {
        let out = Shared::default();
        followed(JsonLines { now: scenes::now, ..JsonLines::new(out.clone()) }).await;
        let text = out.text();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
        assert_eq!(
            events,
            ["target", "target", "synced", "notice", "target", "target", "target", "finished"]
        );
        assert_snapshot!(text.lines().take(4).collect::<Vec<_>>().join("\n"), @r#"
        {"time":"2026-11-21T10:05:00Z","event":"target","object":{"group":"apps","kind":"Deployment","namespace":"shop","name":"web"},"state":"waiting","status":"InProgress","reason":"LessReady","message":"Ready: 0/3","basis":"kind-rule","conditions":[{"type":"Reconciling","status":"True","reason":"LessReady","message":"Ready: 0/3"}],"since":"2026-11-21T10:02:50Z"}
        {"time":"2026-11-21T10:05:00Z","event":"target","object":{"kind":"ConfigMap","namespace":"shop","name":"web"},"state":"done","status":"Current","reason":"Ready","message":"","basis":"kind-rule","conditions":[],"since":"2026-11-21T10:02:50Z"}
        {"time":"2026-11-21T10:05:00Z","event":"synced","counts":{"total":4,"done":2,"waiting":1,"failed":1,"skipped":0}}
        {"time":"2026-11-21T10:05:00Z","event":"notice","message":"events can't be listed in namespace shop","remedy":"allow `list` on `events`"}
        "#);
        assert_eq!(lines[7]["outcome"], "failed");
        assert_eq!(lines[7]["targets"][1]["causes"][0]["chain"][2]["reason"], "ImagePullBackOff");
    }
}
