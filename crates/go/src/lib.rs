//! What Kubernetes takes from Go's standard library, with Go's results and error texts to the letter.
//!
//! Messages of Kubernetes are made of them, and tools compare messages. Each module is named after Go's package or function.
//!
//! JSON values are those that Kubernetes' decoders make: a number
//! is an `int64` if it fits into one, else a `float64`; a map is printed in the order of its names.
//!
//! ```
//! use serde_json::json;
//!
//! let value = json!({"ports": [80, 1e6], "name": "a<b"});
//! assert_eq!(settled_go::fmt::plain(&value), "map[name:a<b ports:[80 1e+06]]");
//! assert_eq!(settled_go::json::to_string(&value), r#"{"name":"a\u003cb","ports":[80,1000000]}"#);
//! assert_eq!(settled_go::strconv::quote("tab\t"), r#""tab\t""#);
//! ```

#[cfg(feature = "base64")]
pub mod base64;
pub mod duration;
pub mod fmt;
pub mod json;
pub mod mail;
pub mod netip;
mod printable;
#[cfg(feature = "regexp")]
pub mod regexp;
pub mod strconv;
#[cfg(feature = "url")]
pub mod url;

/// A number as Kubernetes' decoders have it.
///
/// ```
/// use settled_go::Num;
///
/// assert_eq!(Num::of(&1.into()), Num::Int(1));
/// assert_eq!(Num::of(&u64::MAX.into()), Num::Float(18446744073709551615.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Num {
    /// An `int64`.
    Int(i64),
    /// A `float64`: what has a point, an exponent, or does not fit into an `int64`.
    Float(f64),
}

impl Num {
    /// The number that a JSON number is.
    pub fn of(number: &serde_json::Number) -> Self {
        number.as_i64().map_or_else(|| Self::Float(number.as_f64().unwrap_or_default()), Self::Int)
    }

    /// The number as a `float64`; a large integer is rounded, as Go does.
    #[expect(clippy::cast_precision_loss, reason = "Go rounds here, too")]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

/// In the order of names, also where `serde_json` keeps another one.
fn ordered(members: &serde_json::Map<String, serde_json::Value>) -> Vec<(&String, &serde_json::Value)> {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(name, _)| *name);
    members
}

/// The number as `%v` prints it.
impl std::fmt::Display for Num {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Float(number) => strconv::write_float(*number, f),
        }
    }
}
