//! Inputs: the files, directories, URLs and kustomizations that `-f` and `-k` name, in a stable order.

mod glob;
mod kustomize;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use crate::cli::InputArgs;
use crate::error::CommandError;

/// File name extensions that are read in directories.
const EXTENSIONS: [&str; 5] = ["yaml", "yml", "json", "jsonl", "ndjson"];

/// Something that can be read, under the name that the user knows it by.
pub(crate) struct Input {
    /// The path as it was named or found; `-` for standard input.
    pub(crate) source: Arc<str>,
    /// Where it is, if it can be read more than once.
    pub(crate) path: Option<PathBuf>,
    pub(crate) reader: io::Result<Box<dyn Read + Send>>,
}

/// Iterates the inputs directory by directory, without collecting the names of a whole tree.
pub(crate) struct Inputs {
    /// Remaining paths at each level, from the arguments down.
    levels: Vec<vec::IntoIter<Item>>,
    /// Canonical paths of visited directories, to detect loops of symbolic links.
    seen: HashSet<PathBuf>,
    /// Only what can be read more than once.
    only_files: bool,
}

/// Something to read.
enum Item {
    Path(PathBuf),
    Url(String),
    Kustomization(PathBuf),
}

impl Inputs {
    /// Checks the arguments.
    pub(crate) fn new(args: &InputArgs, command: &str) -> Result<Self, CommandError> {
        if let Some(target) = args.targets.first() {
            let error = CommandError::usage(format!(
                "`{target}`: settled {command} reads files, and looks at no cluster"
            ));
            return Err(if Path::new(target).exists() {
                error.hint(format!("to read files, pass them with -f: settled {command} -f {target}"))
            } else {
                error.hint(format!(
                    "pass files with -f, or a pipe: kubectl get {target} -o yaml | settled {command} -f -"
                ))
            });
        }
        if args.files.is_empty() && args.kustomize.is_none() {
            let error = CommandError::usage("no input");
            return Err(if io::stdin().is_terminal() {
                error.hint(format!("pass files or directories with -f: settled {command} -f FILE"))
            } else {
                error.hint(format!("to read standard input, pass -f -: settled {command} -f -"))
            });
        }
        Ok(Self::of(&args.files, args.kustomize.as_deref()))
    }

    /// These files, directories, patterns and URLs, and the kustomization in a directory; `-` is standard input.
    pub(crate) fn of(files: &[PathBuf], kustomization: Option<&Path>) -> Self {
        let mut items = Vec::new();
        for file in files {
            if let Some(url) = file.to_str().filter(|file| is_url(file)) {
                items.push(Item::Url(url.to_owned()));
                continue;
            }
            // A file may be called like a pattern. A pattern that matches nothing is the file that does not exist.
            let matching = if file.exists() { Vec::new() } else { glob::expand(file) };
            if matching.is_empty() {
                items.push(Item::Path(file.clone()));
            }
            items.extend(matching.into_iter().map(Item::Path));
        }
        items.extend(kustomization.map(|dir| Item::Kustomization(dir.to_owned())));
        Self { levels: vec![items.into_iter()], seen: HashSet::new(), only_files: false }
    }

    /// Without what can be read only once: standard input, pipes, URLs, kustomizations.
    pub(crate) fn only_files(self) -> Self {
        Self { only_files: true, ..self }
    }

    /// Files and subdirectories of a directory, sorted.
    fn list(&mut self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        if !self.seen.insert(dir.canonicalize()?) {
            return Ok(Vec::new());
        }
        let mut paths = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            // Metadata of the link target. If it is unavailable, opening the file returns the error.
            let kind = if entry.file_type()?.is_symlink() {
                fs::metadata(&path).map(|metadata| metadata.file_type())
            } else {
                entry.file_type()
            };
            let wanted = match kind {
                Ok(kind) if kind.is_dir() => true,
                Ok(kind) => kind.is_file() && has_known_extension(&path),
                Err(_) => has_known_extension(&path),
            };
            if wanted {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}

impl Iterator for Inputs {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        loop {
            let Some(item) = self.levels.last_mut()?.next() else {
                self.levels.pop();
                continue;
            };
            let path = match item {
                Item::Path(path) => path,
                Item::Url(_) | Item::Kustomization(_) if self.only_files => continue,
                Item::Url(url) => {
                    let reader = download(&url).map(in_memory);
                    return Some(Input { source: url.into(), path: None, reader });
                }
                Item::Kustomization(dir) => {
                    let reader = kustomize::build(&dir).map(in_memory);
                    return Some(Input { source: dir.to_string_lossy().into(), path: None, reader });
                }
            };
            let named = self.levels.len() == 1;
            if named && is_stdin(&path) {
                if self.only_files {
                    continue;
                }
                return Some(Input { source: "-".into(), path: None, reader: Ok(Box::new(io::stdin())) });
            }
            let source = path.to_string_lossy().into();
            if !path.is_dir() {
                let is_file = path.is_file();
                if self.only_files && !is_file {
                    continue;
                }
                let reader = File::open(&path).map(|file| Box::new(file) as Box<dyn Read + Send>);
                return Some(Input { source, path: is_file.then_some(path), reader });
            }
            match self.list(&path) {
                Ok(paths) => {
                    let paths: Vec<Item> = paths.into_iter().map(Item::Path).collect();
                    self.levels.push(paths.into_iter());
                }
                Err(error) => return Some(Input { source, path: None, reader: Err(error) }),
            }
        }
    }
}

/// The error of a run that had nothing to do: a gate that reads nothing must not open.
pub(crate) fn nothing_found(args: &InputArgs) -> CommandError {
    let name = |path| if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() };
    let names: Vec<_> = args.files.iter().chain(&args.kustomize).map(|path| name(path)).collect();
    let error = CommandError::input(format!("no objects found in {}", names.join(", ")));
    if args.files.iter().any(|path| path.is_dir()) {
        error.hint("in directories, only files ending in .yaml, .yml, .json, .jsonl or .ndjson are read")
    } else {
        error
    }
}

fn in_memory(bytes: impl Into<Vec<u8>>) -> Box<dyn Read + Send> {
    Box::new(io::Cursor::new(bytes.into()))
}

fn is_url(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

/// Nobody else runs on this thread meanwhile: files are read before anything is asked of a cluster.
fn download(url: &str) -> io::Result<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bytes = runtime.block_on(settled_tracker::connection::download(url)).map_err(io::Error::other)?;
    runtime.shutdown_background();
    Ok(bytes.into())
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == OsStr::new("-")
}

fn has_known_extension(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}
