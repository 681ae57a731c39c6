//! Request limits: concurrency for each user, budget and timeout of a request.

use std::time::Duration;

use settled_budget::Budget;
use settled_go as go;

use crate::auth::User;
use crate::error::ApiError;
use crate::http::fair::{Fair, QueueFull, Seat, Share};
use crate::request::{Query, RequestInfo};

/// About two seconds. The body with the most values, 1.5 million numbers in 3 MiB, takes less where each is checked against a
/// dozen schemas.
const STEPS: u64 = 30_000_000;
/// How much memory defaults may take in all the objects of one answer.
const MAX_DEFAULTS: u64 = 256 << 20;
/// How many of a user's requests wait for a seat.
const QUEUE: usize = 100;
/// How large a body may be before the request needs a place for it. There are so many places as 120 MiB have room for.
const SMALL_BODY: usize = 64 << 10;
const LARGE_BODIES: Share = Share { seats: 32, per_user: 24, reserve: 8, queue: usize::MAX };

/// How much the server does at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How many requests that read run at once. None: there is no limit. Watches do not count.
    pub reading: Option<usize>,
    /// How many requests that write run at once. None: there is no limit.
    pub mutating: Option<usize>,
    /// How long a request may take that is no watch. Clients can ask for less.
    pub request_time: Duration,
    /// How long a request waits when there is no room for it.
    pub queue_time: Duration,
    /// How many steps of defaulting, validation and merging one request may take; what takes more is refused with 422.
    pub steps: u64,
}

impl Default for Limits {
    /// Upstream's: 400, 200, a minute, a quarter of that. Upstream has no limit of steps.
    fn default() -> Self {
        Self {
            reading: Some(400),
            mutating: Some(200),
            request_time: Duration::from_secs(60),
            queue_time: Duration::from_secs(15),
            steps: STEPS,
        }
    }
}

/// Lets requests in as long as there is room, and makes room for everybody.
pub(crate) struct Gate {
    reading: Option<Fair>,
    mutating: Option<Fair>,
    /// Requests with large bodies.
    large: Fair,
    request_time: Duration,
    queue_time: Duration,
    steps: u64,
}

/// A quarter of the seats is for others, whatever one user does; and some more are for those who have none.
fn seats(limit: usize) -> Share {
    let seats = limit.max(1);
    Share { seats, per_user: seats - seats / 4, reserve: seats.div_ceil(8), queue: QUEUE }
}

impl Gate {
    pub(crate) fn new(limits: &Limits) -> Self {
        let room = |limit: Option<usize>| limit.map(|limit| Fair::new(seats(limit)));
        Self {
            reading: room(limits.reading),
            mutating: room(limits.mutating),
            large: Fair::new(LARGE_BODIES),
            request_time: limits.request_time,
            queue_time: limits.queue_time,
            steps: limits.steps,
        }
    }

    /// Lets a request in that has all of its body. It counts until the seat is gone. Watches and administrators get none, as
    /// upstream; nor does what is no resource: health must answer when nothing else does.
    ///
    /// # Errors
    /// 429 if there is no room for a while.
    pub(crate) async fn enter(&self, info: &RequestInfo, user: &User) -> Result<Option<Seat>, ApiError> {
        if !info.is_resource || info.verb == "watch" || is_exempt(user) {
            return Ok(None);
        }
        let Some(room) = (if info.is_mutating() { &self.mutating } else { &self.reading }) else {
            return Ok(None);
        };
        match tokio::time::timeout(self.queue_time, room.seat(&user.name)).await {
            Ok(Ok(seat)) => Ok(Some(seat)),
            Ok(Err(QueueFull)) | Err(_) => {
                let message = "Too many requests, please try again later.";
                Err(ApiError::new(429, "TooManyRequests", message).retry_after(1))
            }
        }
    }

    /// What one request may use.
    pub(crate) fn budget(&self) -> Budget {
        Budget::new(self.steps, MAX_DEFAULTS)
    }

    /// A place for a body of more than [`SMALL_BODY`] bytes.
    pub(crate) async fn place(&self, user: &User) -> Option<Seat> {
        // That queue is never full.
        self.large.seat(&user.name).await.ok()
    }

    /// How many requests that read run, and how many that write.
    pub(crate) fn running(&self) -> (usize, usize) {
        let held = |room: &Option<Fair>| room.as_ref().map_or(0, Fair::held);
        (held(&self.reading), held(&self.mutating))
    }

    /// How long a request may take, or the beginning of a watch.
    ///
    /// # Errors
    /// 400 if the client asks for something that is no time.
    pub(crate) fn time(&self, info: &RequestInfo, query: &Query) -> Result<Duration, ApiError> {
        let text = query.get("timeout");
        if text.is_empty() || info.verb == "watch" {
            return Ok(self.request_time);
        }
        match go::duration::parse(text) {
            Ok(time) => Ok(match u64::try_from(time) {
                Ok(time) if time > 0 => self.request_time.min(Duration::from_nanos(time)),
                _ => self.request_time,
            }),
            Err(error) => {
                let message = format!("invalid timeout specified in the request URL - {error}");
                Err(ApiError::bad_request(message))
            }
        }
    }
}

/// Upstream's administrators.
fn is_exempt(user: &User) -> bool {
    user.groups.iter().any(|group| group == "system:masters")
}

/// Does a body need a place?
pub(crate) const fn is_large(bytes: usize) -> bool {
    bytes > SMALL_BODY
}
