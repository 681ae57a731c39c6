//! NetworkPolicy: its fields and the API server's rules for them (`ValidateNetworkPolicySpec`).

use serde_json::{Map, Value, json};
use settled_apimachinery::field::{Error, Path};
use settled_apimachinery::labels::LabelSelector;
use settled_apimachinery::validation::{is_valid_port_name, is_valid_port_num};

use super::problem::{Lost, Problems};
use super::read;
use crate::model::{
    Action, Cidr, IpBlock, Namespaces, Peer, PeerKind, Peers, Port, PortNumbers, Ports, Protocol, Rule,
    Subject,
};

/// What the spec of a NetworkPolicy has.
pub(super) struct Spec {
    pub(super) subject: Subject,
    pub(super) ingress: Option<Vec<Rule>>,
    pub(super) egress: Option<Vec<Rule>>,
    pub(super) types_defaulted: bool,
}

const TYPES: [&str; 2] = ["Ingress", "Egress"];

/// Reads the spec; None if nobody can say which pods it is for.
pub(super) fn spec(spec: &Map<String, Value>, path: &Path<'_>, problems: &mut Problems) -> Option<Spec> {
    read::only(spec, &["podSelector", "policyTypes", "ingress", "egress"], path, problems);
    let place = path.child("podSelector");
    // No pointer upstream: absent is the same as empty.
    let pods = match read::given(spec, "podSelector") {
        Some(selector) => read::selector(selector, &place, Lost::Policy, problems),
        None => Some(LabelSelector::everything()),
    };
    let mut ingress = rules(spec, "ingress", "from", path, problems);
    let mut egress = rules(spec, "egress", "to", path, problems);
    let types = types(spec, path, problems);
    if let Some(types) = &types {
        for (name, rules) in [("ingress", &ingress), ("egress", &egress)] {
            let is_type = types.iter().any(|kind| kind.eq_ignore_ascii_case(name));
            if !is_type && rules.as_ref().is_some_and(|rules| !rules.is_empty()) {
                let place = path.child(name);
                problems.warning(place, "rules are ignored: policyTypes does not list the direction");
            }
        }
        let listed = |name| types.contains(&name);
        ingress = listed("Ingress").then(|| ingress.take().unwrap_or_default());
        egress = listed("Egress").then(|| egress.take().unwrap_or_default());
    } else {
        // `SetDefaults_NetworkPolicy`.
        ingress = Some(ingress.unwrap_or_default());
        egress = egress.filter(|rules| !rules.is_empty());
    }
    let subject = Subject { namespaces: Namespaces::Own, pods: pods?, place: read::place(&place) };
    Some(Spec { subject, ingress, egress, types_defaulted: types.is_none() })
}

/// `policyTypes`; None if it is absent or empty. Entries that are none of the known ones are left out.
fn types<'v>(spec: &'v Map<String, Value>, path: &Path<'_>, problems: &mut Problems) -> Option<Vec<&'v str>> {
    let list = read::list(spec, "policyTypes", path, Lost::Nothing, problems)?;
    let path = path.child("policyTypes");
    if list.len() > TYPES.len() {
        let why = "may not specify more than two policyTypes";
        problems.error(
            Lost::Nothing,
            &Error::new(settled_apimachinery::field::ErrorType::Invalid, path, None, why),
        );
    }
    let mut types = Vec::new();
    for (index, value) in list.iter().enumerate().take(TYPES.len()) {
        let path = path.index(index);
        match value.as_str() {
            Some(kind) if TYPES.contains(&kind) => types.push(kind),
            Some(kind) => problems.error(Lost::Direction, &Error::not_supported(path, kind, TYPES)),
            None => read::wrong_type(&path, value, "string", Lost::Direction, problems),
        }
    }
    (!list.is_empty()).then_some(types)
}

