//! Response bodies: bytes, lists that are joined while they are sent, and watches.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::http::compress::{self, GzipList};
use crate::http::list_body::ListBody;
use crate::http::metrics::Running;
use crate::http::stalled::{Connection, Progress};
use crate::verbs::watching::WatchStream;

/// The body of an answer.
pub struct Body {
    kind: Kind,
    /// The request is counted when its body is gone.
    running: Option<Box<Running>>,
    /// Its connection sees that it is under way.
    held: Option<Arc<Connection>>,
    /// Of a list: that it is read.
    progress: Option<Progress>,
}

enum Kind {
    Bytes(Option<Bytes>),
    List(Box<ListBody>),
    Gzip(Box<GzipList>),
    Watch(Box<WatchStream>),
}

impl Body {
    pub(crate) fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self::new(Kind::Bytes(Some(bytes.into())))
    }

    pub(crate) fn empty() -> Self {
        Self::new(Kind::Bytes(None))
    }

    pub(crate) fn list(list: ListBody) -> Self {
        Self::new(Kind::List(Box::new(list)))
    }

    pub(crate) fn watch(watch: WatchStream) -> Self {
        Self::new(Kind::Watch(Box::new(watch)))
    }

    fn new(kind: Kind) -> Self {
        Self { kind, running: None, held: None, progress: None }
    }

    /// Says whose answer it is.
    pub(crate) fn counted(&mut self, running: Running) {
        self.running = Some(Box::new(running));
    }

    /// Holds its connection as long as there is something to send. A list whose client stops reading gives its seat back. Watches
    /// have bounds of their own; other answers are handed to the connection as a whole, and hold nothing then.
    pub(crate) fn holds(&mut self, connection: Arc<Connection>) {
        if let (Kind::List(_) | Kind::Gzip(_), Some(running)) = (&self.kind, &self.running) {
            self.progress = Some(Progress::begin(running.seat(), &connection));
        }
        self.held = Some(connection);
    }

    /// Gzips the body if it is large and no watch.
    pub(crate) fn compress(&mut self) -> bool {
        let kind = match std::mem::replace(&mut self.kind, Kind::Bytes(None)) {
            Kind::Bytes(Some(bytes)) if bytes.len() > compress::THRESHOLD => {
                Kind::Bytes(Some(compress::gzip(&bytes)))
            }
            Kind::List(mut list) => match list.next_chunk() {
                Some(first) if !list.done || first.len() > compress::THRESHOLD => {
                    Kind::Gzip(Box::new(GzipList::new(&first, list)))
                }
                first => {
                    self.kind = Kind::Bytes(first);
                    return false;
                }
            },
            other => {
                self.kind = other;
                return false;
            }
        };
        self.kind = kind;
        true
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes: Option<Bytes>| bytes.map(|bytes| Ok(Frame::data(bytes)));
        let Self { kind, running, progress, .. } = self.get_mut();
        let progress = progress.as_ref();
        let taken = |bytes: Option<Bytes>| {
            if let Some(progress) = progress {
                progress.taken(bytes.as_ref().map_or(0, Bytes::len));
            }
            bytes
        };
        match kind {
            Kind::Bytes(bytes) => Poll::Ready(frame(bytes.take())),
            Kind::List(list) => Poll::Ready(frame(taken(list.next_chunk()))),
            Kind::Gzip(list) => Poll::Ready(frame(taken(list.next_chunk()))),
            Kind::Watch(watch) => watch.poll_chunk(context).map(|chunk| {
                if let (Some(chunk), Some(running)) = (&chunk, running) {
                    running.sent(chunk);
                }
                frame(chunk)
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, Kind::Bytes(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Bytes(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            _ => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Body").field(&self.kind).finish()
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Gzip(_) => "gzipped list",
            Self::Watch(_) => "watch",
        })
    }
}
