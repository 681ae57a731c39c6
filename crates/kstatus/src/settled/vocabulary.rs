//! The vocabulary of states: what a word or a phrase of a controller means, in any spelling (`in-progress`, `CREATE_FAILED`,
//! `WaitingForApproval`).

pub(super) use super::lexicon::Sense;
use super::lexicon::{ENDING_PAIRS, FAILURE_PAIRS, Known, Role, WORDS};
use super::words::{CHUNKS, LONGEST_WORD, LOWER_CASE, Letters, last_word};

/// The meaning of a word or a phrase, and the word of the table that it is.
pub(super) fn sense(text: &[u8]) -> Option<(Option<&'static str>, Sense)> {
    Phrase::with(text, Phrase::sense)
}

/// Whether a word says what is being done, and not how things are: `Defragmenting`, but not `Listening`.
fn is_gerund(token: &[u8]) -> bool {
    let ending = token.len().checked_sub(3).and_then(|at| token.get(at..));
    token.len() > 6 && ending.is_some_and(|end| end.eq_ignore_ascii_case(b"ing"))
}

/// Whether a message begins with a failure: `Error: no such table`, `failed to create the bucket`.
pub(super) fn reports_failure(message: &[u8]) -> bool {
    let first = Tokens(message).next();
    first.is_some_and(|first| WORDS.find(first).is_some_and(|known| known.is(Role::Error)))
}

/// Words with which a message says that the controller tries again by itself: `retrying in 30s`.
pub(super) const RETRIES: &[&str] = &["etrying", "ill retry", "ill be retried"];

/// Number of words beyond which a text is no phrase.
const MAX_PHRASE_WORDS: usize = 8;

/// The words of an identifier or a sentence, up to a number beyond which it is no phrase.
pub(super) struct Phrase<'a> {
    text: &'a [u8],
    words: [Word; MAX_PHRASE_WORDS],
    count: usize,
    /// Whether there are more words.
    is_cut: bool,
    /// A bit for each role that one of the words has.
    roles: u32,
}

/// A word of a phrase.
#[derive(Clone, Copy)]
pub(super) struct Word {
    start: u32,
    end: u32,
    known: Option<&'static Known>,
}

impl Word {
    pub(super) fn is(&self, role: Role) -> bool {
        self.known.is_some_and(|known| known.is(role))
    }

    /// The state that it names alone.
    fn sense(&self) -> Option<Sense> {
        self.known?.state.map(|(_, sense)| sense)
    }

    pub(super) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether it begins a phrase that waits for something or goes on.
    fn waits(&self) -> bool {
        self.sense() == Some(Sense::Working) || self.is(Role::Waiting)
    }
}

impl<'a> Phrase<'a> {
    /// What is found out of the words of a text. They are lent, since they are large to be moved.
    #[inline]
    pub(super) fn with<R>(text: &'a [u8], read: impl FnOnce(&Self) -> R) -> R {
        let words = [Word { start: 0, end: 0, known: None }; MAX_PHRASE_WORDS];
        let mut phrase = Self { text, words, count: 0, is_cut: false, roles: 0 };
        if text.len() > BLOCK {
            phrase.add_words_one_by_one();
        } else {
            phrase.add_words();
        }
        read(&phrase)
    }

    /// Adds the words of a text that is not longer than a block.
    fn add_words(&mut self) {
        let mut block = Block([0; BLOCK_CHUNKS]);
        let Characters { any, capital, small } = block.read(self.text);
        // `createFailed` before the F, `IAMFailure` before the F, which a small letter follows.
        let mut starts = any & (!(any << 1) | capital & (!(capital << 1) | small >> 1));
        let borders = starts | !any;
        while starts != 0 {
            let start = starts.trailing_zeros();
            starts &= starts - 1;
            let end = (borders & (!1 << start)).trailing_zeros();
            let letters = Letters::of_prefix(block.at(start), (end - start) as usize);
            if !self.add_word(start, end, letters.and_then(|letters| WORDS.get(letters))) {
                return;
            }
        }
    }

