//! Numbers and percentages: `intstr.GetScaledValueFromIntOrPercent`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A number, or a percentage of a total, rounded up or down. Text that is no percentage, which API servers refuse, is 0.
pub(crate) fn scaled(value: &IntOrString, total: i32, round_up: bool) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent =
                text.strip_suffix('%').and_then(|digits| digits.parse::<i32>().ok()).unwrap_or_default();
            let product = i64::from(percent) * i64::from(total);
            let rounded = if round_up { (product + 99).div_euclid(100) } else { product.div_euclid(100) };
            i32::try_from(rounded).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_asked() {
        let percent = |text: &str| IntOrString::String(text.to_owned());
        for (value, total, up, down) in [
            (IntOrString::Int(3), 10, 3, 3),
            (percent("25%"), 10, 3, 2),
            (percent("50%"), 10, 5, 5),
            (percent("0%"), 10, 0, 0),
            (percent("100%"), 7, 7, 7),
            (percent("half"), 7, 0, 0),
        ] {
            assert_eq!((scaled(&value, total, true), scaled(&value, total, false)), (up, down), "{value:?}");
        }
    }
}
