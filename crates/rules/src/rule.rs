//! Compiled rules, and their evaluation on an object.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::sync::OnceLock;

use kstatus::{
    Basis, ConditionFields, FailureClass, Member, Node, Object, Options, Problem, Status, Text, Verdict,
};
use settled_cel::value::Map;
use settled_cel::{CompileError, Fault, Program, Truth};

use crate::cel::bytes::{Bytes, Val};
use crate::cel::paths::Paths;
use crate::cel::prefilter::{Decision, Prefilter};
use crate::cel::scope::{ROOM, Run, STEPS, Scope, Seen, show};
use crate::cel::source::{Names, compile};
use crate::document::{LoadError, Sourced};
use crate::draft::{Check, Draft, DraftWords, Says};
use crate::template::Template;

/// The reason where the controller has not reported a status yet.
const NO_STATUS: &str = "NoStatus";

/// A rule, ready to run.
#[derive(Debug)]
pub(crate) struct Compiled {
    paths: Paths,
    prefilter: Prefilter,
    branches: Vec<Branch>,
    otherwise: Option<LazyWords>,
    has_current: bool,
    has_suspended: bool,
    checks_deletion: Checked,
    checks_generation: Checked,
}

/// Whether a check of the engine is made.
#[derive(Debug)]
enum Checked {
    Always(bool),
    When(Program),
}

impl Checked {
    /// An expression that cannot be evaluated leaves the check on.
    fn is_made<'e>(&'e self, scope: &Scope<'e>) -> bool {
        match self {
            Self::Always(made) => *made,
            Self::When(program) => !matches!(scope.holds(program), Truth::Is(false)),
        }
    }
}

#[derive(Debug)]
struct Branch {
    says: Says,
    /// The expression as it is written.
    text: Box<str>,
    when: Program,
    words: LazyWords,
}

/// Compiled with the rule, to report all errors; for the built-in pack, which has none, at first use. Boxed, so that the branches
/// whose expressions are tried lie close together.
type LazyWords = OnceLock<Box<Words>>;

#[derive(Debug, Default)]
struct Words {
    /// Separate from those of the conditions, since words are compiled later.
    paths: Paths,
    from: Option<From>,
    reason: Option<Line>,
    message: Option<Line>,
    class: Option<FailureClass>,
    terminal: bool,
}

/// A reason or a message.
#[derive(Debug)]
enum Line {
    /// The same for all objects.
    Same(Box<str>),
    Template(Template),
}

/// How texts of a rule come into a verdict: lent by a rule that is never dropped, or copied.
pub(crate) type Keep<'w> = fn(Cow<'w, str>) -> Text;

/// Copies a text that is not that of a rule which is never dropped.
pub(crate) fn copied(text: Cow<'_, str>) -> Text {
    Cow::Owned(text.into_owned())
}

/// The condition that gives reason and message.
#[derive(Debug)]
enum From {
    /// Of `status.conditions`, by its type.
    Type(Box<str>),
    /// Result of an expression.
    Expression(Program),
}

/// A condition that gives the words.
enum Given<'e> {
    Condition(ConditionFields<'e>),
    Map(Map<'e, Bytes<'e>>),
}

impl<'e> Given<'e> {
    fn text(&self, member: Member) -> Option<Cow<'_, str>> {
        match self {
            Self::Condition(condition) => condition.member(member).and_then(Node::as_str),
            Self::Map(map) => {
                let key = match member {
                    Member::Type => "type",
                    Member::Status => "status",
                    Member::Reason => "reason",
                    Member::Message => "message",
                    _ => return None,
                };
                match map.get(key) {
                    Ok(Some(Val::Text(text))) => Some(Cow::Owned(String::from(&*text))),
                    _ => None,
                }
            }
        }
    }
}

/// Outcome of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It touched this field, which is not there: it does not hold.
    Absent(String),
    /// It could not be evaluated, or not within its budget.
    Error(String),
}

impl Outcome {
    pub(crate) fn of<'a>(result: &Truth<'a, Bytes<'a>>, program: &Program, paths: &Paths) -> Self {
        match result {
            Truth::Is(true) => Self::True,
            Truth::Is(false) => Self::False,
            Truth::Other(value) => Self::Error(format!("it gives {}, not true or false", value.type_name())),
            Truth::Fault(Fault::Absent(place)) => Self::Absent(show(program, *place, paths)),
            Truth::Fault(Fault::Error(error)) => Self::Error(bounded(error)),
            Truth::Fault(Fault::Limit | Fault::Internal) => {
                Self::Error(format!("it needs more than {STEPS} steps"))
            }
            Truth::Fault(Fault::Room) => Self::Error(format!("it needs more than {ROOM} bytes of memory")),
        }
    }
}

