//! Patterns as Go's RE2 has them, on the crate `regex`: the same engine, another dialect.

use regex::{Regex, RegexBuilder};

/// No larger program is built: bytes.
const MAX_SIZE: usize = 4 << 20;
/// RE2's limit.
const MAX_REPEAT: u32 = 1000;
const MAX_LENGTH: usize = 100_000;

/// A pattern, or what Go says that is wrong with it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_LENGTH {
        return Err("error parsing regexp: expression too large".to_owned());
    }
    let translated = translate(pattern)?;
    RegexBuilder::new(&translated).size_limit(MAX_SIZE).build().map_err(|_| wrong(pattern))
}

fn wrong(pattern: &str) -> String {
    let open = pattern.chars().filter(|char| matches!(char, '(' | '[')).count();
    let close = pattern.chars().filter(|char| matches!(char, ')' | ']')).count();
    let what = match pattern.chars().next() {
        Some(first @ ('*' | '+' | '?')) => {
            return format!("error parsing regexp: missing argument to repetition operator: `{first}`");
        }
        _ if pattern.contains('[') && open > close => {
            let class = pattern.find('[').and_then(|at| pattern.get(at..)).unwrap_or_default();
            return format!("error parsing regexp: missing closing ]: `{class}`");
        }
        _ if open > close => "missing closing )",
        _ if close > open => "unexpected )",
        _ => "invalid or unsupported Perl syntax",
    };
    format!("error parsing regexp: {what}: `{pattern}`")
}

fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    let mut class_start = false;
    let mut rest_at = 0;
    // How a repetition goes on: `*`, then perhaps `?`, then no other.
    let mut repeated: Option<bool> = None;
    while let Some(char) = chars.next() {
        rest_at += char.len_utf8();
        if !in_class {
            let is_braced = char == '{' && repeat(pattern.get(rest_at..).unwrap_or_default()).is_some();
            repeated = match (char, repeated) {
                ('?', Some(false)) => Some(true),
                ('*' | '+' | '?', Some(_)) => {
                    return Err(format!(
                        "error parsing regexp: invalid nested repetition operator: `{char}`"
                    ));
                }
                ('{', Some(_)) if is_braced => {
                    return Err("error parsing regexp: invalid nested repetition operator: `{`".to_owned());
                }
                ('*' | '+' | '?', None) => Some(false),
                ('}', None) if ends_repeat(&out) && !in_braces(&out) => Some(false),
                _ => None,
            };
        }
        let rest = pattern.get(rest_at..).unwrap_or_default();
        let first_of_class = std::mem::take(&mut class_start);
        match char {
            '\\' => {
                let Some(next) = chars.next() else {
                    return Err(
                        "error parsing regexp: trailing backslash at end of expression: ``".to_owned()
                    );
                };
                rest_at += next.len_utf8();
                match next {
                    'd' => out.push_str(if in_class { "0-9" } else { "[0-9]" }),
                    'D' => out.push_str("[^0-9]"),
                    'w' => out.push_str(if in_class { "0-9A-Za-z_" } else { "[0-9A-Za-z_]" }),
                    'W' => out.push_str("[^0-9A-Za-z_]"),
                    's' => out.push_str(if in_class { "\\t\\n\\f\\r " } else { "[\\t\\n\\f\\r ]" }),
                    'S' => out.push_str("[^\\t\\n\\f\\r ]"),
                    'b' if !in_class => out.push_str("(?-u:\\b)"),
                    'B' if !in_class => out.push_str("(?-u:\\B)"),
                    'Q' if !in_class => {
                        let tail = pattern.get(rest_at..).unwrap_or_default();
                        let quoted = tail.split("\\E").next().unwrap_or_default();
                        out.push_str(&regex::escape(quoted));
                        let skip = if tail.len() > quoted.len() { quoted.len() + 2 } else { quoted.len() };
                        while rest_at < pattern.len() && pattern.len() - rest_at > tail.len() - skip {
                            match chars.next() {
                                Some(char) => rest_at += char.len_utf8(),
                                None => break,
                            }
                        }
                    }
                    'A' | 'z' | 'p' | 'P' | 'x' | 'a' | 'f' | 'n' | 'r' | 't' | 'v' => {
                        out.push('\\');
                        out.push(next);
                    }
                    next if next.is_ascii_punctuation() => {
                        out.push('\\');
                        out.push(next);
                    }
                    next => return Err(format!("error parsing regexp: invalid escape sequence: `\\{next}`")),
                }
            }
            '[' if !in_class => {
                in_class = true;
                class_start = true;
                out.push('[');
            }
            '^' if first_of_class => {
                out.push('^');
                class_start = true;
            }
            ']' if in_class && first_of_class => out.push_str("\\]"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' if rest.starts_with(':') && rest.contains(":]") => {
                out.push('[');
                for char in chars.by_ref() {
                    rest_at += char.len_utf8();
                    out.push(char);
                    if char == ']' {
                        break;
                    }
                }
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(char);
            }
            '-' if in_class && rest.starts_with('-') => out.push_str("\\-"),
            '{' if out.ends_with("\\p") || out.ends_with("\\P") || out.ends_with("\\x") => out.push('{'),
            '{' if !in_class => match repeat(rest) {
                Some(most) if most > MAX_REPEAT => {
                    let text = rest.split('}').next().unwrap_or_default();
                    return Err(format!("error parsing regexp: invalid repeat count: `{{{text}}}`"));
                }
                Some(_) => out.push('{'),
                None => out.push_str("\\{"),
            },
            '}' if !in_class && !ends_repeat(&out) => out.push_str("\\}"),
            char => out.push(char),
        }
    }
    Ok(out)
}

/// The larger bound of `{n}`, `{n,}` or `{n,m}` after its bracket.
fn repeat(rest: &str) -> Option<u32> {
    let (inner, _) = rest.split_once('}')?;
    let read = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().unwrap_or(u32::MAX))
    };
    match inner.split_once(',') {
        None => read(inner),
        Some((least, "")) => read(least),
        Some((least, most)) => Some(read(least)?.max(read(most)?)),
    }
}

fn ends_repeat(out: &str) -> bool {
    let digits = out.trim_end_matches(|char: char| char.is_ascii_digit() || char == ',');
    (digits.ends_with('{') && !digits.ends_with("\\{")) || in_braces(out)
}

/// Inside of `\p{..}` or `\x{..}`.
fn in_braces(out: &str) -> bool {
    out.rfind('{').is_some_and(|at| {
        let before = out.get(..at).unwrap_or_default();
        (before.ends_with("\\p") || before.ends_with("\\P") || before.ends_with("\\x"))
            && !out.get(at..).unwrap_or_default().contains('}')
    })
}
