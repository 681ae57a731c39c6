//! Structural index of JSON text: brackets outside of strings, 64 bytes at a time.
//!
//! Cutting a stream is the only step that cannot be parallelized, so it must be much faster than parsing. A block of 64
//! bytes becomes a few bit masks; a block within a deeply nested part of a document costs two bit counts.

use wide::u8x16;

/// Bytes per block.
const BLOCK: usize = 64;

/// Classified bytes of a block, one bit each, the first byte lowest.
#[derive(Debug, Clone, Copy, Default)]
struct Masks {
    quote: u64,
    backslash: u64,
    open: u64,
    close: u64,
    newline: u64,
}

#[inline(always)]
fn classify(block: &[u8; BLOCK]) -> Masks {
    let mut masks = Masks::default();
    for (i, lane) in block.as_chunks::<16>().0.iter().enumerate() {
        let bytes = u8x16::new(*lane);
        // `[` and `{`, `]` and `}` differ only in the bit 0x20.
        let folded = bytes | u8x16::splat(0x20);
        let bits = |of: u8x16, byte: u8| u64::from(of.simd_eq(u8x16::splat(byte)).to_bitmask()) << (16 * i);
        masks.quote |= bits(bytes, b'"');
        masks.backslash |= bits(bytes, b'\\');
        masks.open |= bits(folded, b'{');
        masks.close |= bits(folded, b'}');
        masks.newline |= bits(bytes, b'\n');
    }
    masks
}

/// Result of [`Scan::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// An opening bracket here.
    Open(usize),
    /// A closing bracket here.
    Close(usize),
    /// A line feed within a string, which JSON does not allow: a quote is missing.
    BrokenString(usize),
    /// A line within a document that begins with an opening bracket or `---`.
    LineStart(usize),
    /// The data ends first.
    End,
}

/// State between two pieces of JSON text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scan {
    /// Number of open brackets, including the last [`Found`].
    pub(crate) depth: usize,
    /// First position that exceeds the depth limit, since this was last cleared.
    pub(crate) too_deep: Option<usize>,
    limit: usize,
    /// End of the classified data.
    classified: usize,
    /// Start of the last classified block; the masks count from here.
    base: usize,
    open: u64,
    close: u64,
    newline: u64,
    broken: u64,
    /// All ones if the last classified byte was inside of a string.
    in_string: u64,
    /// The byte after the last classified one is escaped.
    escaped: bool,
}

impl Scan {
    /// A scan from `at` on, outside of strings.
    pub(crate) fn from(at: usize, depth: usize) -> Self {
        Self { depth, limit: usize::MAX, classified: at, base: at, ..Self::default() }
    }

