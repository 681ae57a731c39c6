//! Tests of the certificate authority, server and client certificates.

use rustls::pki_types::ServerName;

use super::*;
use crate::auth::x509::{COMMON_NAME, ORGANIZATION, UID};

fn at(seconds: u64) -> CertificateOptions {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    CertificateOptions { now: Some(now), ..CertificateOptions::default() }
}

/// 2026-11-21.
const NOW: u64 = 1_795_219_200;

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("settled-auth-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        Self(path)
    }

    fn open(&self, options: &CertificateOptions) -> Result<Certificates, CertificateError> {
        Certificates::in_directory(&self.0.join("pki"), options)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join("pki").join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn pair_of(kubeconfig: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let field = |name: &str| {
        let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
        BASE64.decode(line.trim_start_matches(": ").as_bytes()).unwrap()
    };
    let certificate = String::from_utf8(field("client-certificate-data")).unwrap();
    (
        certificates_in(&certificate).unwrap(),
        PrivateKeyDer::from_pem_slice(&field("client-key-data")).unwrap(),
    )
}

/// Shakes hands without a network. Gives the server's end, or what went wrong there or at the client.
fn handshake(
    server: &Certificates,
    name: &str,
    client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> Result<rustls::ServerConnection, String> {
    let mut roots = RootCertStore::empty();
    for authority in certificates_in(server.trusted_pem()).unwrap() {
        drop(roots.add(authority));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match client {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut server = rustls::ServerConnection::new(server.server_config().unwrap()).unwrap();
    for _ in 0..10 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets().map_err(|error| format!("server: {error}"))?;
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().map_err(|error| format!("client: {error}"))?;
        }
    }
    assert!(!server.is_handshaking() && !client.is_handshaking());
    Ok(server)
}

#[test]
fn clients_are_who_their_certificates_name() {
    let certificates = Certificates::in_memory(&CertificateOptions::default()).unwrap();
    let with_uid = User { uid: "u-1".to_owned(), ..User::new("jane", ["dev", "ops", "a/b:c"]) };
    let long = "g".repeat(300);
    let users = [
        User::new("jane", Vec::<String>::new()),
        with_uid,
        User::service_account("default", "robot"),
        User::new("é \"q\" <世>", [long.as_str(), "system:nodes"]),
        User::admin(),
    ];
    for user in users {
        let pair = pair_of(&certificates.kubeconfig("https://x", &user).unwrap());
        let connection = handshake(&certificates, "localhost", Some(pair)).unwrap();
        assert_eq!(connection.alpn_protocol(), Some(b"h2".as_slice()));
        let mut got = user_of(&connection.peer_certificates().unwrap()[0]).unwrap().unwrap();
        let id = got.extra.remove("authentication.kubernetes.io/credential-id").unwrap();
        assert!(id[0].starts_with("X509SHA256=") && id[0].len() == 75, "{id:?}");
        assert_eq!(got, user.authenticated());
    }
    let admin = pair_of(&certificates.admin_kubeconfig("https://x"));
    assert!(user_of(&admin.0[0]).unwrap().unwrap().is_master());
}

#[test]
fn a_certificate_is_not_needed_but_must_be_ours() {
    let certificates = Certificates::in_memory(&CertificateOptions::default()).unwrap();
    for name in
        ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    {
        let connection = handshake(&certificates, name, None).unwrap();
        assert!(connection.peer_certificates().is_none());
    }
    assert!(handshake(&certificates, "example.com", None).unwrap_err().starts_with("client: "));

    let others = Certificates::in_memory(&CertificateOptions::default()).unwrap();
    let foreign = pair_of(&others.admin_kubeconfig("https://x"));
    assert!(handshake(&certificates, "localhost", Some(foreign)).unwrap_err().starts_with("server: "));

    let old = Certificates::in_memory(&at(NOW - 3 * 365 * DAY)).unwrap();
    assert!(handshake(&old, "localhost", None).unwrap_err().contains("xpired"));

    let more =
        CertificateOptions { names: vec!["example.com".into(), "10.0.0.1".into()], ..Default::default() };
    let more = Certificates::in_memory(&more).unwrap();
    for name in ["example.com", "10.0.0.1", "localhost"] {
        handshake(&more, name, None).unwrap();
    }
}

#[test]
fn who_a_strange_certificate_names() {
    let certificates = Certificates::in_memory(&CertificateOptions::default()).unwrap();
    let set = |kind: &[u8], tag: u8, value: &[u8]| {
        tagged(0x31, &tagged(0x30, &[tagged(0x06, kind), tagged(tag, value)].concat()))
    };
    let name = |name: &str| set(COMMON_NAME, 0x0c, name.as_bytes());
    type Expected = Result<Option<&'static str>, &'static str>;
    let cases: Vec<(&str, Vec<Vec<u8>>, Expected)> = vec![
        ("nobody", vec![set(ORGANIZATION, 0x0c, b"system:masters")], Ok(None)),
        ("an empty name", vec![name("")], Ok(None)),
        ("printable", vec![set(COMMON_NAME, 0x13, b"jane")], Ok(Some("jane"))),
        ("two names", vec![name("a"), name("b")], Ok(Some("b"))),
        ("two uids", vec![name("a"), set(UID, 0x0c, b"1"), set(UID, 0x0c, b"2")], Err("expected 1 UID")),
        ("an empty uid", vec![name("a"), set(UID, 0x0c, b"")], Err("empty string")),
        ("not a text", vec![set(COMMON_NAME, 0x0c, b"\xff\xfe")], Err("")),
    ];
    for (what, attributes, expected) in cases {
        let template = certificates.sign_user(&User::new("x", ["y"])).unwrap();
        let template = certificates_in(&template.certificate).unwrap().remove(0);
        let pem = certificates.with_subject(&template, &tagged(0x30, &attributes.concat())).unwrap();
        let der = certificates_in(&pem).unwrap().remove(0);
        match (user_of(&der), expected) {
            (Ok(user), Ok(name)) => assert_eq!(user.map(|user| user.name).as_deref(), name, "{what}"),
            (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{what}: {error}"),
            (got, _) => panic!("{what}: {got:?}"),
        }
    }
    assert!(user_of(b"").is_err() && user_of(&[0x30, 0x80, 0, 0]).is_err());
}

#[test]
fn a_second_start_finds_what_the_first_made() {
    let directory = Directory::new("again");
    let first = directory.open(&at(NOW)).unwrap();
    let again = directory.open(&at(NOW + 300 * DAY)).unwrap();
    assert_eq!(first.ca_pem, again.ca_pem);
    assert_eq!(first.serving.certificate, again.serving.certificate);
    assert_eq!(first.admin_kubeconfig("u"), again.admin_kubeconfig("u"));

    let named = CertificateOptions { names: vec!["example.com".into(), "0:0::2".into()], ..at(NOW) };
    let named = [directory.open(&named).unwrap(), directory.open(&named).unwrap()];
    assert_ne!(first.serving.certificate, named[0].serving.certificate);
    assert_eq!(named[0].serving.certificate, named[1].serving.certificate);
    assert_eq!(first.admin.certificate, named[0].admin.certificate);

    let later = directory.open(&at(NOW + 400 * DAY)).unwrap();
    assert_eq!(first.ca_pem, later.ca_pem);
    assert_ne!(named[0].serving.certificate, later.serving.certificate);
    assert_ne!(first.admin.certificate, later.admin.certificate);

    // What is signed ends with the authority at the latest, and is then left as it is.
    let last = [NOW + 3_500 * DAY, NOW + 3_600 * DAY].map(|now| directory.open(&at(now)).unwrap());
    assert_eq!(last[0].serving.certificate, last[1].serving.certificate);
    let parsed = certificates_in(&last[0].serving.certificate).unwrap();
    let (_, parsed) = X509Certificate::from_der(&parsed[0]).unwrap();
    assert_eq!(u64::try_from(parsed.validity().not_after.timestamp()).unwrap(), NOW + AUTHORITY_LIFE);

    // Once a clock that was ahead is put right: nobody would take what begins later.
    let right = directory.open(&at(NOW)).unwrap();
    assert_ne!(last[1].serving.certificate, right.serving.certificate);
    assert_ne!(last[1].admin.certificate, right.admin.certificate);
}

#[test]
#[cfg(unix)]
fn files_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = Directory::new("modes");
    directory.open(&at(NOW)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory.file("")), 0o700);
    let mut names: Vec<_> =
        fs::read_dir(directory.file("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["admin.pem", "ca.crt", "ca.key", "server.pem"]);
    for name in names {
        assert_eq!(mode(&directory.file(name.to_str().unwrap())), 0o600);
    }
}

#[test]
fn damage() {
    let other = Certificates::in_memory(&at(NOW)).unwrap();
    let other_key = other.issuer.key().serialize_pem();
    let leaf = other.serving.certificate;
    // What is written (None: removed) into which file, and what the next start says. Nothing: it starts.
    let cases: Vec<(&str, Option<&str>, &str)> = vec![
        ("ca.key", None, "the key of ca.crt is missing"),
        ("ca.key", Some("nonsense"), "holds no private key"),
        ("ca.key", Some(&other_key), "ca.key is not its key"),
        ("ca.crt", Some(""), "holds no certificate"),
        (
            "ca.crt",
            Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "not a certificate",
        ),
        ("ca.crt", Some("-----BEGIN CERTIFICATE-----\nAA"), "PEM"),
        ("ca.crt", Some(&leaf), "not the certificate of an authority"),
        ("ca.crt", None, ""),
        ("server.pem", None, ""),
        ("server.pem", Some("nonsense"), ""),
        ("admin.pem", Some(&leaf), ""),
    ];
    for (index, (name, content, expected)) in cases.into_iter().enumerate() {
        let directory = Directory::new(&format!("damage-{index}"));
        directory.open(&at(NOW)).unwrap();
        match content {
            Some(content) => fs::write(directory.file(name), content).unwrap(),
            None => fs::remove_file(directory.file(name)).unwrap(),
        }
        match directory.open(&at(NOW)) {
            Ok(certificates) => {
                assert_eq!(expected, "", "{name} {content:?}");
                let made =
                    handshake(&certificates, "localhost", Some(pair_of(&certificates.admin_kubeconfig("u"))));
                // The clock of the handshake is the machine's.
                assert!(
                    made.is_ok()
                        || made.is_err_and(|error| error.contains("xpired") || error.contains("yet"))
                );
            }
            Err(error) => {
                let text = error.to_string();
                assert!(
                    !expected.is_empty() && text.contains(expected) && text.contains("pki"),
                    "{name}: {text}"
                );
            }
        }
    }
    let directory = Directory::new("expired");
    directory.open(&at(NOW)).unwrap();
    let text = directory.open(&at(NOW + AUTHORITY_LIFE)).err().unwrap().to_string();
    assert!(text.contains("the authority has expired"), "{text}");
}

#[test]
fn given_files() {
    let directory = Directory::new("given");
    let given = Certificates::in_memory(&CertificateOptions::default()).unwrap();
    let write = |name: &str, content: &str| {
        fs::create_dir_all(&directory.0).unwrap();
        let path = directory.0.join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let chain = format!("{}{}", given.serving.certificate, given.ca_pem);
    let (certificate, key) = (write("tls.crt", &chain), write("tls.key", &given.serving.key));
    let client_ca = write("client-ca.crt", given.ca_pem());
    let options = CertificateOptions {
        serving: Some((certificate.clone(), key.clone())),
        client_ca: Some(client_ca),
        ..CertificateOptions::default()
    };
    let certificates = directory.open(&options).unwrap();
    // Both authorities are believed.
    for issuer in [&certificates, &given] {
        let client = pair_of(&issuer.kubeconfig("u", &User::new("jane", ["dev"])).unwrap());
        handshake(&certificates, "localhost", Some(client)).unwrap();
    }
    assert!(!directory.file("server.pem").exists());

    let empty = write("empty", "");
    let none = directory.0.join("none");
    let missing = format!("cannot use {}", none.display());
    let cases = [
        (empty.clone(), key.clone(), "holds no certificate"),
        (certificate.clone(), empty, "holds no private key"),
        (certificate, none.clone(), &missing),
        (none, key, &missing),
    ];
    for (certificate, key, expected) in cases {
        let options =
            CertificateOptions { serving: Some((certificate, key)), ..CertificateOptions::default() };
        let text = directory.open(&options).err().unwrap().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn clocks_may_be_wrong() {
    for now in [0, 1, 253_402_300_799, u64::from(u32::MAX) * 1_000] {
        Certificates::in_memory(&at(now)).unwrap();
    }
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1_000_000);
    Certificates::in_memory(&CertificateOptions { now: Some(before), ..CertificateOptions::default() })
        .unwrap();
}

#[test]
fn a_kubeconfig_holds_any_name() {
    let certificates = Certificates::in_memory(&CertificateOptions::default()).unwrap();
    let text = certificates.token_kubeconfig("https://127.0.0.1:6443", "a: \"b\" #c", "t: o");
    assert!(text.contains("- name: \"a: \\\"b\\\" #c\"\n"), "{text}");
    assert!(text.contains("    token: \"t: o\"\n"), "{text}");
}

#[test]
fn errors_keep_their_source() {
    let options = CertificateOptions { names: vec!["ü".to_owned()], ..at(NOW) };
    let error = Certificates::in_memory(&options).err().unwrap();
    assert_eq!(error.to_string(), "cannot make a certificate");
    let source = error.source().unwrap();
    assert!(source.downcast_ref::<rcgen::Error>().is_some(), "{source:?}");

    // A key that is another certificate's.
    let directory = Directory::new("mixed");
    fs::create_dir_all(&directory.0).unwrap();
    let path = |name: &str| directory.0.join(name);
    let [own, other] = [(); 2].map(|()| Certificates::in_memory(&at(NOW)).unwrap());
    fs::write(path("own.crt"), &own.serving.certificate).unwrap();
    fs::write(path("other.key"), &other.serving.key).unwrap();
    let serving = Some((path("own.crt"), path("other.key")));
    let mixed = Certificates::in_memory(&CertificateOptions { serving, ..at(NOW) }).unwrap();
    let error = mixed.server_config().unwrap_err();
    assert_eq!(error.to_string(), "cannot set up TLS");
    let source = error.source().unwrap();
    assert!(source.downcast_ref::<rustls::Error>().is_some(), "{source:?}");
}
