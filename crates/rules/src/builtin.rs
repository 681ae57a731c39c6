//! The built-in pack: a file a group. A rule is read when the first object of its kind is met.

use std::sync::{Arc, LazyLock, OnceLock};

use crate::document::{LoadError, LoadErrors};
use crate::load::{load, load_rules};
use crate::origin::{Loaded, Rule};

/// The rules of a group.
struct File {
    /// `_.` stands for `*.`.
    group: &'static str,
    text: &'static str,
    rules: &'static [Place],
}

/// Where a rule stands in its file: a list of one.
struct Place {
    /// The kinds it is for; none stands for all.
    kinds: &'static [&'static str],
    /// The line it begins on, counted from 0.
    line: usize,
    start: usize,
    end: usize,
}

/// In alphabetical order.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// What was read of a file.
struct Read {
    text: OnceLock<Arc<str>>,
    rules: Box<[OnceLock<Option<Rule>>]>,
}

static READ: LazyLock<Box<[Read]>> = LazyLock::new(|| {
    let read = |file: &File| Read {
        text: OnceLock::new(),
        rules: file.rules.iter().map(|_| OnceLock::new()).collect(),
    };
    FILES.iter().map(read).collect()
});

fn file_name(group: &str) -> Arc<str> {
    format!("builtin:{group}.yaml").into()
}

/// The rules of a file that may fit a kind, or all of them.
fn of_file(index: usize, kind: Option<&str>) -> impl Iterator<Item = &'static Rule> {
    let places =
        FILES.get(index).into_iter().flat_map(|file| file.rules.iter().map(move |place| (file, place)));
    let slots = READ.get(index).into_iter().flat_map(|read| read.rules.iter().map(move |slot| (read, slot)));
    places.zip(slots).filter_map(move |((file, place), (read, slot))| {
        if kind.is_some_and(|kind| !place.kinds.is_empty() && !place.kinds.contains(&kind)) {
            return None;
        }
        slot.get_or_init(|| read_rule(file, place, read.text.get_or_init(|| file.text.into()))).as_ref()
    })
}

/// A test reads them all: there are no errors.
fn read_rule(file: &File, place: &Place, text: &Arc<str>) -> Option<Rule> {
    let mut loaded = Loaded::default();
    let part = file.text.get(place.start..place.end).unwrap_or_default();
    load_rules(&file_name(file.group), text, part, place.line, &mut loaded);
    loaded.rules.pop()
}

/// The files for suffixes of groups, the longest first.
static SUFFIXES: LazyLock<Vec<(&str, usize)>> = LazyLock::new(|| {
    let names = FILES.iter().enumerate();
    let mut suffixes: Vec<_> =
        names.filter_map(|(index, file)| Some((file.group.strip_prefix('_')?, index))).collect();
    suffixes.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
    suffixes
});

/// The rules that may fit a kind: those of its group's own file, then those for a suffix, the longest first.
pub(crate) fn rules(group: &str, kind: &str) -> impl Iterator<Item = &'static Rule> {
    let own = FILES.binary_search_by(|file| file.group.cmp(group)).ok();
    let suffixes =
        SUFFIXES.iter().filter(move |(suffix, _)| group.ends_with(suffix)).map(|(_, index)| *index);
    own.into_iter().chain(suffixes).flat_map(move |index| of_file(index, Some(kind)))
}

/// All rules of the pack.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
    (0..FILES.len()).flat_map(|index| of_file(index, None))
}

/// What is wrong with the pack: for tests.
pub(crate) fn check() -> Result<usize, LoadErrors> {
    let mut errors = Vec::new();
    let mut count = 0;
    for (index, File { group, text, rules }) in FILES.iter().enumerate() {
        let mut loaded = Loaded::default();
        let file = file_name(group);
        load(&file, text, &mut loaded);
        errors.append(&mut loaded.errors);
        // One by one they are the same.
        let alone = of_file(index, None).map(|rule| format!("{:?}", rule.draft()));
        if !alone.eq(loaded.rules.iter().map(|rule| format!("{:?}", rule.draft()))) {
            let message = "its rules are others when they are read one by one".to_owned();
            errors.push(LoadError { file: file.to_string(), line: 1, column: 1, message });
        }
        for (rule, place) in loaded.rules.iter().zip(*rules) {
            let kinds = rule.draft().matches.kinds.as_deref().unwrap_or_default();
            if !kinds.iter().map(|kind| &**kind).eq(place.kinds.iter().copied()) {
                let message = format!("it is found for other kinds: {}", place.kinds.join(", "));
                errors.push(LoadError {
                    file: file.to_string(),
                    line: rule.draft().line,
                    column: 1,
                    message,
                });
            }
        }
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
