//! Where a rule is known from: the controller's source that it was checked against, or why it was not.

use std::fmt;

use crate::document::{Item, LoadError};

/// What a rule was checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The source of the kind's controller.
    Checked(ControllerSource),
    /// It was not; the reason.
    Unverified(String),
}

/// Files of a controller's repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSource {
    /// Owner and name, as GitHub spells them.
    pub repository: String,
    /// A tag, or the beginning of a commit.
    pub version: String,
    /// Where the fields are defined, and where they are set.
    pub paths: Vec<String>,
    /// Where the controller reports the generation that it observed.
    pub generation: ObservedGeneration,
}

/// Where a controller reports the generation that it observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedGeneration {
    /// In `status.observedGeneration`.
    Status,
    /// In each condition.
    Conditions,
    /// In both.
    Both,
    /// Nowhere.
    None,
}

impl ObservedGeneration {
    const NAMES: [(&'static str, Self); 4] = [
        ("status", Self::Status),
        ("conditions", Self::Conditions),
        ("both", Self::Both),
        ("none", Self::None),
    ];

    /// The word in a rule.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, known)| *known == self).map_or("none", |(name, _)| name)
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checked(ControllerSource { repository, version, paths, .. }) => {
                write!(f, "{repository}@{version}: {}", paths.join(", "))
            }
            Self::Unverified(reason) => write!(f, "unverified: {reason}"),
        }
    }
}

impl Provenance {
    /// Reads the value of `source`.
    pub(crate) fn read(item: Item<'_, '_>, errors: &mut Vec<LoadError>) -> Option<Self> {
        let before = errors.len();
        if let Err(error) = item.map() {
            errors.push(error);
            return None;
        }
        item.only(&["repository", "version", "paths", "generation", "unverified"], errors);
        let mut text = |key: &str| match item.get(key) {
            Some(value) => {
                value.text().map(std::borrow::Cow::into_owned).map_err(|error| errors.push(error)).ok()
            }
            None => {
                errors.push(item.error(format!("`{key}` is missing")));
                None
            }
        };
        if item.get("unverified").is_some() {
            let reason = text("unverified")?;
            item.only(&["unverified"], errors);
            return (errors.len() == before).then_some(Self::Unverified(reason));
        }
        let (repository, version, generation) = (text("repository"), text("version"), text("generation"));
        let mut paths = Vec::new();
        for path in item.get("paths").map(|paths| paths.one_or_many()).unwrap_or_default() {
            match path.text() {
                Ok(path) => paths.push(path.into_owned()),
                Err(error) => errors.push(error),
            }
        }
        if paths.is_empty() {
            errors.push(item.error("`paths` is missing: the files that it was checked against"));
        }
        let known = ObservedGeneration::NAMES.into_iter();
        let generation = generation.and_then(|name| known.clone().find(|(known, _)| *known == name));
        if generation.is_none()
            && let Some(item) = item.get("generation")
        {
            errors.push(item.error("expected status, conditions, both or none"));
        }
        let (repository, version, (_, generation)) = (repository?, version?, generation?);
        let source = ControllerSource { repository, version, paths, generation };
        (errors.len() == before).then_some(Self::Checked(source))
    }
}
