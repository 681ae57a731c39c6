//! Server: start, listeners, connections, shutdown.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use settled_store::{At, BackendError, Disk, Durability, Options, Revision, Store};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OnceCell, watch};
use tokio_rustls::TlsAcceptor;

use crate::auth::certificates::{CertificateError, CertificateOptions, user_of, write_private};
use crate::auth::{Certificates, Tokens, User};
use crate::bootstrap;
use crate::change::{Change, Write};
use crate::controllers::{self, Controller, Controllers, crds, notices, own_objects};
use crate::directory::{self, DirectoryLock};
use crate::error::ApiError;
use crate::features::FeatureGates;
use crate::http::api::Api;
use crate::http::body::Body;
use crate::http::gather::Gather;
use crate::http::limits::Limits;
use crate::http::stalled::Connection;
use crate::http::workers::Workers;
use crate::kinds::builtin;
use crate::kinds::definition::{Catalog, Definition};
use crate::kinds::names::stored_as;
use crate::notice::Listener;
use crate::state::lifecycle::Lifecycle;
use crate::state::pod_logs::PodLogs;
use crate::state::random::Random;
use crate::state::service_range::ServiceRange;
use crate::state::{Clock, State};
use crate::verbs::unenforced;

/// Whom tokens are for, as clusters usually have it.
const AUDIENCE: &str = "https://kubernetes.default.svc";

/// How a [`Server`] works.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// Where data, certificates and `admin.kubeconfig` are kept; nothing: in memory.
    pub data_dir: Option<PathBuf>,
    /// Objects are in memory even if there is a directory: it has the certificates only.
    pub memory: bool,
    /// Whether acknowledged writes are on disk.
    pub durability: Durability,
    /// Users that come with a token.
    pub tokens: Tokens,
    /// The certificates: made on the first start, or given.
    pub certificates: CertificateOptions,
    /// Limits of concurrent requests.
    pub limits: Limits,
    /// Built-in controllers that run; all by default. Turn off those that the real kube-controller-manager is
    /// to be tested with.
    pub controllers: Controllers,
    /// Time to live of Events; an hour by default.
    pub event_ttl: Option<Duration>,
    /// Enabled features.
    pub feature_gates: FeatureGates,
    /// Handler of notices, which are worth a line in a log.
    pub listener: Option<Listener>,
    /// Where the addresses of Services come from.
    pub service_range: ServiceRange,
    /// What kubeconfigs call the cluster, its user and its context. Nothing: `settled`, and the user by its own name.
    pub name: Option<String>,
    /// Another clock than the machine's for the times in objects that requests write, for tests whose time does not pass by itself.
    /// With it, a write is done before anything else is: tokio's paused time goes on whenever a task waits for another thread. In a thread that
    /// has entered a [`settled_aside::Thread`], other tasks run while that does parts of the write, in an order that is always the same.
    pub clock: Option<Clock>,
    /// What UIDs, generated names and allocated ports follow from, for tests that repeat them. Nothing: they are random.
    pub seed: Option<u64>,
    /// How many bytes of changes are kept for watches that begin in the past: 64 MB, unless something else is said.
    pub history_bytes: Option<usize>,
}

/// A running server. Copies are the same one; it stops when the last is dropped or [`Server::stop`] is called.
///
/// Dropping is for tests: everything that runs beside the requests ends, the port is free again, the data are closed, and
/// nobody waits for requests that still run. [`Server::stopped`] does.
#[derive(Clone)]
pub struct Server(Arc<Running>);

struct Running {
    api: Arc<Api>,
    certificates: Arc<Certificates>,
    config: Config,
    /// Keeps other servers away from the data directory.
    lock: Mutex<Option<DirectoryLock>>,
    /// Where it listens, for the objects about itself.
    address: watch::Sender<Option<SocketAddr>>,
    facts: own_objects::Facts,
    /// Where it listens if it was asked for its URL.
    loopback: OnceCell<SocketAddr>,
    /// There is a handle as long as this exists.
    handles: watch::Sender<()>,
    _handle: watch::Receiver<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.api.state.lifecycle.stopping.send_replace(true);
        self.close();
    }
}

