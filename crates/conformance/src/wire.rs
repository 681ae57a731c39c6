//! Minimal HTTP/1.1 client, which sends requests and returns responses without changing them.
//!
//! Client libraries add headers, normalize paths (`?&watch=true` is a test case), retry and decompress. This one needs
//! only rustls, which the workspace has for the server: blocking, one thread per request.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::target::{Error, Lines, Request, Response, Target, Watching};

/// Timeout of a whole response.
const PATIENCE: Duration = Duration::from_secs(40);
/// Maximum size of a header section, a body, and a line of a watch.
const MAX_BYTES: usize = 64 << 20;

type Stream = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// Address of a server, and idle connections to it.
pub struct Client {
    host: String,
    port: u16,
    tls: Arc<ClientConfig>,
    free: Mutex<Vec<Stream>>,
    /// Tokens are those of the identities; the administrator's can be replaced.
    pub admin_token: Option<String>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Hides the token.
        formatter
            .debug_struct("Client")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client for `https://HOST:PORT` that trusts the CA certificates in a file.
    ///
    /// # Errors
    ///
    /// The URL is invalid, or the file has no certificates.
    pub fn new(url: &str, ca: &Path) -> Result<Self, Error> {
        let pem = std::fs::read(ca).map_err(|why| Error::Transport(format!("{}: {why}", ca.display())))?;
        Self::with_pem(url, &pem)
    }

    /// The same with CA certificates in memory.
    ///
    /// # Errors
    ///
    /// As [`Client::new`].
    pub fn with_pem(url: &str, pem: &[u8]) -> Result<Self, Error> {
        let failed = |why: &dyn std::fmt::Display| Error::Transport(format!("{url}: {why}"));
        let address =
            url.strip_prefix("https://").ok_or_else(|| failed(&"the URL must begin with https://"))?;
        let (host, port) =
            address.trim_end_matches('/').rsplit_once(':').ok_or_else(|| failed(&"the URL has no port"))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|why| failed(&why))?;
            roots.add(certificate).map_err(|why| failed(&why))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| failed(&why))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            host: host.to_owned(),
            port: port.parse().map_err(|why| failed(&why))?,
            tls: Arc::new(tls),
            free: Mutex::default(),
            admin_token: None,
        })
    }

    fn connect(&self) -> io::Result<Stream> {
        let socket = TcpStream::connect((self.host.as_str(), self.port))?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
        let session = ClientConnection::new(Arc::clone(&self.tls), name).map_err(io::Error::other)?;
        Ok(BufReader::new(StreamOwned::new(session, socket)))
    }

    fn bytes(&self, request: &Request) -> Vec<u8> {
        let Request { method, path, headers, body, .. } = request;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}:{}\r\n", self.host, self.port);
        let token = match (&self.admin_token, request.user.as_str()) {
            (Some(token), "admin") => Some(format!("Bearer {token}")),
            _ => request.authorization(),
        };
        if let Some(token) = token {
            head.push_str(&format!("Authorization: {token}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || method == "POST" || method == "PUT" || method == "PATCH" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }

    /// Sends a request and reads the head of the response.
    fn begin(&self, request: &Request) -> io::Result<(Stream, Response)> {
        let bytes = self.bytes(request);
        let reused = self.free.lock().ok().and_then(|mut free| free.pop());
        if let Some(mut stream) = reused {
            // The server may have closed an idle connection: retry with a new one.
            if stream.get_mut().write_all(&bytes).is_ok()
                && let Ok(head) = read_head(&mut stream)
            {
                return Ok((stream, head));
            }
        }
        let mut stream = self.connect()?;
        patience(&stream, PATIENCE)?;
        stream.get_mut().write_all(&bytes)?;
        let head = read_head(&mut stream)?;
        Ok((stream, head))
    }

    fn finish(&self, request: &Request, mut stream: Stream, mut head: Response) -> io::Result<Response> {
        let mut keep = true;
        let bodiless = request.method == "HEAD" || matches!(head.status, 100..=199 | 204 | 304);
        if !bodiless {
            if is_chunked(&head) {
                while read_chunk(&mut stream, &mut head.body)? {}
            } else if let Some(length) = head.header("Content-Length") {
                let length: usize = length.parse().map_err(io::Error::other)?;
                let mut body = vec![0; length.min(MAX_BYTES)];
                stream.read_exact(&mut body)?;
                head.body = body;
            } else {
                keep = false;
                stream.read_to_end(&mut head.body)?;
            }
        }
        let closed = head.header("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if keep
            && !closed
            && let Ok(mut free) = self.free.lock()
        {
            free.push(stream);
        }
        Ok(head)
    }
}

impl Target for Client {
    fn send(&self, request: &Request) -> Result<Response, Error> {
        let sent = self.begin(request).and_then(|(stream, head)| self.finish(request, stream, head));
        sent.map_err(|why| transport(&why))
    }

    fn watch(&self, request: &Request) -> Result<Watching, Error> {
        let (stream, head) = self.begin(request).map_err(|why| transport(&why))?;
        // Long list responses are chunked as well, but are read as lines, too.
        if head.status == 200 && is_chunked(&head) {
            return Ok(Watching {
                head,
                lines: Some(Box::new(Events { stream, held: Vec::new(), over: false })),
            });
        }
        let head = self.finish(request, stream, head).map_err(|why| transport(&why))?;
        Ok(Watching { head, lines: None })
    }
}

/// Stream of watch events.
struct Events {
    stream: Stream,
    held: Vec<u8>,
    over: bool,
}

impl Lines for Events {
    fn next(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if let Some(end) = self.held.iter().position(|&byte| byte == b'\n') {
                let line = self.held.drain(..=end).take(end).collect();
                return Ok(Some(line));
            }
            if self.over {
                let rest = std::mem::take(&mut self.held);
                return Ok((!rest.is_empty()).then_some(rest));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Deadline);
            }
            patience(&self.stream, left).map_err(|why| transport(&why))?;
            self.over = !read_chunk(&mut self.stream, &mut self.held).map_err(|why| transport(&why))?;
        }
    }
}

fn transport(why: &io::Error) -> Error {
    match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Deadline,
        _ => Error::Transport(why.to_string()),
    }
}

