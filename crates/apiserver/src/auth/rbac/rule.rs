//! Policy rules and their evaluation: upstream's `evaluation_helpers.go`.

use std::sync::Arc;

use serde_json::{Map, Value};

/// `authorizer.Attributes` of a request, without the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get`, `list`, `create` and so on; for nonresource paths the HTTP method in lower case.
    pub verb: &'a str,
    /// The group of the resource, empty for the core group.
    pub api_group: &'a str,
    /// The version of the resource, which rules ignore.
    pub api_version: &'a str,
    /// The plural name of the resource.
    pub resource: &'a str,
    /// The subresource, such as `status`, or empty.
    pub subresource: &'a str,
    /// The namespace; empty for all namespaces and for cluster-scoped resources.
    pub namespace: &'a str,
    /// The object's name, or empty.
    pub name: &'a str,
    /// Nonresource path. If set, all other fields except the verb are ignored.
    pub path: Option<&'a str>,
}

/// `PolicyRule`: verbs on resources or nonresource URLs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRule {
    /// Allowed verbs; `*` is all.
    pub verbs: Vec<String>,
    /// API groups of the resources; `*` is all.
    pub api_groups: Vec<String>,
    /// Resources: `pods`, `pods/log`, `*/scale`, `*`.
    pub resources: Vec<String>,
    /// Names of objects; all if empty.
    pub resource_names: Vec<String>,
    /// Nonresource paths; a `*` at the end matches any suffix.
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    pub(super) fn read(rule: &Value) -> Self {
        Self {
            verbs: texts(&rule["verbs"]),
            api_groups: texts(&rule["apiGroups"]),
            resources: texts(&rule["resources"]),
            resource_names: texts(&rule["resourceNames"]),
            non_resource_urls: texts(&rule["nonResourceURLs"]),
        }
    }

    /// The rule as in a role, without empty fields.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let fields = [
            ("verbs", &self.verbs),
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ];
        let fields = fields.into_iter().filter(|(_, texts)| !texts.is_empty());
        fields.map(|(name, texts)| (name.to_owned(), texts.clone().into())).collect::<Map<_, _>>().into()
    }

    /// `RuleAllows`: whether the rule allows a request.
    #[must_use]
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has_or_star(&self.verbs, attributes.verb) {
            return false;
        }
        match attributes.path {
            Some(path) => self.non_resource_urls.iter().any(|url| url_covers(url, path)),
            None => {
                has_or_star(&self.api_groups, attributes.api_group)
                    && self.resources.iter().any(|own| resource_matches(own, attributes))
                    && (self.resource_names.is_empty() || has(&self.resource_names, attributes.name))
            }
        }
    }

    pub(super) fn key(&self) -> [&[String]; 5] {
        [&self.verbs, &self.api_groups, &self.resources, &self.resource_names, &self.non_resource_urls]
    }
}

/// The rules of a role.
pub(super) fn rules_in(object: &Value) -> Arc<[PolicyRule]> {
    object["rules"].as_array().into_iter().flatten().map(PolicyRule::read).collect()
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|value| text(value).to_owned()).collect()
}

pub(super) fn has(texts: &[String], wanted: &str) -> bool {
    texts.iter().any(|text| text == wanted)
}

pub(super) fn has_or_star(texts: &[String], wanted: &str) -> bool {
    texts.iter().any(|text| text == "*" || text == wanted)
}

/// `ResourceMatches`.
fn resource_matches(own: &str, attributes: &Attributes<'_>) -> bool {
    let (resource, subresource) = (attributes.resource, attributes.subresource);
    if own == "*" {
        return true;
    }
    if subresource.is_empty() {
        return own == resource;
    }
    own.strip_suffix(subresource)
        .and_then(|rest| rest.strip_suffix('/'))
        .is_some_and(|rest| rest == "*" || rest == resource)
}

/// `NonResourceURLMatches`.
fn url_covers(own: &str, path: &str) -> bool {
    own == "*" || url_owns(own, path)
}

/// `nonResourceURLCovers`: whether a rule's path covers another rule's path. All trailing stars are removed.
pub(super) fn url_owns(own: &str, path: &str) -> bool {
    own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}
