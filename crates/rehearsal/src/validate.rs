//! Validation of an object by the server, whatever fields it has that its kind does not have.

use kube::Client;
use serde_json::Value;

/// Why the server finds an object invalid, besides its unknown fields: those are what it looks at first. Nothing is created.
///
/// `path` is that of the collection, such as `/api/v1/namespaces/shop/configmaps`.
pub async fn invalid(client: &Client, path: &str, json: &str) -> Option<String> {
    let request = http::Request::post(format!("{path}?dryRun=All&fieldValidation=Ignore"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(json.as_bytes().to_vec())
        .ok()?;
    match client.request::<Value>(request).await {
        Err(kube::Error::Api(status)) if status.code == 422 => Some(status.message.clone()),
        _ => None,
    }
}
