//! Proxies of the environment and of the kubeconfig.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use crate::support::{Directory, Run, settled};

const OBJECT: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"shop"}}"#;

/// A proxy that makes tunnels to a server of its own, which answers everything with an object. It notes where tunnels are to lead.
fn proxy() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, asked) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let head = head(&mut stream);
            let mut words = head.split(' ');
            if words.next() == Some("CONNECT") {
                sender.send(words.next().unwrap().to_owned()).ok();
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                self::head(&mut stream);
            }
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{OBJECT}",
                OBJECT.len()
            );
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    (address, asked)
}

/// A request without its body; all of it if the connection ends first.
fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn manifests_are_downloaded_by_the_proxy() {
    let (address, asked) = proxy();
    let read = |variable: &str, value: &str, no_proxy: &str| {
        let run = settled("status -f http://manifests.invalid/web.yaml -o jsonl");
        run.env(variable, value).env("NO_PROXY", no_proxy).output()
    };
    for (variable, value) in [("HTTP_PROXY", format!("http://{address}")), ("http_proxy", address.clone())] {
        let output = read(variable, &value, "other.invalid");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains(r#""name":"web""#));
        assert_eq!(asked.try_recv().as_deref(), Ok("manifests.invalid:80"));
    }
    // The host does not exist: a request that bypasses the proxy fails.
    assert_eq!(read("HTTP_PROXY", &address, ".invalid").status.code(), Some(2));
    assert_eq!(read("HTTPS_PROXY", &address, "").status.code(), Some(2));
    assert!(asked.try_recv().is_err());
    let broken = read("HTTP_PROXY", "http://user:secret@", "");
    let errors = String::from_utf8(broken.stderr).unwrap();
    assert!(errors.contains("the proxy's URL cannot be used") && !errors.contains("secret"), "{errors}");
}

#[test]
fn clusters_are_reached_by_the_proxy() {
    let (address, asked) = proxy();
    let config = |server: &str, proxy: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts: [{{name: here, context: {{cluster: c}}}}]\n\
             clusters: [{{name: c, cluster: {{server: \"{server}\", proxy-url: \"{proxy}\"}}}}]\n"
        );
        Directory::new(&[("config", &text)])
    };
    let run = |directory: &Directory, environment: &[(&str, &str)]| {
        let path = directory.path().join("config");
        let run = settled("status cm/web --request-timeout 5").env("KUBECONFIG", path.to_str().unwrap());
        environment.iter().fold(run, |run: Run, (name, value)| run.env(name, value)).output()
    };
    let url = format!("http://{address}");
    let server = "http://cluster.invalid:8080";
    // The proxy-url, the environment, and whether the proxy is used.
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], bool);
    let cases: [Case<'_>; 6] = [
        (&url, &[], true),
        // What the kubeconfig says counts, whatever the environment excludes.
        (&url, &[("NO_PROXY", "*")], true),
        ("", &[("HTTP_PROXY", &url)], true),
        ("", &[("HTTP_PROXY", &url), ("NO_PROXY", "cluster.invalid:8080")], false),
        // It is about the server's address, not about the proxy's.
        ("", &[("HTTP_PROXY", &url), ("NO_PROXY", "127.0.0.1")], true),
        ("", &[("HTTPS_PROXY", &url)], false),
    ];
    for (proxy_url, environment, expected) in cases {
        run(&config(server, proxy_url), environment);
        let expected = expected.then_some("cluster.invalid:8080");
        assert_eq!(asked.try_recv().ok().as_deref(), expected, "{proxy_url} {environment:?}");
        asked.try_iter().for_each(drop);
    }
    // A server on this machine is never reached by a proxy of the environment.
    let here = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    run(&config(&format!("http://{here}"), ""), &[("HTTP_PROXY", &url)]);
    assert!(asked.try_recv().is_err());
}
