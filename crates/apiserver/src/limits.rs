//! How many requests run at once, and how long one may take.

use std::sync::Arc;
use std::time::Duration;

use settled_go_text as go;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::User;
use crate::error::ApiError;
use crate::request::{Query, RequestInfo};

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
}

impl Default for Limits {
    /// Upstream's: 400, 200, a minute.
    fn default() -> Self {
        Self { reading: Some(400), mutating: Some(200), request_time: Duration::from_secs(60) }
    }
}

/// Lets requests in as long as there is room.
pub(crate) struct Gate {
    reading: Room,
    mutating: Room,
    request_time: Duration,
}

struct Room {
    size: usize,
    free: Arc<Semaphore>,
}

impl Room {
    fn new(limit: Option<usize>) -> Self {
        let size = limit.unwrap_or(Semaphore::MAX_PERMITS).clamp(1, Semaphore::MAX_PERMITS);
        Self { size, free: Arc::new(Semaphore::new(size)) }
    }

    fn running(&self) -> usize {
        self.size.saturating_sub(self.free.available_permits())
    }
}

impl Gate {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            reading: Room::new(limits.reading),
            mutating: Room::new(limits.mutating),
            request_time: limits.request_time,
        }
    }

    /// Lets a request in. It counts until the permit is gone. Watches and administrators get none, as upstream; nor does
    /// what is no resource: health must answer when nothing else does.
    ///
    /// # Errors
    /// 429 if there is no room.
    pub(crate) fn enter(
        &self,
        info: &RequestInfo,
        user: &User,
    ) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        let exempt = user.groups.iter().any(|group| group == "system:masters");
        if !info.is_resource || info.verb == "watch" || exempt {
            return Ok(None);
        }
        let room = if info.is_mutating() { &self.mutating } else { &self.reading };
        room.free.clone().try_acquire_owned().map(Some).map_err(|_| {
            ApiError::new(429, "TooManyRequests", "Too many requests, please try again later.").retry_after(1)
        })
    }

    /// How many requests that read run, and how many that write.
    pub(crate) fn running(&self) -> (usize, usize) {
        (self.reading.running(), self.mutating.running())
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
        match duration(text) {
            Some(time) if time > 0.0 => {
                // It is not more than the limit, so it is a duration.
                let seconds = time.min(self.request_time.as_secs_f64());
                Ok(Duration::try_from_secs_f64(seconds).unwrap_or(self.request_time))
            }
            Some(_) => Ok(self.request_time),
            None => {
                let message = "invalid timeout specified in the request URL - time: invalid duration";
                Err(ApiError::bad_request(format!("{message} {}", go::quote(text))))
            }
        }
    }
}

/// Go's `time.ParseDuration`, in seconds.
fn duration(text: &str) -> Option<f64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0.0);
    }
    let mut sum = 0.0;
    while !rest.is_empty() || sum == 0.0 {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        sum += number
            * match unit {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = tail;
        if rest.is_empty() {
            break;
        }
    }
    Some(if negative { -sum } else { sum })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let cases = [
            ("1s", Some(1.0)),
            ("1h2m3.5s", Some(3723.5)),
            ("250ms", Some(0.25)),
            ("+.5m", Some(30.0)),
            ("-1s", Some(-1.0)),
            ("0", Some(0.0)),
            ("0s", Some(0.0)),
            ("", None),
            ("1", None),
            ("s", None),
            (".s", None),
            ("1x", None),
            ("1s2", None),
            ("--1s", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(duration(text), wanted, "{text}");
        }
    }
}
