//! Argo CD: health checks in Lua.
//!
//! <https://argo-cd.readthedocs.io/en/stable/operator-manual/health/#custom-health-checks>. They stand
//!
//! - in the ConfigMap `argocd-cm`, under `resource.customizations.health.<group>_<kind>` (`<kind>` alone is of the core
//!   group) or, older, in the YAML under `resource.customizations`, whose keys may hold wildcards (`*.crossplane.io/*`);
//! - in the resource ArgoCD of the operator, under `spec.resourceHealthChecks`;
//! - in files of their own: `<group>/<Kind>/health.lua`, where `_` is the wildcard, or `<group>_<Kind>.lua`.
//!
//! The scripts compare generations themselves, so the engine does not. One that returns nil has no word on the object:
//! the next rule decides, as in Argo CD. `useOpenLibs` changes nothing: the libraries are always there.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Output, moved};
use crate::cel::source::Names;
use crate::document::{Item, LoadError, documents};
use crate::draft::{Check, Draft};
use crate::matching::{Group, Match};
use crate::origin::{Loaded, Rule};
use crate::script::Script;

const CUSTOMIZATIONS: &str = "resource.customizations";

pub(super) fn config_map(item: Item<'_, '_>, out: &mut Output<'_>) -> bool {
    let data: Vec<_> = item.get("data").into_iter().flat_map(|data| data.members()).collect();
    let mut known = HashSet::new();
    let health: &str = &[CUSTOMIZATIONS, ".health."].concat();
    for (key, script) in &data {
        let Some(key) = key.strip_prefix(health) else { continue };
        match key.matches('_').count() {
            0 => known.extend(lua("", key, *script, out)),
            1 => {
                let (group, kind) = key.split_once('_').unwrap_or_default();
                known.extend(lua(group, kind, *script, out));
            }
            _ => out.error(script.error(format!("expected `{health}<group>_<kind>`"))),
        }
    }
    if let Some((_, value)) = data.iter().find(|(key, _)| key == CUSTOMIZATIONS)
        && let Err(error) = customizations(*value, &known, out)
    {
        out.error(error);
    }
    let is_argo = item.get("metadata").and_then(|metadata| metadata.get("name"));
    is_argo.is_some_and(|name| name.node.is("argocd-cm"))
        || data.iter().any(|(key, _)| key.starts_with(CUSTOMIZATIONS))
}

/// The older form: YAML in a text. What has a key of its own goes before it.
fn customizations(
    value: Item<'_, '_>,
    known: &HashSet<String>,
    out: &mut Output<'_>,
) -> Result<(), LoadError> {
    let text = moved(&value.sourced()?);
    for document in documents(out.file, &text) {
        let document = document?;
        for (key, item) in document.root().map()?.members() {
            let (group, kind) = key.split_once('/').unwrap_or(("", &key));
            let Some(script) = item.get("health.lua") else { continue };
            if !known.contains(&of(group, kind)) {
                lua(group, kind, script, out);
            }
        }
    }
    Ok(())
}

/// The operator's resource.
pub(super) fn operator(item: Item<'_, '_>, out: &mut Output<'_>) -> bool {
    let checks = item.get("spec").and_then(|spec| spec.get("resourceHealthChecks"));
    for item in checks.into_iter().flat_map(|checks| checks.elements()) {
        let text = |key: &str| item.get(key).and_then(|text| text.node.as_str()).unwrap_or_default();
        match item.get("check") {
            Some(script) => drop(lua(&text("group"), &text("kind"), script, out)),
            None => out.error(item.error("`check` is missing: the script")),
        }
    }
    true
}

/// A file that holds nothing but the script.
pub(crate) fn script(file: &Arc<str>, text: &Arc<str>, loaded: &mut Loaded) {
    let mut directories = file.rsplit(['/', '\\']);
    let name = directories.next().unwrap_or_default().trim_end_matches(".lua");
    let (group, kind) = if name == "health" {
        let kind = directories.next().unwrap_or_default();
        let group =
            directories.next().filter(|group| !matches!(*group, "resource_customizations" | "." | ".."));
        (group.unwrap_or_default(), kind)
    } else {
        name.split_once('_').unwrap_or(("", name))
    };
    // In names of files `_` stands for what no file system likes.
    let (group, kind) = (group.replace('_', "*"), kind.replace('_', "*"));
    let wrong = |message: &str| LoadError {
        file: file.to_string(),
        line: 1,
        column: 1,
        message: format!("{message}: name the file `<group>/<Kind>/health.lua` or `<group>_<Kind>.lua`"),
    };
    // A kind in small letters is rare, and what most directories are named like: its group has to look like one.
    if kind != "*" && !kind.starts_with(|c: char| c.is_ascii_uppercase()) && !group.contains('.') {
        loaded.errors.push(wrong("the script is for no kind"));
        return;
    }
    match matches(&group, &kind) {
        Some(matches) => loaded.rules.push(rule(file, text, matches, 1, 1, text)),
        None => loaded.errors.push(wrong("cannot determine the group and kind of the script")),
    }
}

fn of(group: &str, kind: &str) -> String {
    [group, "/", kind].concat()
}

/// A script that is the value of a key; gives what it is for.
fn lua(group: &str, kind: &str, script: Item<'_, '_>, out: &mut Output<'_>) -> Option<String> {
    let Some(matches) = matches(group, kind) else {
        let what = of(group, kind);
        out.note(script.error(format!(
            "skipped: the pattern in `{what}` is not supported; use `*` for all kinds, `*.suffix` for groups"
        )));
        return None;
    };
    match script.sourced() {
        Ok(source) => {
            let first = source.error(0, "").line;
            let rule = rule(out.file, out.text, matches, script.line(), first, &source.text);
            out.loaded.rules.push(rule);
            Some(of(group, kind))
        }
        Err(error) => {
            out.error(error);
            None
        }
    }
}

fn matches(group: &str, kind: &str) -> Option<Match> {
    let is_name = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
    let group = Group::parse(group).ok()?;
    let (Group::Exact(name) | Group::Suffix(name)) = &group;
    let kinds = match kind {
        "*" => None,
        kind => Some(vec![kind.into()]),
    };
    (is_name(name) && (kinds.is_none() || (is_name(kind) && !kind.is_empty()))).then_some(Match {
        group,
        kinds,
        ..Match::default()
    })
}

fn rule(file: &Arc<str>, text: &Arc<str>, matches: Match, line: usize, first: usize, source: &str) -> Rule {
    let draft = Draft { checks_generation: Check::Off, ..Draft::new(matches, line, Names::Known) };
    Rule::lua(Arc::clone(file), Arc::clone(text), draft, Script::new(Arc::clone(file), first, source))
}

#[cfg(all(test, feature = "lua"))]
mod tests {
    use kstatus::Options;

    use crate::RuleSet;

    #[test]
    fn nil_is_no_word() {
        let script = "if obj.status.phase == 'Up' then return { status = 'Suspended' } end";
        let rules = RuleSet::builder().add("example.com_Widget.lua", script).unwrap().build();
        let options = Options::new("2026-11-21T12:00:00Z".parse().unwrap());
        for (phase, expected) in [("Up", "Suspended [custom-rule]"), ("Running", "Running [phase-word]")] {
            let object = format!(
                "{{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\",\"status\":{{\"phase\":\"{phase}\"}}}}"
            );
            let verdict = rules.compute(object.as_bytes(), &options);
            assert_eq!(format!("{} [{}]", verdict.reason, verdict.basis), expected);
        }
    }
}
