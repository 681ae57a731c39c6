//! Feature gates, under upstream's names.

use std::fmt;

/// A row of [`FeatureGates::TABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeatureGate {
    /// What upstream calls it.
    pub name: &'static str,
    /// How mature upstream says it is: `ALPHA`, `BETA` or `GA`.
    pub stage: &'static str,
    /// Is it on if nobody says anything?
    pub default: bool,
    /// What it is for.
    pub about: &'static str,
}

/// A feature, in the order of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Feature {
    ApiResponseCompression,
    WatchList,
}

const TABLE: [FeatureGate; 2] = [
    FeatureGate {
        name: "APIResponseCompression",
        stage: "BETA",
        default: true,
        about: "answers of more than 128 KiB are gzipped for clients that take it",
    },
    FeatureGate {
        name: "WatchList",
        stage: "BETA",
        default: true,
        about: "a watch can begin with the state (sendInitialEvents)",
    },
];

/// What is switched on.
///
/// ```
/// use settled_apiserver::FeatureGates;
///
/// let gates = FeatureGates::parse("WatchList=false").unwrap();
/// assert_eq!(gates.enabled("WatchList"), Some(false));
/// assert!(FeatureGates::parse("Nonsense=true").unwrap_err().to_string().contains("WatchList"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates([bool; TABLE.len()]);

/// Why gates can't be set so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeatureGateError {
    /// There is no such gate.
    #[error("unrecognized feature gate: {name}; known are {}", Known)]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// Only a name is there.
    #[error("missing bool value for {name}: write {name}=true or {name}=false")]
    Missing {
        /// The name.
        name: String,
    },
    /// The value is neither true nor false.
    #[error("invalid value of {name}={value}: only true and false are possible")]
    Value {
        /// The name.
        name: String,
        /// What is no value.
        value: String,
    },
}

/// The names, for a sentence.
struct Known;

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, gate) in TABLE.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, gate.name)?;
        }
        Ok(())
    }
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self(TABLE.map(|gate| gate.default))
    }
}

impl FeatureGates {
    /// All gates there are, by name.
    pub const TABLE: &'static [FeatureGate] = &TABLE;

    /// Reads `Name=true,Other=false`; gates that are not named have their defaults.
    ///
    /// # Errors
    /// A gate is unknown, or its value is neither true nor false.
    pub fn parse(text: &str) -> Result<Self, FeatureGateError> {
        let mut gates = Self::default();
        for setting in text.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let (name, value) = (name.trim(), value.trim());
            let on = match value {
                // What Go's `strconv.ParseBool` takes.
                "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
                "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
                _ => {
                    gates.set(name, true)?;
                    let (name, value) = (name.to_owned(), value.to_owned());
                    return Err(match setting.contains('=') {
                        true => FeatureGateError::Value { name, value },
                        false => FeatureGateError::Missing { name },
                    });
                }
            };
            gates.set(name, on)?;
        }
        Ok(gates)
    }

    /// Switches one gate.
    ///
    /// # Errors
    /// There is no such gate.
    pub fn set(&mut self, name: &str, on: bool) -> Result<(), FeatureGateError> {
        let unknown = || FeatureGateError::Unknown { name: name.to_owned() };
        let index = TABLE.iter().position(|gate| gate.name == name).ok_or_else(unknown)?;
        if let Some(gate) = self.0.get_mut(index) {
            *gate = on;
        }
        Ok(())
    }

    /// Is the gate of this name on? Nothing: there is none.
    #[must_use]
    pub fn enabled(&self, name: &str) -> Option<bool> {
        TABLE.iter().zip(self.0).find(|(gate, _)| gate.name == name).map(|(_, on)| on)
    }

    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.0.get(feature as usize).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert_eq!(TABLE[Feature::ApiResponseCompression as usize].name, "APIResponseCompression");
        assert_eq!(TABLE[Feature::WatchList as usize].name, "WatchList");
        assert!(TABLE.is_sorted_by_key(|gate| gate.name));
    }

    #[test]
    fn gates_are_read_as_upstream_reads_them() {
        let cases = [
            ("", ""),
            ("WatchList=false, APIResponseCompression=T,", ""),
            ("WatchList", "missing bool value for WatchList: write WatchList=true or WatchList=false"),
            ("WatchList=maybe", "invalid value of WatchList=maybe: only true and false are possible"),
            (
                "Watchlist=true",
                "unrecognized feature gate: Watchlist; known are APIResponseCompression, WatchList",
            ),
            ("=", "unrecognized feature gate: ; known are APIResponseCompression, WatchList"),
        ];
        for (text, wanted) in cases {
            let message = FeatureGates::parse(text).err().map(|error| error.to_string());
            assert_eq!(message.unwrap_or_default(), wanted, "{text}");
        }
    }
}
