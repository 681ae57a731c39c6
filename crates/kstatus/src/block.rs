//! Blocks of JSON text: 64 bytes classified at once, one bit per byte, the first byte lowest.

use wide::u8x16;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 64;

/// Masks of the block that begins at `start`, which is in the bytes, as far as there are bytes; and how many of them there are.
#[inline(always)]
fn with_block<const MASKS: usize>(
    bytes: &[u8],
    start: usize,
    read: impl Fn(&[u8; BLOCK]) -> [u64; MASKS],
) -> ([u64; MASKS], usize) {
    let rest = bytes.get(start..).unwrap_or_default();
    if let Some(block) = rest.first_chunk::<BLOCK>() {
        return (read(block), BLOCK);
    }
    // The last block overlaps the one before it, so that nothing is copied.
    let masks = match bytes.last_chunk::<BLOCK>() {
        Some(block) => read(block).map(|mask| mask.checked_shr((BLOCK - rest.len()) as u32).unwrap_or(0)),
        None => read(&padded(rest)),
    };
    (masks, rest.len())
}

#[inline(never)]
fn padded(rest: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    if let Some(begin) = block.get_mut(..rest.len()) {
        begin.copy_from_slice(rest);
    }
    block
}

/// Each quarter of a block as a mask, put together.
#[inline(always)]
fn quarters(block: &[u8; BLOCK], mask: impl Fn(u8x16) -> u32) -> u64 {
    let mut all = 0;
    for (index, quarter) in block.as_chunks::<16>().0.iter().enumerate() {
        all |= u64::from(mask(u8x16::new(*quarter))) << (16 * index);
    }
    all
}

/// Quotes, backslashes and control characters, remembered for the block that was looked at last: most strings are shorter
/// than a block, and are found without reading their bytes again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Specials {
    start: usize,
    mask: u64,
}

impl Specials {
    pub(crate) const fn new() -> Self {
        // No position lies in this block.
        Self { start: usize::MAX - BLOCK, mask: 0 }
    }

    /// The first quote, backslash or control character at or after `at`, or the length of the bytes.
    #[inline(always)]
    pub(crate) fn find(&mut self, bytes: &[u8], at: usize) -> usize {
        let offset = at.wrapping_sub(self.start);
        if offset < BLOCK {
            let mask = self.mask >> offset;
            if mask != 0 {
                return at + mask.trailing_zeros() as usize;
            }
            return self.find_from(bytes, self.start + BLOCK);
        }
        self.find_from(bytes, at)
    }

    /// As [`find`](Self::find), from a block that begins at `start`.
    #[inline(never)]
    fn find_from(&mut self, bytes: &[u8], mut start: usize) -> usize {
        while let Some(block) = bytes.get(start..).and_then(<[u8]>::first_chunk::<BLOCK>) {
            let mask = quarters(block, specials);
            if mask != 0 {
                *self = Self { start, mask };
                return start + mask.trailing_zeros() as usize;
            }
            start += BLOCK;
        }
        let start = start.min(bytes.len());
        let ([mask], length) = with_block(bytes, start, |block| [quarters(block, specials)]);
        // The end of the bytes is found as a quote is.
        let mask = mask | u64::MAX.checked_shl(length as u32).unwrap_or(0);
        *self = Self { start, mask };
        start + mask.trailing_zeros() as usize
    }
}

#[inline(always)]
fn specials(quarter: u8x16) -> u32 {
    let control = quarter.min(u8x16::splat(0x1f)).simd_eq(quarter);
    let special = quarter.simd_eq(u8x16::splat(b'"')) | quarter.simd_eq(u8x16::splat(b'\\')) | control;
    special.to_bitmask()
}

/// Quotes, backslashes, opening and closing brackets.
#[inline(always)]
fn classify(block: &[u8; BLOCK]) -> [u64; 4] {
    let equal = |byte: u8| quarters(block, |quarter| quarter.simd_eq(u8x16::splat(byte)).to_bitmask());
    // `[` and `{`, `]` and `}` differ only in the bit 0x20.
    let folded = |byte: u8| {
        quarters(block, |quarter| (quarter | u8x16::splat(0x20)).simd_eq(u8x16::splat(byte)).to_bitmask())
    };
    [equal(b'"'), equal(b'\\'), folded(b'{'), folded(b'}')]
}

/// Masks of the slashes and of the backslashes of a text in the bytes, counted from its start. None where it is longer than a block.
#[inline]
pub(crate) fn slashes_and_backslashes(bytes: &[u8], start: usize, end: usize) -> Option<(u64, u64)> {
    let within = match end.checked_sub(start)? {
        length @ 0..BLOCK => !(u64::MAX << length),
        _ => return None,
    };
    let equal = |block: &[u8; BLOCK], byte: u8| {
        quarters(block, |quarter| quarter.simd_eq(u8x16::splat(byte)).to_bitmask())
    };
    let ([slash, backslash], _) = with_block(bytes, start, |block| [equal(block, b'/'), equal(block, b'\\')]);
    Some((slash & within, backslash & within))
}

