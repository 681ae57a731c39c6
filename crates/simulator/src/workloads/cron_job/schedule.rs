//! Schedules of CronJobs, as `robfig/cron` v3 reads them with its standard parser, and when they are next due.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Unit, Zoned};

/// Years after which a schedule that never matches is given up.
const MAX_YEARS: i16 = 5;

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    /// `@every 1h30m`.
    Every(SignedDuration),
    /// Five fields.
    Fields(Fields),
}

/// The values of each field as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fields {
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

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    /// Reads a schedule; one with `TZ=` or `CRON_TZ=`, which servers refuse, is an error.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            return Err("time zones belong into spec.timeZone".to_owned());
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        if let Some(interval) = text.strip_prefix("@every ") {
            let nanoseconds = settled_go::duration::parse(interval)
                .map_err(|error| format!("failed to parse duration {text}: {error}"))?;
            let seconds = (nanoseconds / 1_000_000_000).max(1);
            return Ok(Self::Every(SignedDuration::from_secs(seconds)));
        }
        if text.starts_with('@') {
            return Err(format!("unrecognized descriptor: {text}"));
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = *fields else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        };
        Ok(Self::Fields(Fields {
            minutes: field(minutes, 0, 59, &[])?.bits,
            hours: field(hours, 0, 23, &[])?.bits,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?.bits,
            weekdays: field(weekdays, 0, 6, &DAYS)?,
        }))
    }

    /// When it is next due after a time. Nothing if that is never, or not within five years.
    pub(super) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Every(interval) => {
                let whole = Timestamp::from_second(after.as_second()).ok()?;
                whole.checked_add(*interval).ok()
            }
            Self::Fields(fields) => fields.next(after, zone),
        }
    }
}

/// A time zone of the machine's tz database, where Go's `time.LoadLocation` looks for it.
pub(super) fn zone(name: &str) -> Option<TimeZone> {
    const DIRECTORIES: [&str; 3] = ["/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"];
    if name.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
        return None;
    }
    let read = |directory: &&str| std::fs::read(std::path::Path::new(directory).join(name)).ok();
    TimeZone::tzif(name, &DIRECTORIES.iter().find_map(read)?).ok()
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
    let (ends, step) = match text.split_once('/') {
        Some((ends, step)) => (ends, Some(number(step, low, &[])?)),
        None => (text, None),
    };
    let is_any = matches!(ends, "*" | "?");
    let (start, end) = match ends.split_once('-') {
        _ if is_any => (low, high),
        Some((start, end)) => (number(start, low, names)?, number(end, low, names)?),
        None => {
            let start = number(ends, low, names)?;
            (start, if step.is_some() { high } else { start })
        }
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
    let size = step.unwrap_or(1);
    if size == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let step = usize::try_from(size).unwrap_or(usize::MAX);
    let bits = (start..=end).step_by(step).fold(0, |bits, value| bits | 1 << value);
    // `*/2` is a range like another one.
    Ok(Field { bits, is_any: is_any && size == 1 })
}

fn number(text: &str, low: u32, names: &[&str]) -> Result<u32, String> {
    if let Some(place) = names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(low + u32::try_from(place).unwrap_or_default());
    }
    text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits & (1 << value) != 0)
}

impl Fields {
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
            DateTime::from_parts(date, jiff::civil::Time::midnight()).to_zoned(zone.clone()).ok()
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
                let start = time
                    .round(jiff::ZonedRound::new().smallest(Unit::Hour).mode(jiff::RoundMode::Trunc))
                    .ok()?;
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
        // From spec_test.go of robfig/cron v3.0.1, in UTC.
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
        for (schedule, expected) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("@often", "unrecognized descriptor: @often"),
        ] {
            assert_eq!(Schedule::parse(schedule), Err(expected.to_owned()), "{schedule}");
        }
    }
}
