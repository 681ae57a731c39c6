//! kapp: `waitRules` of a Config.
//!
//! <https://carvel.dev/kapp/docs/latest/config/#waitrules>. Failures are looked for first, then successes; none of
//! them is InProgress. Of two rules for one kind the first counts. Starlark (`ytt.funcContractV1`) cannot be run.

use std::collections::HashSet;

use super::jsonpath::quoted;
use super::{Output, cel};
use crate::cel::source::Names;
use crate::document::{Item, LoadError};
use crate::draft::{Draft, DraftBranch, DraftWords, Says};
use crate::matching::{Group, Match};

/// Maximum number of combinations of matchers.
const MAX_COMBINATIONS: usize = 256;

pub(super) fn read(item: Item<'_, '_>, out: &mut Output<'_>) -> bool {
    if !item.get("apiVersion").is_some_and(|version| version.node.is("kapp.k14s.io/v1alpha1")) {
        return false;
    }
    let Some(rules) = item.get("waitRules") else { return true };
    let rules = match rules.list() {
        Ok(rules) => rules,
        Err(error) => {
            out.error(error);
            return true;
        }
    };
    let mut known = HashSet::new();
    for item in rules {
        let mut notes = Vec::new();
        match rule(item, &mut notes) {
            Ok(drafts) => {
                for draft in drafts {
                    if draft.matches.keys().into_iter().all(|key| known.insert(key)) {
                        out.rule(draft);
                    } else {
                        let what = format!("skipped for {}: an earlier rule applies", draft.matches);
                        notes.push(item.error(what));
                    }
                }
            }
            Err(error) => out.error(error),
        }
        notes.into_iter().for_each(|note| out.note(note));
    }
    true
}

fn rule(item: Item<'_, '_>, notes: &mut Vec<LoadError>) -> Result<Vec<Draft>, LoadError> {
    if let Some(ytt) = item.map()?.get("ytt") {
        notes.push(ytt.error("skipped: Starlark is not supported; write the rule in CEL"));
        return Ok(Vec::new());
    }
    let flag = |item: Item<'_, '_>, key: &str| item.get(key).map_or(Ok(false), |flag| flag.boolean());
    let observed = if flag(item, "supportsObservedGeneration")? { "observed() && " } else { "" };
    let conditions = item.get("conditionMatchers").map_or(Ok(Vec::new()), |list| list.list())?;
    let mut branches = Vec::new();
    for (says, key) in [(Says::Failed, "failure"), (Says::Current, "success")] {
        for condition in &conditions {
            let text = |key| {
                condition.get(key).ok_or_else(|| condition.error(format!("`{key}` is missing")))?.text()
            };
            let (type_, status) = (text("type")?, text("status")?);
            if !flag(*condition, key)? {
                continue;
            }
            let of = format!("condition({})", quoted(&type_));
            let mut when = format!("{observed}{of}.status == {}", quoted(&status));
            if flag(*condition, "supportsObservedGeneration")? {
                when = format!("{when} && {of}.observedGeneration == metadata.generation");
            }
            if let Some(timeout) = condition.get("timeout").filter(|_| says == Says::Failed) {
                let seconds = seconds(&timeout.text()?)
                    .ok_or_else(|| timeout.error("expected a duration such as `5m` or `90s`"))?;
                when = format!("{when} && secondsSince({of}.lastTransitionTime) >= {seconds}");
            }
            let words = DraftWords { from: Some(cel(&*type_)), ..DraftWords::default() };
            branches.push(DraftBranch { says, when: cel(when), words });
        }
    }
    if !branches.iter().any(|branch| branch.says == Says::Current) {
        notes.push(item.error("skipped: no `conditionMatchers` has `success: true`, so it never succeeds"));
        return Ok(Vec::new());
    }
    let matchers = item.get("resourceMatchers").map_or(Ok(Vec::new()), |list| list.list())?;
    let mut drafts = Vec::new();
    for matches in any_of(&matchers, notes)?.into_iter().filter_map(|wanted| wanted.finish(item, notes)) {
        let mut draft = Draft::new(matches, item.line(), Names::Known);
        draft.branches.clone_from(&branches);
        drafts.push(draft);
    }
    Ok(drafts)
}

