//! Ports that a question means: by number, by the names of the destination's pods, and by those of a Service.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::classes::{PortRanges, port_classes};
use super::matching::End;
use super::outcome::{NamedPorts, Remark};
use super::question::{Ask, Question, QuestionError, target_port};
use super::view::View;
use crate::cluster::{Cluster, Pod, Service};
use crate::model::Protocol;

/// Ports of a destination.
pub(super) struct Target {
    pub(super) protocol: Protocol,
    pub(super) ports: PortRanges,
    /// Whether the traffic comes through a Service with another port.
    pub(super) has_other_service_port: bool,
}

/// The ports of a destination. None if a Service does not send the traffic there, or the pod does not have the name.
pub(super) fn ports(
    cluster: &Cluster,
    views: &[&View<'_>],
    question: &Question,
    service: Option<&Service>,
    destination: End<'_>,
) -> Result<Vec<Target>, QuestionError> {
    let direct = |protocol, ports| Target { protocol, ports, has_other_service_port: false };
    let through = |service: &Service, protocol, port: u16| {
        let End::Pod(pod) = destination else { return None };
        let target = target_port(service, protocol, port, pod)?;
        Some(Target { protocol, ports: vec![(target, target)], has_other_service_port: target != port })
    };
    match (&question.traffic, service) {
        (Ask::Port(protocol, port), None) => Ok(vec![direct(*protocol, vec![(*port, *port)])]),
        (Ask::Port(protocol, port), Some(service)) => {
            if !service.ports.iter().any(|entry| entry.protocol == *protocol && entry.port == *port) {
                let (service, protocol, port) = (question.to.clone(), *protocol, *port);
                return Err(QuestionError::NoServicePort { service, protocol, port });
            }
            Ok(through(service, *protocol, *port).into_iter().collect())
        }
        (Ask::Named { protocol, name }, None) => {
            let End::Pod(pod) = destination else {
                return Err(QuestionError::NameWithoutPods {
                    to: question.to.clone(),
                    name: Arc::clone(name),
                });
            };
            let numbers = numbers(pod, *protocol, name);
            Ok(numbers
                .into_iter()
                .map(|(protocol, number)| direct(protocol, vec![(number, number)]))
                .collect())
        }
        (Ask::Named { protocol, name }, Some(service)) => {
            let meant = service.ports.iter().filter(|entry| {
                entry.name.as_ref() == Some(name)
                    && protocol.is_none_or(|protocol| entry.protocol == protocol)
            });
            Ok(meant.filter_map(|entry| through(service, entry.protocol, entry.port)).collect())
        }
        (Ask::AllPorts, Some(service)) => Ok(service
            .ports
            .iter()
            .filter_map(|entry| through(service, entry.protocol, entry.port))
            .collect()),
        (Ask::AllPorts, None) => {
            let pods = cluster.pods.read().unwrap_or_default();
            let classes = port_classes(views, pods);
            Ok(classes.into_iter().map(|class| direct(class.protocol, class.ranges)).collect())
        }
    }
}

/// What a name stands for in a pod.
fn numbers(pod: &Pod, protocol: Option<Protocol>, name: &str) -> Vec<(Protocol, u16)> {
    let declared = pod.ports.iter().filter(|port| {
        port.name.as_deref() == Some(name) && protocol.is_none_or(|protocol| port.protocol == protocol)
    });
    let mut numbers: Vec<(Protocol, u16)> = declared.map(|port| (port.protocol, port.number)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// What is to be said of a name that is asked about: that it is not the same port in all pods.
///
/// # Errors
/// If the Service, or all of the pods, do not have the name.
pub(super) fn named<'a>(
    question: &Question,
    service: Option<&Service>,
    destinations: impl Iterator<Item = End<'a>>,
) -> Result<Option<Remark>, QuestionError> {
    let Ask::Named { protocol, name } = &question.traffic else { return Ok(None) };
    let protocol = *protocol;
    let missing = |known: &mut dyn Iterator<Item = (Option<&Arc<str>>, Protocol, u16)>| {
        let mut known: Vec<String> = known
            .map(|(name, protocol, number)| match name {
                Some(name) => format!("{name} ({number}/{protocol})"),
                None => format!("{number}/{protocol}"),
            })
            .collect();
        known.sort_unstable();
        known.dedup();
        QuestionError::NoPortOfName { to: question.to.clone(), port: question.traffic.clone(), known }
    };
    if let Some(service) = service {
        let has_name = service.ports.iter().any(|entry| {
            entry.name.as_ref() == Some(name) && protocol.is_none_or(|protocol| entry.protocol == protocol)
        });
        let mut known = service.ports.iter().map(|entry| (entry.name.as_ref(), entry.protocol, entry.port));
        return if has_name { Ok(None) } else { Err(missing(&mut known)) };
    }
    let pods: Vec<&Pod> = destinations
        .filter_map(|end| match end {
            End::Pod(pod) => Some(pod),
            _ => None,
        })
        .collect();
    let mut by_numbers: BTreeMap<Vec<(Protocol, u16)>, Vec<Arc<str>>> = BTreeMap::new();
    for pod in &pods {
        let full = format!("{}/{}", pod.namespace, pod.name).into();
        by_numbers.entry(numbers(pod, protocol, name)).or_default().push(full);
    }
    match by_numbers.len() {
        0 => Ok(None),
        1 if by_numbers.contains_key(&Vec::new()) => {
            let ports = pods.iter().flat_map(|pod| &pod.ports);
            Err(missing(&mut ports.map(|port| (port.name.as_ref(), port.protocol, port.number))))
        }
        1 => Ok(None),
        _ => Ok(Some(Remark::NamedPort {
            name: Arc::clone(name),
            numbers: by_numbers.into_iter().map(|(ports, pods)| NamedPorts { ports, pods }).collect(),
        })),
    }
}
