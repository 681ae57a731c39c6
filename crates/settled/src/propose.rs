//! `settled rules propose`: drafts of rules for kinds that have none, from files or a cluster.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::process::ExitCode;

use jiff::Timestamp;
use kstatus::{Object, Options};
use serde_json::json;
use settled_rules::{Proposal, Proposals, RuleSet};
use settled_tracker::Cluster;

use crate::arguments;
use crate::cli::{ProposeOutput, RulesProposeArgs};
use crate::cluster;
use crate::error::CommandError;
use crate::inputs::{self, Inputs};
use crate::output;
use crate::patience::Patience;
use crate::pipeline::{self, Event, InputId, Work};
use crate::requests::Warnings;
use crate::row::Reader;
use crate::session;
use crate::stderr;
use crate::text::{self, plural};

const CRDS: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

pub(crate) fn run(args: &RulesProposeArgs) -> Result<ExitCode, CommandError> {
    let rules = arguments::rules_builder(&args.rules)?.build();
    let mut proposals = Proposals::new(&rules, Options::new(Timestamp::now()));
    let is_offline = !args.input.files.is_empty() || args.input.kustomize.is_some();
    let (objects, code) = if is_offline {
        read_files(args, &mut proposals)?
    } else if let Some(target) = args.input.targets.first() {
        return Err(CommandError::usage(format!("unexpected argument `{target}`"))
            .hint("settled rules propose reads all custom resources of the cluster; -f FILE reads files"));
    } else {
        let patience = Patience::with_timeout(Some(args.timeout));
        let read = session::run(async {
            let cluster = cluster::connect(&args.cluster, patience, Warnings::Ignored).await?;
            tokio::select! {
                read = patience.reach(&cluster, read_cluster(&cluster, &rules, &mut proposals)) => read,
                () = patience.exhausted() => {
                    let error = format!("the cluster was not read within {}", patience.limit());
                    Err(CommandError::cluster(error).hint("--timeout allows more time"))
                }
            }
        })?;
        let Some(read) = read else { return Ok(ExitCode::from(session::INTERRUPTED)) };
        read
    };
    let skipped = proposals.skipped();
    let proposals = proposals.finish();
    let printed = match args.output {
        ProposeOutput::Yaml => yaml(&proposals),
        ProposeOutput::Json => json(&proposals),
    };
    output::print(printed.as_bytes())?;
    let drafts = proposals.iter().filter(|proposal| proposal.rule.is_some()).count();
    stderr::print_line(&format!(
        "{}: {} without a rule, {}",
        plural(objects, "object"),
        plural(proposals.len() as u64, "kind"),
        plural(drafts as u64, "draft")
    ));
    if skipped > 0 {
        stderr::print_line(&format!("{} of further kinds were left out", plural(skipped as u64, "object")));
    }
    Ok(ExitCode::from(code))
}

/// Reads files; the number of objects, and the exit code.
fn read_files(args: &RulesProposeArgs, proposals: &mut Proposals<'_>) -> Result<(u64, u8), CommandError> {
    let inputs = Inputs::new(&args.input, "rules propose")?;
    let (mut objects, mut unreadable) = (0, 0_u64);
    let Ok(()) = pipeline::run(inputs, arguments::settings(&args.input), &Texts::default(), |event| {
        match event {
            Event::Output(input, texts) => {
                for text in texts.drain(..) {
                    match text {
                        Ok(json) => {
                            objects += 1;
                            if let Ok(object) = Object::parse(&json) {
                                proposals.add(&object);
                            }
                        }
                        Err(error) => {
                            unreadable += 1;
                            stderr::unreadable_document(&input.source, &error);
                        }
                    }
                }
            }
            Event::Unreadable(input, error) => {
                unreadable += 1;
                stderr::unreadable(&input.source, error);
            }
            Event::End | Event::Idle => {}
        }
        Ok::<(), Infallible>(())
    })?;
    if objects + unreadable == 0 {
        return Err(inputs::nothing_found(&args.input));
    }
    Ok((objects, if unreadable > 0 { 2 } else { 0 }))
}

/// The JSON of each object, on any thread.
#[derive(Debug, Default)]
struct Texts(Reader);

impl Clone for Texts {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Work for Texts {
    type Output = Vec<Result<Vec<u8>, String>>;

    fn size(texts: &Self::Output) -> usize {
        texts.iter().map(|text| text.as_ref().map_or(0, Vec::capacity)).sum()
    }

