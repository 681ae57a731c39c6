//! Amounts: numeric values of quantities.

use std::cmp::Ordering;
use std::fmt;

use crate::decimal::Decimal;

/// Smallest unit of a quantity: billionths.
const NANO: i32 = -9;
/// Maximum `Quantity::value` for which `Quantity::milli_value` does not overflow.
pub const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;

/// Number of decimal digits that fit into any `i64`.
const MAX_DIGITS: usize = 18;

/// `resource.Format`: suffix family of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `12e6`.
    DecimalExponent,
    /// `12Mi`.
    BinarySi,
    /// `12M`.
    DecimalSi,
}

/// Parse error with upstream's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseQuantityError {
    /// `ErrFormatWrong`.
    FormatWrong,
    /// `ErrNumeric`.
    Numeric,
    /// `ErrSuffix`.
    Suffix,
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FormatWrong => {
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            Self::Numeric => "unable to parse numeric part of quantity",
            Self::Suffix => "unable to parse quantity's suffix",
        })
    }
}

impl std::error::Error for ParseQuantityError {}

/// Numeric value of a quantity, without its format.
///
/// As upstream, amounts that fit are an `i64` with a power of ten, others arbitrary-precision decimals. Only the latter
/// are allocated.
#[derive(Clone, Debug)]
pub struct Amount(Inner);

#[derive(Clone, Debug)]
enum Inner {
    /// `value * 10^scale`.
    Small {
        value: i64,
        scale: i32,
    },
    /// Billionths; small amounts of arbitrary precision.
    Nanos(i128),
    Large(Box<Decimal>),
}

/// A text split into its parts, not yet validated.
struct Parts<'t> {
    is_positive: bool,
    /// Integer digits without leading zeros, at least one.
    whole: &'t str,
    /// Fraction digits.
    fraction: &'t str,
    /// Whether the text contains any digit.
    has_digits: bool,
    suffix: &'t str,
}

impl<'t> Parts<'t> {
    /// `parseQuantityString`.
    fn split(text: &'t str) -> Result<Self, ParseQuantityError> {
        let (is_positive, rest) = match text.as_bytes().first() {
            Some(b'-') => (false, &text[1..]),
            Some(b'+') => (true, &text[1..]),
            _ => (true, text),
        };
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let has_digits = !whole.is_empty() || !fraction.is_empty();
        let whole = match whole.trim_start_matches('0') {
            "" => "0",
            whole => whole,
        };
        let power = suffix.trim_start_matches(|char| "eEinumkKMGTP".contains(char));
        let power = power.strip_prefix(['+', '-']).unwrap_or(power);
        if !power.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ParseQuantityError::FormatWrong);
        }
        Ok(Self { is_positive, whole, fraction, has_digits, suffix })
    }
}

/// A suffix as a power of ten, or of two.
fn interpret(suffix: &str) -> Option<(bool, i32, Format)> {
    let decimal = |power| Some((false, power, Format::DecimalSi));
    let binary = |power| Some((true, power, Format::BinarySi));
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let power: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Upstream's conversion overflows, too.
            #[expect(clippy::cast_possible_truncation, reason = "as upstream")]
            Some((false, power as i32, Format::DecimalExponent))
        }
    }
}

/// An amount as an `i64` with a power of ten, and the digits in the text.
struct Small {
    digits: i64,
    value: i64,
    scale: i32,
}

impl Parts<'_> {
    /// The amount, if upstream uses its `int64` representation.
    fn small(&self, is_binary: bool, exponent: i32) -> Option<Small> {
        let (most, factor, scale) = match is_binary {
            false => (MAX_DIGITS, 1, exponent),
            // 2^10 has three digits.
            true if self.fraction.is_empty() => {
                (14_usize.checked_sub(exponent.unsigned_abs() as usize * 3 / 10)?, 1_i64 << exponent, 0)
            }
            true => return None,
        };
        if self.whole.len() + self.fraction.len() > most {
            return None;
        }
        let scale = scale.wrapping_sub(i32::try_from(self.fraction.len()).ok()?);
        if scale < NANO {
            return None;
        }
        let all = self.whole.bytes().chain(self.fraction.bytes());
        let digits = all.fold(0, |sum: i64, digit| sum * 10 + i64::from(digit - b'0'));
        let value = digits.checked_mul(factor)?;
        Some(Small { digits, value: if self.is_positive { value } else { -value }, scale })
    }

    /// Whether upstream considers the text canonical and prints it unchanged.
    fn is_kept(&self, is_binary: bool, small: &Small) -> bool {
        if is_binary {
            return small.digits % 8 != 0;
        }
        let digits = self.whole.bytes().chain(self.fraction.bytes()).rev();
        small.scale % 3 == 0
            && digits.take_while(|digit| *digit == b'0').count() < 3
            && !self.whole.starts_with('0')
    }
}

/// A parsed amount.
pub(crate) struct Parsed {
    pub(crate) amount: Amount,
    pub(crate) format: Format,
    /// Whether upstream prints the text unchanged.
    pub(crate) is_kept: bool,
}