/// The position after the array or object that begins at `start` of valid JSON, or the length of the bytes.
pub(crate) fn container_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    // Open brackets before the block.
    let mut depth = 0usize;
    // All ones if the block begins inside of a string.
    let mut in_string = 0u64;
    let mut is_escaped = false;
    while at < bytes.len() {
        let ([mut quote, backslash, open, close], _) = with_block(bytes, at, classify);
        if backslash != 0 || is_escaped {
            quote &= !escaped(backslash, &mut is_escaped);
        }
        let strings = prefix_xor(quote) ^ in_string;
        in_string = ((strings as i64) >> 63) as u64;
        let (open, mut close) = (open & !strings, close & !strings);
        let closing = close.count_ones() as usize;
        if closing >= depth {
            // It may end here: the first closing bracket behind which as many were closed as opened.
            let mut closed = 0;
            while close != 0 {
                let bit = close.trailing_zeros();
                closed += 1;
                let before = open & !(u64::MAX << bit);
                if depth + before.count_ones() as usize <= closed {
                    return at + bit as usize + 1;
                }
                close &= close - 1;
            }
        }
        depth = (depth + open.count_ones() as usize).saturating_sub(closing);
        at += BLOCK;
    }
    bytes.len()
}

/// For each bit whether an odd number of bits up to it is set: from an opening quote to before the closing one.
#[inline(always)]
fn prefix_xor(mut mask: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        mask ^= mask << shift;
    }
    mask
}

/// The bytes that a backslash precedes which is not escaped itself. `carry`: whether the byte before the block is one.
fn escaped(mut backslash: u64, carry: &mut bool) -> u64 {
    let mut escaped = u64::from(*carry);
    if *carry {
        backslash &= !1;
        *carry = false;
    }
    while backslash != 0 {
        let bit = backslash.trailing_zeros();
        if bit == 63 {
            *carry = true;
            break;
        }
        escaped |= 2 << bit;
        backslash &= !(3 << bit);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Byte by byte, as the grammar has it.
    fn container_end_by_bytes(bytes: &[u8], start: usize) -> usize {
        let (mut depth, mut in_string, mut at) = (0usize, false, start);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'\\' if in_string => at += 1,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth -= 1;
                    if depth == 0 {
                        return at + 1;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        bytes.len()
    }

    fn find_by_bytes(bytes: &[u8], at: usize) -> usize {
        let rest = bytes.get(at..).unwrap_or_default();
        at + rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len())
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let text = "[\\[\\]{}:, a\"\\\\\u{1}é]{0,90}";
        let leaf = prop_oneof![any::<i32>().prop_map(Into::into), text.prop_map(serde_json::Value::from)];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                prop::collection::vec((text, inner), 0..5)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn containers_end_where_the_grammar_says(value in json(), after in "[\\[\\]{}\", ]{0,70}", pretty: bool) {
            let list = serde_json::json!([value]);
            let text = if pretty { serde_json::to_vec_pretty(&list) } else { serde_json::to_vec(&list) };
            let mut text = text.unwrap();
            let length = text.len();
            text.extend_from_slice(after.as_bytes());
            prop_assert_eq!(container_end(&text, 0), length);
            for (start, _) in text.iter().enumerate().filter(|(at, byte)| *at < length && **byte == b'[') {
                // A bracket in a string begins nothing.
                if serde_json::from_slice::<serde_json::Value>(text.get(start..container_end_by_bytes(&text, start)).unwrap()).is_ok() {
                    prop_assert_eq!(container_end(&text, start), container_end_by_bytes(&text, start));
                }
            }
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(prop::sample::select(&b"{}[]\"\\ a"[..]), 0..200), at in 0..210_usize) {
            prop_assert!(container_end(&bytes, at) <= bytes.len());
        }

        #[test]
        fn specials_are_found_in_any_order(
            bytes in prop::collection::vec(prop_oneof![9 => Just(b'a'), 1 => any::<u8>()], 0..300),
            places in prop::collection::vec(0..300_usize, 1..20),
        ) {
            let mut specials = Specials::new();
            for at in places.into_iter().filter(|at| *at <= bytes.len()) {
                prop_assert_eq!(specials.find(&bytes, at), find_by_bytes(&bytes, at));
            }
        }
    }

    #[test]
    fn escapes_go_over_the_border_of_a_block() {
        for length in 55..70 {
            for slashes in 0..6 {
                let inside = ["a".repeat(length), "\\".repeat(slashes)].concat();
                let text = format!("[\"{inside}\\\"]\"]");
                assert_eq!(
                    container_end(text.as_bytes(), 0),
                    container_end_by_bytes(text.as_bytes(), 0),
                    "{text}"
                );
            }
        }
    }
}