/// An error as far as it fits: some quote the value that they are about.
fn bounded(error: &str) -> String {
    const MAX_ERROR_CHARS: usize = 300;
    match error.char_indices().nth(MAX_ERROR_CHARS) {
        Some((end, _)) => [error.get(..end).unwrap_or_default(), "..."].concat(),
        None => error.to_owned(),
    }
}

/// Trace of an evaluation, for explanations and coverage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// The branches that were tried, in their order: index, key, expression, outcome.
    pub(crate) tried: Vec<(usize, &'static str, String, Outcome)>,
    /// Values read by the expressions.
    pub(crate) seen: Seen,
}

/// Parameters of an evaluation.
pub(crate) struct Asked<'a> {
    /// Source of the rule.
    pub(crate) draft: &'a Draft,
    pub(crate) basis: Basis,
    pub(crate) name: &'a dyn Fn() -> String,
    /// Whether the object is suspended, or everything else.
    pub(crate) suspended: bool,
}

impl Asked<'_> {
    /// Compiles words at first use.
    fn words<'w>(&self, words: &'w LazyWords, draft: Option<&DraftWords>) -> &'w Words {
        words.get_or_init(|| {
            let compile = |draft| Words::compile(draft, self.draft.names, &mut Vec::new());
            Box::new(draft.map(compile).unwrap_or_default())
        })
    }
}

impl Compiled {
    pub(crate) fn compile(draft: &Draft) -> Result<Self, Vec<LoadError>> {
        let mut paths = Paths::default();
        let mut errors = Vec::new();
        let mut branches = Vec::new();
        let words = |words: &DraftWords, errors: &mut Vec<LoadError>| match draft.names {
            Names::Builtin => LazyWords::new(),
            names => LazyWords::from(Box::new(Words::compile(words, names, errors))),
        };
        for branch in &draft.branches {
            let words = words(&branch.words, &mut errors);
            match compile(&branch.when.text, draft.names, &mut paths) {
                Ok(when) => {
                    branches.push(Branch {
                        says: branch.says,
                        text: on_a_line(&branch.when.text),
                        when,
                        words,
                    });
                }
                Err(error) => errors.push(place(&branch.when, error)),
            }
        }
        let otherwise = draft.otherwise.as_ref().map(|otherwise| words(otherwise, &mut errors));
        let mut checked = |check: &Check| match check {
            Check::On => Checked::Always(true),
            Check::Off => Checked::Always(false),
            Check::When(when) => match compile(&when.text, draft.names, &mut paths) {
                Ok(program) => Checked::When(program),
                Err(error) => {
                    errors.push(place(when, error));
                    Checked::Always(true)
                }
            },
        };
        let checks_deletion = checked(&draft.checks_deletion);
        let checks_generation = checked(&draft.checks_generation);
        if !errors.is_empty() {
            return Err(errors);
        }
        let prefilter = Prefilter::of(branches.iter().map(|branch: &Branch| &branch.when));
        let has = |says| branches.iter().any(|branch: &Branch| branch.says == says);
        let (has_current, has_suspended) = (has(Says::Current), has(Says::Suspended));
        Ok(Self {
            paths,
            prefilter,
            branches,
            otherwise,
            has_current,
            has_suspended,
            checks_deletion,
            checks_generation,
        })
    }

    /// What its expressions read.
    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    pub(crate) fn checks_deletion(&self, object: &Object<'_>, options: &Options) -> bool {
        self.checks_deletion_in(&Scope::new(&Run::new(object, options.now), &self.paths))
    }

    pub(crate) fn checks_generation(&self, object: &Object<'_>, options: &Options) -> bool {
        self.checks_generation_in(&Scope::new(&Run::new(object, options.now), &self.paths))
    }

