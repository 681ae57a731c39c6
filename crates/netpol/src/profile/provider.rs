//! Provider in a version: what a user names (`cilium@1.16`) or what runs in a cluster, and what its profile says of a feature.

use std::fmt;
use std::str::FromStr;

use super::error::ProviderError;
use super::format::{Direction, Limit, Profile, Row, Support, Unlisted, When};
use super::version::{Inside, Version};
use crate::feature::{Count, Feature};
use crate::model::Family;

/// Maximum length of a reference in bytes.
const MAX_BYTES: usize = 512;

/// Name of a provider, with what is known of its version and settings: `NAME[@VERSION][/VARIANT][,OPTION…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRef {
    /// The provider's name or alias.
    pub name: String,
    /// Its version as text; None if it is not given. A text that is no version is an unknown version.
    pub version: Option<String>,
    /// Its variant.
    pub variant: Option<String>,
    /// Options that are on.
    pub options: Vec<String>,
}

impl FromStr for ProviderRef {
    type Err = ProviderError;

    fn from_str(text: &str) -> Result<Self, ProviderError> {
        let malformed = || ProviderError::Malformed { text: text.chars().take(MAX_BYTES).collect() };
        if text.len() > MAX_BYTES {
            return Err(malformed());
        }
        let mut options = text.split(',').map(str::trim);
        let rest = options.next().unwrap_or_default();
        let (rest, variant) =
            rest.split_once('/').map_or((rest, None), |(rest, variant)| (rest, Some(variant)));
        let (name, version) =
            rest.split_once('@').map_or((rest, None), |(name, version)| (name, Some(version)));
        let options: Vec<String> = options.map(str::to_owned).collect();
        let parts = [Some(name), version, variant];
        if parts.into_iter().flatten().chain(options.iter().map(String::as_str)).any(str::is_empty) {
            return Err(malformed());
        }
        let owned = |text: &str| text.to_owned();
        Ok(Self { name: owned(name), version: version.map(owned), variant: variant.map(owned), options })
    }
}

impl fmt::Display for ProviderRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(version) = &self.version {
            write!(f, "@{version}")?;
        }
        if let Some(variant) = &self.variant {
            write!(f, "/{variant}")?;
        }
        self.options.iter().try_for_each(|option| write!(f, ",{option}"))
    }
}

/// Profile in a version, with a variant and options.
#[derive(Clone, Debug)]
pub struct Provider<'p> {
    /// The profile.
    pub profile: &'p Profile,
    /// The version, or why it is unknown.
    pub version: Result<Version, UnknownVersion>,
    /// The variant, if the profile has several and one is given.
    pub variant: Option<String>,
    /// Options that are on.
    pub options: Vec<String>,
}

/// Why a provider's version is unknown, and with it what it carries out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownVersion {
    /// None is given.
    #[error("the version of {title} is not given")]
    NotGiven {
        /// The provider.
        title: String,
    },
    /// It is no version: `latest`, a digest.
    #[error("`{text}` is no version of {title}")]
    Malformed {
        /// The text.
        text: String,
        /// The provider.
        title: String,
    },
    /// The profile was made from other versions.
    #[error("{title} {version} is not known; the profile was checked from {from} through {through}")]
    NotChecked {
        /// The provider.
        title: String,
        /// The version.
        version: String,
        /// The first known version.
        from: String,
        /// The last known version.
        through: String,
    },
}

/// Circumstances in which a feature is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Circumstances {
    /// The direction, where it has one.
    pub direction: Option<Direction>,
    /// The family of addresses, where it has one.
    pub family: Option<Family>,
}

/// What a profile says of a feature.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<'p> {
    /// A row of the profile.
    Row(&'p Row),
    /// It is not listed, and what is not listed is supported.
    UnlistedSupported,
    /// Nobody knows.
    Unknown(UnknownSupport),
}

