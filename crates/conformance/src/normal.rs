//! Normalization: replaces values that change from run to run.
//!
//! | value | normalized |
//! |---|---|
//! | UIDs, anywhere | `uid:1`, numbered as they appear |
//! | resource versions | `rv:1`, numbered as they appear; `rv:3<rv:2` if a new one is lower than the highest before |
//! | resource version of a bookmark | `rv:bookmark`, or `rv:bookmark-low` if lower than that of an earlier event |
//! | continue tokens | their decoded content |
//! | current timestamps | `<time>`, `<microtime>` |
//! | ages in table cells | `<age>` |
//! | names from `generateName` | the prefix and `<generated:1>` |
//! | causes about custom resources, CRDs and conflicts, also in messages, and lists of errors | sorted |
//! | the whole object in a message about a patch | `<object>` |
//! | managed fields | sorted by operation, manager, version and subresource |
//! | allocated addresses and ports | `address:1`, `port:1` |
//!
//! Only headers that affect clients are kept, unless they have their usual value.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::target::Response;
use crate::token;

/// Compared headers and their usual values.
const HEADERS: [(&str, &str); 11] = [
    ("content-type", "application/json"),
    ("cache-control", "no-cache, private"),
    ("audit-id", PRESENT),
    ("x-content-type-options", ""),
    ("warning", ""),
    ("retry-after", ""),
    ("allow", ""),
    ("location", ""),
    ("www-authenticate", ""),
    ("etag", ""),
    ("vary", ""),
];

/// Placeholder for values that are always different.
const PRESENT: &str = "(present)";

/// Table columns with ages, of any type.
const AGES: [&str; 8] =
    ["Age", "Duration", "Last Schedule", "Last Seen", "First Seen", "Since", "Completed", "Created At"];

/// Replaces values that change from run to run by labels. One instance serves all responses of a case, so that labels
/// are consistent within the case.
#[derive(Clone, Debug, Default)]
pub struct Normaliser {
    uids: Vec<String>,
    revisions: BTreeMap<u64, String>,
    generated: Vec<(String, String)>,
    addresses: Vec<String>,
    columns: Vec<bool>,
    highest: u64,
}

impl Normaliser {
    /// Normalizes a response.
    pub fn response(&mut self, response: &Response) -> Value {
        let mut answer = Map::new();
        answer.insert("status".to_owned(), response.status.into());
        let mut headers = Map::new();
        for (name, ordinary) in HEADERS {
            let mut values: Vec<String> = response
                .headers
                .iter()
                .filter(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| match name {
                    "audit-id" | "etag" => PRESENT.to_owned(),
                    _ => self.text(value),
                })
                .collect();
            if name == "x-content-type-options" || name == "vary" {
                // Set on some responses only, and irrelevant for API clients.
                continue;
            }
            let empty_body = name == "content-type" && response.body.is_empty();
            if values.is_empty() && !ordinary.is_empty() && !empty_body {
                headers.insert(name.to_owned(), "(absent)".into());
            } else if values.len() == 1 && values[0] != ordinary {
                headers.insert(name.to_owned(), values.remove(0).into());
            } else if values.len() > 1 {
                headers.insert(name.to_owned(), values.into());
            }
        }
        if !headers.is_empty() {
            answer.insert("headers".to_owned(), headers.into());
        }
        if !response.body.is_empty() {
            match serde_json::from_slice::<Value>(&response.body) {
                Ok(body) => answer.insert("body".to_owned(), self.body(&body)),
                Err(_) => answer
                    .insert("text".to_owned(), self.text(&String::from_utf8_lossy(&response.body)).into()),
            };
        }
        answer.into()
    }

