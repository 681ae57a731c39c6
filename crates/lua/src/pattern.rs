//! Lua 5.1 patterns with a step limit. Lua's own matcher can take exponential time in a single call.

use crate::budget::{Budget, Spent};

const MAX_CAPTURES: usize = 32;
/// Maximum nesting of pattern items with several possible matches, as in Lua 5.2.
const MAX_DEPTH: u32 = 200;
/// Steps between two charges of the budget.
const STEPS_AT_ONCE: usize = 1024;

/// Reason why a match ended without a result.
pub(crate) enum Stop {
    /// The pattern is malformed.
    Malformed(&'static str),
    Spent,
}

impl From<Spent> for Stop {
    fn from(_: Spent) -> Self {
        Self::Spent
    }
}

type Result<T> = std::result::Result<T, Stop>;

#[derive(Clone, Copy)]
enum Extent {
    Open,
    Position,
    Length(usize),
}

#[derive(Clone, Copy)]
struct Group {
    start: usize,
    extent: Extent,
}

/// Value of a capture.
pub(crate) enum Capture<'a> {
    Text(&'a [u8]),
    /// Position capture `()`, counted from 1.
    Position(usize),
}

pub(crate) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    budget: &'a Budget,
    groups: [Group; MAX_CAPTURES],
    level: usize,
    depth: u32,
    steps: usize,
}

impl<'a> Matcher<'a> {
    pub(crate) fn new(text: &'a [u8], pattern: &'a [u8], budget: &'a Budget) -> Self {
        let groups = [Group { start: 0, extent: Extent::Open }; MAX_CAPTURES];
        Self { text, pattern, budget, groups, level: 0, depth: 0, steps: 0 }
    }

    /// Start and end of the first match at or after `from`, or exactly there.
    pub(crate) fn search(&mut self, from: usize, only_there: bool) -> Result<Option<(usize, usize)>> {
        let last = if only_there { from } else { self.text.len() };
        for start in from..=last {
            self.level = 0;
            self.depth = 0;
            if let Some(end) = self.run(start, 0)? {
                self.charge()?;
                return Ok(Some((start, end)));
            }
        }
        self.charge()?;
        Ok(None)
    }

    /// Number of values of a match: the whole match if there are no captures.
    pub(crate) fn captures(&self) -> usize {
        self.level.max(1)
    }

    pub(crate) fn has_captures(&self) -> bool {
        self.level > 0
    }

