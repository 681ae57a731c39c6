//! Schedules, as `robfig/cron` v3 reads them with its standard parser, and when they are due.

use std::error::Error;
use std::fmt;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{RoundMode, SignedDuration, Timestamp, ToSpan as _, Unit, Zoned, ZonedRound};

use crate::{duration, strconv};

/// Years after which a schedule that never matches is given up.
const MAX_YEARS: i16 = 5;

/// A schedule.
///
/// ```
/// use jiff::tz::TimeZone;
/// use settled_go::cron::Schedule;
///
/// let schedule = Schedule::parse("*/15 9-17 * * mon-fri").unwrap();
/// let after = "2026-05-01T17:50:00Z".parse().unwrap();
/// assert_eq!(schedule.next(after, &TimeZone::UTC).unwrap().to_string(), "2026-05-04T09:00:00Z");
/// let error = Schedule::parse("60 * * * *").unwrap_err();
/// assert_eq!(error.to_string(), "end of range (60) above maximum (59): 60");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule(Times);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Times {
    /// `@every 1h30m`.
    Every(SignedDuration),
    /// Five fields.
    Fields(Fields),
}

/// The values of each field as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: Field,
    months: u64,
    weekdays: Field,
}

/// Bits, and whether the field is `*` or `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    is_any: bool,
}

/// Parse error with the message of `robfig/cron`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseScheduleError(String);

impl fmt::Display for ParseScheduleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Error for ParseScheduleError {}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A schedule, and the name of the time zone before it: `TZ=` or `CRON_TZ=`.
#[must_use]
pub fn split_time_zone(text: &str) -> (Option<&str>, &str) {
    match text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
        Some(rest) => {
            let (zone, schedule) = rest.split_once(' ').unwrap_or((rest, ""));
            (Some(zone), schedule.trim())
        }
        None => (None, text),
    }
}

impl Schedule {
    /// Reads a schedule. A time zone before it is ignored: see [`split_time_zone`].
    ///
    /// # Errors
    /// It has not five fields, or one of them is not a list of ranges.
    pub fn parse(text: &str) -> Result<Self, ParseScheduleError> {
        if text.is_empty() {
            return Err(ParseScheduleError("empty spec string".to_owned()));
        }
        let (_, text) = split_time_zone(text);
        let times = match text.starts_with('@') {
            true => Times::of_descriptor(text),
            false => Fields::parse(text).map(Times::Fields),
        };
        times.map(Self).map_err(ParseScheduleError)
    }

    /// When it is next due after a time. Nothing if that is never, or not within five years.
    #[must_use]
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.0 {
            Times::Every(interval) => {
                let whole = Timestamp::from_second(after.as_second()).ok()?;
                whole.checked_add(*interval).ok()
            }
            Times::Fields(fields) => fields.next(after, zone),
        }
    }
}

impl Times {
    fn of_descriptor(text: &str) -> Result<Self, String> {
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ => {
                let Some(interval) = text.strip_prefix("@every ") else {
                    return Err(format!("unrecognized descriptor: {text}"));
                };
                let nanoseconds = duration::parse(interval)
                    .map_err(|error| format!("failed to parse duration {text}: {error}"))?;
                let seconds = (nanoseconds / 1_000_000_000).max(1);
                return Ok(Self::Every(SignedDuration::from_secs(seconds)));
            }
        };
        Fields::parse(fields).map(Self::Fields)
    }
}

fn field(text: &str, low: u32, high: u32, names: &[&str]) -> Result<Field, String> {
    let mut field = Field { bits: 0, is_any: false };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let range = range(part, low, high, names)?;
        field.bits |= range.bits;
        field.is_any |= range.is_any;
    }
    Ok(field)
}

