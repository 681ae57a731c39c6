//! The vocabulary of states: what a word or a phrase of a controller means, in any spelling (`in-progress`, `CREATE_FAILED`,
//! `WaitingForApproval`).

pub(super) use super::lexicon::Sense;
use super::lexicon::WORDS;
use super::words::{WordSet, WordTable, words};
use crate::node::same;

/// The meaning of a word or a phrase, and the word of the table that it is.
pub(super) fn sense(text: &[u8]) -> Option<(Option<&'static str>, Sense)> {
    let mut plain = [0; LONGEST_WORD];
    let mut letters = text.iter().filter(|byte| byte.is_ascii_alphanumeric());
    let mut length = 0;
    for (slot, byte) in plain.iter_mut().zip(&mut letters) {
        *slot = byte.to_ascii_lowercase();
        length += 1;
    }
    let plain = plain.get(..length)?;
    if letters.next().is_none()
        && let Some((reason, sense)) = WORDS.find(*plain.first()?, |known| same(known.as_bytes(), plain))
    {
        return Some((Some(reason), *sense));
    }
    phrase(text).map(|sense| (None, sense))
}

/// The meaning of a word that stands alone.
fn word(token: &[u8]) -> Option<Sense> {
    WORDS.get(token).map(|(_, sense)| *sense)
}

/// What several words say together. The last one says most (`DeletingFailed`, `UpgradeInProgress`), then the first
/// (`RetryingAfterError`), then a failure anywhere (`CompletedWithErrors`).
fn phrase(text: &[u8]) -> Option<Sense> {
    let phrase = Phrase::of(text);
    let tokens = phrase.tokens();
    let (first, last) = (*tokens.first()?, *tokens.last()?);
    let starts = word(first);
    if text.contains(&b' ') || phrase.is_cut {
        // A sentence: `Error: no such bucket`, `Waiting for the database`.
        let says = if is_failure(first) { Some(Sense::Wrong) } else { starts };
        return says.filter(|sense| matches!(sense, Sense::Wrong | Sense::Working));
    }
    if tokens.len() == 1 {
        let says = if is_failure(first) { Some(Sense::Wrong) } else { None };
        return says.or_else(|| is_gerund(first).then_some(Sense::Working));
    }
    let waits = starts == Some(Sense::Working) || is_one_of(first, WAITING);
    let needs = is_one_of(last, &["needed", "required"]) || is_one_of(first, &["needs", "requires"]);
    if (waits || needs) && tokens.iter().any(|token| is_one_of(token, PERSONS)) {
        return Some(Sense::Still);
    }
    if phrase.ends_in_failure() {
        return Some(Sense::Wrong);
    }
    // A part of it is not all of it.
    if waits || is_one_of(first, &["not", "partial", "partially"]) {
        return Some(Sense::Working);
    }
    if phrase.has_failure() || tokens.iter().any(|token| is_one_of(token, &["rollback"])) {
        return Some(Sense::Wrong);
    }
    let (before, ends) = phrase.ending();
    match ends? {
        // `VolumesReady` is a step: only an operation that is done as a whole counts.
        Sense::Done => before.iter().all(|token| is_one_of(token, OPERATIONS)).then_some(Sense::Done),
        sense @ (Sense::Working | Sense::Still) => Some(sense),
        Sense::Wrong => Some(Sense::Wrong),
        Sense::Running | Sense::Unknown => None,
    }
}

/// Whether a word says what is being done, and not how things are: `Defragmenting`, but not `Listening`.
fn is_gerund(token: &[u8]) -> bool {
    static STEADY: WordSet = words![
        "existing",
        "following",
        "leading",
        "listening",
        "managing",
        "mirroring",
        "missing",
        "monitoring",
        "nothing",
        "polling",
        "recording",
        "replicating",
        "streaming",
        "string",
        "tracking",
        "warning",
        "watching",
        "working",
    ];
    let ending = token.len().checked_sub(3).and_then(|at| token.get(at..));
    token.len() > 6 && ending.is_some_and(|end| end.eq_ignore_ascii_case(b"ing")) && !STEADY.contains(token)
}

