//! Timestamps as Go recognizes them. They are relevant only with an explicit tag: the value stays a string.

/// `2006-1-2`, `2006-1-2 15:4:5.9`, or `2006-1-2T15:4:5.9` with a time zone.
pub(super) fn is_timestamp(text: &[u8]) -> bool {
    parse(text).is_some()
}

fn parse(text: &[u8]) -> Option<()> {
    let mut rest = text;
    if text.iter().take_while(|b| b.is_ascii_digit()).count() != 4 {
        return None;
    }
    let year = digits(&mut rest, 4, 4)?;
    expect(&mut rest, b"-")?;
    let month = digits(&mut rest, 1, 2)?;
    expect(&mut rest, b"-")?;
    let day = digits(&mut rest, 1, 2)?;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        1..=12 => 31,
        _ => return None,
    };
    if day == 0 || day > days {
        return None;
    }
    let Some((&separator, after)) = rest.split_first() else { return Some(()) };
    rest = after;
    if !matches!(separator, b'T' | b't' | b' ') {
        return None;
    }
    let hour = digits(&mut rest, 1, 2)?;
    expect(&mut rest, b":")?;
    let minute = digits(&mut rest, 1, 2)?;
    expect(&mut rest, b":")?;
    let second = digits(&mut rest, 1, 2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if let [b'.' | b',', after @ ..] = rest {
        rest = after;
        let count = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if count == 0 {
            return None;
        }
        rest = &rest[count..];
    }
    match (separator, rest) {
        (b' ', []) => Some(()),
        (b'T' | b't', b"Z") => Some(()),
        (b'T' | b't', [b'+' | b'-', zone @ ..]) => {
            let mut zone = zone;
            let hour = digits(&mut zone, 2, 2)?;
            expect(&mut zone, b":")?;
            let minute = digits(&mut zone, 2, 2)?;
            (hour <= 24 && minute < 60 && zone.is_empty()).then_some(())
        }
        _ => None,
    }
}

fn digits(text: &mut &[u8], least: usize, most: usize) -> Option<u32> {
    let count = text.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
    let (number, rest) = text.split_at_checked(count).filter(|_| count >= least)?;
    *text = rest;
    Some(number.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')))
}

fn expect(text: &mut &[u8], prefix: &[u8]) -> Option<()> {
    *text = text.strip_prefix(prefix)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::is_timestamp;

    #[test]
    fn knows_the_forms_that_go_knows() {
        let check =
            |text: &str, expected: bool| assert_eq!(is_timestamp(text.as_bytes()), expected, "{text}");
        check("2001-01-02", true);
        check("2001-1-2", true);
        check("2001-02-29", false);
        check("2000-02-29", true);
        check("2001-01-02T03:04:05Z", true);
        check("2001-1-2t3:4:5.6+01:00", true);
        check("2001-01-02 03:04:05.678", true);
        check("2001-01-02 03:04:05 Z", false);
        check("2001-01-02T03:04:05", false);
        check("01-01-2002", false);
        check("20010102", false);
    }
}
