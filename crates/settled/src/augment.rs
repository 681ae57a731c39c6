//! `settled augment`: the objects of the input with `Reconciling` or `Stalled` in their conditions.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use settled_manifest::{Batch, Malformed};

use crate::arguments;
use crate::cli::{AugmentArgs, AugmentOutput};
use crate::error::CommandError;
use crate::inputs::{self, Inputs};
use crate::output::{self, Stdout, Stopped};
use crate::pipeline::{self, Event, InputId, Syntax, Work};
use crate::render::Envelope;
use crate::row::{Identity, Reader, Verdicts};
use crate::stderr;
use crate::style::Palette;
use crate::text::{self, plural};

pub(crate) fn run(args: &AugmentArgs) -> Result<ExitCode, CommandError> {
    let started = Instant::now();
    let amend = Amend::new(arguments::verdicts(&args.verdict)?, args.output);
    let inputs = Inputs::new(&args.input, "augment")?;
    amend.how.learn(&args.input);
    let mut writer = Writer { out: output::stdout(), envelope: None, input: None, document: 0 };
    let mut report = Report::default();
    let stopped = pipeline::run(inputs, arguments::settings(&args.input), &amend, |event| match event {
        Event::Output(input, objects) => writer.objects(input, objects, args.output, &mut report),
        Event::Unreadable(input, error) => {
            report.unreadable += 1;
            stderr::unreadable(&input.source, error);
            Ok(())
        }
        Event::End => {
            report.inputs += 1;
            Ok(())
        }
        Event::Idle => Ok(writer.out.flush()?),
    })?;
    Stopped::forgive(stopped.and_then(|()| writer.finish()))?;
    if report.written + report.failed + report.unreadable == 0 {
        return Err(inputs::nothing_found(&args.input));
    }
    if !args.quiet {
        report.summary(started);
    }
    Ok(ExitCode::from(if report.failed + report.unreadable > 0 { 2 } else { 0 }))
}

/// Amends objects, on any thread.
#[derive(Debug)]
struct Amend {
    how: Verdicts,
    output: Option<AugmentOutput>,
    reader: Reader,
}

impl Amend {
    fn new(how: Verdicts, output: Option<AugmentOutput>) -> Self {
        Self { how, output, reader: Reader::default() }
    }
}

impl Clone for Amend {
    fn clone(&self) -> Self {
        Self::new(self.how.clone(), self.output)
    }
}

/// The objects of one batch.
#[derive(Debug, Default)]
struct Objects {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
}

#[derive(Debug)]
enum Mark {
    /// An object that ends there in the bytes; whether it is another than it was.
    Written { end: usize, changed: bool },
    /// An object that is written as it was, and why.
    Refused { end: usize, why: String },
    /// No object, and why.
    Malformed(Malformed),
}

impl Work for Amend {
    type Output = Objects;

    fn size(objects: &Objects) -> usize {
        objects.bytes.capacity()
    }

    fn work(&mut self, input: &InputId, batch: &Batch, objects: &mut Objects) {
        let Self { how, output, reader } = self;
        let Objects { bytes, marks } = objects;
        bytes.clear();
        marks.clear();
        let output = chosen(*output, input);
        let write = |json: &[u8], bytes: &mut Vec<u8>| {
            match output {
                AugmentOutput::Yaml => {
                    bytes.extend_from_slice(b"---\n");
                    // Parsed objects are valid JSON.
                    settled_manifest::write_yaml(json, bytes).ok();
                }
                AugmentOutput::Json | AugmentOutput::Jsonl => settled_manifest::minify(json, bytes),
            }
            bytes.len()
        };
        let rules = Arc::clone(&how.rules);
        reader.objects_with_rules(input, batch, &rules, |found| {
            marks.push(match found {
                Err(error) => Mark::Malformed(error),
                Ok((object, json)) => match how.rules.augment(json, &how.options) {
                    Ok(amended) => Mark::Written { end: write(&amended, bytes), changed: amended != json },
                    Err(error) => {
                        let why = format!("{}: {error}", Identity::of(object));
                        Mark::Refused { end: write(json, bytes), why }
                    }
                },
            });
        });
    }
}

/// The format of the output: as asked for, or that of the first input.
fn chosen(asked: Option<AugmentOutput>, input: &InputId) -> AugmentOutput {
    asked.unwrap_or(match input.first_syntax {
        Syntax::Json => AugmentOutput::Jsonl,
        Syntax::Yaml => AugmentOutput::Yaml,
    })
}

struct Writer {
    out: Stdout,
    /// Not before the first object: only then the format is known.
    envelope: Option<Envelope>,
    input: Option<u64>,
    document: u64,
}

impl Writer {
    fn objects(
        &mut self,
        input: &InputId,
        objects: &Objects,
        asked: Option<AugmentOutput>,
        report: &mut Report,
    ) -> Result<(), Stopped> {
        if self.input.replace(input.ordinal) != Some(input.ordinal) {
            self.document = 0;
        }
        let envelope = self.envelope.get_or_insert_with(|| match chosen(asked, input) {
            AugmentOutput::Json => Envelope::LIST,
            AugmentOutput::Jsonl => Envelope::LINES,
            AugmentOutput::Yaml => Envelope::DOCUMENTS,
        });
        let mut start = 0;
        for mark in &objects.marks {
            let document = self.document;
            self.document += 1;
            let end = match mark {
                Mark::Written { end, changed } => {
                    report.changed += u64::from(*changed);
                    *end
                }
                Mark::Refused { end, why } => {
                    report.failed += 1;
                    complain(&format!("{}#{document}: {why}; written unchanged", input.source));
                    *end
                }
                Mark::Malformed(error) => {
                    report.failed += 1;
                    complain(&format!("{}#{document}: {error}; omitted", input.source));
                    continue;
                }
            };
            report.written += 1;
            envelope.row(&mut self.out, &[&objects.bytes[start..end]])?;
            start = end;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Stopped> {
        if let Some(envelope) = self.envelope {
            envelope.end(&mut self.out)?;
        }
        Ok(self.out.flush()?)
    }
}

fn complain(message: &str) {
    stderr::print_line(&format!("{} {}", Palette::stderr().error("error:"), text::clean(message)));
}

#[derive(Debug, Default)]
struct Report {
    written: u64,
    changed: u64,
    /// Objects that could not be amended, and documents that could not be read.
    failed: u64,
    inputs: u64,
    unreadable: u64,
}

impl Report {
    fn summary(&self, started: Instant) {
        let Self { written, changed, inputs, .. } = self;
        stderr::print_line(&format!(
            "{} written, {changed} of them changed ({}, {})",
            plural(*written, "object"),
            plural(*inputs, "file"),
            text::elapsed(started.elapsed()),
        ));
    }
}
