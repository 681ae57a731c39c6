//! Rule matching: group, kind, version, name, namespace, labels.

use std::fmt;

use kstatus::Object;

use crate::document::{Item, LoadError};

/// The objects that a rule is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) group: Group,
    /// None: all kinds of the group.
    pub(crate) kinds: Option<Vec<Box<str>>>,
    /// Empty: all versions.
    pub(crate) versions: Vec<Box<str>>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) namespace: Option<Box<str>>,
    pub(crate) labels: Vec<(Box<str>, Box<str>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Exact(Box<str>),
    /// Suffix after the `*`: `.crossplane.io`.
    Suffix(Box<str>),
}

impl Default for Group {
    fn default() -> Self {
        Self::Exact("".into())
    }
}

impl Group {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        match text.strip_prefix('*') {
            Some(suffix) if suffix.starts_with('.') && !suffix.contains('*') && suffix.len() > 1 => {
                Ok(Self::Suffix(suffix.into()))
            }
            None if !text.contains('*') && !text.contains('/') => Ok(Self::Exact(text.into())),
            _ => {
                Err("expected an API group such as `cert-manager.io`, or a suffix such as `*.crossplane.io`")
            }
        }
    }

    fn fits(&self, group: &[u8]) -> bool {
        match self {
            Self::Exact(known) => known.as_bytes() == group,
            Self::Suffix(suffix) => group.len() > suffix.len() && group.ends_with(suffix.as_bytes()),
        }
    }
}

/// Key of a group and kind of a [`Match`].
pub(crate) type Key = String;

