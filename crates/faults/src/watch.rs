//! Watches: forwards, delays and repeats the lines of a watch, and ends it, according to the schedule.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame};
use serde::Deserialize;
use tokio::time::{Instant, Sleep};

use crate::cluster::ObjectKey;
use crate::control::Control;
use crate::trace::Actor;
use crate::world::World;

/// Delay of a repeated event.
const REPEATED: Duration = Duration::from_secs(1);
/// The error of a watch whose resourceVersion is too old.
const EXPIRED: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
    r#""message":"too old resource version: 1 (2)","reason":"Expired","code":410}}"#,
    "\n"
);

/// Decoded fields of an event.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    #[serde(borrow)]
    object: Object<'a>,
}

/// Decoded fields of an object.
#[derive(Deserialize)]
pub(crate) struct Object<'a> {
    #[serde(borrow, default)]
    pub(crate) metadata: Metadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata<'a> {
    #[serde(borrow, default)]
    pub(crate) uid: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) name: Cow<'a, str>,
    pub(crate) generation: Option<i64>,
    #[serde(borrow, default)]
    pub(crate) resource_version: Cow<'a, str>,
}

/// The body of a watch, for one start of the controller.
pub(crate) struct WatchBody<W: World> {
    body: settled_apiserver::Body,
    control: Arc<Control<W>>,
    start: u32,
    resource: String,
    /// Number of the resource.
    number: usize,
    opened: Instant,
    /// Lines that precede those of the server.
    first: VecDeque<Bytes>,
    /// The beginning of a line.
    partial: BytesMut,
    held: VecDeque<Bytes>,
    /// Value of the run's counter of duplicate events when this watch repeated its last one.
    duplicates: usize,
    /// An event to repeat.
    again: Option<(Bytes, Instant)>,
    timer: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

/// Action of a watch on its pending lines.
enum Step {
    Pass,
    WaitUntil(Instant),
    Expire,
}

impl<W: World> WatchBody<W> {
    pub(crate) fn new(
        body: settled_apiserver::Body,
        control: Arc<Control<W>>,
        start: u32,
        object: &ObjectKey,
        first: VecDeque<Bytes>,
    ) -> Self {
        let (number, duplicates) = {
            let watches = &mut control.inner().watches;
            (watches.number(&object.group, &object.resource), watches.duplicates)
        };
        Self {
            body,
            control,
            start,
            resource: object.resource.clone(),
            number,
            opened: Instant::now(),
            first,
            partial: BytesMut::new(),
            held: VecDeque::new(),
            duplicates,
            again: None,
            timer: None,
            ended: false,
        }
    }

    /// Reads available data. Returns true at the end of the body.
    fn read(&mut self, context: &mut Context<'_>) -> bool {
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(mut data) = frame.into_data() else { continue };
                    // Most frames are whole lines, which are not copied.
                    while let Some(end) = data.iter().position(|byte| *byte == b'\n') {
                        let rest = data.split_to(end + 1);
                        let line = if self.partial.is_empty() {
                            rest
                        } else {
                            self.partial.extend_from_slice(&rest);
                            self.partial.split().freeze()
                        };
                        self.held.push_back(line);
                    }
                    self.partial.extend_from_slice(&data);
                }
                Poll::Ready(_) => return true,
                Poll::Pending => return false,
            }
        }
    }

    fn step(&self, context: &Context<'_>) -> Step {
        let mut inner = self.control.inner();
        let now = Instant::now();
        if !inner.watches.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            inner.watches.wakers.push(context.waker().clone());
        }
        if let Some((begun, end)) = inner.watches.expiry
            && self.opened <= begun
        {
            return if now >= end { Step::Expire } else { Step::WaitUntil(end) };
        }
        // A server with a stale cache has nothing newer.
        let behind = inner.watches.past(now).map(|(_, end)| end);
        let lagging = inner.watches.held_until(self.number, self.held.len(), now);
        behind.max(lagging).map_or(Step::Pass, Step::WaitUntil)
    }

    /// Delivers a line to the controller.
    fn deliver(&self, line: &Bytes, again: bool) {
        let Ok(event) = serde_json::from_slice::<Line<'_>>(line) else { return };
        let Metadata { uid, name, generation, resource_version } = &event.object.metadata;
        if let Some(generation) = generation {
            self.control.deliver(uid, *generation);
        }
        if event.kind == "BOOKMARK" {
            return;
        }
        let word = if again { " again" } else { "" };
        self.control.note(Actor::Controller(self.start), None, || {
            format!("sees {} {} {name} at {resource_version}{word}", event.kind, self.resource)
        });
    }

    /// Whether the line is repeated.
    fn is_repeated(&mut self, line: &Bytes) -> bool {
        let duplicates = self.control.inner().watches.duplicates;
        let is_event = !line.starts_with(br#"{"type":"BOOKMARK""#);
        if duplicates == self.duplicates || !is_event {
            return false;
        }
        self.duplicates = duplicates;
        true
    }

    fn wait(&mut self, until: Instant, context: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.insert(Box::pin(tokio::time::sleep_until(until)));
        timer.as_mut().poll(context)
    }
}

impl<W: World> http_body::Body for WatchBody<W> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        if !this.control.is_alive(this.start) {
            return Poll::Pending;
        }
        if let Some(line) = this.first.pop_front() {
            this.deliver(&line, false);
            return Poll::Ready(Some(Ok(Frame::data(line))));
        }
        let over = this.read(context);
        loop {
            match this.step(context) {
                Step::Expire => {
                    this.ended = true;
                    let (resource, start) = (&this.resource, this.start);
                    this.control.note(Actor::Controller(start), None, || {
                        format!("sees ERROR 410 Expired of {resource}; {} events were lost", this.held.len())
                    });
                    return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(EXPIRED.as_bytes())))));
                }
                Step::WaitUntil(end) => match this.wait(end, context) {
                    Poll::Ready(()) => continue,
                    Poll::Pending => return Poll::Pending,
                },
                Step::Pass => {}
            }
            let due = this.again.as_ref().is_some_and(|(_, due)| *due <= Instant::now());
            if (due || !this.held.is_empty())
                && let Some((line, _)) = this.again.take()
            {
                this.deliver(&line, true);
                return Poll::Ready(Some(Ok(Frame::data(line))));
            }
            if let Some(line) = this.held.pop_front() {
                this.deliver(&line, false);
                if this.is_repeated(&line) {
                    this.again = Some((line.clone(), Instant::now() + REPEATED));
                }
                return Poll::Ready(Some(Ok(Frame::data(line))));
            }
            if over {
                this.ended = true;
                return Poll::Ready(None);
            }
            let Some((_, due)) = this.again else { return Poll::Pending };
            if this.wait(due, context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
