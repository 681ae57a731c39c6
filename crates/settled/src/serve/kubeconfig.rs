//! `--kubeconfig FILE`: merges the server's entries into a kubeconfig.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use settled_apiserver::auth::certificates::write_private;

use crate::error::CommandError;
use crate::stderr;

/// Marks clusters as written here; others of the same name are left alone.
const MARK: &str = "settled-serve";
/// The lists of a kubeconfig, and what an entry holds.
const LISTS: [(&str, &str); 3] = [("clusters", "cluster"), ("contexts", "context"), ("users", "user")];
/// How long to wait for another program that writes the file, and how often to look.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// Entries that were added to a file.
pub(super) struct Merged {
    path: PathBuf,
    name: String,
    ours: Value,
    /// The current context of before.
    previous: Option<String>,
    /// There was no file before.
    created: bool,
    temporary: bool,
}

impl Merged {
    /// Adds the entries of a kubeconfig, which are called `name`, to a file, and makes theirs the current context. Those of a
    /// temporary server are taken out again when this is dropped.
    pub(super) fn add(path: &Path, name: &str, ours: &str, temporary: bool) -> Result<Self, CommandError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        // Renaming would replace a link.
        let path = fs::canonicalize(&path).unwrap_or(path);
        let failed = |error: io::Error| {
            CommandError::input_error(format!("cannot write the kubeconfig {}", path.display()), error)
        };
        let mut ours = parse(ours.as_bytes()).map_err(CommandError::input)?;
        mark(&mut ours);
        let lock = FileLock::new(&path).map_err(failed)?;
        let (before, previous, created) = match fs::read(&path) {
            Ok(text) => {
                let before = parse(&text)
                    .map_err(|error| CommandError::input(format!("{}: {error}", path.display())))?;
                let previous = before["current-context"].as_str().map(str::to_owned);
                (before, previous, false)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => (Value::Null, None, true),
            Err(error) => return Err(failed(error)),
        };
        let after = merge(before, &ours, name).map_err(|conflict| {
            CommandError::usage(format!("{} has another {conflict} named {name:?}", path.display()))
                .hint("choose another name with --name NAME")
        })?;
        write(&path, &after).map_err(failed)?;
        drop(lock);
        Ok(Self { path, name: name.to_owned(), ours, previous, created, temporary })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn remove(&self) -> io::Result<()> {
        let _lock = FileLock::new(&self.path)?;
        let before = parse(&fs::read(&self.path)?).map_err(io::Error::other)?;
        let after = without(before, &self.ours, &self.name, self.previous.as_deref());
        match self.created && is_empty(&after) {
            true => fs::remove_file(&self.path),
            false => write(&self.path, &after),
        }
    }
}

impl Drop for Merged {
    fn drop(&mut self) {
        if self.temporary
            && let Err(error) = self.remove()
            && error.kind() != ErrorKind::NotFound
        {
            let path = self.path.display();
            stderr::print_line(&format!("warning: cannot remove {:?} from {path}: {error}", self.name));
        }
    }
}

/// As client-go locks a kubeconfig: by a file beside it.
struct FileLock(PathBuf);

impl FileLock {
    fn new(path: &Path) -> io::Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".lock");
        let lock = path.with_file_name(name);
        for attempt in 1.. {
            match File::create_new(&lock) {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < LOCK_ATTEMPTS => {
                    std::thread::sleep(LOCK_INTERVAL);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let why = format!("another program has locked {}", lock.display());
                    return Err(io::Error::new(ErrorKind::AlreadyExists, why));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self(lock))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let _best_effort = fs::remove_file(&self.0);
    }
}

fn parse(text: &[u8]) -> Result<Value, String> {
    let mut json = Vec::new();
    settled_manifest::yaml_to_json(text, &mut json).map_err(|error| error.to_string())?;
    let config: Value = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    let fits =
        LISTS.iter().all(|(list, _)| matches!(config.get(*list), None | Some(Value::Null | Value::Array(_))));
    match config {
        Value::Object(_) | Value::Null if fits => Ok(config),
        _ => Err("it is not a kubeconfig".to_owned()),
    }
}

fn write(path: &Path, config: &Value) -> io::Result<()> {
    let mut yaml = Vec::new();
    settled_manifest::write_yaml(config.to_string().as_bytes(), &mut yaml)
        .map_err(|error| io::Error::other(error.to_string()))?;
    write_private(path, &yaml).map_err(io::Error::other)
}

fn named<'a>(config: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    config.get(list)?.as_array()?.iter().find(|entry| entry["name"] == name)
}

