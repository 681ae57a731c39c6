//! AdminNetworkPolicy, BaselineAdminNetworkPolicy and ClusterNetworkPolicy: their fields and the rules of their CRDs.

use serde_json::{Map, Value};
use settled_apimachinery::field::{Error, ErrorType, Path};
use settled_apimachinery::labels::LabelSelector;
use settled_apimachinery::validation::is_valid_port_num;

use super::network_policy::protocol;
use super::problem::{Lost, Problems};
use super::read;
use crate::model::{
    Action, IpBlock, Kind, Namespaces, Peer, PeerKind, Peers, Port, PortNumbers, Ports, Protocol, Rule,
    Subject, Tier,
};

/// What the spec of a cluster-scoped kind has.
pub(super) struct Spec {
    pub(super) tier: Tier,
    pub(super) subject: Subject,
    pub(super) ingress: Option<Vec<Rule>>,
    pub(super) egress: Option<Vec<Rule>>,
}

const MAX_PRIORITY: i64 = 1000;
const MAX_NAME_CHARACTERS: usize = 100;
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// A direction's names: of the rules, and of their peers.
#[derive(Clone, Copy)]
struct Direction {
    rules: &'static str,
    peers: &'static str,
}

const INGRESS: Direction = Direction { rules: "ingress", peers: "from" };
const EGRESS: Direction = Direction { rules: "egress", peers: "to" };

/// Reads the spec; None if nobody can say which pods it is for, or when it is evaluated.
pub(super) fn spec(
    kind: Kind,
    spec: &Map<String, Value>,
    path: &Path<'_>,
    problems: &mut Problems,
) -> Option<Spec> {
    let known: &[&str] = match kind {
        Kind::ClusterNetworkPolicy => &["tier", "priority", "subject", "ingress", "egress"],
        Kind::BaselineAdminNetworkPolicy => &["subject", "ingress", "egress"],
        _ => &["priority", "subject", "ingress", "egress"],
    };
    read::only(spec, known, path, problems);
    let tier = tier(kind, spec, path, problems);
    let subject = match read::given(spec, "subject") {
        Some(value) => subject(value, &path.child("subject"), problems),
        None => {
            problems.error(Lost::Policy, &Error::required(path.child("subject"), ""));
            None
        }
    };
    let mut rules = |direction| rules(kind, spec, direction, path, problems);
    let (ingress, egress) = (rules(INGRESS), rules(EGRESS));
    Some(Spec { tier: tier?, subject: subject?, ingress, egress })
}

fn tier(kind: Kind, spec: &Map<String, Value>, path: &Path<'_>, problems: &mut Problems) -> Option<Tier> {
    if kind == Kind::BaselineAdminNetworkPolicy {
        return Some(Tier::Baseline { priority: 0 });
    }
    let field = path.child("priority");
    let priority = if read::given(spec, "priority").is_none() {
        problems.error(Lost::Policy, &Error::required(field, ""));
        None
    } else {
        read::integer(spec, "priority", path, Lost::Policy, problems).filter(|priority| {
            let is_valid = (0..=MAX_PRIORITY).contains(priority);
            if !is_valid {
                let why = format!("must be between 0 and {MAX_PRIORITY}, inclusive");
                problems.error(Lost::Policy, &Error::invalid(field, *priority, why));
            }
            is_valid
        })
    };
    if kind == Kind::AdminNetworkPolicy {
        return priority.map(|priority| Tier::Admin { priority });
    }
    let field = path.child("tier");
    if read::given(spec, "tier").is_none() {
        problems.error(Lost::Policy, &Error::required(field, ""));
        return None;
    }
    match read::text(spec, "tier", path, Lost::Policy, problems)? {
        "Admin" => priority.map(|priority| Tier::Admin { priority }),
        "Baseline" => priority.map(|priority| Tier::Baseline { priority }),
        other => {
            problems.error(Lost::Policy, &Error::not_supported(field, other, ["Admin", "Baseline"]));
            None
        }
    }
}