    /// The whole match.
    pub(crate) fn whole(&self, start: usize, end: usize) -> &'a [u8] {
        &self.text[start..end]
    }

    /// A capture of the match from `start` to `end`.
    pub(crate) fn capture(&self, index: usize, start: usize, end: usize) -> Result<Capture<'a>> {
        if index >= self.level {
            return match index {
                0 => Ok(Capture::Text(self.whole(start, end))),
                _ => Err(Stop::Malformed("invalid capture index")),
            };
        }
        let group = self.groups[index];
        match group.extent {
            Extent::Open => Err(Stop::Malformed("unfinished capture")),
            Extent::Position => Ok(Capture::Position(group.start + 1)),
            Extent::Length(length) => Ok(Capture::Text(&self.text[group.start..group.start + length])),
        }
    }

    fn charge(&mut self) -> Result<()> {
        self.budget.charge(std::mem::take(&mut self.steps) as u64)?;
        Ok(())
    }

    fn step(&mut self, count: usize) -> Result<()> {
        self.steps += count;
        if self.steps >= STEPS_AT_ONCE { self.charge() } else { Ok(()) }
    }

    fn at(&self, p: usize) -> Option<u8> {
        self.pattern.get(p).copied()
    }

    /// Matches the pattern from `p` against the text from `s`, and returns the end of the match.
    fn run(&mut self, s: usize, p: usize) -> Result<Option<usize>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Stop::Malformed("pattern too complex"));
        }
        let end = self.items(s, p);
        self.depth -= 1;
        end
    }

    fn items(&mut self, mut s: usize, mut p: usize) -> Result<Option<usize>> {
        loop {
            self.step(1)?;
            let Some(item) = self.at(p) else {
                return Ok(Some(s));
            };
            match (item, self.at(p + 1)) {
                (b'(', Some(b')')) => return self.open(s, p + 2, Extent::Position),
                (b'(', _) => return self.open(s, p + 1, Extent::Open),
                (b')', _) => return self.close(s, p + 1),
                (b'$', None) => return Ok((s == self.text.len()).then_some(s)),
                (b'%', Some(b'b')) => {
                    let Some(end) = self.balanced(s, p + 2)? else {
                        return Ok(None);
                    };
                    (s, p) = (end, p + 4);
                }
                (b'%', Some(b'f')) => {
                    p += 2;
                    if self.at(p) != Some(b'[') {
                        return Err(Stop::Malformed("missing '[' after '%f' in pattern"));
                    }
                    let end = self.item_end(p)?;
                    let before = if s == 0 { 0 } else { self.text[s - 1] };
                    let here = self.text.get(s).copied().unwrap_or(0);
                    if self.in_set(before, p, end - 1) || !self.in_set(here, p, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => {
                    let Some(end) = self.again(s, digit)? else {
                        return Ok(None);
                    };
                    (s, p) = (end, p + 2);
                }
                _ => {
                    let end = self.item_end(p)?;
                    let fits = self.fits(s, p, end);
                    match self.at(end) {
                        Some(b'?') => {
                            if fits && let Some(end) = self.run(s + 1, end + 1)? {
                                return Ok(Some(end));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.most(s, p, end),
                        Some(b'+') => return if fits { self.most(s + 1, p, end) } else { Ok(None) },
                        Some(b'-') => return self.fewest(s, p, end),
                        _ if fits => (s, p) = (s + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// End of the single item (character, escape or set) that begins at `p`.
    fn item_end(&mut self, mut p: usize) -> Result<usize> {
        let first = p;
        p += 1;
        match self.pattern[first] {
            b'%' if p >= self.pattern.len() => Err(Stop::Malformed("malformed pattern (ends with '%')")),
            b'%' => Ok(p + 1),
            b'[' => {
                if self.at(p) == Some(b'^') {
                    p += 1;
                }
                // A closing bracket in first position is a literal.
                loop {
                    match self.at(p) {
                        None => return Err(Stop::Malformed("malformed pattern (missing ']')")),
                        Some(b'%') => p += 2,
                        Some(_) => p += 1,
                    }
                    if self.at(p) == Some(b']') {
                        break;
                    }
                }
                self.step((p - first) / 8)?;
                Ok(p + 1)
            }
            _ => Ok(p),
        }
    }

    /// Whether the character at `s` matches the item from `p` to `end`.
    fn fits(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&character) = self.text.get(s) else {
            return false;
        };
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(character, self.pattern[p + 1]),
            b'[' => self.in_set(character, p, end - 1),
            other => other == character,
        }
    }

    /// Whether the set with brackets at `p` and `close` contains the character.
    fn in_set(&self, character: u8, mut p: usize, close: usize) -> bool {
        p += 1;
        let negated = self.at(p) == Some(b'^');
        if negated {
            p += 1;
        }
        while p < close {
            let found;
            if self.pattern[p] == b'%' {
                found = self.at(p + 1).is_some_and(|class| in_class(character, class));
                p += 2;
            } else if self.at(p + 1) == Some(b'-') && p + 2 < close {
                found = (self.pattern[p]..=self.pattern[p + 2]).contains(&character);
                p += 3;
            } else {
                found = self.pattern[p] == character;
                p += 1;
            }
            if found {
                return !negated;
            }
        }
        negated
    }

    fn most(&mut self, s: usize, p: usize, end: usize) -> Result<Option<usize>> {
        // Long sets are slower per character.
        let cost = 1 + (end - p) / 8;
        let mut count = 0;
        while self.fits(s + count, p, end) {
            self.step(cost)?;
            count += 1;
        }
        loop {
            if let Some(end) = self.run(s + count, end + 1)? {
                return Ok(Some(end));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn fewest(&mut self, mut s: usize, p: usize, end: usize) -> Result<Option<usize>> {
        let cost = 1 + (end - p) / 8;
        loop {
            if let Some(end) = self.run(s, end + 1)? {
                return Ok(Some(end));
            }
            if !self.fits(s, p, end) {
                return Ok(None);
            }
            self.step(cost)?;
            s += 1;
        }
    }

    fn open(&mut self, s: usize, p: usize, extent: Extent) -> Result<Option<usize>> {
        if self.level == MAX_CAPTURES {
            return Err(Stop::Malformed("too many captures"));
        }
        self.groups[self.level] = Group { start: s, extent };
        self.level += 1;
        let end = self.run(s, p)?;
        if end.is_none() {
            self.level -= 1;
        }
        Ok(end)
    }

    fn close(&mut self, s: usize, p: usize) -> Result<Option<usize>> {
        let open = self.groups[..self.level].iter().rposition(|group| matches!(group.extent, Extent::Open));
        let Some(open) = open else {
            return Err(Stop::Malformed("invalid pattern capture"));
        };
        self.groups[open].extent = Extent::Length(s - self.groups[open].start);
        let end = self.run(s, p)?;
        if end.is_none() {
            self.groups[open].extent = Extent::Open;
        }
        Ok(end)
    }

    /// `%bxy`: balanced match from `x` to `y`.
    fn balanced(&mut self, s: usize, p: usize) -> Result<Option<usize>> {
        let (Some(open), Some(close)) = (self.at(p), self.at(p + 1)) else {
            return Err(Stop::Malformed("unbalanced pattern"));
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut nested = 1_usize;
        for end in s + 1..self.text.len() {
            self.step(1)?;
            let character = self.text[end];
            if character == close {
                nested -= 1;
                if nested == 0 {
                    return Ok(Some(end + 1));
                }
            } else if character == open {
                nested += 1;
            }
        }
        Ok(None)
    }

    /// `%1`: back reference to a capture.
    fn again(&mut self, s: usize, digit: u8) -> Result<Option<usize>> {
        let group = usize::from(digit).checked_sub(usize::from(b'1'));
        let group = group.filter(|&index| index < self.level).map(|index| self.groups[index]);
        let (start, length) = match group {
            Some(Group { start, extent: Extent::Length(length) }) => (start, length),
            // No text is as long as the position marker.
            Some(Group { extent: Extent::Position, .. }) => return Ok(None),
            Some(Group { extent: Extent::Open, .. }) | None => {
                return Err(Stop::Malformed("invalid capture index"));
            }
        };
        self.step(length / 16)?;
        let before = &self.text[start..start + length];
        Ok(self.text[s..].starts_with(before).then_some(s + length))
    }
}

/// Whether `%class` contains the character. All of Lua's classes are ASCII here.
fn in_class(character: u8, class: u8) -> bool {
    let found = match class.to_ascii_lowercase() {
        b'a' => character.is_ascii_alphabetic(),
        b'c' => character.is_ascii_control(),
        b'd' => character.is_ascii_digit(),
        b'l' => character.is_ascii_lowercase(),
        b'p' => character.is_ascii_punctuation(),
        // Rust's `is_ascii_whitespace` lacks the vertical tab.
        b's' => character.is_ascii_whitespace() || character == 0x0b,
        b'u' => character.is_ascii_uppercase(),
        b'w' => character.is_ascii_alphanumeric(),
        b'x' => character.is_ascii_hexdigit(),
        b'z' => character == 0,
        _ => return class == character,
    };
    found != class.is_ascii_uppercase()
}
