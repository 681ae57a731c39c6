//! Target arguments in kubectl's grammar: `TYPE/NAME…`, `TYPE NAME…`, `TYPE[,TYPE] -l SELECTOR`, `TYPE --all`.

use std::path::Path;

use crate::cli::args::SelectArgs;
use crate::error::CommandError;

/// Objects of one type, as the user wrote it: `deploy`, `deployments.apps`, `deployments.v1.apps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) resource: String,
    pub(crate) which: Which,
}

/// Which objects of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Named(String),
    /// All that match, now or later; without selectors, all.
    Selected {
        labels: Option<String>,
        fields: Option<String>,
    },
}

/// Meaning of a type without names and selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BareType {
    /// All objects of it.
    All,
    /// A mistake: `--all` must be said.
    Mistake,
}

/// The targets that the positional arguments and selectors name.
pub(crate) fn parse(
    names: &[String],
    select: &SelectArgs,
    bare: BareType,
) -> Result<Vec<Target>, CommandError> {
    let SelectArgs { selector, field_selector, all, .. } = select;
    let selects = selector.is_some() || field_selector.is_some();
    let Some((first, rest)) = names.split_first() else {
        if selects || *all {
            return Err(CommandError::usage("a selector needs a type")
                .hint("add the type, as in settled wait pods -l app=web"));
        }
        return Ok(Vec::new());
    };
    if names.iter().any(|name| name.contains('/')) {
        return names.iter().map(|name| slashed(name, names, selects, *all)).collect();
    }
    let resources: Vec<&str> = first.split(',').map(str::trim).collect();
    if resources.iter().any(|resource| resource.is_empty()) {
        return Err(CommandError::usage(format!("`{first}` is not a type")));
    }
    let which = match rest {
        [] if !selects && !all && bare == BareType::Mistake => {
            return Err(missing_name(first));
        }
        [] => vec![Which::Selected { labels: selector.clone(), fields: field_selector.clone() }],
        _ if selects => {
            return Err(CommandError::usage("names cannot be combined with a selector"));
        }
        _ if *all => return Err(CommandError::usage("names cannot be combined with --all")),
        names => {
            if let Some(list) = names.iter().find(|name| name.contains(',')) {
                return Err(comma(list));
            }
            names.iter().cloned().map(Which::Named).collect()
        }
    };
    let targets = resources.iter().flat_map(|resource| {
        which.iter().map(|which| Target { resource: (*resource).to_owned(), which: which.clone() })
    });
    Ok(targets.collect())
}

/// `TYPE/NAME`.
fn slashed(name: &str, names: &[String], selects: bool, all: bool) -> Result<Target, CommandError> {
    let Some((resource, object)) = name.split_once('/') else {
        return Err(CommandError::usage(format!("`{name}` is not TYPE/NAME like the other arguments"))
            .hint("write `TYPE/NAME TYPE/NAME`, or `TYPE NAME NAME`"));
    };
    if resource.is_empty() || object.is_empty() || object.contains('/') || resource.contains(',') {
        let error = CommandError::usage(format!("`{name}` is not TYPE/NAME"));
        return Err(if Path::new(name).exists() {
            error.hint(format!("to read files, pass them with -f: -f {name}"))
        } else {
            error.hint("for example: deploy/web, or certificates.cert-manager.io/tls")
        });
    }
    if object.contains(',') {
        return Err(comma(name));
    }
    if selects || all {
        let names = names.join(" ");
        return Err(CommandError::usage(format!(
            "names ({names}) cannot be combined with a selector or --all"
        )));
    }
    Ok(Target { resource: resource.to_owned(), which: Which::Named(object.to_owned()) })
}

fn comma(name: &str) -> CommandError {
    CommandError::usage(format!("`{name}` is not an object name: names have no commas"))
        .hint("list the objects separately: deploy/web deploy/db")
}

fn missing_name(resource: &str) -> CommandError {
    let error = CommandError::usage(format!("no objects of type `{resource}` given"));
    if Path::new(resource).exists() {
        return error.hint(format!("to read files, pass them with -f: -f {resource}"));
    }
    error.hint(format!("name them ({resource}/NAME), select them (-l app=web), or use --all"))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// One line per target, or the error.
    fn shown(arguments: &str, bare: BareType) -> String {
        let mut names = Vec::new();
        let mut select = SelectArgs::default();
        let mut words = arguments.split(' ').filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            match word {
                "-l" => select.selector = words.next().map(str::to_owned),
                "--field-selector" => select.field_selector = words.next().map(str::to_owned),
                "--all" => select.all = true,
                _ => names.push(word.to_owned()),
            }
        }
        let targets = match parse(&names, &select, bare) {
            Ok(targets) => targets,
            Err(error) => return error.message().to_owned(),
        };
        let mut out = String::new();
        for Target { resource, which } in targets {
            let _ = match which {
                Which::Named(name) => write!(out, "[{resource} {name}]"),
                Which::Selected { labels, fields } => write!(
                    out,
                    "[{resource} labels={} fields={}]",
                    labels.unwrap_or_default(),
                    fields.unwrap_or_default()
                ),
            };
        }
        out
    }

    #[test]
    fn targets_are_named_as_with_kubectl() {
        let check = |arguments: &str, expected: &str| {
            assert_eq!(shown(arguments, BareType::Mistake), expected, "{arguments}");
        };
        check("deploy/web sts/db", "[deploy web][sts db]");
        check("pod a b", "[pod a][pod b]");
        check("deploy,sts web", "[deploy web][sts web]");
        check("pods -l app=web", "[pods labels=app=web fields=]");
        check("pods,jobs --all", "[pods labels= fields=][jobs labels= fields=]");
        check("pods --field-selector a=b", "[pods labels= fields=a=b]");
        check("", "");
        check("pods", "no objects of type `pods` given");
        check("deploy/web db", "`db` is not TYPE/NAME like the other arguments");
        check("deploy/", "`deploy/` is not TYPE/NAME");
        check("deploy/a/b", "`deploy/a/b` is not TYPE/NAME");
        check("deploy/web -l a=b", "names (deploy/web) cannot be combined with a selector or --all");
        check("pod a --all", "names cannot be combined with --all");
        check("pod a -l a=b", "names cannot be combined with a selector");
        check("-l a=b", "a selector needs a type");
        check("pods, -l a=b", "`pods,` is not a type");
        check("deploy/web,db", "`deploy/web,db` is not an object name: names have no commas");
        check("deploy web,db", "`web,db` is not an object name: names have no commas");
        assert_eq!(shown("pods", BareType::All), "[pods labels= fields=]");
    }
}