/// Records that a map has none or several of the fields of which it must have one.
fn exactly_one<'v>(
    map: &'v Map<String, Value>,
    known: &[&'static str],
    path: &Path<'_>,
    lost: Lost,
    problems: &mut Problems,
) -> Option<(&'static str, &'v Value)> {
    let mut found = known.iter().filter_map(|name| Some((*name, read::given(map, name)?)));
    match (found.next(), found.next()) {
        (Some(only), None) => Some(only),
        (None, _) => {
            let why = format!("must have one of {}", known.join(", "));
            problems.error(lost, &Error::required(path, why));
            None
        }
        (Some(_), Some(_)) => {
            let why = format!("must have exactly one of {}", known.join(", "));
            problems.error(lost, &Error::forbidden(path, why));
            None
        }
    }
}

fn subject(value: &Value, path: &Path<'_>, problems: &mut Problems) -> Option<Subject> {
    const KNOWN: [&str; 2] = ["namespaces", "pods"];
    let map = read::object(value, path, Lost::Policy, problems)?;
    read::only(map, &KNOWN, path, problems);
    let (name, value) = exactly_one(map, &KNOWN, path, Lost::Policy, problems)?;
    let path = path.child(name);
    let (namespaces, pods) = if name == "namespaces" {
        (read::selector(value, &path, Lost::Policy, problems)?, LabelSelector::everything())
    } else {
        namespaced_pods(value, &path, Lost::Policy, problems)?
    };
    Some(Subject { namespaces: Namespaces::Selected(namespaces), pods, place: read::place(&path) })
}

/// `NamespacedPod`: selectors of namespaces and of pods.
fn namespaced_pods(
    value: &Value,
    path: &Path<'_>,
    lost: Lost,
    problems: &mut Problems,
) -> Option<(LabelSelector, LabelSelector)> {
    let map = read::object(value, path, lost, problems)?;
    read::only(map, &["namespaceSelector", "podSelector"], path, problems);
    let namespaces = match read::given(map, "namespaceSelector") {
        Some(value) => read::selector(value, &path.child("namespaceSelector"), lost, problems)?,
        // Required in v1alpha1, and empty there if a client leaves it out.
        None => LabelSelector::everything(),
    };
    let Some(pods) = read::given(map, "podSelector") else {
        problems.error(lost, &Error::required(path.child("podSelector"), ""));
        return None;
    };
    Some((namespaces, read::selector(pods, &path.child("podSelector"), lost, problems)?))
}

/// Rules of a direction; None if there are none: then the policy is not about it.
fn rules(
    kind: Kind,
    spec: &Map<String, Value>,
    direction: Direction,
    path: &Path<'_>,
    problems: &mut Problems,
) -> Option<Vec<Rule>> {
    let list = read::list(spec, direction.rules, path, Lost::Direction, problems)?;
    let path = path.child(direction.rules);
    check_count(list.len(), max_items(kind), &path, problems);
    let rules = list.iter().enumerate().filter_map(|(index, value)| {
        let path = path.index(index);
        let map = read::object(value, &path, Lost::Rule, problems)?;
        rule(kind, map, direction, &path, problems)
    });
    let rules: Vec<Rule> = read::tight(rules);
    (!rules.is_empty()).then_some(rules)
}

const fn max_items(kind: Kind) -> usize {
    if matches!(kind, Kind::ClusterNetworkPolicy) { 25 } else { 100 }
}

fn check_count(count: usize, max: usize, path: &Path<'_>, problems: &mut Problems) {
    if count > max {
        let to_i64 = |count| i64::try_from(count).unwrap_or(i64::MAX);
        problems.error(Lost::Nothing, &Error::too_many(path, to_i64(count), to_i64(max)));
    }
}

