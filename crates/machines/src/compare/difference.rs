//! Differences between two clusters in their normal form, each at one path, with JSON patches from the first to the second.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::normalize::{Entry, Normalized, Role};
use crate::inventory::{Kind, text};

/// Which part of a cluster a difference is about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// What every provider has: versions, networks, taints, labels, strategies, sizes.
    Agnostic,
    /// Configuration of a provider, and addresses.
    Provider,
    /// What really runs.
    Observed,
}

impl Part {
    /// The name in output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agnostic => "agnostic",
            Self::Provider => "provider",
            Self::Observed => "observed",
        }
    }
}

/// A difference. A value that is absent on one side is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The object.
    pub role: Role,
    /// Where, as a JSON pointer; empty for the whole object.
    pub path: String,
    /// Which part it is about.
    pub part: Part,
    /// The value of the first.
    pub a: Option<Value>,
    /// The value of the second.
    pub b: Option<Value>,
}

impl Difference {
    /// The same difference, seen from the other side.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self { a: self.b.clone(), b: self.a.clone(), ..self.clone() }
    }

    /// The operation of a JSON patch (RFC 6902) that makes the second of the first.
    #[must_use]
    pub fn operation(&self) -> Value {
        match (&self.a, &self.b) {
            (_, None) => json!({"op": "remove", "path": self.path}),
            (None, Some(value)) => json!({"op": "add", "path": self.path, "value": value}),
            (Some(_), Some(value)) => json!({"op": "replace", "path": self.path, "value": value}),
        }
    }
}

/// All differences between two clusters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The differences, by role and path.
    pub differences: Vec<Difference>,
}

impl Comparison {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty()
    }

    /// Those of a part.
    pub fn of_part(&self, part: Part) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(move |difference| difference.part == part)
    }

    /// JSON patches by role: they make the normal form of the second cluster of that of the first.
    #[must_use]
    pub fn patches(&self) -> BTreeMap<String, Vec<Value>> {
        let mut patches: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for difference in &self.differences {
            patches.entry(difference.role.to_string()).or_default().push(difference.operation());
        }
        patches
    }
}

/// Compares what two clusters declare.
#[must_use]
pub fn compare(a: &Normalized, b: &Normalized) -> Comparison {
    let mut differences = Vec::new();
    let roles: BTreeSet<&Role> = a.entries.keys().chain(b.entries.keys()).collect();
    for role in roles {
        let (one, other) = (a.entries.get(role), b.entries.get(role));
        let value = |entry: Option<&Entry>| entry.map(|entry| entry.value.clone());
        match (one, other) {
            (Some(one), Some(other)) => {
                let mut found = Found { role, differences: &mut differences };
                found.compare("", Some(&one.value), Some(&other.value));
            }
            (one, other) => differences.push(Difference {
                role: role.clone(),
                path: String::new(),
                part: part_of(role.kind, ""),
                a: value(one),
                b: value(other),
            }),
        }
    }
    Comparison { differences }
}

/// Which part a path of a kind is of.
fn part_of(kind: Kind, path: &str) -> Part {
    let is_provider = match kind {
        Kind::MachineClass | Kind::Host => true,
        Kind::Cluster => {
            is_below(path, "/spec/providerSpec") || is_below(path, "/spec/controlPlane/endpoint")
        }
        Kind::Machine => is_below(path, "/spec/providerSpec"),
        Kind::MachineSet | Kind::MachineDeployment => is_below(path, "/spec/template/spec/providerSpec"),
        Kind::MachineHealthCheck => false,
    };
    if is_provider { Part::Provider } else { Part::Agnostic }
}

fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

struct Found<'f> {
    role: &'f Role,
    differences: &'f mut Vec<Difference>,
}

impl Found<'_> {
    fn compare(&mut self, path: &str, a: Option<&Value>, b: Option<&Value>) {
        if a == b {
            return;
        }
        // Configurations in different formats are not comparable: one difference.
        let are_formats_different = is_format(path) && {
            let format = |value: Option<&Value>| {
                value.map(|value| (text(value, "/apiVersion").to_owned(), text(value, "/kind").to_owned()))
            };
            format(a) != format(b)
        };
        if let (Some(Value::Object(one)), Some(Value::Object(other))) = (a, b)
            && !are_formats_different
        {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                self.compare(&format!("{path}/{escaped}"), one.get(name), other.get(name));
            }
            return;
        }
        self.differences.push(Difference {
            role: self.role.clone(),
            path: path.to_owned(),
            part: part_of(self.role.kind, path),
            a: a.cloned(),
            b: b.cloned(),
        });
    }
}

/// Whether a typed object of a provider is there.
fn is_format(path: &str) -> bool {
    path.ends_with("/providerSpec/value") || path.ends_with("/providerSpec")
}