    pub(crate) fn checks_deletion_in<'e>(&'e self, scope: &Scope<'e>) -> bool {
        self.checks_deletion.is_made(scope)
    }

    pub(crate) fn checks_generation_in<'e>(&'e self, scope: &Scope<'e>) -> bool {
        self.checks_generation.is_made(scope)
    }

    /// Whether the rule has a word on every object.
    pub(crate) fn has_current(&self) -> bool {
        self.has_current
    }

    pub(crate) fn has_suspended(&self) -> bool {
        self.has_suspended
    }

    /// Paths of the fields that a rule reads.
    pub(crate) fn fields(draft: &Draft) -> Vec<String> {
        let (mut paths, names) = (Paths::default(), draft.names);
        for branch in &draft.branches {
            Words::default().add(&branch.words, names, &mut paths, &mut Vec::new());
            drop(compile(&branch.when.text, names, &mut paths));
        }
        if let Some(words) = &draft.otherwise {
            Words::default().add(words, names, &mut paths, &mut Vec::new());
        }
        for check in [&draft.checks_deletion, &draft.checks_generation] {
            if let Check::When(when) = check {
                drop(compile(&when.text, names, &mut paths));
            }
        }
        paths.leaves().collect()
    }

    /// Branches with their expressions.
    pub(crate) fn branches(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.branches.iter().map(|branch| (branch.says.key(), &*branch.text))
    }

    /// The first branch that holds, of those that are (or are not) `suspended`.
    pub(crate) fn decide(
        &self,
        asked: &Asked<'_>,
        object: &Object<'_>,
        options: &Options,
        trace: Option<&mut Trace>,
    ) -> Option<Verdict> {
        let run = match trace {
            None => Run::new(object, options.now),
            Some(_) => Run::traced(object, options.now),
        };
        let mut tried = Vec::new();
        let scope = Scope::new(&run, &self.paths);
        let verdict = self.decide_in(&scope, asked, copied, trace.is_some().then_some(&mut tried));
        if let Some(trace) = trace {
            trace.tried.extend(tried);
            trace.seen.extend(run.take_seen());
        }
        verdict
    }

    /// As [`decide`](Self::decide), with what was read of the object before.
    pub(crate) fn decide_in<'w: 'e, 'e>(
        &'w self,
        scope: &Scope<'e>,
        asked: &Asked<'_>,
        keep: Keep<'w>,
        mut tried: Option<&mut Vec<(usize, &'static str, String, Outcome)>>,
    ) -> Option<Verdict> {
        let mut problems = Vec::new();
        for (index, branch) in self.branches.iter().enumerate() {
            if (branch.says == Says::Suspended) != asked.suspended {
                continue;
            }
            // A trace shows all that the condition reads.
            let shown = tried.as_ref().map(|_| scope.holds_apart(&branch.when));
            let result = match self.prefilter.decide(index, scope) {
                Decision::Is(is_true) => Truth::Is(is_true),
                Decision::Rest(rest) => scope.rest_holds(&branch.when, rest),
                Decision::Unknown => scope.holds(&branch.when),
            };
            let outcome = |result: &Truth<'_, Bytes<'_>>| Outcome::of(result, &branch.when, &self.paths);
            if let (Some(tried), Some(shown)) = (&mut tried, shown) {
                debug_assert!(agree(&result, &shown), "{}", branch.text);
                // An evaluation without an end is no more than what was decided.
                let has_end = !matches!(&shown, Truth::Fault(fault) if fault.is_final());
                let outcome = outcome(if has_end { &shown } else { &result });
                tried.push((index, branch.says.key(), branch.text.to_string(), outcome));
            }
            match &result {
                Truth::Is(false) | Truth::Fault(Fault::Absent(_)) => continue,
                Truth::Is(true) => {
                    let words = asked.draft.branches.get(index).map(|branch| &branch.words);
                    let mut verdict = self.says(branch, scope.run, asked, keep, words);
                    verdict.problems = problems;
                    return Some(verdict);
                }
                _ => {}
            }
            if let Outcome::Error(error) = outcome(&result) {
                let message = format!("rule {}, {}: {error}", (asked.name)(), branch.says.key());
                if matches!(&result, Truth::Fault(fault) if fault.is_final()) {
                    return Some(Verdict::new(Status::Unknown, asked.basis, "RuleFailed", message));
                }
                problems.push(Problem { path: Cow::Borrowed(""), message: message.into() });
            }
        }
        if asked.suspended || !self.has_current {
            return None;
        }
        let mut verdict = self.not_yet(scope.run, asked, keep);
        verdict.problems = problems;
        Some(verdict)
    }

    fn says<'w: 'e, 'e>(
        &self,
        branch: &'w Branch,
        run: &'e Run<'e>,
        asked: &Asked<'_>,
        keep: Keep<'w>,
        words: Option<&DraftWords>,
    ) -> Verdict {
        let status = match branch.says {
            Says::Suspended | Says::Current => Status::Current,
            Says::Failed => Status::Failed,
            Says::InProgress => Status::InProgress,
            Says::Unknown => Status::Unknown,
        };
        let words = asked.words(&branch.words, words);
        let (reason, message) = words.render(run);
        // Whatever the controller calls it: of a branch `suspended`, a condition gives the message alone.
        let reason = reason.filter(|_| branch.says != Says::Suspended || words.reason.is_some());
        let reason = reason.map_or_else(|| Cow::Borrowed(branch.says.word()), keep);
        let message = keep(message.unwrap_or(Cow::Borrowed(&*branch.text)));
        let verdict = Verdict::new(status, asked.basis, reason, message);
        match (branch.says, words.class) {
            (Says::Failed, class) => verdict.failure(class.unwrap_or(FailureClass::Other), words.terminal),
            (Says::InProgress, Some(class)) => verdict.failure(class, false),
            _ => verdict,
        }
    }

    /// The verdict where no branch holds.
    fn not_yet<'w: 'e, 'e>(&'w self, run: &'e Run<'e>, asked: &Asked<'_>, keep: Keep<'w>) -> Verdict {
        let basis = asked.basis;
        let status = run.object.known(kstatus::Known::STATUS);
        let has_status = status.is_some_and(says_something);
        let words = self.otherwise.as_ref().map(|words| asked.words(words, asked.draft.otherwise.as_ref()));
        if let Some(message) = run.conditions.lagging() {
            return Verdict::new(Status::InProgress, basis, "LatestGenerationNotObserved", message);
        }
        let verdict = if has_status {
            let (reason, message) = words.map(|words| words.render(run)).unwrap_or_default();
            let current = self.branches.iter().find(|branch| branch.says == Says::Current);
            let not_yet = || ["not yet: ", current.map_or("", |branch| &branch.text)].concat();
            let reason = reason.map_or(Cow::Borrowed("NotCurrent"), keep);
            let message = message.map_or_else(|| Cow::Owned(not_yet()), keep);
            Verdict::new(Status::InProgress, basis, reason, message)
        } else {
            let message = "the controller has not reported a status yet";
            Verdict::new(Status::InProgress, basis, NO_STATUS, message)
        };
        match words.and_then(|words| words.class) {
            Some(class) => verdict.failure(class, false),
            None => verdict,
        }
    }
}

