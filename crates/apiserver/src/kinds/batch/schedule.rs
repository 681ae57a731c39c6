//! Schedules of CronJobs, as `robfig/cron` reads them, and names of time zones.

use settled_go::duration;

/// Whether a schedule is one to `robfig/cron`'s standard parser: the error is that parser's.
pub(super) fn parse_schedule(text: &str) -> Result<(), String> {
    let mut text = text;
    if let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
        text = rest.split_once(' ').map_or("", |(_, rest)| rest).trim();
    }
    if let Some(word) = text.strip_prefix('@') {
        return match word {
            "yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly" => Ok(()),
            _ => match word.strip_prefix("every ") {
                Some(interval) => match duration::parse(interval) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(format!("failed to parse duration {text}: {error}")),
                },
                None => Err(format!("unrecognized descriptor: {text}")),
            },
        };
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let bounds: [(u32, u32, &[&str]); 5] =
        [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 6, &DAYS)];
    for (field, (low, high, names)) in fields.into_iter().zip(bounds) {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            parse_range(part, low, high, names)?;
        }
    }
    Ok(())
}

fn parse_range(text: &str, low: u32, high: u32, names: &[&str]) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts.first().copied().unwrap_or_default().split('-').collect();
    let number = |word: &str| -> Result<u32, String> {
        if let Some(at) = names.iter().position(|name| name.eq_ignore_ascii_case(word)) {
            return Ok(low + u32::try_from(at).unwrap_or_default());
        }
        match word.parse::<i64>() {
            Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {word}")),
            Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
            Err(_) => Err(format!(
                "failed to parse int from {word}: strconv.Atoi: parsing {word:?}: invalid syntax"
            )),
        }
    };
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?"] => (low, high),
        [one] => number(one).map(|one| (one, one))?,
        [first, last] if *first != "*" && *first != "?" => (number(first)?, number(last)?),
        ["*" | "?", ..] => (low, high),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let mut step = 1;
    match parts.as_slice() {
        [_] => {}
        [_, every] => {
            step = number(every)?;
            if ends.len() == 1 {
                end = end.max(high);
            }
        }
        _ => return Err(format!("too many slashes: {text}")),
    }
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
    Ok(())
}

/// What the name of a time zone is made of.
pub(super) fn is_part_of_time_zone(part: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    (1..=14).contains(&part.len())
        && part.bytes().all(fits)
        && !part.starts_with('-')
        && ![".", ".."].contains(&part)
}

/// Whether there is a time zone of this name.
pub(super) fn is_time_zone(name: &str) -> bool {
    static ZONES: &str = include_str!("../../../data/timezones.txt");
    ["Local", "UTC"].contains(&name) || ZONES.lines().any(|zone| zone == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_schedules_are_read_as_go_reads_durations() {
        // What robfig/cron v3.0.1 answers.
        let cases = [
            ("@every 1h30m", ""),
            ("@every 5\u{b5}s", ""),
            ("@every 5\u{3bc}s", ""),
            ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
            ("@every ", "failed to parse duration @every : time: invalid duration \"\""),
            (
                "@every 9999999999h",
                "failed to parse duration @every 9999999999h: time: invalid duration \"9999999999h\"",
            ),
            ("@every", "unrecognized descriptor: @every"),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse_schedule(text).err().unwrap_or_default(), wanted, "{text}");
        }
    }
}
