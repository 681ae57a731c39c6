//! Invalid bytes on the socket: instead of a TLS handshake, inside TLS, and instead of HTTP/1.1 or HTTP/2 frames. They
//! close one connection at most; other clients are not affected.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use super::socket::{Greeting, NO_SETTINGS, PREFACE, Socket, frame, hpack};
use super::{COLLECTION, Dice, Kept, Report, Setting, begin, config_map, revision};
use crate::Outcome;

/// An object that broken requests do not address.
const ELSEWHERE: &str = "/api/v1/namespaces/kube-public/configmaps";
/// Invalid requests of many kinds.
const REQUESTS: [&str; 8] = [
    "GET /api/v1/namespaces/default/configmaps?limit=1&labelSelector=a%3Db HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer admin-token\r\nAccept: application/json;as=Table;g=meta.k8s.io;v=v1, */*;q=0.8\r\n\r\n",
    "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer admin-token\r\nContent-Type: application/json\r\nContent-Length: 31\r\n\r\n{\"metadata\":{\"generateName\":\"g\"}}",
    "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer admin-token\r\nContent-Type: application/vnd.kubernetes.protobuf\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nk8s\0\n\r\n3\r\n\x12\x02\x0a\r\n0\r\n\r\n",
    "PATCH /api/v1/namespaces/default/configmaps/garbage?fieldManager=x&force=true HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer admin-token\r\nContent-Type: application/apply-patch+yaml\r\nContent-Length: 54\r\n\r\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: garbage}",
    "GET /api/v1/configmaps?watch=true&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer admin-token\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\n",
    "DELETE /api/v1/namespaces/default/configmaps/garbage HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer admin-token\r\nImpersonate-User: bob\r\nImpersonate-Extra-%61: b\r\nContent-Length: 2\r\n\r\n{}",
    "GET /openapi/v3/api/v1?hash=00 HTTP/1.0\r\nAccept-Encoding: gzip\r\nIf-None-Match: \"a\"\r\nAuthorization: Bearer admin-token\r\n\r\n",
    "GET /apis HTTP/1.1\r\nHost: a\r\nUpgrade: h2c, SPDY/3.1\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
];
/// Fragments inserted into them.
const PIECES: [&[u8]; 16] = [
    b"\r\n",
    b"\n",
    b"\0",
    b":",
    b" ",
    b"\xff\xfe",
    b"%00",
    b"%zz",
    b"?",
    b"&",
    b"chunked",
    b"Content-Length: -1\r\n",
    b"Content-Length: 18446744073709551616\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"ffffffffffffffff\r\n",
    b"HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
];

/// Mutates bytes: changes, removals, repetitions, insertions.
fn broken(dice: &mut Dice, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.below(4) {
        let (at, other) = (dice.below(bytes.len()), dice.below(bytes.len()));
        let (from, to) = (at.min(other), at.max(other));
        match dice.below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
            1 => drop(bytes.drain(from..(from + dice.below(20)).min(bytes.len()))),
            2 => {
                let piece: Vec<u8> = dice.pick(&PIECES).to_vec();
                bytes.splice(at..at, piece);
            }
            3 => {
                let again = bytes[from..to].to_vec();
                bytes.splice(at..at, again);
            }
            4 => bytes.truncate(at),
            _ => {
                let random = dice.bytes(30);
                bytes.splice(at..at, random);
            }
        }
    }
    bytes
}

/// Partially valid frames.
fn frames(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    if dice.roll(8) > 0 {
        bytes.extend_from_slice(NO_SETTINGS);
    }
    for _ in 0..dice.below(20) {
        let stream = *dice.pick(&[0, 1, 1, 3, 3, 5, 2, 0x7fff_ffff, 0x8000_0001]);
        let flags = *dice.pick(&[0, 0x1, 0x4, 0x5, 0x5, 0x8, 0x20, 0xff]);
        let piece = match dice.below(9) {
            0 | 1 => frame(1, flags, stream, &hpack("GET", "/api/v1/namespaces/default/configmaps")),
            2 => frame(1, flags, stream, &hpack("POST", COLLECTION)),
            3 => {
                let headers = hpack("GET", "/version");
                frame(1, flags, stream, &broken(dice, &headers))
            }
            4 => frame(9, flags, stream, &dice.bytes(200)),
            5 => frame(0, flags, stream, &dice.bytes(2000)),
            // Settings and window updates with random values.
            6 => frame(4, flags & 1, 0, &dice.bytes(24)),
            7 => frame(8, 0, stream, &dice.bytes(5)),
            _ => {
                let kind = dice.next().to_le_bytes()[0] % 12;
                frame(kind, flags, stream, &dice.bytes(40))
            }
        };
        bytes.extend(if dice.roll(10) == 0 { broken(dice, &piece) } else { piece });
    }
    bytes
}

