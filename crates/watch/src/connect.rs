//! Kubeconfigs: from files and options to a client.
//!
//! kube-client reads the kubeconfig, knows all ways to show who one is, and its layers go on every request. Below them is a
//! connection of our own: over HTTP/2 all watches share one, and one that is dead is noticed by its silence.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube_client::client::{Body, ConfigExt as _};
use kube_client::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube_client::{Client, Config};
use tower::{BoxError, ServiceBuilder};

use crate::cluster::Cluster;
use crate::error::{ErrorMessage, innermost};
use crate::proxy;

/// Bytes of a response that may be on their way: 50 MB/s of a list at a round trip of 20 ms.
const RECEIVE_WINDOW: u32 = 1 << 20;

/// Which cluster, and as whom.
#[derive(Clone, Debug, Default)]
pub struct KubeconfigOptions {
    /// The kubeconfig, instead of `$KUBECONFIG` or the one in the user's home, or that of the Pod.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it, instead of its current one.
    pub context: Option<String>,
    /// The cluster in it, instead of the context's.
    pub cluster: Option<String>,
    /// The user in it, instead of the context's.
    pub user: Option<String>,
    /// Whom to act as.
    pub impersonate: Option<String>,
    /// The groups of whom to act as.
    pub impersonate_groups: Vec<String>,
    /// The UID of whom to act as.
    pub impersonate_uid: Option<String>,
    /// The server's URL, instead of the kubeconfig's.
    pub server: Option<String>,
    /// The name that the server's certificate must have, instead of the host of its URL.
    pub tls_server_name: Option<String>,
    /// Certificates of authorities (PEM) that the server's certificate may be signed by, instead of the kubeconfig's.
    pub certificate_authority: Option<PathBuf>,
    /// Accept any certificate of the server.
    pub insecure_skip_tls_verify: bool,
    /// A client certificate (PEM), instead of the kubeconfig's credentials.
    pub client_certificate: Option<PathBuf>,
    /// The key of the client certificate (PEM).
    pub client_key: Option<PathBuf>,
    /// A bearer token, instead of the kubeconfig's credentials.
    pub token: Option<Token>,
    /// Credential plugins get no terminal: no input, and nowhere to print messages. One that demands a terminal fails.
    pub non_interactive: bool,
    /// Bytes of a response that may be on their way or unread, instead of 1 MiB (HTTP/2's initial window of a stream). Fewer save
    /// memory, and limit the throughput over long distances to so many bytes in each round trip.
    pub receive_window: Option<u32>,
}

/// What the entries of a kubeconfig are called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeconfigNames {
    /// Contexts.
    pub contexts: Vec<String>,
    /// Clusters.
    pub clusters: Vec<String>,
    /// Users.
    pub users: Vec<String>,
}

/// A bearer token. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token as it goes into the `Authorization` header.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }
}

impl std::str::FromStr for Token {
    type Err = std::convert::Infallible;