/// Whether a reason names a failure: `CreateFailed`, `INVALID_SPEC`, but not `WaitingForFailover`, `RetryingAfterError`.
pub(super) fn names_failure(reason: &[u8]) -> bool {
    let phrase = Phrase::of(reason);
    let waits = |token: &&[u8]| word(token) == Some(Sense::Working) || is_one_of(token, WAITING);
    phrase.ends_in_failure() || phrase.has_failure() && !phrase.tokens().first().is_some_and(waits)
}

/// Whether a message begins with a failure: `Error: no such table`, `failed to create the bucket`.
pub(super) fn reports_failure(message: &[u8]) -> bool {
    Tokens(message)
        .next()
        .is_some_and(|first| is_one_of(first, &["err", "error", "errors", "failed", "failure"]))
}

/// Words with which a message says that the controller tries again by itself: `retrying in 30s`.
pub(super) const RETRIES: &[&str] = &["etrying", "ill retry", "ill be retried"];

/// Whether a reason says that the object stands still by choice: `ReconciliationPaused`, `ScaledToZero`.
pub(super) fn names_standstill(reason: &[u8]) -> bool {
    matches!(sense(reason), Some((_, Sense::Still)))
}

/// Whether a reason says that work goes on: `InProgress`, `WaitingForPods`.
pub(super) fn names_work(reason: &[u8]) -> bool {
    matches!(sense(reason), Some((_, Sense::Working | Sense::Running | Sense::Unknown)))
}

/// Whether a reason says that the controller waits or tries again.
pub(super) fn names_waiting(reason: &[u8]) -> bool {
    let first = Tokens(reason).next();
    first.is_some_and(|first| {
        is_one_of(first, WAITING) || is_one_of(first, &["pending", "retrying", "waiting"])
    })
}

/// Whether a reason says that work is over: `Completed`, `NewReplicaSetAvailable`.
pub(super) fn names_success(reason: &[u8]) -> bool {
    let phrase = Phrase::of(reason);
    let (before, sense) = phrase.ending();
    let is_negated = before.last().is_some_and(|token| is_one_of(token, &["not", "yet"]));
    reason == b"AsExpected" || sense == Some(Sense::Done) && !is_negated && !phrase.has_failure()
}

/// More letters than any word of the vocabulary has.
const LONGEST_WORD: usize = 24;

/// Number of words beyond which a text is no phrase.
const MAX_PHRASE_WORDS: usize = 8;

/// The words of an identifier or a sentence, up to a number beyond which it is no phrase.
#[derive(Clone, Copy)]
pub(super) struct Phrase<'a> {
    words: [&'a [u8]; MAX_PHRASE_WORDS],
    count: usize,
    /// Whether there are more words.
    is_cut: bool,
}