fn rule(
    kind: Kind,
    map: &Map<String, Value>,
    direction: Direction,
    path: &Path<'_>,
    problems: &mut Problems,
) -> Option<Rule> {
    let ports = if kind == Kind::ClusterNetworkPolicy { "protocols" } else { "ports" };
    read::only(map, &["name", "action", direction.peers, ports], path, problems);
    let name = read::text(map, "name", path, Lost::Nothing, problems);
    if name.is_some_and(|name| name.chars().count() > MAX_NAME_CHARACTERS) {
        let error = Error::too_long(path.child("name"), 100);
        problems.error(Lost::Nothing, &error);
    }
    let action = action(kind, map, path, problems)?;
    let peers = peers(kind, map, direction, action, path, problems)?;
    let ports = self::ports(kind, map, ports, path, problems)?;
    check_named_ports(&peers, &ports, path, problems);
    Some(Rule { name: name.map(Into::into), action, peers, ports, place: read::place(path) })
}

fn action(kind: Kind, map: &Map<String, Value>, path: &Path<'_>, problems: &mut Problems) -> Option<Action> {
    let known: &[(&str, Action)] = match kind {
        Kind::ClusterNetworkPolicy => {
            &[("Accept", Action::Allow), ("Deny", Action::Deny), ("Pass", Action::Pass)]
        }
        Kind::BaselineAdminNetworkPolicy => &[("Allow", Action::Allow), ("Deny", Action::Deny)],
        _ => &[("Allow", Action::Allow), ("Deny", Action::Deny), ("Pass", Action::Pass)],
    };
    let field = path.child("action");
    if read::given(map, "action").is_none() {
        problems.error(Lost::Rule, &Error::required(field, ""));
        return None;
    }
    let text = read::text(map, "action", path, Lost::Rule, problems)?;
    let found = known.iter().find(|(name, _)| *name == text);
    if found.is_none() {
        let names = known.iter().map(|(name, _)| *name);
        problems.error(Lost::Rule, &Error::not_supported(field, text, names));
    }
    found.map(|(_, action)| *action)
}

fn peers(
    kind: Kind,
    map: &Map<String, Value>,
    direction: Direction,
    action: Action,
    path: &Path<'_>,
    problems: &mut Problems,
) -> Option<Peers> {
    let field = path.child(direction.peers);
    let list = read::list(map, direction.peers, path, Lost::Rule, problems);
    if read::given(map, direction.peers).is_some_and(|value| !value.is_array()) {
        return None;
    }
    let list = list.unwrap_or_default();
    if list.is_empty() {
        problems.error(Lost::Rule, &Error::required(field, "must have at least one peer"));
        return None;
    }
    check_count(list.len(), max_items(kind), &field, problems);
    let mut peers = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        peer(value, direction, action, &field.index(index), problems, &mut peers);
    }
    Some(Peers::Of(peers))
}

/// Reads a peer. What this version does not know is a peer as well: a Deny rule without it would allow more than is written.
fn peer(
    value: &Value,
    direction: Direction,
    action: Action,
    path: &Path<'_>,
    problems: &mut Problems,
    peers: &mut Vec<Peer>,
) {
    let known: &[&str] = if direction.rules == EGRESS.rules {
        &["namespaces", "pods", "nodes", "networks", "domainNames"]
    } else {
        &["namespaces", "pods"]
    };
    let mut unknown =
        |why: &str| peers.push(Peer { kind: PeerKind::Unknown(why.into()), place: read::place(path) });
    let Some(map) = read::object(value, path, Lost::Peer, problems) else { return unknown("no object") };
    read::only(map, known, path, problems);
    if !known.iter().any(|name| read::given(map, name).is_some())
        && let Some(name) = map.keys().next()
    {
        problems.error(Lost::Peer, &Error::required(path, format!("must have one of {}", known.join(", "))));
        return unknown(&name.chars().take(100).collect::<String>());
    }
    let found = exactly_one_of(map, known, path, problems);
    let Some((name, value)) = found else { return unknown("no single peer") };
    let inner = path.child(name);
    let kind = match name {
        "namespaces" => namespaces(value, &inner, problems),
        "pods" => namespaced_pods(value, &inner, Lost::Peer, problems).map(|(namespaces, pods)| {
            PeerKind::Pods { namespaces: Namespaces::Selected(namespaces), pods: Some(pods) }
        }),
        "nodes" => read::selector(value, &inner, Lost::Peer, problems).map(PeerKind::Nodes),
        "domainNames" => domains(value, action, &inner, problems),
        _ => {
            networks(value, path, problems, peers);
            return;
        }
    };
    match kind {
        Some(kind) => peers.push(Peer { kind, place: read::place(path) }),
        None => unknown(name),
    }
}

