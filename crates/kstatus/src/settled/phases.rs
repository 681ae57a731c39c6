//! Words in fields that sum up a state: `status.phase`, `state`, `status`, `health`.

use std::borrow::Cow;

use super::context::Context;
use super::member;
use super::vocabulary::{self, Sense};
use crate::fields::Field;
use crate::node::{Key, Kind, Node, Shown};
use crate::reason;
use crate::text::text;
use crate::verdict::{Basis, FailureClass, Status, Text, Verdict};

/// A word that is understood.
#[derive(Clone)]
pub(super) struct Word<'a> {
    pub(super) sense: Sense,
    /// The word of the vocabulary, where it is one.
    known: Option<&'static str>,
    text: Cow<'a, str>,
    /// Where it stands, below `status`.
    key: Key<'a>,
}

/// The words of a status: of each sense the first.
#[derive(Default)]
pub(super) struct Phases<'a> {
    pub(super) wrong: Option<Word<'a>>,
    pub(super) still: Option<Word<'a>>,
    pub(super) working: Option<Word<'a>>,
    pub(super) unknown: Option<Word<'a>>,
    pub(super) running: Option<Word<'a>>,
    pub(super) done: Option<Word<'a>>,
}

impl<'a> Phases<'a> {
    /// The words of the fields that sum up. `kind` is that of the object.
    pub(super) fn of(context: &Context<'_, 'a>, kind: &[u8]) -> Self {
        let mut phases = Self::default();
        for field in [Field::Phase, Field::State, Field::StatusWord, Field::Health] {
            if let Some(text) = context.object.get(field).and_then(summary) {
                phases.add(Key::of_text(field.key()), text, kind);
            }
        }
        phases
    }

    /// Whether one of them says how the object is.
    pub(super) fn is_any(&self) -> bool {
        self.working.is_some() || self.running.is_some() || self.done.is_some()
    }

    /// Adds a word; whether it is understood.
    pub(super) fn add(&mut self, key: Key<'a>, text: Cow<'a, str>, kind: &[u8]) -> bool {
        let Some((known, sense)) = vocabulary::sense(text.as_bytes()) else { return false };
        let slot = match sense {
            Sense::Wrong => &mut self.wrong,
            Sense::Still => &mut self.still,
            Sense::Working if known == Some("Scheduled") && is_schedule(kind) => &mut self.done,
            Sense::Working => &mut self.working,
            Sense::Running if is_task(kind) => &mut self.working,
            Sense::Running => &mut self.running,
            Sense::Unknown => &mut self.unknown,
            Sense::Done => &mut self.done,
        };
        slot.get_or_insert(Word { sense, known, text, key });
        true
    }
}

impl Word<'_> {
    /// The verdict that the word gives.
    pub(super) fn verdict(&self, context: &Context<'_, '_>, status: Status) -> Verdict {
        let detail =
            context.object.get(Field::StatusMessage).filter(|m| m.kind() == Kind::String && !m.is(""));
        let (key, word) = (&*self.key.text(), &*self.text);
        let message = match detail {
            Some(detail) => text!("status.{key} is {word}: {}", Shown(detail)),
            None => ["status.", key, " is ", word].concat(),
        };
        let reason = match self.sense {
            Sense::Still => reason::SUSPENDED.into(),
            _ => self.known.map_or_else(|| camel_case(word), Text::from),
        };
        let verdict = Verdict::new(status, Basis::PhaseWord, reason, message);
        if status == Status::Failed { verdict.failure(FailureClass::Other, false) } else { verdict }
    }

    /// Whether it says what goes on, which a controller's summary does not contradict: `Upgrading`, and not `Pending`.
    pub(super) fn is_in_hand(&self) -> bool {
        self.known.is_none_or(|known| known.ends_with("ing") && !matches!(known, "Pending" | "Waiting"))
    }

    /// Whether it says that the object is about to stand still.
    pub(super) fn is_stopping(&self) -> bool {
        const STOPPING: &[&str] =
            &["Deleting", "Draining", "ShuttingDown", "Stopping", "Suspending", "Terminating"];
        self.known.is_some_and(|known| STOPPING.contains(&known))
    }
}

/// A word, or that of a map: `health: {status: Healthy}`, as Argo CD and others write it.
pub(super) fn summary(node: Node<'_>) -> Option<Cow<'_, str>> {
    match node.kind() {
        Kind::String => node.as_str().filter(|text| !text.is_empty()),
        Kind::Map => ["status", "state", "phase"].iter().find_map(|key| member(node, key)),
        _ => None,
    }
}

/// A reason of the words of a phrase: `CREATE_FAILED` is `CreateFailed`.
fn camel_case(text: &str) -> Text {
    let phrase = vocabulary::Phrase::of(text.as_bytes());
    let mut reason = String::with_capacity(text.len());
    for token in phrase.tokens() {
        let is_shouted = token.len() > 1 && token.iter().all(u8::is_ascii_uppercase);
        for (at, byte) in token.iter().enumerate() {
            let byte = if at == 0 {
                byte.to_ascii_uppercase()
            } else if is_shouted {
                byte.to_ascii_lowercase()
            } else {
                *byte
            };
            reason.push(char::from(byte));
        }
    }
    reason.into()
}

/// Endings of kinds that do something once.
const TASKS: &[&str] = &[
    "Action",
    "Analysis",
    "Backup",
    "Build",
    "Clone",
    "Execution",
    "Experiment",
    "Export",
    "Import",
    "Job",
    "Migration",
    "Operation",
    "Remediation",
    "Request",
    "Restore",
    "Run",
    "Scan",
    "Snapshot",
    "Suite",
    "Task",
    "Test",
    "Transfer",
    "Upgrade",
    "Upload",
    "Workflow",
];

/// Whether a kind does something once: for it `Running` is on the way.
pub(super) fn is_task(kind: &[u8]) -> bool {
    TASKS.iter().any(|ending| kind.ends_with(ending.as_bytes())) && !is_schedule(kind)
}

/// Whether a kind does something again and again.
fn is_schedule(kind: &[u8]) -> bool {
    let is_part = |word: &[u8]| kind.windows(word.len()).any(|part| part == word);
    is_part(b"Schedule") || is_part(b"Cron") || is_part(b"Recurring")
}
