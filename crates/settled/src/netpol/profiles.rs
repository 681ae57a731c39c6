//! `settled netpol profiles`: the providers that are known, and what is known of one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;
use settled_netpol::profile::{Checked, Detect, Profile, Profiles, ProviderError};

use super::providers;
use super::render::json;
use crate::cli::netpol::{ProfilesArgs, ProfilesOutput};
use crate::error::{CommandError, ErrorKind};
use crate::output;
use crate::render::columns::Columns;
use crate::style::Palette;
use crate::text;

pub(super) fn run(args: &ProfilesArgs) -> Result<ExitCode, CommandError> {
    let loaded = providers::load(&args.profiles);
    let code = ExitCode::from(if loaded.errors > 0 { 2 } else { 0 });
    let Some(name) = &args.name else {
        let all: Vec<ProfileRow<'_>> = loaded.profiles.iter().map(ProfileRow::of).collect();
        match args.output {
            ProfilesOutput::Table => output::print(list(&all).as_bytes())?,
            ProfilesOutput::Json => json::print(&all, false)?,
            ProfilesOutput::Yaml => json::print(&all, true)?,
        }
        return Ok(code);
    };
    let profile = loaded.profiles.get(name).ok_or_else(|| unknown(name, &loaded.profiles))?;
    match args.output {
        ProfilesOutput::Table => output::print(details(profile).as_bytes())?,
        ProfilesOutput::Json => json::print(&ProfileRow::of(profile), false)?,
        ProfilesOutput::Yaml => json::print(&ProfileRow::of(profile), true)?,
    }
    Ok(code)
}

fn unknown(name: &str, profiles: &Profiles) -> CommandError {
    let known: Vec<&str> = profiles.iter().map(|profile| &*profile.name).collect();
    let error = ProviderError::Unknown { name: name.to_owned(), known: known.join(", ") };
    CommandError::new(ErrorKind::Unknown, error.to_string())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProfileRow<'p> {
    provider: &'p str,
    title: &'p str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    aliases: &'p [String],
    domain: &'p str,
    from: String,
    through: String,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    variants: &'p [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    options: BTreeMap<&'p str, &'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requires: Option<&'p str>,
    features: usize,
    unverified: usize,
    file: &'p str,
}

impl<'p> ProfileRow<'p> {
    fn of(profile: &'p Profile) -> Self {
        let rows = || profile.features.values().flatten();
        Self {
            provider: &profile.name,
            title: &profile.title,
            aliases: &profile.aliases,
            domain: &profile.domain,
            from: profile.versions.from.to_string(),
            through: profile.versions.through.to_string(),
            variants: &profile.variants,
            options: profile.options.iter().map(|(name, option)| (&**name, &*option.title)).collect(),
            requires: profile.requires.as_deref(),
            features: profile.features.len(),
            unverified: rows().filter(|row| row.checked == Checked::Unverified).count(),
            file: &profile.file,
        }
    }
}

fn list(all: &[ProfileRow<'_>]) -> String {
    let mut table = Columns::new(["NAME", "VERSIONS", "VARIANTS", "FEATURES", "ALIASES", "FILE", "TITLE"]);
    for row in all {
        table.row([
            row.provider,
            &format!("{} - {}", row.from, row.through),
            &row.variants.join(","),
            &row.features.to_string(),
            &row.aliases.join(","),
            row.file,
            row.title,
        ]);
    }
    table.without_empty().text(output::width(None), Palette::stdout())
}

/// All that a profile says.
fn details(profile: &Profile) -> String {
    let palette = Palette::stdout();
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            // Writing to a text cannot fail.
            let _infallible = writeln!(out, "{name:<12}{}", text::clean(value));
        }
    };
    line("provider", &profile.name);
    line("title", &profile.title);
    line("aliases", &profile.aliases.join(", "));
    line("versions", &format!("{} through {}", profile.versions.from, profile.versions.through));
    line("variants", &profile.variants.join(", "));
    for (name, option) in &profile.options {
        line("option", &format!("{name}: {}", option.title));
    }
    line("requires", profile.requires.as_deref().unwrap_or_default());
    line(
        "conditions",
        &format!(
            "{}/Accepted, {}/PartialFailure, {}/Failure",
            profile.domain, profile.domain, profile.domain
        ),
    );
    for entry in &profile.detect {
        line("detected by", &detected_by(entry));
    }
    line("unlisted", &format!("features that are not listed are {}", profile.unlisted));
    line("own kinds", &profile.own_kinds.join(", "));
    for note in &profile.notes {
        line("note", note);
    }
    line("file", &profile.file);
    out.push('\n');
    let mut table =
        Columns::new(["FEATURE", "VERSIONS", "WHEN", "SUPPORT", "CARRIED OUT", "CHECKED", "NOTE"]);
    for (feature, rows) in &profile.features {
        for row in rows {
            table.row([
                feature.as_str(),
                &row.versions.to_string(),
                &when(&row.when),
                row.support.as_str(),
                row.carried_out.map_or("", |carried_out| carried_out.as_str()),
                row.checked.as_str(),
                row.note.as_deref().unwrap_or_default(),
            ]);
        }
    }
    for limit in &profile.limits {
        table.row([
            limit.of.as_str(),
            &limit.versions.to_string(),
            &format!("more than {}", limit.max),
            limit.beyond.as_str(),
            limit.carried_out.map_or("", |carried_out| carried_out.as_str()),
            limit.checked.as_str(),
            limit.note.as_deref().unwrap_or_default(),
        ]);
    }
    out.push_str(&table.without_empty().text(output::width(None), palette));
    out
}

fn when(when: &settled_netpol::profile::When) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(when.direction.map(|direction| direction.to_string()));
    parts.extend(when.family.map(|family| family.to_string()));
    parts.extend(when.variants.iter().cloned());
    parts.extend(when.option.clone());
    parts.join(", ")
}

fn detected_by(entry: &Detect) -> String {
    match entry {
        Detect::Workload { kind, namespaces, names, image, variant, .. } => {
            let mut text = kind.clone();
            if !names.is_empty() {
                let _infallible = write!(text, " {}", names.join(" or "));
            }
            if !namespaces.is_empty() {
                let _infallible = write!(text, " in {}", namespaces.join(" or "));
            }
            if let Some(image) = image {
                let _infallible = write!(text, " with image {image}");
            }
            if let Some(variant) = variant {
                let _infallible = write!(text, " (variant {variant})");
            }
            text
        }
        Detect::Crd { name } => format!("CustomResourceDefinition {name}"),
    }
}