impl Running {
    fn close(&self) {
        self.api.state.store.close();
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A kubeconfig on disk that only its owner may read. Dropped, it is removed.
#[derive(Debug)]
pub struct KubeconfigFile(PathBuf);

impl KubeconfigFile {
    /// Where it is: for `KUBECONFIG`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl AsRef<std::ffi::OsStr> for KubeconfigFile {
    fn as_ref(&self) -> &std::ffi::OsStr {
        self.0.as_os_str()
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        // It may have been removed already.
        let _best_effort = std::fs::remove_file(&self.0);
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data cannot be read.
    #[error("cannot open the data directory")]
    Store(#[from] BackendError),
    /// The server can't listen there.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The certificates cannot be made or read.
    #[error("cannot use the certificates")]
    Certificates(#[from] CertificateError),
    /// What the server brings cannot be written.
    #[error("cannot write the initial objects")]
    Bootstrap(#[from] ApiError),
    /// A client does not accept the kubeconfig.
    #[error("cannot use the kubeconfig")]
    Kubeconfig(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Writes the administrator's kubeconfig unless it is there already. On a full disk it takes the place of the old one byte by byte: a
/// server that starts is the way to free space.
fn keep_kubeconfig(path: &Path, content: &[u8]) -> Result<(), CertificateError> {
    use std::io::Write as _;

    let Err(error) = write_private(path, content) else { return Ok(()) };
    let full = matches!(&error, CertificateError::File { source, .. } if source.kind() == io::ErrorKind::StorageFull);
    let replace = || -> io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
        file.write_all(content)?;
        file.set_len(u64::try_from(content.len()).unwrap_or(u64::MAX))
    };
    if full && replace().is_ok() { Ok(()) } else { Err(error) }
}

/// How long a client may take to greet, or to answer a ping.
const GREETING: Duration = Duration::from_secs(30);
/// Time for running requests after the shutdown has begun.
const DRAIN: Duration = Duration::from_secs(10);

/// How long Events stay.
const EVENT_TTL: Duration = Duration::from_secs(60 * 60);

/// From where a [fork](Server::fork) goes on, and how.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Fork {
    /// After which write. Nothing: the last one.
    pub revision: Option<u64>,
    /// Which built-in controllers run. Nothing: those of the server.
    pub controllers: Option<Controllers>,
    /// See [`Config::clock`].
    pub clock: Option<Clock>,
    /// See [`Config::seed`].
    pub seed: Option<u64>,
}

fn store_options(config: &Config) -> Options {
    let mut options = Options::default();
    // A time of its own does not pass while a write is under way.
    options.in_place = config.clock.is_some();
    if let Some(bytes) = config.history_bytes {
        options.limits.history_bytes = bytes;
    }
    options
}

/// What answers requests.
fn api(config: &Config, store: Store, catalog: Catalog, lifecycle: Lifecycle) -> Result<Arc<Api>, ApiError> {
    let mut tokens = config.tokens.clone();
    if tokens.audiences().is_empty() {
        tokens = tokens.for_audiences(vec![AUDIENCE.to_owned()]);
    }
    let workers = if config.clock.is_some() { Workers::None } else { Workers::new() };
    let state = Arc::new(State::new(
        store,
        stored_as("", "namespaces").map_err(ApiError::internal)?,
        tokens,
        lifecycle,
        config.clock.clone(),
        config.service_range.clone(),
        Random::new(config.seed),
    ));
    state.change_catalog(|served| *served = catalog);
    Ok(Arc::new(Api::new(state, &config.limits, workers)))
}

impl Server {
    /// Starts a server for a test: in memory, listening nowhere. Two of them know nothing of each other.
    ///
    /// # Errors
    /// Certificates cannot be made.
    pub async fn in_memory() -> Result<Self, StartError> {
        Self::start(Config::default()).await
    }

    /// Starts a server. It listens nowhere yet.
    ///
    /// # Errors
    /// The data cannot be opened, or the objects that every cluster has cannot be written.
    pub fn start(config: Config) -> Pin<Box<dyn Future<Output = Result<Self, StartError>> + Send>> {
        // Boxed, so that the server is compiled here, and not again in each program.
        Box::pin(Self::started(config))
    }

    async fn started(config: Config) -> Result<Self, StartError> {
        let key = |error: settled_store::KeyError| ApiError::internal(error);
        let lifecycle = Lifecycle::new(config.feature_gates.clone(), config.listener.clone());
        let lock = match &config.data_dir {
            Some(path) => {
                let lock = DirectoryLock::new(path)?;
                for notice in directory::tighten(path) {
                    lifecycle.notices.emit(&notice);
                }
                Some(lock)
            }
            None => None,
        };
        // Beside what follows: both wait for the disk again and again.
        let (directory, options) = (config.data_dir.clone(), config.certificates.clone());
        let certificates = tokio::task::spawn_blocking(move || match directory {
            Some(directory) => Certificates::in_directory(&directory.join("pki"), &options),
            None => Certificates::in_memory(&options),
        });
        let options = store_options(&config);
        let store = match config.data_dir.as_ref().filter(|_| !config.memory) {
            Some(directory) => {
                let disk = Disk::open(&directory.join("store"), config.durability)?;
                Store::open(Box::new(disk), options)?
            }
            None => Store::memory(options),
        };
        let mut catalog = Catalog::default();
        for row in builtin::kinds() {
            catalog.insert(Arc::new(Definition::builtin(row).map_err(key)?));
        }
        lifecycle.notices.opened(store.queue_stats().dropped);
        let api = api(&config, store, catalog, lifecycle)?;
        let state = &api.state;
        let health = &api.nonresource.health;
        health.begin("crd-informer-synced");
        health.begin("start-system-namespaces-controller");
        crds::load(state)?;
        health.finish("crd-informer-synced");
        bootstrap::write(state).await?;
        if config.controllers.has(Controller::Roles) {
            controllers::aggregate(state).await?;
        }
        let certificates = certificates.await.map_err(ApiError::internal)??;
        if config.controllers.has(Controller::Accounts) {
            state.admission.require_accounts();
            controllers::begin_accounts(state, certificates.trusted_pem()).await?;
        }
        let server = Self::with_parts(api, Arc::new(certificates), config, lock);
        let Running { api, facts, .. } = &*server.0;
        // A full disk must not keep the server from starting: they are tried again.
        let _tried_again = own_objects::ensure(&api.state, facts).await;
        api.nonresource.health.finish("start-system-namespaces-controller");
        server.start_controllers();
        Ok(server)
    }

    /// A server in whose store everything is that a server begins with.
    fn with_parts(
        api: Arc<Api>,
        certificates: Arc<Certificates>,
        config: Config,
        lock: Option<DirectoryLock>,
    ) -> Self {
        let address = watch::Sender::default();
        let facts =
            own_objects::Facts { client_ca: certificates.client_ca_pem(), address: address.subscribe() };
        let (handles, _handle) = watch::channel(());
        let (lock, loopback) = (Mutex::new(lock), OnceCell::new());
        let running = Running { api, certificates, config, lock, loopback, address, facts, handles, _handle };
        Self(Arc::new(running))
    }

    /// Starts what runs beside the requests.
    fn start_controllers(&self) {
        let Running { api, certificates, config, facts, .. } = &*self.0;
        let state = &api.state;
        let settings = controllers::Settings {
            controllers: config.controllers,
            event_ttl: config.event_ttl.unwrap_or(EVENT_TTL),
            ca: certificates.trusted_pem().to_owned(),
        };
        controllers::start(state, settings);
        state.lifecycle.spawn(own_objects::run(state.clone(), facts.clone()));
        // Before anybody can write: what is written later is reported then.
        unenforced::report_all(state);
        state.lifecycle.spawn(crds::run(state.clone()));
        state.lifecycle.spawn(notices::run(state.clone()));
    }

    /// A server that goes on from the objects of this one, on its own, as if this one had been killed after a write and had started
    /// again: in memory, with the same certificates, and with a clock and a seed of its own.
    ///
    /// Objects, certificates and built-in kinds are shared, and nothing is written at its start. Both are in memory from then on, and none knows of the other.
    ///
    /// # Errors
    /// The revision is no longer known, or not yet.
    pub fn fork(&self, fork: Fork) -> Result<Self, StartError> {
        let Running { api: origin, certificates, config, .. } = &*self.0;
        let state = &origin.state;
        let config = Config {
            data_dir: None,
            controllers: fork.controllers.unwrap_or(config.controllers),
            clock: fork.clock,
            seed: fork.seed,
            ..config.clone()
        };
        let at = fork.revision.map_or(At::Latest, |revision| At::Exactly(Revision(revision)));
        let store = state.store.fork(at, store_options(&config)).map_err(ApiError::internal)?;
        let lifecycle = Lifecycle::new(config.feature_gates.clone(), config.listener.clone());
        let api = api(&config, store, state.catalog().builtin(), lifecycle)?;
        crds::load(&api.state)?;
        if fork.revision.is_none_or(|revision| state.identity.is_unchanged_since(Revision(revision))) {
            api.state.identity.adopt(&state.identity.rbac());
        }
        if config.controllers.has(Controller::Accounts) {
            api.state.admission.require_accounts();
        }
        let server = Self::with_parts(api, certificates.clone(), config, None);
        server.start_controllers();
        Ok(server)
    }

    /// Where the logs of containers come from, for what plays containers on this server: `pods/log`. Without it, there are none. Only
    /// the first one counts.
    pub fn set_pod_logs(&self, logs: PodLogs) {
        let _first = self.0.api.state.pod_logs.set(logs);
    }

    /// The revision of the last write: that of the newest `resourceVersion`.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.0.api.state.store.current_revision().0
    }

    /// All that was written after a revision, by whomever, in order. The server remembers its last writes for some minutes.
    ///
    /// # Errors
    /// The revision is no longer known: `Expired`.
    pub fn changes_after(&self, revision: u64) -> Result<Vec<Change>, ApiError> {
        let state = &self.0.api.state;
        let events = state.store.events_after(Revision(revision));
        let events = events.map_err(|error| ApiError::expired(error.to_string()))?;
        let catalog = state.catalog();
        Ok(events.iter().map(|event| Change::of(event, &catalog)).collect())
    }

    /// Calls `each` for each write after a revision. Objects are not read: for counting.
    ///
    /// # Errors
    /// The revision is no longer known: `Expired`.
    pub fn each_write_after(&self, revision: u64, mut each: impl FnMut(&Write<'_>)) -> Result<(), ApiError> {
        let events = self.0.api.state.store.events_after(Revision(revision));
        for event in events.map_err(|error| ApiError::expired(error.to_string()))? {
            each(&Write::of(&event));
        }
        Ok(())
    }

    /// Answers a request as if it came through a socket with a client certificate of this user; `None`: without one.
    pub async fn call<B>(&self, user: Option<User>, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = bytes::Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.0.api.handle(user, request).await
    }

    /// Listens on an address, with TLS, until the server stops. Gives the address, with the port that was free if none was
    /// named. A server with a data directory writes `admin.kubeconfig` there.
    ///
    /// # Errors
    /// The address cannot be had, or the file cannot be written.
    pub fn listen(
        &self,
        address: SocketAddr,
    ) -> Pin<Box<dyn Future<Output = Result<SocketAddr, StartError>> + Send + '_>> {
        Box::pin(self.listening(address))
    }

    async fn listening(&self, address: SocketAddr) -> Result<SocketAddr, StartError> {
        let failed = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        let acceptor = TlsAcceptor::from(self.0.certificates.server_config()?);
        if let Some(directory) = &self.0.config.data_dir {
            let kubeconfig = self.admin_kubeconfig(&format!("https://{local}"));
            keep_kubeconfig(&directory.join("admin.kubeconfig"), kubeconfig.as_bytes())?;
        }
        tracing::info!(address = local.to_string(), "listening");
        self.0.address.send_replace(Some(local));
        // What fails is tried again, beside the requests.
        let _tried_again = own_objects::ensure(&self.0.api.state, &self.0.facts).await;
        self.0.api.state.lifecycle.spawn(accept(self.0.api.clone(), listener, acceptor));
        Ok(local)
    }

    /// Also serves the connections of a listener of one's own, such as for an address that the machine gets later. Kubeconfigs do not name it; the
    /// certificate does if it is one of `CertificateOptions::names`.
    ///
    /// # Errors
    /// The listener cannot be used.
    pub fn listen_on(&self, listener: std::net::TcpListener) -> Result<(), StartError> {
        let address = listener.local_addr().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, 0).into());
        let failed = |source| StartError::Listen { address, source };
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        let acceptor = TlsAcceptor::from(self.0.certificates.server_config()?);
        tracing::info!(address = address.to_string(), "listening");
        self.0.api.state.lifecycle.spawn(accept(self.0.api.clone(), listener, acceptor));
        Ok(())
    }

    /// The URL of the server on a loopback port that was free: it listens there from the first call on.
    ///
    /// With [`Server::admin_kubeconfig`] and [`Server::kubeconfig`], any client in any language gets there.
    ///
    /// # Errors
    /// No port can be had.
    pub async fn url(&self) -> Result<String, StartError> {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let address = self.0.loopback.get_or_try_init(|| self.listen(free)).await?;
        Ok(format!("https://{address}"))
    }

    /// A file for `KUBECONFIG`, for the administrator at [`Server::url`]; kept for as long as what is returned.
    ///
    /// # Errors
    /// No port can be had, or the file cannot be written.
    pub async fn kubeconfig_file(&self) -> Result<KubeconfigFile, StartError> {
        let kubeconfig = self.admin_kubeconfig(&self.url().await?);
        let path = std::env::temp_dir().join(format!("settled-{}.kubeconfig", uuid::Uuid::new_v4()));
        write_private(&path, kubeconfig.as_bytes())?;
        Ok(KubeconfigFile(path))
    }

    /// The authority that signed what the server shows, as PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.0.certificates.trusted_pem()
    }

    /// A kubeconfig for the administrator of the server at this URL.
    #[must_use]
    pub fn admin_kubeconfig(&self, url: &str) -> String {
        match &self.0.config.name {
            Some(name) => self.0.certificates.admin_kubeconfig_of(url, name),
            None => self.0.certificates.admin_kubeconfig(url),
        }
    }

    /// A kubeconfig for any user: a client certificate is signed for it.
    ///
    /// # Errors
    /// The certificate cannot be made.
    pub fn kubeconfig(&self, url: &str, user: &User) -> Result<String, CertificateError> {
        self.0.certificates.kubeconfig(url, user)
    }

    /// Shuts down: watches end, no new connections are accepted, running requests are answered, the data are closed. Returns when all of that
    /// is done, or after 10 seconds.
    pub async fn stopped(&self) {
        self.stop();
        let in_time = tokio::time::timeout(DRAIN, self.0.api.state.lifecycle.running.closed()).await;
        self.0.close();
        tracing::info!(drained = in_time.is_ok(), "stopped");
    }

    /// Completes once the last handle is dropped and all tasks have ended: nothing of the server is left then. It keeps the server
    /// running no longer than others do.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let (handles, running) = (self.0.handles.clone(), self.0.api.state.lifecycle.running.clone());
        async move {
            handles.closed().await;
            running.closed().await;
        }
    }

    /// Begins the shutdown of [`Server::stopped`] without waiting for it.
    pub fn stop(&self) {
        self.0.api.state.lifecycle.stopping.send_replace(true);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

async fn accept(api: Arc<Api>, listener: TcpListener, tls: TlsAcceptor) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _best_effort = stream.set_nodelay(true);
                // Counted from here on: a waiter for the end does not miss it.
                let open = api.state.lifecycle.running.subscribe();
                tokio::spawn(connect(api.clone(), stream, tls.clone(), open));
            }
            // Too many open files, for instance: others may be closed soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Greets a connection, then serves it.
async fn connect(api: Arc<Api>, stream: TcpStream, tls: TlsAcceptor, open: watch::Receiver<()>) {
    let _open = open;
    // Clients that do not complete the handshake in time are dropped.
    let mut stopping = api.state.lifecycle.stopping.subscribe();
    let greeting = tokio::select! {
        greeting = tokio::time::timeout(GREETING, tls.accept(stream)) => greeting,
        _ = stopping.wait_for(|stopping| *stopping) => return,
    };
    let stream = match greeting {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(error = error.to_string(), "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake timed out"),
    };
    let (_, session) = stream.get_ref();
    let h2 = session.alpn_protocol() == Some(b"h2");
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let user = match certificate.map(|certificate| user_of(certificate)) {
        None => None,
        Some(Ok(user)) => user,
        Some(Err(error)) => {
            return tracing::debug!(error = error.to_string(), "the certificate names no user");
        }
    };
    serve(api, stream, user, h2).await;
}

async fn serve(
    api: Arc<Api>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    user: Option<User>,
    h2: bool,
) {
    let mut stopping = api.state.lifecycle.stopping.subscribe();
    let asked = Arc::new(AtomicBool::new(false));
    let silent = {
        let asked = asked.clone();
        async move {
            tokio::time::sleep(GREETING).await;
            if asked.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        }
    };
    // Every answer that is under way holds a copy.
    let answers = Arc::new(Connection::new(h2));
    let under_way = answers.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        let (api, user, answer) = (api.clone(), user.clone(), under_way.clone());
        // hyper and tokio move it several times on the way into its task.
        Box::pin(async move {
            let mut response = api.handle(user, request).await;
            response.body_mut().holds(answer);
            Ok::<_, std::convert::Infallible>(response)
        })
    });
    // HTTP/2 is what was agreed on in the greeting, as upstream: the first bytes, from which it could be guessed, may never come.
    let builder = Builder::new(TokioExecutor::new());
    let mut builder = if h2 { builder.http2_only() } else { builder.http1_only() };
    builder.http1().timer(TokioTimer::new()).header_read_timeout(GREETING).max_buf_size(64 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(GREETING))
        .max_concurrent_streams(1000)
        .max_header_list_size(64 * 1024);
    let stream = Gather::new(stream);
    let connection = builder.serve_connection(TokioIo::new(stream.clone()), service);
    let mut connection = std::pin::pin!(connection);
    // One copy is here, one is the service's.
    let busy = || Arc::strong_count(&answers) > 3;
    // What a client does wrong ends its connection and nobody else's.
    tokio::select! {
        _ = stream.run(connection.as_mut(), busy) => return,
        // Nor is a client that connects and sends no request.
        () = silent => return,
        // Nor is a client that stops reading a list.
        () = answers.stalled() => return,
        _ = stopping.wait_for(|stopping| *stopping) => connection.as_mut().graceful_shutdown(),
    }
    let _ended = tokio::time::timeout(DRAIN, stream.run(connection, busy)).await;
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;
    use crate::state::identity::RBAC_GROUP;

