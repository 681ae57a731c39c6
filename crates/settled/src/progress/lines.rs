//! Progress lines, as text for logs or as JSON lines.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kstatus::{FailureClass, Status};
use serde::Serialize;
use settled_tracker::report::{Counts, Snapshot};
use settled_tracker::{Event, ObjectId, State, TargetReport};

use super::{Show, logs};
use crate::cause::{self, Cause};
use crate::duration;
use crate::names::{self, Names};
use crate::render::{explain, write_json_line};
use crate::style::{self, Palette};
use crate::text;

/// How often a log shows that we are alive. Some CI systems end jobs that are silent for minutes.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How many objects a heartbeat names.
const HEARTBEAT_NAMES: usize = 5;
/// So long changes of a target are collected before the last of them is a line.
const COALESCE: Duration = Duration::from_secs(1);
/// Minimum number of targets with the same change that share a line.
const GROUP_MIN: usize = 4;
/// Maximum number of objects named in the line about those that were done already.
const ALREADY_NAMED_MAX: usize = 5;

/// Line about a target without its name, shared by thousands of targets.
#[derive(Debug)]
struct Change {
    kind: Arc<str>,
    class: Option<FailureClass>,
    /// `✗ Failed     `
    head: String,
    /// `  ImagePullBackOff  cannot pull "web:2" · fails in 27s unless it recovers`
    tail: String,
}

/// A line per change, and a heartbeat.
#[derive(Debug)]
pub(crate) struct PlainLines<W> {
    out: W,
    palette: Palette,
    names: Names,
    /// None where time is virtual and nobody waits.
    heartbeat: Option<Duration>,
    last_heartbeat: Duration,
    /// Targets that changed and are not written yet, each with what is to be written; and when that is due.
    pending: BTreeMap<ObjectId, u64>,
    changes: HashMap<u64, Change>,
    due: Option<Duration>,
    /// Last line of each target, and the failure class of its cause.
    written: HashMap<ObjectId, (u64, Option<FailureClass>)>,
    hasher: RandomState,
    already: Already,
    over: bool,
}

impl<W: Write> PlainLines<W> {
    pub(crate) fn new(out: W, palette: Palette) -> Self {
        Self {
            out,
            palette,
            names: Names::default(),
            heartbeat: Some(HEARTBEAT),
            last_heartbeat: Duration::ZERO,
            pending: BTreeMap::new(),
            changes: HashMap::new(),
            due: None,
            written: HashMap::new(),
            hasher: RandomState::new(),
            already: Already::default(),
            over: false,
        }
    }

    /// Without a heartbeat, where time is virtual and nobody waits.
    pub(crate) fn without_heartbeat(self) -> Self {
        Self { heartbeat: None, ..self }
    }

    fn line(&mut self, elapsed: Duration, line: &str) -> io::Result<()> {
        let time = self.palette.dim(&format!("{:>8}", duration::format(elapsed)));
        // One write for each, however it is buffered.
        self.out.write_all(format!("{time}  {}\n", line.trim_end()).as_bytes())
    }

    /// A target has changed: a line now if it is done, has failed, or something new stands in its way; else soon.
    fn target(&mut self, elapsed: Duration, target: &TargetReport) -> io::Result<()> {
        let cause = Cause::of(target);
        let before = self.written.get(&target.object).copied();
        let is_final = target.state != State::Waiting;
        let hash = self.hash(target, &cause);
        if !is_final && (cause.class.is_none() || before.is_some_and(|(_, class)| class == cause.class)) {
            self.pending.insert(target.object.clone(), hash);
            if !self.changes.contains_key(&hash) {
                let change = self.change(target, &cause);
                self.changes.insert(hash, change);
            }
            self.due.get_or_insert(elapsed + COALESCE);
            return Ok(());
        }
        self.pending.remove(&target.object);
        self.written.insert(target.object.clone(), (hash, cause.class.filter(|_| !is_final)));
        if before.is_some_and(|(before, _)| before == hash) {
            return Ok(());
        }
        let change = self.change(target, &cause);
        let name = self.names.name(&target.object);
        self.changed(elapsed, &change, &name)
    }

    /// Writes what was collected; targets that changed alike in one line.
    fn flush(&mut self, elapsed: Duration) -> io::Result<()> {
        self.due = None;
        let mut alike: Vec<(u64, Vec<ObjectId>)> = Vec::new();
        let mut places: HashMap<u64, usize> = HashMap::new();
        let changes = std::mem::take(&mut self.changes);
        for (object, hash) in std::mem::take(&mut self.pending) {
            let class = changes.get(&hash).and_then(|change| change.class);
            let before = self.written.insert(object.clone(), (hash, class));
            if before.is_some_and(|(before, _)| before == hash) {
                continue;
            }
            let place = *places.entry(hash).or_insert(alike.len());
            match alike.get_mut(place) {
                Some((_, objects)) => objects.push(object),
                None => alike.push((hash, vec![object])),
            }
        }
        for (hash, objects) in alike {
            let Some(change) = changes.get(&hash) else { continue };
            if objects.len() >= GROUP_MIN {
                self.changed(elapsed, change, &names::count_of(objects.len(), &change.kind))?;
                continue;
            }
            for object in objects {
                let name = self.names.name(&object);
                self.changed(elapsed, change, &name)?;
            }
        }
        Ok(())
    }

