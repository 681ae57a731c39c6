//! The rules of other tools, read as they are: each dialect becomes a [`Draft`], and nothing else knows of it.
//!
//! | dialect | where it stands | module |
//! |---|---|---|
//! | Flux `healthCheckExprs` | Kustomization, HelmRelease, a list of its own | [`flux`] |
//! | Argo CD health checks in Lua | `argocd-cm`, ArgoCD, `health.lua` | [`argo`] |
//! | kapp `waitRules` | Config | [`kapp`] |
//! | `settled.dev/rule`, Krane's rollout conditions | CustomResourceDefinition | [`crd`], [`krane`] |
//! | `settled.dev/…`, Pulumi, Helm, kluctl, werf, Argo CD, kapp | annotations of any object | [`annotations`] |

pub(crate) mod annotations;
pub(crate) mod argo;
pub(crate) mod crd;
mod flux;
mod helm;
pub(crate) mod import;
mod jsonpath;
mod kapp;
mod krane;
mod pulumi;
mod write;

use std::sync::Arc;

use crate::cel::paths::Paths;
use crate::cel::source::{Names, compile};
use crate::document::{Item, LoadError, Sourced};
use crate::draft::{Draft, DraftBranch, DraftWords, Says};
use crate::origin::{Loaded, Rule};

/// Reads a document that may hold another tool's rules; false where it does not.
pub(crate) fn read(file: &Arc<str>, text: &Arc<str>, item: Item<'_, '_>, loaded: &mut Loaded) -> bool {
    document(item, &mut Output { file, text, loaded })
}

fn document(item: Item<'_, '_>, out: &mut Output<'_>) -> bool {
    let kind = item.get("kind").and_then(|kind| kind.node.as_str()).unwrap_or_default();
    if kind.ends_with("List")
        && let Some(items) = item.get("items")
    {
        let mut any = items.elements().next().is_none();
        for item in items.elements() {
            any |= document(item, out);
        }
        return any;
    }
    match &*kind {
        "CustomResourceDefinition" => crd::read(item, out),
        "ConfigMap" => argo::config_map(item, out),
        "ArgoCD" => argo::operator(item, out),
        "Config" => kapp::read(item, out),
        _ => flux::read(item, out),
    }
}

/// Collects the rules of a file.
struct Output<'o> {
    file: &'o Arc<str>,
    /// All of the file.
    text: &'o Arc<str>,
    loaded: &'o mut Loaded,
}

impl Output<'_> {
    fn error(&mut self, error: LoadError) {
        self.loaded.errors.push(error);
    }

    fn note(&mut self, note: LoadError) {
        self.loaded.notes.push(note);
    }

    fn new_rule(&self, draft: Draft) -> Rule {
        Rule::new(Arc::clone(self.file), Arc::clone(self.text), draft)
    }

    /// Adds a rule. Manifests repeat themselves: the very same rule again is no second one.
    fn rule(&mut self, draft: Draft) {
        let says = |draft: &Draft| -> Vec<_> {
            draft.branches.iter().map(|branch| (branch.says, branch.when.text.clone())).collect()
        };
        let is_same = |known: &Draft| known.matches == draft.matches && says(known) == says(&draft);
        if !self.loaded.rules.iter().any(|rule| is_same(rule.draft())) {
            let rule = self.new_rule(draft);
            self.loaded.rules.push(rule);
        }
    }
}

/// An expression that stands for what another tool's text says.
fn cel(text: impl Into<String>) -> Sourced {
    Sourced::made(text.into())
}

/// A branch whose message is what the other tool's text says.
fn branch(says: Says, when: impl Into<String>, message: &str) -> DraftBranch {
    let message = Some(cel(message.replace("${", "$${"))).filter(|message| !message.text.is_empty());
    DraftBranch { says, when: cel(when), words: DraftWords { message, ..DraftWords::default() } }
}

/// Whether an expression is one, where it stands.
fn check(expression: &Sourced, names: Names) -> Result<(), LoadError> {
    match compile(&expression.text, names, &mut Paths::default()) {
        Ok(_) => Ok(()),
        Err(error) => Err(expression.error(error.at.unwrap_or(0), error.message)),
    }
}

/// A YAML document inside a text, such as the value of an annotation, moved to where it stands in the file: so its
/// places are those of the file.
fn moved(text: &Sourced) -> String {
    let place = text.error(0, "");
    let indent = " ".repeat(place.column.saturating_sub(1));
    let mut moved = "\n".repeat(place.line.saturating_sub(1));
    for line in text.text.lines() {
        moved.push_str(&indent);
        moved.push_str(line);
        moved.push('\n');
    }
    moved
}
