//! Waiting: looks again and again, until something is there or the deadline is exceeded.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;

/// How soon is looked again: twice as late each time.
const LOOK_FIRST: Duration = Duration::from_millis(50);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Until when a command may last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    begin: Instant,
    limit: Duration,
}

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self { begin: Instant::now(), limit }
    }

    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.begin.elapsed())
    }

    /// The error of one that is over.
    pub(crate) fn over(&self, waiting: &str) -> Error {
        Error::TimedOut { after: self.limit, waiting: waiting.to_owned() }
    }

    /// Looks until there is an answer. What is waited for is said by the last look.
    pub(crate) async fn wait<T>(
        &self,
        mut look: impl AsyncFnMut() -> Result<Result<T, String>, Error>,
    ) -> Result<T, Error> {
        let (mut waiting, mut pause) = (String::new(), LOOK_FIRST);
        loop {
            match tokio::time::timeout(self.left(), look()).await {
                Ok(Ok(Ok(found))) => return Ok(found),
                Ok(Ok(Err(reason))) => waiting = reason,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(self.over(&waiting)),
            }
            if self.left().is_zero() {
                return Err(self.over(&waiting));
            }
            tokio::time::sleep(pause.min(self.left())).await;
            pause = (pause * 2).min(LOOK_MAX);
        }
    }
}
