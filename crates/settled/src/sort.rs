//! External sort: sorted runs go to a temporary file and are merged at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};

/// How many runs there may be before they are merged into one, and so how many buffers a merge needs.
const RUNS_MAX: usize = 128;
const LENGTHS: usize = 8;

/// Rows by their keys; rows of the same key in the order in which they came.
#[derive(Debug)]
pub(crate) struct Sorter {
    memory_bytes: usize,
    /// Rows that are still in memory: key and body, one after another.
    bytes: Vec<u8>,
    rows: Vec<Row>,
    spilled: Option<Spilled>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    start: usize,
    key_length: u32,
    body_length: u32,
}

#[derive(Debug)]
struct Spilled {
    file: File,
    /// Where each run ends, in the order in which they came.
    ends: Vec<u64>,
}

impl Sorter {
    pub(crate) fn new(memory_bytes: usize) -> Self {
        Self { memory_bytes, bytes: Vec::new(), rows: Vec::new(), spilled: None }
    }

    /// Takes a row; its body is in parts.
    pub(crate) fn push(&mut self, key: &[u8], body: &[&[u8]]) -> io::Result<()> {
        let body_length = body.iter().map(|part| part.len()).sum();
        let memory = self.bytes.len() + key.len() + body_length + (self.rows.len() + 1) * size_of::<Row>();
        if memory > self.memory_bytes && !self.rows.is_empty() {
            self.spill()?;
        }
        let row = Row {
            start: self.bytes.len(),
            key_length: length(key.len())?,
            body_length: length(body_length)?,
        };
        if self.bytes.capacity() == 0 {
            // Not by doubling, which would hold one and a half times as much while it copies. Untouched memory is free.
            self.bytes.reserve_exact(self.memory_bytes);
        }
        self.bytes.extend_from_slice(key);
        for part in body {
            self.bytes.extend_from_slice(part);
        }
        self.rows.push(row);
        Ok(())
    }

    /// Calls `each` with the body of every row, in order.
    pub(crate) fn finish<E: From<io::Error>>(
        mut self,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.spilled.is_none() {
            self.sort();
            return self.rows.iter().try_for_each(|row| each(self.body(*row)));
        }
        self.spill()?;
        let Self { memory_bytes, spilled: Some(mut spilled), .. } = self else { return Ok(()) };
        spilled.merge(memory_bytes, |_, body| each(body))
    }

    fn sort(&mut self) {
        let Self { bytes, rows, .. } = self;
        let key = |row: &Row| &bytes[row.start..row.start + row.key_length as usize];
        rows.sort_unstable_by(|a, b| key(a).cmp(key(b)).then(a.start.cmp(&b.start)));
    }

    fn body(&self, row: Row) -> &[u8] {
        let start = row.start + row.key_length as usize;
        &self.bytes[start..start + row.body_length as usize]
    }

    /// Writes what is in memory to the file, as one run.
    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let mut spilled = match self.spilled.take() {
            Some(mut spilled) if spilled.ends.len() >= RUNS_MAX => spilled.merged(self.memory_bytes)?,
            Some(spilled) => spilled,
            None => Spilled { file: tempfile::tempfile()?, ends: Vec::new() },
        };
        let mut writer = BufWriter::new(&spilled.file);
        let mut end = spilled.ends.last().copied().unwrap_or(0);
        writer.seek(SeekFrom::Start(end))?;
        for row in &self.rows {
            let key_end = row.start + row.key_length as usize;
            end += write_row(&mut writer, &self.bytes[row.start..key_end], self.body(*row))?;
        }
        writer.flush()?;
        drop(writer);
        spilled.ends.push(end);
        self.spilled = Some(spilled);
        self.rows.clear();
        self.bytes.clear();
        self.bytes.shrink_to(self.memory_bytes);
        Ok(())
    }
}

impl Spilled {
    /// All runs merged into one, in another file.
    fn merged(&mut self, memory_bytes: usize) -> io::Result<Self> {
        let file = tempfile::tempfile()?;
        let mut writer = BufWriter::new(&file);
        let mut end = 0;
        self.merge(memory_bytes, |key, body| {
            end += write_row(&mut writer, key, body)?;
            io::Result::Ok(())
        })?;
        writer.flush()?;
        drop(writer);
        Ok(Self { file, ends: vec![end] })
    }

