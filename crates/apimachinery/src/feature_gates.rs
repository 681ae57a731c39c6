//! `k8s.io/component-base/featuregate`: features that can be enabled and disabled by name.

use std::fmt;
use std::marker::PhantomData;

/// A feature of a program. The set is an enumeration, in the order of its table.
pub trait Feature: Copy + 'static {
    /// All features of the set, sorted by name.
    const TABLE: &'static [FeatureGate];

    /// Index of the feature in the table.
    fn index(self) -> usize;
}

/// `FeatureSpec`, name and description of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    /// Name of the gate.
    pub name: &'static str,
    /// Maturity: `ALPHA`, `BETA` or `GA`.
    pub stage: &'static str,
    /// Whether it is enabled by default.
    pub default: bool,
    /// Whether the default is locked. The gate then exists only for old settings.
    pub locked: bool,
    /// Description for the help text.
    pub about: &'static str,
}

/// Enabled features of a set.
///
/// ```
/// use settled_apimachinery::feature_gates::{Feature, FeatureGate, FeatureGates};
///
/// #[derive(Clone, Copy)]
/// enum Mine {
///     DryRun,
/// }
///
/// impl Feature for Mine {
///     const TABLE: &'static [FeatureGate] =
///         &[FeatureGate { name: "DryRun", stage: "ALPHA", default: false, locked: false, about: "only logs what it would do" }];
///
///     fn index(self) -> usize {
///         self as usize
///     }
/// }
///
/// let gates = FeatureGates::<Mine>::parse("DryRun=true").unwrap();
/// assert!(gates.has(Mine::DryRun));
/// assert!(FeatureGates::<Mine>::parse("Nonsense=true").unwrap_err().to_string().contains("known are DryRun"));
/// ```
pub struct FeatureGates<F> {
    on: Vec<bool>,
    set: PhantomData<F>,
}

/// Error of parsing or setting gates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeatureGateError {
    /// Unknown gate.
    Unknown {
        /// The name.
        name: String,
        /// Names of all gates.
        known: Vec<&'static str>,
    },
    /// A name without a value.
    Missing {
        /// The name.
        name: String,
    },
    /// The value is not a boolean.
    Value {
        /// The name.
        name: String,
        /// The value.
        value: String,
    },
    /// The gate is locked to its default.
    Locked {
        /// The name.
        name: &'static str,
        /// The locked value.
        default: bool,
    },
}

impl fmt::Display for FeatureGateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, known } => {
                write!(formatter, "unrecognized feature gate: {name}; known are {}", known.join(", "))
            }
            Self::Missing { name } => {
                write!(formatter, "missing bool value for {name}: write {name}=true or {name}=false")
            }
            Self::Value { name, value } => {
                write!(formatter, "invalid value of {name}={value}: only true and false are possible")
            }
            Self::Locked { name, default } => {
                write!(
                    formatter,
                    "cannot set feature gate {name} to {}, feature is locked to {default}",
                    !default
                )
            }
        }
    }
}

impl std::error::Error for FeatureGateError {}

impl<F: Feature> FeatureGates<F> {
    /// Descriptions of all gates, sorted by name.
    pub const TABLE: &'static [FeatureGate] = F::TABLE;

    /// Parses `Name=true,Other=false`; other gates have their defaults.
    ///
    /// # Errors
    /// A gate is unknown or locked, or its value is not a boolean.
    pub fn parse(text: &str) -> Result<Self, FeatureGateError> {
        let mut gates = Self::default();
        for setting in text.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let (name, value) = (name.trim(), value.trim());
            let on = match value {
                // Values that Go's `strconv.ParseBool` accepts.
                "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
                "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
                _ => {
                    gates.place(name)?;
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

    /// Sets one gate.
    ///
    /// # Errors
    /// The gate is unknown or locked.
    pub fn set(&mut self, name: &str, on: bool) -> Result<(), FeatureGateError> {
        let (index, gate) = self.place(name)?;
        if gate.locked && on != gate.default {
            return Err(FeatureGateError::Locked { name: gate.name, default: gate.default });
        }
        if let Some(state) = self.on.get_mut(index) {
            *state = on;
        }
        Ok(())
    }

    fn place(&self, name: &str) -> Result<(usize, &'static FeatureGate), FeatureGateError> {
        let known = || Self::TABLE.iter().map(|gate| gate.name).collect();
        let unknown = || FeatureGateError::Unknown { name: name.to_owned(), known: known() };
        Self::TABLE.iter().enumerate().find(|(_, gate)| gate.name == name).ok_or_else(unknown)
    }

    /// Whether the gate of this name is enabled; `None` if it is unknown.
    #[must_use]
    pub fn enabled(&self, name: &str) -> Option<bool> {
        Self::TABLE.iter().zip(&self.on).find(|(gate, _)| gate.name == name).map(|(_, on)| *on)
    }

    /// Whether a feature is enabled.
    #[must_use]
    pub fn has(&self, feature: F) -> bool {
        self.on.get(feature.index()).copied().unwrap_or(false)
    }
}

impl<F: Feature> Default for FeatureGates<F> {
    fn default() -> Self {
        Self { on: F::TABLE.iter().map(|gate| gate.default).collect(), set: PhantomData }
    }
}

// Derived implementations would require the traits of the features.
impl<F> Clone for FeatureGates<F> {
    fn clone(&self) -> Self {
        Self { on: self.on.clone(), set: PhantomData }
    }
}

impl<F> PartialEq for FeatureGates<F> {
    fn eq(&self, other: &Self) -> bool {
        self.on == other.on
    }
}

impl<F> Eq for FeatureGates<F> {}

impl<F: Feature> fmt::Debug for FeatureGates<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gates = F::TABLE.iter().zip(&self.on).map(|(gate, on)| (gate.name, on));
        formatter.debug_map().entries(gates).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    enum Sample {}

    impl Feature for Sample {
        const TABLE: &'static [FeatureGate] = &[
            FeatureGate { name: "Compression", stage: "BETA", default: true, locked: false, about: "" },
            FeatureGate { name: "Old", stage: "GA", default: true, locked: true, about: "" },
            FeatureGate { name: "WatchList", stage: "BETA", default: true, locked: false, about: "" },
        ];

        fn index(self) -> usize {
            match self {}
        }
    }

    #[test]
    fn gates_are_read_as_upstream_reads_them() {
        let cases = [
            ("", ""),
            ("WatchList=false, Compression=T,Old=true", ""),
            ("WatchList", "missing bool value for WatchList: write WatchList=true or WatchList=false"),
            ("WatchList=maybe", "invalid value of WatchList=maybe: only true and false are possible"),
            ("Watchlist=true", "unrecognized feature gate: Watchlist; known are Compression, Old, WatchList"),
            ("=", "unrecognized feature gate: ; known are Compression, Old, WatchList"),
            ("Old=false", "cannot set feature gate Old to false, feature is locked to true"),
        ];
        for (text, wanted) in cases {
            let message = FeatureGates::<Sample>::parse(text).err().map(|error| error.to_string());
            assert_eq!(message.unwrap_or_default(), wanted, "{text}");
        }
        let gates = FeatureGates::<Sample>::parse("WatchList=0").unwrap();
        assert_eq!(
            (gates.enabled("WatchList"), gates.enabled("Compression"), gates.enabled("None")),
            (Some(false), Some(true), None)
        );
    }
}
