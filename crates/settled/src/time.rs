//! Time of day of this command: the machine's, or that of a rehearsal.

use std::sync::OnceLock;

use jiff::Timestamp;

type Clock = Box<dyn Fn() -> Timestamp + Send + Sync>;

static CLOCK: OnceLock<Clock> = OnceLock::new();

/// Reads the time of day from this clock from now on. The first one stays.
#[cfg(feature = "rehearse")]
pub(crate) fn follow(clock: impl Fn() -> Timestamp + Send + Sync + 'static) {
    CLOCK.get_or_init(|| Box::new(clock));
}

/// The time of day.
pub(crate) fn now() -> Timestamp {
    CLOCK.get().map_or_else(Timestamp::now, |clock| clock())
}
