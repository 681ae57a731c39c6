//! Programs: which versions of the server are installed. What runs is read from the process, not from what was asked for.

use std::fs;
use std::path::{Path, PathBuf};

/// Name of the program in the directory of its version.
const PROGRAM: &str = "settled";

/// The installed versions of the server: a program, and directories with others.
#[derive(Clone, Debug)]
pub struct Programs {
    version: String,
    program: PathBuf,
    directory: Option<PathBuf>,
}

/// A version as objects have it: with `v`, without build metadata.
pub(super) fn normal(version: &str) -> String {
    let version = version.split('+').next().unwrap_or(version);
    format!("v{}", version.trim_start_matches('v'))
}

impl Programs {
    /// A program that serves this version.
    #[must_use]
    pub fn new(version: &str, program: &Path) -> Self {
        Self { version: normal(version), program: absolute(program), directory: None }
    }

    /// Also the programs `VERSION/settled` of a directory. One that is installed later is found, too.
    #[must_use]
    pub fn with_directory(mut self, directory: &Path) -> Self {
        self.directory = Some(absolute(directory));
        self
    }

    /// The version of the program that needs no directory.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The installed versions.
    pub(super) fn installed(&self) -> Vec<String> {
        let entries = self.directory.as_ref().and_then(|directory| fs::read_dir(directory).ok());
        let found = entries.into_iter().flatten().flatten();
        let found = found.filter(|entry| entry.path().join(PROGRAM).is_file());
        let mut versions: Vec<String> =
            found.map(|entry| normal(&entry.file_name().to_string_lossy())).collect();
        versions.push(self.version.clone());
        versions.sort();
        versions.dedup();
        versions
    }

    /// The program of a version.
    pub(super) fn find(&self, version: &str) -> Option<PathBuf> {
        let version = normal(version);
        if version == self.version {
            return Some(self.program.clone());
        }
        let directory = self.directory.as_ref()?;
        let candidates = [version.clone(), version.trim_start_matches('v').to_owned()];
        candidates.iter().map(|name| directory.join(name).join(PROGRAM)).find(|path| path.is_file())
    }

    /// The version of a program that runs.
    pub(super) fn version_of(&self, program: &Path) -> Option<String> {
        let text = program.to_string_lossy();
        // The file was replaced or removed since.
        let program = Path::new(text.strip_suffix(" (deleted)").unwrap_or(&text));
        if program == self.program {
            return Some(self.version.clone());
        }
        let version = program.parent().filter(|parent| parent.parent() == self.directory.as_deref())?;
        Some(normal(&version.file_name()?.to_string_lossy()))
    }
}

/// Without links, as the kernel names the program of a process.
fn absolute(path: &Path) -> PathBuf {
    fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_directories() {
        let directory = std::env::temp_dir().join(format!("settled-programs-{}", std::process::id()));
        let program = |version: &str| directory.join(version).join(PROGRAM);
        fs::create_dir_all(program("v1.37.0").parent().unwrap_or(&directory)).unwrap_or_default();
        fs::write(program("v1.37.0"), "").unwrap_or_default();
        fs::create_dir_all(directory.join("v1.38.0")).unwrap_or_default();
        let programs =
            Programs::new("v1.36.3+settled", Path::new("/usr/bin/settled")).with_directory(&directory);
        assert_eq!(programs.installed(), ["v1.36.3", "v1.37.0"]);
        assert_eq!(programs.find("1.37.0").as_deref(), Some(absolute(&program("v1.37.0")).as_path()));
        assert_eq!(programs.find("v1.38.0"), None);
        let running = PathBuf::from(format!("{} (deleted)", absolute(&program("v1.37.0")).display()));
        assert_eq!(programs.version_of(&running).as_deref(), Some("v1.37.0"));
        assert_eq!(programs.version_of(Path::new("/bin/sh")), None);
        fs::remove_dir_all(&directory).unwrap_or_default();
    }
}
