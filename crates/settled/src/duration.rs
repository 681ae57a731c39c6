//! Durations: parsed as kubectl's options take them, and formatted.

use std::time::Duration;

pub(crate) use kstatus::format_duration as format;

/// Meaning of a negative timeout, as in `kubectl wait`.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// Parses a nonnegative duration as Go's `time.ParseDuration` does: `30s`, `1m30s`, `1.5h`, `0`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || "expected a duration such as 30s, 5m or 1h30m".to_owned();
    match signed(text).ok_or_else(invalid)? {
        (false, duration) => Ok(duration),
        (true, _) => Err("the duration must not be negative".to_owned()),
    }
}

/// Parses a timeout; a negative one means a week.
pub(crate) fn parse_timeout(text: &str) -> Result<Duration, String> {
    let invalid =
        || "expected a duration such as 30s, 5m or 1h30m; 0 checks once, -1s waits one week".to_owned();
    match signed(text).ok_or_else(invalid)? {
        (true, _) => Ok(WEEK),
        (false, duration) => Ok(duration),
    }
}

/// Parses kubectl's `--request-timeout`: a number without unit is seconds, 0 is no limit (a week).
pub(crate) fn parse_request_timeout(text: &str) -> Result<Duration, String> {
    let invalid = || "expected a duration such as 10s or 1m, or a number of seconds".to_owned();
    let timeout = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => match signed(text).ok_or_else(invalid)? {
            (true, timeout) if !timeout.is_zero() => return Err(invalid()),
            (_, timeout) => timeout,
        },
    };
    Ok(if timeout.is_zero() { WEEK } else { timeout.min(WEEK) })
}

/// Sign and absolute value of a duration.
fn signed(text: &str) -> Option<(bool, Duration)> {
    let nanoseconds = settled_go::duration::parse(text).ok()?;
    Some((nanoseconds < 0, Duration::from_nanos(nanoseconds.unsigned_abs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_timeouts_are_those_of_kubectl() {
        for (text, expected) in [
            ("7", Some(Duration::from_secs(7))),
            ("1500ms", Some(Duration::from_millis(1500))),
            ("0", Some(WEEK)),
            ("0s", Some(WEEK)),
            ("99999999999999999999", None),
            ("-1s", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            assert_eq!(parse_request_timeout(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn durations_are_gos() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(parse(text).ok(), expected.map(Duration::from_millis), "{text}");
        };
        check("0", Some(0));
        check("-0", Some(0));
        check("30s", Some(30_000));
        check("1m30s", Some(90_000));
        check("1.5h", Some(5_400_000));
        check(".5s", Some(500));
        check("1.s", Some(1_000));
        check("+2ms", Some(2));
        assert_eq!(parse("1500us"), Ok(Duration::from_micros(1500)));
        for invalid in ["", "-", "5", "s", ".", ".s", "1x", "1..5s", "1 s", "-1s", "9999999999h", "1s ", "∞"]
        {
            assert!(parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_negative_timeout_is_a_week() {
        assert_eq!(parse_timeout("-1s"), Ok(WEEK));
        assert_eq!(parse_timeout("-0s"), Ok(Duration::ZERO));
        assert_eq!(parse_timeout("0"), Ok(Duration::ZERO));
        assert_eq!(parse_timeout("90s"), Ok(Duration::from_secs(90)));
        assert!(parse_timeout("never").is_err());
    }
}
