//! Speed: how virtual time passes, as fast as possible or in step with real time.

use std::io;
use std::str::FromStr;
use std::time::Duration;

use tokio::runtime::Builder;

/// The step of paced time.
const STEP: Duration = Duration::from_millis(20);

/// How fast virtual time passes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Speed {
    /// As fast as possible: time passes whenever nobody has anything to do.
    #[default]
    Max,
    /// So many times as fast as real time.
    Times(f64),
}

/// A text that is no speed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected max, or a number and x, such as 1x or 10x")]
pub struct ParseSpeedError;

impl FromStr for Speed {
    type Err = ParseSpeedError;

    fn from_str(text: &str) -> Result<Self, ParseSpeedError> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let times: f64 = text.strip_suffix('x').and_then(|text| text.parse().ok()).ok_or(ParseSpeedError)?;
        if (0.01..=1000.0).contains(&times) { Ok(Self::Times(times)) } else { Err(ParseSpeedError) }
    }
}

/// A runtime with virtual time. All happens in one thread, one thing after the other. If time is to pass as fast as possible, a second thread does
/// parts that depend on nothing else. [`Environment::start`](crate::Environment::start) keeps the pace.
#[derive(Debug)]
pub struct Runtime {
    tokio: tokio::runtime::Runtime,
    thread: settled_aside::Thread,
}

impl Runtime {
    /// Starts it.
    ///
    /// # Errors
    /// The operating system refuses it.
    pub fn new(speed: Speed) -> io::Result<Self> {
        match speed {
            Speed::Max => Ok(Self { thread: settled_aside::Thread::start()?, ..Self::alone()? }),
            Speed::Times(_) => Self::alone(),
        }
    }

    /// Without a second thread.
    pub(crate) fn alone() -> io::Result<Self> {
        let tokio = Builder::new_current_thread().enable_all().start_paused(true).build()?;
        Ok(Self { tokio, thread: settled_aside::Thread::absent() })
    }

    /// Runs a future, and what it spawns meanwhile.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _entered = self.thread.enter();
        self.tokio.block_on(future)
    }
}

/// Lets virtual time pass no faster than the speed says, from now on.
pub(crate) fn keep_pace(speed: Speed) {
    let Speed::Times(times) = speed else { return };
    let step = STEP.div_f64(times);
    drop(tokio::spawn(async move {
        let start = std::time::Instant::now();
        let mut steps = 0_u32;
        loop {
            tokio::time::sleep(STEP).await;
            steps += 1;
            let due = start + step.saturating_mul(steps);
            let pause = due.saturating_duration_since(std::time::Instant::now());
            if !pause.is_zero() {
                // Time stands still while a thread of the pool works.
                let _paced = tokio::task::spawn_blocking(move || std::thread::sleep(pause)).await;
            }
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_max_or_times() {
        for (text, expected) in [
            ("max", Ok(Speed::Max)),
            ("1x", Ok(Speed::Times(1.0))),
            ("0.5x", Ok(Speed::Times(0.5))),
            ("10", Err(ParseSpeedError)),
            ("0x", Err(ParseSpeedError)),
            ("-1x", Err(ParseSpeedError)),
            ("fast", Err(ParseSpeedError)),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
    }
}
