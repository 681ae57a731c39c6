//! Times in cells of tables: how long ago, roughly.

use jiff::Timestamp;
use settled_apimachinery::duration::human_duration;

/// What stands for a time that is not there.
pub(crate) const UNKNOWN: &str = "<unknown>";

/// A duration as tables show it.
pub(crate) fn duration(nanoseconds: i128) -> String {
    // Go's durations end at 292 years.
    let nanoseconds = nanoseconds.clamp(i64::MIN.into(), i64::MAX.into());
    human_duration(i64::try_from(nanoseconds).unwrap_or_default())
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
