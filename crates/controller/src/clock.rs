//! Time of day: the system clock, or one that follows tokio's time for tests.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Time of day for conditions, leases and events. Clones share the clock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse()?;
/// let clock = settled_controller::Clock::following_tokio(start);
/// tokio::time::sleep(Duration::from_secs(90)).await;
/// assert_eq!(clock.now().to_string(), "2026-01-01T00:01:30Z");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The system clock.
    #[must_use]
    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    /// A clock that starts at `start` and advances with `tokio::time`, also while it is paused in tests.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    #[must_use]
    pub fn following_tokio(start: Timestamp) -> Self {
        let begin = Instant::now();
        Self::new(move || {
            let elapsed = SignedDuration::try_from(begin.elapsed()).unwrap_or(SignedDuration::MAX);
            start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
        })
    }

    /// A clock that reads the time from `now`.
    #[must_use]
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Clock").field(&self.now()).finish()
    }
}
