//! Set of profiles: the embedded ones, and those of a user's directory, which take precedence.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::embedded;
use super::error::{ProfileError, ProviderError};
use super::format::Profile;
use super::load::{MAX_FILE_BYTES, load};
use super::provider::{Provider, ProviderRef};

/// Profiles by name and alias.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    profiles: BTreeMap<String, Profile>,
    aliases: BTreeMap<String, String>,
}

impl Profiles {
    /// The embedded profiles. The errors are those of the program's own files: none, as a test shows.
    #[must_use]
    pub fn embedded() -> (Self, Vec<ProfileError>) {
        let (mut profiles, mut errors) = (Self::default(), Vec::new());
        for (file, text) in embedded::FILES {
            errors.extend(profiles.add(file, text));
        }
        (profiles, errors)
    }

    /// Adds the profile of a file, or gives its errors. It takes the place of one with the same name.
    pub fn add(&mut self, file: &str, text: &str) -> Vec<ProfileError> {
        let profile = match load(file, text) {
            Ok(profile) => profile,
            Err(errors) => return errors,
        };
        let taken = profile.aliases.iter().find(|alias| {
            self.profiles.contains_key(*alias)
                || self.aliases.get(*alias).is_some_and(|name| *name != profile.name)
        });
        let taken = taken.or_else(|| self.aliases.contains_key(&profile.name).then_some(&profile.name));
        if let Some(taken) = taken {
            let other = self.aliases.get(taken).unwrap_or(taken);
            let message = format!("`{taken}` is a name of the provider `{other}` already");
            return vec![ProfileError::Invalid { file: file.to_owned(), line: 1, column: 1, message }];
        }
        self.aliases.retain(|_, name| *name != profile.name);
        self.aliases.extend(profile.aliases.iter().map(|alias| (alias.clone(), profile.name.clone())));
        self.profiles.insert(profile.name.clone(), profile);
        Vec::new()
    }

    /// Adds the profiles of a directory: its `.yaml` and `.yml` files in the order of their names. A file with an error is left out,
    /// and loses no other.
    pub fn add_directory(&mut self, directory: &Path) -> Vec<ProfileError> {
        let read_error = |path: &Path, source| ProfileError::Read { path: path.to_owned(), source };
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return vec![read_error(directory, error)],
        };
        let (mut files, mut errors): (Vec<PathBuf>, Vec<ProfileError>) = (Vec::new(), Vec::new());
        for entry in entries {
            match entry {
                Ok(entry) => files.push(entry.path()),
                Err(error) => errors.push(read_error(directory, error)),
            }
        }
        files.retain(|path| {
            path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
        });
        files.sort();
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for path in files {
            let file = path.display().to_string();
            match read_bounded(&path) {
                Ok(text) => match load(&file, &text) {
                    Ok(profile) => match names.get(&profile.name) {
                        Some(first) => errors.push(ProfileError::Invalid {
                            file,
                            line: 1,
                            column: 1,
                            message: format!("a second profile for `{}`; the first is {first}", profile.name),
                        }),
                        None => {
                            names.insert(profile.name.clone(), file.clone());
                            errors.extend(self.add(&file, &text));
                        }
                    },
                    Err(found) => errors.extend(found),
                },
                Err(error) => errors.push(read_error(&path, error)),
            }
        }
        errors
    }

    /// The profile of a name or alias.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name).or_else(|| self.profiles.get(self.aliases.get(name)?))
    }

    /// All profiles in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.values()
    }

    /// The provider that a user names.
    ///
    /// # Errors
    /// If there is no such profile, variant or option.
    pub fn provider(&self, reference: &ProviderRef) -> Result<Provider<'_>, ProviderError> {
        let Some(profile) = self.get(&reference.name) else {
            let known: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
            return Err(ProviderError::Unknown { name: reference.name.clone(), known: known.join(", ") });
        };
        Provider::new(profile, reference)
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
    fs::File::open(path)?.take(limit + 1).read_to_string(&mut text)?;
    if text.len() > MAX_FILE_BYTES {
        return Err(io::Error::other("the file is larger than 1 MiB"));
    }
    Ok(text)
}
