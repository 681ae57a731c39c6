//! Built-in rule pack: one file per API group. A rule is parsed for the first object of its kind.

use std::sync::OnceLock;

use crate::cel::source::Names;
use crate::document::{LoadError, LoadErrors};
use crate::draft::Draft;
use crate::key::{group_key, kind_key};
use crate::load::load;
use crate::matching::Match;
use crate::origin::{Loaded, Rule};
use crate::pack::{self, COUNT, SUFFIXES};
use crate::unpack::unpack;

/// Parsed rules. Boxed, since most are never parsed.
static RULES: [OnceLock<Option<Box<Rule>>>; COUNT] = [const { OnceLock::new() }; COUNT];

/// Returns a rule by its index, parsed.
fn rule(number: usize) -> Option<&'static Rule> {
    RULES.get(number)?.get_or_init(|| read(number).map(Box::new)).as_deref()
}

/// Parses a rule. A test parses them all, so there are no errors.
fn read(number: usize) -> Option<Rule> {
    let (bytes, line) = pack::packed(number)?;
    Some(Rule::builtin(number, unpack(bytes, line)?))
}

/// Rules with a key.
fn of_key(key: u32) -> impl Iterator<Item = &'static Rule> {
    pack::of_key(key).filter_map(rule)
}

/// Rules of a file that may match a kind.
fn of_file(group: &[u8], kind: &[u8]) -> impl Iterator<Item = &'static Rule> + use<> {
    let group = group_key(group);
    of_key(kind_key(group, kind)).chain(of_key(kind_key(group, "*")))
}

/// The rules that may fit a kind: those of its group's own file, and those for a suffix.
pub(crate) fn rules<'k>(group: &'k [u8], kind: &'k [u8]) -> impl Iterator<Item = &'static Rule> + use<'k> {
    // The last two letters exclude most of them without a comparison of texts.
    let end = group.last_chunk::<2>();
    let fits = move |file: &&&str| {
        file.as_bytes().last_chunk::<2>() == end
            && file.strip_prefix('_').is_some_and(|suffix| group.ends_with(suffix.as_bytes()))
    };
    let of_suffixes = SUFFIXES.iter().filter(fits);
    of_file(group, kind).chain(of_suffixes.flat_map(move |file| of_file(file.as_bytes(), kind)))
}

/// All rules of the pack.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
    (0..COUNT).filter_map(rule)
}

/// Debug text of a rule, without positions.
fn shown(rule: &Rule) -> String {
    format!("{:?}", Draft { names: Names::Known, provenance: rule.provenance(), ..rule.draft().clone() })
}

/// Expected keys of a rule in the index.
fn keys(file: &str, matches: &Match) -> Vec<u32> {
    let group = group_key(file);
    let kinds = matches.kinds.as_deref();
    let kinds = kinds.map(|kinds| kinds.iter().map(|kind| kind_key(group, kind.as_bytes())).collect());
    let mut keys: Vec<u32> = kinds.unwrap_or_else(|| vec![kind_key(group, "*")]);
    keys.sort_unstable();
    keys
}

/// Errors of the pack, for tests.
pub(crate) fn check() -> Result<usize, LoadErrors> {
    let mut errors = Vec::new();
    for (file, name) in pack::files().iter().enumerate() {
        let mut loaded = Loaded::default();
        load(&(*name).into(), pack::text(file), &mut loaded);
        errors.append(&mut loaded.errors);
        let error =
            |line: usize, message: String| LoadError { file: (*name).to_owned(), line, column: 1, message };
        let numbers: Vec<usize> = (0..COUNT).filter(|number| pack::file_of(*number) == file).collect();
        // One by one they are the same.
        let alone = numbers.iter().map(|number| rule(*number).map(shown));
        if !alone.eq(loaded.rules.iter().map(|rule| Some(shown(rule)))) {
            errors.push(error(1, "its rules are others when they are read one by one".to_owned()));
        }
        for (rule, number) in loaded.rules.iter().zip(numbers) {
            let (matches, line) = (&rule.draft().matches, rule.draft().line);
            if !pack::keys_of(number).eq(keys(pack::group(file), matches)) {
                errors.push(error(line, "it is found for other kinds".to_owned()));
            }
            if pack::is_verified(number) != rule.is_verified() {
                errors.push(error(line, "its confidence is another one".to_owned()));
            }
            if let Err(wrong) = rule.check() {
                errors.extend(wrong);
            }
            let wanted = pack::group(file).replacen("_.", "*.", 1);
            if matches.group.to_string() != wanted {
                let message = format!("the rule is for {}, its file for {wanted}", matches.group);
                errors.push(error(line, message));
            }
        }
    }
    if errors.is_empty() { Ok(COUNT) } else { Err(LoadErrors(errors)) }
}
