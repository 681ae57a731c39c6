//! Inspection: lists rules, and explains verdicts.

use kstatus::{Basis, Object, Options, Verdict};

use crate::builtin;
use crate::origin::Rule;
use crate::provenance::Provenance;
use crate::rule::{Outcome, Trace};
use crate::set::RuleSet;

/// A rule, for people who want to know which there are.
#[derive(Clone, Debug)]
pub struct RuleInfo {
    /// Basis of the rule's verdicts.
    pub basis: Basis,
    /// The API group, or the suffix of groups: `cert-manager.io`, `*.crossplane.io`.
    pub group: String,
    /// The kinds; `*` for all.
    pub kinds: Vec<String>,
    /// Other requirements of the match, such as `name web`.
    pub narrowed: String,
    /// The file it stands in: as it was named, or `builtin:` and a name.
    pub file: String,
    /// Its line there, counted from 1.
    pub line: usize,
    /// What it was checked against, if it says so.
    pub provenance: Option<Provenance>,
    /// The rule as it is written, with the comment before it.
    pub text: String,
    /// The fields of an object that it reads.
    pub reads: Vec<String>,
}

impl RuleInfo {
    fn new(basis: Basis, rule: &Rule) -> Self {
        let matches = &rule.draft().matches;
        let kinds = match &matches.kinds {
            None => vec!["*".to_owned()],
            Some(kinds) => kinds.iter().map(|kind| kind.to_string()).collect(),
        };
        let shown = matches.to_string();
        let narrowed = shown.split_once(" (").map_or("", |(_, rest)| rest.trim_end_matches(')'));
        Self {
            basis,
            group: matches.group.to_string(),
            kinds,
            narrowed: narrowed.to_owned(),
            file: rule.file().to_owned(),
            line: rule.draft().line,
            provenance: rule.provenance(),
            text: snippet(rule.text(), rule.draft().line),
            reads: rule.fields(),
        }
    }

    /// Whether it is for objects of this group and kind.
    #[must_use]
    pub fn fits(&self, group: &str, kind: &str) -> bool {
        let fits_group = match self.group.strip_prefix('*') {
            Some(suffix) => group.len() > suffix.len() && group.ends_with(suffix),
            None => self.group == group,
        };
        fits_group && self.kinds.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(kind))
    }
}

/// The item of a list that begins on a line, with the comment before it.
fn snippet(text: &str, line: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let Some(at) = line.checked_sub(1).filter(|at| *at < lines.len()) else { return String::new() };
    let indent = |line: &str| line.len() - line.trim_start().len();
    let first = lines.get(at).copied().unwrap_or_default();
    let dash = indent(first);
    let is_comment = |line: &&str| line.trim_start().starts_with('#') && indent(line) == dash;
    let before = lines.iter().take(at).rev().take_while(|line| is_comment(line)).count();
    let belongs = |line: &&str| line.trim().is_empty() || indent(line) > dash;
    let after = lines.iter().skip(at + 1).take_while(|line| belongs(line)).count();
    let body = lines.get(at - before..=at + after).unwrap_or_default();
    let body: Vec<&str> =
        body.iter().map(|line| line.get(dash.min(indent(line))..).unwrap_or_default()).collect();
    body.join("\n").trim_end().to_owned()
}

/// Explanation of a verdict.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The verdict.
    pub verdict: Verdict,
    /// The rules that were asked, in their order.
    pub rules: Vec<AskedRule>,
}

/// A rule that was asked.
#[derive(Clone, Debug)]
pub struct AskedRule {
    /// Its file and line, and what it is for.
    pub name: String,
    /// Its branches, as far as they were tried.
    pub tried: Vec<Tried>,
    /// Values read by its expressions.
    pub seen: Vec<(String, String)>,
}

/// A branch that was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The key of the pack: `failed` and so on.
    pub branch: &'static str,
    /// Its expression.
    pub expression: String,
    /// `true`, `false`, or why it had no value.
    pub outcome: String,
    /// Whether it decided.
    pub decided: bool,
}

impl RuleSet {
    /// All rules, in their order of precedence and then by group.
    #[must_use]
    pub fn list(&self) -> Vec<RuleInfo> {
        let mut list: Vec<RuleInfo> =
            self.own_rules().map(|(basis, rule)| RuleInfo::new(basis, rule)).collect();
        if self.has_builtin() {
            list.extend(builtin::all().map(|rule| RuleInfo::new(Basis::RulePack, rule)));
        }
        list
    }

    /// The verdict on an object, and how it came about.
    #[must_use]
    pub fn explain(&self, object: &Object<'_>, options: &Options) -> Explanation {
        let mut rules: Vec<AskedRule> = Vec::new();
        let verdict = self.verdict_traced(object, options, &mut |rule, trace: &Trace| {
            let name = rule.name();
            let tried = trace.tried.iter().map(|(_, branch, expression, outcome)| Tried {
                branch,
                expression: expression.clone(),
                outcome: match outcome {
                    Outcome::True => "true".to_owned(),
                    Outcome::False => "false".to_owned(),
                    Outcome::Absent(what) => format!("false: {what} is absent"),
                    Outcome::Error(error) => format!("false: {error}"),
                },
                decided: *outcome == Outcome::True,
            });
            // A rule is asked twice: for `suspended`, and for the rest.
            match rules.iter_mut().find(|known| known.name == name) {
                Some(known) => {
                    known.tried.extend(tried);
                    let new = trace.seen.iter().filter(|seen| !known.seen.contains(seen)).cloned();
                    let new: Vec<_> = new.collect();
                    known.seen.extend(new);
                }
                None => rules.push(AskedRule { name, tried: tried.collect(), seen: trace.seen.clone() }),
            }
        });
        Explanation { verdict, rules }
    }

    /// As [`kstatus::augment`], with these rules.
    ///
    /// # Errors
    /// As [`kstatus::augment`].
    pub fn augment(&self, json: &[u8], options: &Options) -> Result<Vec<u8>, kstatus::AugmentError> {
        let object = Object::parse(json)?;
        kstatus::augment_by(json, options, &self.decider(&object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_shown_with_its_comment() {
        let text = "rules:\n  # one\n  - match: {}\n    current: a\n\n  # two\n  # lines\n  - match: {}\n    failed:\n      - b\n";
        assert_eq!(snippet(text, 3), "# one\n- match: {}\n  current: a");
        assert_eq!(snippet(text, 8), "# two\n# lines\n- match: {}\n  failed:\n    - b");
        assert_eq!(snippet(text, 99), "");
    }
}
