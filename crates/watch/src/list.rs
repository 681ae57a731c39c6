//! One-time lists: all objects of a kind as they are now, page by page.

use http::Method;
use http_body_util::BodyExt as _;
use settled_manifest::ListItems;

use crate::cluster::{Cluster, encode};
use crate::error::{ErrorMessage, RequestError};
use crate::exchange::Verb;
use crate::metadata::ListHead;
use crate::resources::Resource;
use crate::stream::{PAGE, SILENCE, broken, within};
use crate::wire;

impl Cluster {
    /// Lists all objects of a kind, in a namespace or everywhere, and keeps what `keep` returns for the JSON of each. No page is held
    /// as a whole. If the list expires between two pages, it begins anew, in one piece.
    ///
    /// # Errors
    /// As the server says; the answer breaks off.
    pub async fn list<T>(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        mut keep: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, RequestError> {
        let path = resource.path(namespace.map(encode).as_deref(), None);
        let (api_version, kind) = (resource.api_version(), &*resource.kind);
        let (mut found, mut buffer) = (Vec::new(), Vec::new());
        let mut page = format!("{path}?limit={PAGE}");
        loop {
            let sent = self.send(Verb::List, Method::GET, &page, "application/json", None).await;
            let answer = match sent {
                // The resourceVersion of the first page is compacted.
                Err(error) if error.code() == Some(410) && page != path => {
                    found.clear();
                    page.clone_from(&path);
                    continue;
                }
                sent => sent?,
            };
            let mut body = answer.into_body();
            let mut items = ListItems::default();
            while let Some(frame) = within(SILENCE, body.frame()).await? {
                let frame = frame.map_err(broken)?;
                let Some(data) = frame.data_ref() else { continue };
                self.count_bytes(data.len());
                let each =
                    |item: &[u8]| found.extend(keep(wire::typed(item, &api_version, kind, &mut buffer)));
                items.push(data, each).map_err(RequestError::answer)?;
            }
            let head = items.finish().map_err(RequestError::answer)?;
            let head: ListHead = serde_json::from_slice(&head).map_err(|error| {
                RequestError::Answer(ErrorMessage::new(format!("{path} is no list: {error}"), error))
            })?;
            let token = head.metadata.continue_;
            if token.is_empty() {
                return Ok(found);
            }
            page = format!("{path}?limit={PAGE}&continue={}", encode(&token));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube_client::Client;
    use kube_client::client::Body;

    use super::*;

    fn pods() -> Resource {
        Resource {
            group: "".into(),
            version: "v1".into(),
            kind: "Pod".into(),
            plural: "pods".into(),
            singular: "pod".into(),
            short_names: [].into(),
            categories: [].into(),
            namespaced: true,
            list: true,
            watch: true,
        }
    }

    /// A server with these answers to paths, and the paths that it was asked for.
    fn server(answers: &'static [(&str, u16, &str)]) -> (Cluster, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path_and_query().unwrap().to_string();
            let (_, status, text) = answers.iter().find(|(known, ..)| *known == path).expect("a known path");
            log.lock().unwrap().push(path);
            let answer =
                Response::builder().status(*status).body(Body::from(text.as_bytes().to_vec())).unwrap();
            std::future::ready(Ok::<_, Infallible>(answer))
        });
        (Cluster::new(Client::new(service, "default")), asked)
    }

    async fn names(cluster: &Cluster, namespace: Option<&str>) -> Result<Vec<String>, RequestError> {
        let keep = |json: &[u8]| Some(String::from_utf8_lossy(json).into_owned());
        cluster.list(&pods(), namespace, keep).await
    }

    #[tokio::test]
    async fn pages_are_one_list_of_whole_objects() {
        let (cluster, asked) = server(&[
            (
                "/api/v1/namespaces/a/pods?limit=500",
                200,
                r#"{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"t/1"},"items":[{"a":1},{"b":2}]}"#,
            ),
            (
                "/api/v1/namespaces/a/pods?limit=500&continue=t%2F1",
                200,
                r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"c":3}]}"#,
            ),
        ]);
        let found = names(&cluster, Some("a")).await.unwrap();
        let typed = |rest: &str| format!(r#"{{"apiVersion":"v1","kind":"Pod",{rest}}}"#);
        assert_eq!(found, [typed(r#""a":1"#), typed(r#""b":2"#), typed(r#""c":3"#)]);
        assert_eq!(asked.lock().unwrap().len(), 2);
    }

    /// Objects of the first page may be gone by then: nothing of it is kept.
    #[tokio::test]
    async fn a_list_that_expires_begins_anew() {
        let (cluster, asked) = server(&[
            ("/api/v1/pods?limit=500", 200, r#"{"metadata":{"continue":"t"},"items":[{"old":1}]}"#),
            ("/api/v1/pods?limit=500&continue=t", 410, r#"{"kind":"Status","reason":"Expired","code":410}"#),
            ("/api/v1/pods", 200, r#"{"metadata":{},"items":[{"new":1}]}"#),
        ]);
        let found = names(&cluster, None).await.unwrap();
        assert_eq!(found, [r#"{"apiVersion":"v1","kind":"Pod","new":1}"#]);
        assert_eq!(asked.lock().unwrap().len(), 3);
    }

    #[tokio::test]
    async fn errors_are_the_servers() {
        let (cluster, _) = server(&[("/api/v1/pods?limit=500", 403, r#"{"kind":"Status","code":403}"#)]);
        assert!(names(&cluster, None).await.unwrap_err().is_forbidden());
        let (cluster, _) = server(&[("/api/v1/pods?limit=500", 200, r#"{"items":[{"a":1"#)]);
        assert!(matches!(names(&cluster, None).await.unwrap_err(), RequestError::Answer(_)));
    }
}
