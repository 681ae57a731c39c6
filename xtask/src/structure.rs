//! Import cycles and layers: no files import each other in a cycle, and no layer imports a higher one.
//!
//! What counts is every path that begins with `crate::` or `super::`, in an import or elsewhere, outside tests. Re-exports of a parent
//! (`pub use`) are no arrow: who names a re-exported item depends on the file that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::{Outcome, root};

/// Directories of crates, each after those that it may import.
const LAYERS: [(&str, &[&str]); 1] =
    [("apiserver", &["kinds", "auth", "state", "discovery", "admission", "verbs", "http", "controllers"])];

/// Modules of crates that must do no I/O: their imports lead to no file that names one of the crates [`IO`].
const WITHOUT_IO: [(&str, &[&str]); 1] = [("tracker", &["policy", "graph", "explain", "report"])];

/// Crates that do I/O, or have the types for it.
const IO: [&str; 6] = ["settled_watch", "kube_client", "http", "http_body_util", "hyper_util", "tokio"];

/// A path of modules below the crate's root.
pub(crate) type Module = Vec<String>;

/// A crate's files by module, and what each may be reached by.
#[derive(Default)]
pub(crate) struct Crate {
    pub(crate) files: BTreeMap<Module, Source>,
}

#[derive(Default)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// The first sentence of the module's comment.
    pub(crate) purpose: String,
    /// Paths that it names, from the crate's root.
    names: BTreeSet<Module>,
    /// Names that stand for items of other modules.
    exports: BTreeMap<String, Module>,
    /// Modules whose items it re-exports, all of them.
    globs: Vec<Module>,
    /// Modules that exist in tests only.
    tests: BTreeSet<String>,
    /// What its paths begin with: other crates, for the most part.
    crates: BTreeSet<String>,
}

/// The directories of all crates, in the order of their names.
pub(crate) fn directories() -> Outcome<Vec<PathBuf>> {
    let root = root();
    let mut directories: Vec<PathBuf> =
        fs::read_dir(root.join("crates"))?.map(|entry| Ok(entry?.path())).collect::<Outcome<_>>()?;
    directories.sort();
    directories.extend(["lab", "lab/allocations", "lab/reference", "xtask"].map(|name| root.join(name)));
    directories.retain(|directory| directory.join("src").is_dir());
    Ok(directories)
}

/// Looks for circles in all crates, and for imports of layers above; false where there is one.
pub(crate) fn run() -> Outcome<bool> {
    let root = root();
    println!("{:<16} {:>5} {:>7}  circles, in files", "crate", "files", "imports");
    let (mut well, mut found, mut upwards) = (true, Vec::new(), Vec::new());
    for directory in directories()? {
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let all = Crate::read(&directory.join("src"))?;
        let arrows = all.arrows();
        let mut circles = circles(&arrows);
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        let sizes: Vec<usize> = circles.iter().map(BTreeSet::len).collect();
        let texts: Vec<String> = sizes.iter().map(usize::to_string).collect();
        let count: usize = arrows.values().map(BTreeSet::len).sum();
        let layers = LAYERS.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, layers)| layers);
        for (module, other) in upward(&arrows, layers) {
            well = false;
            upwards.push(format!("{name}: {} imports {}, a layer above it", shown(module), shown(other)));
        }
        println!("{name:<16} {:>5} {count:>7}  {}", all.files.len(), texts.join(", "));
        for (_, modules) in WITHOUT_IO.iter().filter(|(of, _)| *of == name) {
            for missing in modules.iter().filter(|module| !all.has(module)) {
                well = false;
                upwards.push(format!("{name}: there is no module {missing}"));
            }
            for (module, io) in all.reaching(&arrows, modules, &IO) {
                well = false;
                upwards
                    .push(format!("{name}: {} must do no I/O, and its imports lead to {io}", shown(&module)));
            }
        }
        if !circles.is_empty() {
            well = false;
            found.push((name, all, arrows, circles));
        }
    }
    for upward in upwards {
        println!("\n{upward}");
    }
    for (name, all, arrows, circles) in found {
        println!("\n{name}: files import each other in circles");
        for circle in circles {
            println!("  a circle of {} files:", circle.len());
            for module in &circle {
                let Some(source) = all.files.get(module) else { continue };
                let others = arrows.get(module).into_iter().flatten().filter(|other| circle.contains(*other));
                let others: Vec<String> = others.map(shown).collect();
                println!(
                    "    {} imports {}",
                    source.path.strip_prefix(&root).unwrap_or(&source.path).display(),
                    others.join(", ")
                );
            }
        }
    }
    Ok(well)
}

