//! Components: what can be simulated, each switched on or off by its name.

use std::fmt;
use std::str::FromStr;

macro_rules! components {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// A part of Kubernetes that is simulated.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Component {
            $($(#[$doc])* $variant,)+
        }

        impl Component {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// What it is called on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

components! {
    /// Rolling updates of Deployments.
    Deployments = "deployments",
    /// Pods of ReplicaSets.
    ReplicaSets = "replicasets",
    /// Pods of StatefulSets.
    StatefulSets = "statefulsets",
    /// Pods of DaemonSets.
    DaemonSets = "daemonsets",
    /// Pods of Jobs.
    Jobs = "jobs",
    /// Jobs of CronJobs.
    CronJobs = "cronjobs",
    /// EndpointSlices of Services.
    EndpointSlices = "endpointslices",
    /// Endpoints of Services, beside their EndpointSlices.
    Endpoints = "endpoints",
    /// EndpointSlices of Endpoints that others write.
    EndpointSliceMirroring = "endpointslicemirroring",
    /// Volumes of claims.
    Volumes = "volumes",
    /// Addresses of Services, Ingresses and Gateways.
    LoadBalancers = "loadbalancers",
    /// HorizontalPodAutoscalers.
    Autoscalers = "autoscalers",
    /// PodDisruptionBudgets.
    DisruptionBudgets = "disruptionbudgets",
    /// Controllers of custom resources, as far as something is known of them.
    CustomResources = "customresources",
    /// Nodes: leases, taints and eviction from Nodes that are not ready.
    Nodes = "nodes",
    /// Binding of Pods to Nodes.
    Scheduler = "scheduler",
    /// Pods on Nodes.
    Kubelets = "kubelets",
}

impl Component {
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Which components are simulated: all of them, unless something else is said.
///
/// ```
/// use settled_simulator::{Component, Components};
///
/// let components: Components = "*,-scheduler".parse()?;
/// assert!(components.has(Component::Kubelets) && !components.has(Component::Scheduler));
/// # Ok::<(), settled_simulator::UnknownComponent>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Components(u32);

/// A name that is of no component.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown component {name:?}; there are *, {}", names())]
pub struct UnknownComponent {
    /// The name.
    pub name: String,
}

fn names() -> String {
    Component::ALL.iter().map(|component| component.name()).collect::<Vec<_>>().join(", ")
}

impl Components {
    /// All components.
    #[must_use]
    pub fn all() -> Self {
        Component::ALL.iter().fold(Self::none(), |all, component| all.with(*component))
    }

    /// No component.
    #[must_use]
    pub const fn none() -> Self {
        Self(0)
    }

    /// One more.
    #[must_use]
    pub const fn with(self, component: Component) -> Self {
        Self(self.0 | component.bit())
    }

    /// One less.
    #[must_use]
    pub const fn without(self, component: Component) -> Self {
        Self(self.0 & !component.bit())
    }

    /// Is it among them?
    #[must_use]
    pub const fn has(self, component: Component) -> bool {
        self.0 & component.bit() != 0
    }
}

impl Default for Components {
    fn default() -> Self {
        Self::all()
    }
}

impl fmt::Debug for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Component::ALL.iter().filter(|component| self.has(**component));
        f.debug_set().entries(all.map(|component| component.name())).finish()
    }
}

impl FromStr for Components {
    type Err = UnknownComponent;

    /// Names separated by commas, as kube-controller-manager reads them: `*` is all, `-name` is all but that one.
    fn from_str(text: &str) -> Result<Self, UnknownComponent> {
        let names = || text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let only_without = names().next().is_some() && names().all(|name| name.starts_with('-'));
        let mut chosen = if only_without { Self::all() } else { Self::none() };
        for name in names() {
            if name == "*" {
                chosen = Self::all();
                continue;
            }
            let (plain, on) = name.strip_prefix('-').map_or((name, true), |plain| (plain, false));
            let component = Component::ALL.iter().find(|component| component.name() == plain);
            let component = *component.ok_or_else(|| UnknownComponent { name: plain.to_owned() })?;
            chosen = if on { chosen.with(component) } else { chosen.without(component) };
        }
        Ok(chosen)
    }
}
