//! Example statuses: what the controller of a kind reports when its object is done, from the cases of the pack.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::pack;

/// The status of an object that is done, of a kind of the pack. Its generations are those of the case, mostly 1.
///
/// ```
/// let status = settled_rules::example_status("cert-manager.io", "Certificate").unwrap();
/// assert_eq!(status["conditions"][0]["type"], "Ready");
/// assert!(settled_rules::example_status("example.com", "Unknown").is_none());
/// ```
#[must_use]
pub fn example_status(group: &str, kind: &str) -> Option<Value> {
    static ALL: OnceLock<HashMap<(String, String), Value>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let text = pack::examples();
        text.lines()
            .filter_map(|line| {
                let (group, kind, status) = serde_json::from_str::<(String, String, Value)>(line).ok()?;
                Some(((group, kind), status))
            })
            .collect()
    });
    all.get(&(group.to_owned(), kind.to_owned())).cloned()
}