fn shown(module: &Module) -> String {
    if module.is_empty() { "the root".to_owned() } else { module.join("::") }
}

impl Crate {
    pub(crate) fn read(directory: &Path) -> Outcome<Self> {
        let mut all = Self::default();
        all.read_directory(directory, &Vec::new())?;
        // Files that only tests have.
        let tests: Vec<Module> = all
            .files
            .iter()
            .flat_map(|(module, source)| {
                source.tests.iter().map(move |name| [module.clone(), vec![name.clone()]].concat())
            })
            .collect();
        all.files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Ok(all)
    }

    fn read_directory(&mut self, directory: &Path, module: &Module) -> Outcome<()> {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                self.read_directory(&path, &[module.clone(), vec![name]].concat())?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let of = match &*name {
                    "lib" | "main" | "mod" => module.clone(),
                    _ => [module.clone(), vec![name]].concat(),
                };
                let source = Source::read(path.clone(), &fs::read_to_string(&path)?, &of)?;
                self.files.insert(of, source);
            }
        }
        Ok(())
    }

    /// How far each file is from those that import no other file of the crate.
    pub(crate) fn levels(&self) -> BTreeMap<Module, usize> {
        let arrows = self.arrows();
        let mut levels: BTreeMap<Module, usize> = arrows.keys().map(|module| (module.clone(), 0)).collect();
        // As often as there are files: no way without a circle is longer.
        for _ in 0..arrows.len() {
            let mut changed = false;
            for (module, others) in &arrows {
                let below = others.iter().filter_map(|other| levels.get(other)).max();
                let level = below.map_or(0, |below| below + 1).min(arrows.len());
                changed |= levels.insert(module.clone(), level) != Some(level);
            }
            if !changed {
                break;
            }
        }
        levels
    }

    /// The files of these modules that depend on a file which names one of these crates, each with the first of them.
    fn reaching(
        &self,
        arrows: &BTreeMap<Module, BTreeSet<Module>>,
        modules: &[&str],
        crates: &[&'static str],
    ) -> Vec<(Module, &'static str)> {
        let of_modules = |file: &&Module| file.first().is_some_and(|first| modules.contains(&&**first));
        let named = |file: &Module| {
            let mut files = reach(arrows, file);
            files.insert(file.clone());
            let mut found = files
                .iter()
                .filter_map(|file| self.files.get(file))
                .flat_map(|source| crates.iter().copied().filter(|name| source.crates.contains(*name)));
            found.next()
        };
        self.files.keys().filter(of_modules).filter_map(|file| Some((file.clone(), named(file)?))).collect()
    }

    /// Whether there is a module of this name below the crate's root.
    fn has(&self, module: &str) -> bool {
        self.files.keys().any(|file| file.first().is_some_and(|first| first == module))
    }

    /// Which file each file depends on.
    fn arrows(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let mut arrows = BTreeMap::new();
        for (module, source) in &self.files {
            let targets = source.names.iter().filter_map(|name| self.file_of(name, 0));
            let others: BTreeSet<Module> = targets.filter(|target| target != module).collect();
            arrows.insert(module.clone(), others);
        }
        arrows
    }

    /// The file that has the item of this path.
    fn file_of(&self, path: &[String], depth: usize) -> Option<Module> {
        let length = (0..=path.len()).rev().find(|length| self.files.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(length);
        let source = self.files.get(module)?;
        if depth < 8
            && let Some(item) = rest.first()
        {
            if let Some(target) = source.exports.get(item) {
                return self.file_of(&[&target[..], &rest[1..]].concat(), depth + 1);
            }
            // Whatever is not its own may come from a module of which it re-exports everything; its own items are the rule.
            if let [glob] = &source.globs[..]
                && source.exports.is_empty()
            {
                return self.file_of(glob, depth + 1);
            }
        }
        Some(module.to_vec())
    }
}

impl Source {
    fn read(path: PathBuf, text: &str, module: &Module) -> Outcome<Self> {
        let mut source = Self { path, purpose: purpose(text), ..Self::default() };
        let text = without_comments(text);
        let tests = Regex::new(r"#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))? )?mod ([a-z_0-9]+)(;| \{)")?;
        let mut code = &text[..];
        for found in tests.captures_iter(&text) {
            match &found[2] {
                ";" => drop(source.tests.insert(found[1].to_owned())),
                // The tests of a file are its end.
                _ => code = &text[..found.get(0).map_or(text.len(), |all| all.start())],
            }
        }
        let begins = Regex::new(r"(?m)(?:^|[^A-Za-z0-9_:])([a-z_][a-z0-9_]*)::")?;
        source.crates = begins.captures_iter(code).map(|found| found[1].to_owned()).collect();
        let uses = Regex::new(r"(?m)^\s*(pub(?:\([a-z: ]+\))? )?use ([^;]+);")?;
        for found in uses.captures_iter(code) {
            let is_export = found.get(1).is_some();
            let mut leaves = Vec::new();
            tree(&found[2].split_whitespace().collect::<Vec<_>>().join(" "), &[], &mut leaves);
            for (leaf, called) in leaves {
                let Some(leaf) = absolute(&leaf, module) else { continue };
                if !is_export {
                    source.names.insert(leaf);
                } else if called == "*" {
                    source.globs.push(leaf);
                } else {
                    source.exports.insert(called, leaf);
                }
            }
        }
        let code = uses.replace_all(code, "");
        let paths =
            Regex::new(r"\b(?:crate|(?:super::)+|super)(?:::[A-Za-z_0-9]+)+|\b(?:super::)+[A-Za-z_0-9:]+")?;
        for found in paths.find_iter(&code) {
            let path: Module =
                found.as_str().split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
            source.names.extend(absolute(&path, module));
        }
        Ok(source)
    }
}

/// The first sentence of the comment at the begin of a file.
fn purpose(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let end = paragraph.find(". ").unwrap_or(paragraph.len());
    paragraph[..end].trim_end_matches('.').to_owned()
}

/// The code without comments and texts, which may name anything.
fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for line in text.lines() {
        let trimmed = line.trim_start();
        if !trimmed.starts_with("//") {
            code.push_str(line.split(" // ").next().unwrap_or_default());
        }
        code.push('\n');
    }
    code
}

