//! Unread targets: the patience with a server that does not answer, the connection, and Unknown verdicts.

use std::sync::Arc;
use std::time::Duration;

use kstatus::Verdict;
use settled_watch::{Cluster, RequestError, Resources, no_answer};
use tokio::time::Instant;

use super::{Denied, Down, Followed, NOTIFY_AFTER, Role, START_BACKOFF, Stream, Tracker};
use crate::explain;
use crate::id::ObjectId;
use crate::ids::StreamId;
use crate::limits::Limits;
use crate::record::{Unread, not_found};
use crate::report::{Connection, Notice, Outcome};

/// How long the first complete answer may take where the wait has no timeout.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(30);
/// No wait lasts longer.
const MAX_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 86_400);
/// How long a server that cannot be reached is retried there, and one that fails.
const CONNECT_MAX: Duration = Duration::from_secs(1);
const FAILING_MAX: Duration = Duration::from_secs(10);
/// How long the connection may be lost before the user is notified.
const LOST_AFTER: Duration = Duration::from_secs(2);
/// How long a server may be silent before the user is notified.
const SILENT_AFTER: Duration = Duration::from_secs(2);
/// How long is waited for all others where one may not be read.
const DENIED_MAX: Duration = Duration::from_secs(2);
/// How many kinds a message names.
const NAMED_MAX: usize = 3;

/// How long an answer is waited for, from the start of the wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// By when all targets must have been read once.
    pub(super) answer: Duration,
    /// How long a server that cannot be reached is retried before.
    connect: Duration,
    /// How long one is retried that answers with errors.
    failing: Duration,
}

impl Patience {
    pub(super) fn new(limits: &Limits, request_timeout: Option<Duration>) -> Self {
        let timeout = limits.timeout.filter(|timeout| !timeout.is_zero());
        // A moment that far away is never reached, and can be counted with.
        match timeout.map(|timeout| timeout.min(MAX_TIMEOUT)) {
            Some(timeout) => Self { answer: timeout, connect: timeout, failing: timeout },
            None => {
                let answer = request_timeout.unwrap_or(FIRST_ANSWER_MAX);
                Self { answer, connect: answer.min(CONNECT_MAX), failing: answer.min(FAILING_MAX) }
            }
        }
    }

    /// How long a failure is retried before anything was read. None: as long as an answer is waited for.
    fn with(self, error: &RequestError) -> Option<Duration> {
        match error {
            RequestError::Misconfigured(_) => Some(Duration::ZERO),
            RequestError::Transport(_) => Some(self.connect),
            // It is there, and busy.
            RequestError::Status { code: 429, .. } => None,
            RequestError::Status { .. } | RequestError::Answer(_) => Some(self.failing),
        }
    }

    /// The kinds that there are: the first question to a server.
    pub(super) async fn resources(
        self,
        cluster: &Cluster,
        started: Instant,
    ) -> Result<Resources, RequestError> {
        let mut last = None;
        let asking = async {
            let mut refused = 0;
            loop {
                let error = match cluster.resources().await {
                    Ok(resources) => return Ok(resources),
                    Err(error) => error,
                };
                let pause = match &error {
                    RequestError::Status { code: 401, .. } if refused < 2 && cluster.refresh().await => {
                        refused += 1;
                        continue;
                    }
                    RequestError::Status { code: 429 | 500..=599, retry_after, .. } => {
                        retry_after.unwrap_or_default().max(START_BACKOFF)
                    }
                    // A server that is just starting is no reason to give up.
                    RequestError::Transport(_) => START_BACKOFF,
                    _ => return Err(error),
                };
                if self.with(&error).is_some_and(|limit| started.elapsed() >= limit) {
                    return Err(error);
                }
                last = Some(error);
                tokio::time::sleep(pause).await;
            }
        };
        match tokio::time::timeout_at(started + self.answer, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(last.unwrap_or_else(|| RequestError::Transport(no_answer(self.answer).into()))),
        }
    }
}

impl Tracker {
    /// The verdict on an object. That it does not exist is said only where a complete answer said so.
    pub(super) fn verdict(&self, id: &ObjectId, target: Option<&Followed>) -> Arc<Verdict> {
        match self.graph.get(id) {
            Some(record) => match explain::reported(&self.graph, record) {
                Some(verdict) => Arc::new(verdict),
                None => Arc::clone(&record.verdict),
            },
            None => Arc::new(target.and_then(|target| self.unread(target)).unwrap_or_else(not_found)),
        }
    }

    /// The verdict on a target of which nothing could be read yet.
    fn unread(&self, target: &Followed) -> Option<Verdict> {
        // Discovery says that there is no such kind, so there is no such object.
        target.kind.as_ref()?;
        let Some(stream) = target.stream.and_then(|(stream, _)| self.streams.get(stream)) else {
            return Some(Unread::NotYetListed.verdict("not read yet"));
        };
        if let Some(denied) = &stream.denied {
            return Some(Unread::Forbidden.verdict(&*denied.message));
        }
        if stream.seen {
            return None;
        }
        Some(match &stream.down {
            Some(down) => Unread::Unreachable.verdict(down.error.to_string()),
            None => Unread::NotYetListed.verdict("not read yet"),
        })
    }