fn exactly_one_of<'v>(
    map: &'v Map<String, Value>,
    known: &[&str],
    path: &Path<'_>,
    problems: &mut Problems,
) -> Option<(&'v str, &'v Value)> {
    let mut found = map.iter().filter(|(name, value)| known.contains(&name.as_str()) && !value.is_null());
    let why = match (found.next(), found.next()) {
        (Some((name, value)), None) => return Some((name, value)),
        (None, _) => format!("must have one of {}", known.join(", ")),
        (Some(_), Some(_)) => format!("must have exactly one of {}", known.join(", ")),
    };
    problems.error(Lost::Peer, &Error::new(ErrorType::Invalid, path, None, why));
    None
}

/// `namespaces`: a selector, or one in `namespaceSelector` as up to v0.1.1 of the API. Relations to the subject's own namespace
/// (`sameLabels`) are gone since then.
fn namespaces(value: &Value, path: &Path<'_>, problems: &mut Problems) -> Option<PeerKind> {
    let map = read::object(value, path, Lost::Peer, problems)?;
    let (value, name) = match read::given(map, "namespaceSelector") {
        Some(inner) if map.len() == 1 => (inner, "namespaceSelector"),
        _ => (value, ""),
    };
    if let Some(name) =
        ["sameLabels", "notSameLabels", "related"].into_iter().find(|name| map.contains_key(*name))
    {
        let why = "relations to the subject's namespace are no longer part of the API";
        problems.error(Lost::Peer, &Error::forbidden(path.child(name), why));
        return None;
    }
    let inner = path.child(name);
    let path = if name.is_empty() { path } else { &inner };
    let namespaces = read::selector(value, path, Lost::Peer, problems)?;
    Some(PeerKind::Pods { namespaces: Namespaces::Selected(namespaces), pods: None })
}

/// `networks`: a peer for each of them.
fn networks(value: &Value, path: &Path<'_>, problems: &mut Problems, peers: &mut Vec<Peer>) {
    let field = path.child("networks");
    let Some(list) = value.as_array() else {
        read::wrong_type(&field, value, "array", Lost::Peer, problems);
        peers.push(Peer { kind: PeerKind::Unknown("networks".into()), place: read::place(path) });
        return;
    };
    if list.is_empty() {
        problems.error(Lost::Peer, &Error::required(field, "must have at least one network"));
    }
    check_count(list.len(), 25, &field, problems);
    for (index, value) in list.iter().enumerate() {
        let path = field.index(index);
        let kind = match read::cidr(value, &path, Lost::Peer, problems) {
            Some(cidr) => PeerKind::Block(IpBlock { cidr, except: Vec::new() }),
            None => PeerKind::Unknown("networks".into()),
        };
        peers.push(Peer { kind, place: read::place(&path) });
    }
}