/// Why nobody knows how a feature is carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownSupport {
    /// The version is unknown.
    #[error(transparent)]
    Version(#[from] UnknownVersion),
    /// The profile does not list the feature.
    #[error("the profile of {title} does not say whether {feature} is supported")]
    NotListed {
        /// The provider.
        title: String,
        /// The feature or limit.
        feature: String,
    },
    /// No row is about the version.
    #[error("the profile of {title} does not say whether {feature} is supported in {version}")]
    NoRow {
        /// The provider.
        title: String,
        /// The feature or limit.
        feature: String,
        /// The version.
        version: String,
    },
    /// Rows differ for versions that are all meant by what is given.
    #[error("{title} {version} is not precise enough: {feature} depends on the patch version ({ranges})")]
    Imprecise {
        /// The provider.
        title: String,
        /// The feature or limit.
        feature: String,
        /// The version as given.
        version: String,
        /// The ranges that differ.
        ranges: String,
    },
    /// Rows differ for variants, and none is given.
    #[error("{feature} depends on the variant of {title}, which is not given; known variants: {variants}")]
    VariantNotGiven {
        /// The provider.
        title: String,
        /// The feature or limit.
        feature: String,
        /// The profile's variants.
        variants: String,
    },
}

/// Whether a row's circumstances are there.
enum Fit {
    Yes,
    No,
    /// It depends on a variant that is not given.
    Variant,
}

impl<'p> Provider<'p> {
    /// A profile in a version.
    ///
    /// # Errors
    /// If the profile has no such variant or option. An unknown version is no error, but an answer.
    pub fn new(profile: &'p Profile, reference: &ProviderRef) -> Result<Self, ProviderError> {
        if let Some(variant) = reference.variant.clone().filter(|variant| !profile.variants.contains(variant))
        {
            let known = list(&profile.variants);
            return Err(ProviderError::UnknownVariant { name: profile.name.clone(), variant, known });
        }
        if let Some(option) = reference.options.iter().find(|option| !profile.options.contains_key(*option)) {
            let known: Vec<String> = profile.options.keys().cloned().collect();
            return Err(ProviderError::UnknownOption {
                name: profile.name.clone(),
                option: option.clone(),
                known: list(&known),
            });
        }
        Ok(Self {
            profile,
            version: version(profile, reference.version.as_deref()),
            variant: reference.variant.clone(),
            options: reference.options.clone(),
        })
    }

