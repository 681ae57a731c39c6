//! Built-in controllers: they follow the store in the same process, without HTTP.
//!
//! Each is a pure decision and a thin driver that waits and writes. None keeps state that a restart would lose: what is to be done
//! follows from the objects.

mod accounts;
mod claims;
pub(crate) mod crds;
mod events;
mod feed;
mod garbage;
mod graph;
mod namespaces;
pub(crate) mod notices;
pub(crate) mod own_objects;
mod quotas;
mod retry;
mod roles;

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use std::pin::Pin;

use crate::state::State;

pub(crate) use accounts::begin as begin_accounts;
pub(crate) use roles::aggregate;

/// A built-in controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Empties namespaces that are being deleted.
    Namespaces,
    /// Deletes or orphans the dependents of what is gone.
    Garbage,
    /// Removes Events some time after they were written.
    Events,
    /// Keeps the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` in each namespace.
    Accounts,
    /// Gathers the rules of aggregated ClusterRoles.
    Roles,
    /// Counts what ResourceQuotas limit.
    Quotas,
    /// Lets claims and volumes go once nobody uses them.
    Claims,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Namespaces,
        Self::Garbage,
        Self::Events,
        Self::Accounts,
        Self::Roles,
        Self::Quotas,
        Self::Claims,
    ];

    /// What it is called on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Garbage => "garbage",
            Self::Events => "events",
            Self::Accounts => "accounts",
            Self::Roles => "roles",
            Self::Quotas => "quotas",
            Self::Claims => "claims",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Which controllers run: all of them, unless something else is said.
///
/// ```
/// use settled_apiserver::{Controller, Controllers};
///
/// let controllers: Controllers = "*,-garbage".parse()?;
/// assert!(controllers.has(Controller::Namespaces) && !controllers.has(Controller::Garbage));
/// assert_eq!(controllers, Controllers::all().without(Controller::Garbage));
/// # Ok::<(), settled_apiserver::UnknownController>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Controllers(u8);

/// A controller that there isn't.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no controller {0:?}; there are *, namespaces, garbage, events, accounts, roles, quotas and claims"
)]
pub struct UnknownController(String);

impl Controllers {
    /// All controllers.
    #[must_use]
    pub fn all() -> Self {
        Controller::ALL.into_iter().fold(Self::none(), Self::with)
    }

    /// No controller.
    #[must_use]
    pub const fn none() -> Self {
        Self(0)
    }

    /// One more.
    #[must_use]
    pub const fn with(self, controller: Controller) -> Self {
        Self(self.0 | controller.bit())
    }

    /// One less.
    #[must_use]
    pub const fn without(self, controller: Controller) -> Self {
        Self(self.0 & !controller.bit())
    }

    /// Is it among them?
    #[must_use]
    pub const fn has(self, controller: Controller) -> bool {
        self.0 & controller.bit() != 0
    }
}

impl Default for Controllers {
    fn default() -> Self {
        Self::all()
    }
}

impl fmt::Debug for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = Controller::ALL.into_iter().filter(|controller| self.has(*controller));
        f.debug_set().entries(running.map(Controller::name)).finish()
    }
}

impl FromStr for Controllers {
    type Err = UnknownController;

    /// Names with commas between them, in the manner of kube-controller-manager: `*` is all, `-name` is all but that one. Names alone
    /// are those and no others; where only some are taken away, the rest runs.
    fn from_str(text: &str) -> Result<Self, UnknownController> {
        let names = || text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let mut chosen = if names().next().is_some() && names().all(|name| name.starts_with('-')) {
            Self::all()
        } else {
            Self::none()
        };
        for name in names() {
            let (plain, off) = name.strip_prefix('-').map_or((name, false), |plain| (plain, true));
            if name == "*" {
                chosen = Self::all();
                continue;
            }
            let controller = Controller::ALL.into_iter().find(|controller| controller.name() == plain);
            let controller = controller.ok_or_else(|| UnknownController(plain.to_owned()))?;
            chosen = if off { chosen.without(controller) } else { chosen.with(controller) };
        }
        Ok(chosen)
    }
}

/// What the controllers need to know.
pub(crate) struct Settings {
    pub(crate) controllers: Controllers,
    pub(crate) event_ttl: Duration,
    /// The authority of the server, as PEM.
    pub(crate) ca: String,
}

/// Starts the controllers. They end with the server.
pub(crate) fn start(state: &Arc<State>, settings: Settings) {
    let run = |controller: Controller, work: Pin<Box<dyn Future<Output = ()> + Send>>| {
        if settings.controllers.has(controller) {
            state.lifecycle.spawn(work);
        }
    };
    run(Controller::Namespaces, Box::pin(namespaces::run(state.clone())));
    run(Controller::Garbage, Box::pin(garbage::run(state.clone())));
    run(Controller::Events, Box::pin(events::run(state.clone(), settings.event_ttl)));
    run(Controller::Accounts, Box::pin(accounts::run(state.clone(), settings.ca.clone())));
    run(Controller::Roles, Box::pin(roles::run(state.clone())));
    run(Controller::Quotas, Box::pin(quotas::run(state.clone())));
    run(Controller::Claims, Box::pin(claims::run(state.clone())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_chosen_by_name() {
        for (text, wanted) in [
            ("*", Controllers::all()),
            ("", Controllers::none()),
            ("*,-garbage", Controllers::all().without(Controller::Garbage)),
            ("-garbage", Controllers::all().without(Controller::Garbage)),
            ("garbage, events", Controllers::none().with(Controller::Events).with(Controller::Garbage)),
        ] {
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
        assert_eq!("*,-dust".parse::<Controllers>(), Err(UnknownController("dust".to_owned())));
    }
}