fn mark(ours: &mut Value) {
    let clusters = ours.get_mut("clusters").and_then(Value::as_array_mut);
    for cluster in clusters.into_iter().flatten() {
        cluster["cluster"]["extensions"] = json!([{"name": MARK, "extension": {"provider": "settled.dev"}}]);
    }
}

fn is_marked(cluster: &Value) -> bool {
    let extensions = cluster.pointer("/cluster/extensions").and_then(Value::as_array);
    extensions.into_iter().flatten().any(|extension| extension["name"] == MARK)
}

/// Adds the server's entries to a kubeconfig, replacing those of an earlier server with the same name. The error is the list that has a
/// foreign entry with this name.
fn merge(mut config: Value, ours: &Value, name: &str) -> Result<Value, &'static str> {
    let replaced = named(&config, "clusters", name).is_some_and(is_marked);
    if let Some((_, what)) = LISTS.iter().find(|(list, _)| !replaced && named(&config, list, name).is_some())
    {
        return Err(what);
    }
    if config.is_null() {
        config = json!({"apiVersion": "v1", "kind": "Config"});
    }
    for (list, _) in LISTS {
        let Some(entry) = named(ours, list, name) else { continue };
        if !config[list].is_array() {
            config[list] = json!([]);
        }
        let Some(entries) = config[list].as_array_mut() else { continue };
        match entries.iter_mut().find(|entry| entry["name"] == name) {
            Some(place) => *place = entry.clone(),
            None => entries.push(entry.clone()),
        }
    }
    config["current-context"] = name.into();
    Ok(config)
}

fn is_empty(config: &Value) -> bool {
    LISTS.iter().all(|(list, _)| config.get(*list).and_then(Value::as_array).is_none_or(Vec::is_empty))
}

/// A kubeconfig without those of our entries that are still as they were added.
fn without(mut config: Value, ours: &Value, name: &str, previous: Option<&str>) -> Value {
    for (list, _) in LISTS {
        let own = named(ours, list, name);
        if let Some(entries) = config.get_mut(list).and_then(Value::as_array_mut) {
            entries.retain(|entry| Some(entry) != own);
        }
    }
    if config["current-context"] == name && named(&config, "contexts", name).is_none() {
        config["current-context"] = previous
            .filter(|previous| named(&config, "contexts", previous).is_some())
            .unwrap_or_default()
            .into();
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str, server: &str, marked: bool) -> Value {
        let mut config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": server}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "users": [{"name": name, "user": {"token": server}}],
        });
        if marked {
            mark(&mut config);
        }
        config
    }

    fn names(config: &Value) -> String {
        let names = |list: &str| -> Vec<&str> {
            config[list].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect()
        };
        let lists: Vec<String> = LISTS.iter().map(|(list, _)| names(list).join(",")).collect();
        format!("{} {}", lists.join(" "), config["current-context"].as_str().unwrap())
    }

    #[test]
    fn entries_come_and_go_and_others_stay() {
        let ours = config("settled", "https://127.0.0.1:1", true);
        let other = config("prod", "https://prod", false);
        let stale = merge(other.clone(), &config("settled", "https://127.0.0.1:9", true), "settled").unwrap();
        for (before, merged, after) in [
            (Value::Null, "settled settled settled settled", "   "),
            (other, "prod,settled prod,settled prod,settled settled", "prod prod prod prod"),
            // Of a server that was killed.
            (stale, "prod,settled prod,settled prod,settled settled", "prod prod prod "),
        ] {
            let previous = before["current-context"].as_str().map(str::to_owned);
            let with = merge(before, &ours, "settled").unwrap();
            assert_eq!(names(&with), merged);
            assert_eq!(named(&with, "clusters", "settled"), named(&ours, "clusters", "settled"));
            let without = without(with, &ours, "settled", previous.as_deref());
            assert_eq!((names(&without).as_str(), is_empty(&without)), (after, after == "   "));
        }
    }

    #[test]
    fn what_others_have_is_not_touched() {
        let ours = config("settled", "https://127.0.0.1:1", true);
        assert_eq!(merge(config("settled", "https://a", false), &ours, "settled"), Err("cluster"));
        let user = json!({"users": [{"name": "settled", "user": {}}]});
        assert_eq!(merge(user, &ours, "settled"), Err("user"));
        // The user has changed the cluster, and chosen another context.
        let mut with = merge(config("prod", "https://prod", false), &ours, "settled").unwrap();
        with["clusters"][1]["cluster"]["server"] = "https://elsewhere".into();
        with["current-context"] = "prod".into();
        let without = without(with, &ours, "settled", Some("other"));
        assert_eq!(names(&without), "prod,settled prod prod prod");
        for text in ["[]", "clusters: 1", "a: [", "x"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
