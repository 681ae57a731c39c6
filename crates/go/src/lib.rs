//! Port of the parts of Go's standard library whose results and error texts appear in Kubernetes' messages.
//!
//! Tools compare these messages, so results and texts are identical to Go's. Each module is named after Go's package or
//! function; `cron` after the library that Kubernetes uses for schedules.
//!
//! JSON values are those that Kubernetes' decoders produce: a number is an `int64` if it fits, else a `float64`; maps
//! are printed in the order of their keys.
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
#[cfg(feature = "cron")]
pub mod cron;
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

/// A number as Kubernetes' decoders represent it.
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
    /// A `float64`: has a point or an exponent, or does not fit into an `int64`.
    Float(f64),
}

impl Num {
    /// Converts a JSON number.
    pub fn of(number: &serde_json::Number) -> Self {
        number.as_i64().map_or_else(|| Self::Float(number.as_f64().unwrap_or_default()), Self::Int)
    }

    /// Converts to `float64`; large integers are rounded as in Go.
    #[expect(clippy::cast_precision_loss, reason = "Go rounds here, too")]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

/// Sorted by key, even if `serde_json` preserves another order.
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
