//! Streaming transformation of the body of a list or watch for kube-rs.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use kube::client::Body;
use settled_watch::WireError;

use super::list::List;
use super::tracker::Tracker;
use super::watch::{Count, Watch};
use super::{Counters, KindFilter, Query};
use crate::object::ObjectView;
use crate::projection::Projection;

/// Reason why the body of a list or watch is aborted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransformError {
    /// The body ended early. kube-rs decides by this text whether a watch can be resumed.
    #[error(transparent)]
    Body(kube::Error),
    /// The response is not a list or watch.
    #[error("the response is malformed")]
    Wire(#[source] WireError),
}

/// A body that is filtered while it arrives.
pub(crate) struct Transform {
    body: Body,
    rules: Rules,
    tracker: Option<Tracker>,
    content: Content,
}

/// Parameters of the transformation.
struct Rules {
    filter: Arc<KindFilter>,
    query: Query,
    /// Whether the client has requested metadata, but the response has whole objects.
    metadata_of_all: bool,
    counters: Arc<Counters>,
}

enum Content {
    List(List),
    Watch(Watch),
    Ended,
}

impl Transform {
    pub(super) fn new(
        body: Body,
        filter: Arc<KindFilter>,
        tracker: Tracker,
        query: Query,
        metadata_of_all: bool,
        counters: Arc<Counters>,
    ) -> Self {
        let content =
            if query.watch { Content::Watch(Watch::new(&query)) } else { Content::List(List::default()) };
        let rules = Rules { filter, query, metadata_of_all, counters };
        Self { body, rules, tracker: Some(tracker), content }
    }

    fn push(&mut self, data: &[u8]) -> Result<Vec<u8>, WireError> {
        let mut out = Vec::new();
        let (rules, Some(tracker)) = (&self.rules, &mut self.tracker) else { return Ok(out) };
        let count = match &mut self.content {
            Content::List(list) => {
                let mut count = Count::default();
                list.push(data, &mut out, |item, out| {
                    count.received += 1;
                    let kept = rules.listed(item, tracker, out);
                    count.dropped += u64::from(!kept);
                    kept
                })?;
                count
            }
            Content::Watch(watch) => {
                watch.push(data, &rules.filter, tracker, &mut out, |object, out| rules.write(object, out))?
            }
            Content::Ended => Count::default(),
        };
        let counters = &rules.counters;
        counters.received.fetch_add(count.received, Ordering::Relaxed);
        counters.dropped.fetch_add(count.dropped, Ordering::Relaxed);
        counters.bytes_received.fetch_add(data.len() as u64, Ordering::Relaxed);
        counters.bytes_passed.fetch_add(out.len() as u64, Ordering::Relaxed);
        Ok(out)
    }

    /// The body has ended, or was dropped: keeps the state for the next request.
    fn end(&mut self) -> Result<Vec<u8>, WireError> {
        let content = std::mem::replace(&mut self.content, Content::Ended);
        let (json, position) = match content {
            Content::List(list) => {
                let tail = list.finish()?;
                (tail.json, tail.position)
            }
            Content::Watch(mut watch) => (Vec::new(), watch.position()),
            Content::Ended => (Vec::new(), None),
        };
        if let (Some(position), Some(tracker)) = (position, self.tracker.take()) {
            self.rules.filter.park(&self.rules.query, position, tracker);
        }
        Ok(json)
    }
}

impl Rules {
    /// Writes an object of a list, if it is kept. kube-rs reports objects that cannot be parsed.
    fn listed(&self, item: &[u8], tracker: &mut Tracker, out: &mut Vec<u8>) -> bool {
        let Ok(object) = ObjectView::parse(item) else {
            out.extend_from_slice(item);
            return true;
        };
        let kept = tracker.listed(&self.filter, &object);
        if kept {
            self.write(&object, out);
        }
        kept
    }

    /// Writes the projection of an object.
    fn write(&self, object: &ObjectView<'_>, out: &mut Vec<u8>) {
        let projection = &self.filter.projection;
        if !self.metadata_of_all {
            return projection.write(object.root(), out);
        }
        let metadata = Projection::metadata();
        let projected = projection.apply(object);
        match ObjectView::parse(&projected) {
            Ok(object) => metadata.write(object.root(), out),
            Err(_) => metadata.write(object.root(), out),
        }
    }
}

impl http_body::Body for Transform {
    type Data = Bytes;
    type Error = TransformError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransformError>>> {
        let this = self.get_mut();
        loop {
            if matches!(this.content, Content::Ended) {
                return Poll::Ready(None);
            }
            let out = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.push(&data),
                    // Trailers.
                    Err(_) => continue,
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(TransformError::Body(error)))),
                None => this.end(),
            };
            match out {
                Ok(out) if out.is_empty() => {}
                Ok(out) => return Poll::Ready(Some(Ok(Frame::data(out.into())))),
                Err(error) => {
                    this.content = Content::Ended;
                    return Poll::Ready(Some(Err(TransformError::Wire(error))));
                }
            }
        }
    }
}

impl Drop for Transform {
    fn drop(&mut self) {
        // A list that was not read to its end leaves no state.
        if let Content::Watch(_) = self.content {
            drop(self.end());
        }
    }
}
