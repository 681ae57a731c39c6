//! Selections that no object matches, as data and as a sentence.

use std::sync::Arc;

use serde::Serialize;

/// More kinds are not named.
const KINDS_NAMED_MAX: usize = 3;

/// A selection that no object matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unmatched {
    /// The API group of the kind; empty for the core group.
    pub group: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
    /// Whether objects of the kind have a namespace.
    pub namespaced: bool,
    /// The namespace that was searched; all of them if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// The label and field selectors; empty if all objects are selected.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub selector: String,
}

impl Unmatched {
    /// What the selections have in common: ` matches app=web in shop`.
    fn predicate(&self) -> String {
        let matches = match &*self.selector {
            "" => String::new(),
            selector => format!(" matches {selector}"),
        };
        match &self.namespace {
            Some(namespace) => format!("{matches} in {namespace}"),
            None if self.namespaced => format!("{matches} in any namespace"),
            None => matches,
        }
    }

    /// One sentence for each place and selector: `no Deployment or StatefulSet matches app=web in shop`.
    #[must_use]
    pub fn sentences(selections: &[Self]) -> Vec<String> {
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for selection in selections {
            let predicate = selection.predicate();
            match groups.iter_mut().find(|(known, _)| *known == predicate) {
                Some((_, kinds)) => kinds.push(&selection.kind),
                None => groups.push((predicate, vec![&*selection.kind])),
            }
        }
        let sentence = |(predicate, kinds): (String, Vec<&str>)| match kinds.as_slice() {
            [first @ .., last] if !first.is_empty() && kinds.len() <= KINDS_NAMED_MAX => {
                format!("no {} or {last}{predicate}", first.join(", "))
            }
            [kind] => format!("no {kind}{predicate}"),
            _ => format!("no object{predicate}"),
        };
        groups.into_iter().map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unmatched(kind: &str, namespace: Option<&str>, selector: &str) -> Unmatched {
        Unmatched {
            group: "".into(),
            kind: kind.into(),
            namespaced: kind != "Node",
            namespace: namespace.map(Into::into),
            selector: selector.to_owned(),
        }
    }

    #[test]
    fn selections_of_one_place_share_a_sentence() {
        let check = |selections: &[Unmatched], expected: &[&str]| {
            assert_eq!(Unmatched::sentences(selections), expected);
        };
        let shop = Some("shop");
        check(&[], &[]);
        check(&[unmatched("Pod", shop, "a=b")], &["no Pod matches a=b in shop"]);
        check(&[unmatched("Pod", None, "a=b")], &["no Pod matches a=b in any namespace"]);
        check(&[unmatched("Node", None, "a=b")], &["no Node matches a=b"]);
        check(&[unmatched("Pod", shop, "")], &["no Pod in shop"]);
        check(
            &[unmatched("Pod", shop, "a=b"), unmatched("Node", None, "a=b"), unmatched("Job", shop, "a=b")],
            &["no Pod or Job matches a=b in shop", "no Node matches a=b"],
        );
        let kinds = ["Pod", "Job", "Secret", "Lease"];
        let many: Vec<Unmatched> = kinds.iter().map(|kind| unmatched(kind, shop, "a=b")).collect();
        check(&many[..3], &["no Pod, Job or Secret matches a=b in shop"]);
        check(&many, &["no object matches a=b in shop"]);
    }
}
