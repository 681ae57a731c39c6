//! Benchmark of `settled status` on large dumps: throughput and peak memory.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::bench::generate::{self, NAME_MARK, Random, SEED, write_yaml};
use crate::bench::page::Page;
use crate::measure::{Table, figure};
use crate::process::{self, Usage};
use crate::{Outcome, corpora, oracle, server};

/// Maximum memory for a dump of any size.
const PEAK_BAR: u64 = 64 * 1024 * 1024;
/// Minimum throughput of one core on JSON, in bytes per second of CPU time.
const SPEED_BAR: f64 = 400e6;
/// The same on custom resources, each of which needs a rule of the pack.
const RULES_SPEED_BAR: f64 = 300e6;

/// Format of a dump.
#[derive(Clone, Copy)]
enum Layout {
    JsonLines,
    /// JSON lines of custom resources with rules in the pack, as an API server returns them.
    CustomResources,
    /// The same as bare as the pack's cases are.
    BareResources,
    /// One `List`, indented, as `kubectl get -o json` prints it.
    PrettyList,
    /// Documents with `---` between them.
    Yaml,
}

struct Dump {
    layout: Layout,
    about: &'static str,
    file: PathBuf,
    objects: u64,
    bytes: u64,
}

/// Generates missing dumps, runs the release binary on them, and prints. False if a bar is missed, except in a smoke
/// run.
pub(crate) fn run(smoke: bool, write_docs: bool) -> Outcome<bool> {
    let mut page = Page::new("status", write_docs && !smoke);
    page.machine("cargo xtask bench status --write-docs")?;
    let binary = server::binary()?;
    let wanted = if smoke { 50_000_000 } else { 1_000_000_000 };
    let yaml_wanted = wanted / 5;
    let dumps = [
        dump(Layout::JsonLines, "JSON lines", wanted)?,
        dump(Layout::CustomResources, "JSON lines, custom resources", wanted)?,
        dump(Layout::BareResources, "JSON lines, custom resources, bare", wanted / 5)?,
        dump(Layout::PrettyList, "JSON, one pretty List", wanted)?,
        dump(Layout::Yaml, "YAML documents", yaml_wanted)?,
    ];

    page.line(&format!(
        "Seed {SEED:#x}. Custom resources are objects of the pack's own cases, of {TEMPLATES} kinds or fewer, with the metadata \
         that an API server adds; bare ones have none of it, and are a fifth of the size. The other dumps hold Deployments, Pods and small objects. With the \
         pack, as users run it, and without (`--no-builtin-rules`).",
    ));
    let mut table = Table::new([
        "dump",
        "MB",
        "objects",
        "output",
        "pack",
        "wall s",
        "CPU s",
        "MB/s",
        "MB/s per core",
        "peak MB",
        "exit code",
    ]);
    let mut missed = Vec::new();
    for dump in &dumps {
        // The first command would read from the disk, and the others from the page cache.
        std::io::copy(&mut File::open(&dump.file)?, &mut std::io::sink())?;
        let is_custom = matches!(dump.layout, Layout::CustomResources | Layout::BareResources);
        let runs = [("jsonl", true), ("table", true), ("jsonl", false)];
        for (output, pack) in runs.into_iter().filter(|(_, pack)| *pack || is_custom) {
            let usage = run_once(&binary, dump, output, pack)?;
            let Usage { wall, cpu, peak_bytes, exit_code } = usage;
            let per_core = dump.bytes as f64 / cpu.as_secs_f64();
            // 0, 1 and 3 are verdicts; other codes are errors.
            if !matches!(exit_code, Some(0 | 1 | 3)) {
                return Err(
                    format!("settled status -f {} ended with {exit_code:?}", dump.file.display()).into()
                );
            }
            if peak_bytes > PEAK_BAR {
                missed.push(format!("{}, {output}: memory", dump.about));
            }
            let bar = match dump.layout {
                Layout::JsonLines | Layout::PrettyList => SPEED_BAR,
                Layout::CustomResources | Layout::BareResources if pack => RULES_SPEED_BAR,
                _ => 0.0,
            };
            if output == "jsonl" && per_core < bar {
                missed.push(format!("{}, {output}: speed", dump.about));
            }
            table.row([
                dump.about.to_owned(),
                figure(dump.bytes as f64 / 1e6),
                dump.objects.to_string(),
                output.to_owned(),
                if pack { "yes" } else { "no" }.to_owned(),
                figure(wall.as_secs_f64()),
                figure(cpu.as_secs_f64()),
                figure(dump.bytes as f64 / 1e6 / wall.as_secs_f64()),
                figure(per_core / 1e6),
                figure(peak_bytes as f64 / 1024.0 / 1024.0),
                exit_code.map_or_else(String::new, |code| code.to_string()),
            ]);
        }
    }
    page.table(&table);
    page.line(&format!(
        "Bars: at most {} MB of memory on every dump, at least {:.0} MB/s per core on JSON of built-in kinds to jsonl, {:.0} on that of \
         custom resources with the pack: {}.",
        PEAK_BAR / 1024 / 1024,
        SPEED_BAR / 1e6,
        RULES_SPEED_BAR / 1e6,
        if missed.is_empty() { "met".to_owned() } else { format!("MISSED: {}", missed.join("; ")) }
    ));
    page.publish()?;
    Ok(smoke || missed.is_empty())
}