    /// Line about a target, without its name and elapsed times.
    fn hash(&self, target: &TargetReport, cause: &Cause) -> u64 {
        let kind = &target.object.kind;
        self.hasher.hash_one((target.state, target.verdict.status, kind, &cause.reason, &cause.message))
    }

    fn change(&self, target: &TargetReport, cause: &Cause) -> Change {
        let state = target.state;
        let status = if state == State::Failed { Status::Failed } else { target.verdict.status };
        let mark = self.palette.state(state, style::mark(state));
        let word = self.palette.status(status, &format!("{:<11}", status.as_str()));
        let mut tail = String::new();
        // Targets that are done have no further changes.
        if state != State::Done {
            let texts = [&*cause.reason, &*cause.message];
            for text in texts.into_iter().filter(|text| !text.is_empty() && *text != status.as_str()) {
                tail.push_str("  ");
                tail.push_str(text);
            }
        }
        if state == State::Skipped {
            tail.push_str("  (not waited for)");
        }
        if let Some(note) = cause.countdown().or_else(|| cause::note(target)) {
            tail.push_str(&self.palette.dim(&format!(" · {note}")));
        }
        Change { kind: target.object.kind.clone(), class: cause.class, head: format!("{mark} {word}"), tail }
    }

    /// `✗ Failed      Job/migrate  BackoffLimitExceeded  the Job has used up its retries (backoffLimit 1)`
    fn changed(&mut self, elapsed: Duration, change: &Change, name: &str) -> io::Result<()> {
        let line = format!("{} {}{}", change.head, self.palette.heading(name), change.tail);
        self.line(elapsed, &line)
    }

    fn already(&mut self, elapsed: Duration) -> io::Result<()> {
        match self.already.line(elapsed, &self.names, self.palette) {
            Some(line) => self.line(elapsed, &line),
            None => Ok(()),
        }
    }
}

impl<W: Write> Show for PlainLines<W> {
    fn event(&mut self, elapsed: Duration, event: &Event) -> io::Result<()> {
        match event {
            Event::Synced { counts } => {
                self.already = Already::new(elapsed, counts);
                if counts.total == 0 {
                    return self.line(elapsed, "  watching 0 objects");
                }
                let mut line = format!(
                    "  watching {}: {} done, {} waiting",
                    text::plural(counts.total as u64, "object"),
                    counts.done,
                    counts.waiting
                );
                if counts.failed > 0 {
                    line.push_str(&format!(", {} failed", counts.failed));
                }
                self.line(elapsed, &line)
            }
            Event::Target(target) => {
                self.names.see(&target.object);
                if self.already.takes(elapsed, target) {
                    return self.already(elapsed);
                }
                self.target(elapsed, target)
            }
            Event::Notice(notice) => {
                let lines = explain::notice(notice, None, self.palette);
                lines.iter().try_for_each(|line| self.line(elapsed, &format!("  {line}")))
            }
            Event::Log(log) => {
                let lines = logs::rows(log, None, self.palette);
                lines.iter().try_for_each(|line| self.line(elapsed, &format!("  {line}")))
            }
            Event::Finished(_) => {
                // The explanation says it better.
                self.over = true;
                self.out.flush()
            }
        }
    }

    fn due(&self) -> Option<Duration> {
        if self.over {
            return None;
        }
        let heartbeat = self.heartbeat.map(|period| self.last_heartbeat + period);
        self.due.into_iter().chain(self.already.due()).chain(heartbeat).min()
    }

    fn picture(&mut self, elapsed: Duration, snapshot: &dyn Fn(usize) -> Snapshot) -> io::Result<()> {
        self.already(elapsed)?;
        if self.due.is_some_and(|due| due <= elapsed) {
            self.flush(elapsed)?;
        }
        if self.heartbeat.is_none_or(|period| elapsed < self.last_heartbeat + period) {
            return Ok(());
        }
        self.last_heartbeat = elapsed;
        let snapshot = snapshot(HEARTBEAT_NAMES);
        let open = snapshot.targets.iter().filter(|target| explain::is_open(target));
        let open: Vec<String> = open
            .map(|target| format!("{}: {}", self.names.name(&target.object), Cause::of(target).sentence()))
            .collect();
        let counts = snapshot.counts;
        let more = (counts.failed + counts.waiting).saturating_sub(open.len());
        let mut line = format!("  {}", explain::counts(&counts));
        if !open.is_empty() {
            line.push_str(&format!("; {}", open.join("; ")));
        }
        if more > 0 {
            line.push_str(&format!("; and {more} more"));
        }
        self.line(elapsed, &line)
    }
}

