//! TLS: the certificate authority of a server, what it signs, and who its client certificates name.
//!
//! A server makes its own authority when it starts for the first time, and keeps it in a directory:
//!
//! | file | what it is |
//! |---|---|
//! | `ca.crt`, `ca.key` | the authority |
//! | `server.pem` | what the server shows: certificate and key |
//! | `admin.pem` | the administrator's: certificate and key |
//!
//! All keys are ECDSA on P-256: every TLS library knows it, and one is made in a fraction of a millisecond.
//!
//! The authority is good for ten years, as kubeadm's is: a kubeconfig with it should not need a new one. What it signs is
//! good for two years: less than the 825 days beyond which some systems trust no server, and no less than it takes to meet a restart,
//! which renews what has less than half of its time left.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SigningKey as _,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::User;
pub use super::x509::{InvalidCertificate, user_of};
use super::x509::{canonical, certificates_in, header_length, memory_offset, names_of, pem, subject, tagged};

const DAY: u64 = 24 * 60 * 60;
const AUTHORITY_LIFE: u64 = 3_650 * DAY;
const LIFE: u64 = 730 * DAY;
/// Clocks differ: a certificate is good from a bit before it is made.
const LEEWAY: u64 = 60 * 60;
/// Names that the server has anyway: those of loopback, and those by which programs inside of a cluster know it.
const NAMES: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// Seconds since 1970 as rcgen takes them. A macro: the type is that of a crate which is not otherwise needed here.
macro_rules! moment {
    ($seconds:expr) => {
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs($seconds)
    };
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate")]
    Make(#[source] Box<dyn Error + Send + Sync>),
    /// TLS does not accept what it is given.
    #[error("cannot set up TLS")]
    Tls(#[source] Box<dyn Error + Send + Sync>),
}

/// What certificates are wanted.
#[derive(Clone, Debug, Default)]
pub struct CertificateOptions {
    /// More names and addresses by which the server is called.
    pub names: Vec<String>,
    /// A certificate (with those between it and its authority) and its key, in place of the server's own.
    pub serving: Option<(PathBuf, PathBuf)>,
    /// An authority whose client certificates are believed, beside the server's own.
    pub client_ca: Option<PathBuf>,
    /// The time. None: now.
    pub now: Option<SystemTime>,
}

/// What kubeconfigs call the cluster and the context.
const CLUSTER: &str = "settled";

/// The authority of a server, and what it shows.
///
/// ```
/// use settled_apiserver::auth::{Certificates, User};
///
/// let certificates = Certificates::in_memory(&Default::default()).unwrap();
/// let jane = User::new("jane", ["dev", "ops"]);
/// let kubeconfig = certificates.kubeconfig("https://127.0.0.1:6443", &jane).unwrap();
/// assert!(kubeconfig.contains("client-certificate-data"));
/// ```
pub struct Certificates {
    issuer: Issuer<'static, KeyPair>,
    ca_pem: String,
    ca_expires: u64,
    now: u64,
    serving: Pair,
    /// What clients trust: the server's authority, or that of a given certificate as far as its file holds it.
    trusted_pem: String,
    admin: Pair,
    client_cas: Vec<CertificateDer<'static>>,
}

/// A certificate and its key.
#[derive(Clone)]
struct Pair {
    certificate: String,
    key: String,
}

impl Certificates {
    /// Makes an authority that nobody keeps.
    ///
    /// # Errors
    ///
    /// If a given file is not as it should be.
    pub fn in_memory(options: &CertificateOptions) -> Result<Self, CertificateError> {
        let now = seconds(options);
        let key = new_key()?;
        let (ca_pem, ca_expires) = make_authority(&key, now)?;
        Self::new(options, Authority { ca_pem, ca_expires, key }, None)
    }

    /// Takes the authority and its certificates from a directory, and makes what is not there.
    ///
    /// The directory and its files are for their owner only. The certificates of the server and of the administrator are made anew when
    /// they don't fit any more: half their time is over, there are new names, or the authority is another.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written, or the authority is damaged or has expired: only its owner can say whether it may go.
    pub fn in_directory(directory: &Path, options: &CertificateOptions) -> Result<Self, CertificateError> {
        let now = seconds(options);
        private_directory(directory)?;
        let (certificate_path, key_path) = (directory.join("ca.crt"), directory.join("ca.key"));
        let authority = match (read(&certificate_path)?, read(&key_path)?) {
            (Some(certificate), Some(key)) => {
                Authority::load(&certificate_path, certificate, &key_path, &key, now)?
            }
            (Some(_), None) => {
                let what =
                    "the key of ca.crt is missing; put it back, or remove both to start with a new authority";
                return Err(damaged(&key_path, what));
            }
            // A key without a certificate has never signed anything: the first start was cut short.
            (None, _) => {
                let key = new_key()?;
                let (ca_pem, ca_expires) = make_authority(&key, now)?;
                write_private(&key_path, key.serialize_pem().as_bytes())?;
                write_private(&certificate_path, ca_pem.as_bytes())?;
                Authority { ca_pem, ca_expires, key }
            }
        };
        Self::new(options, authority, Some(directory))
    }

    fn new(
        options: &CertificateOptions,
        authority: Authority,
        directory: Option<&Path>,
    ) -> Result<Self, CertificateError> {
        let now = seconds(options);
        let Authority { ca_pem, ca_expires, key } = authority;
        let issuer = Issuer::from_ca_cert_pem(&ca_pem, key).map_err(make_error)?;
        let mut client_cas = certificates_in(&ca_pem).map_err(tls_error)?;
        if let Some(path) = &options.client_ca {
            let pem = read(path)?.ok_or_else(|| missing(path))?;
            client_cas.extend(certificates_in(&pem).map_err(|what| damaged(path, &what.to_string()))?);
        }
        let empty = Pair { certificate: String::new(), key: String::new() };
        let trusted_pem = ca_pem.clone();
        let mut out = Self {
            issuer,
            ca_pem,
            ca_expires,
            now,
            serving: empty.clone(),
            trusted_pem,
            admin: empty,
            client_cas,
        };

        let admin = || out.sign_user(&User::admin());
        out.admin = out.kept(directory.map(|directory| directory.join("admin.pem")), &[], &admin)?;
        match &options.serving {
            Some((certificate, key)) => {
                out.serving = given(certificate, key)?;
                out.trusted_pem = format!("{}{}", out.serving.certificate, out.ca_pem);
            }
            None => {
                let mut names: Vec<String> = NAMES.iter().map(|&name| name.to_owned()).collect();
                names.extend(options.names.iter().filter(|name| !NAMES.contains(&name.as_str())).cloned());
                let server = || out.sign_server(&names);
                out.serving =
                    out.kept(directory.map(|directory| directory.join("server.pem")), &names, &server)?;
            }
        }
        Ok(out)
    }

    /// The authority's certificate, in PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// What a client must trust to call the server, in PEM. It is what `kube-root-ca.crt` holds.
    #[must_use]
    pub fn trusted_pem(&self) -> &str {
        &self.trusted_pem
    }

    /// TLS for the server: HTTP/2 and HTTP/1.1; a client may show a certificate, and must not.
    ///
    /// A certificate from another authority, or one that has expired, ends the handshake.
    ///
    /// # Errors
    ///
    /// If the certificate and the key do not belong together.
    pub fn server_config(&self) -> Result<Arc<rustls::ServerConfig>, CertificateError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for authority in &self.client_cas {
            roots.add(authority.clone()).map_err(tls_error)?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(tls_error)?;
        let chain = certificates_in(&self.serving.certificate).map_err(tls_error)?;
        let key = PrivateKeyDer::from_pem_slice(self.serving.key.as_bytes()).map_err(tls_error)?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(tls_error)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(tls_error)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// A kubeconfig for the [administrator](User::admin).
    #[must_use]
    pub fn admin_kubeconfig(&self, server_url: &str) -> String {
        self.kubeconfig_with(server_url, CLUSTER, &User::admin().name, &Credentials::Certificate(&self.admin))
    }

    /// As [`Certificates::admin_kubeconfig`], with a cluster, a user and a context that are called `name`: the kubeconfigs of
    /// several servers can be merged.
    #[must_use]
    pub fn admin_kubeconfig_of(&self, server_url: &str, name: &str) -> String {
        self.kubeconfig_with(server_url, name, name, &Credentials::Certificate(&self.admin))
    }

    /// Whose client certificates are accepted, in PEM.
    #[must_use]
    pub fn client_ca_pem(&self) -> String {
        self.client_cas.iter().map(|authority| pem("CERTIFICATE", authority)).collect()
    }

    /// A kubeconfig for any user, with a client certificate that is made for it: to act as others in tests.
    ///
    /// The groups go into the certificate as they are, without `system:authenticated`, which everybody gets. What is in `extra` does
    /// not: certificates have no place for it.
    ///
    /// # Errors
    ///
    /// If the certificate cannot be made.
    pub fn kubeconfig(&self, server_url: &str, user: &User) -> Result<String, CertificateError> {
        let pair = self.sign_user(user)?;
        Ok(self.kubeconfig_with(server_url, CLUSTER, &user.name, &Credentials::Certificate(&pair)))
    }

    /// A kubeconfig for the owner of a bearer token.
    #[must_use]
    pub fn token_kubeconfig(&self, server_url: &str, name: &str, token: &str) -> String {
        self.kubeconfig_with(server_url, CLUSTER, name, &Credentials::Token(token))
    }

    fn kubeconfig_with(
        &self,
        server_url: &str,
        cluster: &str,
        user: &str,
        credentials: &Credentials<'_>,
    ) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let credentials = match credentials {
            Credentials::Certificate(pair) => format!(
                "client-certificate-data: {}\n    client-key-data: {}",
                BASE64.encode(&pair.certificate),
                BASE64.encode(&pair.key),
            ),
            Credentials::Token(token) => format!("token: {}", text(token)),
        };
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: {cluster}\n  cluster:\n    server: {server}\n    \
             certificate-authority-data: {authority}\nusers:\n- name: {user}\n  user:\n    {credentials}\ncontexts:\n- name: \
             {cluster}\n  context:\n    cluster: {cluster}\n    user: {user}\ncurrent-context: {cluster}\n",
            cluster = text(cluster),
            server = text(server_url),
            authority = BASE64.encode(&self.trusted_pem),
            user = text(user),
        )
    }

    /// The pair in a file if it still fits, else a new one.
    fn kept(
        &self,
        path: Option<PathBuf>,
        names: &[String],
        make: &dyn Fn() -> Result<Pair, CertificateError>,
    ) -> Result<Pair, CertificateError> {
        let Some(path) = path else { return make() };
        if let Some(pair) = read(&path)?.and_then(|pem| self.fitting(&pem, names)) {
            return Ok(pair);
        }
        let pair = make()?;
        write_private(&path, format!("{}{}", pair.certificate, pair.key).as_bytes())?;
        Ok(pair)
    }

    fn fitting(&self, pem: &str, names: &[String]) -> Option<Pair> {
        let start = pem.find("-----BEGIN PRIVATE KEY-----")?;
        let (certificate, key) = pem.split_at(start);
        let der = certificates_in(certificate).ok()?.into_iter().next()?;
        let (_, parsed) = X509Certificate::from_der(&der).ok()?;
        let authority = certificates_in(&self.ca_pem).ok()?.into_iter().next()?;
        let (_, authority) = X509Certificate::from_der(&authority).ok()?;
        parsed.verify_signature(Some(authority.public_key())).ok()?;
        let expires = u64::try_from(parsed.validity().not_after.timestamp()).ok()?;
        // What ends with the authority cannot be renewed to last longer.
        let long = expires > self.now + LIFE / 2 || expires >= self.ca_expires && expires > self.now;
        // A clock that was ahead has signed what is good later.
        let begun = u64::try_from(parsed.validity().not_before.timestamp()).ok()? <= self.now;
        let known = names_of(&parsed);
        let own = KeyPair::from_pem(key).ok()?.public_key_raw()
            == parsed.public_key().subject_public_key.data.as_ref();
        let pair = || Pair { certificate: certificate.to_owned(), key: key.to_owned() };
        (begun && long && own && names.iter().all(|name| known.contains(&canonical(name)))).then(pair)
    }

    fn sign_server(&self, names: &[String]) -> Result<Pair, CertificateError> {
        let mut params = CertificateParams::new(names).map_err(make_error)?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params, None)
    }

    fn sign_user(&self, user: &User) -> Result<Pair, CertificateError> {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, Some(&subject(user)))
    }

    fn sign(&self, mut params: CertificateParams, subject: Option<&[u8]>) -> Result<Pair, CertificateError> {
        let until = self.ca_expires.min(self.now + LIFE);
        params.not_before = moment!(self.now.saturating_sub(LEEWAY));
        params.not_after = moment!(until);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = new_key()?;
        let made = params.signed_by(&key, &self.issuer).map_err(make_error)?;
        let certificate = match subject {
            None => made.pem(),
            Some(subject) => self.with_subject(made.der(), subject)?,
        };
        Ok(Pair { certificate, key: key.serialize_pem() })
    }

    /// Puts another subject into a certificate and signs it again: rcgen keeps one value of each attribute, and a user is in several
    /// groups, each an `O`.
    fn with_subject(&self, der: &[u8], subject: &[u8]) -> Result<String, CertificateError> {
        let broken = || CertificateError::Make("cannot read the template".into());
        let (_, parsed) = X509Certificate::from_der(der).map_err(|_| broken())?;
        let body: &[u8] = parsed.tbs_certificate.as_ref();
        let old = parsed.tbs_certificate.subject().as_raw();
        // The subject is a part of the body; rcgen's default makes it unlike the issuer.
        let at = memory_offset(body, old).ok_or_else(broken)?;
        let content = body.get(header_length(body)..).ok_or_else(broken)?;
        let at = at.checked_sub(header_length(body)).ok_or_else(broken)?;
        let (before, rest) = content.split_at_checked(at).ok_or_else(broken)?;
        let after = rest.get(old.len()..).ok_or_else(broken)?;
        let body = tagged(0x30, &[before, subject, after].concat());
        let signature = self.issuer.key().sign(&body).map_err(make_error)?;
        // ecdsa-with-SHA256
        let algorithm = tagged(0x30, &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]);
        let bits = tagged(0x03, &[&[0], signature.as_slice()].concat());
        let der = tagged(0x30, &[body, algorithm, bits].concat());
        Ok(pem("CERTIFICATE", &der))
    }
}