/// Streams that are opened and reset immediately.
fn resets() -> Vec<u8> {
    let mut bytes = [PREFACE, NO_SETTINGS].concat();
    let headers = hpack("GET", COLLECTION);
    for stream in (1..2000).step_by(2) {
        bytes.extend(frame(1, 0x5, stream, &headers));
        bytes.extend(frame(3, 0, stream, &[0, 0, 0, 8]));
    }
    bytes
}

/// Endless headers.
fn continuations(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = [PREFACE, NO_SETTINGS, &frame(1, 0x1, 1, &hpack("GET", COLLECTION))].concat();
    for _ in 0..200 {
        bytes.extend(frame(9, 0, 1, &dice.bytes(2000)));
    }
    bytes
}

const SORTS: [&str; 9] = [
    "bytes instead of a greeting",
    "records of TLS that are none",
    "broken greetings",
    "broken records after the greeting",
    "bytes inside of TLS",
    "broken requests",
    "frames of HTTP/2",
    "streams that are reset",
    "headers without an end",
];

fn throw(sort: usize, greeting: &Greeting, dice: &mut Dice) -> std::io::Result<Socket> {
    let plain = |bytes: &[u8]| {
        let mut socket = Socket::Plain(greeting.tcp()?);
        // The server may close the connection early.
        let _hung_up = socket.write(bytes);
        Ok(socket)
    };
    let tls = |h2: bool, bytes: &[u8]| {
        let mut socket = Socket::Tls(Box::new(greeting.tls(h2)?));
        let _hung_up = socket.write(bytes);
        Ok(socket)
    };
    match sort {
        0 => plain(&dice.bytes(3000)),
        1 => {
            let mut record =
                vec![*dice.pick(&[0x16, 0x14, 0x15, 0x17, 0x80]), 3, *dice.pick(&[0, 1, 3, 4, 9])];
            record.extend(dice.bytes(5000));
            plain(&record)
        }
        2 => {
            let hello = greeting.hello()?;
            plain(&broken(dice, &hello))
        }
        3 => {
            let mut stream = greeting.tls(dice.roll(2) == 0)?;
            let _hung_up = stream.sock.write_all(&dice.bytes(2000));
            Ok(Socket::Plain(stream.sock))
        }
        4 => {
            let bytes = dice.bytes(3000);
            tls(dice.roll(2) == 0, &bytes)
        }
        5 => {
            let first = dice.pick(&REQUESTS).as_bytes();
            let mut bytes = broken(dice, first);
            // Sequentially on the same connection.
            for _ in 0..dice.below(3) {
                let next = dice.pick(&REQUESTS).as_bytes();
                bytes.extend(broken(dice, next));
            }
            tls(false, &bytes)
        }
        6 => {
            let bytes = frames(dice);
            tls(true, &bytes)
        }
        7 => tls(true, &resets()),
        _ => {
            let bytes = continuations(dice);
            tls(true, &bytes)
        }
    }
}

pub(super) fn run(setting: &Setting) -> Outcome<Report> {
    // Number of each kind; the last two are large.
    let rounds = if setting.quick { 1500 } else { 20_000 };
    let mut report = Report::default();
    let mut running = begin(&setting.directory, Kept::OnDisk)?;
    let greeting = Greeting::new(running.address, &running.ca)?;
    let mut dice = Dice::new(setting.seed);
    let kept = config_map("kept", 1, 100);
    let created = running.send("POST", ELSEWHERE, &kept)?;
    report.expect(created.status == 201, || format!("a create: {}", created.status));
    let before = descriptors(running.child.id());
    let (mut connections, mut refused) = (0, 0);
    let mut last = 0;
    for round in 0..rounds {
        for (sort, about) in SORTS.into_iter().enumerate() {
            if sort >= 7 && round % 30 > 0 {
                continue;
            }
            connections += 1;
            match throw(sort, &greeting, &mut dice) {
                // Some wait for a response, most disconnect.
                Ok(mut socket) if dice.roll(10) == 0 => {
                    let _may_stay = socket.ends(Instant::now() + Duration::from_millis(20));
                }
                Ok(socket) => drop(socket),
                Err(why) => {
                    refused += 1;
                    report.expect(refused < 5, || format!("{about}: {why}"));
                }
            }
        }
        if round % 25 == 0 {
            let answer =
                running.send("PUT", &format!("{ELSEWHERE}/kept"), &config_map("kept", round + 2, 100))?;
            let object: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let at = revision(&object).unwrap_or_default();
            report.expect(answer.status == 200 && at > last, || {
                format!("round {round}: {} {}", answer.status, super::text(&answer.body))
            });
            last = at;
        }
    }
    report.note(format!("{connections} connections of {} kinds; {refused} were refused", SORTS.len()));
    // Resources are released: handshakes time out after half a minute, everything else at once.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut open = descriptors(running.child.id());
    while open > before + 20 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(50));
        open = descriptors(running.child.id());
    }
    report.expect(open <= before + 20, || format!("{open} files and sockets are open, {before} were"));
    running.check(&mut report)?;
    Ok(report)
}

/// Number of open files and sockets of a process.
fn descriptors(id: u32) -> usize {
    std::fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count)
}