    fn merge<E: From<io::Error>>(
        &mut self,
        memory_bytes: usize,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let buffer_bytes = (memory_bytes / self.ends.len().max(1)).clamp(4 << 10, 256 << 10);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut runs: Vec<Run> =
            starts.zip(&self.ends).map(|(start, end)| Run::new(start, *end, buffer_bytes)).collect();
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            let mut head = Head { key: Vec::new(), run: number, body: Vec::new() };
            if run.read_row(&mut self.file, &mut head)? {
                heads.push(Reverse(head));
            }
        }
        while let Some(mut first) = heads.peek_mut() {
            let head = &mut first.0;
            each(&head.key, &head.body)?;
            if !runs[head.run].read_row(&mut self.file, head)? {
                PeekMut::pop(first);
            }
        }
        Ok(())
    }
}

/// The next row of a run. Ordered by the key, and then by the run: earlier rows are in earlier runs.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    key: Vec<u8>,
    run: usize,
    body: Vec<u8>,
}

/// A part of the file, read through a buffer of its own.
#[derive(Debug)]
struct Run {
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    used: usize,
    buffer_bytes: usize,
    /// For a row's lengths.
    lengths: Vec<u8>,
}

impl Run {
    fn new(start: u64, end: u64, buffer_bytes: usize) -> Self {
        Self { at: start, end, buffer: Vec::new(), used: 0, buffer_bytes, lengths: Vec::new() }
    }

    /// Puts the next row into `head`; false at the end.
    fn read_row(&mut self, file: &mut File, head: &mut Head) -> io::Result<bool> {
        if self.used == self.buffer.len() && self.at == self.end {
            return Ok(false);
        }
        let mut lengths = std::mem::take(&mut self.lengths);
        self.read(file, LENGTHS, &mut lengths)?;
        let number =
            |at: usize| lengths[at..at + 4].iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte));
        let (key, body) = (number(0), number(4));
        self.lengths = lengths;
        self.read(file, key, &mut head.key)?;
        self.read(file, body, &mut head.body)?;
        Ok(true)
    }

    fn read(&mut self, file: &mut File, mut length: usize, into: &mut Vec<u8>) -> io::Result<()> {
        into.clear();
        while length > 0 {
            if self.used == self.buffer.len() {
                self.refill(file)?;
            }
            let available = &self.buffer[self.used..];
            let part = &available[..length.min(available.len())];
            into.extend_from_slice(part);
            self.used += part.len();
            length -= part.len();
        }
        Ok(())
    }

    fn refill(&mut self, file: &mut File) -> io::Result<()> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        self.buffer.resize(left.min(self.buffer_bytes), 0);
        self.used = 0;
        if self.buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.seek(SeekFrom::Start(self.at))?;
        file.read_exact(&mut self.buffer)?;
        self.at += self.buffer.len() as u64;
        Ok(())
    }
}

fn write_row(writer: &mut impl io::Write, key: &[u8], body: &[u8]) -> io::Result<u64> {
    writer.write_all(&length(key.len())?.to_le_bytes())?;
    writer.write_all(&length(body.len())?.to_le_bytes())?;
    writer.write_all(key)?;
    writer.write_all(body)?;
    Ok((LENGTHS + key.len() + body.len()) as u64)
}

fn length(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a row of more than 4 GiB"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(memory_bytes: usize, rows: &[(Vec<u8>, Vec<u8>)]) -> Vec<Vec<u8>> {
        let mut sorter = Sorter::new(memory_bytes);
        for (key, body) in rows {
            let (head, tail) = body.split_at(body.len() / 2);
            sorter.push(key, &[head, tail]).unwrap();
        }
        let mut out = Vec::new();
        sorter
            .finish(|body| {
                out.push(body.to_vec());
                io::Result::Ok(())
            })
            .unwrap();
        out
    }

    fn check(memory_bytes: usize, rows: Vec<(Vec<u8>, Vec<u8>)>) {
        let out = sorted(memory_bytes, &rows);
        let mut expected = rows;
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(out, expected.into_iter().map(|(_, body)| body).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn any_rows_come_out_sorted_and_stable_whatever_the_memory(
            memory_bytes in 1usize..500,
            rows in prop::collection::vec((prop::collection::vec(0u8..3, 0..3), prop::collection::vec(any::<u8>(), 0..40)), 0..60),
        ) {
            check(memory_bytes, rows);
        }
    }

    #[test]
    fn more_runs_than_buffers_are_merged_on_the_way() {
        let rows =
            (0..3 * RUNS_MAX as u32).map(|i| (vec![(i * 7 % 5) as u8], i.to_le_bytes().to_vec())).collect();
        check(1, rows);
    }

    #[test]
    fn a_row_may_be_larger_than_all_buffers() {
        check(
            1,
            vec![(vec![2; 5_000], vec![1; 600_000]), (vec![1; 70_000], vec![2; 300_000]), (vec![], vec![])],
        );
    }
}