/// `ParseQuantity`.
pub(crate) fn parse(text: &str) -> Result<Parsed, ParseQuantityError> {
    if text.is_empty() {
        return Err(ParseQuantityError::FormatWrong);
    }
    let parts = Parts::split(text)?;
    let (is_binary, exponent, mut format) = interpret(parts.suffix).ok_or(ParseQuantityError::Suffix)?;
    if let Some(small) = parts.small(is_binary, exponent) {
        let is_kept = parts.is_kept(is_binary, &small);
        let amount = Amount(Inner::Small { value: small.value, scale: small.scale });
        return Ok(Parsed { amount, format, is_kept });
    }
    if !parts.has_digits {
        return Err(ParseQuantityError::Numeric);
    }
    let mut amount = Amount(match parts.nanos(is_binary, exponent) {
        Some(nanos) if nanos != 0 => Inner::Nanos(nanos),
        _ => Inner::Large(Box::new(parts.decimal(is_binary, exponent))),
    });
    if is_binary {
        if amount > Amount::from(i64::MAX) {
            amount = Amount(Inner::Large(Box::new(Decimal::from_int(i64::MAX.into(), 0))));
        }
        if !amount.is_zero() && amount < Amount::from(1) {
            format = Format::DecimalSi;
        }
    }
    if !parts.is_positive {
        amount.neg();
    }
    Ok(Parsed { amount, format, is_kept: false })
}

impl Parts<'_> {
    /// Billionths, rounded up: a positive request never becomes zero.
    fn nanos(&self, is_binary: bool, exponent: i32) -> Option<i128> {
        let mut nanos: i128 = 0;
        for digit in self.whole.bytes().chain(self.fraction.bytes()) {
            nanos = nanos.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        let mut power = i64::from(-NANO) - self.fraction.len() as i64;
        if is_binary {
            nanos = nanos.checked_mul(1 << exponent)?;
        } else {
            power += i64::from(exponent);
        }
        let factor = u32::try_from(power.unsigned_abs()).ok().and_then(|power| 10_i128.checked_pow(power));
        match factor {
            Some(factor) if power >= 0 => nanos.checked_mul(factor),
            Some(divisor) => Some(nanos / divisor + i128::from(nanos % divisor != 0)),
            None if power < 0 => Some(nanos.signum()),
            None => None,
        }
    }

    /// The same for arbitrary-precision decimals.
    fn decimal(&self, is_binary: bool, exponent: i32) -> Decimal {
        let power = if is_binary { 0 } else { i64::from(exponent) };
        let mut amount = Decimal::from_digits(self.whole, self.fraction, power);
        if is_binary {
            for _ in 0..exponent / 10 {
                amount = amount.times(1024);
            }
        }
        // Zero keeps its scale, which affects the floats of sums.
        if amount.is_zero() { amount } else { amount.round_up(i64::from(NANO)).0 }
    }
}

impl Amount {
    /// Parses the amount of a text.
    ///
    /// ```
    /// use settled_apimachinery::quantity::Amount;
    ///
    /// assert!(Amount::parse("1.5Gi")? > Amount::parse("1500M")?);
    /// # Ok::<(), settled_apimachinery::quantity::ParseQuantityError>(())
    /// ```
    ///
    /// # Errors
    /// The text is not a quantity.
    pub fn parse(text: &str) -> Result<Self, ParseQuantityError> {
        parse(text).map(|parsed| parsed.amount)
    }

