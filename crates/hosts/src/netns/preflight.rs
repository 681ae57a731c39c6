//! Whether this machine can have namespace hosts, and what is missing if not.

use std::ffi::OsStr;
use std::path::Path;

/// Why there are no namespace hosts here.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unavailable {
    /// The process is not root.
    #[error(
        "network-namespace hosts need root (CAP_NET_ADMIN and CAP_SYS_ADMIN): run the controllers as root, or use another provider"
    )]
    Root,
    /// A program is missing.
    #[error("network-namespace hosts need `{0}` in the PATH: install {1}")]
    Program(&'static str, &'static str),
    /// The kernel has no namespaces.
    #[error("network-namespace hosts need {0} in the kernel")]
    Kernel(&'static str),
}

const PROGRAMS: [(&str, &str); 2] = [("ip", "iproute2"), ("unshare", "util-linux")];
const NAMESPACES: [&str; 4] = ["net", "pid", "mnt", "uts"];

/// Checks what hosts need.
pub(super) fn check(is_root: bool, path: Option<&OsStr>, namespaces: &Path) -> Result<(), Unavailable> {
    if !is_root {
        return Err(Unavailable::Root);
    }
    for (program, package) in PROGRAMS {
        let mut directories = std::env::split_paths(path.unwrap_or_default());
        if !directories.any(|directory| directory.join(program).is_file()) {
            return Err(Unavailable::Program(program, package));
        }
    }
    for name in NAMESPACES {
        if !namespaces.join(name).exists() {
            return Err(Unavailable::Kernel(match name {
                "net" => "network namespaces (CONFIG_NET_NS)",
                "pid" => "process namespaces (CONFIG_PID_NS)",
                "uts" => "UTS namespaces (CONFIG_UTS_NS)",
                _ => "mount namespaces",
            }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let (path, own) = (std::env::var_os("PATH"), Path::new("/proc/self/ns"));
        assert_eq!(check(false, path.as_deref(), own), Err(Unavailable::Root));
        let nowhere = Some(OsStr::new("/nonexistent"));
        assert_eq!(check(true, nowhere, own), Err(Unavailable::Program("ip", "iproute2")));
        if check(true, path.as_deref(), own).is_ok() {
            let none = Path::new("/nonexistent");
            let missing = check(true, path.as_deref(), none).expect_err("no kernel has none");
            assert!(missing.to_string().contains("CONFIG_NET_NS"), "{missing}");
        }
    }
}
