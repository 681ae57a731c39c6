//! Load program of the API server benchmark: HTTP/2 clients over TLS with minimal overhead.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Method, Request};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use crate::{Outcome, server};

/// Flow control windows of Go's client, per stream and per connection.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;
/// Timeout of any operation.
const PATIENCE: Duration = Duration::from_secs(120);

/// Address and TLS configuration of a server.
#[derive(Clone)]
pub(crate) struct Address {
    socket: SocketAddr,
    tls: TlsConnector,
    authorization: Arc<str>,
}

impl Address {
    /// A server at `https://ADDRESS:PORT` with the CA certificates of a file.
    pub(crate) fn new(url: &str, authority: &Path) -> Outcome<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&fs::read(authority)?) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            socket: url.trim_start_matches("https://").parse()?,
            tls: TlsConnector::from(Arc::new(tls)),
            authorization: format!("Bearer {}", server::admin_token()).into(),
        })
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Outcome<Client> {
        let socket = TcpStream::connect(self.socket).await?;
        socket.set_nodelay(true)?;
        let name = ServerName::from(self.socket.ip());
        let stream = self.tls.connect(name, socket).await?;
        let (sender, connection) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .enable_push(false)
            .handshake(stream)
            .await?;
        tokio::spawn(async move {
            // Waiting callers get the error.
            let _ended = connection.await;
        });
        Ok(Client { sender, address: self.clone() })
    }
}

/// One connection.
#[derive(Clone)]
pub(crate) struct Client {
    sender: SendRequest<Bytes>,
    address: Address,
}

/// A response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) bytes: usize,
    /// The beginning of the body.
    pub(crate) body: Vec<u8>,
}

/// Kept part of a response: enough for error messages and for a list's resourceVersion.
const KEPT: usize = 4096;

impl Client {
    async fn begin(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Outcome<http::Response<h2::RecvStream>> {
        let request = Request::builder()
            .method(&method)
            .uri(format!("https://{}{path}", self.address.socket))
            .header("authorization", &*self.address.authorization)
            .header("accept", "application/json")
            .header("user-agent", "settled-bench");
        let request = if body.is_empty() {
            request
        } else {
            let form =
                if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
            request.header("content-type", form).header("content-length", body.len())
        };
        let mut sender = self.sender.clone().ready().await?;
        let (answer, mut stream) = sender.send_request(request.body(())?, body.is_empty())?;
        if !body.is_empty() {
            // A server may reject a request before it has the body, with the reason in its response.
            let _refused = stream.send_data(body, true);
        }
        Ok(answer.await?)
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Bytes) -> Outcome<Answer> {
        let work = async {
            let answer = self.begin(method, path, body).await?;
            let status = answer.status().as_u16();
            let mut stream = answer.into_body();
            let (mut bytes, mut body) = (0, Vec::new());
            while let Some(data) = stream.data().await {
                let data = data?;
                stream.flow_control().release_capacity(data.len())?;
                bytes += data.len();
                body.extend_from_slice(&data[..data.len().min(KEPT.saturating_sub(body.len()))]);
            }
            Ok(Answer { status, bytes, body })
        };
        tokio::time::timeout(PATIENCE, work).await?
    }

    /// As [`Client::send`], and fails unless the response has this status.
    pub(crate) async fn expect(
        &self,
        status: u16,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Outcome<Answer> {
        let answer = self.send(method.clone(), path, body).await?;
        if answer.status == status {
            return Ok(answer);
        }
        let said = String::from_utf8_lossy(&answer.body);
        Err(format!("{method} {path}: {} instead of {status}: {said}", answer.status).into())
    }

    /// Opens a watch, and returns its event stream.
    pub(crate) async fn watch(&self, path: &str) -> Outcome<Events> {
        let answer = tokio::time::timeout(PATIENCE, self.begin(Method::GET, path, Bytes::new())).await??;
        match answer.status().as_u16() {
            200 => Ok(Events { stream: answer.into_body() }),
            other => Err(format!("GET {path}: {other}").into()),
        }
    }
}

/// Elapsed time of requests: total, and of each.
pub(crate) struct Requests {
    pub(crate) elapsed: Duration,
    pub(crate) times: Vec<Duration>,
}

/// Sends this many requests over clients with one connection each, sequentially per client.
pub(crate) async fn requests<F>(
    address: &Address,
    clients: usize,
    count: usize,
    request: impl Fn(Client, usize) -> F + Clone + Send + 'static,
) -> Outcome<Requests>
where
    F: Future<Output = Outcome<()>> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let mut connected = Vec::new();
    for _ in 0..clients {
        connected.push(address.connect().await?);
    }
    let start = Instant::now();
    let mut running = JoinSet::new();
    for client in connected {
        let (next, request) = (next.clone(), request.clone());
        running.spawn(async move {
            let mut times = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Outcome::Ok(times);
                }
                let start = Instant::now();
                request(client.clone(), number).await?;
                times.push(start.elapsed());
            }
        });
    }
    let mut times = Vec::with_capacity(count);
    while let Some(done) = running.join_next().await {
        times.append(&mut done??);
    }
    Ok(Requests { elapsed: start.elapsed(), times })
}

/// Creates a namespace.
pub(crate) async fn namespace(client: &Client, name: &str) -> Outcome<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    client.expect(201, Method::POST, "/api/v1/namespaces", body.to_string().into()).await.map(drop)
}

/// A running watch.
pub(crate) struct Events {
    stream: h2::RecvStream,
}

impl Events {
    /// Counts this many events; each is a line. False if the server closes the watch before: kube-apiserver does so if
    /// a burst of events arrives faster than it can send them.
    pub(crate) async fn count(mut self, wanted: usize) -> Outcome<bool> {
        let mut seen = 0;
        while seen < wanted {
            let Some(data) = self.read().await? else { return Ok(false) };
            seen += memchr::memchr_iter(b'\n', &data).count();
        }
        Ok(true)
    }

    /// Arrival time of each event, with the number at the end of its object's name.
    pub(crate) async fn times(mut self, wanted: usize) -> Outcome<Vec<(usize, Instant)>> {
        let name = memchr::memmem::Finder::new(br#""name":""#);
        let mut times = Vec::with_capacity(wanted);
        let mut held = Vec::new();
        while times.len() < wanted {
            let data = self.next().await?;
            let now = Instant::now();
            held.extend_from_slice(&data);
            let mut start = 0;
            while let Some(end) = memchr::memchr(b'\n', &held[start..]) {
                let line = &held[start..start + end];
                start += end + 1;
                let rest = &line[name.find(line).ok_or("an event has no name")? + name.needle().len()..];
                let rest = &rest[..memchr::memchr(b'"', rest).unwrap_or(rest.len())];
                let text = String::from_utf8_lossy(rest);
                // Other writers exist: each namespace gets the CA certificate.
                if let Some(number) = text.rsplit('-').next().and_then(|number| number.parse().ok()) {
                    times.push((number, now));
                }
            }
            held.drain(..start);
        }
        Ok(times)
    }

    /// The next part of it, which need not end with a line.
    pub(crate) async fn next(&mut self) -> Outcome<Bytes> {
        Ok(self.read().await?.ok_or("a watch ended early")?)
    }

    /// The next line; `None` at the end of the watch.
    async fn read(&mut self) -> Outcome<Option<Bytes>> {
        let data = tokio::time::timeout(PATIENCE, self.stream.data()).await?;
        let Some(data) = data.transpose()? else { return Ok(None) };
        self.stream.flow_control().release_capacity(data.len())?;
        Ok(Some(data))
    }
}
