//! The built-in pack: a file a group, read when the first object of the group is met.

use std::sync::{Arc, LazyLock, OnceLock};

use crate::document::{LoadError, LoadErrors};
use crate::load::load;
use crate::origin::{Loaded, Rule};

/// Each group with the text of its file, in alphabetical order. `_.` stands for `*.`.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

static READ: LazyLock<Box<[OnceLock<Vec<Rule>>]>> =
    LazyLock::new(|| FILES.iter().map(|_| OnceLock::new()).collect());

fn file_name(group: &str) -> Arc<str> {
    format!("builtin:{group}.yaml").into()
}

fn read(index: usize) -> &'static [Rule] {
    let (Some((group, text)), Some(slot)) = (FILES.get(index), READ.get(index)) else { return &[] };
    slot.get_or_init(|| {
        let mut loaded = Loaded::default();
        // A test reads them all: there are no errors.
        load(&file_name(group), text, &mut loaded);
        loaded.rules
    })
}

fn of_file(name: &str) -> &'static [Rule] {
    FILES.binary_search_by(|(known, _)| (*known).cmp(name)).map_or(&[], read)
}

/// The files for suffixes of groups, the longest first.
static SUFFIXES: LazyLock<Vec<(&str, usize)>> = LazyLock::new(|| {
    let names = FILES.iter().enumerate();
    let mut suffixes: Vec<_> =
        names.filter_map(|(index, (name, _))| Some((name.strip_prefix('_')?, index))).collect();
    suffixes.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
    suffixes
});

/// The rules that may fit a group: those of its own file, then those for a suffix, the longest first.
pub(crate) fn rules(group: &str) -> impl Iterator<Item = &'static Rule> {
    let suffixes = SUFFIXES.iter().filter(move |(suffix, _)| group.ends_with(suffix));
    of_file(group).iter().chain(suffixes.flat_map(|(_, index)| read(*index)))
}

/// All rules of the pack.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
    (0..FILES.len()).flat_map(read)
}

/// What is wrong with the pack: for tests.
pub(crate) fn check() -> Result<usize, LoadErrors> {
    let mut errors = Vec::new();
    let mut count = 0;
    for (group, text) in FILES {
        let mut loaded = Loaded::default();
        let file = file_name(group);
        load(&file, text, &mut loaded);
        errors.append(&mut loaded.errors);
        for rule in &loaded.rules {
            count += 1;
            if let Err(wrong) = rule.check() {
                errors.extend(wrong);
            }
            let wanted = group.replacen("_.", "*.", 1);
            if rule.draft().matches.group.to_string() != wanted {
                let message =
                    format!("the rule is for {}, its file for {wanted}", rule.draft().matches.group);
                errors.push(LoadError {
                    file: file.to_string(),
                    line: rule.draft().line,
                    column: 1,
                    message,
                });
            }
        }
    }
    if errors.is_empty() { Ok(count) } else { Err(LoadErrors(errors)) }
}
