//! Durations and timestamps as Go parses and formats them.

use std::fmt::Write;

/// Minimum and maximum second of a CEL timestamp.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;
const NANO: i128 = 1_000_000_000;

/// A component of a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    FullYear,
    Month,
    DayOfYear,
    Date,
    DayOfMonth,
    DayOfWeek,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

/// A timestamp and its UTC offset.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
    /// UTC offset in seconds, which affects only the format.
    offset: i32,
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

/// Year, month from 1, day from 1.
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

fn days(Date { year, month, day }: Date) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date(days: i64) -> Date {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    Date { year: year + era * 400 + i64::from(month <= 2), month, day }
}

pub(crate) fn in_range(seconds: i64) -> bool {
    (FIRST..=LAST).contains(&seconds)
}

impl Timestamp {
    pub(crate) fn of(seconds: i64) -> Option<Self> {
        in_range(seconds).then_some(Self { seconds, nanos: 0, offset: 0 })
    }

    pub(crate) fn order(&self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }

    fn total(&self) -> i128 {
        i128::from(self.seconds) * NANO + i128::from(self.nanos)
    }

    /// `None` if out of range.
    pub(crate) fn plus(&self, duration: i128) -> Option<Self> {
        let total = self.total() + duration;
        let seconds = i64::try_from(total.div_euclid(NANO)).ok().filter(|seconds| in_range(*seconds))?;
        Some(Self { seconds, nanos: total.rem_euclid(NANO) as u32, offset: self.offset })
    }

    pub(crate) fn minus(&self, other: &Self) -> Option<i64> {
        i64::try_from(self.total() - other.total()).ok()
    }

    /// Go's zero time.
    pub(crate) fn is_zero(&self) -> bool {
        self.seconds == FIRST && self.nanos == 0
    }

    /// A component of the time, at a UTC offset in seconds.
    pub(crate) fn part(&self, part: Part, east: i64) -> i64 {
        let local = self.seconds + east;
        let day = local.div_euclid(86_400);
        let second = local.rem_euclid(86_400);
        let Date { year, month, day: of_month } = date(day);
        match part {
            Part::FullYear => year,
            Part::Month => month - 1,
            Part::DayOfYear => day - days(Date { year, month: 1, day: 1 }),
            Part::Date => of_month,
            Part::DayOfMonth => of_month - 1,
            Part::DayOfWeek => (day + 4).rem_euclid(7),
            Part::Hours => second / 3600,
            Part::Minutes => second / 60 % 60,
            Part::Seconds => second % 60,
            Part::Milliseconds => i64::from(self.nanos / 1_000_000),
        }
    }

    /// Formats as RFC 3339 with the original UTC offset.
    pub(crate) fn text(&self) -> String {
        let local = self.seconds + i64::from(self.offset);
        let Date { year, month, day } = date(local.div_euclid(86_400));
        let second = local.rem_euclid(86_400);
        let mut text = format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
            second / 3600,
            second / 60 % 60,
            second % 60
        );
        if self.nanos > 0 {
            let fraction = format!("{:09}", self.nanos);
            text.push('.');
            text.push_str(fraction.trim_end_matches('0'));
        }
        if self.offset == 0 {
            text.push('Z');
        } else {
            let sign = if self.offset < 0 { '-' } else { '+' };
            let minutes = self.offset.abs() / 60;
            let _ = write!(text, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        }
        text
    }
}

/// UTC offset of a time zone in seconds. `None` for zones by name: there is no time zone database.
pub(crate) fn zone(name: &str) -> Option<i64> {
    if matches!(name, "" | "UTC") {
        return Some(0);
    }
    let (hours, minutes) = name.split_once(':')?;
    let is_west = hours.starts_with('-');
    let hours: i64 = hours.parse().ok()?;
    let minutes: i64 = minutes.parse().ok()?;
    let total = hours.checked_mul(60)?;
    let total = if is_west { total.checked_sub(minutes)? } else { total.checked_add(minutes)? };
    total.checked_mul(60).filter(|seconds| seconds.abs() < 1_000_000)
}

fn number(text: &str, digits: usize) -> Option<(i64, &str)> {
    let (number, rest) = (text.get(..digits)?, text.get(digits..)?);
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Some((number.parse().ok()?, rest)))?
}