enum Credentials<'a> {
    Certificate(&'a Pair),
    Token(&'a str),
}

struct Authority {
    ca_pem: String,
    ca_expires: u64,
    key: KeyPair,
}

impl Authority {
    fn load(
        path: &Path,
        ca_pem: String,
        key_path: &Path,
        key: &str,
        now: u64,
    ) -> Result<Self, CertificateError> {
        let key = KeyPair::from_pem(key).map_err(|_| {
            damaged(key_path, "it holds no private key; put back a copy, or remove it and ca.crt")
        })?;
        let certificates = certificates_in(&ca_pem).map_err(|what| damaged(path, &what.to_string()))?;
        let first = certificates.first().ok_or_else(|| damaged(path, "it holds no certificate"))?;
        let parsed = X509Certificate::from_der(first);
        let (_, parsed) = parsed.map_err(|error| damaged(path, &format!("not a certificate: {error}")))?;
        if !parsed.is_ca() {
            return Err(damaged(path, "not the certificate of an authority"));
        }
        if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err(damaged(path, "ca.key is not its key"));
        }
        let expires = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or_default();
        if expires <= now {
            let what = "the authority has expired; remove ca.crt and ca.key to start with a new one, and give out new kubeconfigs";
            return Err(damaged(path, what));
        }
        Ok(Self { ca_pem, ca_expires: expires, key })
    }
}

