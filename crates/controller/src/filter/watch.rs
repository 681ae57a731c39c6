//! Filtering of watches, event by event.

use std::mem;

use settled_watch::{EventType, Lines, WireError, read_event};

use super::tracker::{Position, Tracker};
use super::{KindFilter, Query};
use crate::object::ObjectView;

/// A watch being filtered.
pub(crate) struct Watch {
    lines: Lines,
    /// Whether the initial events are in progress.
    initial: bool,
    /// Whether bookmarks are requested.
    bookmarks: bool,
    /// The resourceVersion of the last change, if it was dropped.
    dropped: Option<String>,
    /// The latest resourceVersion known to the client.
    version: Option<String>,
}

/// Counts of the events in some bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) received: u64,
    pub(crate) dropped: u64,
}

impl Watch {
    pub(crate) fn new(query: &Query) -> Self {
        let version = match &query.resumes {
            Some(Position::Version(version)) => Some(version.clone()),
            _ => None,
        };
        Self {
            lines: Lines::default(),
            initial: query.initial_events,
            bookmarks: query.bookmarks,
            dropped: None,
            version,
        }
    }

    /// Where the next watch may continue after the end of this one.
    pub(crate) fn position(&mut self) -> Option<Position> {
        if self.initial { None } else { self.version.take().map(Position::Version) }
    }

    /// Processes new data. `write` writes the projection of an object.
    pub(crate) fn push(
        &mut self,
        data: &[u8],
        filter: &KindFilter,
        tracker: &mut Tracker,
        out: &mut Vec<u8>,
        write: impl Fn(&ObjectView<'_>, &mut Vec<u8>),
    ) -> Result<Count, WireError> {
        let mut lines = mem::take(&mut self.lines);
        let mut count = Count::default();
        let pushed = lines.push(data, |line| self.line(line, filter, tracker, &mut count, out, &write));
        self.lines = lines;
        pushed?;
        // A client that resumes from here need not see dropped changes again.
        if !self.initial
            && let Some(version) = self.dropped.take()
        {
            if self.bookmarks {
                let (api_version, kind) = (&filter.api_version, &filter.kind);
                let bookmark = format!(
                    r#"{{"type":"BOOKMARK","object":{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"resourceVersion":"{version}"}}}}}}"#
                );
                out.extend_from_slice(bookmark.as_bytes());
                out.push(b'\n');
                self.version = Some(version);
            } else {
                // The client will resume from an earlier one.
                self.version = None;
            }
        }
        Ok(count)
    }

    fn line(
        &mut self,
        line: &[u8],
        filter: &KindFilter,
        tracker: &mut Tracker,
        count: &mut Count,
        out: &mut Vec<u8>,
        write: &impl Fn(&ObjectView<'_>, &mut Vec<u8>),
    ) {
        let pass = |out: &mut Vec<u8>| {
            out.extend_from_slice(line);
            out.push(b'\n');
        };
        // kube-rs reports events that cannot be parsed.
        let Some((event, json)) = read_event(line) else { return pass(out) };
        let Ok(object) = ObjectView::parse(json) else { return pass(out) };
        if event == EventType::Error {
            return pass(out);
        }
        let version = Some(object.resource_version().into_owned()).filter(|version| !version.is_empty());
        if event == EventType::Bookmark {
            if object.annotation("k8s.io/initial-events-end").as_deref() == Some("true") {
                self.initial = false;
            }
            (self.version, self.dropped) = (version, None);
            return pass(out);
        }
        count.received += 1;
        let reported = match self.initial && event != EventType::Deleted {
            true => tracker.listed(filter, &object).then_some(event),
            false => tracker.changed(filter, event, &object),
        };
        let Some(reported) = reported else {
            count.dropped += 1;
            self.dropped = version;
            return;
        };
        (self.version, self.dropped) = (version, None);
        let name = match reported {
            EventType::Added => "ADDED",
            EventType::Deleted => "DELETED",
            _ => "MODIFIED",
        };
        out.extend_from_slice(format!(r#"{{"type":"{name}","object":"#).as_bytes());
        write(&object, out);
        out.extend_from_slice(b"}\n");
    }
}
