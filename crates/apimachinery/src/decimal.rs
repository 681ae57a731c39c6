//! Arbitrary-precision decimals: the part of `inf.Dec` that quantities use.

use std::cmp::Ordering;

/// The sum of numbers whose magnitudes differ more than this is the larger one. Realistic quantities stay far below.
const MAX_DIGITS: usize = 2000;

/// `digits * 10^exponent` with a sign.
#[derive(Clone, Debug)]
pub(crate) struct Decimal {
    is_negative: bool,
    /// Digits 0 to 9, the most significant first, without leading zeros. Empty for zero.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    pub(crate) fn from_int(value: i128, exponent: i64) -> Self {
        let digits = value.unsigned_abs().to_string().bytes().map(|byte| byte - b'0').collect();
        Self { is_negative: value < 0, digits, exponent }.trimmed()
    }

    /// ASCII digits before and after the point.
    pub(crate) fn from_digits(whole: &str, fraction: &str, exponent: i64) -> Self {
        let digits = whole.bytes().chain(fraction.bytes()).map(|byte| byte.wrapping_sub(b'0')).collect();
        Self { is_negative: false, digits, exponent: exponent - fraction.len() as i64 }.trimmed()
    }

    /// Removes leading zeros.
    fn trimmed(mut self) -> Self {
        let zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..zeros);
        self.is_negative &= !self.digits.is_empty();
        self
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub(crate) fn sign(&self) -> i32 {
        match (self.is_zero(), self.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    pub(crate) fn negated(mut self) -> Self {
        self.is_negative = !self.is_negative && !self.is_zero();
        self
    }

    /// The number times a small factor.
    pub(crate) fn times(mut self, factor: u32) -> Self {
        let mut carry = 0_u64;
        for digit in self.digits.iter_mut().rev() {
            let product = u64::from(*digit) * u64::from(factor) + carry;
            *digit = (product % 10) as u8;
            carry = product / 10;
        }
        let mut more = Vec::new();
        while carry > 0 {
            more.push((carry % 10) as u8);
            carry /= 10;
        }
        self.digits.splice(..0, more.into_iter().rev());
        self
    }

    /// Rounds away from zero to a multiple of `10^exponent`, and returns whether the result is exact. As in `inf.Dec`,
    /// a number with a larger exponent is padded with zeros.
    pub(crate) fn round_up(mut self, exponent: i64) -> (Self, bool) {
        if self.is_zero() {
            self.exponent = exponent;
            return (self, true);
        }
        let Ok(cut) = usize::try_from(exponent.saturating_sub(self.exponent)) else {
            self.expand(exponent);
            return (self, true);
        };
        let kept = self.digits.len().saturating_sub(cut);
        let is_exact = self.digits.iter().skip(kept).all(|digit| *digit == 0);
        self.digits.truncate(kept);
        self.exponent = exponent;
        if !is_exact {
            self.increment();
        }
        (self, is_exact)
    }

    fn increment(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    /// The same number with a smaller exponent, unless it would have too many digits.
    fn expand(&mut self, exponent: i64) {
        if self.is_zero() {
            self.exponent = self.exponent.min(exponent);
            return;
        }
        let zeros = usize::try_from(self.exponent.saturating_sub(exponent)).unwrap_or(usize::MAX);
        if self.digits.len().saturating_add(zeros) <= MAX_DIGITS {
            self.digits.resize(self.digits.len() + zeros, 0);
            self.exponent = exponent;
        }
    }

    /// The exponent of the most significant digit, plus one.
    fn magnitude(&self) -> i64 {
        self.exponent.saturating_add(self.digits.len() as i64)
    }

    fn compare_magnitudes(&self, other: &Self) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        self.magnitude().cmp(&other.magnitude()).then_with(|| {
            let length = self.digits.len().max(other.digits.len());
            let padded = |digits: &[u8]| -> Vec<u8> {
                let mut padded = digits.to_vec();
                padded.resize(length, 0);
                padded
            };
            padded(&self.digits).cmp(&padded(&other.digits))
        })
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let signs = self.sign().cmp(&other.sign());
        let magnitudes = || match self.is_negative {
            false => self.compare_magnitudes(other),
            true => other.compare_magnitudes(self),
        };
        signs.then_with(magnitudes)
    }

    /// The sum, with the smaller of both exponents.
    pub(crate) fn plus(mut self, mut other: Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        if self.is_zero() {
            other.expand(exponent);
            return other;
        }
        self.expand(exponent);
        if other.is_zero() {
            return self;
        }
        other.expand(exponent);
        if self.exponent != other.exponent {
            return if self.magnitude() < other.magnitude() { other } else { self };
        }
        if self.is_negative == other.is_negative {
            self.digits = sum(&self.digits, &other.digits);
            return self;
        }
        let (larger, smaller) = match self.compare_magnitudes(&other) {
            Ordering::Less => (other, self),
            _ => (self, other),
        };
        Self { digits: difference(&larger.digits, &smaller.digits), ..larger }.trimmed()
    }

    /// `scaledValue`: the quotient by `10^exponent` with upstream's rounding, which adds one to inexact results.
    pub(crate) fn scaled_value(&self, exponent: i64) -> i64 {
        let Ok(cut) = usize::try_from(exponent.saturating_sub(self.exponent)) else {
            let mut expanded = self.clone();
            expanded.expand(exponent);
            return saturated(self.is_negative, &expanded.digits);
        };
        let (kept, rest) = self.digits.split_at(self.digits.len().saturating_sub(cut));
        let quotient = saturated(self.is_negative, kept);
        quotient.saturating_add(i64::from(rest.iter().any(|digit| *digit != 0)))
    }

    /// The digits as text, and the exponent as a multiple of three.
    pub(crate) fn canonical(&self) -> (String, i64) {
        let zeros = self.digits.iter().rev().take_while(|digit| **digit == 0).count();
        let mut digits = self.digits[..self.digits.len() - zeros].to_vec();
        let mut exponent = self.exponent.saturating_add(zeros as i64);
        while exponent % 3 != 0 {
            digits.push(0);
            exponent -= 1;
        }
        (self.text(&digits), exponent)
    }

    /// Removes factors of 1024 from an integer, and returns their number.
    pub(crate) fn without_factors_of_1024(&self) -> (String, u32) {
        let mut digits = self.digits.clone();
        digits.resize(digits.len() + usize::try_from(self.exponent.max(0)).unwrap_or(0).min(MAX_DIGITS), 0);
        let mut times = 0;
        loop {
            let (quotient, rest) = divided(&digits, 1024);
            if rest != 0 || quotient.is_empty() {
                return (self.text(&digits), times);
            }
            (digits, times) = (quotient, times + 1);
        }
    }

    fn text(&self, digits: &[u8]) -> String {
        let sign = if self.is_negative { "-" } else { "" };
        sign.chars().chain(digits.iter().map(|digit| char::from(b'0' + digit))).collect()
    }

    /// The digits as a float, and the exponent.
    pub(crate) fn float(&self) -> (f64, i64) {
        let text = if self.is_zero() { "0".to_owned() } else { self.text(&self.digits) };
        (text.parse().unwrap_or_default(), self.exponent)
    }
}

/// Saturates if the number does not fit.
fn saturated(is_negative: bool, digits: &[u8]) -> i64 {
    let number =
        digits.iter().try_fold(0_i64, |sum, digit| sum.checked_mul(10)?.checked_add(i64::from(*digit)));
    match (number, is_negative) {
        (Some(number), true) => -number,
        (Some(number), false) => number,
        (None, true) => i64::MIN,
        (None, false) => i64::MAX,
    }
}

fn sum(a: &[u8], b: &[u8]) -> Vec<u8> {
    let (mut a, mut b) = (a.iter().rev(), b.iter().rev());
    let (mut digits, mut carry) = (Vec::new(), 0);
    loop {
        let (x, y) = (a.next(), b.next());
        if x.is_none() && y.is_none() && carry == 0 {
            break;
        }
        let total = x.copied().unwrap_or(0) + y.copied().unwrap_or(0) + carry;
        digits.push(total % 10);
        carry = total / 10;
    }
    digits.reverse();
    digits
}

/// `a` must not be less than `b`.
fn difference(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut b = b.iter().rev();
    let (mut digits, mut borrowed) = (Vec::with_capacity(a.len()), 0);
    for x in a.iter().rev() {
        let y = b.next().copied().unwrap_or(0) + borrowed;
        borrowed = u8::from(*x < y);
        digits.push(x + 10 * borrowed - y);
    }
    digits.reverse();
    digits
}

/// The quotient without leading zeros, and the remainder.
fn divided(digits: &[u8], divisor: u32) -> (Vec<u8>, u32) {
    let (mut quotient, mut rest) = (Vec::with_capacity(digits.len()), 0);
    for digit in digits {
        rest = rest * 10 + u32::from(*digit);
        let place = (rest / divisor) as u8;
        if place > 0 || !quotient.is_empty() {
            quotient.push(place);
        }
        rest %= divisor;
    }
    (quotient, rest)
}
