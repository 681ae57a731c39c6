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

    /// What stands beside the word in its map, or in the status, and says more.
    fn detail<'a>(&self, context: &Context<'_, 'a>) -> Option<Node<'a>> {
        let mut beside = Detail::default();
        const KNOWN: u128 = Field::Phase.bit()
            | Field::State.bit()
            | Field::StatusWord.bit()
            | Field::Health.bit()
            | Field::StatusReason.bit()
            | Field::StatusError.bit();
        for (key, value) in context.object.members(Parent::Status, KNOWN) {
            if value.is_string() {
                beside.add(key, value);
            } else if value.is_map() && key.bytes() == self.key.bytes() {
                // `lastOperation: {state: Failed, description: …}`
                if let Some(detail) = Detail::of(value).text() {
                    return Some(detail);
                }
            }
        }
        beside.text().filter(|detail| detail.as_str() != self.text.as_str())
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

/// The text beside a word that says most.
#[derive(Clone, Copy, Default)]
pub(super) struct Detail<'a>(Option<(usize, Node<'a>)>);

/// Keys of such texts: the first that is there says most.
const DETAILS: [&str; 6] = ["message", "failureMessage", "errorMessage", "error", "description", "reason"];

/// A bit for each of their lengths: most keys need no comparison.
const LENGTHS: u64 = {
    let (mut lengths, mut at) = (0, 0);
    while at < DETAILS.len() {
        lengths |= 1 << DETAILS[at].len();
        at += 1;
    }
    lengths
};

impl<'a> Detail<'a> {
    /// Of the members of a map.
    pub(super) fn of(map: Node<'a>) -> Self {
        let mut detail = Self::default();
        map.entries().for_each(|(key, value)| detail.add(key, value));
        detail
    }

    /// A member of a map, if it is such a text.
    #[inline]
    fn add(&mut self, key: Key<'a>, value: Node<'a>) {
        if key.plain_length().is_none_or(|length| length < 64 && LENGTHS & (1 << length) != 0) {
            self.add_named(key, value);
        }
    }

    fn add_named(&mut self, key: Key<'a>, value: Node<'a>) {
        let Some(rank) = DETAILS.iter().position(|known| key.is(known)) else { return };
        let says_something = value.is_filled() && !value.is("None") && !value.is("none");
        // Of two members with one key the last counts.
        if says_something && self.0.is_none_or(|(known, _)| rank <= known) {
            self.0 = Some((rank, value));
        }
    }

    pub(super) fn text(self) -> Option<Node<'a>> {
        self.0.map(|(_, text)| text)
    }
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