fn patience(stream: &Stream, time: Duration) -> io::Result<()> {
    stream.get_ref().sock.set_read_timeout(Some(time.max(Duration::from_millis(1))))
}

fn is_chunked(head: &Response) -> bool {
    head.header("Transfer-Encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
}

fn line(stream: &mut Stream) -> io::Result<String> {
    let mut bytes = Vec::new();
    stream.take(64 << 10).read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn read_head(stream: &mut Stream) -> io::Result<Response> {
    loop {
        let status = line(stream)?;
        let code = status.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        let code = code.and_then(|code| code.parse().ok());
        let code = code.ok_or_else(|| io::Error::other(format!("no status line: {status}")))?;
        let mut head = Response { status: code, ..Response::default() };
        loop {
            let header = line(stream)?;
            if header.is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':') {
                head.headers.push((name.to_owned(), value.trim().to_owned()));
            }
        }
        // 1xx: the final response follows.
        if head.status >= 200 {
            return Ok(head);
        }
    }
}

/// Appends one chunk to `body`; returns false after the last.
fn read_chunk(stream: &mut Stream, body: &mut Vec<u8>) -> io::Result<bool> {
    let size = line(stream)?;
    let size = size.split(';').next().unwrap_or_default().trim();
    let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
    if size + body.len() > MAX_BYTES {
        return Err(io::Error::other("the answer is too long"));
    }
    let start = body.len();
    body.resize(start + size, 0);
    stream.read_exact(&mut body[start..])?;
    line(stream)?;
    Ok(size > 0)
}
