//! `settled serve` as a process: output, authentication, shutdown, startup errors.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::support::settled;

/// A server that runs; killed when dropped.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: String,
    pub(crate) kubeconfig: PathBuf,
    banner: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_settled"));
    // Of the user who runs the tests.
    command.env_remove("RUST_LOG");
    command.arg("serve").args(["--port", "0"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Served {
    /// Starts one and reads what it prints until it says how to use it.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::spawn(command(arguments))
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut banner = String::new();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap());
        while !banner.contains("kubectl get namespaces\n") {
            if lines.read_line(&mut banner).unwrap() == 0 {
                let mut errors = String::new();
                child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
                panic!("{banner}{errors}");
            }
        }
        let after = |start: &str, end: &[char]| {
            let (_, rest) = banner.split_once(start).unwrap();
            rest.split(end).next().unwrap().to_owned()
        };
        let address = after("API server ready at https://", &[' ']);
        let kubeconfig = after("export KUBECONFIG=", &['\n']).into();
        Self { child, address, kubeconfig, banner }
    }

    /// The answer to a request of the administrator, whole.
    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn request(&self, head: &str, body: &str) -> String {
        self.request_of_type("application/json", head, body)
    }

    /// As [`Served::request`], with a body of another type.
    pub(crate) fn request_of_type(&self, content_type: &str, head: &str, body: &str) -> String {
        let kubeconfig = fs::read_to_string(&self.kubeconfig).unwrap();
        assert!(kubeconfig.contains(&format!("server: \"https://{}\"", self.address)), "{kubeconfig}");
        let pem = |field: &str| {
            let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(field)).unwrap();
            data_encoding::BASE64.decode(line.trim().as_bytes()).unwrap()
        };
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem("certificate-authority-data:")).unwrap()).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(&pem("client-certificate-data:")).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(&pem("client-key-data:")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = rustls::StreamOwned::new(session, TcpStream::connect(&self.address).unwrap());
        write!(
            stream,
            "{head} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: {content_type}\r\n\
             content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = Vec::new();
        // Some servers end without a farewell; ours too if it is in a hurry.
        stream.read_to_end(&mut answer).ok();
        String::from_utf8(answer).unwrap()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Ends it, and gives its standard error.
    pub(crate) fn end(mut self, signal: &str) -> (ExitStatus, String) {
        self.signal(signal);
        let status = self.child.wait().unwrap();
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (status, errors)
    }
}

/// One that does not begin: its exit code and standard error.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(arguments).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

const NAMESPACES: &str = "/api/v1/namespaces";
const SHOP: &str = r#"{"metadata":{"name":"shop"}}"#;

#[test]
fn it_says_how_to_use_it_and_leaves_nothing_behind() {
    let server = Served::start(&["--memory"]);
    let lines: Vec<&str> = server.banner.lines().collect();
    assert!(lines[0].ends_with("ms, in memory). Press Ctrl-C to stop."), "{}", server.banner);
    assert_eq!(lines[2], "In another terminal:");
    let answer = server.request(&format!("GET {NAMESPACES}"), "");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("kube-system"), "{answer}");
    assert!(server.request(&format!("POST {NAMESPACES}"), SHOP).starts_with("HTTP/1.1 201"));

    let directory = server.kubeconfig.parent().unwrap().to_owned();
    let (status, errors) = server.end("TERM");
    assert_eq!(status.code(), Some(0));
    assert_eq!(errors, "namespace shop created\nstopping (SIGTERM)\nstopped\n");
    assert!(!directory.exists());
}

