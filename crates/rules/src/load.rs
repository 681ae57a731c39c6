//! Rule files: rule packs and files of other tools.

use std::collections::HashMap;
use std::sync::Arc;

use crate::dialects;
use crate::document::{Item, LoadError, documents};
use crate::draft::Draft;
use crate::origin::{Loaded, Rule};

/// The API version of packs and cases.
pub(crate) const API_VERSION: &str = "settled.dev/v1alpha1";

/// Reads a file of whatever dialect.
pub(crate) fn load(file: &Arc<str>, text: &str, loaded: &mut Loaded) {
    let text: &Arc<str> = &text.into();
    if file.ends_with(".lua") {
        dialects::argo::script(file, text, loaded);
        return;
    }
    for document in documents(file, text) {
        match document {
            Ok(document) => load_document(file, text, document.root(), loaded),
            Err(error) => loaded.errors.push(error),
        }
    }
}

fn load_document(file: &Arc<str>, source: &Arc<str>, item: Item<'_, '_>, loaded: &mut Loaded) {
    let text = |key: &str| item.get(key).and_then(|item| item.node.as_str()).unwrap_or_default();
    match (&*text("apiVersion"), &*text("kind")) {
        (API_VERSION, "RulePack") => pack(file, source, item, loaded),
        (API_VERSION, "RuleTest") => {}
        (version, kind @ ("RulePack" | "RuleTest")) => {
            let message =
                format!("{kind} of an unknown version `{version}`; this program reads {API_VERSION}");
            loaded.errors.push(item.error(message));
        }
        _ => {
            if !dialects::read(file, source, item, loaded) {
                let message = format!(
                    "no rules: expected `apiVersion: {API_VERSION}, kind: RulePack`, or a manifest that another tool's \
                     rules stand in (see docs/rules.md)"
                );
                loaded.errors.push(item.error(message));
            }
        }
    }
}

fn pack(file: &Arc<str>, text: &Arc<str>, item: Item<'_, '_>, loaded: &mut Loaded) {
    item.only(&["apiVersion", "kind", "metadata", "rules"], &mut loaded.errors);
    let Some(rules) = item.get("rules") else {
        loaded.errors.push(item.error("`rules` is missing: the list of rules"));
        return;
    };
    match rules.list() {
        Ok(rules) => {
            for rule in rules {
                let draft = Draft::read(rule, &mut loaded.errors);
                loaded.rules.extend(draft.map(|draft| Rule::new(Arc::clone(file), Arc::clone(text), draft)));
            }
        }
        Err(error) => loaded.errors.push(error),
    }
}

/// Two rules for the same match: nobody could say which one counts.
pub(crate) fn check_duplicates<'r>(rules: impl Iterator<Item = &'r Rule>, errors: &mut Vec<LoadError>) {
    let mut known: HashMap<String, &Rule> = HashMap::new();
    for rule in rules {
        for key in rule.draft().matches.keys() {
            if let Some(first) = known.get(&key) {
                errors.push(LoadError {
                    file: rule.file().to_owned(),
                    line: rule.draft().line,
                    column: 1,
                    message: format!(
                        "a second rule for {}; the first is at {}:{} for {}: remove one of them",
                        rule.draft().matches,
                        first.file(),
                        first.draft().line,
                        first.draft().matches
                    ),
                });
                break;
            }
            known.insert(key, rule);
        }
    }
}