impl<'a> Phrase<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        let mut phrase = Self { words: [&[]; MAX_PHRASE_WORDS], count: 0, is_cut: false };
        for token in Tokens(text) {
            let Some(slot) = phrase.words.get_mut(phrase.count) else {
                phrase.is_cut = true;
                break;
            };
            *slot = token;
            phrase.count += 1;
        }
        phrase
    }

    pub(super) fn tokens(&self) -> &[&'a [u8]] {
        self.words.get(..self.count).unwrap_or_default()
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether the failure is the last thing it says: `DeletingFailed`, `ImagePullBackOff`, but not
    /// `RecoveringFromError`.
    pub(super) fn ends_in_failure(&self) -> bool {
        let tokens = self.tokens();
        let is_past = tokens.iter().rev().nth(1).is_some_and(|before| is_one_of(before, &["after", "from"]));
        !is_past && tokens.len().checked_sub(1).is_some_and(|last| self.fails_at(last))
    }

    fn has_failure(&self) -> bool {
        (0..self.count).any(|at| self.fails_at(at))
    }

    /// Whether the word at a place is a failure, alone or with the one before, and not a negated one.
    fn fails_at(&self, at: usize) -> bool {
        let tokens = self.tokens();
        let before = |steps: usize| at.checked_sub(steps).and_then(|at| tokens.get(at)).copied();
        let Some(token) = tokens.get(at) else { return false };
        let is_pair = || {
            let first = FAILURE_PAIRS.get(token);
            first.zip(before(1)).is_some_and(|(first, before)| is_one_of(before, first))
        };
        let is_negated = |steps: usize| {
            before(steps).is_some_and(|before| is_one_of(before, &["no", "non", "not", "without", "zero"]))
        };
        // `FailingOver`, `FailedOver`
        let is_failover = || tokens.get(at + 1).is_some_and(|next| is_one_of(next, &["over"]));
        is_failure(token) && !is_negated(1) && !is_failover() || is_pair() && !is_negated(2)
    }

    /// What its last words say, and the words before them: two words (`InProgress`) before one.
    fn ending(&self) -> (&[&'a [u8]], Option<Sense>) {
        let tokens = self.tokens();
        let ends_in = |pair: &(&str, &str, Sense)| {
            let [.., first, second] = tokens else { return false };
            is_one_of(first, &[pair.0]) && is_one_of(second, &[pair.1])
        };
        if let Some((_, _, sense)) = ENDING_PAIRS.iter().find(|pair| ends_in(pair)) {
            return (tokens.get(..tokens.len().saturating_sub(2)).unwrap_or_default(), Some(*sense));
        }
        let Some((last, before)) = tokens.split_last() else { return (&[], None) };
        (before, word(last))
    }
}

/// Words with which a controller reports a failure.
static FAILURES: WordSet = words![
    "aborted",
    "broken",
    "corrupt",
    "corrupted",
    "crash",
    "crashed",
    "crashing",
    "degraded",
    "denied",
    "err",
    "error",
    "errored",
    "errors",
    "exception",
    "fail",
    "failed",
    "failing",
    "failure",
    "failures",
    "fatal",
    "fault",
    "faulted",
    "forbidden",
    "illegal",
    "incompatible",
    "invalid",
    "malformed",
    "misconfigured",
    "refused",
    "rejected",
    "stalled",
    "timedout",
    "timeout",
    "unauthorized",
    "unhealthy",
    "unrecoverable",
    "unsuccessful",
    "unsupported",
];

/// Words that are a failure after certain others.
static FAILURE_PAIRS: WordTable<&[&str]> = WordTable::new(&[
    ("allowed", &["not"]),
    ("exceeded", &["deadline", "limit", "quota"]),
    ("off", &["back"]),
    ("out", &["time", "timed"]),
    ("permitted", &["not"]),
    ("reachable", &["not"]),
    ("supported", &["not"]),
]);

const ENDING_PAIRS: &[(&str, &str, Sense)] = &[
    ("in", "progress", Sense::Working),
    ("in", "sync", Sense::Done),
    ("rolled", "back", Sense::Wrong),
    ("to", "zero", Sense::Still),
];

/// First words of phrases that wait for something.
const WAITING: &[&str] = &["await", "awaiting", "retry", "wait", "waits"];

/// What only a person gives.
const PERSONS: &[&str] = &["approval", "approvals", "confirmation", "human", "manual", "promotion", "user"];

/// What can be done as a whole: `CreateComplete`, `UpdateSucceeded`.
const OPERATIONS: &[&str] = &[
    "all",
    "apply",
    "create",
    "creation",
    "deploy",
    "deployment",
    "fully",
    "install",
    "installation",
    "is",
    "operation",
    "provision",
    "provisioning",
    "reconcile",
    "reconciliation",
    "resource",
    "sync",
    "update",
    "upgrade",
];

fn is_failure(token: &[u8]) -> bool {
    FAILURES.contains(token)
}

/// Whether a word is one of these, which are in lower case.
pub(super) fn is_one_of(token: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| word.as_bytes().eq_ignore_ascii_case(token))
}

