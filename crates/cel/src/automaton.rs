//! Small patterns over ASCII text as an automaton whose states are bits: compiled in microseconds, where a regular expression takes a hundred.
//!
//! Glushkov's construction: each character, class or anchor of a pattern is a state, and a text matches if some path of states spells it.

/// Maximum number of characters, classes and anchors.
const STATES: usize = 128;

/// A set of states.
type States = u128;

/// A pattern that is matched in ASCII text.
#[derive(Clone, Debug)]
pub(crate) struct Automaton {
    /// The states that each character enters.
    entered: Box<[States; 128]>,
    at_start: States,
    at_end: States,
    /// The states that may follow each state.
    follow: Box<[States]>,
    first: States,
    last: States,
    is_nullable: bool,
}

/// A part of a pattern: where it may begin and end.
#[derive(Clone, Copy, Default)]
struct Part {
    first: States,
    last: States,
    is_nullable: bool,
}

impl Automaton {
    /// `None` if the pattern is too large, or has other syntax than literal text, `.`, classes, groups, `|`, `?`, `*`, `+`, `^`, `$` and a
    /// leading `(?i)`.
    pub(crate) fn parse(pattern: &str) -> Option<Self> {
        let (pattern, folds_case) = match pattern.strip_prefix("(?i)") {
            Some(rest) => (rest, true),
            None => (pattern, false),
        };
        let automaton = Self {
            entered: Box::new([0; 128]),
            at_start: 0,
            at_end: 0,
            follow: Box::default(),
            first: 0,
            last: 0,
            is_nullable: false,
        };
        let mut parser =
            Parser { rest: pattern.as_bytes(), depth: 0, folds_case, automaton, follow: Vec::new() };
        let whole = parser.alternatives()?;
        if !parser.rest.is_empty() {
            return None;
        }
        let Parser { automaton, follow, .. } = parser;
        // An anchor takes no character, but is passed as if it took one: before the first, or after the last.
        let after_some = follow.iter().fold(0, |all, states| all | states);
        let mut ends = follow.iter().enumerate().filter(|(state, _)| automaton.at_end & (1 << state) != 0);
        if after_some & automaton.at_start != 0 || ends.any(|(_, states)| *states != 0) {
            return None;
        }
        let Part { first, last, is_nullable } = whole;
        Some(Self { follow: follow.into(), first, last, is_nullable, ..automaton })
    }

    /// Whether it matches somewhere in a text; `None` if the text is not ASCII.
    pub(crate) fn is_match(&self, text: &str) -> Option<bool> {
        if !text.is_ascii() {
            return None;
        }
        if self.is_nullable {
            return Some(true);
        }
        let mut states = self.first & self.at_start;
        for byte in text.bytes() {
            if states & self.last != 0 {
                return Some(true);
            }
            let entered = self.entered.get(usize::from(byte)).copied().unwrap_or_default();
            states = self.next(states) & entered;
        }
        Some((states | (self.next(states) & self.at_end)) & self.last != 0)
    }

    /// The states that may be entered after these ones; a match may begin at each place.
    fn next(&self, mut states: States) -> States {
        let mut next = self.first;
        while states != 0 {
            next |= self.follow.get(states.trailing_zeros() as usize).copied().unwrap_or_default();
            states &= states - 1;
        }
        next
    }
}

struct Parser<'p> {
    rest: &'p [u8],
    depth: usize,
    folds_case: bool,
    automaton: Automaton,
    follow: Vec<States>,
}