fn domains(value: &Value, action: Action, path: &Path<'_>, problems: &mut Problems) -> Option<PeerKind> {
    let Some(list) = value.as_array() else {
        read::wrong_type(path, value, "array", Lost::Peer, problems);
        return None;
    };
    if list.is_empty() {
        problems.error(Lost::Peer, &Error::required(path, "must have at least one domain name"));
    }
    check_count(list.len(), 25, path, problems);
    if action != Action::Allow {
        let why = "domain names are for rules that allow only";
        problems.error(Lost::Peer, &Error::forbidden(path, why));
        return None;
    }
    let mut domains = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        let path = path.index(index);
        match value.as_str() {
            Some(name) if is_domain_name(name) => domains.push(name.into()),
            Some(name) => {
                let why = "must be a domain name of at least two labels, with `*` as its first label at most";
                problems.error(Lost::Peer, &Error::invalid(path, name, why));
            }
            None => read::wrong_type(&path, value, "string", Lost::Peer, problems),
        }
    }
    Some(PeerKind::Domains(domains))
}

/// The pattern of `DomainName`.
fn is_domain_name(name: &str) -> bool {
    let name = name.strip_prefix("*.").unwrap_or(name);
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        is_edge(bytes.first())
            && is_edge(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.contains('.') && name.split('.').all(is_label)
}

fn ports(
    kind: Kind,
    map: &Map<String, Value>,
    name: &str,
    path: &Path<'_>,
    problems: &mut Problems,
) -> Option<Ports> {
    if read::given(map, name).is_some_and(|value| !value.is_array()) {
        read::list(map, name, path, Lost::Rule, problems);
        return None;
    }
    let list = read::list(map, name, path, Lost::Rule, problems).unwrap_or_default();
    if list.is_empty() {
        return Some(Ports::Any);
    }
    let path = path.child(name);
    check_count(list.len(), max_items(kind), &path, problems);
    let mut ports = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        let path = path.index(index);
        if kind == Kind::ClusterNetworkPolicy {
            protocol_match(value, &path, problems, &mut ports);
        } else {
            admin_port(value, &path, problems, &mut ports);
        }
    }
    Some(Ports::Of(ports))
}

/// `AdminNetworkPolicyPort`.
fn admin_port(value: &Value, path: &Path<'_>, problems: &mut Problems, ports: &mut Vec<Port>) -> Option<()> {
    const KNOWN: [&str; 3] = ["portNumber", "namedPort", "portRange"];
    let map = read::object(value, path, Lost::Port, problems)?;
    read::only(map, &KNOWN, path, problems);
    let (name, value) = exactly_one(map, &KNOWN, path, Lost::Port, problems)?;
    let inner = path.child(name);
    if name == "namedPort" {
        return named_port(value, path, &inner, problems, ports);
    }
    let map = read::object(value, &inner, Lost::Port, problems)?;
    let protocol = match read::given(map, "protocol") {
        Some(value) => Some(protocol(value, &inner.child("protocol"), problems)?),
        None => None,
    };
    let numbers = if name == "portNumber" {
        read::only(map, &["protocol", "port"], &inner, problems);
        let port = port_number(map, "port", &inner, problems)?;
        PortNumbers::Range { first: port, last: port }
    } else {
        read::only(map, &["protocol", "start", "end"], &inner, problems);
        port_range(map, &inner, problems)?
    };
    ports.push(Port {
        protocol: protocol.unwrap_or(Protocol::Tcp),
        protocol_defaulted: protocol.is_none(),
        numbers,
        place: read::place(path),
    });
    Some(())
}

