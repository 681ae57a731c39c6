//! Filters: which objects are shown and counted, by kind, namespace, name and status.

use kstatus::{Status, Verdict};

use crate::cli::FilterArgs;
use crate::row::Identity;

/// Filters from the arguments.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    kinds: Vec<KindPattern>,
    namespaces: Vec<String>,
    names: Vec<String>,
    statuses: Vec<Status>,
}

impl Filter {
    pub(crate) fn new(args: &FilterArgs) -> Self {
        let statuses = if args.not_current {
            Status::ALL.iter().copied().filter(|status| *status != Status::Current).collect()
        } else {
            args.status.clone()
        };
        Self {
            kinds: args.kind.iter().map(|kind| KindPattern::new(kind)).collect(),
            namespaces: args.namespace.clone(),
            names: args.name.clone(),
            statuses,
        }
    }

    /// The same, whatever namespace an object is in.
    pub(crate) fn in_any_namespace(mut self) -> Self {
        self.namespaces.clear();
        self
    }

    /// The same, but for what is Current, unless statuses were asked for.
    pub(crate) fn not_current(mut self) -> Self {
        if self.statuses.is_empty() {
            self.statuses = Status::ALL.iter().copied().filter(|status| *status != Status::Current).collect();
        }
        self
    }

    /// Whether the object is one of those that the user asks about.
    pub(crate) fn selects(&self, identity: &Identity<'_>) -> bool {
        // Malformed documents can be any object, so they match all filters.
        if identity.is_unreadable() {
            return true;
        }
        let kind = || identity.kind.as_deref().unwrap_or_default();
        let listed = |list: &[String], text: Option<&str>| {
            list.is_empty() || list.iter().any(|item| Some(&**item) == text)
        };
        listed(&self.namespaces, identity.namespace.as_deref())
            && listed(&self.names, identity.name.as_deref())
            && (self.kinds.is_empty()
                || self.kinds.iter().any(|pattern| pattern.matches(kind(), identity.group_version())))
    }

    /// Whether a verdict on one of these objects is to be shown.
    pub(crate) fn shows(&self, verdict: &Verdict) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&verdict.status)
    }
}

/// A kind as users write it: `Deployment`, `deployments`, `deploy`, `deployment.apps`, `deployments.v1.apps`.
#[derive(Clone, Debug)]
struct KindPattern {
    /// In lower case, and short names written out.
    kind: String,
    /// `group` or `version.group`.
    group: Option<String>,
}

impl KindPattern {
    fn new(text: &str) -> Self {
        let text = text.trim().to_ascii_lowercase();
        let (kind, group) = match text.split_once('.') {
            Some((kind, group)) => (kind, Some(group.to_owned())),
            None => (&*text, None),
        };
        let kind = SHORT_NAMES.iter().find(|(short, _)| *short == kind).map_or(kind, |(_, kind)| kind);
        Self { kind: kind.to_owned(), group }
    }

    fn matches(&self, kind: &str, (group, version): (&str, &str)) -> bool {
        let group_matches = match &self.group {
            None => true,
            Some(wanted) => {
                wanted.eq_ignore_ascii_case(group)
                    || wanted.split_once('.').is_some_and(|(wanted_version, wanted_group)| {
                        wanted_version.eq_ignore_ascii_case(version)
                            && wanted_group.eq_ignore_ascii_case(group)
                    })
            }
        };
        group_matches && is_kind_or_plural(&self.kind, kind)
    }
}

/// Whether `word` is `kind` or its plural, as the API machinery would form it. No allocation: it runs per object.
fn is_kind_or_plural(word: &str, kind: &str) -> bool {
    let Some((head, suffix)) = word.split_at_checked(kind.len()) else {
        // Shorter than the kind, so not the kind; and a plural is longer.
        return false;
    };
    if head.eq_ignore_ascii_case(kind) {
        return matches!(suffix, "" | "s" | "es");
    }
    // networkpolic+ies for networkpolic+y
    match (kind.strip_suffix(['y', 'Y']), word.strip_suffix("ies")) {
        (Some(kind), Some(word)) => word.eq_ignore_ascii_case(kind),
        _ => false,
    }
}

/// The short names of built-in kinds and of some that are in most clusters.
const SHORT_NAMES: [(&str, &str); 38] = [
    ("cm", "configmap"),
    ("cr", "certificaterequest"),
    ("crd", "customresourcedefinition"),
    ("crds", "customresourcedefinition"),
    ("cert", "certificate"),
    ("certs", "certificate"),
    ("cj", "cronjob"),
    ("csr", "certificatesigningrequest"),
    ("cs", "componentstatus"),
    ("deploy", "deployment"),
    ("ds", "daemonset"),
    ("ep", "endpoints"),
    ("endpoint", "endpoints"),
    ("ev", "event"),
    ("gc", "gatewayclass"),
    ("gtw", "gateway"),
    ("hpa", "horizontalpodautoscaler"),
    ("hr", "helmrelease"),
    ("ing", "ingress"),
    ("ks", "kustomization"),
    ("limits", "limitrange"),
    ("netpol", "networkpolicy"),
    ("no", "node"),
    ("ns", "namespace"),
    ("pc", "priorityclass"),
    ("pdb", "poddisruptionbudget"),
    ("po", "pod"),
    ("pv", "persistentvolume"),
    ("pvc", "persistentvolumeclaim"),
    ("quota", "resourcequota"),
    ("rc", "replicationcontroller"),
    ("rs", "replicaset"),
    ("sa", "serviceaccount"),
    ("sc", "storageclass"),
    ("sts", "statefulset"),
    ("svc", "service"),
    ("vs", "volumesnapshot"),
    ("vsc", "volumesnapshotcontent"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_in_many_ways() {
        #[track_caller]
        fn check(pattern: &str, api_version: &str, kind: &str, expected: bool) {
            let identity = Identity {
                api_version: Some(api_version.into()),
                kind: Some(kind.into()),
                ..Identity::default()
            };
            let matches = KindPattern::new(pattern).matches(kind, identity.group_version());
            assert_eq!(matches, expected, "{pattern} {api_version} {kind}");
        }
        for pattern in [
            "Deployment",
            "deployment",
            "deployments",
            "deploy",
            "DEPLOY",
            "deployments.apps",
            "Deployment.v1.apps",
        ] {
            check(pattern, "apps/v1", "Deployment", true);
        }
        for pattern in ["Deploymen", "deploymentss", "deployment.extensions", "deployment.v2.apps", "", "."] {
            check(pattern, "apps/v1", "Deployment", false);
        }
        check("ingresses", "networking.k8s.io/v1", "Ingress", true);
        check("networkpolicies", "networking.k8s.io/v1", "NetworkPolicy", true);
        check("netpol", "networking.k8s.io/v1", "NetworkPolicy", true);
        check("certificate.cert-manager.io", "cert-manager.io/v1", "Certificate", true);
        check("certificate.cert-manager.io", "networking.internal.knative.dev/v1", "Certificate", false);
        check("endpoints", "v1", "Endpoints", true);
        check("pod.", "v1", "Pod", true);
        check("wörter", "example.com/v1", "Wörter", true);
    }
}
