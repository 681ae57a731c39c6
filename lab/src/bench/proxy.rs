//! Counting proxy between clients and a server: requests and bytes per verb.
//!
//! It supports the protocols of both sides, HTTP/2 if both do, and streams bodies unchanged. Servers count requests
//! too, but not the bytes per verb, nor per client.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::Outcome;

/// Verbs in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    /// Discovery.
    Discovery,
    List,
    Watch,
    /// A watch with initial events.
    WatchList,
    Get,
    /// Any write.
    Write,
}

/// Number of requests, and bytes of bodies in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) requests: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

type Counts = Arc<Mutex<BTreeMap<Verb, Count>>>;
type Body = BoxBody<Bytes, hyper::Error>;
type Upstream = Client<HttpsConnector<HttpConnector>, Body>;

/// A running proxy. It stops with its runtime.
pub(crate) struct Proxy {
    pub(crate) url: String,
    /// Path of its certificate.
    pub(crate) ca: PathBuf,
    counts: Counts,
}

impl Proxy {
    /// Starts a proxy for the server at `https://ADDRESS:PORT` with the CA certificates in the file.
    pub(crate) fn start(runtime: &Runtime, url: &str, authority: &Path, directory: &Path) -> Outcome<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&fs::read(authority)?) {
            roots.add(certificate?)?;
        }
        let tls = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().enable_http2();
        let upstream: Upstream = Client::builder(TokioExecutor::new()).build(connector.build());

        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let ca = directory.join("proxy.crt");
        fs::write(&ca, own.cert.pem())?;
        let key = PrivateKeyDer::from_pem_slice(own.signing_key.serialize_pem().as_bytes())?;
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));

        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let own_url = format!("https://{}", listener.local_addr()?);
        let counts = Counts::default();
        let (counting, target) = (counts.clone(), Arc::<str>::from(url));
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, upstream) = (acceptor.clone(), upstream.clone());
                let (counting, target) = (counting.clone(), target.clone());
                tokio::spawn(async move {
                    // A disconnecting client is not an error.
                    let _gone = serve(socket, acceptor, upstream, counting, target).await;
                });
            }
        });
        Ok(Self { url: own_url, ca, counts })
    }

    /// The requests so far.
    pub(crate) fn counts(&self) -> BTreeMap<Verb, Count> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resets the counters.
    pub(crate) fn reset(&self) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

async fn serve(
    socket: TcpStream,
    acceptor: TlsAcceptor,
    upstream: Upstream,
    counts: Counts,
    target: Arc<str>,
) -> Outcome<()> {
    socket.set_nodelay(true)?;
    let stream = acceptor.accept(socket).await?;
    let service = service_fn(move |request| {
        let (upstream, counts, target) = (upstream.clone(), counts.clone(), target.clone());
        async move { Ok::<_, http::Error>(hand_on(request, &upstream, &counts, &target).await) }
    });
    auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await
}

async fn hand_on(
    request: Request<Incoming>,
    upstream: &Upstream,
    counts: &Counts,
    target: &str,
) -> Response<Body> {
    let verb = verb(request.method(), request.uri());
    add(counts, verb, |count| count.requests += 1);
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let answer = match format!("{target}{path}").parse::<Uri>() {
        Ok(uri) => {
            let (mut head, body) = request.into_parts();
            head.uri = uri;
            head.headers.remove(http::header::HOST);
            // The upstream connection may use another HTTP version.
            head.version = Version::HTTP_11;
            let body = counted(body, counts, verb, |count, bytes| count.sent += bytes);
            upstream.request(Request::from_parts(head, body)).await.map_err(|why| why.to_string())
        }
        Err(why) => Err(why.to_string()),
    };
    match answer {
        Ok(answer) => {
            let (mut head, body) = answer.into_parts();
            head.version = Version::HTTP_11;
            Response::from_parts(head, counted(body, counts, verb, |count, bytes| count.received += bytes))
        }
        Err(why) => {
            let body = Full::new(Bytes::from(why)).map_err(|never| match never {}).boxed();
            let mut answer = Response::new(body);
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
            answer
        }
    }
}

fn add(counts: &Counts, verb: Verb, change: impl FnOnce(&mut Count)) {
    change(counts.lock().unwrap_or_else(PoisonError::into_inner).entry(verb).or_default());
}

/// Counts the bytes of a body while it is streamed.
fn counted(body: Incoming, counts: &Counts, verb: Verb, note: fn(&mut Count, u64)) -> Body {
    let counts = counts.clone();
    body.map_frame(move |frame| {
        if let Some(data) = frame.data_ref() {
            add(&counts, verb, |count| note(count, data.len() as u64));
        }
        frame
    })
    .boxed()
}

/// Verb of a request. A list with one name is a list: it costs a server as much.
fn verb(method: &Method, uri: &Uri) -> Verb {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Verb::Write;
    }
    let mut parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    // The path below the version: of `api/v1`, or of `apis/GROUP/VERSION`.
    let above = match parts.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        _ => return Verb::Discovery,
    };
    parts.drain(..above.min(parts.len()));
    if parts.len() > 2 && parts[0] == "namespaces" {
        parts.drain(..2);
    }
    let query = uri.query().unwrap_or_default();
    let has = |parameter: &str| {
        query.split('&').any(|pair| {
            pair.split_once('=').is_some_and(|(key, value)| key == parameter && matches!(value, "true" | "1"))
        })
    };
    match parts.len() {
        0 => Verb::Discovery,
        1 if has("watch") && has("sendInitialEvents") => Verb::WatchList,
        1 if has("watch") => Verb::Watch,
        1 => Verb::List,
        _ => Verb::Get,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_verb() {
        for (method, path, expected) in [
            ("GET", "/api", Verb::Discovery),
            ("GET", "/apis/apps/v1", Verb::Discovery),
            ("GET", "/openapi/v3", Verb::Discovery),
            ("GET", "/version", Verb::Discovery),
            ("GET", "/api/v1/namespaces", Verb::List),
            ("GET", "/api/v1/namespaces/a", Verb::Get),
            ("GET", "/api/v1/namespaces/a/pods", Verb::List),
            ("GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Db", Verb::List),
            ("GET", "/api/v1/namespaces/a/pods?watch=true&resourceVersion=3", Verb::Watch),
            ("GET", "/api/v1/pods?allowWatchBookmarks=true&watch=1&sendInitialEvents=true", Verb::WatchList),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/web", Verb::Get),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/web/status", Verb::Get),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/web", Verb::Write),
        ] {
            let method: Method = method.parse().expect("a method");
            assert_eq!(verb(&method, &path.parse().expect("a path")), expected, "{path}");
        }
    }
}
