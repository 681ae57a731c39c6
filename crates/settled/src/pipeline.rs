//! Worker threads: one reads, some work, the calling one gets the results in the order of the input.
//!
//! Batches go to the workers in turn, and the results are taken from them in the same turn. So the order is kept
//! without sorting anything, every queue is as short as it is, and memory does not depend on the size of the input.

use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread::{self, JoinHandle};

use settled_manifest::{Batch, Limits, Splitter};

use crate::definitions;
use crate::error::CommandError;
use crate::inputs::{Input, Inputs};

/// How many batches may wait for a worker, and how many results for the writer.
const QUEUE_LENGTH: usize = 2;
/// How much all batches together should hold.
const BATCHES_BYTES: usize = 8 << 20;
/// How much they may hold: large objects make large batches, and then fewer of them are under way at once.
const BATCHES_BYTES_MAX: usize = 32 << 20;

/// Work on a batch.
pub(crate) trait Work: Clone + Send + 'static {
    /// Result of a batch. It is reused, so the work must clear it first.
    type Output: Default + Send + 'static;

    fn work(&mut self, input: &InputId, batch: &Batch, output: &mut Self::Output);

    /// About how many bytes an output holds.
    fn size(output: &Self::Output) -> usize;
}

/// Where a batch comes from.
#[derive(Clone, Debug)]
pub(crate) struct InputId {
    /// The input's name.
    pub(crate) source: Arc<str>,
    /// Counts the inputs.
    pub(crate) ordinal: u64,
    /// It can be read only once.
    pub(crate) is_stream: bool,
    /// In what syntax the very first input is written.
    pub(crate) first_syntax: Syntax,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Yaml,
}

/// Message to the calling thread.
pub(crate) enum Event<'a, O> {
    /// The next batch's results.
    Output(&'a InputId, &'a mut O),
    /// An input, or the rest of it, cannot be read.
    Unreadable(&'a InputId, &'a io::Error),
    /// An input is read to its end.
    End,
    /// Nothing to do at the moment: time to flush.
    Idle,
}

/// How to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) threads: usize,
    pub(crate) object_bytes: usize,
}

impl Settings {
    /// More threads get smaller batches, so that memory does not depend on how many there are.
    fn limits(self) -> Limits {
        let batches = self.threads * (QUEUE_LENGTH + 1);
        let default = Limits::default();
        Limits {
            batch_bytes: (BATCHES_BYTES / batches).clamp(32 << 10, default.batch_bytes),
            object_bytes: self.object_bytes,
            ..default
        }
    }
}

enum Job<T> {
    /// A batch, or what came of it; and how many bytes the batch had.
    Batch(T, usize),
    Unreadable(io::Error),
    End,
}

type Jobs<T> = (InputId, Job<T>);

