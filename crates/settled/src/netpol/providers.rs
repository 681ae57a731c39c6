//! Providers that the arguments name, and the profiles that describe them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use settled_netpol::profile::{ProfileError, Profiles, Provider, ProviderError, ProviderRef};

use super::row::ProviderRow;
use crate::error::{CommandError, ErrorKind};
use crate::stderr;
use crate::style::Palette;
use crate::text;

/// Most errors of profiles that are printed.
const ERRORS_MAX: usize = 50;

/// Maximum size of a profile.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A provider that policies are checked against.
#[derive(Clone, Debug)]
pub(super) struct Chosen<'p> {
    pub(super) provider: Provider<'p>,
    /// As it is named in output: `cilium@1.16/linux,enable-sctp`.
    pub(super) label: Arc<str>,
    /// How it was detected.
    pub(super) evidence: Vec<String>,
}

impl<'p> Chosen<'p> {
    pub(super) fn new(
        profiles: &'p Profiles,
        reference: &ProviderRef,
        evidence: Vec<String>,
    ) -> Result<Self, CommandError> {
        let provider = profiles.provider(reference).map_err(|error| unusable(&error))?;
        // An alias stands for the name.
        let name = provider.profile.name.clone();
        let label = ProviderRef { name, ..reference.clone() }.to_string().into();
        Ok(Self { provider, label, evidence })
    }

    /// As it is reported.
    pub(super) fn row(&self) -> ProviderRow {
        ProviderRow {
            provider: Arc::clone(&self.label),
            title: self.provider.profile.title.clone(),
            unknown: self.provider.version.as_ref().err().map(ToString::to_string),
            evidence: self.evidence.clone(),
        }
    }
}

/// Profiles, and whether all files of them could be used.
pub(super) struct Loaded {
    pub(super) profiles: Profiles,
    /// How many files or parts of them could not; each was reported.
    pub(super) errors: usize,
}

/// The built-in profiles and those of the user. What cannot be read is reported with its place; nothing else is lost.
pub(super) fn load(paths: &[PathBuf]) -> Loaded {
    let (mut profiles, mut errors) = Profiles::embedded();
    for path in paths {
        errors.extend(match path.is_dir() {
            true => profiles.add_directory(path),
            false => add_file(&mut profiles, path),
        });
    }
    report(&errors);
    Loaded { profiles, errors: errors.len() }
}

fn add_file(profiles: &mut Profiles, path: &Path) -> Vec<ProfileError> {
    match read_bounded(path) {
        Ok(text) => profiles.add(&path.display().to_string(), &text),
        Err(source) => vec![ProfileError::Read { path: path.to_owned(), source }],
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("the file is larger than 1 MiB"));
    }
    Ok(text)
}

fn report(errors: &[ProfileError]) {
    let label = Palette::stderr().error("error:");
    for error in errors.iter().take(ERRORS_MAX) {
        let error = error.to_string();
        stderr::print_line(&format!("{label} {}", text::clean(text::os_words(&error))));
    }
    if errors.len() > ERRORS_MAX {
        stderr::print_line(&format!("{label} and {} more in profiles", errors.len() - ERRORS_MAX));
    }
}

/// The providers that the user names.
pub(super) fn named<'p>(profiles: &'p Profiles, names: &[String]) -> Result<Vec<Chosen<'p>>, CommandError> {
    names.iter().map(|name| one(profiles, name)).collect()
}

/// The provider that the user names.
pub(super) fn one<'p>(profiles: &'p Profiles, name: &str) -> Result<Chosen<'p>, CommandError> {
    let reference: ProviderRef = name.parse().map_err(|error| unusable(&error))?;
    Chosen::new(profiles, &reference, Vec::new())
}

/// The error of a provider that is none: a mistake of the user, or one that nobody knows.
fn unusable(error: &ProviderError) -> CommandError {
    let kind = match error {
        ProviderError::Unknown { .. } => ErrorKind::Unknown,
        ProviderError::Malformed { .. }
        | ProviderError::UnknownVariant { .. }
        | ProviderError::UnknownOption { .. } => ErrorKind::Usage,
    };
    CommandError::new(kind, error.to_string())
        .hint("settled netpol profiles lists the providers; --profiles FILE adds one")
}
