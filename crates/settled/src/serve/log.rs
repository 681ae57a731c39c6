//! Server log: one line for each notable event, on standard error.

use settled_apiserver::Notice;

use super::signals::Stop;
use crate::cli::serve::{LogFormat, ServeArgs};
use crate::stderr;
use crate::text;

#[derive(Clone, Copy)]
pub(super) struct Log {
    format: LogFormat,
    /// Nothing but problems.
    quiet: bool,
}

impl Log {
    pub(super) fn new(args: &ServeArgs) -> Self {
        Self { format: args.log_format, quiet: args.quiet || !args.command.is_empty() }
    }

    pub(super) fn notice(self, notice: &Notice) {
        if self.quiet && !notice.is_problem() {
            return;
        }
        match self.format {
            LogFormat::Text => stderr::print_line(&text::clean(&notice.to_string())),
            LogFormat::Json => self.event(notice.event(), &notice.fields()),
        }
    }

    pub(super) fn stopping(self, stop: Stop) {
        match self.format {
            _ if self.quiet => {}
            LogFormat::Text => stderr::print_line(&format!("stopping ({})", stop.name())),
            LogFormat::Json => self.event("stopping", &[("signal", stop.name())]),
        }
    }

    pub(super) fn stopped(self) {
        match self.format {
            _ if self.quiet => {}
            LogFormat::Text => stderr::print_line("stopped"),
            LogFormat::Json => self.event("stopped", &[]),
        }
    }

    /// A line of JSON.
    pub(super) fn event(self, event: &str, fields: &[(&str, &str)]) {
        let mut line = serde_json::Map::new();
        line.insert("time".to_owned(), jiff::Timestamp::now().to_string().into());
        line.insert("event".to_owned(), event.into());
        line.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
        stderr::print_line(&serde_json::Value::Object(line).to_string());
    }
}
