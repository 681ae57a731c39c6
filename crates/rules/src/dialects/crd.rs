//! Annotations on CRDs: rules for all objects of the kind.
//!
//! `settled.dev/rule` holds a rule as in a pack, without its `match`. [`krane`] is the other one; ours goes before it.

use super::{Output, krane, moved};
use crate::cel::source::Names;
use crate::document::{Item, LoadError, documents};
use crate::draft::{Draft, Says};
use crate::matching::Match;

const ANNOTATION: &str = "settled.dev/rule";

/// Annotations of CRDs that are rules.
pub const ANNOTATIONS: [&str; 2] = [ANNOTATION, krane::ANNOTATION];

pub(super) fn read(item: Item<'_, '_>, out: &mut Output<'_>) -> bool {
    let annotation =
        |key: &str| item.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(key));
    let (ours, theirs) = (annotation(ANNOTATION), annotation(krane::ANNOTATION));
    let Some(value) = ours.or(theirs) else { return true };
    if let (Some(_), Some(theirs)) = (ours, theirs) {
        out.note(theirs.error(format!("skipped: `{ANNOTATION}` has precedence")));
    }
    let draft = matches(item).and_then(|matches| {
        let draft = if ours.is_some() { own(value, out) } else { of_krane(value).map(Some) }?;
        Ok(draft.map(|draft| Draft { matches, line: value.line(), ..draft }))
    });
    match draft {
        Ok(draft) => {
            let rule = draft.map(|draft| out.new_rule(draft));
            out.loaded.crd_rules.extend(rule);
        }
        Err(error) => out.error(error),
    }
    true
}

/// Group and kind of the CRD.
fn matches(item: Item<'_, '_>) -> Result<Match, LoadError> {
    let missing = |what: &str| item.error(format!("`{what}` is missing"));
    let spec = item.get("spec").ok_or_else(|| missing("spec"))?;
    let group = spec.get("group").ok_or_else(|| missing("spec.group"))?.text()?;
    let kind = spec.get("names").and_then(|names| names.get("kind"));
    let kind = kind.ok_or_else(|| missing("spec.names.kind"))?.text()?;
    Ok(Match::exact(&group, Some(&kind)))
}

fn own(value: Item<'_, '_>, out: &mut Output<'_>) -> Result<Option<Draft>, LoadError> {
    let text = moved(&value.sourced()?);
    let mut found = documents(out.file, &text);
    let (Some(document), true) = (found.pop(), found.is_empty()) else {
        return Err(value.error("expected one rule: `failed`, `inProgress`, `current`"));
    };
    let document = document?;
    let root = document.root().map()?;
    let mut keys: Vec<&str> = Says::ALL.into_iter().map(Says::key).collect();
    keys.extend(["checks", "otherwise"]);
    root.only(&keys, &mut out.loaded.errors);
    Ok(Draft::body(root, &mut out.loaded.errors))
}

fn of_krane(value: Item<'_, '_>) -> Result<Draft, LoadError> {
    let branches = krane::branches(&value.text()?).map_err(|wrong| value.error(wrong))?;
    Ok(Draft { branches, ..Draft::new(Match::default(), value.line(), Names::Known) })
}
