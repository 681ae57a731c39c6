//! Flux: `healthCheckExprs` of a Kustomization or HelmRelease, or a list of them on its own.
//!
//! <https://fluxcd.io/flux/components/kustomize/kustomizations/#health-check-expressions>, RFC 0009. Of `apiVersion` only
//! the group counts. The order is `inProgress`, `failed`, `current`; none true is InProgress.
//!
//! Flux takes a missing field for an error, and goes on waiting. Here such an expression is false, so the ones before
//! are repeated in those behind: `current` holds only where `inProgress` and `failed` have a value, and it is false.

use super::{Output, check};
use crate::cel::source::Names;
use crate::document::{Item, LoadError};
use crate::draft::{Draft, DraftBranch, DraftWords, Says};
use crate::matching::Match;

const ORDER: [Says; 3] = [Says::InProgress, Says::Failed, Says::Current];

pub(super) fn read(item: Item<'_, '_>, out: &mut Output<'_>) -> bool {
    let of_spec = item.get("spec").and_then(|spec| spec.get("healthCheckExprs"));
    let is_entry = |item: &Item<'_, '_>| item.get("apiVersion").is_some() && item.get("current").is_some();
    let list = match of_spec.or_else(|| item.get("healthCheckExprs")) {
        Some(list) => list,
        None if item.elements().next().is_some_and(|entry| is_entry(&entry)) => item,
        // A manifest of Flux without rules is no mistake.
        None => {
            return group(item.get("apiVersion")).is_some_and(|group| group.ends_with(".toolkit.fluxcd.io"));
        }
    };
    match list.list() {
        Ok(entries) => entries.into_iter().for_each(|item| entry(item, out)),
        Err(error) => out.error(error),
    }
    true
}

fn group(api_version: Option<Item<'_, '_>>) -> Option<String> {
    let text = api_version?.node.as_str()?;
    Some(text.split_once('/').map_or("", |(group, _)| group).to_owned())
}

fn entry(item: Item<'_, '_>, out: &mut Output<'_>) {
    match draft(item, &mut out.loaded.errors) {
        Ok(Some(draft)) => out.rule(draft),
        Ok(None) => {}
        Err(error) => out.error(error),
    }
}

fn draft(item: Item<'_, '_>, errors: &mut Vec<LoadError>) -> Result<Option<Draft>, LoadError> {
    let before = errors.len();
    item.map()?.only(&["apiVersion", "kind", "inProgress", "failed", "current"], errors);
    let missing = |key: &str| item.error(format!("`{key}` is missing"));
    let group = group(item.get("apiVersion")).ok_or_else(|| missing("apiVersion"))?;
    let kind = item.get("kind").map(|kind| kind.text()).transpose()?;
    item.get("current").ok_or_else(|| missing("current"))?;
    let mut draft = Draft::new(Match::exact(&group, kind.as_deref()), item.line(), Names::Any);
    let mut guard = String::new();
    for says in ORDER {
        let Some(expression) = item.get(says.key()) else { continue };
        let when = expression.sourced()?;
        if let Err(error) = check(&when, Names::Any) {
            errors.push(error);
            continue;
        }
        let text = when.text.trim();
        let guarded = if guard.is_empty() { text.to_owned() } else { format!("{guard}({text})") };
        guard = format!("{guard}!({text}) && ");
        draft.branches.push(DraftBranch { says, when: when.with(guarded), words: DraftWords::default() });
    }
    Ok((errors.len() == before).then_some(draft))
}
