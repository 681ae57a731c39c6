//! Comparison of responses, and the table of accepted differences.

use serde_json::Value;

use crate::target::Error;

/// One difference between two responses.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// JSON pointer in the response.
    pub place: String,
    /// Value of the reference server.
    pub theirs: Option<Value>,
    /// Value of the other server.
    pub ours: Option<Value>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |value: &Option<Value>| match value {
            None => "(nothing)".to_owned(),
            Some(value) => {
                let text = value.to_string();
                match text.char_indices().nth(400) {
                    Some((at, _)) => format!("{}…", &text[..at]),
                    None => text,
                }
            }
        };
        write!(
            formatter,
            "{}\n    theirs {}\n    ours   {}",
            self.place,
            short(&self.theirs),
            short(&self.ours)
        )
    }
}

impl Difference {
    /// Whether two texts are equal except for the lines of a diff, which begin with `@`, `+`, `-` or a space.
    fn is_but_go_diff(&self) -> bool {
        let [Some(Value::String(theirs)), Some(Value::String(ours))] = [&self.theirs, &self.ours] else {
            return false;
        };
        let mut lines = theirs.split('\n');
        let mut rest = lines.next().unwrap_or_default().to_owned();
        rest.extend(lines.filter(|line| !line.starts_with(['@', '+', '-', ' '])));
        rest == *ours
    }
}

/// All differences between two responses, at the deepest path that contains each.
#[must_use]
pub fn compare(theirs: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk("", Some(theirs), Some(ours), &mut found);
    found
}

fn walk(place: &str, theirs: Option<&Value>, ours: Option<&Value>, found: &mut Vec<Difference>) {
    let at = |key: &str| format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"));
    match (theirs, ours) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for (key, value) in a {
                walk(&at(key), Some(value), b.get(key), found);
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                walk(&at(key), None, Some(value), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                walk(&at(&index.to_string()), Some(a), Some(b), found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => {
            found.push(Difference { place: place.to_owned(), theirs: a.cloned(), ours: b.cloned() });
        }
    }
}

/// An accepted difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Pattern for cases: `file/case`, where `*` is any text.
    pub case: String,
    /// Index of the step, from 0; all steps if absent.
    pub step: Option<usize>,
    /// Pattern for paths, where `*` is any text.
    pub place: String,
    /// Value of the other server, null if absent there; any value if not set.
    pub ours: Option<Value>,
    /// Only the diff of Go structs that the reference server appends to a message may differ.
    pub go_diff: bool,
    /// Why the difference is accepted.
    pub reason: String,
}

/// Fields of a row.
const KEYS: [&str; 6] = ["case", "step", "place", "ours", "go_diff", "reason"];

/// The table of accepted differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// The table's rows.
    pub rows: Vec<Known>,
}

impl Differences {
    /// Parses the table: a YAML list of `{case, step, place, ours, go_diff, reason}`.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the table is invalid, or a row has no reason or no path, and so would accept any response.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |problem: String| Error::file("differences", problem);
        let mut json = Vec::new();
        settled_manifest::yaml_to_json(text.as_bytes(), &mut json).map_err(|why| wrong(why.to_string()))?;
        let value: Value = serde_json::from_slice(&json).map_err(|why| wrong(why.to_string()))?;
        let mut rows = Vec::new();
        for row in value.as_array().into_iter().flatten() {
            let text = |key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
            let unknown =
                row.as_object().into_iter().flatten().find(|(key, _)| !KEYS.contains(&key.as_str()));
            if let Some((key, _)) = unknown {
                return Err(wrong(format!("no such key: {key}: {row}")));
            }
            let place = text("place").filter(|place| place.contains(|letter| letter != '*'));
            rows.push(Known {
                case: text("case").ok_or_else(|| wrong(format!("no case: {row}")))?,
                step: row.get("step").and_then(Value::as_u64).and_then(|step| usize::try_from(step).ok()),
                place: place.ok_or_else(|| wrong(format!("no place: {row}")))?,
                ours: row.get("ours").cloned(),
                go_diff: row.get("go_diff").and_then(Value::as_bool) == Some(true),
                reason: text("reason").ok_or_else(|| wrong(format!("no reason: {row}")))?,
            });
        }
        Ok(Self { rows })
    }

    /// The index of the first row that accepts a difference.
    #[must_use]
    pub fn reason(&self, file: &str, case: &str, step: usize, difference: &Difference) -> Option<usize> {
        let name = format!("{file}/{case}");
        self.rows.iter().position(|row| {
            matches(&row.case, &name)
                && row.step.is_none_or(|wanted| wanted == step)
                && matches(&row.place, &difference.place)
                && row
                    .ours
                    .as_ref()
                    .is_none_or(|ours| difference.ours.as_ref().unwrap_or(&Value::Null) == ours)
                && (!row.go_diff || difference.is_but_go_diff())
        })
    }
}

