//! Rollbacks that are asked for by the annotation of extensions/v1beta1 (`rollback.go` upstream). `kubectl rollout undo` changes the template
//! instead.

use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::events::EventType;
use serde_json::{Map, Value, json};

use super::revision::{self, ROLLBACK_TO};
use super::strategy::{self, HASH};
use super::{Step, Sync};
use crate::controller::Error;
use crate::meta;

const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";

/// The revision that is asked for; 0 is the last one.
pub(super) fn rollback_to(deployment: &Deployment) -> Option<i64> {
    deployment.metadata.annotations.as_ref()?.get(ROLLBACK_TO)?.parse().ok()
}

impl Sync<'_> {
    /// Takes over the template of an old ReplicaSet.
    pub(super) async fn rollback(&mut self, revision: i64) -> Result<Step, Error> {
        let Some((new, old)) = self.sets_and_revision(true).await? else { return Ok(Step::Wait) };
        let all: Vec<_> = old.into_iter().chain(new).collect();
        let wanted = if revision == 0 { revision::last(&all) } else { revision };
        if wanted == 0 {
            self.event(EventType::Warning, NOT_FOUND, "Unable to find last revision.".to_owned());
            return self.clear_rollback(json!({})).await;
        }
        let Some(set) = all.iter().find(|set| revision::of(&***set) == Some(wanted)) else {
            let note = "Unable to find the revision to rollback to.".to_owned();
            self.event(EventType::Warning, NOT_FOUND, note);
            return self.clear_rollback(json!({})).await;
        };
        let name = meta::name(&self.deployment).to_owned();
        let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
        let current = self.deployment.spec.as_ref().map(|spec| &spec.template);
        if current.is_some_and(|current| strategy::is_same_template(current, &template)) {
            let note =
                format!("The rollback revision contains the same template as current deployment \"{name}\"");
            self.event(EventType::Warning, "DeploymentRollbackTemplateUnchanged", note);
            return self.clear_rollback(json!({})).await;
        }
        let mut template = template;
        if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
            labels.remove(HASH);
        }
        // A merge patch replaces what it names, so what the new template lacks is removed by name.
        let template = serde_json::to_value(&template).unwrap_or_default();
        let before = current.and_then(|current| serde_json::to_value(current).ok()).unwrap_or_default();
        let mut annotations = Map::new();
        for key in self.deployment.metadata.annotations.iter().flatten().map(|(key, _)| key) {
            if !revision::is_skipped(key) {
                annotations.insert(key.clone(), Value::Null);
            }
        }
        for (key, value) in set.metadata.annotations.iter().flatten() {
            if !revision::is_skipped(key) {
                annotations.insert(key.clone(), value.clone().into());
            }
        }
        let patch = json!({
            "metadata": {"annotations": annotations},
            "spec": {"template": replacing(&before, template)},
        });
        let step = self.clear_rollback(patch).await?;
        let note = format!("Rolled back deployment \"{name}\" to revision {wanted}");
        self.event(EventType::Normal, "DeploymentRollback", note);
        Ok(step)
    }

    async fn clear_rollback(&self, mut patch: Value) -> Result<Step, Error> {
        patch["metadata"]["annotations"][ROLLBACK_TO] = Value::Null;
        self.context.patch(self.key, &self.deployment, patch).await?;
        Ok(Step::Wait)
    }
}

/// The merge patch that makes a new value of an old one.
fn replacing(old: &Value, new: Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, &new) else { return new };
    let mut patch: Map<String, Value> = old.keys().map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        patch.insert(key.clone(), replacing(old.get(key).unwrap_or(&Value::Null), value.clone()));
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_removes_what_the_new_value_lacks() {
        let (old, new) = (json!({"a": 1, "b": {"c": 1, "d": 2}}), json!({"b": {"d": 3}, "e": [1]}));
        assert_eq!(replacing(&old, new), json!({"a": null, "b": {"c": null, "d": 3}, "e": [1]}));
    }
}
