//! The server: where it keeps its data, where it listens, how it begins and ends.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use settled_store::{BackendError, Disk, Durability, Options, Store};
use tokio::net::{TcpListener, TcpStream};

use crate::api::Api;
use crate::body::Body;
use crate::builtin;
use crate::core::{Call, Core, Target};
use crate::definition::{Catalog, Definition, stored_as};
use crate::error::ApiError;

/// How a [`Server`] works.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Config {
    /// Where the data are kept; nothing: in memory.
    pub data_dir: Option<PathBuf>,
    /// Whether acknowledged writes are on disk.
    pub durability: Durability,
}

/// A running server. Copies are the same one; it stops when the last is dropped or [`Server::stop`] is called.
#[derive(Clone)]
pub struct Server {
    api: Arc<Api>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data can't be read.
    #[error("the data can't be opened")]
    Store(#[from] BackendError),
    /// The server can't listen there.
    #[error("can't listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// What the server brings can't be written.
    #[error("the first objects can't be written")]
    Bootstrap(#[from] ApiError),
}

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

impl Server {
    /// Starts a server. It listens nowhere yet.
    ///
    /// # Errors
    /// The data can't be opened, or the objects that every cluster has can't be written.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let store = match &config.data_dir {
            Some(folder) => {
                let disk = Disk::open(&folder.join("store"), config.durability)?;
                Store::open(Box::new(disk), Options::default())?
            }
            None => Store::memory(Options::default()),
        };
        let key = |error: settled_store::KeyError| ApiError::internal(error);
        let mut catalog = Catalog::default();
        for row in builtin::kinds() {
            catalog.insert(Arc::new(Definition::builtin(row).map_err(key)?));
        }
        let core = Arc::new(Core::new(store, stored_as("", "namespaces").map_err(key)?));
        core.change_catalog(|served| *served = catalog);
        core.load_crds()?;
        bootstrap(&core).await?;
        tokio::spawn(core.clone().run_crds());
        Ok(Self { api: Arc::new(Api::new(core)) })
    }

    /// Answers a request as if it came through a socket.
    pub async fn call<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = bytes::Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.api.handle(request).await
    }

    /// Listens on an address until the server stops. Gives the address, with the port that was free if none was named.
    ///
    /// # Errors
    /// The address can't be had.
    pub async fn listen(&self, address: SocketAddr) -> Result<SocketAddr, StartError> {
        let failed = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        tokio::spawn(accept(self.api.clone(), listener));
        Ok(local)
    }

    /// Stops: watches end, no new connections are taken.
    pub fn stop(&self) {
        self.api.stopping.send_replace(true);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// What every cluster has.
async fn bootstrap(core: &Arc<Core>) -> Result<(), ApiError> {
    let catalog = core.catalog();
    let Some(namespaces) = catalog.find("", "v1", "namespaces") else { return Ok(()) };
    for name in NAMESPACES {
        let target = Target { definition: namespaces, namespace: "", name };
        if core.get(&target).is_ok() {
            continue;
        }
        let object = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let options = crate::options::WriteOptions::internal();
        core.create(&mut Call::new("kube-apiserver"), &target, object, &options).await?;
    }
    Ok(())
}

async fn accept(api: Arc<Api>, listener: TcpListener) {
    let mut stopping = api.stopping.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(serve(api.clone(), stream));
            }
            // Too many open files, for instance: others may be closed soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn serve(api: Arc<Api>, stream: TcpStream) {
    let _best_effort = stream.set_nodelay(true);
    let mut stopping = api.stopping.subscribe();
    let service = service_fn(move |request: Request<Incoming>| {
        let api = api.clone();
        async move { Ok::<_, std::convert::Infallible>(api.handle(request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(30))
        .max_buf_size(64 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .max_concurrent_streams(1000)
        .max_header_list_size(64 * 1024);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // What a client does wrong ends its connection and nobody else's.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|stopping| *stopping) => connection.as_mut().graceful_shutdown(),
    }
    let _ended = connection.await;
}
