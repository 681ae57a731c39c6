//! Words in fields that sum up a state: `status.phase`, `state`, `status`, `health`.

use super::context::Context;
use super::lexicon::{Role, WORDS};
use super::vocabulary::{self, Sense};
use crate::fields::{Field, Parent};
use crate::node::{Key, Node, Shown};
use crate::reason;
use crate::text::text;
use crate::verdict::{Basis, FailureClass, Status, Text, Verdict};

/// A word that is understood.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) sense: Sense,
    /// The word of the vocabulary, where it is one.
    known: Option<&'static str>,
    /// A string.
    text: Node<'a>,
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
    /// Reads the words of the fields that sum up. `kind` is that of the object.
    pub(super) fn read(&mut self, context: &Context<'_, 'a>, kind: &[u8]) {
        for field in [Field::Phase, Field::State, Field::StatusWord, Field::Health] {
            if let Some(text) = context.object.get(field).and_then(summary) {
                self.add(Key::of_text(field.key()), text, kind);
            }
        }
    }

    /// Whether one of them says how the object is.
    pub(super) fn is_any(&self) -> bool {
        self.working.is_some() || self.running.is_some() || self.done.is_some()
    }

    /// Adds a word, which is a string; whether it is understood.
    pub(super) fn add(&mut self, key: Key<'a>, text: Node<'a>, kind: &[u8]) -> bool {
        let Some((known, sense)) = sense_of(text) else { return false };
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
        let detail = context.object.get(Field::StatusMessage).filter(|message| message.is_filled());
        let detail = detail.or_else(|| if status == Status::Current { None } else { self.detail(context) });
        let (key, word) = (&*self.key.text(), &*self.text.as_str().unwrap_or_default());
        let message = match detail {
            Some(detail) => match detail.plain().map(std::str::from_utf8) {
                // Most texts have no escapes, and need not be measured.
                Some(Ok(detail)) => ["status.", key, " is ", word, ": ", detail].concat(),
                _ => text!("status.{key} is {word}: {}", Shown(detail)),
            },
            None => ["status.", key, " is ", word].concat(),
        };
        let reason = match self.sense {
            Sense::Still => reason::SUSPENDED.into(),
            _ => self.known.map_or_else(|| camel_case(word), Text::from),
        };
        let verdict = Verdict::new(status, Basis::PhaseWord, reason, message);
        if status == Status::Failed { verdict.failure(FailureClass::Other, false) } else { verdict }
    }

    /// The message, error or reason beside the word: in the word's own map, or else in the status.
    fn detail<'a>(&self, context: &Context<'_, 'a>) -> Option<Node<'a>> {
        let key = self.key.bytes();
        let own = Parent::Status.field(&key).map_or(0, Field::bit);
        let (mut beside, mut holder) = (Detail::default(), None);
        let fields = own | Field::StatusReason.bit() | Field::StatusError.bit();
        for (name, value) in context.object.members(Parent::Status, fields) {
            beside.add(name, value);
            if name.bytes() == key {
                holder = Some(value);
            }
        }
        // `lastOperation: {state: Failed, description: …}`
        let inside = holder
            .filter(|holder| holder.is_map())
            .and_then(|holder| Detail::of(holder).text(Some(self.text)));
        inside.or_else(|| beside.text(Some(self.text)))
    }

    /// Whether it says what goes on, which a controller's summary does not contradict: `Upgrading`, and not `Pending`.
    pub(super) fn is_in_hand(&self) -> bool {
        self.known.is_none_or(|known| known.ends_with("ing") && !matches!(known, "Pending" | "Waiting"))
    }

    /// Whether it says that a task is over.
    pub(super) fn is_end(&self) -> bool {
        const ENDS: &[&str] =
            &["Complete", "Completed", "Done", "Finished", "Succeeded", "Success", "Successful"];
        self.known.is_some_and(|known| ENDS.contains(&known))
    }

    /// Whether it says that the object is about to stand still.
    pub(super) fn is_stopping(&self) -> bool {
        const STOPPING: &[&str] =
            &["Deleting", "Draining", "ShuttingDown", "Stopping", "Suspending", "Terminating"];
        self.known.is_some_and(|known| STOPPING.contains(&known))
    }
}

/// Messages, errors and reasons in a map. Of two members with one key the last counts.
#[derive(Clone, Copy, Default)]
pub(super) struct Detail<'a>([Option<Node<'a>>; DETAILS.len()]);

/// Their keys, in order of precedence.
const DETAILS: [&str; 7] =
    ["message", "failureMessage", "errorMessage", "error", "description", "failureReason", "reason"];

impl<'a> Detail<'a> {
    pub(super) fn of(map: Node<'a>) -> Self {
        let mut detail = Self::default();
        map.entries().for_each(|(key, value)| detail.add(key, value));
        detail
    }

    fn add(&mut self, key: Key<'a>, value: Node<'a>) {
        if let Some(rank) = DETAILS.iter().position(|known| key.is(known))
            && let Some(slot) = self.0.get_mut(rank)
        {
            *slot = Some(value);
        }
    }

    /// The first that is not empty and does not repeat the word, where there is one.
    pub(super) fn text(self, word: Option<Node<'_>>) -> Option<Node<'a>> {
        let repeats = |text: Node<'_>| word.is_some_and(|word| text.as_str() == word.as_str());
        self.0.into_iter().flatten().find(|text| is_text(*text) && !repeats(*text))
    }
}

/// Whether a message or an error is given: some controllers write `None` where there is none.
pub(super) fn is_text(node: Node<'_>) -> bool {
    node.is_filled() && !node.is("None") && !node.is("none")
}

/// A word, or that of a map: `health: {status: Healthy}`, as Argo CD and others write it.
pub(super) fn summary(node: Node<'_>) -> Option<Node<'_>> {
    if node.is_map() {
        return ["status", "state", "phase"]
            .iter()
            .find_map(|key| node.get(key).filter(|node| node.is_filled()));
    }
    Some(node).filter(|node| node.is_filled())
}

/// What a string says, as a word or a phrase.
pub(super) fn sense_of(text: Node<'_>) -> Option<(Option<&'static str>, Sense)> {
    match text.plain() {
        Some(text) => vocabulary::sense(text),
        None => vocabulary::sense(text.as_str()?.as_bytes()),
    }
}

/// A reason of the words of a phrase: `CREATE_FAILED` is `CreateFailed`.
fn camel_case(text: &str) -> Text {
    let mut reason = String::with_capacity(text.len());
    for token in vocabulary::tokens(text.as_bytes()) {
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

/// Whether a kind does something once: for it `Running` is on the way.
pub(super) fn is_task(kind: &[u8]) -> bool {
    let last_word = kind.iter().rposition(u8::is_ascii_uppercase).and_then(|at| kind.get(at..));
    last_word.and_then(|word| WORDS.find(word)).is_some_and(|word| word.is(Role::Task)) && !is_schedule(kind)
}

/// Whether a kind does something again and again.
fn is_schedule(kind: &[u8]) -> bool {
    let is_part = |word: &[u8]| kind.windows(word.len()).any(|part| part == word);
    is_part(b"Schedule") || is_part(b"Cron") || is_part(b"Recurring")
}
