//! Versions of what runs on hosts.

/// Major and minor version, such as `1.36` of `v1.36.2`.
pub(crate) fn minor(version: &str) -> Option<&str> {
    version.trim_start_matches('v').rsplit_once('.').map(|(minor, _)| minor)
}