    /// What the profile says of a feature in these circumstances.
    #[must_use]
    pub fn support(&self, feature: Feature, circumstances: Circumstances) -> Answer<'p> {
        let version = match &self.version {
            Ok(version) => version,
            Err(unknown) => return Answer::Unknown(unknown.clone().into()),
        };
        let rows = self.profile.features.get(&feature).map(Vec::as_slice).unwrap_or_default();
        let mut maybe: Vec<&Row> = Vec::new();
        let mut is_version_listed = false;
        for row in rows {
            let inside = row.versions.contains(version);
            if inside == Inside::No {
                continue;
            }
            is_version_listed = true;
            match self.fits(&row.when, circumstances) {
                Fit::No => continue,
                Fit::Variant => return Answer::Unknown(self.variant_not_given(feature.as_str())),
                Fit::Yes => {}
            }
            maybe.push(row);
            if inside == Inside::Yes {
                break;
            }
        }
        let Some(last) = maybe.last().copied() else {
            return if !rows.is_empty() && !is_version_listed {
                Answer::Unknown(UnknownSupport::NoRow {
                    title: self.profile.title.clone(),
                    feature: feature.to_string(),
                    version: version.to_string(),
                })
            } else if self.profile.unlisted == Unlisted::Supported {
                Answer::UnlistedSupported
            } else {
                let title = self.profile.title.clone();
                Answer::Unknown(UnknownSupport::NotListed { title, feature: feature.to_string() })
            };
        };
        let says = |row: &Row| (row.support, row.carried_out, row.scope);
        let is_certain = last.versions.contains(version) == Inside::Yes;
        if maybe.iter().all(|row| says(row) == says(last)) && (is_certain || maybe.len() > 1) {
            return Answer::Row(last);
        }
        Answer::Unknown(self.imprecise(
            feature.as_str(),
            version,
            maybe.iter().map(|row| row.versions.to_string()),
        ))
    }

    /// The limits that hold for a count, or why nobody knows.
    #[must_use]
    pub fn limits(&self, of: Count, circumstances: Circumstances) -> Vec<Result<&'p Limit, UnknownSupport>> {
        let limits = self.profile.limits.iter().filter(|limit| limit.of == of);
        let answers = limits.filter_map(|limit| {
            let version = match &self.version {
                Ok(version) => version,
                Err(unknown) => return Some(Err(unknown.clone().into())),
            };
            match (limit.versions.contains(version), self.fits(&limit.when, circumstances)) {
                (Inside::No, _) | (_, Fit::No) => None,
                (_, Fit::Variant) => Some(Err(self.variant_not_given(of.as_str()))),
                (Inside::Yes, Fit::Yes) => Some(Ok(limit)),
                (Inside::Maybe, Fit::Yes) => Some(Err(self.imprecise(
                    of.as_str(),
                    version,
                    std::iter::once(limit.versions.to_string()),
                ))),
            }
        });
        answers.collect()
    }

    /// The first later version in which a feature is supported in these circumstances.
    #[must_use]
    pub fn supported_since(&self, feature: Feature, circumstances: Circumstances) -> Option<&'p Version> {
        let version = self.version.as_ref().ok()?;
        let profile: &'p Profile = self.profile;
        let rows = profile.features.get(&feature)?.iter();
        let rows = rows.filter(|row| {
            row.support == Support::Supported && matches!(self.fits(&row.when, circumstances), Fit::Yes)
        });
        let starts = rows.flat_map(|row| row.versions.starts()).filter(|start| version.is_before(start));
        starts.min_by(|a, b| a.cmp_as_bounds(b))
    }

    fn fits(&self, when: &When, circumstances: Circumstances) -> Fit {
        let differs = |wanted: bool| if wanted { Fit::Yes } else { Fit::No };
        if when.direction.is_some() && when.direction != circumstances.direction
            || when.family.is_some() && when.family != circumstances.family
            || when.option.as_ref().is_some_and(|option| !self.options.contains(option))
        {
            return Fit::No;
        }
        match &self.variant {
            _ if when.variants.is_empty() => Fit::Yes,
            Some(variant) => differs(when.variants.contains(variant)),
            None => Fit::Variant,
        }
    }

    fn variant_not_given(&self, feature: &str) -> UnknownSupport {
        UnknownSupport::VariantNotGiven {
            title: self.profile.title.clone(),
            feature: feature.to_owned(),
            variants: list(&self.profile.variants),
        }
    }

    fn imprecise(
        &self,
        feature: &str,
        version: &Version,
        ranges: impl Iterator<Item = String>,
    ) -> UnknownSupport {
        UnknownSupport::Imprecise {
            title: self.profile.title.clone(),
            feature: feature.to_owned(),
            version: version.to_string(),
            ranges: ranges.collect::<Vec<_>>().join(", "),
        }
    }
}

fn list(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn version(profile: &Profile, text: Option<&str>) -> Result<Version, UnknownVersion> {
    let title = profile.title.clone();
    let Some(text) = text else { return Err(UnknownVersion::NotGiven { title }) };
    let Ok(version) = text.parse::<Version>() else {
        return Err(UnknownVersion::Malformed { text: text.to_owned(), title });
    };
    let checked = &profile.versions;
    // A version that is given without its patch release is inside if its first parts are.
    let is_before = version.is_before(&checked.from);
    let is_after = checked.through.is_before(&version) && !version.is_within(&checked.through);
    if is_before || is_after {
        let (from, through) = (checked.from.to_string(), checked.through.to_string());
        return Err(UnknownVersion::NotChecked { title, version: version.to_string(), from, through });
    }
    Ok(version)
}