fn range(text: &str, low: u32, high: u32, names: &[&str]) -> Result<Field, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts.first().copied().unwrap_or_default().split('-').collect();
    let (start, mut end) = match *ends {
        // What follows a hyphen does not count.
        ["*" | "?", ..] => (low, high),
        [one] => number(one, low, names).map(|one| (one, one))?,
        [first, last] => (number(first, low, names)?, number(last, low, names)?),
        [first, ..] => {
            number(first, low, names)?;
            return Err(format!("too many hyphens: {text}"));
        }
        [] => (low, high),
    };
    let step = match *parts {
        [_, step] => {
            if ends.len() == 1 {
                end = high;
            }
            number(step, low, &[])?
        }
        [_] => 1,
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {text}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let every = usize::try_from(step).unwrap_or(usize::MAX);
    let bits = (start..=end).step_by(every).fold(0, |bits, value| bits | 1 << value);
    // `*/2` is a range like another one.
    Ok(Field { bits, is_any: matches!(*ends, ["*" | "?", ..]) && step == 1 })
}

fn number(text: &str, low: u32, names: &[&str]) -> Result<u32, String> {
    if let Some(place) = names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(low + u32::try_from(place).unwrap_or_default());
    }
    let number = strconv::atoi(text).map_err(|error| format!("failed to parse int from {text}: {error}"))?;
    if number < 0 {
        return Err(format!("negative number ({number}) not allowed: {text}"));
    }
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits & (1 << value) != 0)
}