    /// Records brackets nested deeper than `limit`.
    pub(crate) fn limited(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Accounts for bytes removed from the front of the data.
    pub(crate) fn shift(&mut self, by: usize) {
        self.classified = self.classified.saturating_sub(by);
        // With empty masks the base is irrelevant.
        self.base = self.base.wrapping_sub(by);
        self.too_deep = self.too_deep.map(|at| at.saturating_sub(by));
    }

    /// The first byte that was not reported yet.
    pub(crate) fn pending(&self) -> usize {
        match self.open | self.close | self.newline | self.broken {
            0 => self.classified,
            bits => self.base.wrapping_add(bits.trailing_zeros() as usize),
        }
    }

    /// The next relevant position: opening brackets at up to `level` levels, closing brackets to a level below `level`,
    /// and all signs of a broken document.
    pub(crate) fn next(&mut self, data: &[u8], level: usize) -> Found {
        loop {
            while self.open | self.close | self.newline | self.broken != 0 {
                let bits = self.open | self.close | self.newline | self.broken;
                let bit = bits & bits.wrapping_neg();
                let at = self.base.wrapping_add(bits.trailing_zeros() as usize);
                if self.newline & bit != 0 {
                    match data.get(at + 1..).unwrap_or_default() {
                        // The beginning of the line needs more data.
                        [] | [b'-'] | [b'-', b'-'] | [b'-', b'-', b'-'] => return Found::End,
                        [b'{' | b'[', ..] | [b'-', b'-', b'-', b' ' | b'\t' | b'\r' | b'\n', ..] => {
                            self.newline &= !bit;
                            return Found::LineStart(at + 1);
                        }
                        _ => self.newline &= !bit,
                    }
                } else if self.broken & bit != 0 {
                    self.broken &= !bit;
                    return Found::BrokenString(at);
                } else if self.open & bit != 0 {
                    self.open &= !bit;
                    self.depth += 1;
                    if self.depth > self.limit {
                        self.too_deep.get_or_insert(at);
                    }
                    if self.depth <= level + 1 {
                        return Found::Open(at);
                    }
                } else {
                    self.close &= !bit;
                    // More closing than opening brackets: the caller detects it by the reported level.
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth < level {
                        return Found::Close(at);
                    }
                }
            }
            // Most blocks end here: they are within a deeply nested part of a document.
            loop {
                if self.classified >= data.len() {
                    return Found::End;
                }
                self.classify_next(data);
                if self.open | self.close == 0 {
                    if self.newline | self.broken == 0 {
                        continue;
                    }
                    break;
                }
                let opening = self.open.count_ones() as usize;
                let closing = self.close.count_ones() as usize;
                let stays_deep = self.depth > closing + level && self.depth + opening <= self.limit;
                if !stays_deep || self.newline | self.broken != 0 {
                    break;
                }
                self.depth = self.depth + opening - closing;
                self.open = 0;
                self.close = 0;
            }
        }
    }

    #[inline(always)]
    fn classify_next(&mut self, data: &[u8]) {
        let rest = &data[self.classified..];
        let masks;
        let length;
        if let Some(block) = rest.first_chunk::<BLOCK>() {
            masks = classify(block);
            length = BLOCK;
        } else {
            let mut block = [b' '; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            masks = classify(&block);
            length = rest.len();
        }
        let mut quote = masks.quote;
        if masks.backslash != 0 || self.escaped {
            quote &= !self.escaped_bytes(masks.backslash, length);
        }
        // Every quote flips all bits above it: bits between an opening and a closing quote end up set.
        let mut string = quote;
        for shift in [1, 2, 4, 8, 16, 32] {
            string ^= string << shift;
        }
        string ^= self.in_string;
        self.in_string = if string >> (length - 1) & 1 == 1 { u64::MAX } else { 0 };
        self.base = self.classified;
        self.classified += length;
        self.open = masks.open & !string;
        self.close = masks.close & !string;
        self.broken = masks.newline & string;
        let mut newline = masks.newline & !string;
        self.newline = 0;
        while newline != 0 {
            let bit = newline & newline.wrapping_neg();
            // Most lines of indented JSON begin with a space; only the others need a separate step.
            if !matches!(
                rest.get(bit.trailing_zeros() as usize + 1),
                Some(b' ' | b'\t' | b'"' | b'}' | b']' | b'\n')
            ) {
                self.newline |= bit;
            }
            newline ^= bit;
        }
    }

    /// Escaped bytes. Backslashes are rare: one by one is fast enough.
    fn escaped_bytes(&mut self, mut backslash: u64, length: usize) -> u64 {
        let mut escaped = 0;
        if self.escaped {
            escaped |= 1;
            backslash &= !1;
            self.escaped = false;
        }
        while backslash != 0 {
            let at = backslash.trailing_zeros() as usize;
            if at + 1 >= length {
                self.escaped = true;
                break;
            }
            escaped |= 1 << (at + 1);
            backslash &= !(0b11 << at);
        }
        escaped
    }
}

/// The position after the array or object that begins at `start`, if it ends within `data`.
pub(crate) fn container_end(data: &[u8], start: usize) -> Option<usize> {
    let mut scan = Scan::from(start, 0);
    loop {
        match scan.next(data, 1) {
            Found::Open(_) | Found::LineStart(_) => {}
            Found::Close(at) => return Some(at + 1),
            Found::BrokenString(_) | Found::End => return None,
        }
    }
}
