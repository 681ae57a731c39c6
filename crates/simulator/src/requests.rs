//! Requests for typed objects. Little of them is compiled for each kind; [`Api`](kube::Api) would be as a whole.

use kube::core::{Request, request};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use settled_controller::{ObjectView, ParseError, typed};

/// A request, unless its parameters are invalid.
pub(crate) type Prepared = Result<http::Request<Vec<u8>>, request::Error>;

/// Requests for the objects of a kind in a namespace, or of a kind without namespaces where that is empty.
pub(crate) fn of<K: Resource<DynamicType = ()>>(namespace: &str) -> Request {
    Request::new(K::url_path(&(), Some(namespace).filter(|namespace| !namespace.is_empty())))
}

/// Sends a request, and returns the answer.
pub(crate) async fn send(client: &Client, request: Prepared) -> Result<String, kube::Error> {
    client.request_text(request.map_err(kube::Error::BuildRequest)?).await
}

/// An object as a body. Statuses are compared as values: of each kind there is that writer already.
pub(crate) fn body(object: &impl Serialize) -> Result<Vec<u8>, kube::Error> {
    let value = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    serde_json::to_vec(&value).map_err(kube::Error::SerdeError)
}

/// The object of an answer.
pub(crate) fn view(answer: &str) -> Result<ObjectView<'_>, kube::Error> {
    ObjectView::parse(answer.as_bytes())
        .map_err(|error: ParseError| kube::Error::SerdeError(serde_json::Error::custom(error)))
}

/// The typed object of an answer.
pub(crate) fn read<K: DeserializeOwned>(object: &ObjectView<'_>) -> Result<K, kube::Error> {
    typed::from_node(object.root()).map_err(kube::Error::SerdeError)
}
