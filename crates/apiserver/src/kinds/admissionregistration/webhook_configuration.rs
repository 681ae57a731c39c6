//! ValidatingWebhookConfigurations and MutatingWebhookConfigurations, which are stored only. The expressions of their match
//! conditions are not compiled.

use std::collections::BTreeSet;

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given, integer, items, string};
use settled_apimachinery::validation;

use crate::error::Cause;
use crate::kinds::behavior::Behavior;
use crate::kinds::check::{Check, join, validate_label_selector};
use crate::kinds::printers::{Read as _, cells};
use crate::kinds::strategy::Strategy;

const NOT_ENFORCED: &str = "stored but not enforced: this server does not call admission webhooks";

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { generation: true, unconditional_update: false, ..Behavior::BUILTIN },
    validate: |check, configuration| validate_webhook_configuration(check, configuration, None),
    validate_update: Some(|check, new, old| validate_webhook_configuration(check, new, Some(old))),
    not_enforced: Some(|configuration| {
        // Without webhooks there is nothing to call.
        (!items(configuration, "webhooks").is_empty()).then_some(NOT_ENFORCED)
    }),
    print: Some(|row| cells![row.name(), row.list("/webhooks").len(), row.age()]),
    ..Strategy::DEFAULT
};

const FAILURES: [&str; 2] = ["Fail", "Ignore"];

const MATCHES: [&str; 2] = ["Equivalent", "Exact"];

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

const REINVOCATIONS: [&str; 2] = ["IfNeeded", "Never"];

const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

const HARMLESS: [&str; 2] = ["None", "NoneOnDryRun"];

const EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

const MAX_MATCH_CONDITIONS: usize = 64;

fn texts<'a>(object: &'a Value, name: &str) -> Vec<&'a str> {
    items(object, name).iter().map(|item| item.as_str().unwrap_or_default()).collect()
}

fn validate_webhook_configuration(check: &mut Check, new: &Value, old: Option<&Value>) {
    let before = old.map(|old| items(old, "webhooks"));
    // What was taken once is no reason to refuse other changes.
    let all = |fits: fn(&Value) -> bool| before.is_none_or(|hooks| hooks.iter().all(fits));
    let harmless = all(|hook| HARMLESS.contains(&string(hook, "sideEffects")));
    let reviewed =
        all(|hook| texts(hook, "admissionReviewVersions").iter().any(|name| REVIEWS.contains(name)));
    let unique = before.is_none_or(|hooks| {
        let names: BTreeSet<&str> = hooks.iter().map(|hook| string(hook, "name")).collect();
        names.len() == hooks.len()
    });
    let mut names = BTreeSet::new();
    for (index, hook) in items(new, "webhooks").iter().enumerate() {
        let at = format!("webhooks[{index}]");
        validate_webhook(check, hook, &at, harmless);
        validate_admission_review_versions(check, hook, &join(&at, "admissionReviewVersions"), reviewed);
        let name = string(hook, "name");
        if unique && !name.is_empty() && !names.insert(name) {
            check.duplicate(join(&at, "name"), &name.into());
        }
    }
}

fn validate_webhook(check: &mut Check, hook: &Value, at: &str, harmless: bool) {
    let name = string(hook, "name");
    let place = join(at, "name");
    let before = check.causes.len();
    check.required_form(&place, name, validation::is_dns1123_subdomain);
    if check.causes.len() == before && name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        check.invalid(place, &name.into(), detail);
    }
    for (index, rule) in items(hook, "rules").iter().enumerate() {
        validate_rule_with_operations(check, rule, &format!("{at}.rules[{index}]"));
    }
    let words: [(&str, &[&str]); 3] =
        [("failurePolicy", &FAILURES), ("matchPolicy", &MATCHES), ("reinvocationPolicy", &REINVOCATIONS)];
    for (name, known) in words {
        if let Some(word) = given(hook, name)
            && !known.contains(&word.as_str().unwrap_or_default())
        {
            check.not_supported(join(at, name), word, known);
        }
    }
    let effects: &[&str] = if harmless { &HARMLESS } else { &EFFECTS };
    match given(hook, "sideEffects") {
        None => {
            check.required(join(at, "sideEffects"), &format!("must specify one of {}", effects.join(", ")));
        }
        Some(effect) if !effects.contains(&effect.as_str().unwrap_or_default()) => {
            check.not_supported(join(at, "sideEffects"), effect, effects);
        }
        Some(_) => {}
    }
    if let Some(seconds) = integer(hook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        check.invalid(join(at, "timeoutSeconds"), &seconds.into(), detail);
    }
    for name in ["namespaceSelector", "objectSelector"] {
        validate_label_selector(check, &join(at, name), field(hook, name));
    }
    let client = field(hook, "clientConfig");
    let place = join(at, "clientConfig");
    if given(client, "url").is_some() == given(client, "service").is_some() {
        check.required(place, "exactly one of url or service is required");
    } else {
        for error in settled_schema::validate_webhook_client(client) {
            let field = join(&place, &error.field);
            check.causes.push(Cause::new(error.error_type.cause(), error.message(), field));
        }
    }
    validate_match_conditions(check, hook, &join(at, "matchConditions"));
}

