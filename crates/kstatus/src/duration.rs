//! How long something lasts, as kubectl writes it.

use jiff::SignedDuration;

/// At most two units, the finer one only where it still matters: `45s`, `3m12s`, `5h10m`, `3d4h`, `2y40d`.
///
/// The rules are those of `HumanDuration` in `k8s.io/apimachinery`.
pub(crate) fn human(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |big: i64, big_unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit}{small}{small_unit}") }
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        pair(minutes, 'm', seconds % 60, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        pair(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        pair(days, 'd', hours % 24, 'h')
    } else if days < 2 * 365 {
        format!("{days}d")
    } else if days < 8 * 365 {
        pair(days / 365, 'y', days % 365, 'd')
    } else {
        format!("{}y", days / 365)
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
            assert_eq!(human(SignedDuration::from_secs(seconds)), expected);
        }
    }
}
