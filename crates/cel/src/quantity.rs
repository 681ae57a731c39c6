//! Amounts of resources: `1.5Gi`, `200m`, as Kubernetes reads, compares and adds them.

use std::cmp::Ordering;

/// Nanos of the largest amount of binary units.
const MAX_BINARY: i128 = (i64::MAX as i128) * NANO;
const NANO: i128 = 1_000_000_000;

/// An amount. Kubernetes keeps small ones as an integer with a scale, which shows in what counts as an integer.
#[derive(Clone, Copy, Debug)]
pub enum Quantity {
    /// An integer times a power of ten.
    Small {
        /// The integer.
        value: i64,
        /// The power of ten.
        scale: i32,
    },
    /// In nanos; what is larger than fits is the largest there is.
    Decimal(i128),
}

pub(crate) const WRONG_FORMAT: &str = "quantities must match the regular expression \
                                       '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";
const WRONG_NUMBER: &str = "unable to parse numeric part of quantity";

enum Suffix {
    Decimal(i32),
    Binary(u32),
}

fn suffix(text: &str) -> Option<Suffix> {
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(at) = decimal.iter().position(|known| *known == text) {
        return Some(Suffix::Decimal(3 * at as i32 - 9));
    }
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(at) = binary.iter().position(|known| *known == text) {
        return Some(Suffix::Binary(10 * (at as u32 + 1)));
    }
    let exponent = text.strip_prefix(['e', 'E'])?;
    let exponent: i64 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
    Some(Suffix::Decimal(exponent.clamp(-1000, 1000) as i32))
}

fn power(of: i32) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(of).ok()?)
}

impl Quantity {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err(WRONG_FORMAT);
        }
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, mut rest) = rest.split_at(digits(rest));
        let mut part = "";
        if let Some(tail) = rest.strip_prefix('.') {
            (part, rest) = tail.split_at(digits(tail));
        }
        if whole.is_empty() && part.is_empty() {
            return Err(WRONG_FORMAT);
        }
        let is_known = |char: char| "eEinumkKMGTP+-".contains(char) || char.is_ascii_digit();
        if !rest.chars().all(is_known) {
            return Err(WRONG_FORMAT);
        }
        let suffix = suffix(rest).ok_or(WRONG_SUFFIX)?;
        let whole = whole.trim_start_matches('0');
        let trimmed = if whole.is_empty() { "0" } else { whole };
        let shifted = format!("{trimmed}{part}");
        let sign = if is_negative { -1 } else { 1 };

        let (precision, scale, factor) = match suffix {
            Suffix::Decimal(exponent) => (18 - shifted.len() as i32, exponent, 1_i64),
            Suffix::Binary(exponent) if part.is_empty() => {
                let taken = (f64::from(exponent) * 3.0 / 10.0) as i32;
                (15 - trimmed.len() as i32 - taken - 1, 0, 1_i64 << exponent)
            }
            Suffix::Binary(_) => (-1, 0, 1),
        };
        let scale = scale - part.len() as i32;
        if precision >= 0 && scale >= -9 {
            let value: i64 = shifted.parse().map_err(|_| WRONG_NUMBER)?;
            if let Some(value) = value.checked_mul(factor) {
                return Ok(Self::Small { value: sign * value, scale });
            }
        }

        // Digits beyond those that count round up, as everything does here.
        let kept: String = shifted.chars().take(36).collect();
        let cut = (shifted.len() - kept.len()) as i32;
        let rest_is_zero = shifted.chars().skip(36).all(|char| char == '0');
        let number: i128 = kept.parse().map_err(|_| WRONG_NUMBER)?;
        let mut exponent = 9 - part.len() as i32 + cut;
        let mut number = Some(number);
        let is_binary = match suffix {
            Suffix::Decimal(more) => {
                exponent += more;
                false
            }
            Suffix::Binary(bits) => {
                number = number.and_then(|number| number.checked_mul(1 << bits));
                true
            }
        };
        let nanos = if exponent >= 0 {
            number.and_then(|number| number.checked_mul(power(exponent)?))
        } else {
            match (number, power(-exponent)) {
                (Some(number), Some(divisor)) => {
                    let up = number % divisor != 0 || !rest_is_zero;
                    Some(number / divisor + i128::from(up))
                }
                (Some(number), None) => Some(i128::from(number > 0)),
                (None, _) => None,
            }
        };
        let mut nanos = nanos.unwrap_or(i128::MAX / 4);
        if is_binary {
            nanos = nanos.min(MAX_BINARY);
        }
        Ok(Self::Decimal(i128::from(sign) * nanos))
    }

    fn nanos(self) -> i128 {
        match self {
            Self::Decimal(nanos) => nanos,
            Self::Small { value, scale } => {
                let shift = scale + 9;
                let nanos = if shift >= 0 {
                    power(shift).and_then(|power| i128::from(value).checked_mul(power))
                } else {
                    power(-shift).map(|power| i128::from(value) / power)
                };
                let largest = i128::MAX / 4;
                nanos.unwrap_or(if value < 0 { -largest } else { largest })
            }
        }
    }

    pub(crate) fn of(value: i64) -> Self {
        Self::Small { value, scale: 0 }
    }

    pub(crate) fn order(self, other: Self) -> Ordering {
        self.nanos().cmp(&other.nanos())
    }

    pub(crate) fn sign(self) -> i64 {
        self.nanos().signum() as i64
    }

    pub(crate) fn integer(self) -> Option<i64> {
        match self {
            Self::Small { value, scale: 0 } => Some(value),
            Self::Small { value, scale } => {
                let power = i64::try_from(power(scale)?).ok()?;
                value.checked_mul(power)
            }
            Self::Decimal(_) => None,
        }
    }

    pub(crate) fn float(self) -> f64 {
        match self {
            Self::Small { value, scale: 0 } => value as f64,
            Self::Small { value, scale } => value as f64 * 10_f64.powi(scale),
            Self::Decimal(nanos) => nanos as f64 / 1e9,
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        if let (Self::Small { value: a, scale: s }, Self::Small { value: b, scale: t }) = (self, other) {
            let sum = if b == 0 {
                Some((a, s))
            } else if a == 0 {
                Some((b, t))
            } else {
                let least = s.min(t);
                let raise = |value: i64, by: i32| {
                    i64::try_from(power(by)?).ok().and_then(|power| value.checked_mul(power))
                };
                raise(a, s - least)
                    .zip(raise(b, t - least))
                    .and_then(|(a, b)| a.checked_add(b))
                    .map(|sum| (sum, least))
            };
            if let Some((value, scale)) = sum {
                return Self::Small { value, scale };
            }
        }
        Self::Decimal(self.nanos().saturating_add(other.nanos()))
    }

    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Small { value, scale } if value != i64::MIN => Self::Small { value: -value, scale },
            other => Self::Decimal(-other.nanos()),
        }
    }
}
