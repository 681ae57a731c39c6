//! Human-readable durations: `850ms`, `36s`, `1m30s`, `2h5m`, `3d4h`.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;

/// Formats a duration in at most two units: `850ms`, `36s`, `1m30s`, `2h5m`, `3d4h`.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(kstatus::format_duration(Duration::from_secs(90)), "1m30s");
/// ```
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    Human(duration).to_string()
}

/// The same of a duration that may be negative, which counts as none; whole seconds.
pub(crate) fn human(duration: SignedDuration) -> impl fmt::Display {
    Human(Duration::from_secs(u64::try_from(duration.as_secs()).unwrap_or(0)))
}

struct Human(Duration);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, char); 4] = [(86_400, 'd'), (3_600, 'h'), (60, 'm'), (1, 's')];
        let seconds = self.0.as_secs();
        if seconds == 0 && !self.0.is_zero() {
            return write!(f, "{}ms", self.0.as_millis());
        }
        let Some(first) = UNITS.iter().position(|(size, _)| seconds >= *size) else {
            return f.write_str("0s");
        };
        let mut rest = seconds;
        for (at, (size, unit)) in UNITS.iter().enumerate().skip(first).take(2) {
            let count = rest / size;
            rest %= size;
            if at == first || count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        for (millis, expected) in [
            (0, "0s"),
            (850, "850ms"),
            (1_999, "1s"),
            (36_000, "36s"),
            (60_000, "1m"),
            (90_000, "1m30s"),
            (3_600_000, "1h"),
            (7_530_000, "2h5m"),
            (86_400_000, "1d"),
            (273_600_000, "3d4h"),
            (345_605_000, "4d"),
            (66_528_000_000, "770d"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), expected);
        }
        assert_eq!(human(SignedDuration::from_secs(-5)).to_string(), "0s");
    }
}
