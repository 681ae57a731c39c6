//! The standard base64 alphabet with padding, as Go's `encoding/base64` decodes it.

/// `None` if the text isn't base64. Line breaks are skipped.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.iter().copied().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let groups = text.as_chunks::<4>().0;
    for (index, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|&&b| b == b'=').count();
        if padding > 2 || (padding > 0 && index + 1 < groups.len()) {
            return None;
        }
        let mut bits: u32 = 0;
        for &byte in &group[..4 - padding] {
            bits = (bits << 6) | value(byte)?;
        }
        bits <<= 6 * padding;
        bytes.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn decodes_what_is_base64() {
        let check =
            |text: &str, expected: Option<&[u8]>| assert_eq!(decode(text.as_bytes()).as_deref(), expected);
        check("", Some(b""));
        check("aGk=", Some(b"hi"));
        check("aGkh", Some(b"hi!"));
        check("aA==", Some(b"h"));
        check("aG\nkh", Some(b"hi!"));
        check("aGk", None);
        check("a===", None);
        check("aA==aA==", None);
        check("a k=", None);
    }
}
