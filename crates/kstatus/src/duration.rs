//! How long something lasts, as kubectl writes it.

use std::fmt;

use jiff::SignedDuration;

/// At most two units, the finer one only where it still matters: `45s`, `3m12s`, `5h10m`, `3d4h`, `2y40d`.
///
/// The rules are those of `HumanDuration` in `k8s.io/apimachinery`.
pub(crate) fn human(duration: SignedDuration) -> impl fmt::Display {
    Human(duration.as_secs().max(0))
}

struct Human(i64);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0;
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
        let (big, big_unit, small, small_unit) = if seconds < 120 {
            (seconds, 's', 0, ' ')
        } else if minutes < 10 {
            (minutes, 'm', seconds % 60, 's')
        } else if minutes < 180 {
            (minutes, 'm', 0, ' ')
        } else if hours < 8 {
            (hours, 'h', minutes % 60, 'm')
        } else if hours < 48 {
            (hours, 'h', 0, ' ')
        } else if days < 8 {
            (days, 'd', hours % 24, 'h')
        } else if days < 2 * 365 {
            (days, 'd', 0, ' ')
        } else if days < 8 * 365 {
            (days / 365, 'y', days % 365, 'd')
        } else {
            (days / 365, 'y', 0, ' ')
        };
        write!(f, "{big}{big_unit}")?;
        if small == 0 { Ok(()) } else { write!(f, "{small}{small_unit}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_look_as_in_kubectl() {
        for (seconds, expected) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (192, "3m12s"),
            (600, "10m"),
            (10799, "179m"),
            (10800, "3h"),
            (18600, "5h10m"),
            (28800, "8h"),
            (172_800, "2d"),
            (273_600, "3d4h"),
            (864_000, "10d"),
            (63_072_000, "2y"),
            (66_528_000, "2y40d"),
            (315_360_000, "10y"),
        ] {
            assert_eq!(human(SignedDuration::from_secs(seconds)).to_string(), expected);
        }
    }
}