    fn from_str(token: &str) -> Result<Self, Self::Err> {
        Ok(Self::new(token))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no kubeconfig, or it cannot be read.
    #[error(transparent)]
    Config(ErrorMessage),
    /// It asks for something that cannot be done.
    #[error("cannot use the kubeconfig: {0}")]
    Client(#[source] ErrorMessage),
    /// The plugin for credentials fails.
    #[error("{0}")]
    Exec(String),
}

fn config_error(text: String) -> ConnectError {
    ConnectError::Config(text.into())
}

impl KubeconfigOptions {
    /// The configuration that this comes to.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub async fn config(&self) -> Result<Config, ConnectError> {
        let wrong =
            |error: KubeconfigError| ConnectError::Config(ErrorMessage::new(innermost(&error), error));
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let asked = self.context.is_some() || self.cluster.is_some() || self.user.is_some();
        let file = self.kubeconfig()?;
        let proxy = file.as_ref().and_then(|file| self.proxy_url(file));
        let mut config = match file {
            Some(file) => match Config::from_custom_kubeconfig(file, &options).await {
                Ok(config) => config,
                Err(error) if asked || self.kubeconfig.is_some() => return Err(wrong(error)),
                // As with kubectl, an empty one is none.
                Err(error) => self.without_kubeconfig().map_err(|_| wrong(error))?,
            },
            None => self.without_kubeconfig()?,
        };
        self.override_server(&mut config)?;
        self.override_credentials(&mut config)?;
        // As with client-go, that of the kubeconfig is used whatever the environment says.
        let proxy = match proxy {
            Some(proxy) => proxy::parse(&proxy).map(Some),
            None => proxy::Environment::of_process().proxy_for(&config.cluster_url),
        };
        config.proxy_url = proxy.map_err(|text| ConnectError::Client(text.into()))?;
        Ok(config)
    }

    /// The `proxy-url` of the cluster that is meant.
    fn proxy_url(&self, file: &Kubeconfig) -> Option<String> {
        let context = self.context.as_ref().or(file.current_context.as_ref())?;
        let context = file.contexts.iter().find(|known| known.name == *context)?.context.as_ref()?;
        let cluster = self.cluster.as_ref().unwrap_or(&context.cluster);
        let cluster = file.clusters.iter().find(|known| known.name == *cluster)?.cluster.as_ref()?;
        cluster.proxy_url.clone().filter(|url| !url.is_empty())
    }

    /// The names in the kubeconfig; none where there is no kubeconfig.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn kubeconfig_names(&self) -> Result<KubeconfigNames, ConnectError> {
        let any = Self { kubeconfig: self.kubeconfig.clone(), ..Self::default() };
        let Some(file) = any.kubeconfig()? else { return Ok(KubeconfigNames::default()) };
        Ok(KubeconfigNames {
            contexts: file.contexts.into_iter().map(|context| context.name).collect(),
            clusters: file.clusters.into_iter().map(|cluster| cluster.name).collect(),
            users: file.auth_infos.into_iter().map(|user| user.name).collect(),
        })
    }

