//! Glob patterns in `-f`, as shells and kubectl know them: `*`, `?` and `[a-z]` within a path element.

use std::path::{Path, PathBuf};

/// The paths that match a pattern, sorted. Empty if it is none, or nothing matches.
pub(super) fn expand(pattern: &Path) -> Vec<PathBuf> {
    let Some(text) = pattern.to_str().filter(|text| is_pattern(text)) else { return Vec::new() };
    let absolute = text.starts_with('/');
    let mut found = vec![if absolute { PathBuf::from("/") } else { PathBuf::new() }];
    for element in text.split('/').filter(|element| !element.is_empty()) {
        found = found.iter().flat_map(|dir| step(dir, element)).collect();
    }
    found.sort();
    found
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Entries of a directory that match a pattern element.
fn step(dir: &Path, element: &str) -> Vec<PathBuf> {
    if !is_pattern(element) {
        let path = dir.join(element);
        return if path.exists() { vec![path] } else { Vec::new() };
    }
    let place = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
    let pattern: Vec<char> = element.chars().collect();
    let matching = |name: &str| {
        // A hidden file has to be named as one.
        (!name.starts_with('.') || element.starts_with('.'))
            && matches(&pattern, &name.chars().collect::<Vec<_>>())
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| matching(name)).map(|name| dir.join(name)).collect()
}

/// Whether a name matches, by going back to the last `*`: linear in most cases, and never more than quadratic.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(&character) = name.get(n) {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some(_) => {
                if let Some(length) = matches_one(&pattern[p..], character) {
                    p += length;
                    n += 1;
                    continue;
                }
            }
            None => {}
        }
        let Some((at, from)) = star else { return false };
        star = Some((at, from + 1));
        (p, n) = (at + 1, from + 1);
    }
    pattern[p..].iter().all(|rest| *rest == '*')
}

/// How much of the pattern one character takes, if it matches.
fn matches_one(pattern: &[char], character: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => {
            let end = pattern.iter().skip(2).position(|end| *end == ']')? + 2;
            let (negated, set) = match pattern.get(1..end)? {
                [first, rest @ ..] if matches!(first, '!' | '^') && !rest.is_empty() => (true, rest),
                set => (false, set),
            };
            let mut at = 0;
            let mut found = false;
            while let Some(&low) = set.get(at) {
                if let (Some('-'), Some(&high)) = (set.get(at + 1), set.get(at + 2)) {
                    found |= (low..=high).contains(&character);
                    at += 3;
                } else {
                    found |= low == character;
                    at += 1;
                }
            }
            (found != negated).then_some(end + 1)
        }
        '\\' => (*pattern.get(1)? == character).then_some(2),
        literal => (*literal == character).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_shells() {
        let check = |pattern: &str, name: &str, expected: bool| {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(matches(&chars(pattern), &chars(name)), expected, "{pattern} {name}");
        };
        check("*.yaml", "web.yaml", true);
        check("*.yaml", "web.yml", false);
        check("web-?.yaml", "web-1.yaml", true);
        check("web-?.yaml", "web-10.yaml", false);
        check("[a-c]*.y*l", "b.yml", true);
        check("[!a-c]*", "b.yml", false);
        check("[^a-c]*", "d.yml", true);
        check("[]]", "]", true);
        check("[a", "[a", false);
        check("a*b*c", "aXbXbXc", true);
        check("a*b*c", "aXbXbX", false);
        check("\\*", "*", true);
        check("*", "", true);
    }

    #[test]
    fn paths_are_expanded_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b/2.yaml", "a/1.yaml", "a/.hidden.yaml", "a/1.json", "c.yaml"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let expanded = |pattern: &str| -> Vec<String> {
            let found = expand(&dir.path().join(pattern));
            found.iter().map(|path| path.strip_prefix(dir.path()).unwrap().display().to_string()).collect()
        };
        assert_eq!(expanded("*/*.yaml"), ["a/1.yaml", "b/2.yaml"]);
        assert_eq!(expanded("[ab]"), ["a", "b"]);
        assert_eq!(expanded("a/.*.yaml"), ["a/.hidden.yaml"]);
        assert!(expanded("c.yaml").is_empty(), "no pattern");
        assert!(expanded("x*").is_empty());
    }
}
