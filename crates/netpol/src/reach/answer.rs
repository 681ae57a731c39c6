//! Answers to questions about connectivity: each connection that is meant, with its outcome.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::classes::{AddressClass, PortRanges, address_classes, families, to_cidrs};
use super::connection::{Connection, Evaluator};
use super::matching::{End, Traffic};
use super::outcome::{Outcome, Remark, UnknownReason};
use super::ports::{self, Target};
use super::question::{Endpoint, Question, QuestionError, Resolved, resolve};
use super::view::View;
use crate::cluster::{Cluster, Pod, Service};
use crate::model::{Cidr, Family, Protocol};

/// One end of an answered connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// A pod.
    Pod {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// A node.
    Node(Arc<str>),
    /// An address.
    Address(IpAddr),
    /// Addresses outside of the cluster that every policy treats alike.
    Addresses(Vec<Cidr>),
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { namespace, name } => write!(f, "{namespace}/{name}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Address(address) => address.fmt(f),
            Self::Addresses(cidrs) => {
                for (index, cidr) in cidrs.iter().enumerate() {
                    write!(f, "{}{cidr}", if index > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

impl Site {
    fn pod(pod: &Pod) -> Self {
        Self::Pod { namespace: Arc::clone(&pod.namespace), name: Arc::clone(&pod.name) }
    }
}

/// A connection that a question means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered<C = Connection> {
    /// The source.
    pub from: Site,
    /// The destination.
    pub to: Site,
    /// The protocol.
    pub protocol: Protocol,
    /// Ports of the destination with this answer.
    pub ports: PortRanges,
    /// What happens to the connection.
    pub connection: C,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<C = Connection> {
    /// The connections that are meant. Empty if it is not known which.
    pub connections: Vec<Answered<C>>,
    /// Why it is not known which connections are meant.
    pub unknown: Vec<UnknownReason>,
}

impl Answer {
    /// The outcome, if it is the same for all connections.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        if !self.unknown.is_empty() {
            return Some(Outcome::Unknown);
        }
        let mut outcomes = self.connections.iter().map(|answered| answered.connection.outcome);
        let first = outcomes.next()?;
        outcomes.all(|outcome| outcome == first).then_some(first)
    }
}

/// A connection to evaluate.
pub(crate) struct Planned<'a> {
    pub(crate) from: Site,
    pub(crate) to: Site,
    pub(crate) source: End<'a>,
    pub(crate) destination: End<'a>,
    pub(crate) family: Family,
    pub(crate) protocol: Protocol,
    pub(crate) ports: PortRanges,
    /// Whether the traffic comes through a Service with another port.
    pub(crate) has_other_service_port: bool,
    remarks: Vec<Remark>,
}

impl Planned<'_> {
    /// Evaluates the connection.
    pub(crate) fn evaluate(&self, evaluator: &Evaluator<'_>) -> Connection {
        let traffic =
            Traffic { protocol: self.protocol, port: self.ports.first().map_or(0, |range| range.0) };
        let mut connection = evaluator.connect(self.source, self.destination, self.family, traffic);
        connection.remarks.extend(self.remarks.iter().cloned());
        connection
    }
}

/// What is to be evaluated for a question.
pub(crate) enum Plan<'a> {
    Connections(Vec<Planned<'a>>),
    Unknown(Vec<UnknownReason>),
}

impl Evaluator<'_> {
    /// Answers a question.
    ///
    /// # Errors
    /// If what is asked about does not exist or has no traffic.
    pub fn ask(&self, question: &Question) -> Result<Answer, QuestionError> {
        let planned = match plan(self.cluster(), &[self.view], question)? {
            Plan::Unknown(unknown) => return Ok(Answer { connections: Vec::new(), unknown }),
            Plan::Connections(planned) => planned,
        };
        let mut connections: Vec<Answered> = Vec::new();
        for planned in planned {
            let connection = planned.evaluate(self);
            push(&mut connections, planned, connection);
        }
        Ok(Answer { connections, unknown: Vec::new() })
    }
}

/// Adds an answered connection, or its ports to one with the same answer.
pub(crate) fn push<C: PartialEq>(connections: &mut Vec<Answered<C>>, planned: Planned<'_>, connection: C) {
    let Planned { from, to, protocol, ports, .. } = planned;
    let same = connections.iter_mut().rev().find(|answered| {
        answered.protocol == protocol
            && answered.connection == connection
            && answered.from == from
            && answered.to == to
    });
    match same {
        Some(answered) => {
            answered.ports.extend(ports);
            answered.ports = super::classes::join(std::mem::take(&mut answered.ports));
        }
        None => connections.push(Answered { from, to, protocol, ports, connection }),
    }
}

/// One side of the connections that a question means.
struct Side<'a> {
    ends: Vec<(Site, End<'a>)>,
    families: Vec<Family>,
    service: Option<&'a Service>,
}