    /// The kubeconfig, if there is one, with the context that is asked for.
    fn kubeconfig(&self) -> Result<Option<Kubeconfig>, ConnectError> {
        let places = match &self.kubeconfig {
            Some(path) => vec![path.clone()],
            None => kubeconfig_paths(),
        };
        let names: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        let names = names.join(", ");
        if !places.iter().any(|path| path.exists()) {
            return match (&self.kubeconfig, &self.context) {
                (None, None) if self.cluster.is_none() && self.user.is_none() => Ok(None),
                _ => Err(config_error(format!("no kubeconfig at {names}"))),
            };
        }
        places.iter().try_for_each(|path| limited(path))?;
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let wrong =
            |error: KubeconfigError| ConnectError::Config(ErrorMessage::new(innermost(&error), error));
        let file = read.map_err(wrong)?;
        let clusters = file.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref());
        let users = file.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
        let files = clusters
            .map(|cluster| &cluster.certificate_authority)
            .chain(users.flat_map(|user| [&user.client_certificate, &user.client_key, &user.token_file]));
        files.flatten().try_for_each(|path| limited(Path::new(path)))?;
        if let Some(context) = &self.context
            && !file.contexts.iter().any(|known| known.name == *context)
        {
            let known: Vec<&str> = file.contexts.iter().map(|context| &*context.name).collect();
            let known = if known.is_empty() {
                "there are none".to_owned()
            } else {
                format!("there are: {}", known.join(", "))
            };
            return Err(config_error(format!("no context \"{context}\" in {names}; {known}")));
        }
        Ok(Some(file))
    }

    /// Where there is no kubeconfig: as a Pod of a cluster, or with what the options say.
    fn without_kubeconfig(&self) -> Result<Config, ConnectError> {
        match (Config::incluster(), &self.server) {
            (Ok(config), _) => Ok(config),
            // As with kubectl, a server and credentials are enough where there is no kubeconfig.
            (Err(_), Some(server)) => Ok(Config::new(server_url(server)?)),
            (Err(_), None) => {
                let names: Vec<String> =
                    kubeconfig_paths().iter().map(|path| path.display().to_string()).collect();
                let names = names.join(", ");
                Err(config_error(format!("no kubeconfig at {names} (and not running inside a cluster)")))
            }
        }
    }

    fn override_server(&self, config: &mut Config) -> Result<(), ConnectError> {
        if let Some(server) = &self.server {
            config.cluster_url = server_url(server)?;
        }
        if self.tls_server_name.is_some() {
            config.tls_server_name.clone_from(&self.tls_server_name);
        }
        if let Some(path) = &self.certificate_authority {
            readable("--certificate-authority", path)?;
            // The list must not be the system's; the file is read when the client is made, and again when it changes.
            config.root_cert = Some(Vec::new());
            config.root_cert_file = Some(path.clone());
        }
        config.accept_invalid_certs |= self.insecure_skip_tls_verify;
        if self.insecure_skip_tls_verify {
            config.root_cert = None;
            config.root_cert_file = None;
        } else if self.certificate_authority.is_some() {
            config.accept_invalid_certs = false;
        }
        Ok(())
    }

    fn override_credentials(&self, config: &mut Config) -> Result<(), ConnectError> {
        let credentials = &mut config.auth_info;
        if let Some(path) = &self.client_certificate {
            readable("--client-certificate", path)?;
            credentials.client_certificate = Some(path.to_string_lossy().into_owned());
            credentials.client_certificate_data = None;
        }
        if let Some(path) = &self.client_key {
            readable("--client-key", path)?;
            credentials.client_key = Some(path.to_string_lossy().into_owned());
            credentials.client_key_data = None;
        }
        if let Some(Token(token)) = &self.token {
            credentials.token = Some(token.clone().into());
        }
        if self.token.is_some() || self.client_certificate.is_some() {
            // What is named on the command line replaces whatever else would show who one is.
            credentials.exec = None;
            credentials.auth_provider = None;
            credentials.token_file = None;
            credentials.username = None;
            credentials.password = None;
            if self.token.is_none() {
                credentials.token = None;
            }
        }
        if self.impersonate.is_some() {
            credentials.impersonate.clone_from(&self.impersonate);
        }
        if !self.impersonate_groups.is_empty() {
            credentials.impersonate_groups = Some(self.impersonate_groups.clone());
        }
        if self.impersonate_uid.is_some() {
            credentials.impersonate_uid.clone_from(&self.impersonate_uid);
        }
        Ok(())
    }

    /// A cluster to ask. Nothing is sent yet. Credentials that are refused later are read anew.
    ///
    /// # Errors
    /// There is no configuration, or it cannot be used.
    pub async fn connect(&self) -> Result<Cluster, ConnectError> {
        let (client, server) = self.client().await?;
        let again = self.clone();
        let reconnect = move || {
            let again = again.clone();
            let anew = async move { again.client().await.ok().map(|(client, _)| client) };
            Box::pin(anew) as futures::future::BoxFuture<'static, Option<Client>>
        };
        Ok(Cluster::with(client, Some(Box::new(reconnect)), None).named(Some(server)))
    }

    /// A client, and the server's URL. Dropping the future stops plugins, too.
    async fn client(&self) -> Result<(Client, String), ConnectError> {
        let access = self.clone();
        let handle = tokio::runtime::Handle::current();
        // Files may be on a disk that does not answer.
        let reading = tokio::task::spawn_blocking(move || handle.block_on(access.config()));
        let mut config = reading.await.map_err(|error| config_error(error.to_string()))??;
        crate::exec::fill(&mut config.auth_info, !self.non_interactive).await.map_err(ConnectError::Exec)?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let window = self.receive_window.unwrap_or(RECEIVE_WINDOW);
        let making = tokio::task::spawn_blocking(move || client_with(&config, window));
        let client = making.await.map_err(|error| ConnectError::Client(error.to_string().into()))??;
        Ok((client, server))
    }
}

