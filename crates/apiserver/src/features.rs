//! Feature gates, under upstream's names.

use settled_apimachinery::feature_gates::{self, FeatureGate};

/// Which features of the server are on.
///
/// ```
/// use settled_apiserver::FeatureGates;
///
/// let gates = FeatureGates::parse("WatchList=false").unwrap();
/// assert_eq!(gates.enabled("WatchList"), Some(false));
/// assert!(FeatureGates::parse("Nonsense=true").unwrap_err().to_string().contains("WatchList"));
/// ```
pub type FeatureGates = feature_gates::FeatureGates<Feature>;

/// A feature, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature {
    /// Long responses are gzipped.
    ApiResponseCompression,
    /// The status of NetworkPolicies can be written (KEP-2943).
    NetworkPolicyStatus,
    /// A watch can begin with the state.
    WatchList,
}

impl feature_gates::Feature for Feature {
    const TABLE: &'static [FeatureGate] = &[
        FeatureGate {
            name: "APIResponseCompression",
            stage: "BETA",
            default: true,
            locked: false,
            about: "answers of more than 128 KiB are gzipped for clients that take it",
        },
        FeatureGate {
            name: "NetworkPolicyStatus",
            stage: "BETA",
            default: true,
            locked: false,
            about: "conditions in the status of NetworkPolicies can be written, not only cleared (networkpolicies/status)",
        },
        FeatureGate {
            name: "WatchList",
            stage: "BETA",
            default: true,
            locked: false,
            about: "a watch can begin with the state (sendInitialEvents)",
        },
    ];

    fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert_eq!(
            FeatureGates::TABLE[Feature::ApiResponseCompression as usize].name,
            "APIResponseCompression"
        );
        assert_eq!(FeatureGates::TABLE[Feature::NetworkPolicyStatus as usize].name, "NetworkPolicyStatus");
        assert_eq!(FeatureGates::TABLE[Feature::WatchList as usize].name, "WatchList");
        assert!(FeatureGates::TABLE.is_sorted_by_key(|gate| gate.name));
    }
}