impl Parser<'_> {
    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.rest.first() == Some(&byte);
        if is_next {
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
        is_next
    }

    fn next_byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn alternatives(&mut self) -> Option<Part> {
        let mut all = self.sequence()?;
        while self.take(b'|') {
            let other = self.sequence()?;
            all.first |= other.first;
            all.last |= other.last;
            all.is_nullable |= other.is_nullable;
        }
        Some(all)
    }

    fn sequence(&mut self) -> Option<Part> {
        let mut all = Part { is_nullable: true, ..Part::default() };
        while !matches!(self.rest.first(), None | Some(b'|' | b')')) {
            let next = self.repeated()?;
            self.connect(all.last, next.first);
            if all.is_nullable {
                all.first |= next.first;
            }
            all.last = if next.is_nullable { all.last | next.last } else { next.last };
            all.is_nullable &= next.is_nullable;
        }
        Some(all)
    }

    fn repeated(&mut self) -> Option<Part> {
        let is_anchor = matches!(self.rest.first(), Some(b'^' | b'$'));
        let mut part = self.single()?;
        if let Some(sign @ (b'?' | b'*' | b'+')) = self.rest.first().copied() {
            self.next_byte()?;
            if matches!(sign, b'*' | b'+') {
                self.connect(part.last, part.first);
            }
            part.is_nullable |= sign != b'+';
            // `a*?`, `a+*` and `^*` are for the real engine.
            if is_anchor || matches!(self.rest.first(), Some(b'?' | b'*' | b'+')) {
                return None;
            }
        }
        Some(part)
    }

    fn single(&mut self) -> Option<Part> {
        const GROUPS: usize = 8;
        match self.next_byte()? {
            b'(' if self.rest.first() != Some(&b'?') && self.depth < GROUPS => {
                self.depth += 1;
                let part = self.alternatives()?;
                self.depth -= 1;
                self.take(b')').then_some(part)
            }
            b'^' => {
                let (state, part) = self.state()?;
                self.automaton.at_start |= state;
                Some(part)
            }
            b'$' => {
                let (state, part) = self.state()?;
                self.automaton.at_end |= state;
                Some(part)
            }
            b'[' => self.class(),
            b'.' => self.enter(|byte| byte != b'\n'),
            byte if b"\\()*+?{}]".contains(&byte) || !matches!(byte, b' '..=b'~') => None,
            byte => self.enter(|other| other == byte),
        }
    }

    fn class(&mut self) -> Option<Part> {
        let is_negated = self.take(b'^');
        let mut members = [false; 128];
        let mut is_first = true;
        while is_first || !self.take(b']') {
            is_first = false;
            let from = self.class_member()?;
            // A sign at the begin or the end of a class is one of its members.
            let to = match self.rest {
                [b'-', b']', ..] | [] => from,
                [b'-', ..] => {
                    self.next_byte()?;
                    self.class_member()?
                }
                _ => from,
            };
            if to < from {
                return None;
            }
            members.get_mut(usize::from(from)..=usize::from(to))?.fill(true);
        }
        let folds_case = self.folds_case;
        // The other case of a letter is no member of a negated class, either.
        let is_member = |byte: u8| members.get(usize::from(byte)).copied().unwrap_or_default();
        let is_either = |byte: u8| {
            is_member(byte)
                || folds_case
                    && (is_member(byte.to_ascii_lowercase()) || is_member(byte.to_ascii_uppercase()))
        };
        self.enter_exactly(|byte| is_either(byte) != is_negated)
    }

    fn class_member(&mut self) -> Option<u8> {
        let byte = self.next_byte()?;
        // The syntaxes of Go and of the engine differ in these.
        let is_plain = matches!(byte, b' '..=b'~') && !b"\\[]^&~".contains(&byte);
        is_plain.then_some(byte)
    }

    /// A state that characters enter, in either case if that is to be ignored.
    fn enter(&mut self, is_entered: impl Fn(u8) -> bool) -> Option<Part> {
        let folds_case = self.folds_case;
        self.enter_exactly(|byte| {
            is_entered(byte)
                || folds_case
                    && (is_entered(byte.to_ascii_lowercase()) || is_entered(byte.to_ascii_uppercase()))
        })
    }

    fn enter_exactly(&mut self, is_entered: impl Fn(u8) -> bool) -> Option<Part> {
        let (state, part) = self.state()?;
        for (byte, entered) in (0..).zip(self.automaton.entered.iter_mut()) {
            if is_entered(byte) {
                *entered |= state;
            }
        }
        Some(part)
    }

    fn state(&mut self) -> Option<(States, Part)> {
        let number = self.follow.len();
        if number >= STATES {
            return None;
        }
        self.follow.push(0);
        let state = 1 << number;
        Some((state, Part { first: state, last: state, is_nullable: false }))
    }

    fn connect(&mut self, mut from: States, to: States) {
        while from != 0 {
            if let Some(follow) = self.follow.get_mut(from.trailing_zeros() as usize) {
                *follow |= to;
            }
            from &= from - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn small_patterns_are_taken() {
        for (pattern, is_small) in [
            ("(?i)error|fail", true),
            ("[Ff]ail|[^0-9]x", true),
            ("health is .False.$", true),
            ("not (ready|healthy)", true),
            ("Config(Secret)?Missing", true),
            ("(^|[^0-9])[1-9][0-9]* (failed|timeout)", true),
            ("^v?[0-9]+[.][0-9]+$", true),
            ("(^|ing)$", true),
            ("", true),
            ("a^b", false),
            ("^^a", false),
            ("a$b", false),
            ("a$$", false),
            ("^*a", false),
            ("a*?", false),
            ("a{2}", false),
            ("\\d", false),
            ("(?:a)", false),
            ("a(?i)b", false),
            ("[\\d]", false),
            ("[[:alpha:]]", false),
            ("[b-a]", false),
            ("[]a]", false),
            ("(a", false),
            ("a)", false),
            ("*a", false),
            ("é", false),
        ] {
            assert_eq!(Automaton::parse(pattern).is_some(), is_small, "{pattern}");
        }
        assert!(Automaton::parse(&"a".repeat(STATES)).is_some());
        assert!(Automaton::parse(&"a".repeat(STATES + 1)).is_none());
    }

    #[test]
    fn other_text_is_left_to_the_engine() {
        assert_eq!(Automaton::parse("(?i)k").unwrap().is_match("\u{212a}"), None);
    }

    #[test]
    fn patterns_of_the_pack_match_as_regular_expressions_do() {
        let texts = [
            "",
            "error",
            "An ERROR occurred",
            "ErrImagePull",
            "ErrImage",
            "ErrImagePull ",
            "3 failed",
            "0 failed",
            "10 timeout",
            "a7 failed",
            "77 failed",
            "Updating",
            "In progress",
            "InProgress",
            "not ready",
            "NotReady",
            "health is \"False\"",
            "health is \"False\".",
            "a\nb",
            "v1.2.3",
            "1.2",
            "Ready",
        ];
        for pattern in [
            "(?i)error|fail|cannot|denied",
            "(ErrImage[A-Za-z]*|ImagePullBackOff|InvalidImageName)$",
            "(^|[^0-9])[1-9][0-9]* (failed|timeout)",
            "(^|ing|Progress|NotReady)$",
            "[Nn]ot ?[Rr]eady",
            "health is .False.$",
            "^Ready$|[Ii]n[Pp]rogress",
            "a.b",
            "a[^b]b",
            "^v?[0-9]+[.][0-9]+[.][0-9]+$",
            "([^t]Required|Ready)$",
            "^$|Ready$",
            "[1-9]",
        ] {
            let small = Automaton::parse(pattern).expect(pattern);
            let regex = Regex::new(pattern).expect(pattern);
            for text in texts {
                assert_eq!(small.is_match(text), Some(regex.is_match(text)), "{pattern} {text:?}");
            }
        }
    }

    fn pattern() -> impl Strategy<Value = String> {
        let single = prop::sample::select(
            &["a", "b", "A", "ab", ".", "[ab]", "[^a]", "[a-c]", "[^A-]", "^", "$", "", " "][..],
        );
        let part = single.prop_map(str::to_owned).prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
                prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| format!("({})", parts.join("|"))),
                (inner, prop::sample::select(&["?", "*", "+"][..]))
                    .prop_map(|(part, sign)| format!("({part}){sign}")),
            ]
        });
        (any::<bool>(), prop::collection::vec(part, 1..3)).prop_map(|(folds_case, parts)| {
            format!("{}{}", if folds_case { "(?i)" } else { "" }, parts.join("|"))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn they_match_as_regular_expressions_do(pattern in pattern(), texts in prop::collection::vec("[abcAB \n-]{0,6}", 1..8)) {
            let Some(small) = Automaton::parse(&pattern) else { return Ok(()) };
            let regex = Regex::new(&pattern).expect("a pattern");
            for text in texts {
                prop_assert_eq!(small.is_match(&text), Some(regex.is_match(&text)), "{} {:?}", pattern, text);
            }
        }

        #[test]
        fn what_is_no_pattern_is_not_taken(pattern in "[ab^$.|()?*+\\[\\]\\\\{}\\-,0-9i:]{0,12}", text in "[ab0-9,]{0,8}") {
            if let Some(small) = Automaton::parse(&pattern) {
                let regex = Regex::new(&pattern);
                prop_assert!(regex.is_ok(), "{}", pattern);
                prop_assert_eq!(small.is_match(&text), regex.ok().map(|regex| regex.is_match(&text)), "{} {:?}", pattern, text);
            }
        }
    }
}
