//! Documents of manifests, and objects as output.

use std::path::PathBuf;

use serde_json::Value;
use settled_manifest::{Batch, Splitter};

use crate::cli::machines::ObjectOutput;
use crate::error::CommandError;
use crate::inputs::Inputs;
use crate::output;
use crate::row::Reader;

/// All documents of files, directories, URLs and standard input. A malformed one is an error: the others must not pass for all of them.
pub(super) fn read(files: &[PathBuf]) -> Result<Vec<Value>, CommandError> {
    let (mut documents, mut malformed) = (Vec::new(), Vec::new());
    let mut reader = Reader::default();
    for input in Inputs::of(files, None) {
        let source = input.source;
        let unreadable = |error| CommandError::input_error(format!("cannot read {source}"), error);
        let mut splitter = Splitter::new(input.reader.map_err(unreadable)?);
        while let Some(batch) = splitter.next_batch(Batch::default()).map_err(unreadable)? {
            reader.objects(&batch, |found| match found {
                Ok((_, json)) => match serde_json::from_slice(json) {
                    Ok(document) => documents.push(document),
                    Err(error) => malformed.push(format!("{source}: {error}")),
                },
                Err(error) => malformed.push(format!("{source}: {error}")),
            });
        }
    }
    if !malformed.is_empty() {
        let error = CommandError::input("the input contains documents that are not objects");
        return Err(malformed.into_iter().take(10).fold(error, CommandError::detail));
    }
    if documents.is_empty() {
        return Err(CommandError::input("no objects found in the files")
            .hint("in directories, only files ending in .yaml, .yml, .json, .jsonl or .ndjson are read"));
    }
    Ok(documents)
}

/// Prints objects as YAML documents, or as a JSON list.
pub(super) fn print(objects: &[Value], format: ObjectOutput) -> Result<(), CommandError> {
    match format {
        ObjectOutput::Json => output::print_json(&objects),
        ObjectOutput::Yaml => {
            let mut yaml = Vec::new();
            for object in objects {
                yaml.extend_from_slice(b"---\n");
                // What was a value is JSON.
                settled_manifest::write_yaml(object.to_string().as_bytes(), &mut yaml).ok();
            }
            output::print(&yaml)
        }
    }
}
