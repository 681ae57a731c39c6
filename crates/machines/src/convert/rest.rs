//! What a conversion leaves out: paths with their values, in an annotation, so that nothing of the original is lost.

use serde_json::{Map, Value, json};

/// The difference between a value and its original.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rest {
    /// Values by JSON pointer.
    pub(super) set: Vec<(String, Value)>,
    /// JSON pointers of what the original does not have.
    pub(super) removed: Vec<String>,
}

impl Rest {
    /// What is to be done to a value to get its original.
    pub(super) fn between(value: &Value, original: &Value) -> Self {
        let mut rest = Self::default();
        rest.compare("", value, original);
        rest
    }

    fn compare(&mut self, path: &str, value: &Value, original: &Value) {
        if value == original {
            return;
        }
        let (Value::Object(members), Value::Object(wanted)) = (value, original) else {
            self.set.push((path.to_owned(), original.clone()));
            return;
        };
        let child = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        for (name, wanted) in wanted {
            match members.get(name) {
                Some(value) => self.compare(&child(name), value, wanted),
                None => self.set.push((child(name), wanted.clone())),
            }
        }
        self.removed
            .extend(members.keys().filter(|name| !wanted.contains_key(*name)).map(|name| child(name)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }

    /// For an annotation.
    pub(super) fn text(&self) -> String {
        let set: Map<String, Value> = self.set.iter().cloned().collect();
        json!({"set": set, "removed": self.removed}).to_string()
    }

    /// Of an annotation; nothing if it is none.
    pub(super) fn parse(text: &str) -> Self {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let set = value.get("set").and_then(Value::as_object).into_iter().flatten();
        let removed = value.get("removed").and_then(Value::as_array).into_iter().flatten();
        Self {
            set: set.map(|(path, value)| (path.clone(), value.clone())).collect(),
            removed: removed.filter_map(|path| path.as_str().map(str::to_owned)).collect(),
        }
    }

    /// Makes the original of a value.
    pub(super) fn restore(&self, value: &mut Value) {
        for path in &self.removed {
            if let Some((parent, name)) = path.rsplit_once('/')
                && let Some(members) = value.pointer_mut(parent).and_then(Value::as_object_mut)
            {
                members.remove(&name.replace("~1", "/").replace("~0", "~"));
            }
        }
        for (path, wanted) in &self.set {
            let tokens: Vec<String> =
                path.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
            let mut place = &mut *value;
            for token in &tokens {
                if !place.is_object() {
                    *place = json!({});
                }
                place = &mut place[token.as_str()];
            }
            *place = wanted.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_comes_back() {
        let value = json!({"a": 1, "b": {"c": [1]}, "x": {"y": 2}});
        let original = json!({"a": 1, "b": {"c": [1, 2], "d/e": null}, "f": {"g": {}}});
        let rest = Rest::parse(&Rest::between(&value, &original).text());
        let mut restored = value;
        rest.restore(&mut restored);
        assert_eq!(restored, original);
        assert!(Rest::between(&original, &original).is_empty());
    }
}
