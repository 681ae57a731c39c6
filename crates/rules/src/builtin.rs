//! Built-in rule pack: one file per API group. A rule is parsed for the first object of its kind.

use std::sync::OnceLock;

use crate::cel::source::Names;
use crate::document::{Document, LoadError, LoadErrors};
use crate::draft::Draft;
use crate::key::{group_key, kind_key};
use crate::load::load;
use crate::matching::Match;
use crate::origin::{Loaded, Rule};

/// File of rules for one API group.
struct File {
    /// `builtin:cert-manager.io.yaml`; `_.` stands for `*.`.
    name: &'static str,
    text: &'static str,
}

impl File {
    fn group(&self) -> &'static str {
        let group = self.name.strip_prefix("builtin:").and_then(|name| name.strip_suffix(".yaml"));
        group.unwrap_or_default()
    }
}

/// Position of a rule.
struct Place {
    /// Index of its file.
    file: u16,
    /// The line it begins on, counted from 0.
    line: u32,
    /// Range in [`JSON`].
    start: u32,
    end: u32,
}

// COUNT: number of rules; FILES: sorted by group; SUFFIXES: file groups that begin with `_`; PLACES: one per rule; INDEX: sorted pairs of
// key (see `kind_key`) and rule; JSON: text of all rules.
include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// Parsed rules. Boxed, since most are never parsed.
static RULES: [OnceLock<Option<Box<Rule>>>; COUNT] = [const { OnceLock::new() }; COUNT];

/// Returns a rule by its index, parsed.
fn rule(number: usize) -> Option<&'static Rule> {
    RULES.get(number)?.get_or_init(|| read(PLACES.get(number)?).map(Box::new)).as_deref()
}

/// Parses a rule. A test parses them all, so there are no errors.
fn read(place: &Place) -> Option<Rule> {
    let file = FILES.get(usize::from(place.file))?;
    let json = JSON.get(place.start as usize..place.end as usize)?;
    let document = Document::prepared(json, place.line as usize);
    let mut draft = Draft::read(document.root(), &mut Vec::new())?;
    draft.names = Names::Builtin;
    Some(Rule::builtin(file.name, file.text, draft))
}

/// Rules with a key.
fn of_key(key: u32) -> impl Iterator<Item = &'static Rule> {
    let start = INDEX.partition_point(|(known, _)| *known < key);
    let found = INDEX.get(start..).unwrap_or_default().iter().take_while(move |(known, _)| *known == key);
    found.filter_map(|(_, number)| rule(usize::from(*number)))
}

/// Rules of a file that may match a kind.
fn of_file(group: &str, kind: &str) -> impl Iterator<Item = &'static Rule> + use<> {
    let group = group_key(group);
    of_key(kind_key(group, kind)).chain(of_key(kind_key(group, "*")))
}

/// The rules that may fit a kind: those of its group's own file, and those for a suffix.
pub(crate) fn rules<'k>(group: &'k str, kind: &'k str) -> impl Iterator<Item = &'static Rule> + use<'k> {
    let fits = move |file: &&&str| file.strip_prefix('_').is_some_and(|suffix| group.ends_with(suffix));
    of_file(group, kind).chain(SUFFIXES.iter().filter(fits).flat_map(move |file| of_file(file, kind)))
}

/// All rules of the pack.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
    (0..COUNT).filter_map(rule)
}

/// Debug text of a rule, without positions.
fn shown(draft: &Draft) -> String {
    format!("{:?}", Draft { names: Names::Known, ..draft.clone() })
}

/// Expected keys of a rule in the index.
fn keys(file: &str, matches: &Match) -> Vec<u32> {
    let group = group_key(file);
    let kinds = matches.kinds.as_deref();
    let kinds = kinds.map(|kinds| kinds.iter().map(|kind| kind_key(group, kind)).collect());
    let mut keys: Vec<u32> = kinds.unwrap_or_else(|| vec![kind_key(group, "*")]);
    keys.sort_unstable();
    keys
}

/// Errors of the pack, for tests.
pub(crate) fn check() -> Result<usize, LoadErrors> {
    let mut errors = Vec::new();
    for (number, file) in FILES.iter().enumerate() {
        let mut loaded = Loaded::default();
        load(&file.name.into(), file.text, &mut loaded);
        errors.append(&mut loaded.errors);
        let error =
            |line: usize, message: String| LoadError { file: file.name.to_owned(), line, column: 1, message };
        let places = PLACES.iter().enumerate();
        let its = places.filter(|(_, place)| usize::from(place.file) == number);
        let numbers: Vec<usize> = its.map(|(rule, _)| rule).collect();
        // One by one they are the same.
        let alone = numbers.iter().map(|number| rule(*number).map(|rule| shown(rule.draft())));
        if !alone.eq(loaded.rules.iter().map(|rule| Some(shown(rule.draft())))) {
            errors.push(error(1, "its rules are others when they are read one by one".to_owned()));
        }
        for (rule, number) in loaded.rules.iter().zip(numbers) {
            let (matches, line) = (&rule.draft().matches, rule.draft().line);
            let found = INDEX.iter().filter(|(_, rule)| usize::from(*rule) == number);
            if !found.map(|(key, _)| *key).eq(keys(file.group(), matches)) {
                errors.push(error(line, "it is found for other kinds".to_owned()));
            }
            if let Err(wrong) = rule.check() {
                errors.extend(wrong);
            }
            let wanted = file.group().replacen("_.", "*.", 1);
            if matches.group.to_string() != wanted {
                let message = format!("the rule is for {}, its file for {wanted}", matches.group);
                errors.push(error(line, message));
            }
        }
    }
    if errors.is_empty() { Ok(COUNT) } else { Err(LoadErrors(errors)) }
}