/// Seconds of a duration as Go writes it: `1h2m3s`.
fn seconds(text: &str) -> Option<u64> {
    let (mut total, mut rest) = (0u64, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let factor = match unit {
            "h" => 3600,
            "m" => 60,
            "s" => 1,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

/// Conjunction of matchers.
#[derive(Clone, Default)]
struct Wanted {
    group: Option<String>,
    version: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl Wanted {
    /// Both; none where they exclude each other.
    fn and(&self, other: &Self) -> Option<Self> {
        let both = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) if a != b => None,
            (a, b) => Some(a.clone().or_else(|| b.clone())),
        };
        Some(Self {
            group: both(&self.group, &other.group)?,
            version: both(&self.version, &other.version)?,
            kind: both(&self.kind, &other.kind)?,
            namespace: both(&self.namespace, &other.namespace)?,
            name: both(&self.name, &other.name)?,
        })
    }

    fn finish(self, item: Item<'_, '_>, notes: &mut Vec<LoadError>) -> Option<Match> {
        let Some(group) = self.group else {
            notes.push(item.error(
                "skipped in part: a rule needs an API group; put an `apiGroupKindMatcher` into an `andMatcher`",
            ));
            return None;
        };
        Some(Match {
            group: Group::Exact(group.into()),
            kinds: self.kind.map(|kind| vec![kind.into()]),
            versions: self.version.into_iter().map(Into::into).collect(),
            name: self.name.map(Into::into),
            // kapp writes the empty namespace for objects that have none.
            namespace: self.namespace.filter(|namespace| !namespace.is_empty()).map(Into::into),
            labels: Vec::new(),
        })
    }
}

fn any_of(matchers: &[Item<'_, '_>], notes: &mut Vec<LoadError>) -> Result<Vec<Wanted>, LoadError> {
    let mut all = Vec::new();
    for matcher in matchers {
        all.extend(matcher_of(*matcher, notes)?);
        all.truncate(MAX_COMBINATIONS);
    }
    Ok(all)
}

/// The ways in which an object fits; none where that does not follow from group, kind, namespace and name.
fn matcher_of(item: Item<'_, '_>, notes: &mut Vec<LoadError>) -> Result<Vec<Wanted>, LoadError> {
    let Some((name, inside)) = item.map()?.members().next() else {
        return Err(item.error("expected a matcher such as `apiGroupKindMatcher`"));
    };
    let text = |key: &str| inside.get(key).map(|text| Ok(text.text()?.into_owned())).transpose();
    let list = |key: &str| inside.get(key).map_or(Ok(Vec::new()), |list| list.list());
    Ok(match &*name {
        "apiVersionKindMatcher" => {
            let api_version = text("apiVersion")?.unwrap_or_default();
            let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
            let (group, version) = (Some(group.to_owned()), Some(version.to_owned()));
            vec![Wanted { group, version, kind: text("kind")?, ..Wanted::default() }]
        }
        "apiGroupKindMatcher" => {
            let group = Some(text("apiGroup")?.unwrap_or_default());
            vec![Wanted { group, kind: text("kind")?, ..Wanted::default() }]
        }
        "kindNamespaceNameMatcher" => {
            let (kind, namespace, name) = (text("kind")?, text("namespace")?, text("name")?);
            vec![Wanted { kind, namespace, name, ..Wanted::default() }]
        }
        "hasNamespaceMatcher" if inside.get("names").is_some() => {
            let names: Result<Vec<_>, LoadError> =
                list("names")?.iter().map(|name| Ok(Some(name.text()?.into_owned()))).collect();
            names?.into_iter().map(|namespace| Wanted { namespace, ..Wanted::default() }).collect()
        }
        "allMatcher" => vec![Wanted::default()],
        "anyMatcher" => any_of(&list("matchers")?, notes)?,
        "andMatcher" => {
            let mut ways = vec![Wanted::default()];
            for matcher in list("matchers")? {
                let others = matcher_of(matcher, notes)?;
                ways = ways.iter().flat_map(|way| others.iter().filter_map(|other| way.and(other))).collect();
                ways.truncate(MAX_COMBINATIONS);
            }
            ways
        }
        "notMatcher"
        | "customResourceMatcher"
        | "hasAnnotationMatcher"
        | "hasNamespaceMatcher"
        | "emptyFieldMatcher" => {
            let what = format!("skipped: `{name}` has no equivalent; specify groups and kinds");
            notes.push(item.error(what));
            Vec::new()
        }
        name => return Err(item.error(format!("unknown matcher `{name}`"))),
    })
}
