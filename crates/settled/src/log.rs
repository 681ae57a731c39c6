//! The log: what the libraries emit by `tracing`, a line each on standard error. Off unless it is asked for.

use std::fmt;
use std::sync::OnceLock;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::cli::LogLevel;
use crate::error::CommandError;
use crate::stderr;
use crate::style::Palette;
use crate::text;

/// What the targets of all our crates begin with.
const OWN: &str = "settled";
/// The filter where the arguments have no level.
const VARIABLE: &str = "RUST_LOG";
/// What `tracing` calls the text of an event.
const MESSAGE: &str = "message";

static STARTED: OnceLock<()> = OnceLock::new();

/// Whether lines may come at any time.
pub(crate) fn is_started() -> bool {
    STARTED.get().is_some()
}

/// Starts the log, if the arguments or the environment say so. `json`: each line is an object.
pub(crate) fn start(level: Option<LogLevel>, json: bool) -> Result<(), CommandError> {
    let variable = std::env::var(VARIABLE).ok().filter(|text| !text.trim().is_empty());
    let targets = match targets(level, variable.as_deref()) {
        Ok(targets) => targets,
        // Other programs read it, too, and take more.
        Err(error) => {
            let label = Palette::stderr().warning("warning:");
            stderr::print_line(&format!(
                "{label} {VARIABLE} is ignored: {}; use a list such as settled=info,settled_watch=debug",
                text::clean(&error)
            ));
            return Ok(());
        }
    };
    let mut levels = targets.iter().map(|(_, level)| level).chain(targets.default_level());
    if levels.all(|level| level == LevelFilter::OFF) {
        return Ok(());
    }
    let subscriber = tracing_subscriber::registry().with(Lines { json }).with(targets);
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| CommandError::input_error("cannot start the log", error))?;
    STARTED.get_or_init(|| ());
    Ok(())
}

/// What is logged: the level is about our crates alone, the variable about all that is linked.
fn targets(level: Option<LogLevel>, variable: Option<&str>) -> Result<Targets, String> {
    match (level, variable) {
        (Some(level), _) => Ok(Targets::new().with_target(OWN, level.filter())),
        (None, Some(variable)) => variable.parse::<Targets>().map_err(|error| error.to_string()),
        (None, None) => Ok(Targets::new()),
    }
}

impl LogLevel {
    fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

/// Names and values, in the order in which they were first recorded.
#[derive(Clone, Debug, Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    /// Takes out the text of an event.
    fn message(&mut self) -> String {
        let index = self.0.iter().position(|(name, _)| *name == MESSAGE);
        match index.map(|index| self.0.remove(index).1) {
            Some(Value::String(message)) => message,
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field.name(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), value.into());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.set(field.name(), u64::try_from(value).unwrap_or(u64::MAX).into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field.name(), value.into());
    }
}

/// Prints each event with the fields of the spans that it is in, the outermost first.
struct Lines {
    json: bool,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                of_span.0.iter().for_each(|(name, value)| fields.set(name, value.clone()));
            }
        }
        event.record(&mut fields);
        let metadata = event.metadata();
        let line = match self.json {
            true => json_line(Timestamp::now(), *metadata.level(), metadata.target(), fields),
            false => text_line(Timestamp::now(), *metadata.level(), metadata.target(), fields),
        };
        stderr::print_line(&line);
    }
}

/// `2026-11-21T10:05:00.000Z INFO settled_watch::stream: listed resource=pods objects=3`
fn text_line(time: Timestamp, level: Level, target: &str, mut fields: Fields) -> String {
    let message = fields.message();
    let mut line = format!("{time:.3} {level} {target}: {message}");
    for (name, value) in &fields.0 {
        line.push(' ');
        line.push_str(name);
        line.push('=');
        match value {
            Value::String(text) if is_plain(text) => line.push_str(text),
            value => line.push_str(&value.to_string()),
        }
    }
    text::clean(&line)
}

/// As [`text_line`], with `event` for the text of it, as the events of a server have it.
fn json_line(time: Timestamp, level: Level, target: &str, mut fields: Fields) -> String {
    let message = fields.message();
    let mut line: Map<String, Value> =
        fields.0.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    line.insert("time".to_owned(), time.to_string().into());
    line.insert("level".to_owned(), level.as_str().to_ascii_lowercase().into());
    line.insert("target".to_owned(), target.into());
    line.insert("event".to_owned(), message.into());
    Value::Object(line).to_string()
}

/// Whether a value needs no quotes to be told from what follows it.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|char| char.is_ascii_graphic() && !matches!(char, '"' | '=' | '\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_about_our_crates_and_wins_over_the_variable() {
        let own = ("settled_watch::stream", Level::DEBUG);
        let other = ("h2::client", Level::DEBUG);
        for (level, variable, logged) in [
            (None, None, [false, false]),
            (Some(LogLevel::Debug), None, [true, false]),
            (Some(LogLevel::Info), None, [false, false]),
            (Some(LogLevel::Off), Some("trace"), [false, false]),
            (Some(LogLevel::Debug), Some("h2=trace"), [true, false]),
            (None, Some("debug"), [true, true]),
            (None, Some("settled_watch=debug"), [true, false]),
            (None, Some("h2=trace,settled=warn"), [false, true]),
        ] {
            let targets = targets(level, variable).unwrap();
            let seen = [own, other].map(|(target, level)| targets.would_enable(target, &level));
            assert_eq!(seen, logged, "{level:?} {variable:?}");
        }
        assert!(targets(None, Some("settled=loud")).is_err());
    }

    #[test]
    fn lines_are_for_people_or_for_programs() {
        let time = Timestamp::UNIX_EPOCH;
        let mut fields = Fields::default();
        for (name, value) in [
            ("verb", Value::from("list")),
            ("namespace", Value::from("shop")),
            (MESSAGE, Value::from("response")),
            ("code", Value::from(200)),
            ("verb", Value::from("watch")),
            // Text of others cannot begin a line of its own, or drive a terminal.
            ("user", Value::from("jane\n\u{1b}[2Jroot = \"x\"")),
            ("empty", Value::from("")),
        ] {
            fields.set(name, value);
        }
        let own = "settled_apiserver::http";
        assert_eq!(
            text_line(time, Level::INFO, own, fields.clone()),
            r#"1970-01-01T00:00:00.000Z INFO settled_apiserver::http: response verb=watch namespace=shop code=200 user="jane\n\u001b[2Jroot = \"x\"" empty="""#
        );
        assert_eq!(
            json_line(time, Level::WARN, own, fields),
            r#"{"code":200,"empty":"","event":"response","level":"warn","namespace":"shop","target":"settled_apiserver::http","time":"1970-01-01T00:00:00Z","user":"jane\n\u001b[2Jroot = \"x\"","verb":"watch"}"#
        );
    }
}