    /// Normalizes a watch event.
    pub fn event(&mut self, line: &[u8]) -> Value {
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            return json!({"text": self.text(&String::from_utf8_lossy(line))});
        };
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        let mut object = event.get("object").cloned().unwrap_or(Value::Null);
        let revision = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let number = revision.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        if kind == "BOOKMARK" {
            let label = if number < self.highest { "rv:bookmark-low" } else { "rv:bookmark" };
            if let Some(revision) = object.pointer_mut("/metadata/resourceVersion") {
                *revision = label.into();
            }
        } else {
            self.highest = self.highest.max(number);
        }
        let mut answer = Map::new();
        for (key, value) in event.as_object().into_iter().flatten() {
            let value = if key == "object" { self.body(&object) } else { value.clone() };
            answer.insert(key.clone(), value);
        }
        answer.into()
    }

    /// Begins a new stream: bookmarks are compared with events of the same stream.
    pub fn begin_stream(&mut self) {
        self.highest = 0;
    }

    /// Replaces a name generated by the server from now on.
    pub fn generated(&mut self, prefix: &str, name: &str) {
        if name.len() > prefix.len() && name.starts_with(prefix) {
            let label = format!("{prefix}<generated:{}>", self.generated.len() + 1);
            self.generated.push((name.to_owned(), label));
        }
    }

    /// Normalizes a body.
    pub fn body(&mut self, body: &Value) -> Value {
        if body.pointer("/details/causes/1").is_some() && has_causes_in_any_order(body) {
            let mut body = body.clone();
            sort_causes(&mut body);
            return self.value("", &body);
        }
        if body.get("kind").and_then(Value::as_str) == Some("Table") {
            return self.table(body);
        }
        self.value("", body)
    }

    fn table(&mut self, table: &Value) -> Value {
        if let Some(columns) = table.get("columnDefinitions").and_then(Value::as_array)
            && !columns.is_empty()
        {
            self.columns = columns
                .iter()
                .map(|column| {
                    let text = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default();
                    text("type") == "date" || AGES.contains(&text("name"))
                })
                .collect();
        }
        let mut table = table.clone();
        for row in table.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
            let cells = row.get_mut("cells").and_then(Value::as_array_mut);
            for (cell, is_age) in cells.into_iter().flatten().zip(&self.columns) {
                let text = cell.as_str().unwrap_or_default();
                if *is_age && text.starts_with(|first: char| first.is_ascii_digit()) {
                    *cell = "<age>".into();
                }
            }
        }
        self.value("", &table)
    }

    fn value(&mut self, key: &str, value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                // Maps are sorted by key on both sides, so labels have the same order.
                map.iter().map(|(key, value)| (self.text(key), self.value(key, value))).collect()
            }
            Value::Array(items) if key == "managedFields" => {
                // Upstream sorts by time first, which is random at the scale of seconds. Labels are assigned after
                // sorting.
                let text =
                    |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
                let mut items: Vec<&Value> = items.iter().collect();
                items.sort_by_cached_key(|entry| {
                    ["operation", "manager", "apiVersion", "subresource"].map(|key| text(entry, key))
                });
                items.into_iter().map(|item| self.value("", item)).collect()
            }
            Value::Array(items) if key == "nonResourceRules" || key == "resourceRules" => {
                // Rules of a SelfSubjectRulesReview are in the order of a cache.
                let mut items: Vec<&Value> = items.iter().collect();
                items.sort_by_cached_key(ToString::to_string);
                items.into_iter().map(|item| self.value("", item)).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.value(key, item)).collect(),
            Value::String(text) => match key {
                "resourceVersion" => self.revision(text).into(),
                "continue" => match token::decode(text) {
                    Some(inside) => {
                        let mut inside = inside;
                        if let Some(number) = inside.get("rv").and_then(Value::as_u64) {
                            inside["rv"] = self.revision(&number.to_string()).into();
                        }
                        if let Some(start) = inside.get("start").and_then(Value::as_str) {
                            inside["start"] = self.text(start).into();
                        }
                        inside
                    }
                    None => Value::from(text.as_str()),
                },
                "clusterIP" | "clusterIPs" if text.starts_with("10.") => self.address(text).into(),
                "message" => {
                    let text = tidy(text);
                    self.text(&text).into()
                }
                "manager" => self.text(program(text)).into(),
                _ => self.text(text).into(),
            },
            Value::Number(number) if key == "nodePort" || key == "healthCheckNodePort" => {
                match number.as_u64() {
                    Some(port @ 30_000..=32_767) => {
                        self.address(&port.to_string()).replace("address", "port").into()
                    }
                    _ => value.clone(),
                }
            }
            other => other.clone(),
        }
    }

    fn address(&mut self, text: &str) -> String {
        let known = self.addresses.iter().position(|address| address == text);
        let index = known.unwrap_or_else(|| {
            self.addresses.push(text.to_owned());
            self.addresses.len() - 1
        });
        format!("address:{}", index + 1)
    }

    fn revision(&mut self, text: &str) -> String {
        let number = match text.parse::<u64>() {
            // 0 means "any".
            Ok(number) if number > 0 => number,
            _ => return text.to_owned(),
        };
        if let Some(label) = self.revisions.get(&number) {
            return label.clone();
        }
        let next = self.revisions.range(number..).next().map(|(_, label)| label.clone());
        let own = format!("rv:{}", self.revisions.len() + 1);
        self.revisions.insert(number, own.clone());
        match next {
            // Reported once, at its first occurrence: from then on the plain label is used.
            Some(higher) => format!("{own}<{higher}"),
            None => own,
        }
    }

    /// Normalizes a text: UIDs, times, generated names, and resource versions in messages.
    pub fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, label) in &self.generated {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), label);
            }
        }
        let bytes = text.as_bytes();
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while at < bytes.len() {
            let fresh = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
            if fresh && is_uid(&bytes[at..]) {
                let uid = &text[at..at + 36];
                let known = self.uids.iter().position(|known| known == uid);
                let index = known.unwrap_or_else(|| {
                    self.uids.push(uid.to_owned());
                    self.uids.len() - 1
                });
                out.push_str(&format!("uid:{}", index + 1));
                at += 36;
            } else if fresh && let Some((length, micro)) = time(&bytes[at..]) {
                out.push_str(if micro { "<microtime>" } else { "<time>" });
                at += length;
            } else if fresh
                && let Some(before) = BEFORE_REVISION.iter().find(|before| text[at..].starts_with(**before))
            {
                out.push_str(before);
                at += before.len();
                let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let label = self.revision(&text[at..at + digits]);
                out.push_str(&label);
                at += digits;
                // "too old resource version: 1 (2345)"
                let rest = &text[at..];
                if let Some(inner) = rest.strip_prefix(" (")
                    && let Some((number, _)) = inner.split_once(')')
                    && number.bytes().all(|byte| byte.is_ascii_digit())
                {
                    // The start of the window differs between servers.
                    out.push_str(" (rv:oldest)");
                    at += number.len() + 3;
                }
            } else {
                let width = text[at..].chars().next().map_or(1, char::len_utf8);
                out.push_str(&text[at..at + width]);
                at += width;
            }
        }
        out
    }
}