    /// Whether something that was asked for could not be read.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.streams.iter().any(|stream| stream.is_unread() || stream.denied.is_some())
    }

    /// Since when the server has not answered, and why.
    pub(super) fn connection_lost(&self) -> Option<(Instant, &RequestError)> {
        let answers = self.cluster.answers();
        let down = self.streams.iter().filter(|s| !s.ended && s.role != Role::Crds);
        down.filter_map(|stream| stream.down.as_ref())
            .filter(|down| down.error.code().is_none() && down.answers == answers)
            .map(|down| (down.since, &down.error))
            .min_by_key(|(since, _)| *since)
    }

    pub(super) fn connection(&self) -> Connection {
        match self.connection_lost() {
            Some((since, error)) => Connection::Lost {
                since: since.saturating_duration_since(self.started),
                error: error.to_string(),
            },
            None => Connection::Connected,
        }
    }

    /// When the connections and limits are to be looked at again although nothing happens.
    pub(super) fn next_check(&self) -> Option<Instant> {
        let lost = self.connection_lost();
        let streams = self.streams.iter().filter(|stream| !stream.ended).filter_map(|stream| {
            let down = stream.down.as_ref()?;
            let limit = self.patience.with(&down.error).filter(|_| stream.is_unread());
            let given_up = limit.and_then(|limit| down.since.checked_add(limit));
            let reported =
                Some(down.since + NOTIFY_AFTER).filter(|_| !stream.down_reported && lost.is_none());
            given_up.into_iter().chain(reported).min()
        });
        let lost = lost.filter(|_| self.lost_reported.is_none()).map(|(since, _)| since + LOST_AFTER);
        let silent = (!self.synced_reported && !self.silence_reported).then(|| self.silent_at());
        let answer =
            (!self.synced_reported).then(|| self.started.checked_add(self.patience.answer)).flatten();
        let denied = self.denied_since().filter(|_| !self.surveying).map(|since| since + DENIED_MAX);
        let ending = self.next_ending();
        streams.chain(lost).chain(silent).chain(answer).chain(denied).chain(ending).min()
    }

    /// Notifies of connections that are down for some time, and gives up on a server that never answered.
    pub(super) fn check_connections(&mut self) {
        let now = Instant::now();
        let given_up = self.streams.iter().filter(|stream| stream.is_unread()).find_map(|stream| {
            let down = stream.down.as_ref()?;
            let limit = self.patience.with(&down.error)?;
            (now.saturating_duration_since(down.since) >= limit).then(|| match down.error.code() {
                None => self.unreachable(&down.error),
                Some(_) => format!("cannot list {}: {}", stream.spec.scope.describe(), down.error),
            })
        });
        if let Some(message) = given_up {
            let remedy = "check the address in the kubeconfig, and that the API server runs";
            self.give_up(message, remedy, Outcome::Unreachable);
            return;
        }
        self.notify_silence(now);
        let lost = self.connection_lost().map(|(since, error)| (since, error.to_string()));
        match (&lost, self.lost_reported) {
            (Some((since, error)), None) if now >= *since + LOST_AFTER => {
                self.lost_reported = Some(*since);
                let to = self.server();
                self.announce(format!("connection to {to} lost: {error}; retrying"));
            }
            (None, Some(since)) => {
                self.lost_reported = None;
                let after = lasted(now.saturating_duration_since(since));
                self.announce(format!("reconnected after {after}"));
            }
            _ => {}
        }
        if lost.is_none() {
            self.notify_interruptions(now);
        }
    }

    fn silent_at(&self) -> Instant {
        self.cluster.answered().map_or(self.started, |at| at.max(self.started)) + SILENT_AFTER
    }

    /// Notifies that an answer takes its time: a server that accepts a request and says nothing looks like a program that hangs.
    fn notify_silence(&mut self, now: Instant) {
        if self.synced_reported || self.silence_reported || now < self.silent_at() {
            return;
        }
        self.silence_reported = true;
        let unread = self.streams.iter().filter(|s| s.is_unread() && s.down.is_none());
        let named: Vec<String> = unread.take(NAMED_MAX).map(|stream| stream.spec.scope.describe()).collect();
        if !named.is_empty() {
            let to = self.server();
            self.notify(format!("no answer from {to} yet: still listing {}", named.join(", ")), None);
        }
    }

    /// Notifies of single streams that are down although the server answers.
    fn notify_interruptions(&mut self, now: Instant) {
        let mut reported = Vec::new();
        for stream in self.streams.iter_mut().filter(|s| !s.ended && !s.down_reported) {
            let Some(Down { error, .. }) =
                stream.down.as_ref().filter(|down| now >= down.since + NOTIFY_AFTER)
            else {
                continue;
            };
            let what = stream.spec.scope.describe();
            reported.push(match (stream.role, stream.seen) {
                (Role::Children, false) => {
                    format!("cannot list {what}: causes there cannot be shown ({error}); retrying")
                }
                (_, false) => format!("cannot list {what} ({error}); retrying"),
                (_, true) => format!("the watch of {what} is interrupted ({error}); retrying"),
            });
            stream.down_reported = true;
        }
        for message in reported {
            self.notify(message, None);
        }
    }

    /// Since when it is known that a target may not be read.
    pub(super) fn denied_since(&self) -> Option<Instant> {
        self.streams.iter().filter_map(|stream| stream.denied.as_ref()).map(|denied| denied.since).min()
    }

    /// A target may not be read, whatever is tried.
    pub(super) fn deny(&mut self, number: StreamId, message: String, remedy: String) {
        if let Some(stream) = self.streams.get_mut(number) {
            stream.denied = Some(Denied { since: Instant::now(), message: message.clone() });
        }
        self.notify(message, Some(remedy));
    }

    /// Whether it is over because not all was read in time, or may be read.
    pub(super) fn ends_unread(&mut self, synced: bool) -> bool {
        let now = Instant::now();
        if let Some(since) = self.denied_since() {
            if !self.surveying && (synced || now >= since + DENIED_MAX) {
                self.finish(Outcome::Unreachable);
            }
            // Whatever else is, not all that was asked for is known.
            return !self.surveying;
        }
        if self.synced_reported || now.saturating_duration_since(self.started) < self.patience.answer {
            return false;
        }
        let unread: Vec<&Stream> = self.streams.iter().filter(|stream| stream.is_unread()).collect();
        if unread.is_empty() {
            return false;
        }
        let late = format!("no complete answer within {}", lasted(self.patience.answer));
        let message = match self.connection_lost() {
            Some((_, error)) => self.unreachable(error),
            None => {
                let named = unread.iter().take(NAMED_MAX).map(|stream| match &stream.down {
                    Some(down) => format!("{} ({})", stream.spec.scope.describe(), down.error),
                    None => stream.spec.scope.describe(),
                });
                let more = if unread.len() > NAMED_MAX { ", …" } else { "" };
                format!("{late}: {}{more}", named.collect::<Vec<_>>().join(", "))
            }
        };
        let answers = self.cluster.answers();
        for stream in self.streams.iter_mut().filter(|stream| stream.is_unread()) {
            let error = RequestError::Transport(late.clone().into());
            stream.down.get_or_insert(Down { since: now, error, answers });
        }
        self.give_up(message, "check that the API server runs, or allow it more time", Outcome::Unreachable);
        true
    }

    /// The outcome of a wait whose connection is lost: the state of the targets since then is not known.
    pub(super) fn unless_lost(&mut self, outcome: Outcome) -> Outcome {
        let Some((since, error)) = self.connection_lost() else { return outcome };
        let message = format!(
            "{} has been unreachable for {}: {error}; what is shown is what was known before",
            self.server(),
            lasted(since.elapsed())
        );
        self.notify(message, None);
        Outcome::Unreachable
    }

    fn unreachable(&self, error: &RequestError) -> String {
        format!("cannot reach {}: {error}", self.server())
    }

    fn server(&self) -> String {
        match self.cluster.server() {
            Some(url) => format!("the API server at {url}"),
            None => "the API server".to_owned(),
        }
    }

    /// Notifies of something that may happen again.
    fn announce(&mut self, message: String) {
        self.notices.retain(|notice| notice.message != message);
        self.notify(message, None);
    }

    pub(super) fn give_up(&mut self, message: String, remedy: &str, outcome: Outcome) {
        if self.phase != super::Phase::Following {
            return;
        }
        let remedy = Some(remedy.to_owned()).filter(|remedy| !remedy.is_empty());
        let notice = Notice { message, remedy };
        if !self.notices.contains(&notice) {
            self.notify(notice.message, notice.remedy);
        }
        self.finish(outcome);
    }
}

/// `850ms`, `36s`, `1m30s`, `2h5m`, `3d4h`.
pub(super) fn lasted(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let two = |first: u64, unit: &str, second: u64, smaller: &str| match second {
        0 => format!("{first}{unit}"),
        _ => format!("{first}{unit}{second}{smaller}"),
    };
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 => two(seconds / 60, "m", seconds % 60, "s"),
        3600..86400 => two(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => two(seconds / 86400, "d", seconds % 86400 / 3600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        let cases = [(850, "850ms"), (36_000, "36s"), (60_000, "1m"), (90_000, "1m30s"), (7_500_000, "2h5m")];
        for (millis, text) in cases {
            assert_eq!(lasted(Duration::from_millis(millis)), text);
        }
        assert_eq!(lasted(Duration::from_secs(76 * 3600)), "3d4h");
    }
}