fn rules(
    spec: &Map<String, Value>,
    name: &str,
    peers: &str,
    path: &Path<'_>,
    problems: &mut Problems,
) -> Option<Vec<Rule>> {
    if let Some(value) = read::given(spec, name).filter(|value| !value.is_array()) {
        read::wrong_type(&path.child(name), value, "array", Lost::Direction, problems);
        // It is about the direction, with rules that cannot be read.
        return Some(Vec::new());
    }
    let list = read::list(spec, name, path, Lost::Direction, problems)?;
    let path = path.child(name);
    let rules = list.iter().enumerate().filter_map(|(index, value)| {
        let path = path.index(index);
        // `- null` decodes as an empty rule: everything is allowed.
        let empty = Map::new();
        let map = if value.is_null() { &empty } else { read::object(value, &path, Lost::Rule, problems)? };
        read::only(map, &["ports", peers], &path, problems);
        Some(Rule {
            name: None,
            action: Action::Allow,
            peers: self::peers(map, peers, &path, problems)?,
            ports: ports(map, &path, problems)?,
            place: read::place(&path),
        })
    });
    Some(read::tight(rules))
}

fn peers(map: &Map<String, Value>, name: &str, path: &Path<'_>, problems: &mut Problems) -> Option<Peers> {
    if read::given(map, name).is_some_and(|value| !value.is_array()) {
        read::list(map, name, path, Lost::Rule, problems);
        return None;
    }
    let list = read::list(map, name, path, Lost::Rule, problems).unwrap_or_default();
    if list.is_empty() {
        return Some(Peers::Any);
    }
    let path = path.child(name);
    let peers =
        list.iter().enumerate().filter_map(|(index, value)| peer(value, &path.index(index), problems));
    Some(Peers::Of(read::tight(peers)))
}

fn peer(value: &Value, path: &Path<'_>, problems: &mut Problems) -> Option<Peer> {
    let map = read::object(value, path, Lost::Peer, problems)?;
    read::only(map, &["podSelector", "namespaceSelector", "ipBlock"], path, problems);
    let [pods, namespaces, block] =
        ["podSelector", "namespaceSelector", "ipBlock"].map(|name| read::given(map, name));
    let mut selector = |name, value: Option<&Value>| match value {
        Some(value) => read::selector(value, &path.child(name), Lost::Peer, problems).map(Some),
        None => Some(None),
    };
    let selectors = (selector("podSelector", pods), selector("namespaceSelector", namespaces));
    let block = block.map(|block| ip_block(block, &path.child("ipBlock"), problems));
    let kind = match (selectors, block) {
        ((Some(None), Some(None)), None) => {
            problems.error(Lost::Peer, &Error::required(path, "must specify a peer"));
            return None;
        }
        ((Some(None), Some(None)), Some(block)) => PeerKind::Block(block?),
        (_, Some(_)) => {
            let why = "may not specify both ipBlock and another peer";
            problems.error(Lost::Peer, &Error::forbidden(path, why));
            return None;
        }
        ((pods, namespaces), None) => PeerKind::Pods {
            pods: pods?,
            namespaces: namespaces?.map_or(Namespaces::Own, Namespaces::Selected),
        },
    };
    Some(Peer { kind, place: read::place(path) })
}

fn ip_block(value: &Value, path: &Path<'_>, problems: &mut Problems) -> Option<IpBlock> {
    let map = read::object(value, path, Lost::Peer, problems)?;
    read::only(map, &["cidr", "except"], path, problems);
    let Some(range) = read::given(map, "cidr").filter(|range| range.as_str() != Some("")) else {
        problems.error(Lost::Peer, &Error::required(path.child("cidr"), ""));
        return None;
    };
    let cidr = read::cidr(range, &path.child("cidr"), Lost::Peer, problems)?;
    if read::given(map, "except").is_some_and(|value| !value.is_array()) {
        read::list(map, "except", path, Lost::Peer, problems);
        return None;
    }
    let list = read::list(map, "except", path, Lost::Peer, problems).unwrap_or_default();
    let path = path.child("except");
    let mut except = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        let path = path.index(index);
        // Without one of its exceptions, a block would allow more than is written.
        let inner = read::cidr(value, &path, Lost::Peer, problems)?;
        if !is_strict_subset(inner, cidr) {
            let text = value.as_str().unwrap_or_default();
            problems.error(Lost::Nothing, &Error::invalid(path, text, "must be a strict subset of `cidr`"));
        }
        except.push(inner);
    }
    Some(IpBlock { cidr, except })
}

