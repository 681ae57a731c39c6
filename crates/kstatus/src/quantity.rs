//! Kubernetes quantities such as `500m`, `10Gi` or `1e3`, as far as two of them must be compared.

/// The quantity in thousandths, none where the text is no quantity or too large to compare.
///
/// Finer digits than thousandths are dropped: Kubernetes itself rounds storage and memory to whole bytes.
pub(crate) fn millis(text: &str) -> Option<i128> {
    let number_end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(number_end)?;
    let binary = |power: u32| Some((1024i128.checked_pow(power)?.checked_mul(1000)?, 1));
    let decimal = |exponent: i32| -> Option<(i128, i128)> {
        let exponent = exponent + 3;
        let power = 10i128.checked_pow(exponent.unsigned_abs())?;
        Some(if exponent >= 0 { (power, 1) } else { (1, power) })
    };
    let (factor, divisor) = match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            if !(-30..=30).contains(&exponent) {
                return None;
            }
            decimal(exponent)
        }
    }?;
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.get(..fraction.len().min(9))?;
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let scale = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parse =
        |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u64>().ok().map(i128::from) };
    let scaled = parse(whole)?.checked_mul(scale)?.checked_add(parse(fraction)?)?;
    Some(sign * (scaled.checked_mul(factor)? / scale / divisor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_compare_as_numbers() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("500m", Some(500)),
            ("1Ki", Some(1_024_000)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("10G", Some(10_000_000_000_000)),
            ("1e3", Some(1_000_000)),
            ("1E3", Some(1_000_000)),
            ("1E", Some(1_000_000_000_000_000_000_000)),
            ("-2", Some(-2000)),
            (".5", Some(500)),
            ("100u", Some(0)),
            ("", None),
            (".", None),
            ("x", None),
            ("1X", None),
            ("1e99", None),
            ("1-2", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
    }
}
