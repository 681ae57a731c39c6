//! A rule in Lua: Argo CD's health checks, run in the sandbox of `settled-lua`.
//!
//! Without the cargo feature `lua` such a rule is known but cannot be run, and loading it is an error.

use std::sync::Arc;

use crate::document::LoadError;

/// A health check as it is written, compiled when it is first needed.
#[derive(Debug)]
pub(crate) struct Script {
    file: Arc<str>,
    /// The line of the file that it begins on, counted from 1.
    line: usize,
    #[cfg(feature = "lua")]
    source: Box<str>,
    #[cfg(feature = "lua")]
    compiled: std::sync::OnceLock<Result<settled_lua::Script, LoadError>>,
}

impl Script {
    #[cfg_attr(not(feature = "lua"), expect(unused_variables, reason = "what is not run is not kept"))]
    pub(crate) fn new(file: Arc<str>, line: usize, source: &str) -> Self {
        Self {
            file,
            line,
            #[cfg(feature = "lua")]
            source: source.into(),
            #[cfg(feature = "lua")]
            compiled: std::sync::OnceLock::new(),
        }
    }

    fn error(&self, line: usize, message: String) -> LoadError {
        LoadError { file: self.file.to_string(), line: self.line + line, column: 1, message }
    }

    /// Whether it can be run.
    #[cfg(not(feature = "lua"))]
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let message = "this program was built without Lua: build it with the cargo feature `lua`, or write the rule in CEL";
        Err(self.error(0, message.to_owned()))
    }
}

#[cfg(feature = "lua")]
mod run {
    use kstatus::{Basis, FailureClass, Node, Object, Options, Status, Verdict};
    use settled_lua::{Error, HealthStatus, Limits};

    use super::{LoadError, Script};

    impl Script {
        fn compiled(&self) -> Result<&settled_lua::Script, &LoadError> {
            let compiled = self.compiled.get_or_init(|| {
                settled_lua::Script::new(&self.file, &self.source).map_err(|error| {
                    let line = match &error {
                        Error::Syntax { line: Some(line), .. } => line.saturating_sub(1) as usize,
                        _ => 0,
                    };
                    self.error(line, format!("Lua: {error}"))
                })
            });
            compiled.as_ref()
        }

        /// Whether it can be run.
        pub(crate) fn check(&self) -> Result<(), LoadError> {
            self.compiled().map(drop).map_err(Clone::clone)
        }

        /// Its word on an object, if it has one: nil is none. A script that fails says Unknown: it spoils nothing else.
        pub(crate) fn verdict(
            &self,
            object: &Object<'_>,
            options: &Options,
            basis: Basis,
            name: &dyn Fn() -> String,
        ) -> Option<Verdict> {
            let now = options.now.as_second();
            let failed = |error: &dyn std::fmt::Display| {
                let message = format!("rule {}: {error}", name());
                Verdict::new(Status::Unknown, basis, "RuleFailed", message)
            };
            let script = match self.compiled() {
                Ok(script) => script,
                Err(error) => return Some(failed(error)),
            };
            let limits = Limits::default();
            let health = match object.root() {
                Node::Text(json) => script.run_at(json, now, &limits),
                Node::Value(value) => match serde_json::to_vec(value) {
                    Ok(json) => script.run_at(&json, now, &limits),
                    Err(error) => return Some(failed(&error)),
                },
            };
            let health = match health {
                Ok(health) => health,
                Err(Error::Nothing) => return None,
                Err(error) => return Some(failed(&error)),
            };
            let (status, what) = match health.status {
                HealthStatus::Healthy => (Status::Current, "the health check says Healthy"),
                HealthStatus::Suspended => (Status::Current, "the health check says Suspended"),
                HealthStatus::Progressing => (Status::InProgress, "the health check says Progressing"),
                HealthStatus::Degraded => (Status::Failed, "the health check says Degraded"),
                HealthStatus::Missing => (Status::NotFound, "the health check says Missing"),
                HealthStatus::Unknown => (Status::Unknown, "the health check says Unknown"),
            };
            let message = if health.message.is_empty() { what.to_owned() } else { health.message };
            let verdict = Verdict::new(status, basis, health.status.as_str(), message);
            Some(match status {
                Status::Failed => verdict.failure(FailureClass::Other, false),
                _ => verdict,
            })
        }
    }
}