/// Reads all inputs and calls `each` with what comes of them, in their order. What `each` returns as an error ends
/// the run; it is the result.
pub(crate) fn run<W: Work, E>(
    inputs: Inputs,
    settings: Settings,
    worker: &W,
    mut each: impl FnMut(Event<'_, W::Output>) -> Result<(), E>,
) -> Result<Result<(), E>, CommandError> {
    let limits = settings.limits();
    let queues = settings.threads * (QUEUE_LENGTH + 1);
    let (recycle, recycled) = mpsc::sync_channel(queues);
    // Not bounded itself: there are never more messages in it than batches under way.
    let (release, released) = mpsc::channel();
    let mut lanes = Vec::new();
    let mut job_senders = Vec::new();
    let mut handles = Vec::new();
    for _ in 0..settings.threads {
        let (job_sender, jobs) = mpsc::sync_channel(QUEUE_LENGTH);
        let (result_sender, results) = mpsc::sync_channel(QUEUE_LENGTH);
        let (spare_sender, spares) = mpsc::sync_channel(QUEUE_LENGTH + 1);
        let lane = Lane { jobs, results: result_sender, spares, recycle: recycle.clone() };
        let worker = worker.clone();
        handles.push(spawn("worker", move || lane.work(&worker, limits.batch_bytes))?);
        job_senders.push(job_sender);
        lanes.push((results, spare_sender));
    }
    drop(recycle);
    let mut dealer = Dealer { workers: job_senders, turn: 0, released, under_way: 0 };
    handles.push(spawn("reader", move || {
        // An error means that the receiver is gone.
        read(inputs, limits, &recycled, &mut dealer).ok();
    })?);

    for (results, spares) in lanes.iter().cycle() {
        let received = match results.try_recv() {
            Err(TryRecvError::Empty) => {
                if let Err(error) = each(Event::Idle) {
                    return Ok(Err(error));
                }
                results.recv().ok()
            }
            received => received.ok(),
        };
        // The reader has ended, and this is where its next batch would have gone: there is none.
        let Some((input, job)) = received else { break };
        let result = match job {
            Job::Batch(mut output, bytes) => {
                let result = each(Event::Output(&input, &mut output));
                if W::size(&output) <= 2 * limits.batch_bytes {
                    // Full or gone: then the output is not needed again.
                    spares.try_send(output).ok();
                }
                // Gone: then the reader is at its end.
                release.send(bytes).ok();
                result
            }
            Job::Unreadable(error) => each(Event::Unreadable(&input, &error)),
            Job::End => each(Event::End),
        };
        if let Err(error) = result {
            // The threads are left to themselves: one of them may wait for standard input for ever.
            return Ok(Err(error));
        }
    }
    // If a worker has panicked, the others and the reader learn from this that it is over.
    drop((lanes, release));
    for handle in handles {
        if let Err(panic) = handle.join() {
            std::panic::resume_unwind(panic);
        }
    }
    Ok(Ok(()))
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, CommandError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|error| CommandError::output("cannot start a thread", error).hint("try --threads 1"))
}

/// Channels of a worker thread.
struct Lane<O> {
    jobs: Receiver<Jobs<Batch>>,
    results: SyncSender<Jobs<O>>,
    /// Outputs that are done with.
    spares: Receiver<O>,
    /// Where batches go that are done with.
    recycle: SyncSender<Batch>,
}

impl<O: Default> Lane<O> {
    fn work<W: Work<Output = O>>(self, pristine: &W, batch_bytes: usize) {
        let mut worker = pristine.clone();
        for (input, job) in self.jobs {
            let job = match job {
                Job::Batch(batch, bytes) => {
                    let mut output = self.spares.try_recv().unwrap_or_default();
                    worker.work(&input, &batch, &mut output);
                    if batch.size() > 2 * batch_bytes {
                        // One large object must not leave every buffer as large for good.
                        worker = pristine.clone();
                    } else {
                        // Full or gone: then the batch is not needed again.
                        self.recycle.try_send(batch).ok();
                    }
                    Job::Batch(output, bytes)
                }
                Job::Unreadable(error) => Job::Unreadable(error),
                Job::End => Job::End,
            };
            if self.results.send((input, job)).is_err() {
                return;
            }
        }
    }
}

/// Deals batches out to the workers in turn.
struct Dealer {
    workers: Vec<SyncSender<Jobs<Batch>>>,
    turn: usize,
    /// The sizes of batches that are done with.
    released: Receiver<usize>,
    /// How many bytes are in batches that are not.
    under_way: usize,
}

/// Nobody takes the batches any more.
struct Abandoned;

impl Dealer {
    /// Waits until no batch is under way.
    fn wait(&mut self) -> Result<(), Abandoned> {
        while self.under_way > 0 {
            self.under_way -= self.released.recv().map_err(|_| Abandoned)?;
        }
        Ok(())
    }

    fn deal(&mut self, input: &InputId, job: Job<Batch>) -> Result<(), Abandoned> {
        if let Job::Batch(_, bytes) = job {
            while self.under_way > 0 && self.under_way + bytes > BATCHES_BYTES_MAX {
                self.under_way -= self.released.recv().map_err(|_| Abandoned)?;
            }
            self.under_way += bytes;
        }
        let worker = &self.workers[self.turn];
        self.turn = (self.turn + 1) % self.workers.len();
        worker.send((input.clone(), job)).map_err(|_| Abandoned)
    }
}