/// Comparison of one step of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Index of the recorded step, from 0.
    pub step: usize,
    /// Whether the responses differ at all.
    pub differs: bool,
    /// Differences that no row accepts.
    pub unexplained: Vec<Difference>,
    /// Rows that accept the other differences.
    pub rows: Vec<usize>,
}

/// Compares the responses of a case, step by step. A step that only one of them has differs as a whole.
#[must_use]
pub fn compare_case(
    known: &Differences,
    file: &str,
    case: &str,
    theirs: &[Value],
    ours: &[Value],
) -> Vec<Compared> {
    let steps = 0..theirs.len().max(ours.len());
    let compared = steps.map(|step| {
        let [a, b] = [theirs, ours].map(|answers| answers.get(step).unwrap_or(&Value::Null));
        let all = compare(a, b);
        let differs = !all.is_empty();
        let (mut unexplained, mut rows) = (Vec::new(), Vec::new());
        for difference in all {
            match known.reason(file, case, step, &difference) {
                Some(row) => rows.push(row),
                None => unexplained.push(difference),
            }
        }
        Compared { step, differs, unexplained, rows }
    });
    compared.collect()
}

/// Whether a text matches a pattern, where `*` is any text.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_are_the_deepest() {
        let places = |a, b| compare(&a, &b).into_iter().map(|one| one.place).collect::<Vec<_>>();
        assert_eq!(places(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1, "c": 3}})), ["/a/c"]);
        assert_eq!(places(json!({"a": [1, 2]}), json!({"a": [1]})), ["/a"]);
        assert_eq!(places(json!({"a": 1}), json!({"b": 1})), ["/a", "/b"]);
        assert!(places(json!([1, {"x": null}]), json!([1, {"x": null}])).is_empty());
    }

    #[test]
    fn a_diff_of_structs_is_no_licence() {
        let rows = "[{case: '*', place: '*message*', go_diff: true, reason: r}]";
        let known = Differences::parse(rows).unwrap();
        let meant = |theirs: &str, ours: &str| {
            let [theirs, ours] = [theirs, ours].map(|text| Some(json!(text)));
            known.reason("f", "c", 0, &Difference { place: "/message".to_owned(), theirs, ours }).is_some()
        };
        assert!(meant("[a: no\n@@ -1 +1 @@\n-x\n+y\n, b: no]", "[a: no, b: no]"));
        assert!(!meant("[a: no\n@@ -1 +1 @@\n-x\n+y\n, b: no]", "[a: no, c: no]"));
        assert!(!meant("a", "b"));
    }

    #[test]
    fn a_row_allows_what_it_names() {
        for (row, problem) in [
            ("{case: a, reason: r}", "no place"),
            ("{case: a, place: '*', reason: r}", "no place"),
            ("{case: a, place: /b}", "no reason"),
            ("{place: /b, reason: r}", "no case"),
            ("{case: a, place: /b, our: 1, reason: r}", "no such key: our"),
        ] {
            let error = Differences::parse(&format!("[{row}]")).unwrap_err().to_string();
            assert!(error.contains(problem), "{row}: {error}");
        }
        let rows = "[{case: f/c, step: 1, place: /a, ours: 2, reason: r}, {case: f/c, step: 1, place: /b, ours: null, reason: r}]";
        let known = Differences::parse(rows).unwrap();
        let meant = |place: &str, ours: Option<Value>| {
            let difference = Difference { place: place.to_owned(), theirs: Some(json!(1)), ours };
            known.reason("f", "c", 1, &difference)
        };
        assert_eq!(meant("/a", Some(json!(2))), Some(0));
        assert_eq!(meant("/a", Some(json!(3))), None);
        assert_eq!(meant("/a", None), None);
        assert_eq!(meant("/b", None), Some(1));
        assert_eq!(meant("/b", Some(json!(2))), None);
        let both = json!({"a": 1, "b": 1, "c": 1});
        let compared =
            compare_case(&known, "f", "c", &[json!(0), both], &[json!(0), json!({"a": 2, "c": 2})]);
        assert_eq!(compared[1].rows, [0, 1]);
        assert_eq!(compared[1].unexplained.len(), 1);
    }

    #[test]
    fn patterns_match() {
        for (pattern, text, wanted) in [
            ("*", "", true),
            ("a/*", "a/b", true),
            ("a/*", "b/a/b", false),
            ("*/b", "a/b", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abce f", false),
            ("ab", "abc", false),
        ] {
            assert_eq!(matches(pattern, text), wanted, "{pattern} {text}");
        }
    }
}
