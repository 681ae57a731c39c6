//! API versions that releases of Kubernetes no longer serve.

/// Group and version, kind, the first minor version of Kubernetes 1 without it, and what took its place.
const REMOVED: &str = include_str!("../../data/removed-apis.tsv");

/// A removed API version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The first minor version of Kubernetes 1 that does not serve it.
    pub since: u32,
    /// The API version that took its place; none if the kind is gone.
    pub replacement: Option<&'static str>,
}

/// Whether, and when, the API version of a kind was removed.
#[must_use]
pub fn removal(api_version: &str, kind: &str) -> Option<Removal> {
    REMOVED.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut cells = line.split('\t');
        let (version, of_kind, since, replacement) =
            (cells.next()?, cells.next()?, cells.next()?, cells.next()?);
        let replacement = Some(replacement).filter(|replacement| *replacement != "-");
        (version == api_version && (of_kind == kind || of_kind == "*"))
            .then(|| Some(Removal { since: since.parse().ok()?, replacement }))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_versions_are_known() {
        let found = removal("extensions/v1beta1", "Ingress");
        assert_eq!(found, Some(Removal { since: 22, replacement: Some("networking.k8s.io/v1") }));
        assert_eq!(removal("policy/v1beta1", "PodSecurityPolicy").and_then(|found| found.replacement), None);
        assert_eq!(removal("apps/v1", "Deployment"), None);
    }

    #[test]
    fn each_line_is_complete() {
        for line in REMOVED.lines().filter(|line| !line.starts_with('#')) {
            assert_eq!(line.split('\t').count(), 4, "{line}");
            assert!(line.split('\t').nth(2).is_some_and(|since| since.parse::<u32>().is_ok()), "{line}");
        }
    }
}