/// Whether a status holds more than the condition that `augment` writes where there is none.
fn says_something(status: Node<'_>) -> bool {
    let is = |node: Node<'_>, key: &str, word: &str| node.get(key).is_some_and(|value| value.is(word));
    let is_ours =
        |condition| is(condition, "type", kstatus::RECONCILING) && is(condition, "reason", NO_STATUS);
    status.members().any(|(key, value)| key != "conditions" || !value.elements().all(is_ours))
}

impl Words {
    fn compile(words: &DraftWords, names: Names, errors: &mut Vec<LoadError>) -> Self {
        let mut paths = Paths::default();
        let mut compiled = Self::default();
        compiled.add(words, names, &mut paths, errors);
        Self { paths, ..compiled }
    }

    fn add(&mut self, words: &DraftWords, names: Names, paths: &mut Paths, errors: &mut Vec<LoadError>) {
        self.from = words.from.as_ref().and_then(|from| {
            let expression = from.text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
            let Some(expression) = expression else { return Some(From::Type(from.text.as_str().into())) };
            let program = compile(expression, names, paths);
            program
                .map_err(|error| errors.push(from.error(2 + error.at.unwrap_or(0), error.message)))
                .ok()
                .map(From::Expression)
        });
        let mut template = |text: &Option<Sourced>| {
            let text = text.as_ref()?;
            Template::compile(&text.text, names, paths).map_err(|error| errors.push(place(text, error))).ok()
        };
        self.reason = template(&words.reason).map(|reason| {
            let word = reason.as_text().and_then(|text| camel_case(text.to_owned()));
            word.map_or(Line::Template(reason), |word| Line::Same(word.into()))
        });
        self.message = template(&words.message).map(|message| {
            let text = message.as_text().filter(|text| !text.is_empty()).map(Box::from);
            text.map_or(Line::Template(message), Line::Same)
        });
        (self.class, self.terminal) = (words.class, words.terminal);
    }

