//! Taints of Nodes, and tolerations of Pods.

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// A taint that takes effect when a Pod is scheduled.
pub(crate) fn is_for_scheduling(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

/// Does a toleration tolerate a taint? `Lt` and `Gt` never do: their feature gate is off in 1.36.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |field: &'_ Option<String>| field.as_deref().unwrap_or_default().to_owned();
    let agrees = |field: &Option<String>, of_taint: &str| {
        field.as_deref().is_none_or(|value| value.is_empty() || value == of_taint)
    };
    agrees(&toleration.effect, &taint.effect)
        && agrees(&toleration.key, &taint.key)
        && match toleration.operator.as_deref().unwrap_or_default() {
            "" | "Equal" => text(&toleration.value) == text(&taint.value),
            "Exists" => true,
            _ => false,
        }
}

/// The first taint of these that no toleration tolerates: `FindMatchingUntoleratedTaint`.
pub(crate) fn untolerated<'t>(
    taints: Option<&'t Vec<Taint>>,
    tolerations: Option<&Vec<Toleration>>,
    is_relevant: impl Fn(&Taint) -> bool,
) -> Option<&'t Taint> {
    let tolerated = |taint: &Taint| {
        tolerations.is_some_and(|all| all.iter().any(|toleration| tolerates(toleration, taint)))
    };
    taints?.iter().find(|taint| is_relevant(taint) && !tolerated(taint))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn tolerations_tolerate_as_upstream() {
        let taint = json!({"key": "node", "value": "gpu", "effect": "NoSchedule"});
        let cases: &[(Value, bool)] = &[
            (json!({"operator": "Exists"}), true),
            (json!({"key": "node", "operator": "Exists"}), true),
            (json!({"key": "node", "value": "gpu"}), true),
            (json!({"key": "node", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}), true),
            (json!({"key": "node", "value": "cpu"}), false),
            (json!({"key": "node", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "zone", "operator": "Exists"}), false),
            (json!({"key": "node", "operator": "Lt", "value": "gpu"}), false),
        ];
        let taint: Taint = serde_json::from_value(taint).expect("a taint");
        for (toleration, expected) in cases {
            let parsed = serde_json::from_value(toleration.clone()).expect("a toleration");
            assert_eq!(tolerates(&parsed, &taint), *expected, "{toleration}");
        }
        let taints = vec![taint];
        assert!(untolerated(Some(&taints), None, is_for_scheduling).is_some());
        assert!(untolerated(Some(&taints), None, |taint| taint.effect == "NoExecute").is_none());
        assert!(untolerated(None, None, is_for_scheduling).is_none());
    }
}