    fn work(&mut self, _: &InputId, batch: &settled_manifest::Batch, texts: &mut Self::Output) {
        texts.clear();
        self.0.objects(batch, |found| {
            texts.push(found.map(|(_, json)| json.to_vec()).map_err(|error| error.to_string()));
        });
    }
}

/// Reads the CRDs of a cluster, and the objects of their kinds; the number of objects, and the exit code.
async fn read_cluster(
    cluster: &Cluster,
    rules: &RuleSet,
    proposals: &mut Proposals<'_>,
) -> Result<(u64, u8), CommandError> {
    let unreachable = |error| cluster::unreachable_at(cluster, &error);
    let resources = cluster.resources().await.map_err(unreachable)?;
    let definitions = resources.of_kind(CRDS.0, None, CRDS.1).ok_or_else(|| {
        CommandError::cluster("the cluster has no CustomResourceDefinitions").hint("-f FILE reads files")
    })?;
    let mut kinds = Vec::new();
    let mut objects = 0;
    let read_definition = |json: &[u8]| {
        let object = Object::parse(json).ok()?;
        proposals.add(&object);
        let spec = object.root().get("spec")?;
        let group = spec.get("group")?.as_str()?.into_owned();
        let kind = spec.get("names")?.get("kind")?.as_str()?.into_owned();
        kinds.push((group, kind));
        None::<()>
    };
    cluster.list(definitions, None, read_definition).await.map_err(unreachable)?;
    let mut code = 0;
    let known = rules.list();
    for (group, kind) in kinds {
        if known.iter().any(|rule| rule.narrowed.is_empty() && rule.fits(&group, &kind)) {
            continue;
        }
        let Some(resource) = resources.of_kind(&group, None, &kind) else {
            code = 4;
            let name = format!("{group}/{kind}");
            stderr::print_line(&format!(
                "not read: {}: the API server does not serve it, or discovery of its group failed",
                text::clean(&name)
            ));
            continue;
        };
        let read = |json: &[u8]| {
            objects += 1;
            if let Ok(object) = Object::parse(json) {
                proposals.add(&object);
            }
            None::<()>
        };
        match cluster.list(resource, None, read).await {
            Ok(_) => {}
            Err(error) if error.is_forbidden() => {
                code = 4;
                stderr::print_line(&format!("not read: {}", text::clean(&error.to_string())));
            }
            Err(error) => return Err(unreachable(error)),
        }
    }
    Ok((objects, code))
}

/// A file of rules with their cases, for review.
fn yaml(proposals: &[Proposal]) -> String {
    let mut out = String::new();
    for proposal in proposals {
        let name = format!("{}/{}", proposal.group, proposal.kind);
        let doubtful = match proposal.doubtful {
            0 => String::new(),
            doubtful => format!(", {doubtful} judged by conventions or not at all"),
        };
        let _ = writeln!(
            out,
            "# {}: {}{doubtful}",
            text::clean(&name),
            plural(proposal.objects as u64, "object")
        );
        for finding in &proposal.findings {
            let _ = writeln!(out, "#   {}", text::clean(finding));
        }
    }
    let drafts: Vec<&Proposal> = proposals.iter().filter(|proposal| proposal.rule.is_some()).collect();
    if drafts.is_empty() {
        return out;
    }
    out.push_str("apiVersion: settled.dev/v1alpha1\nkind: RulePack\nrules:\n");
    for proposal in &drafts {
        let _ = writeln!(
            out,
            "  # Draft for {}: check it against the controller's source.",
            text::clean(&proposal.kind)
        );
        out.push_str(proposal.rule.as_deref().unwrap_or_default());
    }
    out.push_str(
        "---\n# What the drafts say of the states that were seen. Correct what the controller means otherwise.\n\
         apiVersion: settled.dev/v1alpha1\nkind: RuleTest\ncases:\n",
    );
    for proposal in &drafts {
        out.push_str(&proposal.cases);
    }
    out
}

fn json(proposals: &[Proposal]) -> String {
    let values: Vec<_> = proposals
        .iter()
        .map(|proposal| {
            json!({
                "group": proposal.group, "kind": proposal.kind, "objects": proposal.objects,
                "doubtful": proposal.doubtful, "findings": proposal.findings, "rule": proposal.rule,
                "cases": proposal.cases,
            })
        })
        .collect();
    serde_json::to_string_pretty(&values).unwrap_or_default() + "\n"
}