fn validate_match_conditions(check: &mut Check, hook: &Value, at: &str) {
    let all = items(hook, "matchConditions");
    if all.len() > MAX_MATCH_CONDITIONS {
        let message = format!("Too many: {}: must have at most {MAX_MATCH_CONDITIONS} items", all.len());
        check.push("FieldValueTooMany", at, message);
    }
    let mut names = BTreeSet::new();
    for (index, condition) in all.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if string(condition, "expression").trim().is_empty() {
            check.required(join(&at, "expression"), "");
        }
        let name = string(condition, "name");
        check.required_form(&join(&at, "name"), name, validation::is_qualified_name);
        if !name.is_empty() && !names.insert(name) {
            check.duplicate(join(&at, "name"), &name.into());
        }
    }
}

fn validate_rule_with_operations(check: &mut Check, rule: &Value, at: &str) {
    let place = join(at, "operations");
    let all = items(rule, "operations");
    if all.is_empty() {
        check.required(place.as_str(), "");
    }
    if all.len() > 1 && all.iter().any(|operation| operation == "*") {
        let detail = "if '*' is present, must not specify other operations";
        check.invalid(place.as_str(), field(rule, "operations"), detail);
    }
    for (index, operation) in all.iter().enumerate() {
        if !OPERATIONS.contains(&operation.as_str().unwrap_or_default()) {
            check.not_supported(format!("{place}[{index}]"), operation, &OPERATIONS);
        }
    }
    for (name, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let (place, all) = (join(at, name), texts(rule, name));
        if all.is_empty() {
            check.required(place.as_str(), "");
        }
        if all.len() > 1 && all.contains(&"*") {
            let detail = format!("if '*' is present, must not specify other {what}");
            check.invalid(place.as_str(), field(rule, name), &detail);
        }
        if name == "apiVersions" {
            for (index, _) in all.iter().enumerate().filter(|(_, version)| version.is_empty()) {
                check.required(format!("{place}[{index}]"), "");
            }
        }
    }
    validate_resources(check, rule, &join(at, "resources"));
    if let Some(scope) = given(rule, "scope")
        && !SCOPES.contains(&scope.as_str().unwrap_or_default())
    {
        check.not_supported(join(at, "scope"), scope, &SCOPES);
    }
}

fn validate_resources(check: &mut Check, rule: &Value, at: &str) {
    let all = texts(rule, "resources");
    if all.is_empty() {
        check.required(at, "");
    }
    let (mut with_all_parts, mut parts_of_all) = (BTreeSet::new(), BTreeSet::new());
    let mut whole = false;
    for (index, resource) in all.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if resource.is_empty() {
            check.required(at, "");
            continue;
        }
        let Some((name, part)) = resource.split_once('/') else {
            whole = *resource != "*";
            continue;
        };
        if with_all_parts.contains(name) {
            let detail = format!("if '{name}/*' is present, must not specify {resource}");
            check.invalid(at.as_str(), &(*resource).into(), &detail);
        }
        if parts_of_all.contains(part) {
            let detail = format!("if '*/{part}' is present, must not specify {resource}");
            check.invalid(at, &(*resource).into(), &detail);
        }
        if part == "*" {
            with_all_parts.insert(name);
        }
        if name == "*" {
            parts_of_all.insert(part);
        }
    }
    let shown = field(rule, "resources");
    if all.len() > 1 && all.contains(&"*/*") {
        check.invalid(at, shown, "if '*/*' is present, must not specify other resources");
    }
    if whole && all.contains(&"*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        check.invalid(at, shown, detail);
    }
}

fn validate_admission_review_versions(check: &mut Check, hook: &Value, at: &str, known: bool) {
    let versions = texts(hook, "admissionReviewVersions");
    if versions.is_empty() {
        check.required(at, &format!("must specify one of {}", REVIEWS.join(", ")));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if seen.insert(version) {
            check.form(&at, version, validation::is_dns1035_label);
        } else {
            check.invalid(at, &(*version).into(), "duplicate version");
        }
    }
    if known && !versions.iter().any(|version| REVIEWS.contains(version)) {
        let detail = format!("must include at least one of {}", REVIEWS.join(", "));
        check.invalid(at, field(hook, "admissionReviewVersions"), &detail);
    }
}
