//! Reading of request bodies: their size and minimum speed.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::auth::User;
use crate::error::ApiError;
use crate::http::fair::Seat;
use crate::http::limits::{self, Gate};

/// The largest body of a request, in bytes. Upstream's limit for JSON and YAML.
pub(crate) const MAX_BODY: usize = 3 << 20;
/// How long a client may be silent, or slower than [`MIN_RATE`].
const GRACE: Duration = Duration::from_secs(10);
/// How many bytes must come in a second after that.
const MIN_RATE: u32 = 1024;

/// A body, and its place among the large ones.
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    pub(crate) place: Option<Seat>,
}

/// When the next bytes must have come: each byte buys time, but no more than the grace.
struct Pace(Instant);

impl Pace {
    fn new() -> Self {
        Self(Instant::now() + GRACE)
    }

    fn received(&mut self, bytes: usize) {
        let bought = Duration::from_secs(1) * u32::try_from(bytes).unwrap_or(u32::MAX) / MIN_RATE;
        self.0 = (self.0 + bought).min(Instant::now() + GRACE);
    }
}

fn too_large() -> ApiError {
    let message = format!("Request entity too large: limit is {MAX_BODY}");
    ApiError::new(413, "RequestEntityTooLarge", message)
}

fn too_slow() -> ApiError {
    let message = format!(
        "Timeout: the body of the request came more slowly than {MIN_RATE} bytes a second for {} seconds",
        GRACE.as_secs()
    );
    ApiError::new(408, "Timeout", message)
}

/// Reads a body to its end. A large one waits for its place before its rest is read.
///
/// # Errors
/// 413 if it is too large, 408 if it comes too slowly, 400 if it breaks off.
pub(crate) async fn read<B>(gate: &Gate, user: &User, body: B) -> Result<Received, ApiError>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = std::pin::pin!(body);
    let mut place = None;
    // Of a body that has to be waited for.
    let mut pace = None;
    // Most bodies come in one piece, which is taken as it is.
    let mut first = Bytes::new();
    let mut all: Vec<u8> = Vec::new();
    loop {
        let frame = match poll_fn(|context| Poll::Ready(body.as_mut().poll_frame(context))).await {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let Pace(end) = pace.get_or_insert_with(Pace::new);
                tokio::time::timeout_at(*end, body.frame()).await.map_err(|_| too_slow())?
            }
        };
        let data = match frame {
            None => break,
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => {
                let why = error.into();
                return Err(ApiError::bad_request(format!("the body could not be read: {why}")));
            }
        };
        let size = first.len() + all.len() + data.len();
        if size > MAX_BODY {
            return Err(too_large());
        }
        if let Some(pace) = &mut pace {
            pace.received(data.len());
        }
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&data);
        }
        if place.is_none() && limits::is_large(size) {
            place = gate.place(user).await;
            pace = None;
        }
    }
    let bytes = if all.is_empty() { first } else { all.into() };
    Ok(Received { bytes, place })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::Context;

    use http_body::Frame;
    use tokio::time::{Sleep, sleep};

    use super::*;
    use crate::http::limits::Limits;

    /// Sends some bytes, again and again.
    struct Slow {
        chunk: usize,
        every: Duration,
        left: usize,
        next: Pin<Box<Sleep>>,
    }

    impl Slow {
        fn new(chunk: usize, every: Duration, left: usize) -> Self {
            Self { chunk, every, left, next: Box::pin(sleep(every)) }
        }
    }

    impl Body for Slow {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            if self.next.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let every = self.every;
            self.next.as_mut().reset(Instant::now() + every);
            let size = self.chunk.min(self.left);
            self.left -= size;
            Poll::Ready(Some(Ok(Frame::data(vec![b' '; size].into()))))
        }
    }

    use std::future::Future as _;

    #[tokio::test(start_paused = true)]
    async fn bodies_must_come_at_some_rate() {
        const MS: Duration = Duration::from_millis(1);
        let never = Duration::from_secs(3600);
        // How much comes how often and in all; what is answered, and after how many seconds.
        let cases = [
            (1000, MS, 3000, Ok(3000), 0),
            (0, never, 1, Err(408), 10),
            (1, Duration::from_secs(1), 1000, Err(408), 10),
            // At the rate, for hours if it must be.
            (1024, Duration::from_secs(1), 300 << 10, Ok(300 << 10), 300),
            (1000, Duration::from_secs(1), 300 << 10, Ok(300 << 10), 308),
            (500, Duration::from_secs(1), 300 << 10, Err(408), 18),
            // What came before does not buy an hour.
            (MAX_BODY - 1, never, MAX_BODY, Err(408), 10),
            (1 << 20, MS, MAX_BODY, Ok(MAX_BODY), 0),
            (1 << 20, MS, MAX_BODY + 1, Err(413), 0),
        ];
        let gate = Gate::new(&Limits::default());
        let user = User::new("a", [""; 0]);
        for (chunk, every, size, wanted, seconds) in cases {
            let start = Instant::now();
            // The first bytes are there at once where the rest is late.
            let mut body = Slow::new(chunk, every, size);
            if chunk + 1 == MAX_BODY {
                body.next.as_mut().reset(Instant::now());
            }
            let received = read(&gate, &user, body).await;
            let found = received.map(|received| received.bytes.len()).map_err(|error| error.code);
            assert_eq!(found, wanted, "{chunk} {every:?}");
            assert_eq!(start.elapsed().as_secs(), seconds, "{chunk} {every:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_of_one_user_leave_room_for_another() {
        let gate = Gate::new(&Limits::default());
        let (hog, other) = (User::new("hog", [""; 0]), User::new("other", [""; 0]));
        let large = || Slow::new(100_000, Duration::from_secs(1), 200_000);
        let mut held = Vec::new();
        for _ in 0..24 {
            held.push(read(&gate, &hog, large()).await.unwrap());
        }
        let one_more = tokio::time::timeout(Duration::from_secs(9), read(&gate, &hog, large())).await;
        assert!(one_more.is_err());
        assert!(read(&gate, &other, large()).await.unwrap().place.is_some());
        // Small bodies need no place.
        let small = Slow::new(1000, Duration::from_secs(1), 2000);
        assert!(read(&gate, &hog, small).await.unwrap().place.is_none());
        held.pop();
        assert!(read(&gate, &hog, large()).await.is_ok());
    }
}