    const SECOND: Duration = Duration::from_secs(1);
    const LIST: &[u8] = b"GET /api/v1/configmaps HTTP/1.1\r\nhost: a\r\n\r\n";

    /// A server with 4 MB of ConfigMaps, which one user may list, and its clock stands still.
    async fn start() -> (Server, User) {
        let clock: Option<Clock> = Some(Arc::new(jiff::Timestamp::now));
        let config = Config { controllers: Controllers::none(), clock, ..Config::default() };
        let server = Server::start(config).await.unwrap();
        let rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        let binding = json!({
            "metadata": {"name": "reader"}, "subjects": [{"kind": "User", "name": "reader", "apiGroup": RBAC_GROUP}],
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        });
        let map =
            |name: usize| json!({"metadata": {"name": name.to_string()}, "data": {"a": "x".repeat(100_000)}});
        let maps = (0..40).map(|name| ("/api/v1/namespaces/default/configmaps", map(name)));
        for (path, object) in std::iter::once((rbac, binding)).chain(maps) {
            let body = Full::new(bytes::Bytes::from(object.to_string()));
            let request = Request::post(path).header("content-type", "application/json").body(body).unwrap();
            assert_eq!(server.call(Some(User::admin()), request).await.status(), 201);
        }
        (server, User::new("reader", [""; 0]))
    }