    /// As [`add_words`](Self::add_words), for texts of any length.
    #[cold]
    #[inline(never)]
    fn add_words_one_by_one(&mut self) {
        let mut tokens = Tokens(self.text);
        while let Some(token) = tokens.next() {
            // Objects are smaller than 4 GiB.
            let end = self.text.len() - tokens.0.len();
            if !self.add_word((end - token.len()) as u32, end as u32, WORDS.find(token)) {
                return;
            }
        }
    }

    /// Adds a word; false if there are too many.
    #[inline]
    fn add_word(&mut self, start: u32, end: u32, known: Option<&'static Known>) -> bool {
        let Some(slot) = self.words.get_mut(self.count) else {
            self.is_cut = true;
            return false;
        };
        *slot = Word { start, end, known };
        self.count += 1;
        self.roles |= known.map_or(0, |known| known.roles);
        true
    }

    pub(super) fn words(&self) -> &[Word] {
        self.words.get(..self.count).unwrap_or_default()
    }

    /// The text of one of its words.
    pub(super) fn text(&self, word: &Word) -> &'a [u8] {
        self.text.get(word.start as usize..word.end as usize).unwrap_or_default()
    }

    /// Whether it has more words than are looked at.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether one of its words has this role.
    pub(super) fn has(&self, role: Role) -> bool {
        self.roles & role.bit() != 0
    }

    /// The word that all of the text is.
    pub(super) fn single(&self) -> Option<&Word> {
        self.words().first().filter(|word| word.len() == self.text.len())
    }

    /// The text as one word, whatever separates its letters.
    fn as_word(&self) -> Option<&'static Known> {
        if let Some(word) = self.single() {
            return word.known;
        }
        if self.text.len() <= LONGEST_WORD && self.text.iter().all(u8::is_ascii_alphanumeric) {
            return WORDS.find(self.text);
        }
        let mut letters = [0; LONGEST_WORD];
        let mut length = 0;
        for byte in self.text.iter().filter(|byte| byte.is_ascii_alphanumeric()) {
            *letters.get_mut(length)? = *byte;
            length += 1;
        }
        WORDS.find(letters.get(..length)?)
    }

    /// The meaning of the word or the phrase, and the word of the table that it is.
    pub(super) fn sense(&self) -> Option<(Option<&'static str>, Sense)> {
        let state = self.as_word().and_then(|word| word.state);
        let known = state.map(|(reason, sense)| (Some(reason), sense));
        known.or_else(|| self.says().map(|sense| (None, sense)))
    }

    /// What several words say together. The last one says most (`DeletingFailed`, `UpgradeInProgress`), then the first
    /// (`RetryingAfterError`), then a failure anywhere (`CompletedWithErrors`).
    fn says(&self) -> Option<Sense> {
        let words = self.words();
        let (first, last) = (words.first()?, words.last()?);
        if self.text.contains(&b' ') || self.is_cut {
            // A sentence: `Error: no such bucket`, `Waiting for the database`.
            let says = if first.is(Role::Failure) { Some(Sense::Wrong) } else { first.sense() };
            return says.filter(|sense| matches!(sense, Sense::Wrong | Sense::Working));
        }
        if words.len() == 1 {
            let says = if first.is(Role::Failure) { Some(Sense::Wrong) } else { None };
            let is_gerund = || !first.is(Role::Steady) && is_gerund(self.text(first));
            return says.or_else(|| is_gerund().then_some(Sense::Working));
        }
        let waits = first.waits();
        let needs = last.is(Role::Needed) || first.is(Role::Need);
        if (waits || needs) && self.has(Role::Person) {
            return Some(Sense::Still);
        }
        if self.ends_in_failure() {
            return Some(Sense::Wrong);
        }
        // A part of it is not all of it.
        if waits || first.is(Role::Not) || first.is(Role::Partial) {
            return Some(Sense::Working);
        }
        if self.has_failure() || self.has(Role::Rollback) {
            return Some(Sense::Wrong);
        }
        let (before, ends) = self.ending();
        match ends? {
            // `VolumesReady` is a step: only an operation that is done as a whole counts.
            Sense::Done => before.iter().all(|word| word.is(Role::Operation)).then_some(Sense::Done),
            sense @ (Sense::Working | Sense::Still) => Some(sense),
            Sense::Wrong => Some(Sense::Wrong),
            Sense::Running | Sense::Unknown => None,
        }
    }

    /// Whether a reason names a failure: `CreateFailed`, `INVALID_SPEC`, but not `WaitingForFailover`, `RetryingAfterError`.
    pub(super) fn names_failure(&self) -> bool {
        self.ends_in_failure() || self.has_failure() && !self.words().first().is_some_and(Word::waits)
    }

    /// Whether a reason says that the object stands still by choice: `ReconciliationPaused`, `ScaledToZero`.
    pub(super) fn names_standstill(&self) -> bool {
        matches!(self.sense(), Some((_, Sense::Still)))
    }

    /// Whether a reason says that work goes on: `InProgress`, `WaitingForPods`.
    pub(super) fn names_work(&self) -> bool {
        matches!(self.sense(), Some((_, Sense::Working | Sense::Running | Sense::Unknown)))
    }

    /// Whether a reason says that the controller waits or tries again.
    pub(super) fn names_waiting(&self) -> bool {
        self.words().first().is_some_and(|word| word.is(Role::Waiting) || word.is(Role::WaitingReason))
    }

    /// Whether a reason says that work is over: `Completed`, `NewReplicaSetAvailable`.
    pub(super) fn names_success(&self) -> bool {
        let (before, sense) = self.ending();
        let is_negated = before.last().is_some_and(|word| word.is(Role::Not) || word.is(Role::Yet));
        self.text == b"AsExpected" || sense == Some(Sense::Done) && !is_negated && !self.has_failure()
    }

    /// Whether the failure is the last thing it says: `DeletingFailed`, `ImagePullBackOff`, but not
    /// `RecoveringFromError`.
    pub(super) fn ends_in_failure(&self) -> bool {
        let words = self.words();
        let is_past = || words.iter().rev().nth(1).is_some_and(|before| before.is(Role::Past));
        self.may_fail() && words.len().checked_sub(1).is_some_and(|last| self.fails_at(last)) && !is_past()
    }

    fn has_failure(&self) -> bool {
        self.may_fail() && (0..self.count).any(|at| self.fails_at(at))
    }

    /// Whether one of its words may be a failure.
    fn may_fail(&self) -> bool {
        self.roles & (Role::Failure.bit() | Role::EndOfFailure.bit()) != 0
    }

    /// Whether the word at a place is a failure, alone or with the one before, and not a negated one.
    fn fails_at(&self, at: usize) -> bool {
        let words = self.words();
        let before = |steps: usize| at.checked_sub(steps).and_then(|at| words.get(at));
        let Some(word) = words.get(at) else { return false };
        let is_pair = || {
            let first = before(1).filter(|_| word.is(Role::EndOfFailure));
            first.is_some_and(|first| FAILURE_PAIRS.iter().any(|pair| self.are(first, word, *pair)))
        };
        let is_negated = |steps: usize| before(steps).is_some_and(|before| before.is(Role::Negation));
        // `FailingOver`, `FailedOver`
        let is_failover = || words.get(at + 1).is_some_and(|next| next.is(Role::Over));
        word.is(Role::Failure) && !is_negated(1) && !is_failover() || is_pair() && !is_negated(2)
    }

    /// Whether two of its words are these.
    fn are(&self, first: &Word, second: &Word, pair: (&str, &str)) -> bool {
        let is = |word: &Word, known: &str| self.text(word).eq_ignore_ascii_case(known.as_bytes());
        is(first, pair.0) && is(second, pair.1)
    }

    /// What its last words say, and the words before them: two words (`InProgress`) before one.
    fn ending(&self) -> (&[Word], Option<Sense>) {
        let Some((last, before)) = self.words().split_last() else { return (&[], None) };
        if last.is(Role::EndOfPair)
            && let Some((first, rest)) = before.split_last()
        {
            let pair = ENDING_PAIRS.iter().find(|(pair, _)| self.are(first, last, *pair));
            if let Some((_, sense)) = pair {
                return (rest, Some(*sense));
            }
        }
        (before, last.sense())
    }
}

