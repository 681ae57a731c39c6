//! Import: converts rules of other tools into a rule pack.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use super::write::match_of;
use crate::document::LoadError;
use crate::load::{API_VERSION, load};
use crate::origin::Loaded;

/// Result of [`import`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// A pack of rules. Comments say where each of them comes from, and which could not be translated.
    pub yaml: String,
    /// Rules that could not be converted, with reasons.
    pub notes: Vec<LoadError>,
}

/// Translates a file of another tool's rules into a pack of ours that gives the same verdicts.
///
/// Flux, kapp, Krane and rules in annotations of CustomResourceDefinitions are translated. Lua is not: of each health
/// check only its group and kind are written, in a comment.
///
/// ```
/// let import = settled_rules::import("checks.yaml", "
/// - apiVersion: example.com/v1
///   kind: Widget
///   failed: status.phase == 'Broken'
///   current: status.phase == 'Up'
/// ");
/// assert!(import.notes.is_empty());
/// assert!(import.yaml.contains("  - match: {group: example.com, kind: Widget}\n    failed: status.phase == 'Broken'\n"));
/// ```
#[must_use]
pub fn import(file: &str, text: &str) -> Import {
    let mut loaded = Loaded::default();
    load(&Arc::from(file), text, &mut loaded);
    let Loaded { rules, crd_rules, errors, mut notes } = loaded;
    notes.extend(errors);
    let shown: String = file.chars().filter(|c| !c.is_control()).collect();
    let mut yaml = String::new();
    let mut known = HashSet::new();
    for rule in rules.iter().chain(&crd_rules) {
        let draft = rule.draft();
        let note =
            |message: String| LoadError { file: file.to_owned(), line: draft.line, column: 1, message };
        let place = format!("{shown}:{}", draft.line);
        if rule.is_lua() {
            let _ = write!(
                yaml,
                "  # {place}: Lua is not translated. Write what it calls Degraded, Progressing and Healthy:\n  \
                 # - match: {}\n  #   failed:\n  #   inProgress:\n  #   current:\n",
                match_of(&draft.matches)
            );
            notes.push(note(format!("{}: Lua is not translated; write it in CEL", draft.matches)));
            continue;
        }
        if let Err(wrong) = rule.check() {
            notes.extend(wrong);
            continue;
        }
        if !draft.matches.keys().into_iter().all(|key| known.insert(key)) {
            notes.push(note(format!("{}: skipped, an earlier rule applies", draft.matches)));
            continue;
        }
        match draft.to_yaml() {
            Ok(rule) => {
                let _ = write!(yaml, "  # {place}\n{rule}");
            }
            Err(error) => notes.push(error),
        }
    }
    let has_rules = yaml.lines().any(|line| line.starts_with("  - "));
    let rules = if has_rules { "rules:" } else { "rules: []" };
    yaml.insert_str(0, &format!("apiVersion: {API_VERSION}\nkind: RulePack\n{rules}\n"));
    notes.sort_by(|a, b| (a.line, a.column, &a.message).cmp(&(b.line, b.column, &b.message)));
    notes.dedup();
    Import { yaml, notes }
}
