//! Writes the rules of the built-in pack in the compact form that `src/unpack.rs` reads. A part of the build script.

use serde_json::{Map, Value};

/// Keys of branches, in the order in which they are tried.
const BRANCHES: [&str; 5] = ["suspended", "failed", "inProgress", "unknown", "current"];

type Packed = Result<(), String>;
type Fields = Map<String, Value>;

/// Appends a rule. What it cannot read is an error here, and with its position one of the tests.
pub(crate) fn pack(rule: &Value, out: &mut Vec<u8>) -> Packed {
    let rule = fields(rule)?;
    let mut packer = Packer(out);
    packer.matches(fields(rule.get("match").ok_or("`match` is missing")?)?)?;
    let none = Map::new();
    let checks = present(rule, "checks").map_or(Ok(&none), fields)?;
    packer.check(present(checks, "deletion"))?;
    packer.check(present(checks, "generation"))?;
    let branches = BRANCHES.iter().enumerate();
    let branches: Vec<(usize, &Value)> = branches
        .flat_map(|(says, key)| many(present(rule, key)).iter().map(move |branch| (says, branch)))
        .collect();
    packer.count(branches.len())?;
    for (says, branch) in branches {
        packer.count(says)?;
        match branch {
            Value::String(when) => {
                packer.text(when)?;
                packer.words(&none)?;
            }
            branch => {
                let branch = fields(branch)?;
                packer.text(text(branch.get("when").ok_or("`when` is missing")?)?)?;
                packer.words(branch)?;
            }
        }
    }
    packer.optional(present(rule, "otherwise"), |packer, words| packer.words(fields(words)?))
}

fn fields(value: &Value) -> Result<&Fields, String> {
    value.as_object().ok_or_else(|| format!("expected a map, found {value}"))
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("expected text, found {value}"))
}

fn present<'v>(fields: &'v Fields, key: &str) -> Option<&'v Value> {
    fields.get(key).filter(|value| !value.is_null())
}

/// A list, or one value that stands for a list of one.
fn many(value: Option<&Value>) -> &[Value] {
    match value {
        None => &[],
        Some(Value::Array(list)) => list,
        Some(value) => std::slice::from_ref(value),
    }
}

struct Packer<'o>(&'o mut Vec<u8>);

impl Packer<'_> {
    fn count(&mut self, count: usize) -> Packed {
        self.0.push(u8::try_from(count).map_err(|_| "a list of more than 255 items")?);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Packed {
        let length = u16::try_from(text.len()).map_err(|_| "a text of more than 65,535 bytes")?;
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn optional(&mut self, value: Option<&Value>, write: impl FnOnce(&mut Self, &Value) -> Packed) -> Packed {
        self.0.push(u8::from(value.is_some()));
        value.map_or(Ok(()), |value| write(self, value))
    }

    fn optional_text(&mut self, value: Option<&Value>) -> Packed {
        self.optional(value, |packer, value| packer.text(text(value)?))
    }

    fn texts(&mut self, list: &[Value]) -> Packed {
        self.count(list.len())?;
        list.iter().try_for_each(|item| self.text(text(item)?))
    }

    fn matches(&mut self, matches: &Fields) -> Packed {
        self.text(text(matches.get("group").ok_or("`group` is missing")?)?)?;
        let kinds = many(present(matches, "kind"));
        let is_all = kinds.iter().any(|kind| kind == "*");
        self.0.push(u8::from(!is_all));
        if !is_all {
            self.texts(kinds)?;
        }
        self.texts(many(present(matches, "version")))?;
        self.optional_text(present(matches, "name"))?;
        self.optional_text(present(matches, "namespace"))?;
        let none = Map::new();
        let labels = present(matches, "labels").map_or(Ok(&none), fields)?;
        self.count(labels.len())?;
        for (key, value) in labels {
            self.text(key)?;
            self.text(text(value)?)?;
        }
        Ok(())
    }

    fn check(&mut self, check: Option<&Value>) -> Packed {
        match check {
            Some(Value::Bool(made)) => self.0.push(u8::from(*made)),
            None => self.0.push(1),
            Some(when) => {
                self.0.push(2);
                self.text(text(when)?)?;
            }
        }
        Ok(())
    }

    fn words(&mut self, words: &Fields) -> Packed {
        for key in ["from", "reason", "message", "class"] {
            self.optional_text(present(words, key))?;
        }
        let is_terminal = present(words, "terminal").and_then(Value::as_bool).unwrap_or_default();
        self.0.push(u8::from(is_terminal));
        Ok(())
    }
}
