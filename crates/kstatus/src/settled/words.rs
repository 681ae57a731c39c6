//! Word tables, indexed by first letter.

/// Rows sorted by their words, whose first letters are ASCII and all of one case.
pub(super) struct WordTable<T: 'static> {
    rows: &'static [(&'static str, T)],
    /// For each letter, where its rows begin; one more for the end of the last.
    starts: [u8; LETTERS + 1],
}

const LETTERS: usize = 32;

/// The place of a letter in the alphabet, in either case.
const fn letter(byte: u8) -> usize {
    byte as usize % LETTERS
}

/// Words without a row.
pub(super) type WordSet = WordTable<()>;

/// The rows of a [`WordSet`].
macro_rules! words {
    ($($word:literal),+ $(,)?) => { WordTable::new(&[$(($word, ())),+]) };
}
pub(super) use words;

impl WordSet {
    /// Whether a word, in any case, is one of these, which are in lower case.
    pub(super) fn contains(&self, token: &[u8]) -> bool {
        self.get(token).is_some()
    }
}

impl<T> WordTable<T> {
    /// The row of a word in any case; the known ones are in lower case.
    pub(super) fn get(&self, token: &[u8]) -> Option<&T> {
        self.find(*token.first()?, |known| known.as_bytes().eq_ignore_ascii_case(token))
    }

    pub(super) const fn new(rows: &'static [(&'static str, T)]) -> Self {
        let mut starts = [0u8; LETTERS + 1];
        let mut row = 0;
        let mut at = 0;
        while at <= LETTERS {
            while row < rows.len() && letter(rows[row].0.as_bytes()[0]) < at {
                row += 1;
            }
            starts[at] = row as u8;
            at += 1;
        }
        Self { rows, starts }
    }

    /// The row whose word begins with `first` and fulfils `is`.
    pub(super) fn find(&self, first: u8, is: impl Fn(&str) -> bool) -> Option<&T> {
        let at = letter(first);
        let (from, to) = (*self.starts.get(at)?, *self.starts.get(at + 1)?);
        let rows = self.rows.get(usize::from(from)..usize::from(to))?;
        rows.iter().find(|(word, _)| is(word)).map(|(_, row)| row)
    }

    #[cfg(test)]
    pub(super) fn assert_complete(&self) {
        assert!(self.rows.is_sorted_by_key(|(word, _)| word));
        for (word, _) in self.rows {
            assert!(self.find(word.as_bytes()[0], |known| known == *word).is_some(), "{word}");
        }
    }
}
