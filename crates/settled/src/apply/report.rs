//! Progress of `settled apply`: a line for each object, as kubectl prints it.

use settled_tracker::apply::{Applied, ApplyEvent, Conflict, Versions};
use settled_tracker::{ObjectId, Outcome};

use crate::cli::args::WaitOutput;
use crate::error::CommandError;
use crate::names::{Names, kubectl_name};
use crate::output;
use crate::progress::write_timed;
use crate::render::diff;
use crate::render::explain::{self, Explain};
use crate::stderr;
use crate::style::Palette;
use crate::text;
use crate::time;

/// Maximum number of changed fields in a line.
const MAX_FIELDS: usize = 4;

/// Reports what becomes of each object.
pub(crate) struct Reporter {
    format: WaitOutput,
    quiet: bool,
    dry_run: bool,
    names: Names,
    /// Why nothing more can be printed.
    broken: Option<CommandError>,
}

impl Reporter {
    pub(crate) fn new(format: WaitOutput, quiet: bool) -> Self {
        Self { format, quiet, dry_run: false, names: Names::default(), broken: None }
    }

    /// Whether nothing is stored.
    pub(crate) fn dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// The error of the output, if there was one.
    pub(crate) fn finish(self) -> Result<(), CommandError> {
        self.broken.map_or(Ok(()), Err)
    }

    pub(crate) fn event(&mut self, event: &ApplyEvent) {
        if self.format == WaitOutput::Jsonl {
            if !self.quiet {
                let mut line = Vec::new();
                // Memory takes everything.
                write_timed(event, time::now(), &mut line).ok();
                self.print(&line);
            }
            return;
        }
        match event {
            ApplyEvent::Applied { object, result, fields, took_over, versions } => {
                self.names.see(object);
                let what = format!("{}{}", word(*result), details(fields, took_over));
                self.line(object, &what);
                if let Some(versions) = versions {
                    self.versions(object, versions);
                }
            }
            ApplyEvent::Pruned { object } => {
                self.names.see(object);
                self.line(object, "pruned");
            }
            ApplyEvent::Refused { object, message, conflicts, remedy } => {
                self.names.see(object);
                self.refused(object, message, conflicts, remedy.as_deref());
            }
            ApplyEvent::Lost { remaining, .. } => {
                let objects = text::plural(*remaining as u64, "object");
                self.warn(&format!("the cluster does not answer: {objects} not applied"));
            }
            ApplyEvent::Warning { message } => self.warn(message),
            ApplyEvent::Awaiting { objects } if !self.quiet => {
                let names: Vec<String> =
                    objects.iter().take(5).map(|object| self.names.name(object)).collect();
                let more = objects.len().saturating_sub(names.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                stderr::print_line(&format!("waiting for {}{more} before the rest", names.join(", ")));
            }
            ApplyEvent::Awaiting { .. } => {}
            ApplyEvent::NotAwaited(report) => {
                let names = Names::of(report.targets.iter().map(|target| &target.object));
                let explain =
                    Explain { palette: Palette::stderr(), width: None, names: &names, now: time::now() };
                stderr::print_line(explain.report(report).trim_end());
                if report.outcome == Outcome::Unreachable {
                    for notice in &report.notices {
                        explain::notice(notice, None, Palette::stderr())
                            .iter()
                            .for_each(|line| stderr::print_line(line));
                    }
                }
            }
        }
    }

    /// `deployment.apps/web configured`, as kubectl prints it.
    fn line(&mut self, object: &ObjectId, what: &str) {
        if self.quiet {
            return;
        }
        let dry_run = if self.dry_run { " (server dry run)" } else { "" };
        let line = format!("{} {what}{}{dry_run}\n", kubectl_name(object), self.names.place(object));
        match self.format {
            WaitOutput::Text => self.print(line.as_bytes()),
            // Elsewhere standard output is for the result.
            _ => stderr::print_line(line.trim_end()),
        }
    }

    fn versions(&mut self, object: &ObjectId, versions: &Versions) {
        match self.format {
            _ if self.quiet => {}
            WaitOutput::Text => {
                self.print(diff::unified(object, versions, Palette::stdout()).as_bytes());
            }
            _ => stderr::print_line(diff::unified(object, versions, Palette::stderr()).trim_end()),
        }
    }

    fn refused(&self, object: &ObjectId, message: &str, conflicts: &[Conflict], remedy: Option<&str>) {
        let name = match &*object.kind {
            "" => String::new(),
            _ => format!("{}{}: ", kubectl_name(object), self.names.place(object)),
        };
        let owned = |conflict: &Conflict| format!("{} is owned by {}", conflict.field, conflict.manager);
        let mut error = match conflicts {
            [] => CommandError::input(format!("{name}{message}")),
            [conflict] => CommandError::input(format!("{name}{}", owned(conflict))),
            conflicts => {
                let error = CommandError::input(format!("{name}conflicts with other field managers"));
                conflicts.iter().map(owned).fold(error, CommandError::detail)
            }
        };
        if let Some(remedy) = remedy {
            error = error.hint(remedy);
        }
        error.report();
    }

    fn warn(&self, message: &str) {
        if !self.quiet {
            stderr::print_line(&format!("{} {message}", Palette::stderr().warning("warning:")));
        }
    }

    fn print(&mut self, text: &[u8]) {
        if let Err(error) = output::print(text) {
            self.broken.get_or_insert(error);
        }
    }
}

/// The words of kubectl.
fn word(applied: Applied) -> &'static str {
    match applied {
        Applied::Created => "created",
        Applied::Configured => "configured",
        Applied::Unchanged => "unchanged",
        Applied::ServerSideApplied => "serverside-applied",
    }
}

/// ` (spec.replicas, spec.template.spec.containers[app].image and 2 more; took over the fields of kubectl-client-side-apply)`
fn details(fields: &[String], took_over: &[String]) -> String {
    let mut parts = Vec::new();
    if !fields.is_empty() {
        let named = fields.iter().take(MAX_FIELDS).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = fields.len().saturating_sub(MAX_FIELDS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        parts.push(format!("{named}{more}"));
    }
    if !took_over.is_empty() {
        parts.push(format!("took over the fields of {}", took_over.join(", ")));
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", text::clean(&parts.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_fields_are_bounded() {
        let check = |fields: &[&str], took_over: &[&str], expected: &str| {
            let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            assert_eq!(details(&owned(fields), &owned(took_over)), expected);
        };
        check(&[], &[], "");
        check(&["spec.replicas"], &[], " (spec.replicas)");
        check(&["a", "b", "c", "d", "e", "f"], &[], " (a, b, c, d and 2 more)");
        check(&["a"], &["kubectl-create"], " (a; took over the fields of kubectl-create)");
        check(&[], &["kubectl-create"], " (took over the fields of kubectl-create)");
    }
}
