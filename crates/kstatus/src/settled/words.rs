//! Tables of words, found by one hash of their letters in any case.

/// More letters than any word of a table has.
pub(super) const LONGEST_WORD: usize = 24;
/// The same, in chunks of eight letters.
pub(super) const CHUNKS: usize = LONGEST_WORD / 8;

/// In a letter, this bit is that of lower case; digits have it.
pub(super) const LOWER_CASE: u64 = 0x2020_2020_2020_2020;

/// The letters and digits of a word in lower case.
#[derive(Clone, Copy)]
pub(super) struct Letters([u64; CHUNKS]);

impl Letters {
    /// Those of a word of ASCII letters, in any case.
    const fn of(word: &[u8]) -> Self {
        assert!(word.len() <= LONGEST_WORD);
        let mut letters = [0; CHUNKS];
        let mut at = 0;
        while at < word.len() {
            assert!(word[at].is_ascii_alphabetic());
            letters[at / 8] |= (word[at].to_ascii_lowercase() as u64) << (at % 8 * 8);
            at += 1;
        }
        Self(letters)
    }

    /// Those of the first `length` bytes, which are ASCII letters in lower case and digits.
    #[inline]
    pub(super) fn of_prefix(bytes: [u64; CHUNKS], length: usize) -> Option<Self> {
        let mut letters = bytes;
        for (letters, mask) in letters.iter_mut().zip(MASKS.get(length)?) {
            *letters &= mask;
        }
        Some(Self(letters))
    }

    const fn is(self, other: Self) -> bool {
        let ([a, b, c], [d, e, f]) = (self.0, other.0);
        (a ^ d) | (b ^ e) | (c ^ f) == 0
    }

    const fn hash(self) -> usize {
        let [first, second, third] = self.0;
        let mixed = first ^ second.rotate_left(27) ^ third.rotate_left(41);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())) as usize
    }
}

/// For each length the bytes of the letters that it has.
const MASKS: [[u64; CHUNKS]; LONGEST_WORD + 1] = {
    let mut masks = [[0; CHUNKS]; LONGEST_WORD + 1];
    let mut length = 0;
    while length <= LONGEST_WORD {
        let mut at = 0;
        while at < length {
            masks[length][at / 8] |= 0xff << (at % 8 * 8);
            at += 1;
        }
        length += 1;
    }
    masks
};

const SLOTS: usize = 1024;

/// Rows, each with its word.
pub(super) struct WordTable<T: 'static, const ROWS: usize> {
    rows: [(Letters, T); ROWS],
    /// Numbers of rows counted from 1, with linear probing; 0 for an empty slot.
    slots: [u16; SLOTS],
    length: usize,
}

impl<T: Copy, const ROWS: usize> WordTable<T, ROWS> {
    /// A table without words; `row` is what a new word has.
    pub(super) const fn new(row: T) -> Self {
        assert!(ROWS * 2 <= SLOTS);
        Self { rows: [(Letters([0; CHUNKS]), row); ROWS], slots: [0; SLOTS], length: 0 }
    }

    /// The row of a word of ASCII letters, which is added if it is new.
    pub(super) const fn row_mut(&mut self, word: &str) -> &mut T {
        let letters = Letters::of(word.as_bytes());
        let mut slot = letters.hash();
        while self.slots[slot] != 0 {
            let row = self.slots[slot] as usize - 1;
            if self.rows[row].0.is(letters) {
                return &mut self.rows[row].1;
            }
            slot = (slot + 1) % SLOTS;
        }
        let row = self.length;
        self.rows[row].0 = letters;
        self.length += 1;
        self.slots[slot] = self.length as u16;
        &mut self.rows[row].1
    }
}

impl<T, const ROWS: usize> WordTable<T, ROWS> {
    /// The row of a word.
    #[inline]
    pub(super) fn get(&self, word: Letters) -> Option<&T> {
        let mut slot = word.hash();
        loop {
            let at = usize::from(*self.slots.get(slot)?).checked_sub(1)?;
            let (known, row) = self.rows.get(at)?;
            if known.is(word) {
                return Some(row);
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// The row of a text of any bytes, in any case. Of other bytes than letters, none becomes a letter in lower case.
    pub(super) fn find(&self, text: &[u8]) -> Option<&T> {
        let mut words = [0; CHUNKS];
        let (whole, rest) = text.as_chunks::<8>();
        for (slot, word) in words.iter_mut().zip(whole) {
            *slot = u64::from_le_bytes(*word) | LOWER_CASE;
        }
        if let Some(slot) = words.get_mut(whole.len()) {
            *slot = last_word(text, rest) | LOWER_CASE;
        }
        self.get(Letters::of_prefix(words, text.len())?)
    }
}

/// The last bytes of a text, which are less than eight, with zeros behind them.
#[inline]
pub(super) fn last_word(text: &[u8], rest: &[u8]) -> u64 {
    match text.last_chunk() {
        // It overlaps the word before it.
        Some(last) if !rest.is_empty() => u64::from_le_bytes(*last) >> (8 * (8 - rest.len())),
        _ => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: WordTable<u8, 3> = {
        let mut table = WordTable::new(0);
        *table.row_mut("a") = 1;
        *table.row_mut("exactlytwentyfourletters") = 2;
        *table.row_mut("eightlet") = 3;
        *table.row_mut("A") = 4;
        table
    };

    #[test]
    fn words_are_found_in_any_case_and_as_a_whole() {
        for (text, row) in [
            ("a", Some(4)),
            ("A", Some(4)),
            ("ExactlyTwentyFourLetters", Some(2)),
            ("EIGHTLET", Some(3)),
            ("", None),
            ("b", None),
            ("eightle", None),
            ("eightlets", None),
            ("eightlet\0", None),
            ("exactlytwentyfourletterss", None),
            ("exactlytwentyfourletter\u{13}", None),
        ] {
            assert_eq!(TABLE.find(text.as_bytes()).copied(), row, "{text}");
        }
    }
}
