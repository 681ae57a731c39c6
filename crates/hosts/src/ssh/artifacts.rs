//! Artifacts: the files that versions are installed from, in a directory of the machine that the provider runs on.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use ring::digest::{Context, SHA256};

/// An artifact.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Artifact {
    /// Its name on hosts.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) digest: String,
    pub(super) bytes: u64,
}

/// An artifact cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArtifactError {
    #[error("there is neither {specific} nor {general}")]
    Missing { specific: String, general: String },
    #[error("cannot read {path}: {source}")]
    Read {
        path: String,
        #[source]
        source: std::io::Error,
    },
}

/// The directory: `NAME-VERSION-ARCH`, or `NAME-VERSION` for all architectures, with `kubelet` and `runtime-NAME` as names.
#[derive(Debug, Default)]
pub(super) struct Artifacts {
    directory: PathBuf,
    digests: Mutex<HashMap<PathBuf, (SystemTime, u64, String)>>,
}

impl Artifacts {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), digests: Mutex::default() }
    }

    /// The artifact with this name on hosts.
    pub(super) fn find(&self, name: &str, arch: &str) -> Result<Artifact, ArtifactError> {
        // The version of a runtime is behind `@` on hosts, since names may have hyphens.
        let file = name.replacen('@', "-", 1);
        let [specific, general] = [self.directory.join(format!("{file}-{arch}")), self.directory.join(file)];
        let text = |path: &Path| path.display().to_string();
        let Some(path) = [&specific, &general].into_iter().find(|path| path.is_file()) else {
            return Err(ArtifactError::Missing { specific: text(&specific), general: text(&general) });
        };
        let failed = |source| ArtifactError::Read { path: text(path), source };
        let metadata = path.metadata().map_err(failed)?;
        let (modified, bytes) = (metadata.modified().map_err(failed)?, metadata.len());
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = match digests.get(path) {
            Some((when, size, digest)) if *when == modified && *size == bytes => digest.clone(),
            _ => {
                let digest = digest(path).map_err(failed)?;
                digests.insert(path.clone(), (modified, bytes, digest.clone()));
                digest
            }
        };
        Ok(Artifact { name: name.to_owned(), path: path.clone(), digest, bytes })
    }
}

fn digest(path: &Path) -> std::io::Result<String> {
    let (mut file, mut context) = (File::open(path)?, Context::new(&SHA256));
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => context.update(&buffer[..count]),
        }
    }
    let mut text = String::new();
    for byte in context.finish().as_ref() {
        let _infallible = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_goes_first() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("kubelet-v1"), "abc").expect("written");
        let artifacts = Artifacts::new(directory.path());
        let found = artifacts.find("kubelet-v1", "x86_64").expect("there");
        assert_eq!(found.digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        std::fs::write(directory.path().join("kubelet-v1-x86_64"), "").expect("written");
        assert!(artifacts.find("kubelet-v1", "x86_64").expect("there").path.ends_with("kubelet-v1-x86_64"));
        assert!(artifacts.find("kubelet-v1", "aarch64").expect("there").path.ends_with("kubelet-v1"));
        std::fs::write(directory.path().join("runtime-cri-o-1.30"), "").expect("written");
        assert!(artifacts.find("runtime-cri-o@1.30", "x86_64").is_ok());
        assert!(artifacts.find("kubelet-v2", "x86_64").is_err());
    }
}