/// The targets that were done before the wait began: one line for all of them.
#[derive(Debug, Default)]
pub(crate) struct Already {
    /// How many of them are still to come, and until when: they are the first events.
    left: usize,
    until: Duration,
    total: usize,
    /// The first few of them.
    done: Vec<ObjectId>,
    count: usize,
    written: bool,
}

impl Already {
    /// As all was seen once.
    pub(crate) fn new(elapsed: Duration, counts: &Counts) -> Self {
        Self { left: counts.done, until: elapsed + COALESCE, total: counts.total, ..Self::default() }
    }

    /// Whether the target is one of them.
    pub(crate) fn takes(&mut self, elapsed: Duration, target: &TargetReport) -> bool {
        if self.left == 0 || elapsed >= self.until || target.state != State::Done {
            return false;
        }
        self.left -= 1;
        self.count += 1;
        if self.done.len() < ALREADY_NAMED_MAX {
            self.done.push(target.object.clone());
        }
        true
    }

    /// When the line is due.
    fn due(&self) -> Option<Duration> {
        (self.count > 0 && !self.written).then_some(self.until)
    }

    /// `98 of 200 were done already`, once all of them came. Where nothing else is waited for, the result says how many.
    pub(crate) fn line(&mut self, elapsed: Duration, names: &Names, palette: Palette) -> Option<String> {
        if self.written || self.count == 0 || self.left > 0 && elapsed < self.until {
            return None;
        }
        self.written = true;
        if self.count == self.total && self.count > ALREADY_NAMED_MAX {
            return None;
        }
        let mark = palette.state(State::Done, style::mark(State::Done));
        let names: Vec<String> = self.done.iter().map(|object| names.name(object)).collect();
        Some(match self.count {
            1..=ALREADY_NAMED_MAX => format!("{mark} done already: {}", names.join(", ")),
            count => format!("{mark} {count} of {} were done already", self.total),
        })
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
        Self { out, now: crate::time::now }
    }
}

impl<W: Write> Show for JsonLines<W> {
    fn event(&mut self, _elapsed: Duration, event: &Event) -> io::Result<()> {
        write_timed(event, (self.now)(), &mut self.out)?;
        // Each line is flushed at once.
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
        follow(&mut source, &mut [Box::new(show)], &mut Signals::none(), false).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_per_change_and_a_heartbeat() {
        let out = Shared::default();
        followed(PlainLines::new(out.clone(), Palette::NONE)).await;
        assert_snapshot!(out.text(), @r#"
        200ms    watching 4 objects: 1 done, 3 waiting
        200ms  ✓ done already: ConfigMap/web
        300ms    warning: events cannot be listed in namespace shop
        300ms    hint: allow `list` on `events`
           1s  • InProgress  Deployment/web  LessReady  Ready: 0/3
           5s  • InProgress  Deployment/web  LessReady  Ready: 1/3
          12s  ✓ Current     Service/web
          30s    3/5 done; Deployment/web: ErrImagePull: cannot pull "web:1.9.0": manifest unknown; Deployment/search: LessReady: Ready: 2/3
           1m    3/5 done; Deployment/web: ErrImagePull: cannot pull "web:1.9.0": manifest unknown; Deployment/search: LessReady: Ready: 2/3
        1m30s    3/5 done; Deployment/web: ErrImagePull: cannot pull "web:1.9.0": manifest unknown; Deployment/search: LessReady: Ready: 2/3
        1m35s  ✗ Failed      Deployment/web  ImagePullBackOff  cannot pull "registry.example.com/shop/web:1.9.0": manifest unknown · ImagePullBackOff for 1m35s (grace for image: 1m)
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
            ["synced", "target", "target", "notice", "target", "target", "target", "finished"]
        );
        assert_snapshot!(text.lines().take(4).collect::<Vec<_>>().join("\n"), @r#"
        {"time":"2026-11-21T10:05:00Z","event":"synced","counts":{"total":4,"done":1,"waiting":3,"failed":0,"skipped":0}}
        {"time":"2026-11-21T10:05:00Z","event":"target","object":{"group":"apps","kind":"Deployment","namespace":"shop","name":"web"},"state":"waiting","status":"InProgress","reason":"LessReady","message":"Ready: 0/3","basis":"kind-rule","confidence":"verified-rule","conditions":[{"type":"Reconciling","status":"True","reason":"LessReady","message":"Ready: 0/3"}],"since":"2026-11-21T10:02:50Z","created":"2026-11-21T10:02:50Z"}
        {"time":"2026-11-21T10:05:00Z","event":"target","object":{"kind":"ConfigMap","namespace":"shop","name":"web"},"state":"done","status":"Current","reason":"Ready","message":"","basis":"kind-rule","confidence":"verified-rule","conditions":[],"since":"2026-11-21T10:02:50Z","created":"2026-11-21T10:02:50Z"}
        {"time":"2026-11-21T10:05:00Z","event":"notice","message":"events cannot be listed in namespace shop","remedy":"allow `list` on `events`"}
        "#);
        assert_eq!(lines[7]["outcome"], "failed");
        assert_eq!(lines[7]["targets"][1]["causes"][0]["chain"][2]["reason"], "ImagePullBackOff");
    }
}
