//! `api/resource`: quantities such as `500m`, `1.5Gi` or `1e3`.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use crate::amount;
pub use crate::amount::{Amount, Format, MAX_MILLI_VALUE, ParseQuantityError};

/// `resource.Quantity`: an amount and its format. Quantities are equal if their amounts are.
///
/// ```
/// use settled_apimachinery::quantity::Quantity;
///
/// let half = Quantity::parse("0.5")?;
/// assert_eq!(half.to_string(), "500m");
/// assert!(half < Quantity::parse("1Ki")?);
/// # Ok::<(), settled_apimachinery::quantity::ParseQuantityError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The parsed text, if upstream prints it unchanged.
    text: Option<Box<str>>,
}

/// Suffix of a power, empty if there is none: upstream then prints the number alone.
fn suffix(format: Format, power: i64) -> String {
    let names: &[&str] = match format {
        Format::DecimalExponent if power == 0 => return String::new(),
        Format::DecimalExponent => return format!("e{power}"),
        Format::BinarySi => &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"],
        Format::DecimalSi => &["n", "u", "m", "", "k", "M", "G", "T", "P", "E"],
    };
    let index = if format == Format::BinarySi { power / 10 } else { power / 3 + 3 };
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default().to_owned()
}

impl Quantity {
    /// `ParseQuantity`.
    ///
    /// # Errors
    /// The text is not a quantity.
    pub fn parse(text: &str) -> Result<Self, ParseQuantityError> {
        let parsed = amount::parse(text)?;
        let kept = parsed.is_kept.then(|| text.into());
        Ok(Self { amount: parsed.amount, format: parsed.format, text: kept })
    }

    /// The quantity in a field of an object: a string or a number.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text.trim()).ok(),
            Value::Number(number) => Self::parse(&number.to_string()).ok(),
            _ => None,
        }
    }

    /// The amount alone.
    pub fn amount(&self) -> &Amount {
        &self.amount
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// `IsZero`.
    pub fn is_zero(&self) -> bool {
        self.amount.is_zero()
    }

    /// Whether it is negative.
    pub fn is_negative(&self) -> bool {
        self.amount.is_negative()
    }

    /// `Value`: see [`Amount::value`].
    pub fn value(&self) -> i64 {
        self.amount.value()
    }

    /// `MilliValue`: see [`Amount::milli_value`].
    pub fn milli_value(&self) -> i64 {
        self.amount.milli_value()
    }

    /// `RoundUp`: see [`Amount::round_up`].
    pub fn round_up(&mut self, scale: i32) {
        if !self.amount.round_up(scale) {
            self.text = None;
        }
    }

    /// `Add`: a zero takes the format of the addend.
    pub fn add(&mut self, other: &Self) {
        self.adopt(other);
        self.amount.add(&other.amount);
    }

    /// `Sub`.
    pub fn sub(&mut self, other: &Self) {
        self.adopt(other);
        self.amount.sub(&other.amount);
    }

    fn adopt(&mut self, other: &Self) {
        self.text = None;
        if self.is_zero() {
            self.format = other.format;
        }
    }
}

impl From<i64> for Quantity {
    /// An integer quantity in decimal format.
    fn from(value: i64) -> Self {
        Self { amount: value.into(), format: Format::DecimalSi, text: None }
    }
}

impl Ord for Quantity {
    /// `Cmp`.
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

impl Eq for Quantity {}

/// `String`: the canonical text, or the parsed one if upstream considers it canonical.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        let decimal = self.amount.decimal();
        let mut format = self.format;
        if format == Format::BinarySi {
            let is_little = self.amount > Amount::from(-1024) && self.amount < Amount::from(1024);
            if !is_little && let (whole, true) = decimal.clone().round_up(0) {
                let (number, times) = whole.without_factors_of_1024();
                return write!(f, "{number}{}", suffix(format, 10 * i64::from(times)));
            }
            // Lossless.
            format = Format::DecimalSi;
        }
        let (number, exponent) = decimal.canonical();
        write!(f, "{number}{}", suffix(format, exponent))
    }
}