/// The paths of an import, and what each is called here.
fn tree(text: &str, before: &[String], leaves: &mut Vec<(Module, String)>) {
    let text = text.trim();
    let Some((head, list)) = text.split_once('{') else {
        let (path, called) =
            text.split_once(" as ").map_or((text, None), |(path, called)| (path, Some(called)));
        let mut parts: Module = before.to_vec();
        parts.extend(path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()));
        let last = parts.last().cloned().unwrap_or_default();
        if matches!(&*last, "self" | "*") {
            parts.pop();
        }
        let own = if last == "self" { parts.last().cloned().unwrap_or_default() } else { last };
        leaves.push((parts, called.map_or(own, |called| called.trim().to_owned())));
        return;
    };
    let mut before = before.to_vec();
    before.extend(head.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()));
    let list = list.trim_end().strip_suffix('}').unwrap_or(list);
    let (mut depth, mut start) = (0_usize, 0);
    for (at, char) in list.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                tree(&list[start..at], &before, leaves);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !list[start..].trim().is_empty() {
        tree(&list[start..], &before, leaves);
    }
}

/// The path from the crate's root; nothing for one of another crate.
fn absolute(path: &[String], module: &Module) -> Option<Module> {
    match path.first().map(String::as_str) {
        Some("crate") => Some(path[1..].to_vec()),
        Some("self") => Some([&module[..], &path[1..]].concat()),
        Some("super") => {
            let up = path.iter().take_while(|part| *part == "super").count();
            let parent = module.len().checked_sub(up).and_then(|length| module.get(..length))?;
            Some([parent, &path[up..]].concat())
        }
        _ => None,
    }
}

