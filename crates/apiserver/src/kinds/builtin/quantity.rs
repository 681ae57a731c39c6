//! Quantities in their canonical form: `0.5` is `500m`, `1024Mi` is `1Gi`.

/// The family of suffixes that a quantity was written with, and is written in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

/// An exact amount, in billionths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    format: Format,
}

const NANO: i128 = 1_000_000_000;

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

impl Quantity {
    /// Reads what Kubernetes reads. What is finer than a billionth is rounded away from zero. None for anything else, and
    /// for amounts beyond 10^29, which nobody has.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, text.get(1..)?),
            b'+' => (false, text.get(1..)?),
            _ => (false, text),
        };
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(digits);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let (base, exponent, format) = scale(suffix)?;
        let fraction = fraction.trim_end_matches('0');
        let mut mantissa: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            mantissa = mantissa.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        let mut decimals = 9_i32.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        if base == 2 {
            mantissa = mantissa.checked_mul(1_i128.checked_shl(u32::try_from(exponent).ok()?)?)?;
        } else {
            decimals = decimals.checked_add(exponent)?;
        }
        let nanos = if mantissa == 0 {
            0
        } else if decimals >= 0 {
            mantissa.checked_mul(10_i128.checked_pow(decimals.unsigned_abs())?)?
        } else {
            match 10_i128.checked_pow(decimals.unsigned_abs()) {
                Some(divisor) => mantissa / divisor + i128::from(mantissa % divisor != 0),
                None => 1,
            }
        };
        Some(Self { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// Rounded away from zero to thousandths, which is what resource lists hold.
    pub(crate) fn to_milli(self) -> Self {
        let step = NANO / 1000;
        let rest = self.nanos % step;
        let nanos = if rest == 0 { self.nanos } else { self.nanos - rest + step * rest.signum() };
        Self { nanos, ..self }
    }

    /// Whether it is less than nothing.
    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether it is nothing.
    pub(crate) fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is a whole number.
    pub(crate) fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// A whole number.
    pub(crate) fn whole(number: i64) -> Self {
        Self { nanos: i128::from(number) * NANO, format: Format::Decimal }
    }

    /// The sum as resource lists are added up: nothing takes on the format of what is added.
    pub(crate) fn add(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
    }

    /// The difference, in the format of [`Quantity::add`].
    pub(crate) fn subtract(self, other: Self) -> Self {
        self.add(Self { nanos: other.nanos.saturating_neg(), ..other })
    }

    /// How many times the other goes into this one.
    #[expect(clippy::cast_precision_loss, reason = "a ratio for a comparison and a text")]
    pub(crate) fn ratio(self, other: Self) -> f64 {
        self.nanos as f64 / other.nanos as f64
    }

    /// The sum, in this one's format.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), ..self }
    }

    /// The canonical text: the largest suffix that leaves no fraction.
    pub(crate) fn canonical(self) -> String {
        if self.nanos == 0 {
            return "0".into();
        }
        let small = self.nanos.abs() < 1024 * NANO;
        if self.format == Format::Binary && !small {
            let mut whole = self.nanos / NANO + (self.nanos % NANO).signum();
            let mut suffix = 0;
            while whole % 1024 == 0 && suffix < 6 {
                whole /= 1024;
                suffix += 1;
            }
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(suffix).copied().unwrap_or_default();
            return format!("{whole}{suffix}");
        }
        let mut number = self.nanos;
        let mut exponent: i32 = -9;
        while number % 1000 == 0 && (exponent < 18 || self.format == Format::Exponent) {
            number /= 1000;
            exponent += 3;
        }
        if self.format == Format::Exponent {
            return if exponent == 0 { number.to_string() } else { format!("{number}e{exponent}") };
        }
        let suffix = match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            _ => "",
        };
        format!("{number}{suffix}")
    }
}

/// Base, exponent and family of a suffix.
fn scale(suffix: &str) -> Option<(u32, i32, Format)> {
    let binary = |power: i32| Some((2, power * 10, Format::Binary));
    let decimal = |power: i32| Some((10, power, Format::Decimal));
    match suffix {
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
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
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            Some((
                10,
                exponent.parse().ok().filter(|power| (-1000..=1000).contains(power))?,
                Format::Exponent,
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn quantities_are_written_as_go_writes_them() {
        for (given, wanted) in [
            ("0.5", "500m"),
            ("1", "1"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("1000", "1k"),
            ("100000", "100k"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("0.5Ki", "512"),
            ("1000Ki", "1000Ki"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("1E", "1E"),
            ("5E3", "5e3"),
            ("-1.5", "-1500m"),
            ("+1", "1"),
            (".5", "500m"),
            ("5.", "5"),
            ("0", "0"),
            ("0Mi", "0"),
            ("0.0001n", "1n"),
            ("1Ei", "1Ei"),
        ] {
            assert_eq!(Quantity::parse(given).map(Quantity::canonical).as_deref(), Some(wanted), "{given}");
        }
        for wrong in [
            "",
            "-",
            ".",
            "1x",
            "1.2.3",
            "Ki",
            "1 ",
            "1e",
            "e3",
            "1kk",
            "99999999999999999999999999999999999999999",
        ] {
            assert!(Quantity::parse(wrong).is_none(), "{wrong}");
        }
        assert_eq!(Quantity::parse("100u").map(|q| q.to_milli().canonical()).as_deref(), Some("1m"));
    }
}
