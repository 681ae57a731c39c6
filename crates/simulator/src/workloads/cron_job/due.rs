//! Which time of a schedule is due, and when the next one is (`utils.go` upstream).

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use settled_go::cron::Schedule;

/// Reconciles come a little after the time, so that clocks need not agree exactly.
const DELTA: SignedDuration = SignedDuration::from_millis(100);
/// More missed times than these are reported.
const MANY: i64 = 100;

/// A schedule at a time.
pub(super) struct Due<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) zone: &'a TimeZone,
    /// When it was last due, or when the CronJob was created.
    pub(super) earliest: Timestamp,
    pub(super) now: Timestamp,
}

/// The last time that was due and has not been served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    pub(super) time: Option<Timestamp>,
    pub(super) is_many: bool,
}

impl Due<'_> {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next(after, self.zone)
    }

    /// `mostRecentScheduleTime`: with a deadline, times before it do not count.
    pub(super) fn most_recent(&self, deadline_seconds: Option<i64>) -> Missed {
        let bound = deadline_seconds
            .and_then(|seconds| self.now.checked_sub(SignedDuration::from_secs(seconds)).ok());
        let earliest = bound.map_or(self.earliest, |bound| bound.max(self.earliest));
        let none = Missed::default();
        let Some(first) = self.next(earliest).filter(|first| *first <= self.now) else { return none };
        let Some(second) = self.next(first).filter(|second| *second <= self.now) else {
            return Missed { time: Some(first), is_many: false };
        };
        let interval = first.duration_until(second).as_secs().max(1);
        let missed = first.duration_until(self.now).as_secs() / interval + 1;
        // Near the last one, so that a schedule of years is not walked through.
        let near = first.checked_add(SignedDuration::from_secs((missed - 2) * interval)).unwrap_or(first);
        let mut time = None;
        let mut candidate = self.next(near);
        while let Some(at) = candidate.filter(|at| *at <= self.now) {
            time = Some(at);
            candidate = self.next(at);
        }
        Missed { time, is_many: missed > MANY }
    }

    /// How long until the schedule is due the next time.
    pub(super) fn until_next(&self) -> Option<Duration> {
        let last = match self.most_recent(None) {
            Missed { time: Some(time), .. } => time,
            Missed { time: None, .. } => match self.next(self.earliest) {
                Some(first) if first <= self.now => self.now,
                _ => self.earliest,
            },
        };
        let wait = self.now.duration_until(self.next(last)?) + DELTA;
        Some(wait.max(SignedDuration::ZERO).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(schedule: &str, earliest: &str, now: &str, deadline: Option<i64>) -> (Option<String>, bool, u64) {
        let schedule = Schedule::parse(schedule).expect("a schedule");
        let time = |text: &str| format!("2026-01-01T{text}Z").parse().expect("a time");
        let due = Due { schedule: &schedule, zone: &TimeZone::UTC, earliest: time(earliest), now: time(now) };
        let missed = due.most_recent(deadline);
        let wait = due.until_next().map_or(0, |wait| wait.as_secs());
        (missed.time.map(|time| time.to_string()[11..19].to_owned()), missed.is_many, wait)
    }

    #[test]
    fn the_last_missed_time_is_due() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(due("0 * * * *", "10:00:00", "10:30:00", None), (None, false, 1800));
        assert_eq!(due("0 * * * *", "10:00:00", "11:00:10", None), (some("11:00:00"), false, 3590));
        assert_eq!(due("0 * * * *", "10:00:00", "14:10:00", None), (some("14:00:00"), false, 3000));
        assert_eq!(due("0 * * * *", "10:00:00", "14:10:00", Some(300)), (None, false, 3000));
        assert_eq!(due("* * * * *", "10:00:00", "14:10:30", None), (some("14:10:00"), true, 30));
    }
}
