//! The metadata of lists and of objects in a watch, as far as a stream goes by it.

use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct ListHead {
    pub(crate) metadata: ListMeta,
}

#[derive(Deserialize)]
pub(crate) struct ListMeta {
    #[serde(default, rename = "continue")]
    pub(crate) continue_: String,
    #[serde(default, rename = "resourceVersion")]
    pub(crate) resource_version: String,
}

/// Of an object in a watch: its metadata, as far as the watch goes by it.
#[derive(Deserialize)]
struct Meta {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) resource_version: String,
    // Null is allowed as well as absence.
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(default, rename = "k8s.io/initial-events-end")]
    initial_events_end: String,
}

impl Metadata {
    /// The bookmark at the end of the initial list.
    pub(crate) fn ends_initial_list(&self) -> bool {
        self.annotations.as_ref().is_some_and(|annotations| annotations.initial_events_end == "true")
    }
}

pub(crate) fn read_metadata(object: &[u8]) -> Option<Metadata> {
    serde_json::from_slice(object).ok().map(|object: Meta| object.metadata)
}

/// Of the object of an `ERROR` event.
#[derive(Deserialize)]
pub(crate) struct Status {
    #[serde(default = "internal_error")]
    pub(crate) code: u16,
}

fn internal_error() -> u16 {
    500
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_initial_list_is_an_annotation() {
        let read = |annotations: &str| {
            let object = format!(r#"{{"kind":"Pod","metadata":{{"resourceVersion":"7"{annotations}}}}}"#);
            read_metadata(object.as_bytes()).map(|m| (m.ends_initial_list(), m.resource_version))
        };
        for (annotations, ends) in [
            ("", false),
            (r#","annotations":null"#, false),
            (r#","annotations":{"other":"true"}"#, false),
            (r#","annotations":{"k8s.io/initial-events-end":"false"}"#, false),
            (r#","annotations":{"k8s.io/initial-events-end":"true","other":"x"}"#, true),
        ] {
            assert_eq!(read(annotations), Some((ends, "7".to_owned())), "{annotations}");
        }
    }
}