/// The files that a file depends on, directly or not.
fn reach(arrows: &BTreeMap<Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<Module> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
    while let Some(module) = open.pop() {
        for next in arrows.get(&module).into_iter().flatten() {
            if seen.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    seen
}

/// The sets of more than one file that can all reach each other.
fn circles(arrows: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        arrows.keys().map(|module| (module, reach(arrows, module))).collect();
    let mut circles: Vec<BTreeSet<Module>> = Vec::new();
    for (module, seen) in &reached {
        if !seen.contains(*module) || circles.iter().any(|circle| circle.contains(*module)) {
            continue;
        }
        let back = |other: &&Module| reached.get(*other).is_some_and(|seen| seen.contains(*module));
        circles.push(seen.iter().filter(back).cloned().collect());
    }
    circles.retain(|circle| circle.len() > 1);
    circles
}

/// Imports of files in layers above the importing file's own.
fn upward<'a>(
    arrows: &'a BTreeMap<Module, BTreeSet<Module>>,
    layers: &[&str],
) -> Vec<(&'a Module, &'a Module)> {
    let layer =
        |module: &Module| layers.iter().position(|layer| module.first().is_some_and(|first| first == layer));
    let pairs = arrows.iter().flat_map(|(module, others)| others.iter().map(move |other| (module, other)));
    let is_upward = |(module, other): &(&Module, &Module)| {
        layer(module).zip(layer(other)).is_some_and(|(from, to)| from < to)
    };
    pairs.filter(is_upward).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(files: &[(&str, &str)]) -> Crate {
        let mut all = Crate::default();
        for (module, text) in files {
            let module: Module =
                module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
            let source = Source::read(PathBuf::new(), text, &module).expect("it is read");
            all.files.insert(module, source);
        }
        all
    }

    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let circles = circles(&all(files).arrows());
        circles.iter().map(|circle| circle.iter().map(shown).collect()).collect()
    }

    #[test]
    fn circles_are_found_through_imports_and_paths() {
        let files = [
            ("", "mod a;\nmod b;\nmod c;\npub use a::A;\n"),
            ("a", "use crate::b::{self, B};\n"),
            ("b", "fn f() { crate::c::g() }\n"),
            ("c", "use super::a::A as Other;\n"),
        ];
        assert_eq!(circles_of(&files), [["a", "b", "c"]]);
    }

    #[test]
    fn re_exports_tests_and_comments_are_no_arrows() {
        let files = [
            ("", "mod a;\nmod b;\npub use crate::a::A;\npub use crate::b::B;\n"),
            // By the root it comes to b, and b doesn't come back.
            ("a", "use crate::B;\n"),
            (
                "b",
                "//! Beside [`crate::a`].\nfn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
            ),
        ];
        assert_eq!(circles_of(&files), Vec::<Vec<String>>::new());
        let arrows = all(&files).arrows();
        assert_eq!(arrows[&vec!["a".to_owned()]], BTreeSet::from([vec!["b".to_owned()]]));
    }

    #[test]
    fn layers_import_only_layers_below() {
        let files = [
            ("", "mod kinds;\nmod state;\nmod error;\n"),
            ("error", "use crate::state::State;\n"),
            ("kinds", "mod table;\n"),
            ("kinds::table", "use crate::state::call::Call;\nuse crate::error::Error;\n"),
            ("state", "use crate::kinds::table::Table;\nuse crate::state::call::Call;\n"),
            ("state::call", "use crate::kinds::table::Table;\n"),
        ];
        let arrows = all(&files).arrows();
        let found = upward(&arrows, &["kinds", "state"]);
        let found: Vec<[String; 2]> =
            found.iter().map(|(module, other)| [shown(module), shown(other)]).collect();
        assert_eq!(found, [["kinds::table", "state::call"]]);
        assert!(upward(&arrows, &[]).is_empty());
    }

    #[test]
    fn imports_lead_to_crates_through_other_files() {
        let files = [
            ("", "mod a;\nmod b;\nmod c;\nmod d;\n"),
            ("a", "use crate::b::B;\n"),
            ("a::x", "use crate::d::D;\n"),
            ("b", "use crate::c::C;\n"),
            ("c", "fn f() { tokio::spawn(g()) }\n"),
            (
                "d",
                "//! Beside [`tokio::time`].\npub use http::Method;\nuse std::fs;\n#[cfg(test)]\nmod tests {\n    use tokio::fs;\n}\n",
            ),
        ];
        let all = all(&files);
        let arrows = all.arrows();
        let found = |modules: &[&str], crates: &[&'static str]| -> Vec<String> {
            let found = all.reaching(&arrows, modules, crates);
            found.iter().map(|(module, name)| format!("{} {name}", shown(module))).collect()
        };
        assert_eq!(found(&["a", "d"], &["tokio"]), ["a tokio"]);
        assert_eq!(found(&["a", "d"], &["http"]), ["a::x http", "d http"]);
        assert_eq!(found(&["a", "b"], &["hyper"]), Vec::<String>::new());
    }

    #[test]
    fn lists_of_imports_are_trees() {
        let mut leaves = Vec::new();
        tree("crate::{a::{self, A}, b::B as C, c::*}", &[], &mut leaves);
        let leaves: Vec<(String, String)> =
            leaves.into_iter().map(|(path, called)| (path.join("::"), called)).collect();
        let wanted = [("crate::a", "a"), ("crate::a::A", "A"), ("crate::b::B", "C"), ("crate::c", "*")];
        assert_eq!(leaves, wanted.map(|(path, called)| (path.to_owned(), called.to_owned())));
    }
}