    /// Asks for the list on an HTTP/1.1 connection.
    async fn ask(server: &Server, user: &User) -> DuplexStream {
        let (mut client, stream) = tokio::io::duplex(64 * 1024);
        tokio::spawn(serve(server.0.api.clone(), stream, Some(user.clone()), false));
        client.write_all(LIST).await.unwrap();
        client
    }

    /// Reads until the end, or until the bytes of a whole list are there.
    async fn read(client: &mut DuplexStream, pause: Duration) -> usize {
        let (mut bytes, mut part) = (0, vec![0; 64 * 1024]);
        while bytes < 4_000_000 {
            match client.read(&mut part).await {
                Ok(0) | Err(_) => break,
                Ok(read) => bytes += read,
            }
            tokio::time::sleep(pause).await;
        }
        bytes
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_a_list_is_disconnected() {
        let (server, user) = start().await;
        let mut slow = ask(&server, &user).await;
        assert!(read(&mut slow, 5 * SECOND).await >= 4_000_000, "slow readers get all of it");
        let mut stalled = ask(&server, &user).await;
        tokio::time::sleep(120 * SECOND).await;
        let bytes = read(&mut stalled, Duration::ZERO).await;
        assert!(bytes > 0 && bytes < 1_000_000, "{bytes} bytes came after the connection was closed");
    }
}