    /// Reason and message, as far as they are given and not empty.
    fn render<'w: 'e, 'e>(&'w self, run: &'e Run<'e>) -> (Option<Cow<'w, str>>, Option<Cow<'w, str>>) {
        let scope = LazyCell::new(|| Scope::new(run, &self.paths));
        let filled = |text: String| Some(text).filter(|text| !text.is_empty());
        let line = |line: &'w Option<Line>| match line.as_ref()? {
            Line::Same(text) => Some(Cow::Borrowed(&**text)),
            Line::Template(template) => filled(template.render(&scope)).map(Cow::Owned),
        };
        let (mut reason, mut message) = (line(&self.reason), line(&self.message));
        let condition = match &self.from {
            _ if reason.is_some() && message.is_some() => None,
            None => None,
            Some(From::Type(type_)) => run.conditions.get(type_).map(Given::Condition),
            Some(From::Expression(program)) => match scope.evaluate(program) {
                Ok(Val::Map(Map::Data(Bytes(element)))) => {
                    Some(Given::Condition(ConditionFields::of(element)))
                }
                // What `worst` says of a condition that is not there.
                Ok(Val::Map(map)) => Some(Given::Map(map)),
                _ => None,
            },
        };
        if let Some(condition) = condition {
            let text = |member| condition.text(member).unwrap_or_default().into_owned();
            if reason.is_none() {
                let given = filled(text(Member::Reason)).or_else(|| {
                    // As this library's other rules have it: Ready, NotReady, ReadyUnknown.
                    let type_ = filled(text(Member::Type))?;
                    Some(match &*text(Member::Status) {
                        "True" => type_,
                        "False" => ["Not", &type_].concat(),
                        _ => [&type_, "Unknown"].concat(),
                    })
                });
                reason = given.map(Cow::Owned);
            }
            if message.is_none() {
                let given = filled(text(Member::Message)).or_else(|| {
                    let because =
                        filled(text(Member::Reason)).map_or(String::new(), |reason| [": ", &reason].concat());
                    Some(format!("condition {} is {}{because}", text(Member::Type), text(Member::Status)))
                });
                message = given.map(Cow::Owned);
            }
        }
        let reason = reason.and_then(|reason| match reason {
            // It is one word already.
            Cow::Borrowed(word) => Some(Cow::Borrowed(word)),
            Cow::Owned(text) => camel_case(text).map(Cow::Owned),
        });
        (reason, message)
    }
}

/// A reason as the API demands it: one word. What is none becomes one: `not ready` is `NotReady`.
fn camel_case(text: String) -> Option<String> {
    const MAX_REASON_BYTES: usize = 128;
    let is_word = text.len() <= MAX_REASON_BYTES
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':'));
    if is_word && text.starts_with(|c: char| c.is_ascii_uppercase()) {
        return Some(text);
    }
    let mut word = String::new();
    for part in text.split(|c: char| !c.is_ascii_alphanumeric()) {
        let mut chars = part.chars();
        let Some(first) = chars.next() else { continue };
        if word.is_empty() && !first.is_ascii_alphabetic() {
            word.push_str("Reason");
        }
        word.push(first.to_ascii_uppercase());
        word.push_str(chars.as_str());
        if word.len() > MAX_REASON_BYTES {
            word.truncate(MAX_REASON_BYTES);
            break;
        }
    }
    Some(word).filter(|word| !word.is_empty())
}

/// Whether a condition was decided as its evaluation decides it, as far as both have an end.
fn agree(decided: &Truth<'_, Bytes<'_>>, evaluated: &Truth<'_, Bytes<'_>>) -> bool {
    match (decided, evaluated) {
        (Truth::Fault(fault), _) | (_, Truth::Fault(fault)) if fault.is_final() => true,
        (Truth::Is(false) | Truth::Fault(Fault::Absent(_)), evaluated) => {
            matches!(evaluated, Truth::Is(false) | Truth::Fault(Fault::Absent(_)))
        }
        (Truth::Is(true), evaluated) => matches!(evaluated, Truth::Is(true)),
        (Truth::Fault(decided), Truth::Fault(evaluated)) => decided == evaluated,
        (Truth::Fault(_), _) => false,
        (Truth::Other(_), evaluated) => matches!(evaluated, Truth::Other(_)),
    }
}

/// Joins the lines of an expression.
fn on_a_line(text: &str) -> Box<str> {
    // Without an early exit, so that it is vectorized.
    let is_printable = text.bytes().fold(true, |all, byte| all & matches!(byte, b' '..=b'~'));
    if !is_printable || text.contains("  ") || text.starts_with(' ') || text.ends_with(' ') {
        return text.split_whitespace().collect::<Vec<_>>().join(" ").into();
    }
    text.into()
}

fn place(source: &Sourced, error: CompileError) -> LoadError {
    source.error(error.at.unwrap_or(0), error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_words() {
        for (text, word) in [
            ("AllUp", Some("AllUp")),
            ("not ready", Some("NotReady")),
            ("in-progress", Some("InProgress")),
            ("ready", Some("Ready")),
            ("404", Some("Reason404")),
            ("Spec:Invalid", Some("Spec:Invalid")),
            ("…", None),
        ] {
            assert_eq!(camel_case(text.to_owned()).as_deref(), word, "{text}");
        }
    }
}
