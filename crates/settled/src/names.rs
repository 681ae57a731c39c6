//! Object names in output, with the namespace only where there is more than one.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use settled_tracker::ObjectId;

use crate::text;

/// Calls objects by kind and name, and by their namespace where there is more than one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// The first namespace that was seen; objects of the cluster have none and don't count.
    only: Option<Arc<str>>,
    many: bool,
}

impl Names {
    /// Of all these objects.
    pub(crate) fn of<'a>(objects: impl IntoIterator<Item = &'a ObjectId>) -> Self {
        let mut names = Self::default();
        objects.into_iter().for_each(|object| names.see(object));
        names
    }

    /// Takes one more object into account.
    pub(crate) fn see(&mut self, object: &ObjectId) {
        if object.namespace.is_empty() {
            return;
        }
        match &self.only {
            None => self.only = Some(object.namespace.clone()),
            Some(only) => self.many |= *only != object.namespace,
        }
    }

    /// The namespace that all have in common.
    pub(crate) fn namespace(&self) -> Option<String> {
        self.only.as_deref().filter(|_| !self.many).map(text::clean)
    }

    /// `Deployment/web`, or `Deployment/web in shop`.
    pub(crate) fn name(&self, object: &ObjectId) -> String {
        text::clean(&object.to_string()) + &self.place(object)
    }

    /// ` in shop`, or nothing where that goes without saying.
    pub(crate) fn place(&self, object: &ObjectId) -> String {
        let only = !self.many && self.only.as_ref() == Some(&object.namespace);
        if object.namespace.is_empty() || only {
            return String::new();
        }
        format!(" in {}", text::clean(&object.namespace))
    }
}

/// `deployment.apps/web`
pub(crate) fn kubectl_name(object: &ObjectId) -> String {
    let dot = if object.group.is_empty() { "" } else { "." };
    let name = format!("{}{dot}{}/{}", object.kind.to_lowercase(), object.group, object.name);
    text::clean(&name)
}

/// `1 Pod`, `3 Ingresses`, `2 NetworkPolicies`.
pub(crate) fn count_of(count: usize, kind: &str) -> String {
    let kind = text::clean(kind);
    if count == 1 {
        return format!("1 {kind}");
    }
    let vowel = |text: &str| text.ends_with(['a', 'e', 'i', 'o', 'u']);
    match kind.strip_suffix('y') {
        Some(stem) if !vowel(stem) => format!("{count} {stem}ies"),
        _ if kind.ends_with("ss") || kind.ends_with('x') || kind.ends_with("ch") => {
            format!("{count} {kind}es")
        }
        // Endpoints and the like are many already.
        _ if kind.ends_with('s') => format!("{count} {kind}"),
        _ => format!("{count} {kind}s"),
    }
}

/// How long ago that was, in whole seconds as Kubernetes counts; nothing is ever in the future.
pub(crate) fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::from_secs(now.duration_since(then).as_secs().try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted() {
        let counted =
            [(1, "Pod"), (2, "Pod"), (3, "Ingress"), (2, "NetworkPolicy"), (2, "Gateway"), (2, "Endpoints")]
                .map(|(count, kind)| count_of(count, kind));
        assert_eq!(
            counted,
            ["1 Pod", "2 Pods", "3 Ingresses", "2 NetworkPolicies", "2 Gateways", "2 Endpoints"]
        );
    }

    #[test]
    fn a_namespace_that_all_share_goes_without_saying() {
        let web = ObjectId::new("apps", "Deployment", "shop", "web");
        let node = ObjectId::new("", "Node", "", "n1");
        let other = ObjectId::new("", "Pod", "infra", "p\x1b[2J");
        let mut names = Names::of([&web, &node]);
        assert_eq!(names.name(&web), "Deployment/web");
        assert_eq!(names.name(&node), "Node/n1");
        assert_eq!(names.name(&other), r"Pod/p\u{1b}[2J in infra");
        assert_eq!(names.namespace().as_deref(), Some("shop"));
        names.see(&other);
        assert_eq!(names.name(&web), "Deployment/web in shop");
        assert_eq!(names.namespace(), None);
    }
}
