//! Hooks of Helm in manifests that `helm template` prints.

use serde_json::Value;

/// When an object is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// A hook before the others: `pre-install`, `pre-upgrade`.
    Before,
    /// No hook.
    Main,
    /// A hook after the others: `post-install`, `post-upgrade`.
    After,
    /// A hook of another operation, such as `test` or `pre-delete`: not applied.
    Never,
}

/// What the annotations of an object say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hook {
    /// When it is applied.
    pub phase: Phase,
    /// Order within the phase: lower ones first.
    pub weight: i64,
}

impl Hook {
    /// Reads the annotations of an object. `is_upgrade` if there was a version before.
    #[must_use]
    pub fn of(object: &Value, is_upgrade: bool) -> Self {
        let annotation = |key: &str| object["metadata"]["annotations"].get(key).and_then(Value::as_str);
        let Some(hooks) = annotation("helm.sh/hook") else { return Self { phase: Phase::Main, weight: 0 } };
        let operation = if is_upgrade { "upgrade" } else { "install" };
        let has = |when: &str| hooks.split(',').any(|hook| hook.trim().strip_prefix(when) == Some(operation));
        let phase = if hooks.split(',').any(|hook| hook.trim() == "crd-install") || has("pre-") {
            Phase::Before
        } else if has("post-") {
            Phase::After
        } else {
            Phase::Never
        };
        let weight =
            annotation("helm.sh/hook-weight").and_then(|weight| weight.parse().ok()).unwrap_or_default();
        Self { phase, weight }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hooks_have_phases_and_weights() {
        let hook = |hooks: &str, is_upgrade| {
            let object =
                json!({"metadata": {"annotations": {"helm.sh/hook": hooks, "helm.sh/hook-weight": "-5"}}});
            Hook::of(&object, is_upgrade)
        };
        assert_eq!(hook("pre-install,pre-upgrade", false), Hook { phase: Phase::Before, weight: -5 });
        assert_eq!(hook("post-install", false).phase, Phase::After);
        assert_eq!(hook("post-install", true).phase, Phase::Never);
        assert_eq!(hook("test", false).phase, Phase::Never);
        assert_eq!(Hook::of(&json!({}), false), Hook { phase: Phase::Main, weight: 0 });
    }
}