/// Upstream reports the causes of custom resources, CRD schemas and conflicts in the random order of Go's maps.
fn has_causes_in_any_order(status: &Value) -> bool {
    let conflict = |cause: &Value| cause.get("reason").is_some_and(|reason| reason == "FieldManagerConflict");
    let causes = status.pointer("/details/causes").and_then(Value::as_array);
    if causes.is_some_and(|causes| causes.iter().all(conflict)) {
        return true;
    }
    let group = status.pointer("/details/group").and_then(Value::as_str).unwrap_or_default();
    group == "apiextensions.k8s.io" || group.contains('.') && !group.ends_with(".k8s.io")
}

/// Sorts the causes of a Status, and the same list in its message.
fn sort_causes(status: &mut Value) {
    let part = |cause: &Value| {
        let text = |key: &str| cause.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("field") {
            "" => text("message").to_owned(),
            field => format!("{field}: {}", text("message")),
        }
    };
    let Some(causes) = status.pointer_mut("/details/causes").and_then(Value::as_array_mut) else { return };
    let mut parts: Vec<String> = Vec::new();
    for cause in causes.iter() {
        let part = part(cause);
        // The message lists each once.
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    causes.sort_by_cached_key(part);
    let before = parts.join(", ");
    parts.sort();
    if let Some(Value::String(message)) = status.get_mut("message") {
        *message = message.replace(&before, &parts.join(", "));
    }
}

/// Removes random parts of a message: the whole patched object in Go syntax, and the order of errors from
/// structured-merge-diff.
fn tidy(message: &str) -> String {
    const OBJECT: &str = "Invalid value: \"{\\\"";
    let mut message = message.to_owned();
    if let Some(start) = message.find(OBJECT)
        && let Some(length) = message[start..].find("}\": ")
    {
        message.replace_range(start..start + length + 2, "Invalid value: <object>");
    }
    if let Some((before, lines)) = message.split_once("errors:\n") {
        let mut lines: Vec<&str> = lines.split('\n').collect();
        lines.sort_unstable();
        message = format!("{before}errors:\n{}", lines.join("\n"));
    }
    message
}

/// Removes the build-specific suffix of a program name: `kube-apiserver-a7c6d9430fffcd61`.
fn program(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((plain, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => plain,
        _ => name,
    }
}

/// Texts before a resource version in upstream's messages.
const BEFORE_REVISION: [&str; 4] = [
    "resource version: ",
    "current: ",
    "the ResourceVersion in the precondition (",
    "the ResourceVersion in record (",
];

fn is_uid(bytes: &[u8]) -> bool {
    let Some((uid, rest)) = bytes.split_at_checked(36) else { return false };
    let digits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
    };
    uid.iter().enumerate().all(digits) && !rest.first().is_some_and(u8::is_ascii_alphanumeric)
}

/// The length of a current timestamp at the beginning of a text, and whether it has fractional seconds.
fn time(bytes: &[u8]) -> Option<(usize, bool)> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let shaped = bytes.get(..SHAPE.len())?;
    let fits = shaped.iter().zip(SHAPE).all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    });
    // Timestamps in scripts are in other decades, and are kept.
    let ours = b"2024"[..] <= shaped[..4] && shaped[..4] < b"2090"[..];
    if !(fits && ours) {
        return None;
    }
    let rest = &bytes[SHAPE.len()..];
    let fraction = match rest.first() {
        Some(b'.') => 1 + rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count(),
        _ => 0,
    };
    (rest.get(fraction) == Some(&b'Z')).then_some((SHAPE.len() + fraction + 1, fraction > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_relations() {
        let mut normal = Normaliser::default();
        let body = json!({"metadata": {"resourceVersion": "20", "uid": "9f0eb0e7-b354-44a8-9ea0-3901e497e62d",
            "creationTimestamp": "2026-11-21T09:25:45Z"}});
        let wanted =
            json!({"metadata": {"resourceVersion": "rv:1", "uid": "uid:1", "creationTimestamp": "<time>"}});
        assert_eq!(normal.body(&body), wanted);
        assert_eq!(normal.body(&body), wanted);
        for (text, wanted) in [
            ("uid 9f0eb0e7-b354-44a8-9ea0-3901e497e62d!", "uid uid:1!"),
            ("2026-11-21T09:25:45.123456Z", "<microtime>"),
            ("2001-11-21T09:25:45Z", "2001-11-21T09:25:45Z"),
            ("too old resource version: 20 (30)", "too old resource version: rv:1 (rv:oldest)"),
            (
                "Too large resource version: 21, current: 20",
                "Too large resource version: rv:2, current: rv:1",
            ),
            ("é", "é"),
        ] {
            assert_eq!(normal.text(text), wanted);
        }
        assert_eq!(normal.revision("19"), "rv:3<rv:1");
        assert_eq!(normal.revision("19"), "rv:3");
        assert_eq!(normal.revision("0"), "0");
        normal.generated("a-", "a-xyz12");
        assert_eq!(normal.text("configmaps \"a-xyz12\""), "configmaps \"a-<generated:1>\"");
    }
}