fn is_strict_subset(inner: Cidr, outer: Cidr) -> bool {
    inner.bits > outer.bits && outer.contains(inner.network)
}

fn ports(map: &Map<String, Value>, path: &Path<'_>, problems: &mut Problems) -> Option<Ports> {
    if read::given(map, "ports").is_some_and(|value| !value.is_array()) {
        read::list(map, "ports", path, Lost::Rule, problems);
        return None;
    }
    let list = read::list(map, "ports", path, Lost::Rule, problems).unwrap_or_default();
    if list.is_empty() {
        return Some(Ports::Any);
    }
    let path = path.child("ports");
    let ports =
        list.iter().enumerate().filter_map(|(index, value)| port(value, &path.index(index), problems));
    Some(Ports::Of(read::tight(ports)))
}

fn port(value: &Value, path: &Path<'_>, problems: &mut Problems) -> Option<Port> {
    let empty = Map::new();
    let map = if value.is_null() { &empty } else { read::object(value, path, Lost::Port, problems)? };
    read::only(map, &["protocol", "port", "endPort"], path, problems);
    let protocol = match read::given(map, "protocol") {
        Some(value) => Some(protocol(value, &path.child("protocol"), problems)?),
        None => None,
    };
    let last = match read::given(map, "endPort") {
        Some(_) => Some(read::integer(map, "endPort", path, Lost::Port, problems)?),
        None => None,
    };
    let end = path.child("endPort");
    let numbers = match read::given(map, "port") {
        None => {
            if let Some(last) = last {
                let why = "may not be specified when `port` is not specified";
                problems.error(Lost::Port, &Error::invalid(end, last, why));
                return None;
            }
            PortNumbers::Any
        }
        Some(Value::String(name)) => {
            if let Some(last) = last {
                let why = "may not be specified when `port` is non-numeric";
                problems.error(Lost::Port, &Error::invalid(end, last, why));
            }
            let messages = is_valid_port_name(name);
            for why in &messages {
                problems.error(Lost::Port, &Error::invalid(path.child("port"), name.as_str(), why.as_str()));
            }
            if last.is_some() || !messages.is_empty() {
                return None;
            }
            PortNumbers::Named(name.as_str().into())
        }
        Some(_) => {
            let first = read::integer(map, "port", path, Lost::Port, problems)?;
            range(first, last, path, problems)?
        }
    };
    Some(Port {
        protocol: protocol.unwrap_or(Protocol::Tcp),
        protocol_defaulted: protocol.is_none(),
        numbers,
        place: read::place(path),
    })
}

fn range(first: i64, last: Option<i64>, path: &Path<'_>, problems: &mut Problems) -> Option<PortNumbers> {
    let end = path.child("endPort");
    let mut messages: Vec<Error> = is_valid_port_num(first)
        .into_iter()
        .map(|why| Error::invalid(path.child("port"), first, why))
        .collect();
    if let Some(last) = last {
        if last < first {
            messages.push(Error::invalid(end, last, "must be greater than or equal to `port`"));
        }
        messages.extend(is_valid_port_num(last).into_iter().map(|why| Error::invalid(end, last, why)));
    }
    for error in &messages {
        problems.error(Lost::Port, error);
    }
    let first = u16::try_from(first).ok().filter(|_| messages.is_empty())?;
    let last = u16::try_from(last.unwrap_or_else(|| first.into())).ok()?;
    Some(PortNumbers::Range { first, last })
}

/// A protocol with ports. Its case counts.
pub(super) fn protocol(value: &Value, path: &Path<'_>, problems: &mut Problems) -> Option<Protocol> {
    let Some(text) = value.as_str() else {
        read::wrong_type(path, value, "string", Lost::Port, problems);
        return None;
    };
    let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let known = all.into_iter().find(|protocol| protocol.as_str() == text);
    if known.is_none() {
        let names = all.map(Protocol::as_str);
        problems.error(Lost::Port, &Error::not_supported(path, json!(text), names));
    }
    known
}