fn run_once(binary: &Path, dump: &Dump, output: &str, pack: bool) -> Outcome<Usage> {
    process::run_measured(
        Command::new(binary)
            .args(["status", "-o", output])
            .args((!pack).then_some("--no-builtin-rules"))
            .arg("-f")
            .arg(&dump.file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )
}

/// Number of distinct objects in a dump; each gets a unique name.
const TEMPLATES: usize = 200;

/// Templates of a dump, large and small, so that the average in JSON lines is 10 KB.
fn templates(layout: Layout) -> Outcome<Vec<String>> {
    let mut random = Random::new(SEED);
    if matches!(layout, Layout::CustomResources | Layout::BareResources) {
        let objects = custom_resources(TEMPLATES)?.into_iter();
        return Ok(match layout {
            Layout::BareResources => objects.map(|object| format!("{object}\n")).collect(),
            _ => objects.map(|object| format!("{}\n", generate::served(&mut random, &object))).collect(),
        });
    }
    (0..TEMPLATES)
        .map(|at| {
            let object = match at % 10 {
                0 => generate::small(&mut random),
                1..=4 => generate::deployment(&mut random, 10_600),
                _ => generate::pod(&mut random, 10_600),
            };
            text_of(&object, layout)
        })
        .collect()
}

/// Objects of the pack's cases, selected so that no file dominates.
pub(crate) fn custom_resources(count: usize) -> Outcome<Vec<Value>> {
    let cases = corpora::pack_cases()?;
    let step = (cases.len() / count).max(1);
    Ok(cases.into_iter().step_by(step).take(count).map(|case| case.object).collect())
}

fn text_of(object: &Value, layout: Layout) -> Outcome<String> {
    Ok(match layout {
        Layout::JsonLines | Layout::CustomResources | Layout::BareResources => format!("{object}\n"),
        Layout::PrettyList => {
            let mut bytes = Vec::new();
            let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
            let list = json!({"items": [object]});
            serde::Serialize::serialize(
                &list,
                &mut serde_json::Serializer::with_formatter(&mut bytes, formatter),
            )?;
            let text = String::from_utf8(bytes)?;
            // Indented as within `items`.
            let start = text.find('[').ok_or("no list")? + 2;
            let end = text.rfind("\n    ]").ok_or("no list")?;
            text[start..end].to_owned()
        }
        Layout::Yaml => {
            let mut text = "---\n".to_owned();
            write_yaml(object, 0, &mut text);
            text
        }
    })
}

/// Writes a dump of about `wanted` bytes to the cache, unless it exists.
fn dump(layout: Layout, about: &'static str, wanted: u64) -> Outcome<Dump> {
    let templates = templates(layout)?;
    let (name, head, separator, foot) = match layout {
        Layout::JsonLines => ("dump.jsonl", "", "", ""),
        Layout::CustomResources => ("custom.jsonl", "", "", ""),
        Layout::BareResources => ("bare.jsonl", "", "", ""),
        Layout::PrettyList => (
            "dump-list.json",
            "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n",
            ",\n",
            "\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n",
        ),
        Layout::Yaml => ("dump.yaml", "", "", ""),
    };
    // Whole objects only, up to the size: their number follows from the sizes of the templates.
    let mut bytes = (head.len() + foot.len()) as u64;
    let mut objects = 0_u64;
    while bytes < wanted {
        let separator = if objects == 0 { 0 } else { separator.len() };
        bytes += (templates[objects as usize % TEMPLATES].len() + separator) as u64;
        objects += 1;
    }

    let identity = templates.concat();
    let hash = identity
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let file = oracle::cache()?.join(format!("{hash:016x}-{}m-{name}", wanted / 1_000_000));
    let is_there = fs::metadata(&file).is_ok_and(|metadata| metadata.len() == bytes);
    if !is_there {
        let start = Instant::now();
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&file)?);
        out.write_all(head.as_bytes())?;
        for at in 0..objects {
            if at > 0 {
                out.write_all(separator.as_bytes())?;
            }
            // As long as the placeholder, so that the size is known in advance.
            let number = format!("name-{at:07}");
            for (piece_at, piece) in templates[at as usize % TEMPLATES].split(NAME_MARK).enumerate() {
                if piece_at > 0 {
                    out.write_all(number.as_bytes())?;
                }
                out.write_all(piece.as_bytes())?;
            }
        }
        out.write_all(foot.as_bytes())?;
        out.flush()?;
        println!("made {} in {:.1} s", file.display(), start.elapsed().as_secs_f64());
    }
    Ok(Dump { layout, about, file, objects, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pretty_object_is_indented_as_in_a_list() -> Outcome<()> {
        let text = text_of(&json!({"kind": "X"}), Layout::PrettyList)?;
        assert_eq!(text, "        {\n            \"kind\": \"X\"\n        }");
        Ok(())
    }

    #[test]
    fn objects_of_a_dump_have_10_kilobytes_on_average() -> Outcome<()> {
        let templates = templates(Layout::JsonLines)?;
        let mean = templates.iter().map(String::len).sum::<usize>() / templates.len();
        assert!((9_500..10_500).contains(&mean), "{mean}");
        Ok(())
    }
}