fn server_url(server: &str) -> Result<http::Uri, ConnectError> {
    // As kubectl, which takes a host and port for HTTP.
    let url = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let parsed: http::Uri =
        url.parse().map_err(|error| config_error(format!("--server {server} is no URL: {error}")))?;
    match parsed.scheme_str() {
        Some("http" | "https") if parsed.host().is_some() => Ok(parsed),
        _ => Err(config_error(format!("--server {server} is no URL: use https://HOST:PORT"))),
    }
}

/// Where kubectl looks for a kubeconfig. One that is there and broken must not be passed over.
fn kubeconfig_paths() -> Vec<PathBuf> {
    match std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty()) {
        Some(paths) => std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect(),
        None => std::env::home_dir().into_iter().map(|home| home.join(".kube/config")).collect(),
    }
}

/// Refuses a file that could fill all memory: kube-client reads files to their end. One that is missing is for it to say.
fn limited(path: &Path) -> Result<(), ConnectError> {
    const FILE_MAX: u64 = 16 << 20;
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    let wrong = |what: &str| Err(config_error(format!("cannot read {}: it {what}", path.display())));
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = metadata.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            return wrong("is a device");
        }
    }
    if metadata.len() > FILE_MAX { wrong("is larger than 16 MiB") } else { Ok(()) }
}

/// Opens a file that an option names, so that the error names the option.
fn readable(option: &str, path: &Path) -> Result<(), ConnectError> {
    limited(path)?;
    match std::fs::File::open(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(config_error(format!("cannot read {option} {}: {error}", path.display()))),
    }
}

/// The same URL with the port of plain HTTP: hyper-util asks proxies for 443 where none is named.
fn with_port(url: http::Uri) -> http::Uri {
    let Some(host) = url.host().filter(|_| url.port().is_none() && url.scheme_str() == Some("http")) else {
        return url;
    };
    let authority = format!("{host}:80");
    let mut parts = url.clone().into_parts();
    parts.authority = authority.parse().ok();
    http::Uri::from_parts(parts).unwrap_or(url)
}

/// A client for a configuration: HTTP/2 where the server speaks it, HTTP/1.1 where it doesn't. Through proxies it is
/// kube-client's own, which is HTTP/1.1.
///
/// # Errors
/// The configuration cannot be used.
pub fn client(config: &Config) -> Result<Client, ConnectError> {
    client_with(config, RECEIVE_WINDOW)
}

/// The same with a window for each response.
fn client_with(config: &Config, receive_window: u32) -> Result<Client, ConnectError> {
    let wrong = |error: kube_client::Error| ConnectError::Client(ErrorMessage::new(innermost(&error), error));
    if config.proxy_url.is_some() {
        let mut config = config.clone();
        config.cluster_url = with_port(config.cluster_url);
        return Client::try_from(config).map_err(wrong);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(config.connect_timeout.or(Some(Duration::from_secs(10))));
    tcp.set_keepalive(Some(Duration::from_secs(30)));
    let tls = config.rustls_client_config().map_err(wrong)?;
    let mut builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name
            .clone()
            .try_into()
            .map_err(|error| ConnectError::Client(format!("tls-server-name {name}: {error}").into()))?;
        builder = builder.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name));
    }
    let connector = builder.enable_all_versions().wrap_connector(tcp);
    let client: legacy::Client<_, Body> = legacy::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        // A connection that does not answer a ping is dead, and so are the watches on it.
        .http2_keep_alive_interval(Duration::from_secs(15))
        .http2_keep_alive_timeout(Duration::from_secs(10))
        .http2_keep_alive_while_idle(true)
        // A stream that nobody reads leaves room for others.
        .http2_initial_stream_window_size(receive_window)
        .http2_initial_connection_window_size(receive_window.max(RECEIVE_WINDOW).saturating_mul(4))
        .http2_max_frame_size(64 << 10)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(wrong)?)
        .layer(config.extra_headers_layer().map_err(wrong)?)
        .map_err(BoxError::from)
        .service(client);
    Ok(Client::new(service, config.default_namespace.clone()))
}
