//! How fast a file is read: `cargo run --release -p settled-manifest --example throughput -- FILE [MEGABYTES]`.
//!
//! The file is repeated until it is that many megabytes (400 by default), in memory. The first line is the splitter
//! alone, the second what turns its batches into objects, on the same thread.
#![allow(clippy::print_stdout, reason = "printing is all an example does")]

use std::io::{self, Read};
use std::time::{Duration, Instant};

use settled_manifest::{Batch, Item, Scratch, Splitter};

/// A file again and again.
struct Repeat<'a> {
    text: &'a [u8],
    at: usize,
    left: usize,
}

impl Read for Repeat<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len() {
            self.left = self.left.saturating_sub(1);
            self.at = 0;
        }
        if self.left == 0 {
            return Ok(0);
        }
        let count = (&self.text[self.at..]).read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or_else(|| io::Error::other("which file?"))?;
    let megabytes: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(400);
    let text = std::fs::read(file)?;
    let times = (megabytes << 20).div_ceil(text.len().max(1));
    let (mut split, mut parse) = (Duration::ZERO, Duration::ZERO);
    let (mut objects, mut malformed, mut bytes) = (0, 0, 0);
    let mut splitter = Splitter::new(Repeat { text: &text, at: 0, left: times });
    let (mut batch, mut scratch) = (Batch::default(), Scratch::default());
    loop {
        let start = Instant::now();
        let next = splitter.next_batch(batch)?;
        split += start.elapsed();
        let Some(next) = next else { break };
        let start = Instant::now();
        next.objects(&mut scratch, |item| match item {
            Item::Object(object) => {
                objects += 1;
                bytes += object.json.len();
            }
            Item::Malformed(why) => {
                if malformed == 0 {
                    println!("{why}");
                }
                malformed += 1;
            }
        });
        parse += start.elapsed();
        batch = next;
    }
    let megabytes = (times * text.len()) as f64 / 1e6;
    println!("split:   {:>8.0} MB/s", megabytes / split.as_secs_f64());
    println!("objects: {:>8.0} MB/s", megabytes / parse.as_secs_f64());
    println!("{objects} objects, {bytes} bytes of JSON; {malformed} malformed");
    Ok(())
}
