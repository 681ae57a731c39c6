//! Raw connections: bytes over TCP and over TLS.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::Outcome;

/// HTTP/2 connection preface with an empty SETTINGS frame.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const NO_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

pub(super) enum Socket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// TLS configuration for the server.
#[derive(Clone)]
pub(super) struct Greeting {
    address: SocketAddr,
    plain: Arc<ClientConfig>,
    h2: Arc<ClientConfig>,
}

impl Greeting {
    pub(super) fn new(address: SocketAddr, ca: &Path) -> Outcome<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca).map_err(|why| why.to_string())? {
            roots.add(certificate.map_err(|why| why.to_string())?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let plain = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut h2 = plain.clone();
        h2.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { address, plain: Arc::new(plain), h2: Arc::new(h2) })
    }

    pub(super) fn tcp(&self) -> io::Result<TcpStream> {
        let socket = TcpStream::connect(self.address)?;
        socket.set_nodelay(true)?;
        Ok(socket)
    }

    /// A connection with a small receive buffer.
    pub(super) fn narrow(&self) -> Outcome<TcpStream> {
        // Only tokio's sockets support this before connecting.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.set_recv_buffer_size(16 << 10)?;
            socket.connect(self.address).await?.into_std()
        })?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    fn session(&self, h2: bool) -> io::Result<ClientConnection> {
        let config = if h2 { &self.h2 } else { &self.plain };
        let name = ServerName::IpAddress(self.address.ip().into());
        ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)
    }

    /// First bytes of a client.
    pub(super) fn hello(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.session(false)?.write_tls(&mut bytes)?;
        Ok(bytes)
    }

    /// A connection after the TLS handshake.
    pub(super) fn tls(&self, h2: bool) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        self.tls_over(self.tcp()?, h2)
    }

    pub(super) fn tls_over(
        &self,
        mut socket: TcpStream,
        h2: bool,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        socket.set_read_timeout(Some(super::PATIENCE))?;
        let mut session = self.session(h2)?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(StreamOwned::new(session, socket))
    }
}

impl Socket {
    pub(super) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    /// Reads until the server closes the connection; false if it has not by the deadline.
    pub(super) fn ends(&mut self, deadline: Instant) -> bool {
        let mut buffer = [0; 16 << 10];
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            if self.tcp().set_read_timeout(Some(left)).is_err() {
                return true;
            }
            match self.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return false;
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                // Reset, or closed without TLS close_notify.
                Err(_) => return true,
            }
        }
    }
}

/// An HTTP/2 frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(payload.len() + 9);
    frame.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes()[1..]);
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Request headers in HPACK, without the dynamic table: method, path and the administrator's token.
pub(super) fn hpack(method: &str, path: &str) -> Vec<u8> {
    let text = |text: &str| {
        let mut bytes = vec![u8::try_from(text.len()).unwrap_or(126) & 0x7f];
        bytes.extend_from_slice(text.as_bytes());
        bytes
    };
    // :scheme https; then :method, :path, :authority and authorization by name.
    let mut block = vec![0x87, 0x02];
    block.extend(text(method));
    block.push(0x04);
    block.extend(text(path));
    block.push(0x01);
    block.extend(text("127.0.0.1"));
    block.extend([0x0f, 0x08]);
    block.extend(text("Bearer admin-token"));
    block
}