#[test]
fn a_second_start_goes_on_where_the_first_was() {
    let directory = directory();
    let arguments = ["--data-dir", text(directory.path())];
    let first = Served::start(&arguments);
    assert!(first.request(&format!("POST {NAMESPACES}"), SHOP).starts_with("HTTP/1.1 201"));
    let (status, _) = first.end("INT");
    assert_eq!(status.code(), Some(130));

    let second = Served::start(&arguments);
    let answer = second.request(&format!("GET {NAMESPACES}/shop"), "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Killed, it has lost nothing either.
    second.end("KILL");
    let third = Served::start(&arguments);
    assert!(third.request(&format!("GET {NAMESPACES}/shop"), "").starts_with("HTTP/1.1 200"));
}

#[test]
fn two_in_one_directory_are_one_too_many() {
    let directory = directory();
    let arguments = ["--data-dir", text(directory.path())];
    let first = Served::start(&arguments);
    let (code, errors) = refused(&arguments);
    assert_eq!(code, Some(2));
    let holder =
        format!("is in use by process {}: stop that process or choose another directory", first.child.id());
    assert!(errors.contains(&holder), "{errors}");
    // The first one does not notice.
    assert!(first.request(&format!("GET {NAMESPACES}"), "").starts_with("HTTP/1.1 200"));
}

/// With its data in memory, a server has certificates and a kubeconfig in the directory.
#[test]
fn two_in_one_directory_are_one_too_many_without_data_too() {
    let directory = directory();
    let path = text(directory.path());
    let first = Served::start(&["--memory", "--data-dir", path]);
    let kubeconfig = fs::read(&first.kubeconfig).unwrap();
    for arguments in [&["--data-dir", path][..], &["--memory", "--data-dir", path]] {
        let (code, errors) = refused(arguments);
        assert_eq!(code, Some(2));
        assert!(errors.contains(&format!("is in use by process {}: ", first.child.id())), "{errors}");
    }
    assert_eq!(fs::read(&first.kubeconfig).unwrap(), kubeconfig);
    first.end("TERM");
    Served::start(&["--data-dir", path]);
}

/// A server whose temporary files go to a directory.
fn command_in(temporary: &Path, script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_settled")]).env("TMPDIR", temporary);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn names(directory: &Path) -> Vec<String> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn a_closed_terminal_stops_it_unless_nohup_says_otherwise() {
    let directory = directory();
    // The tests may run with SIGHUP ignored (`nohup`), and children would inherit that.
    let script = r#"exec env --default-signal=HUP "$0" serve --memory --port 0"#;
    let server = Served::spawn(command_in(directory.path(), script));
    assert_eq!(names(directory.path()).len(), 1);
    let (status, errors) = server.end("HUP");
    assert_eq!((status.code(), errors.as_str()), (Some(129), "stopping (SIGHUP)\nstopped\n"));
    assert_eq!(names(directory.path()), [""; 0]);

    let server =
        Served::spawn(command_in(directory.path(), r#"trap '' HUP; exec "$0" serve --memory --port 0"#));
    server.signal("HUP");
    assert!(server.request(&format!("GET {NAMESPACES}"), "").starts_with("HTTP/1.1 200"));
    let (status, _) = server.end("TERM");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn what_a_killed_server_left_goes_with_the_next_start() {
    let directory = directory();
    let start = || Served::spawn(command_in(directory.path(), r#"exec "$0" serve --memory --port 0"#));
    let (killed, running) = (start(), start());
    let (left, kept) = (killed.kubeconfig.clone(), running.kubeconfig.clone());
    killed.end("KILL");
    assert!(left.exists());
    let next = start();
    assert!(!left.parent().unwrap().exists());
    assert!(kept.exists() && next.kubeconfig.exists());
}

/// The output of `serve` with these words after it.
fn served(words: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_settled"));
    command.arg("serve").args(words).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_command_has_a_server_for_as_long_as_it_runs() {
    let settled = env!("CARGO_BIN_EXE_settled");
    let cases: [(&[&str], i32, &str); 4] = [
        (&["sh", "-c", r#"grep -c "server: .https://127.0.0.1:" "$KUBECONFIG"; exit 7"#], 7, "1\n"),
        (&["sh", "-c", "kill -TERM $$"], 143, ""),
        (&[settled, "status", "namespace/default", "--quiet"], 0, ""),
        (&["/nonexistent/command"], 127, ""),
    ];
    for (words, code, printed) in cases {
        let output = served(&[&["--"], words].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{words:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        let wanted = if code == 127 { "error: cannot run /nonexistent/command: " } else { "" };
        assert!(errors.starts_with(wanted) && errors.is_empty() == wanted.is_empty(), "{words:?}: {errors}");
    }
    // Signals reach the command, which is a server here too: it says when it is there, and why it goes.
    let mut child = command(&["--", settled, "serve", "--memory", "--port", "0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("API server ready at https://"));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "stopping (SIGTERM)\nstopped\n");
}

const PROD: &str = "apiVersion: v1\nclusters:\n- cluster:\n    server: https://prod\n  name: prod\ncontexts:\n- context:\n    \
     cluster: prod\n    user: prod\n  name: prod\ncurrent-context: prod\nkind: Config\nusers:\n- name: prod\n  user:\n    token: a\n";

#[test]
fn a_kubeconfig_of_others_is_theirs_again_afterwards() {
    let directory = directory();
    let file = directory.path().join("config");
    fs::write(&file, PROD).unwrap();
    let server = Served::start(&["--memory", "--kubeconfig", text(&file), "--name", "dev"]);
    assert_eq!(server.kubeconfig, file);
    let merged = fs::read_to_string(&file).unwrap();
    for part in ["server: https://prod\n", "current-context: dev\n", "- name: dev\n", "token: a\n"] {
        assert!(merged.contains(part), "{part}: {merged}");
    }
    server.end("TERM");
    assert_eq!(fs::read_to_string(&file).unwrap(), PROD);
    assert_eq!(names(directory.path()), ["config"]);

    let (code, errors) = refused(&["--memory", "--kubeconfig", text(&file), "--name", "prod"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains(r#"has another cluster named "prod""#), "{errors}");
    assert!(errors.contains("hint: choose another name with --name NAME"), "{errors}");
    assert_eq!(fs::read_to_string(&file).unwrap(), PROD);

    // What is kept stays in it, and a file that was not there goes with a server that isn't kept.
    let (data, own) = (directory.path().join("data"), directory.path().join("own"));
    Served::start(&["--data-dir", text(&data), "--kubeconfig", text(&file)]).end("TERM");
    assert!(fs::read_to_string(&file).unwrap().contains("current-context: settled\n"));
    Served::start(&["--memory", "--kubeconfig", text(&own)]).end("TERM");
    assert!(!own.exists());
}

#[test]
fn quiet_is_quiet() {
    let directory = directory();
    let file = directory.path().join("config");
    let mut child = command(&["--memory", "--quiet", "--kubeconfig", text(&file)]).spawn().unwrap();
    while !file.exists() {
        assert!(child.try_wait().unwrap().is_none());
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(0), Vec::new(), Vec::new()));
}

#[test]
fn what_others_may_read_is_said_and_ended() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = directory();
    let data = directory.path().join("data");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    Served::start(&["--data-dir", text(&data)]).end("TERM");
    let loose = [("pki/ca.key", 0o644), ("store", 0o755), ("store/store.log", 0o664)];
    for (name, mode) in loose {
        fs::set_permissions(data.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let tokens = directory.path().join("tokens");
    fs::write(&tokens, "a,jane,1\n").unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o644)).unwrap();
    let server = Served::start(&["--data-dir", text(&data), "--token-auth-file", text(&tokens)]);
    let (_, errors) = server.end("TERM");
    let tokens = tokens.display();
    let said =
        format!("warning: other users can read the tokens in {tokens} (mode 0644): chmod 600 {tokens}\n");
    assert!(errors.starts_with(&said), "{errors}");
    for (name, was) in loose {
        let path = data.join(name);
        let said =
            format!("warning: other users had access to {} (mode {was:04o}): removed\n", path.display());
        assert!(errors.contains(&said), "{errors}");
        assert_eq!(mode(&path), was & 0o700, "{name}");
    }
}

#[test]
fn a_watch_does_not_hold_up_the_end() {
    let server = Served::start(&["--memory"]);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| server.request(&format!("GET {NAMESPACES}?watch=true"), ""));
        // The watch is there once it is counted.
        let counted = r#"apiserver_longrunning_requests{"#;
        while !server.request("GET /metrics", "").contains(counted) {}
        server.signal("TERM");
        assert!(watching.join().unwrap().contains("ADDED"));
    });
}

#[test]
fn what_hinders_it_is_said_with_what_helps() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = settled(&format!("serve --memory --port {port}")).output();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{errors}");
    assert!(errors.contains("--port 0 for any that is free"), "{errors}");

    let (code, errors) = refused(&["--feature-gates", "Nonsense=true"]);
    assert_eq!(code, Some(2));
    assert_eq!(
        errors,
        "error: --feature-gates: unrecognized feature gate: Nonsense; known are APIResponseCompression, NetworkPolicyStatus, WatchList\n"
    );
    let (code, errors) = refused(&["--controllers", "dust"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("there is no controller \"dust\"; there are *"), "{errors}");

    let (code, errors) = refused(&["--service-cluster-ip-range", "10.0.0.0/30"]);
    assert_eq!(code, Some(2));
    assert_eq!(
        errors,
        "error: --service-cluster-ip-range: the range must be at least 8 IP addresses: 10.0.0.0/30\n"
    );

    // A file where the directory should be.
    let directory = directory();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let (code, errors) = refused(&["--data-dir", text(&file)]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("set another one with --data-dir DIR"), "{errors}");

    // A damaged store.
    let data = directory.path().join("data");
    Served::start(&["--data-dir", text(&data)]).end("TERM");
    let store = data.join("store/store.log");
    let half = fs::read(&store).unwrap();
    fs::write(&store, &half[..half.len() / 2]).unwrap();
    for _ in 0..2 {
        let (code, errors) = refused(&["--data-dir", text(&data)]);
        assert_eq!(code, Some(2));
        assert!(
            errors.contains("is corrupt") && errors.contains("restore the directory from a backup"),
            "{errors}"
        );
    }
}

#[test]
fn feature_gates_switch_features() {
    let server = Served::start(&["--memory", "--feature-gates", "WatchList=false"]);
    let streaming = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let answer = server.request(&format!("GET {NAMESPACES}?{streaming}"), "");
    assert!(answer.starts_with("HTTP/1.1 422"), "{answer}");
    assert!(answer.contains("unless the WatchList feature gate is enabled"), "{answer}");
}

#[test]
fn the_help_names_all_gates() {
    let help = String::from_utf8(settled("serve --help").output().stdout).unwrap();
    for gate in settled_apiserver::FeatureGates::TABLE {
        assert!(help.contains(gate.name) && gate.default, "{}", gate.name);
    }
}

#[test]
fn json_lines_are_for_programs() {
    let mut child = command(&["--memory", "--log-format", "json"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["event"], "serving");
    let server = Served {
        child,
        address: first["address"].as_str().unwrap().to_owned(),
        kubeconfig: first["kubeconfig"].as_str().unwrap().into(),
        banner: String::new(),
    };
    assert!(server.request(&format!("POST {NAMESPACES}"), SHOP).starts_with("HTTP/1.1 201"));
    server.signal("TERM");
    let events: Vec<serde_json::Value> =
        lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["namespace-created", "stopping", "stopped"]);
    assert_eq!(events[0]["name"], "shop");
}

/// Its output may go nowhere.
#[test]
fn a_closed_standard_output_is_no_error() {
    let mut child = command(&["--memory", "--log-format", "text"]).spawn().unwrap();
    drop(child.stdout.take());
    let directory = directory();
    // It goes on: only a signal ends it.
    let mut other = Served::start(&["--data-dir", text(directory.path())]);
    assert!(other.child.try_wait().unwrap().is_none());
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The usual limit is for programs that open a file now and then.
#[test]
#[cfg(target_os = "linux")]
fn as_many_connections_as_the_system_allows() {
    let mut limited = Command::new("sh");
    let script = r#"ulimit -Sn 50; exec "$0" serve --memory --port 0"#;
    limited.args(["-c", script, env!("CARGO_BIN_EXE_settled")]);
    limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let served = Served::spawn(limited);
    let limits = fs::read_to_string(format!("/proc/{}/limits", served.child.id())).unwrap();
    let files: Vec<&str> =
        limits.lines().find(|line| line.starts_with("Max open files")).unwrap().split_whitespace().collect();
    assert!(files[3] == files[4] && files[3] != "50", "{files:?}");
}