/// The connections that a question means, in classes that the policies of all views treat alike.
pub(crate) fn plan<'a>(
    cluster: &'a Cluster,
    views: &[&View<'_>],
    question: &Question,
) -> Result<Plan<'a>, QuestionError> {
    let from = resolve(cluster, &question.from)?;
    let to = resolve(cluster, &question.to)?;
    let unknown: Vec<UnknownReason> = [&from, &to]
        .into_iter()
        .filter_map(|resolved| match resolved {
            Resolved::Unknown(reason) => Some(reason.clone()),
            _ => None,
        })
        .collect();
    if !unknown.is_empty() {
        return Ok(Plan::Unknown(unknown));
    }
    if matches!(from, Resolved::Service(..)) {
        return Err(QuestionError::ServiceAsSource(question.from.clone()));
    }
    let from = side(cluster, views, &question.from, from);
    let to = side(cluster, views, &question.to, to);
    let services = cluster.services.read().unwrap_or_default();
    let ends = to.ends.iter().map(|(_, end)| *end);
    let named = ports::named(question, to.service, ends)?;
    let mut planned = Vec::new();
    let mut common_family = false;
    for (to_site, destination) in &to.ends {
        let ports = ports::ports(cluster, views, question, to.service, *destination)?;
        for (from_site, source) in &from.ends {
            for family in Family::ALL {
                if !from.families.contains(&family)
                    || !to.families.contains(&family)
                    || !source.has_family(family)
                    || !destination.has_family(family)
                {
                    continue;
                }
                common_family = true;
                let mut remarks: Vec<Remark> = named.iter().cloned().collect();
                if let Some(service) = to.service {
                    remarks.push(Remark::ServiceAddress { service: name(service) });
                }
                if let (End::Address(_) | End::Outside(_), Some(pod)) = (source, destination.subject())
                    && let Some(service) = services.iter().find(|service| rewrites_source(service, pod))
                {
                    remarks.push(Remark::SourceAddress { service: name(service) });
                }
                planned.extend(ports.iter().map(|Target { protocol, ports, has_other_service_port }| {
                    Planned {
                        from: from_site.clone(),
                        to: to_site.clone(),
                        source: *source,
                        destination: *destination,
                        family,
                        protocol: *protocol,
                        ports: ports.clone(),
                        has_other_service_port: *has_other_service_port,
                        remarks: remarks.clone(),
                    }
                }));
            }
        }
    }
    if !common_family {
        let (from, to) = (question.from.clone(), question.to.clone());
        return Err(QuestionError::NoCommonFamily { from, to });
    }
    if planned.is_empty() {
        return Err(QuestionError::NoPods(question.to.clone()));
    }
    Ok(Plan::Connections(planned))
}

fn name(service: &Service) -> Arc<str> {
    format!("{}/{}", service.namespace, service.name).into()
}

/// Whether traffic from outside to a pod may come through a Service that replaces its source address.
fn rewrites_source(service: &Service, pod: &Pod) -> bool {
    service.external
        && !service.keeps_source
        && service.namespace == pod.namespace
        && service
            .selector
            .as_ref()
            .is_some_and(|selector| selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value)))
}

/// The ends of one side.
fn side<'a>(cluster: &Cluster, views: &[&View<'_>], endpoint: &Endpoint, resolved: Resolved<'a>) -> Side<'a> {
    let pods = |pods: Vec<&'a Pod>| pods.into_iter().map(|pod| (Site::pod(pod), End::Pod(pod))).collect();
    let mut families = match endpoint {
        Endpoint::Address(address) => vec![Family::of(*address)],
        Endpoint::Range(_) | Endpoint::Internet => Family::ALL.to_vec(),
        _ => families(cluster),
    };
    let (ends, service) = match resolved {
        Resolved::Pods(found) => (pods(found), None),
        Resolved::Service(service, found) => {
            if !service.cluster_ips.is_empty() {
                families.retain(|family| {
                    service.cluster_ips.iter().any(|address| Family::of(*address) == *family)
                });
            }
            (pods(found), Some(service))
        }
        Resolved::Node(node) => (vec![(Site::Node(Arc::clone(&node.name)), End::Node(node))], None),
        Resolved::Address(address) => (vec![(Site::Address(address), End::Address(address))], None),
        Resolved::Ranges(ranges) => {
            let classes =
                ranges.into_iter().flat_map(|(family, within)| address_classes(views, family, &within));
            let ends = classes.map(|class: AddressClass| {
                let cidrs = to_cidrs(class.family, &class.ranges);
                (Site::Addresses(cidrs), End::Outside(class.representative()))
            });
            (ends.collect(), None)
        }
        Resolved::Unknown(_) => (Vec::new(), None),
    };
    Side { ends, families, service }
}