/// Cuts the inputs into batches.
fn read(
    inputs: Inputs,
    limits: Limits,
    recycled: &Receiver<Batch>,
    dealer: &mut Dealer,
) -> Result<(), Abandoned> {
    let mut syntax = None;
    for (ordinal, Input { source, path, reader }) in (0..).zip(inputs) {
        let mut id = InputId { source, ordinal, is_stream: path.is_none(), first_syntax: Syntax::Json };
        let reader = reader.and_then(|mut reader| {
            let begin = peek(&mut reader)?;
            syntax = syntax.or_else(|| syntax_of(&begin));
            Ok(Cursor::new(begin).chain(reader))
        });
        id.first_syntax = syntax.unwrap_or(Syntax::Json);
        let last = match reader {
            Ok(reader) => {
                let mut splitter = Splitter::with_limits(reader, limits);
                loop {
                    match splitter.next_batch(recycled.try_recv().unwrap_or_default()) {
                        Ok(Some(batch)) => {
                            let bytes = batch.size();
                            // A CRD with a rule counts for all objects after it, and for none before it.
                            let is_alone = id.is_stream && definitions::mentions(batch.text());
                            if is_alone {
                                dealer.wait()?;
                            }
                            dealer.deal(&id, Job::Batch(batch, bytes))?;
                            if is_alone {
                                dealer.wait()?;
                            }
                        }
                        Ok(None) => break Job::End,
                        Err(error) => break Job::Unreadable(error),
                    }
                }
            }
            Err(error) => Job::Unreadable(error),
        };
        dealer.deal(&id, last)?;
    }
    Ok(())
}

/// The first bytes of an input, up to and with the first that says something.
fn peek(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut begin = vec![0; 512];
    let mut length = 0;
    while length < begin.len() {
        match reader.read(&mut begin[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if syntax_of(&begin[..length]).is_some() {
            break;
        }
    }
    begin.truncate(length);
    Ok(begin)
}

/// As Go's decoder guesses: JSON if the first thing is a brace (or a bracket), YAML otherwise.
fn syntax_of(begin: &[u8]) -> Option<Syntax> {
    let begin = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin);
    match begin.iter().find(|byte| !byte.is_ascii_whitespace())? {
        b'{' | b'[' => Some(Syntax::Json),
        _ => Some(Syntax::Yaml),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[derive(Clone)]
    struct Panics;

    impl Work for Panics {
        type Output = ();

        fn work(&mut self, _: &InputId, _: &Batch, (): &mut ()) {
            panic!("as it should");
        }

        fn size((): &()) -> usize {
            0
        }
    }

    /// Part of the results must never pass for all of them.
    #[test]
    #[should_panic(expected = "as it should")]
    fn a_panic_of_a_worker_is_one_of_the_caller() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{\"kind\":\"Pod\"}\n".repeat(500_000)).unwrap();
        let cli =
            Cli::parse_from(["settled", "augment", "-f", file.path().to_str().unwrap(), "--threads", "3"]);
        let Command::Augment(args) = cli.command else { panic!("another command") };
        let inputs = Inputs::new(&args.input, "augment").unwrap();
        let settings = Settings { threads: 3, object_bytes: 1 << 20 };
        run(inputs, settings, &Panics, |_| Ok::<(), ()>(())).unwrap().unwrap();
    }

    #[test]
    fn the_first_byte_that_says_something_decides_the_syntax() {
        assert_eq!(syntax_of(b"\xef\xbb\xbf \n{"), Some(Syntax::Json));
        assert_eq!(syntax_of(b"# comment"), Some(Syntax::Yaml));
        assert_eq!(syntax_of(b"---\n{}"), Some(Syntax::Yaml));
        assert_eq!(syntax_of(b" \n"), None);
    }
}
