//! Order of hooks: those that need an object that is created after them.

use super::hooks::{Hook, Phase};
use super::references::{Referred, references};
use super::{Check, Finding, Manifest, Severity};

/// Findings about hooks that refer to what is only created after them, unless it `exists` already.
pub fn hook_order(
    manifests: &[Manifest],
    hooks: &[Hook],
    exists: impl Fn(&Referred) -> bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, (manifest, hook)) in manifests.iter().zip(hooks).enumerate() {
        if !matches!(hook.phase, Phase::Before | Phase::After) {
            continue;
        }
        for referred in references(manifest) {
            let is = |other: &Manifest| {
                (other.kind.as_str(), &other.namespace, &other.name)
                    == (referred.kind, &referred.namespace, &referred.name)
            };
            let providers = manifests.iter().zip(hooks).filter(|(other, _)| is(other)).map(|(_, hook)| hook);
            let Some(first) = providers.filter(|other| other.phase != Phase::Never).min() else { continue };
            // Of one weight, Helm applies ConfigMaps, Secrets and the like first.
            if first <= hook || exists(&referred) {
                continue;
            }
            let what = match first.phase {
                Phase::Main => "an ordinary object".to_owned(),
                Phase::After => format!("a hook after the ordinary objects, of weight {}", first.weight),
                Phase::Before | Phase::Never => format!("a hook of weight {}", first.weight),
            };
            let Referred { kind, name, field, .. } = &referred;
            let message = format!(
                "{kind} {name:?} does not exist yet when this hook of weight {} runs: it is {what}",
                hook.weight
            );
            let finding = Finding::new(Severity::Error, Check::HookOrder, Some(index), field, message);
            findings.push(finding.remedy(match first.phase {
                Phase::Main => format!("make {kind} {name:?} a hook of a lower weight, or run this one after the ordinary objects"),
                _ => format!("give {kind} {name:?} a lower weight than {}", hook.weight),
            }));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(kind: &str, name: &str, hook: Option<(&str, &str)>, needs: Value) -> Manifest {
        let annotations = hook.map_or_else(
            || json!({}),
            |(hook, weight)| json!({"helm.sh/hook": hook, "helm.sh/hook-weight": weight}),
        );
        let object = json!({
            "apiVersion": "v1", "kind": kind, "metadata": {"name": name, "annotations": annotations}, "spec": needs,
        });
        Manifest::new(object, "default")
    }

    fn found(manifests: &[Manifest], exists: bool) -> Vec<String> {
        let hooks: Vec<Hook> = manifests.iter().map(|manifest| Hook::of(&manifest.object(), false)).collect();
        let findings = hook_order(manifests, &hooks, |_| exists);
        findings
            .iter()
            .map(|finding| format!("{:?} {} {}", finding.manifest, finding.field, finding.message))
            .collect()
    }

    #[test]
    fn hooks_need_what_is_there_before_them() {
        let needs = json!({
            "containers": [{"envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "maybe", "optional": true}}]}],
            "serviceAccountName": "migrate",
        });
        let job = |weight: &str| of("Pod", "migrate", Some(("pre-install", weight)), needs.clone());
        let account = |hook| of("ServiceAccount", "migrate", hook, json!(null));
        let settings = |hook| of("ConfigMap", "settings", hook, json!(null));
        let maybe = of("Secret", "maybe", None, json!(null));
        let both = [job("0"), account(None), settings(Some(("pre-install", "1"))), maybe];
        assert_eq!(
            found(&both, false),
            [
                "Some(0) spec.serviceAccountName ServiceAccount \"migrate\" does not exist yet when this hook of weight 0 runs: it is an ordinary object",
                "Some(0) spec.containers[0].envFrom[0].configMapRef.name ConfigMap \"settings\" does not exist yet when this hook of weight 0 runs: it is a hook of weight 1",
            ]
        );
        // An upgrade.
        assert_eq!(found(&both, true), Vec::<String>::new());
        // In time, or at the same weight.
        let early = Some(("pre-install", "-5"));
        assert_eq!(found(&[job("-5"), account(early), settings(early)], false), Vec::<String>::new());
        // A hook after the ordinary objects has them.
        let after = of("Pod", "check", Some(("post-install", "0")), needs.clone());
        assert_eq!(found(&[after, account(None), settings(None)], false), Vec::<String>::new());
    }
}
