//! The program that holds a reference implementation: lines of JSON in, a line of JSON for each out.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use serde_json::Value;

/// Arguments of a suite with generated inputs: `COUNT [SEED] [--record FILE COUNT]`.
pub(crate) struct Arguments {
    pub(crate) count: usize,
    pub(crate) seed: u64,
    record: Option<(PathBuf, usize)>,
    recorded: String,
}

impl Arguments {
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let number = |word: &str| word.parse::<u64>().map_err(|error| format!("{word:?}: {error}"));
        let size = |word: &str| word.parse::<usize>().map_err(|error| format!("{word:?}: {error}"));
        let [count, rest @ ..] = words else { return Err("COUNT is missing".to_owned()) };
        let (seed, rest) = match rest {
            [seed, rest @ ..] if !seed.starts_with("--") => (number(seed)?, rest),
            rest => (1, rest),
        };
        let record = match rest {
            [] => None,
            [flag, file, most] if flag == "--record" => Some((file.into(), size(most)?)),
            rest => return Err(format!("not understood: {}", rest.join(" "))),
        };
        Ok(Self { count: size(count)?, seed, record, recorded: String::new() })
    }

    /// Keeps an answer for the file of recorded ones, if it is among the first that are wanted.
    pub(crate) fn keep(&mut self, number: usize, answer: &Value) {
        if self.record.as_ref().is_some_and(|(_, most)| number < *most) {
            self.recorded.push_str(&answer.to_string());
            self.recorded.push('\n');
        }
    }

    /// Writes what was recorded; the exit code of the suite.
    pub(crate) fn finish(self, different: usize) -> ExitCode {
        if let Some((file, _)) = self.record
            && let Err(error) = std::fs::write(&file, self.recorded)
        {
            println!("{}: {error}", file.display());
            return ExitCode::from(2);
        }
        ExitCode::from(u8::from(different > 0))
    }
}

/// A running reference implementation.
pub(crate) struct Program {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(crate) fn start(path: &str) -> Result<Self, String> {
        Self::start_with(path, &[])
    }

    pub(crate) fn start_with(path: &str, arguments: &[&String]) -> Result<Self, String> {
        let started = Command::new(path).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| format!("{path}: {error}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{path}: has no standard input and output"));
        };
        Ok(Self { child, input, output: BufReader::new(output).lines() })
    }

    /// Sends a question without waiting for its answer.
    pub(crate) fn send(&mut self, question: &Value) -> Result<(), String> {
        writeln!(self.input, "{question}").map_err(|error| format!("writing {question}: {error}"))
    }

    /// The next answer.
    pub(crate) fn receive(&mut self) -> Result<Value, String> {
        let line = self.output.next().ok_or("the reference implementation ended before its answer")?;
        let line = line.map_err(|error| error.to_string())?;
        serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))
    }

    pub(crate) fn ask(&mut self, question: &Value) -> Result<Value, String> {
        self.send(question)?;
        self.receive()
    }

    /// Sends a text, and returns all lines that the program answers with until it ends.
    pub(crate) fn answer_all(self, text: String) -> Result<Vec<String>, String> {
        let Self { mut child, mut input, output } = self;
        // Beside reading: the program may answer before it has read all.
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
        let lines = output.collect::<Result<Vec<String>, _>>().map_err(|error| error.to_string())?;
        let written = writer.join().map_err(|_| "the writer panicked")?;
        let status = child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("the reference implementation ended with {status}"));
        }
        written.map_err(|error| error.to_string())?;
        Ok(lines)
    }

    /// Ends the program, which reads the end of its input.
    pub(crate) fn finish(self) -> Result<(), String> {
        let Self { mut child, input, output: _ } = self;
        drop(input);
        child.wait().map(drop).map_err(|error| error.to_string())
    }
}

/// The answers to all questions, by a program that is started for them.
pub(crate) fn answers(path: &str, questions: &[Value]) -> Result<Vec<Value>, String> {
    let text: String = questions.iter().map(|question| format!("{question}\n")).collect();
    let lines = Program::start(path)?.answer_all(text)?;
    let answers = lines.iter().map(|line| serde_json::from_str(line).map_err(|e| format!("{line}: {e}")));
    let answers = answers.collect::<Result<Vec<Value>, _>>()?;
    if answers.len() != questions.len() {
        return Err(format!("{} questions, {} answers", questions.len(), answers.len()));
    }
    Ok(answers)
}
