//! Where a webhook is, and whom it is trusted by: `ValidateWebhookURL`, `ValidateWebhookService`, `ValidateCABundle`.

use serde_json::Value;
use settled_apimachinery::field::{Error as FieldError, Path};
use settled_apimachinery::validation::is_dns1123_subdomain;
use settled_go::url;

use super::v1::{ServiceReference, WebhookClientConfig};

/// What is wrong with where a webhook is: its `url` or its `service`. Fields are named from there.
#[must_use]
pub fn validate_webhook_client(client: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nil = Path::Nil;
    let config = WebhookClientConfig::read(client);
    if let Some(url) = config.url {
        validate_webhook_url(url, &nil.child("url"), &mut errors);
    } else if let Some(service) = &config.service {
        validate_webhook_service(service, &nil.child("service"), &mut errors);
    }
    errors
}

pub(super) fn validate_webhook_url(text: &str, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (bare, fragment) = text.split_once('#').unwrap_or((text, ""));
    let url = match url::parse(bare) {
        Ok(url) => url,
        Err(error) => {
            errors.push(FieldError::required(path, format!("url must be a valid URL: {error}{FORM}")));
            return;
        }
    };
    if url.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(FieldError::invalid(path, url.scheme, detail));
    }
    if url.host.is_empty() {
        errors.push(FieldError::invalid(path, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = url.user {
        errors.push(FieldError::invalid(path, user, "user information is not permitted in the URL"));
    }
    if !fragment.is_empty() {
        errors.push(FieldError::invalid(path, fragment, "fragments are not permitted in the URL"));
    }
    if !url.query.is_empty() {
        errors.push(FieldError::invalid(path, url.query, "query parameters are not permitted in the URL"));
    }
}

pub(super) fn validate_webhook_service(
    service: &ServiceReference<'_>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    // Upstream mistakes each for the other.
    if service.namespace.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
    if service.name.is_empty() {
        errors.push(FieldError::required(path.child("namespace"), ""));
    }
    if !(1..=65535).contains(&service.port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(path.child("port"), service.port, detail));
    }
    validate_webhook_path(service.path, &path.child("path"), errors);
}

fn validate_webhook_path(url_path: &str, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if matches!(url_path, "" | "/") {
        return;
    }
    if url_path == "//" {
        errors.push(FieldError::invalid(path, url_path, "segment[0] may not be empty"));
        return;
    }
    if !url_path.starts_with('/') {
        errors.push(FieldError::invalid(path, url_path, "must start with a '/'"));
    }
    let mut rest = url_path.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            let detail = format!("segment[{index}] may not be empty");
            errors.push(FieldError::invalid(path, url_path, detail));
            continue;
        }
        for detail in is_dns1123_subdomain(segment) {
            errors.push(FieldError::invalid(path, url_path, format!("segment[{index}]: {detail}")));
        }
    }
}

/// `ValidateCABundle`: why a bundle in base64 holds no certificates. What is within a certificate is not looked at.
pub(super) fn ca_bundle_error(bundle: &str) -> Option<String> {
    // "-----BEGIN CERTIFICATE-----", at the beginning or wherever a line may begin.
    let headers = [
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
        "tLS0tLUJFR0lOIENFUlRJRklDQVRFLS0tLS",
        "LS0tLUJFR0lOIENFUlRJRklDQVRFLS0tLS0",
    ];
    let has_header = headers.iter().any(|header| bundle.contains(header));
    (!has_header).then(|| "unable to load root certificates: unable to parse bytes as PEM block".to_owned())
}