/// Writes a file that only its owner may read, all of it or nothing.
///
/// # Errors
///
/// If it cannot be written.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), CertificateError> {
    let error = |path: &Path| {
        let path = path.to_owned();
        move |source| CertificateError::File { path, source }
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let part = path.with_file_name(name);
    let write = || -> io::Result<()> {
        // What a killed process left would keep its permissions.
        if let Err(error) = fs::remove_file(&part)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&part)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(error(&part))?;
    fs::rename(&part, path).map_err(error(path))?;
    if let Some(directory) = path.parent().filter(|directory| cfg!(unix) && !directory.as_os_str().is_empty())
    {
        fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(error(directory))?;
    }
    Ok(())
}

fn private_directory(directory: &Path) -> Result<(), CertificateError> {
    let error = |source| CertificateError::File { path: directory.to_owned(), source };
    fs::create_dir_all(directory).map_err(error)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).map_err(error)?;
    }
    Ok(())
}

/// None: there is no such file.
fn read(path: &Path) -> Result<Option<String>, CertificateError> {
    match fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(damaged(path, "not a PEM file")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CertificateError::File { path: path.to_owned(), source }),
    }
}

fn given(certificate: &Path, key: &Path) -> Result<Pair, CertificateError> {
    let pair = Pair {
        certificate: read(certificate)?.ok_or_else(|| missing(certificate))?,
        key: read(key)?.ok_or_else(|| missing(key))?,
    };
    let found = certificates_in(&pair.certificate).map_err(|what| damaged(certificate, &what.to_string()))?;
    if found.is_empty() {
        return Err(damaged(certificate, "it holds no certificate"));
    }
    PrivateKeyDer::from_pem_slice(pair.key.as_bytes())
        .map_err(|error| damaged(key, &format!("it holds no private key: {error}")))?;
    Ok(pair)
}

