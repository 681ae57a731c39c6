//! Fixed-size bit sets over the ends of connections.

/// A set of indexes below a fixed size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bits {
    words: Vec<u64>,
    size: usize,
}

impl Bits {
    /// The empty set.
    pub(crate) fn none(size: usize) -> Self {
        Self { words: vec![0; size.div_ceil(64)], size }
    }

    /// The set of all indexes.
    pub(crate) fn all(size: usize) -> Self {
        let mut bits = Self { words: vec![u64::MAX; size.div_ceil(64)], size };
        bits.trim();
        bits
    }

    /// Clears the bits beyond the size.
    fn trim(&mut self) {
        let used = self.size % 64;
        if used > 0
            && let Some(last) = self.words.last_mut()
        {
            *last &= (1 << used) - 1;
        }
    }

    pub(crate) fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.words[index / 64] &= !(1 << (index % 64));
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        self.words[index / 64] & (1 << (index % 64)) != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(crate) fn union_with(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    pub(crate) fn intersect_with(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// Adds what both other sets have.
    pub(crate) fn union_with_both(&mut self, left: &Self, right: &Self) {
        for ((word, left), right) in self.words.iter_mut().zip(&left.words).zip(&right.words) {
            *word |= left & right;
        }
    }

    /// Adds what the other set does not have.
    pub(crate) fn union_with_complement(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= !other;
        }
        self.trim();
    }

    /// The indexes in the set.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(position, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                Some(position * 64 + bit)
            })
        })
    }
}

/// What matches for certain, and what may match.
#[derive(Clone, Debug)]
pub(crate) struct Matched {
    /// What matches for certain.
    pub(crate) yes: Bits,
    /// What matches or may match.
    pub(crate) maybe: Bits,
}

impl Matched {
    pub(crate) fn none(size: usize) -> Self {
        Self { yes: Bits::none(size), maybe: Bits::none(size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complement_stays_within_the_size() {
        let mut bits = Bits::none(70);
        bits.union_with_complement(&Bits::none(70));
        assert_eq!(bits, Bits::all(70));
        assert_eq!(bits.iter().count(), 70);
        bits.subtract(&Bits::all(70));
        assert!(bits.is_empty());
    }

    #[test]
    fn sets_are_enumerated_in_order() {
        let mut bits = Bits::none(130);
        for index in [129, 0, 64, 63] {
            bits.insert(index);
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert!(bits.contains(129) && !bits.contains(128));
    }
}