    /// `Sign`: -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        match &self.0 {
            Inner::Small { value, .. } => value.signum() as i32,
            Inner::Nanos(nanos) => nanos.signum() as i32,
            Inner::Large(decimal) => decimal.sign(),
        }
    }

    /// `IsZero`.
    pub fn is_zero(&self) -> bool {
        self.sign() == 0
    }

    /// Whether it is negative.
    pub fn is_negative(&self) -> bool {
        self.sign() < 0
    }

    /// `AsInt64`: `None` if upstream has no fast conversion, which includes some integers.
    pub fn as_int64(&self) -> Option<i64> {
        match self.0 {
            Inner::Small { value, scale } => scaled(value, u32::try_from(scale).ok()?),
            Inner::Nanos(_) | Inner::Large(_) => None,
        }
    }

    /// `AsApproximateFloat64`.
    #[expect(clippy::cast_precision_loss, reason = "it is approximate")]
    pub fn as_approximate_float64(&self) -> f64 {
        let (base, exponent) = match &self.0 {
            Inner::Small { value, scale } => (*value as f64, i64::from(*scale)),
            Inner::Nanos(nanos) => (*nanos as f64, i64::from(NANO)),
            Inner::Large(decimal) => decimal.float(),
        };
        if exponent == 0 { base } else { base * pow10(exponent) }
    }

    /// `Value`: the amount rounded up. Meaningless beyond `i64`.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// `MilliValue`: thousandths, rounded up; see [`Amount::value`].
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// `ScaledValue`.
    fn scaled_value(&self, to: i32) -> i64 {
        match &self.0 {
            Inner::Small { value, scale } if *scale < to => rounded_up(*value, to.abs_diff(*scale)).0,
            Inner::Small { value, scale } => scaled(*value, scale.abs_diff(to)).unwrap_or_default(),
            _ => self.decimal().scaled_value(i64::from(to)),
        }
    }

    /// `RoundUp`: rounds away from zero, to a multiple of `10^scale`. Returns whether the result is exact.
    pub fn round_up(&mut self, scale: i32) -> bool {
        let (rounded, is_exact) = match self.0 {
            Inner::Small { scale: own, .. } if own >= scale => return true,
            Inner::Small { value, scale: own } => {
                let (value, is_exact) = rounded_up(value, scale.abs_diff(own));
                (Inner::Small { value, scale }, is_exact)
            }
            _ => {
                let (decimal, is_exact) = self.decimal().round_up(i64::from(scale));
                (Inner::Large(Box::new(decimal)), is_exact)
            }
        };
        self.0 = rounded;
        is_exact
    }

    /// `Add`.
    pub fn add(&mut self, other: &Self) {
        if let (Inner::Small { value, scale }, Inner::Small { value: more, scale: more_scale }) =
            (&self.0, &other.0)
            && let Some((value, scale)) = small_sum((*value, *scale), (*more, *more_scale))
        {
            self.0 = Inner::Small { value, scale };
        } else {
            self.0 = Inner::Large(Box::new(self.decimal().plus(other.decimal())));
        }
    }

    /// `Sub`.
    pub fn sub(&mut self, other: &Self) {
        let mut less = other.clone();
        less.neg();
        self.add(&less);
    }

    /// `Neg`.
    pub fn neg(&mut self) {
        match &mut self.0 {
            Inner::Small { value, .. } if *value != i64::MIN => *value = -*value,
            Inner::Nanos(nanos) => *nanos = -*nanos,
            _ => self.0 = Inner::Large(Box::new(self.decimal().negated())),
        }
    }

    /// `AsDec`.
    pub(crate) fn decimal(&self) -> Decimal {
        match &self.0 {
            Inner::Small { value, scale } => Decimal::from_int(i128::from(*value), i64::from(*scale)),
            Inner::Nanos(nanos) => Decimal::from_int(*nanos, i64::from(NANO)),
            Inner::Large(decimal) => (**decimal).clone(),
        }
    }
}

impl From<i64> for Amount {
    fn from(value: i64) -> Self {
        Self(Inner::Small { value, scale: 0 })
    }
}

impl Ord for Amount {
    /// `Cmp`.
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Inner::Nanos(a), Inner::Nanos(b)) => a.cmp(b),
            (Inner::Large(a), Inner::Large(b)) => a.compare(b),
            _ => match self.nanos().zip(other.nanos()) {
                Some((a, b)) => a.cmp(&b),
                None => self.decimal().compare(&other.decimal()),
            },
        }
    }
}

impl Amount {
    /// Billionths, if they fit into the small representation.
    fn nanos(&self) -> Option<i128> {
        match &self.0 {
            Inner::Small { value, scale } => {
                let power = u32::try_from(scale.checked_sub(NANO)?).ok()?;
                i128::from(*value).checked_mul(10_i128.checked_pow(power)?)
            }
            Inner::Nanos(nanos) => Some(*nanos),
            Inner::Large(_) => None,
        }
    }
}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Amount {}

/// `value * 10^scale`.
fn scaled(value: i64, scale: u32) -> Option<i64> {
    if value == 0 { Some(0) } else { value.checked_mul(10_i64.checked_pow(scale)?) }
}

/// `int64Amount.Add`.
fn small_sum((a, s): (i64, i32), (b, t): (i64, i32)) -> Option<(i64, i32)> {
    match (a, b) {
        (_, 0) => Some((a, s)),
        (0, _) => Some((b, t)),
        _ => {
            let least = s.min(t);
            let sum = scaled(a, s.abs_diff(least))?.checked_add(scaled(b, t.abs_diff(least))?)?;
            Some((sum, least))
        }
    }
}

/// `negativeScaleInt64`: divides by a power of ten and rounds away from zero. Returns whether the result is exact.
fn rounded_up(value: i64, power: u32) -> (i64, bool) {
    let Some(divisor) = 10_i64.checked_pow(power) else { return (value.signum(), value == 0) };
    match value % divisor {
        0 => (value / divisor, true),
        _ => (value / divisor + value.signum(), false),
    }
}

/// `math.Pow10`, with the rounding of its two tables.
fn pow10(exponent: i64) -> f64 {
    let power = |exponent: i64| format!("1e{exponent}").parse::<f64>().unwrap_or_default();
    match exponent {
        0..=308 => power(exponent / 32 * 32) * power(exponent % 32),
        -323..0 => power(exponent / 32 * 32) / power(-exponent % 32),
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}