fn make_authority(key: &KeyPair, now: u64) -> Result<(String, u64), CertificateError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "settled-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params.not_before = moment!(now.saturating_sub(LEEWAY));
    params.not_after = moment!(now + AUTHORITY_LIFE);
    let made = params.self_signed(key).map_err(make_error)?;
    Ok((made.pem(), now + AUTHORITY_LIFE))
}

fn new_key() -> Result<KeyPair, CertificateError> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(make_error)
}

fn seconds(options: &CertificateOptions) -> u64 {
    /// The year 9000. Certificates end with the year 9999, and a clock can be that wrong.
    const LATEST: u64 = 221_845_392_000;
    let now = options.now.unwrap_or_else(SystemTime::now);
    let now = now.duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_secs());
    now.unwrap_or_default().min(LATEST)
}

fn damaged(path: &Path, what: &str) -> CertificateError {
    CertificateError::Damaged { path: path.to_owned(), what: what.to_owned() }
}

fn missing(path: &Path) -> CertificateError {
    CertificateError::File { path: path.to_owned(), source: io::ErrorKind::NotFound.into() }
}

fn make_error(error: rcgen::Error) -> CertificateError {
    CertificateError::Make(error.into())
}

fn tls_error(error: impl Into<Box<dyn Error + Send + Sync>>) -> CertificateError {
    CertificateError::Tls(error.into())
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