/// The longest text that is looked at as a whole.
const BLOCK: usize = 64;

/// A text that is not longer than this, in chunks of eight bytes, its letters in lower case.
struct Block([u64; BLOCK_CHUNKS]);

const BLOCK_CHUNKS: usize = BLOCK / 8 + CHUNKS + 1;

/// The kinds of characters of a text, a bit for each character.
struct Characters {
    /// Letters and digits of ASCII.
    any: u64,
    capital: u64,
    small: u64,
}

impl Block {
    /// Fills an empty block with a text, and classifies its characters.
    #[inline]
    fn read(&mut self, text: &[u8]) -> Characters {
        let mut found = Characters { any: 0, capital: 0, small: 0 };
        let (whole, rest) = text.as_chunks::<8>();
        let last = (!rest.is_empty()).then(|| last_word(text, rest));
        let words = whole.iter().map(|word| u64::from_le_bytes(*word)).chain(last);
        for ((index, word), slot) in words.enumerate().zip(&mut self.0) {
            *slot = word | LOWER_CASE;
            let (capital, small) = (within(word, b'A', b'Z'), within(word, b'a', b'z'));
            let shift = 8 * index;
            found.any |= (capital | small | within(word, b'0', b'9')) << shift;
            found.capital |= capital << shift;
            found.small |= small << shift;
        }
        found
    }

