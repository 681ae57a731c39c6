//! Fields of objects by patterns: `spec.containers[].env[].name`.

use serde_json::Value;

/// Calls `each` with the path and the value of each field that a pattern matches.
pub(super) fn each<'v>(object: &'v Value, pattern: &str, mut found: impl FnMut(&str, &'v Value)) {
    let mut path = String::new();
    walk(object, pattern, &mut path, &mut found);
}

fn walk<'v>(value: &'v Value, pattern: &str, path: &mut String, found: &mut impl FnMut(&str, &'v Value)) {
    if pattern.is_empty() {
        return found(path, value);
    }
    let length = path.len();
    if let Some(rest) = pattern.strip_prefix("[]") {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            path.push_str(&format!("[{index}]"));
            walk(item, rest.strip_prefix('.').unwrap_or(rest), path, found);
            path.truncate(length);
        }
        return;
    }
    let end = pattern.find(['.', '[']).unwrap_or(pattern.len());
    let (key, rest) = pattern.split_at(end);
    let Some(member) = value.get(key) else { return };
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
    walk(member, rest.strip_prefix('.').unwrap_or(rest), path, found);
    path.truncate(length);
}

/// The text of a field below a value.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// Where the spec of Pods is in the objects of a kind, if it has one.
pub(super) fn pod_spec(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Pod" => "spec",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => {
            "spec.template.spec"
        }
        "CronJob" => "spec.jobTemplate.spec.template.spec",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_match_items_of_lists() {
        let object = json!({"spec": {"a": [{"b": 1}, {"c": 2}, {"b": [3, 4]}]}});
        let found = |pattern: &str| {
            let mut all = Vec::new();
            each(&object, pattern, |path, value| all.push(format!("{path}={value}")));
            all
        };
        assert_eq!(found("spec.a[].b"), ["spec.a[0].b=1", "spec.a[2].b=[3,4]"]);
        assert_eq!(found("spec.a[].b[]"), ["spec.a[2].b[0]=3", "spec.a[2].b[1]=4"]);
        assert_eq!(found("spec.x"), Vec::<String>::new());
        assert_eq!(found("spec.a[1].c"), Vec::<String>::new());
    }
}
