//! The reader from outside.
#![allow(clippy::panic, reason = "a helper of tests fails like a test")]

mod emit;
mod go_yaml;
mod limits;
mod properties;
mod stream;

use std::io::Read;

use settled_manifest::{Batch, Item, Limits, Scratch, Splitter};

/// Everything that a stream gives: the objects' text, and what is wrong as `! line 1, column 2: why`.
fn read_all(stream: impl Read, limits: Limits) -> Vec<String> {
    let mut splitter = Splitter::with_limits(stream, limits);
    let (mut batch, mut scratch, mut found) = (Batch::default(), Scratch::default(), Vec::new());
    while let Some(next) = splitter.next_batch(batch).expect("reading from memory doesn't fail") {
        next.objects(&mut scratch, |item| {
            found.push(match item {
                Item::Object(object) => {
                    String::from_utf8(object.json.to_vec()).expect("the tests' text is UTF-8")
                }
                Item::Malformed(why) => format!("! {why}"),
            });
        });
        batch = next;
    }
    found
}

/// A reader that gives so many bytes at once.
struct Trickle<'a> {
    text: &'a [u8],
    step: usize,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.step.min(self.text.len()).min(buffer.len());
        let (now, later) = self.text.split_at(count);
        buffer[..count].copy_from_slice(now);
        self.text = later;
        Ok(count)
    }
}
