//! Times in cells of tables: how long ago, roughly.

use jiff::Timestamp;

/// What stands for a time that is not there.
pub(crate) const UNKNOWN: &str = "<unknown>";

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A duration in two or three significant figures, as `duration.HumanDuration` has it: `5m10s`, `3d4h`, `2y`.
pub(crate) fn duration(nanoseconds: i128) -> String {
    // Go's durations end at 292 years.
    let nanoseconds = nanoseconds.clamp(i64::MIN.into(), i64::MAX.into());
    let seconds = i64::try_from(nanoseconds / 1_000_000_000).unwrap_or_default();
    match seconds {
        // Clocks differ a little.
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

/// A number of one unit, and of a smaller one unless it is zero.
fn two(seconds: i64, unit: i64, name: &str, small: i64, modulus: i64, small_name: &str) -> String {
    match seconds / small % modulus {
        0 => format!("{}{name}", seconds / unit),
        rest => format!("{}{name}{rest}{small_name}", seconds / unit),
    }
}

/// How long ago a timestamp of an object was.
pub(crate) fn since(timestamp: &str, now: Timestamp) -> String {
    match parse(timestamp) {
        Some(then) if !is_zero(then) => duration(now.as_nanosecond() - then.as_nanosecond()),
        _ => UNKNOWN.to_owned(),
    }
}

/// Go's zero time, the first second of the year 1.
pub(crate) fn is_zero(time: Timestamp) -> bool {
    time.as_nanosecond() == -62_135_596_800_000_000_000
}

/// A time as RFC 3339 has it, and nothing that is merely near it.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let digits = |from: usize, to: usize| bytes[from..to].iter().all(u8::is_ascii_digit);
    let shaped = bytes.len() >= 20
        && [(0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19)].iter().all(|&(from, to)| digits(from, to))
        && (bytes[4], bytes[7], bytes[10], bytes[13], bytes[16]) == (b'-', b'-', b'T', b':', b':')
        && bytes[17] < b'6';
    if !shaped {
        return None;
    }
    let mut rest = &text[19..];
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let end = fraction.find(|c: char| !c.is_ascii_digit()).filter(|&end| end > 0)?;
        rest = &fraction[end..];
    }
    let zone = rest.as_bytes();
    let zoned = rest == "Z"
        || zone.len() == 6
            && matches!(zone[0], b'+' | b'-')
            && zone[3] == b':'
            && zone.iter().enumerate().all(|(index, byte)| index % 3 == 0 || byte.is_ascii_digit());
    if !zoned {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_upstreams() {
        // From upstream's own table, and around its limits.
        let cases: &[(i64, &str)] = &[
            (-10, "<invalid>"),
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_799, "7h59m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_199, "7d23h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_287_999, "7y364d"),
            (252_288_000, "8y"),
            (i64::MAX, "292y"),
        ];
        for &(seconds, expected) in cases {
            assert_eq!(duration(i128::from(seconds) * 1_000_000_000), expected, "{seconds}");
        }
        assert_eq!(duration(-1_999_999_999), "0s");
        assert_eq!(duration(-999_999_999), "0s");
    }

    #[test]
    fn times_are_strict() {
        for good in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05+02:00"] {
            assert!(parse(good).is_some(), "{good}");
        }
        let bad = [
            "",
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:60Z",
            "2026-01-02t03:04:05z",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05+02",
            "2026-13-02T03:04:05Z",
            "2026-01-02T03:04:05Zé",
            "2026-01-02T03:04:0é",
        ];
        for bad in bad {
            assert!(parse(bad).is_none(), "{bad}");
        }
        assert!(is_zero("0001-01-01T00:00:00Z".parse().expect("a time")));
    }
}
