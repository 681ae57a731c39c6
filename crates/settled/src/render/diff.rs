//! `apply --diff`: an object before and after, as a unified diff of YAML.

use std::fmt::Write as _;

use serde_json::Value;
use settled_tracker::ObjectId;
use settled_tracker::apply::Versions;
use similar::TextDiff;

use crate::style::Palette;
use crate::text;

/// The unified diff; empty if nothing differs. The names of the two sides are those of `kubectl diff`.
pub(crate) fn unified(object: &ObjectId, versions: &Versions, palette: Palette) -> String {
    let before = versions.before.as_ref().map(yaml).unwrap_or_default();
    let after = yaml(&versions.after);
    let api_version = versions.after["apiVersion"].as_str().unwrap_or_default().replace('/', ".");
    let name = text::clean(&format!("{api_version}.{}.{}.{}", object.kind, object.namespace, object.name));
    let diff = TextDiff::from_lines(&before, &after);
    let diff = diff.unified_diff().header(&format!("LIVE/{name}"), &format!("MERGED/{name}")).to_string();
    let mut out = String::new();
    for line in diff.lines() {
        let line = text::clean_lines(line);
        let painted = match line.as_bytes().first() {
            Some(b'+') => palette.added(&line),
            Some(b'-') => palette.removed(&line),
            Some(b'@') => palette.dim(&line),
            _ => line,
        };
        writeln!(out, "{painted}").ok();
    }
    out
}

fn yaml(object: &Value) -> String {
    let mut yaml = Vec::new();
    // JSON that was just written is JSON.
    settled_manifest::write_yaml(object.to_string().as_bytes(), &mut yaml).ok();
    String::from_utf8_lossy(&yaml).into_owned()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_diff_has_kubectls_names_and_a_few_lines_around() {
        let deployment = |replicas: u32, image: &str| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"image": image, "name": "app"}]}}}})
        };
        let object = ObjectId::new("apps", "Deployment", "shop", "web");
        let versions = Versions { before: Some(deployment(1, "web:1")), after: deployment(1, "web:2") };
        assert_snapshot!(unified(&object, &versions, Palette::NONE), @"
        --- LIVE/apps.v1.Deployment.shop.web
        +++ MERGED/apps.v1.Deployment.shop.web
        @@ -8,5 +8,5 @@
           template:
             spec:
               containers:
        -      - image: web:1
        +      - image: web:2
                 name: app
        ");
        let same = Versions { before: Some(deployment(1, "web:1")), after: deployment(1, "web:1") };
        assert_eq!(unified(&object, &same, Palette::NONE), "");
        let painted = unified(&object, &versions, Palette::ALL);
        assert!(painted.contains("\u{1b}[31m-"), "{painted}");
    }
}