    /// The bytes from a position on, as many as the longest word has.
    #[inline]
    fn at(&self, start: u32) -> [u64; CHUNKS] {
        let (first, shift) = ((start / 8) as usize, start % 8 * 8);
        let mut words = [0; CHUNKS];
        if let Some(block) = self.0.get(first..).and_then(<[u64]>::first_chunk::<{ CHUNKS + 1 }>) {
            for (word, pair) in words.iter_mut().zip(block.windows(2)) {
                let [low, high] = pair else { continue };
                // Shifted twice, for a shift by all of the bits is none.
                *word = low >> shift | high << 1 << (u64::BITS - 1 - shift);
            }
        }
        words
    }
}

/// A bit for each of eight bytes that is in a range of ASCII.
#[inline]
fn within(bytes: u64, first: u8, last: u8) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    // No sum is carried into the next byte: each is less than 0x100.
    let low = bytes & !HIGH;
    let from_first = low + ONES * u64::from(0x80 - first);
    let after_last = low + ONES * u64::from(0x7f - last);
    let within = from_first & !after_last & !bytes & HIGH;
    // The product has the first bit of each byte in its highest byte.
    (within >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// The texts of the words of a phrase.
pub(super) fn tokens(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    Tokens(text).take(MAX_PHRASE_WORDS)
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
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_are_those_of_the_tokens(
            text in prop::collection::vec(
                prop_oneof![
                    4 => prop::sample::select(&b"abzABZ019"[..]).prop_map(|byte| vec![byte]),
                    1 => any::<u8>().prop_map(|byte| vec![byte]),
                    2 => prop::sample::select(&["Failed", "not", "READY", "_", "Progress", "sync"][..])
                        .prop_map(|word| word.as_bytes().to_vec()),
                ],
                0..40,
            )
        ) {
            let text = text.concat();
            let expected: Vec<&[u8]> = Tokens(&text).collect();
            Phrase::with(&text, |phrase| {
                let words: Vec<&[u8]> = phrase.words().iter().map(|word| phrase.text(word)).collect();
                prop_assert_eq!(&words[..], &expected[..expected.len().min(MAX_PHRASE_WORDS)]);
                prop_assert_eq!(phrase.is_cut(), expected.len() > MAX_PHRASE_WORDS);
                let mut roles = 0;
                for (word, text) in phrase.words().iter().zip(expected) {
                    let known = WORDS.find(text);
                    prop_assert_eq!(word.known.map(|known| known.state), known.map(|known| known.state));
                    roles |= known.map_or(0, |known| known.roles);
                }
                prop_assert_eq!(phrase.roles, roles);
                Ok(())
            })?;
        }
    }

    #[test]
    fn texts_as_long_as_a_block_are_split() {
        for length in BLOCK - 2..=BLOCK + 2 {
            let text = ["a".repeat(length - 6), "Failed".to_owned()].concat();
            assert!(Phrase::with(text.as_bytes(), Phrase::names_failure), "{length}");
        }
    }

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
            assert!(Phrase::with(reason.as_bytes(), Phrase::names_failure), "{reason}");
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
            assert!(!Phrase::with(reason.as_bytes(), Phrase::names_failure), "{reason}");
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