impl Fields {
    fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = *fields else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        };
        Ok(Self {
            minutes: field(minutes, 0, 59, &[])?.bits,
            hours: field(hours, 0, 23, &[])?.bits,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?.bits,
            weekdays: field(weekdays, 0, 6, &DAYS)?,
        })
    }

    /// Days of the month and of the week: both if one of them is any, else either.
    fn has_day(&self, date: Date) -> bool {
        let day = has(self.days.bits, date.day());
        let weekday = has(self.weekdays.bits, date.weekday().to_sunday_zero_offset());
        if self.days.is_any || self.weekdays.is_any { day && weekday } else { day || weekday }
    }

    /// `SpecSchedule.Next`, with its steps of absolute time for hours and minutes: a time that a change of the clock skips is not due, one that
    /// comes twice is due twice.
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let first = Timestamp::from_second(after.as_second() + 1).ok()?;
        let mut time = first.to_zoned(zone.clone());
        let limit = time.year() + MAX_YEARS;
        let midnight = |date: Date| -> Option<Zoned> {
            DateTime::from_parts(date, Time::midnight()).to_zoned(zone.clone()).ok()
        };
        loop {
            if time.year() > limit {
                return None;
            }
            if !has(self.months, time.month()) {
                let next = time.date().first_of_month().checked_add(1.month()).ok()?;
                time = midnight(next)?;
                continue;
            }
            if !self.has_day(time.date()) {
                time = midnight(time.date().tomorrow().ok()?)?;
                continue;
            }
            if !has(self.hours, time.hour()) {
                let start = time.round(ZonedRound::new().smallest(Unit::Hour).mode(RoundMode::Trunc)).ok()?;
                time = start.checked_add(SignedDuration::from_hours(1)).ok()?;
                continue;
            }
            if !has(self.minutes, time.minute()) || time.second() != 0 {
                let left = 60 - i64::from(time.second());
                time = time.checked_add(SignedDuration::from_secs(left)).ok()?;
                continue;
            }
            return Some(time.timestamp());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str, zone: &TimeZone) -> String {
        let after: Timestamp = after.parse().expect("a time");
        let next = Schedule::parse(schedule).expect(schedule).next(after, zone);
        next.map(|next| next.to_string()).unwrap_or_default()
    }

    #[test]
    fn schedules_are_due_as_robfig_has_it() {
        // From spec_test.go of robfig/cron v3.0.1, in UTC; the last ones are what it answers.
        for (after, schedule, expected) in [
            ("2012-07-09T14:45:00Z", "0/15 * * * *", "2012-07-09T15:00:00Z"),
            ("2012-07-09T14:59:59Z", "0/15 * * * *", "2012-07-09T15:00:00Z"),
            ("2012-07-09T15:45:00Z", "20-35/15 * * * *", "2012-07-09T16:20:00Z"),
            ("2012-07-09T23:46:00Z", "*/15 * * * *", "2012-07-10T00:00:00Z"),
            ("2012-07-09T23:45:00Z", "0 0 9 Apr-Oct ?", "2012-08-09T00:00:00Z"),
            ("2012-07-09T23:35:00Z", "0 0 */5 Apr,Aug,Oct Mon", "2012-08-01T00:00:00Z"),
            ("2012-07-09T23:35:00Z", "0 0 */5 Oct Mon", "2012-10-01T00:00:00Z"),
            ("2012-07-09T23:35:00Z", "0 0 * Feb Mon", "2013-02-04T00:00:00Z"),
            ("2012-07-09T23:35:00Z", "0 0 * Feb Mon/2", "2013-02-01T00:00:00Z"),
            ("2012-12-31T23:59:45Z", "* * * * *", "2013-01-01T00:00:00Z"),
            ("2012-07-09T23:35:00Z", "0 0 29 Feb ?", "2016-02-29T00:00:00Z"),
            ("2012-07-09T23:35:00Z", "0 0 30 Feb ?", ""),
            ("2012-07-09T23:35:00Z", "0 0 31 Apr ?", ""),
            ("2012-07-09T14:45:10Z", "*-5/15 * * * *", "2012-07-09T15:00:00Z"),
            ("2012-07-09T14:45:10Z", "*-5-6 * * * *", "2012-07-09T14:46:00Z"),
            ("2012-07-09T14:45:10Z", ",, * * * *", ""),
            ("2012-07-09T14:45:10Z", "@every 5\u{b5}s", "2012-07-09T14:45:11Z"),
            ("2012-07-09T14:45:10Z", "@every 5\u{3bc}s", "2012-07-09T14:45:11Z"),
            ("2012-07-09T14:45:10Z", "@every 1h30m", "2012-07-09T16:15:10Z"),
            ("2012-07-09T14:45:10Z", "@every 90s", "2012-07-09T14:46:40Z"),
            ("2012-07-09T14:45:10Z", "@weekly", "2012-07-15T00:00:00Z"),
        ] {
            assert_eq!(next(schedule, after, &TimeZone::UTC), expected, "{schedule} after {after}");
        }
    }

    #[test]
    fn time_zones_shift_and_skip() {
        let new_york = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").expect("a zone");
        // From spec_test.go: the hour that the change of the clock skips, and the one that comes twice.
        for (after, schedule, expected) in [
            ("2012-03-11T05:00:00Z", "0 1 * * ?", "2012-03-11T06:00:00Z"),
            ("2012-03-11T05:00:00Z", "30 2 11 Mar ?", "2013-03-11T06:30:00Z"),
            ("2012-11-04T04:00:00Z", "30 1 04 Nov ?", "2012-11-04T05:30:00Z"),
            ("2012-11-04T05:45:00Z", "30 1 04 Nov ?", "2012-11-04T06:30:00Z"),
        ] {
            assert_eq!(next(schedule, after, &new_york), expected, "{schedule} after {after}");
        }
    }

    #[test]
    fn errors_are_those_of_robfig() {
        // What robfig/cron v3.0.1 answers.
        for (schedule, expected) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("@often", "unrecognized descriptor: @often"),
            ("@every", "unrecognized descriptor: @every"),
            ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
            ("@every ", "failed to parse duration @every : time: invalid duration \"\""),
            (
                "@every 9999999999h",
                "failed to parse duration @every 9999999999h: time: invalid duration \"9999999999h\"",
            ),
            ("TZ=UTC 70/2 * * * *", "beginning of range (70) beyond end of range (59): 70/2"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("x-2-3 * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("1/-2 * * * *", "negative number (-2) not allowed: -2"),
            (
                "* * * jan/jan *",
                "failed to parse int from jan: strconv.Atoi: parsing \"jan\": invalid syntax",
            ),
            (
                "99999999999999999999 * * * *",
                "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of range",
            ),
            ("", "empty spec string"),
        ] {
            let error = Schedule::parse(schedule).expect_err(schedule);
            assert_eq!(error.to_string(), expected, "{schedule}");
        }
    }
}
