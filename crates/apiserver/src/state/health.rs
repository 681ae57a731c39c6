//! Health checks: `/healthz`, `/livez` and `/readyz`.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError, RwLock};

use settled_store::Store;

use crate::request::Query;

/// What must be done before the server is ready.
#[derive(Default)]
pub(crate) struct Health {
    hooks: RwLock<Vec<(&'static str, bool)>>,
}

/// Remembers when the store last failed.
#[derive(Default)]
pub(crate) struct StoreHealth(Mutex<Failure>);

#[derive(Clone, Copy, Default)]
struct Failure {
    /// How many batches had failed, and how many had been stored when that was noticed.
    failed: u64,
    stored: u64,
}

impl StoreHealth {
    /// It is not if a batch failed and none was stored since.
    pub(crate) fn is_healthy(&self, store: &Store) -> bool {
        let now = store.queue_stats();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.failed_batches > seen.failed {
            *seen = Failure { failed: now.failed_batches, stored: now.batches };
        }
        seen.failed == 0 || now.batches > seen.stored
    }
}

/// The endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Healthz,
    Livez,
    Readyz,
}

/// What the checks are about, besides the hooks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// The store takes requests.
    pub(crate) store: bool,
    /// The server is to stop.
    pub(crate) stopping: bool,
}

/// A text for an endpoint, with its status code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) code: u16,
    pub(crate) text: String,
}

impl Endpoint {
    pub(crate) const ALL: [Self; 3] = [Self::Healthz, Self::Livez, Self::Readyz];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|endpoint| endpoint.name() == name)
    }
}

impl Health {
    /// Something begins that must be done before the server is ready.
    pub(crate) fn begin(&self, hook: &'static str) {
        self.set(hook, false);
    }

    /// It is done.
    pub(crate) fn finish(&self, hook: &'static str) {
        self.set(hook, true);
    }

    fn set(&self, hook: &'static str, done: bool) {
        let mut hooks = self.hooks.write().unwrap_or_else(PoisonError::into_inner);
        match hooks.iter_mut().find(|(name, _)| *name == hook) {
            Some(row) => row.1 = done,
            None => hooks.push((hook, done)),
        }
    }

    /// The checks of an endpoint: name, and why it fails.
    fn checks(&self, endpoint: Endpoint, state: Observed) -> Vec<(String, Option<&'static str>)> {
        // Upstream's `log` fails when klog is not flushed. There is none here, but probes may ask for the check.
        let mut checks = vec![("ping".to_owned(), None), ("log".to_owned(), None)];
        // The store stands where upstream has etcd: tools ask for it by that name.
        checks.push(("etcd".to_owned(), (!state.store).then_some("the store has failed")));
        for (hook, done) in self.hooks.read().unwrap_or_else(PoisonError::into_inner).iter() {
            checks.push((format!("poststarthook/{hook}"), (!done).then_some("not finished")));
        }
        if endpoint == Endpoint::Readyz {
            checks.push(("shutdown".to_owned(), state.stopping.then_some("process is shutting down")));
        }
        checks
    }

    /// The names of the checks of an endpoint.
    pub(crate) fn names(&self, endpoint: Endpoint) -> Vec<String> {
        let state = Observed { store: true, stopping: false };
        self.checks(endpoint, state).into_iter().map(|(name, _)| name).collect()
    }

    /// All checks of an endpoint, without those that the query excludes.
    pub(crate) fn report(&self, endpoint: Endpoint, state: Observed, query: &Query) -> Report {
        let name = endpoint.name();
        let mut excluded = query.all("exclude");
        let mut lines = String::new();
        let mut failed = false;
        // Writing to a text can't fail.
        for (check, failure) in self.checks(endpoint, state) {
            let _infallible = if excluded.contains(&check.as_str()) {
                excluded.retain(|other| *other != check);
                writeln!(lines, "[+]{check} excluded: ok")
            } else if failure.is_some() {
                failed = true;
                writeln!(lines, "[-]{check} failed: reason withheld")
            } else {
                writeln!(lines, "[+]{check} ok")
            };
        }
        if !excluded.is_empty() {
            let quoted: Vec<String> = excluded.iter().map(|name| settled_go::strconv::quote(name)).collect();
            let _infallible = writeln!(
                lines,
                "warn: some health checks cannot be excluded: no matches for {}",
                quoted.join(",")
            );
        }
        if failed {
            return Report { code: 500, text: format!("{lines}{name} check failed\n") };
        }
        match query.find("verbose") {
            Some(_) => Report { code: 200, text: format!("{lines}{name} check passed\n") },
            None => Report { code: 200, text: "ok".to_owned() },
        }
    }

    /// One check of an endpoint, if it has such.
    pub(crate) fn check(&self, endpoint: Endpoint, state: Observed, name: &str) -> Option<Report> {
        let (_, failure) = self.checks(endpoint, state).into_iter().find(|(check, _)| check == name)?;
        Some(match failure {
            None => Report { code: 200, text: "ok".to_owned() },
            Some(why) => Report { code: 500, text: format!("internal server error: {why}\n") },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_say_what_is_missing() {
        use Endpoint::{Livez, Readyz};
        let health = Health::default();
        health.begin("crds");
        let fine = Observed { store: true, stopping: false };
        let broken = Observed { store: false, stopping: true };
        let waiting = "[+]ping ok\n[+]log ok\n[+]etcd ok\n[-]poststarthook/crds failed: reason withheld\n";
        let cases: &[(bool, Endpoint, Observed, &str, u16, String)] = &[
            (false, Readyz, fine, "", 500, format!("{waiting}[+]shutdown ok\nreadyz check failed\n")),
            (false, Livez, fine, "exclude=poststarthook/crds", 200, "ok".to_owned()),
            (true, Readyz, fine, "", 200, "ok".to_owned()),
            (
                true,
                Livez,
                fine,
                "verbose&exclude=etcd&exclude=a&exclude=b",
                200,
                "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n[+]poststarthook/crds ok\nwarn: some health checks \
                 cannot be excluded: no matches for \"a\",\"b\"\nlivez check passed\n"
                    .to_owned(),
            ),
            (true, Livez, broken, "exclude=etcd", 200, "ok".to_owned()),
            (
                true,
                Readyz,
                broken,
                "",
                500,
                "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n[+]poststarthook/crds ok\n[-]shutdown failed: \
                 reason withheld\nreadyz check failed\n"
                    .to_owned(),
            ),
        ];
        for (done, endpoint, state, query, code, text) in cases {
            health.set("crds", *done);
            let report = health.report(*endpoint, *state, &Query::parse(query));
            assert_eq!((report.code, report.text.as_str()), (*code, text.as_str()), "{endpoint:?} {query}");
        }
        assert_eq!(health.check(Readyz, broken, "shutdown").map(|report| report.code), Some(500));
        assert_eq!(health.check(Livez, broken, "shutdown"), None);
        assert_eq!(health.check(Livez, broken, "ping").map(|report| report.text).as_deref(), Some("ok"));
    }
}