/// `ClusterNetworkPolicyProtocol`.
fn protocol_match(
    value: &Value,
    path: &Path<'_>,
    problems: &mut Problems,
    ports: &mut Vec<Port>,
) -> Option<()> {
    const KNOWN: [&str; 4] = ["tcp", "udp", "sctp", "destinationNamedPort"];
    let map = read::object(value, path, Lost::Port, problems)?;
    read::only(map, &KNOWN, path, problems);
    let (name, value) = exactly_one(map, &KNOWN, path, Lost::Port, problems)?;
    let inner = path.child(name);
    let protocol = match name {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        _ => return named_port(value, path, &inner, problems, ports),
    };
    let map = read::object(value, &inner, Lost::Port, problems)?;
    read::only(map, &["destinationPort"], &inner, problems);
    let field = inner.child("destinationPort");
    let Some(value) = read::given(map, "destinationPort") else {
        // `MinProperties=1`.
        problems.error(Lost::Port, &Error::required(field, ""));
        return None;
    };
    let map = read::object(value, &field, Lost::Port, problems)?;
    read::only(map, &["number", "range"], &field, problems);
    let (name, value) = exactly_one(map, &["number", "range"], &field, Lost::Port, problems)?;
    let numbers = if name == "number" {
        let port = port_number(map, "number", &field, problems)?;
        PortNumbers::Range { first: port, last: port }
    } else {
        let range = field.child("range");
        let map = read::object(value, &range, Lost::Port, problems)?;
        read::only(map, &["start", "end"], &range, problems);
        port_range(map, &range, problems)?
    };
    ports.push(Port { protocol, protocol_defaulted: false, numbers, place: read::place(path) });
    Some(())
}

/// A named port is one of any protocol: an entry for each of them, all with the same place.
fn named_port(
    value: &Value,
    place: &Path<'_>,
    path: &Path<'_>,
    problems: &mut Problems,
    ports: &mut Vec<Port>,
) -> Option<()> {
    let Some(name) = value.as_str() else {
        read::wrong_type(path, value, "string", Lost::Port, problems);
        return None;
    };
    if name.is_empty() {
        problems.error(Lost::Port, &Error::required(path, ""));
        return None;
    }
    let (place, name): (_, std::sync::Arc<str>) = (read::place(place), name.into());
    ports.extend(PROTOCOLS.map(|protocol| Port {
        protocol,
        protocol_defaulted: false,
        numbers: PortNumbers::Named(name.clone()),
        place: place.clone(),
    }));
    Some(())
}

fn port_number(
    map: &Map<String, Value>,
    name: &str,
    path: &Path<'_>,
    problems: &mut Problems,
) -> Option<u16> {
    let field = path.child(name);
    if read::given(map, name).is_none() {
        problems.error(Lost::Port, &Error::required(field, ""));
        return None;
    }
    let number = read::integer(map, name, path, Lost::Port, problems)?;
    let messages = is_valid_port_num(number);
    for why in &messages {
        problems.error(Lost::Port, &Error::invalid(field, number, why.as_str()));
    }
    u16::try_from(number).ok().filter(|_| messages.is_empty())
}

fn port_range(map: &Map<String, Value>, path: &Path<'_>, problems: &mut Problems) -> Option<PortNumbers> {
    let first = port_number(map, "start", path, problems);
    let last = port_number(map, "end", path, problems);
    let (first, last) = first.zip(last)?;
    if first >= last {
        let lost = if first == last { Lost::Nothing } else { Lost::Port };
        let why = "Start port must be less than End port";
        problems.error(lost, &Error::new(ErrorType::Invalid, path, None, why));
    }
    (first <= last).then_some(PortNumbers::Range { first, last })
}

/// The CEL rule on egress: peers that are no pods have no named ports.
fn check_named_ports(peers: &Peers, ports: &Ports, path: &Path<'_>, problems: &mut Problems) {
    let (Peers::Of(peers), Ports::Of(ports)) = (peers, ports) else { return };
    let has_others = peers
        .iter()
        .any(|peer| matches!(peer.kind, PeerKind::Block(_) | PeerKind::Nodes(_) | PeerKind::Domains(_)));
    if has_others && ports.iter().any(|port| matches!(port.numbers, PortNumbers::Named(_))) {
        let why = "networks/nodes/domainNames peer cannot be set with namedPorts since there are no namedPorts for \
                   networks/nodes/domainNames";
        problems.error(Lost::Nothing, &Error::new(ErrorType::Invalid, path, None, why));
    }
}
