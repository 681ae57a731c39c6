//! `util/duration`: durations in human-readable form.

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// `HumanDuration`: nanoseconds in two or three significant figures, such as `5m10s`, `3d4h` or `2y`.
///
/// ```
/// use settled_apimachinery::duration::human_duration;
///
/// assert_eq!(human_duration(310_000_000_000), "5m10s");
/// ```
#[must_use]
pub fn human_duration(nanoseconds: i64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    match seconds {
        // Tolerates clock skew.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds, MINUTE, "m", 1, 60, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds, HOUR, "h", MINUTE, 60, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds, DAY, "d", HOUR, 24, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds, YEAR, "y", DAY, 365, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// A number of one unit, followed by the smaller unit unless that is zero.
fn two(seconds: i64, unit: i64, name: &str, small: i64, modulus: i64, small_name: &str) -> String {
    match seconds / small % modulus {
        0 => format!("{}{name}", seconds / unit),
        rest => format!("{}{name}{rest}{small_name}", seconds / unit),
    }
}