/// The words of `CamelCase`, `snake_case`, `kebab-case`, `UPPER_CASE` and sentences.
struct Tokens<'a>(&'a [u8]);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(u8::is_ascii_alphanumeric)?;
        let text = self.0.get(start..)?;
        let mut end = 1;
        let mut is_capital = text.first().is_some_and(u8::is_ascii_uppercase);
        while let Some(byte) = text.get(end).filter(|byte| byte.is_ascii_alphanumeric()) {
            let was_capital = is_capital;
            is_capital = byte.is_ascii_uppercase();
            // `createFailed` before the F, `IAMFailure` before the F, which a small letter follows.
            if is_capital && (!was_capital || text.get(end + 1).is_some_and(u8::is_ascii_lowercase)) {
                break;
            }
            end += 1;
        }
        let (token, rest) = text.split_at(end);
        self.0 = rest;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_split_into_words() {
        let words = |text: &'static str| {
            Tokens(text.as_bytes()).map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(words("CreateFailed"), ["Create", "Failed"]);
        assert_eq!(words("IAMFailure"), ["IAM", "Failure"]);
        assert_eq!(words("CREATE_FAILED"), ["CREATE", "FAILED"]);
        assert_eq!(words("in-progress"), ["in", "progress"]);
        assert_eq!(words("K8sReady"), ["K8s", "Ready"]);
        assert_eq!(words("Error: no such bucket"), ["Error", "no", "such", "bucket"]);
        assert_eq!(words(" é "), [""; 0]);
    }

    #[test]
    fn failures_in_reasons() {
        for reason in [
            "CreateFailed",
            "Error",
            "InvalidSpec",
            "ReconcileError",
            "IAMFailure",
            "Failed_2",
            "failed",
            "CREATE_FAILED",
            "sync-error",
            "ImagePullBackOff",
            "RequestTimedOut",
            "ProgressDeadlineExceeded",
            "ProvisioningFailed",
            "FailedToCreate",
        ] {
            assert!(names_failure(reason.as_bytes()), "{reason}");
        }
        for reason in [
            "",
            "WaitingForFailover",
            "Errorless",
            "NotReady",
            "DependencyNotReady",
            "NoErrors",
            "RetryingAfterError",
            "FailingOver",
            "WaitingForFailedPods",
            "Offline",
        ] {
            assert!(!names_failure(reason.as_bytes()), "{reason}");
        }
    }

    #[test]
    fn phrases() {
        let cases = [
            ("CREATE_COMPLETE", Some(Sense::Done)),
            ("updateSucceeded", Some(Sense::Done)),
            ("ReconciliationSuccessful", Some(Sense::Done)),
            ("VolumesReady", None),
            ("PreBackupCompleted", None),
            ("PartiallyReady", Some(Sense::Working)),
            ("PartiallyFailed", Some(Sense::Wrong)),
            ("CompletedWithErrors", Some(Sense::Wrong)),
            ("UPDATE_ROLLBACK_COMPLETE", Some(Sense::Wrong)),
            ("NotStarted", Some(Sense::Working)),
            ("not-installed", Some(Sense::Working)),
            ("CreatingCluster", Some(Sense::Working)),
            ("UpgradeInProgress", Some(Sense::Working)),
            ("WaitingForDatabase", Some(Sense::Working)),
            ("WaitingForManualApproval", Some(Sense::Still)),
            ("awaiting-user-confirmation", Some(Sense::Still)),
            ("ApprovalRequired", Some(Sense::Still)),
            ("ReconcilePaused", Some(Sense::Still)),
            ("ManuallyStopped", Some(Sense::Still)),
            ("RetryingAfterError", Some(Sense::Working)),
            ("DeletingFailed", Some(Sense::Wrong)),
            ("ValidationError", Some(Sense::Wrong)),
            ("Error: no such bucket", Some(Sense::Wrong)),
            ("Waiting for the database", Some(Sense::Working)),
            ("Cluster in healthy state", None),
            ("NoFailures", None),
            ("Sparkly", None),
            ("Defragmenting", Some(Sense::Working)),
            ("Listening", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(sense(text.as_bytes()).map(|(_, sense)| sense), expected, "{text}");
        }
    }
}