impl Match {
    pub(crate) const KEYS: [&'static str; 6] = ["group", "kind", "version", "name", "namespace", "labels"];

    pub(crate) fn read(item: Item<'_, '_>, errors: &mut Vec<LoadError>) -> Option<Self> {
        if let Err(error) = item.map() {
            errors.push(error);
            return None;
        }
        let fields = item.fields();
        fields.only(&Self::KEYS, errors);
        let before = errors.len();
        let mut matches = Self::default();
        let mut text = |item: Item<'_, '_>| match item.text() {
            Ok(text) => Some(Box::<str>::from(&*text)),
            Err(error) => {
                errors.push(error);
                None
            }
        };
        match fields.get("group") {
            Some(group) => {
                if let Some(name) = text(group) {
                    match Group::parse(&name) {
                        Ok(group) => matches.group = group,
                        Err(message) => errors.push(group.error(message)),
                    }
                }
            }
            None => errors.push(item.error("`group` is missing; write `group: \"\"` for the core group")),
        }
        let mut texts = |item: Item<'_, '_>| -> Vec<Box<str>> {
            let texts = item.one_or_many().into_iter().filter_map(|item| match item.text() {
                Ok(text) if !text.is_empty() => Some(Box::<str>::from(&*text)),
                Ok(_) => {
                    errors.push(item.error("expected a name, found an empty text"));
                    None
                }
                Err(error) => {
                    errors.push(error);
                    None
                }
            });
            texts.collect()
        };
        match fields.get("kind") {
            Some(kind) => {
                let kinds = texts(kind);
                matches.kinds = if kinds.iter().any(|kind| **kind == *"*") { None } else { Some(kinds) };
            }
            None => {
                errors.push(item.error("`kind` is missing; write `kind: \"*\"` for all kinds of the group"))
            }
        }
        if let Some(version) = fields.get("version") {
            matches.versions = texts_of(version, errors);
        }
        for (key, slot) in [("name", &mut matches.name), ("namespace", &mut matches.namespace)] {
            match fields.get(key).map(|item| item.text()) {
                Some(Ok(text)) => *slot = Some(Box::from(&*text)),
                Some(Err(error)) => errors.push(error),
                None => {}
            }
        }
        if let Some(labels) = fields.get("labels") {
            match labels.map() {
                Ok(labels) => {
                    for (key, value) in labels.members() {
                        match value.text() {
                            Ok(value) => matches.labels.push((Box::from(&*key), Box::from(&*value))),
                            Err(error) => errors.push(error),
                        }
                    }
                }
                Err(error) => errors.push(error),
            }
            matches.labels.sort();
        }
        (errors.len() == before).then_some(matches)
    }

    /// One kind of a group.
    pub(crate) fn exact(group: &str, kind: Option<&str>) -> Self {
        Self {
            group: Group::Exact(group.into()),
            kinds: kind.map(|kind| vec![kind.into()]),
            ..Self::default()
        }
    }

    /// Specificity, in order of precedence.
    pub(crate) fn closeness(&self) -> impl Ord + use<> {
        let group = match &self.group {
            Group::Exact(_) => usize::MAX,
            Group::Suffix(suffix) => suffix.len(),
        };
        let narrow =
            (self.name.is_some(), self.namespace.is_some(), self.labels.len(), !self.versions.is_empty());
        (narrow, group, self.kinds.is_some())
    }

    pub(crate) fn fits_type(&self, group: &[u8], kind: &[u8]) -> bool {
        self.group.fits(group)
            && self.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|known| known.as_bytes() == kind))
    }

    /// Whether an object of a fitting group and kind fits in the rest.
    pub(crate) fn fits_rest(&self, object: &Object<'_>) -> bool {
        if self.versions.is_empty()
            && self.name.is_none()
            && self.namespace.is_none()
            && self.labels.is_empty()
        {
            return true;
        }
        let version = object.api_version().unwrap_or_default();
        let version = version.rsplit('/').next().unwrap_or_default();
        let is = |wanted: &Option<Box<str>>, found: Option<std::borrow::Cow<'_, str>>| {
            wanted.as_ref().is_none_or(|wanted| found.as_deref() == Some(wanted))
        };
        let labels = || object.root().get("metadata").and_then(|metadata| metadata.get("labels"));
        (self.versions.is_empty() || self.versions.iter().any(|known| **known == *version))
            && is(&self.name, object.name())
            && is(&self.namespace, object.namespace())
            && (self.labels.is_empty()
                || labels().is_some_and(|labels| {
                    let has = |(key, value): &(Box<str>, Box<str>)| {
                        labels.get(key).is_some_and(|found| found.is(value))
                    };
                    self.labels.iter().all(has)
                }))
    }

    /// For each kind, what two rules must not have in common.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let versions: Vec<Option<&str>> = if self.versions.is_empty() {
            vec![None]
        } else {
            self.versions.iter().map(|version| Some(&**version)).collect()
        };
        let kinds: Vec<&str> = match &self.kinds {
            None => vec!["*"],
            Some(kinds) => kinds.iter().map(|kind| &**kind).collect(),
        };
        let rest = (&self.name, &self.namespace, &self.labels);
        let pairs = kinds.iter().flat_map(|kind| versions.iter().map(move |version| (kind, version)));
        pairs.map(|(kind, version)| format!("{:?}/{kind}/{version:?}/{rest:?}", self.group)).collect()
    }
}

fn texts_of(item: Item<'_, '_>, errors: &mut Vec<LoadError>) -> Vec<Box<str>> {
    let mut texts = Vec::new();
    for item in item.one_or_many() {
        match item.text() {
            Ok(text) => texts.push(Box::from(&*text)),
            Err(error) => errors.push(error),
        }
    }
    texts
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(group) => f.write_str(group),
            Self::Suffix(suffix) => write!(f, "*{suffix}"),
        }
    }
}

/// `example.com/Widget`, with what narrows it in brackets.
impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.group)?;
        match &self.kinds {
            None => f.write_str("*")?,
            Some(kinds) => f.write_str(&kinds.join(","))?,
        }
        let mut narrow = Vec::new();
        if !self.versions.is_empty() {
            narrow.push(format!("version {}", self.versions.join(",")));
        }
        for (what, value) in [("name", &self.name), ("namespace", &self.namespace)] {
            narrow.extend(value.as_ref().map(|value| format!("{what} {value}")));
        }
        narrow.extend(self.labels.iter().map(|(key, value)| format!("label {key}={value}")));
        if !narrow.is_empty() {
            write!(f, " ({})", narrow.join(", "))?;
        }
        Ok(())
    }
}
