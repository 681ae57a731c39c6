//! Manifests from URLs: bounded, and without any credentials.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, LOCATION};
use http::{Request, Uri};
use http_body_util::BodyExt as _;
use kube_client::Config;
use kube_client::client::Body;

use crate::connect::client;
use crate::error::innermost;
use crate::proxy::Environment;

/// How long it may take, redirects included.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// How large it may be.
const MAX_DOWNLOAD: usize = 64 << 20;
/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;

/// Why a URL cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DownloadError {
    /// It is none, or one that must not be used.
    #[error("{0}")]
    Url(String),
    /// There is no answer, or not all of it.
    #[error("{0}")]
    Transport(String),
    /// The answer is another than 200.
    #[error("the server answers {0}")]
    Status(u16),
    /// More redirects than are followed.
    #[error("more than {MAX_REDIRECTS} redirects")]
    Redirects,
    /// It takes too long.
    #[error("not complete within {} s", DOWNLOAD_TIMEOUT.as_secs())]
    Timeout,
}

/// Reads what an `http` or `https` URL names, by the proxy of the environment if there is one. Certificates are verified by the system's authorities; the kubeconfig plays no part.
///
/// # Errors
/// It is no such URL, names a user or password, or cannot be read.
pub async fn download(url: &str) -> Result<Bytes, DownloadError> {
    let followed = async {
        let mut uri = parse(url)?;
        for _ in 0..=MAX_REDIRECTS {
            match get(&uri).await? {
                Answer::Whole(bytes) => return Ok(bytes),
                Answer::Redirect(location) => uri = resolve(&uri, &location)?,
            }
        }
        Err(DownloadError::Redirects)
    };
    tokio::time::timeout(DOWNLOAD_TIMEOUT, followed).await.unwrap_or(Err(DownloadError::Timeout))
}

enum Answer {
    Whole(Bytes),
    Redirect(String),
}

async fn get(uri: &Uri) -> Result<Answer, DownloadError> {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let base = parse(&format!("{}://{authority}/", uri.scheme_str().unwrap_or("https")))?;
    // Neither credentials nor authorities of a cluster: those of a kubeconfig are not asked for.
    let mut config = Config::new(base);
    let proxy = Environment::of_process().proxy_for(&config.cluster_url);
    config.proxy_url = proxy.map_err(DownloadError::Transport)?;
    let client = client(&config).map_err(|error| DownloadError::Transport(error.to_string()))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(HOST, authority)
        .header(ACCEPT, "*/*")
        .body(Body::empty())
        .map_err(|error| DownloadError::Url(error.to_string()))?;
    let answer = client.send(request).await.map_err(|error| DownloadError::Transport(innermost(&error)))?;
    if answer.status().is_redirection() {
        let location = answer.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let code = answer.status().as_u16();
        return location.map(|to| Answer::Redirect(to.to_owned())).ok_or(DownloadError::Status(code));
    }
    if answer.status() != http::StatusCode::OK {
        return Err(DownloadError::Status(answer.status().as_u16()));
    }
    let body = http_body_util::Limited::new(answer.into_body(), MAX_DOWNLOAD).collect().await;
    let body = body.map_err(|error| DownloadError::Transport(innermost(&*error)))?;
    Ok(Answer::Whole(body.to_bytes()))
}

fn parse(url: &str) -> Result<Uri, DownloadError> {
    let wrong = |why: &str| Err(DownloadError::Url(why.to_owned()));
    let url = url.split('#').next().unwrap_or_default();
    // `http::Uri` takes no URL without an authority, such as `file:///etc/passwd`.
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return wrong("only http and https URLs are read");
    }
    let Ok(uri) = url.parse::<Uri>() else { return wrong("it is no URL") };
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            wrong("a URL with a user or password is not read; download it first")
        }
        (Some("http" | "https"), Some(_)) => Ok(uri),
        _ => wrong("only http and https URLs are read"),
    }
}

/// Where a redirect leads. Never from HTTPS to HTTP: what comes then could be anybody's.
fn resolve(from: &Uri, location: &str) -> Result<Uri, DownloadError> {
    let base = format!(
        "{}://{}",
        from.scheme_str().unwrap_or("https"),
        from.authority().map_or("", |authority| authority.as_str())
    );
    let to = if location.contains("://") {
        location.to_owned()
    } else if let Some(rest) = location.strip_prefix("//") {
        format!("{}://{rest}", from.scheme_str().unwrap_or("https"))
    } else if location.starts_with('/') {
        format!("{base}{location}")
    } else {
        let directory = from.path().rsplit_once('/').map_or("", |(directory, _)| directory);
        format!("{base}{directory}/{location}")
    };
    let to = parse(&to)?;
    if from.scheme_str() == Some("https") && to.scheme_str() == Some("http") {
        return Err(DownloadError::Url(format!("it redirects from https to {to}")));
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_within_https() {
        let check = |location: &str, expected: &str| {
            let from = parse("https://example.com/a/b.yaml?x=1").unwrap();
            let to = resolve(&from, location);
            assert_eq!(
                to.map_or_else(|error| error.to_string(), |to| to.to_string()),
                expected,
                "{location}"
            );
        };
        check("c.yaml", "https://example.com/a/c.yaml");
        check("/c.yaml?y=2#z", "https://example.com/c.yaml?y=2");
        check("//example.org/c", "https://example.org/c");
        check("https://example.org:8443/c", "https://example.org:8443/c");
        check("http://example.org/c", "it redirects from https to http://example.org/c");
        check(
            "https://user:secret@example.org/c",
            "a URL with a user or password is not read; download it first",
        );
        check("file:///etc/passwd", "only http and https URLs are read");
    }
}
