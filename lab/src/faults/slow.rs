//! Slow watches. Each is closed after events without a gap, others see all events, and memory is bounded.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use settled_conformance::Target as _;

use super::socket::Greeting;
use super::{COLLECTION, Kept, Report, Setting, begin, config_map, name_of, request};
use crate::Outcome;

/// Size of an object.
const BYTES: usize = 60_000;
/// The queue of a watch holds 32 MiB, plus the kernel's buffers.
const OBJECTS: u64 = 1500;
const HEALTHY: usize = 3;
/// Maximum cost of a slow watch besides shared events: a chunk of events, TLS, the connection.
const EACH: u64 = 1 << 20;

pub(super) fn run(setting: &Setting) -> Outcome<Report> {
    let slow = if setting.quick { 20 } else { 200 };
    let mut report = Report::default();
    let mut running = begin(&setting.directory, Kept::InMemory)?;
    let greeting = Greeting::new(running.address, &running.ca)?;
    let watch = format!("{COLLECTION}?watch=true&labelSelector=!none&resourceVersion=");
    let (_, from) = running.list(COLLECTION)?;

    // Baseline with the final amount of history and objects, without slow watches.
    let put = |number: u64| -> Outcome<()> {
        let object = config_map(&format!("o{}", number % 20), number, BYTES);
        let path = format!("{COLLECTION}/o{}", number % 20);
        let mut answer = running.send("PUT", &path, &object)?;
        if answer.status == 404 {
            answer = running.send("POST", COLLECTION, &object)?;
        }
        if answer.status > 201 {
            return Err(format!("{path}: {} {}", answer.status, super::text(&answer.body)).into());
        }
        Ok(())
    };
    (1..=OBJECTS).try_for_each(put)?;
    let before = running.memory("VmRSS:").unwrap_or_default();
    let (_, at) = running.list(COLLECTION)?;
    report.expect(at > from, || "nothing was written".to_owned());

    let mut sleepers = Vec::new();
    for _ in 0..slow {
        sleepers.push(sleeper(&greeting, &format!("{watch}{at}"))?);
    }
    let begun = Instant::now();
    let healthy: Vec<Outcome<()>> = thread::scope(|scope| {
        let readers: Vec<_> = (0..HEALTHY)
            .map(|_| {
                let (client, path) =
                    (running.client.clone(), format!("{COLLECTION}?watch=true&resourceVersion={at}"));
                scope.spawn(move || -> Outcome<()> {
                    let lines = client.watch(&request("GET", &path, &Value::Null))?.lines;
                    let mut lines = lines.ok_or("no events come")?;
                    for wanted in OBJECTS + 1..=2 * OBJECTS {
                        let deadline = Instant::now() + super::PATIENCE;
                        let line = lines.next(deadline)?.ok_or("a watcher that reads was closed")?;
                        let found = version(&line);
                        if found != Some(wanted) {
                            return Err(format!("event {wanted} is {found:?}").into());
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let written = (OBJECTS + 1..=2 * OBJECTS).try_for_each(put);
        let mut results: Vec<Outcome<()>> = readers
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|_| Err("a reader failed".into())))
            .collect();
        results.push(written);
        results
    });
    for wrong in healthy.into_iter().filter_map(Result::err) {
        report.wrong.push(format!("beside the slow ones: {wrong}"));
    }
    let took = begun.elapsed();
    let after = running.memory("VmRSS:").unwrap_or_default();
    report.note(format!(
        "{slow} watchers that don't read, {HEALTHY} that do: {OBJECTS} events of {BYTES} bytes in {:.1} s; memory {} MB before, {} MB after",
        took.as_secs_f64(),
        before >> 20,
        after >> 20
    ));
    report.expect(after < before + slow * EACH + (64 << 20), || {
        format!("the slow watches use {} MB", after.saturating_sub(before) >> 20)
    });

    // At last they read: some events without a gap, and then the end.
    let (mut least, mut most) = (u64::MAX, 0);
    for stream in sleepers {
        let mut wanted = OBJECTS + 1;
        let mut reader = BufReader::new(stream);
        reader.get_ref().sock.set_read_timeout(Some(Duration::from_secs(10)))?;
        loop {
            let mut line = Vec::new();
            // The head and chunk sizes are not part of an event.
            match reader.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) => {}
                Err(why) => {
                    report
                        .wrong
                        .push(format!("a slow watch is not closed after event {}: {why}", wanted - 1));
                    break;
                }
            }
            if line == b"0\r\n" {
                break;
            }
            match version(&line) {
                Some(found) if found == wanted => wanted += 1,
                Some(found) => {
                    report.wrong.push(format!("a slow watch received {found} instead of {wanted}"));
                    break;
                }
                None => {}
            }
        }
        report.expect(wanted <= 2 * OBJECTS, || "a watcher that does not read was not closed".to_owned());
        least = least.min(wanted - OBJECTS - 1);
        most = most.max(wanted - OBJECTS - 1);
    }
    report.note(format!("they had received {least} to {most} events when they were closed"));
    running.check(&mut report)?;
    Ok(report)
}

/// The version of the object in an event.
fn version(line: &[u8]) -> Option<u64> {
    let event: Value = serde_json::from_slice(line).ok()?;
    let object = event.get("object")?;
    name_of(object).starts_with('o').then(|| super::number(object.pointer("/data/version"))).flatten()
}

type Stream = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

/// A watch that reads only the head of the response, with minimal kernel buffers.
fn sleeper(greeting: &Greeting, path: &str) -> Outcome<Stream> {
    let mut stream = greeting.tls_over(greeting.narrow()?, false)?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer admin-token\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.flush()?;
    Ok(stream)
}