fn read_date(text: &str) -> Option<(Date, &str)> {
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 2)?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=length).contains(&day).then_some((Date { year, month, day }, rest))
}

fn read_clock(text: &str, most_hours: i64) -> Option<(i64, u32, &str)> {
    let (hours, rest) = number(text, 2)?;
    let (minutes, rest) = number(rest.strip_prefix(':')?, 2)?;
    let (seconds, mut rest) = number(rest.strip_prefix(':')?, 2)?;
    if hours > most_hours || minutes > 59 || seconds > 59 {
        return None;
    }
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return None;
        }
        let (digits, after) = fraction.split_at(length);
        let digits = digits.get(..length.min(9))?;
        nanos = format!("{digits:0<9}").parse().ok()?;
        rest = after;
    }
    Some((hours * 3600 + minutes * 60 + seconds, nanos, rest))
}

/// Parses RFC 3339 in CEL's range.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let (date, rest) = read_date(text)?;
    let (clock, nanos, rest) = read_clock(rest.strip_prefix('T')?, 23)?;
    let offset = match rest {
        "Z" => 0,
        zone => {
            let (sign, rest) = zone.split_at_checked(1)?;
            let (hours, rest) = number(rest, 2)?;
            let (minutes, rest) = number(rest.strip_prefix(':')?, 2)?;
            if !rest.is_empty() || hours > 24 || minutes > 59 {
                return None;
            }
            let seconds = hours * 3600 + minutes * 60;
            match sign {
                "+" => seconds,
                "-" => -seconds,
                _ => return None,
            }
        }
    };
    let seconds = days(date) * 86_400 + clock - offset;
    in_range(seconds).then_some(Timestamp { seconds, nanos, offset: offset as i32 })
}

/// Parses the format `date-time`: the zone is optional, and a date suffices.
pub(crate) fn parse_date_time(text: &str) -> Option<Timestamp> {
    if text.is_empty() {
        return Timestamp::of(0);
    }
    parse_timestamp(text).or_else(|| {
        let upper = text.to_ascii_uppercase();
        parse_timestamp(&upper).or_else(|| {
            let (date, rest) = read_date(&upper)?;
            let (clock, nanos, rest) = read_clock(rest.strip_prefix('T')?, 23)?;
            let offset: i64 = match rest {
                "" => 0,
                zone => {
                    let (sign, rest) = zone.split_at_checked(1)?;
                    let (hours, rest) = number(rest, 2)?;
                    let (minutes, rest) = number(rest, 2)?;
                    let seconds = hours * 3600 + minutes * 60;
                    match (sign, rest) {
                        ("+", "") => seconds,
                        ("-", "") => -seconds,
                        _ => return None,
                    }
                }
            };
            let seconds = days(date) * 86_400 + clock - offset;
            Some(Timestamp { seconds, nanos, offset: offset as i32 })
        })
    })
}

/// Parses the format `date`.
pub(crate) fn parse_date(text: &str) -> Option<Timestamp> {
    let (date, rest) = read_date(text)?;
    rest.is_empty().then(|| Timestamp { seconds: days(date) * 86_400, nanos: 0, offset: 0 })
}

/// Parses the format `duration`, including `2 days` and `1w`.
pub(crate) fn parse_long_duration(text: &str) -> Option<i64> {
    if let Ok(duration) = settled_go::duration::parse(text) {
        return Some(duration);
    }
    let (mut rest, mut total, mut found) = (text, 0_f64, false);
    while let Some(start) = rest.find(|char: char| char.is_ascii_digit()) {
        let tail = rest.get(start..)?;
        let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = tail.split_at(digits);
        let tail = tail.trim_start();
        let letters = tail.find(|char: char| !char.is_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let unit = match unit.to_lowercase().as_str() {
            "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1.0,
            "us" | "\u{b5}s" | "micro" | "micros" | "microsecond" | "microseconds" => 1e3,
            "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1e6,
            "s" | "sec" | "secs" | "second" | "seconds" => 1e9,
            "m" | "min" | "mins" | "minute" | "minutes" => 60e9,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600e9,
            "d" | "day" | "days" => 86_400e9,
            "w" | "wk" | "week" | "weeks" => 604_800e9,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * unit;
        found = true;
        rest = tail;
    }
    (found && total.abs() < 9.2e18).then_some(total as i64)
}
