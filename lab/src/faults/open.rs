//! Half-open connections that send nothing, or part of a handshake or request. They are closed after a timeout, and
//! other clients are served.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::socket::{Greeting, NO_SETTINGS, PREFACE, Socket, frame, hpack};
use super::{COLLECTION, Kept, Report, Setting, begin, config_map};
use crate::Outcome;

/// Timeouts: for the handshake and the request head, for pings (30 s, and 20 s for the response), and for bodies (a
/// minute), plus some seconds for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(80);

const HEAD: &str = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: a\r\n";

/// Bytes sent before the client falls silent.
type Half = fn(&Greeting) -> std::io::Result<Socket>;

fn tls(greeting: &Greeting, h2: bool, bytes: &[u8]) -> std::io::Result<Socket> {
    let mut socket = Socket::Tls(Box::new(greeting.tls(h2)?));
    if !bytes.is_empty() {
        socket.write(bytes)?;
    }
    Ok(socket)
}

const HALVES: [(&str, Half); 12] = [
    ("nothing", |greeting| Ok(Socket::Plain(greeting.tcp()?))),
    ("half of a greeting", |greeting| {
        let hello = greeting.hello()?;
        let mut socket = Socket::Plain(greeting.tcp()?);
        socket.write(&hello[..hello.len() / 2])?;
        Ok(socket)
    }),
    ("a greeting without an end", |greeting| {
        let mut socket = Socket::Plain(greeting.tcp()?);
        socket.write(&greeting.hello()?)?;
        Ok(socket)
    }),
    ("nothing after the greeting", |greeting| tls(greeting, false, b"")),
    ("a letter", |greeting| tls(greeting, false, b"P")),
    ("half of a head", |greeting| tls(greeting, false, HEAD.as_bytes())),
    ("half of a body", |greeting| {
        let head = format!("{HEAD}Authorization: Bearer admin-token\r\nContent-Length: 1000\r\n\r\n{{");
        tls(greeting, false, head.as_bytes())
    }),
    ("half of a chunked body", |greeting| {
        let head = format!(
            "{HEAD}Authorization: Bearer admin-token\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n{{"
        );
        tls(greeting, false, head.as_bytes())
    }),
    ("h2: nothing", |greeting| tls(greeting, true, b"")),
    ("h2: half of a preface", |greeting| tls(greeting, true, &PREFACE[..12])),
    ("h2: half of a frame", |greeting| {
        let headers = frame(1, 0x4, 1, &hpack("GET", COLLECTION));
        tls(greeting, true, &[PREFACE, NO_SETTINGS, &headers[..headers.len() / 2]].concat())
    }),
    ("h2: half of a body", |greeting| {
        let headers = frame(1, 0x4, 1, &hpack("POST", COLLECTION));
        tls(greeting, true, &[PREFACE, NO_SETTINGS, &headers, &frame(0, 0, 1, b"{")].concat())
    }),
];

pub(super) fn run(setting: &Setting) -> Outcome<Report> {
    let each = if setting.quick { 25 } else { 200 };
    let mut report = Report::default();
    let mut running = begin(&setting.directory, Kept::InMemory)?;
    let greeting = Greeting::new(running.address, &running.ca)?;
    let begun = Instant::now();
    let mut halves = Vec::new();
    for (about, half) in HALVES {
        for _ in 0..each {
            halves.push((about, half(&greeting)?));
        }
    }
    let opened = begun.elapsed();
    // Meanwhile others connect and disconnect.
    let mut slowest = Duration::ZERO;
    for at in 0..50 {
        let start = Instant::now();
        let client = settled_conformance::Client::new(&format!("https://{}", running.address), &running.ca)?;
        let object = config_map(&format!("c{at}"), 1, 10);
        let answer = settled_conformance::Target::send(&client, &super::request("POST", COLLECTION, &object));
        match answer {
            Ok(answer) if answer.status == 201 => {}
            other => report.wrong.push(format!("another client's create: {other:?}")),
        }
        slowest = slowest.max(start.elapsed());
    }
    // One thread per connection, which reads until the end.
    let deadline = Instant::now() + TIMEOUT;
    let count = halves.len();
    let ends: Vec<(&str, usize, Duration)> = thread::scope(|scope| {
        let waiting = HALVES.map(|(about, _)| {
            let mut mine = Vec::new();
            for at in (0..halves.len()).rev() {
                if halves[at].0 == about {
                    mine.push(halves.swap_remove(at).1);
                }
            }
            scope.spawn(move || {
                let mut open = 0;
                for socket in &mut mine {
                    open += usize::from(!socket.ends(deadline));
                }
                (about, open, begun.elapsed())
            })
        });
        waiting.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    report.expect(ends.len() == HALVES.len(), || "a thread failed".to_owned());
    for (about, open, after) in ends {
        report.expect(open == 0, || format!("{about}: {open} still open after {} s", after.as_secs()));
        report.note(format!("{about}: all closed after {:.1} s", after.as_secs_f64()));
    }
    report.note(format!(
        "{count} connections, opened in {:.1} s; another client's slowest create meanwhile: {} ms",
        opened.as_secs_f64(),
        slowest.as_millis()
    ));
    let answer = running.send("GET", "/readyz", &Value::Null)?;
    report.expect(answer.status == 200, || format!("/readyz: {}", answer.status));
    running.check(&mut report)?;
    Ok(report)
}
