//! Nodes as a user writes them: how many, and what they offer.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use settled_apimachinery::quantity::Quantity;

/// Pods that a Node takes unless something else is said: the kubelet's default.
const MAX_PODS: &str = "110";
/// The label of a Node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// The most Nodes of a text: more is a mistake.
const MAX_NODES: usize = 5_000;

/// A Node to create.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSpec {
    /// Its name.
    pub name: String,
    /// Its labels, beside those that every Node has.
    pub labels: BTreeMap<String, String>,
    /// What it offers, such as `cpu` and `memory`.
    pub capacity: BTreeMap<String, String>,
    /// What keeps Pods away from it.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned: no Pod is put on it.
    pub is_unschedulable: bool,
}

/// A text that does not say which Nodes there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot read {part:?} of Nodes: {message}; write 3x4cpu,16Gi or 2x8cpu,32Gi,zone=a,taint=key=value:NoSchedule"
)]
pub struct NodeSpecError {
    /// The part that is wrong.
    pub part: String,
    /// Why.
    pub message: String,
}

/// Three Nodes in one zone each.
#[must_use]
pub fn default_nodes() -> Vec<NodeSpec> {
    (1..=3).map(|number| NodeSpec::numbered(number, [("cpu", "64"), ("memory", "256Gi")])).collect()
}

impl NodeSpec {
    /// The Node with this number.
    #[must_use]
    pub fn numbered<const N: usize>(number: usize, capacity: [(&str, &str); N]) -> Self {
        let all = capacity.map(|(name, quantity)| (name.to_owned(), quantity.to_owned())).into();
        Self::new(number, all, BTreeMap::new(), Vec::new())
    }

    fn new(
        number: usize,
        mut capacity: BTreeMap<String, String>,
        mut labels: BTreeMap<String, String>,
        taints: Vec<Taint>,
    ) -> Self {
        capacity.entry("pods".to_owned()).or_insert_with(|| MAX_PODS.to_owned());
        labels.entry(ZONE.to_owned()).or_insert_with(|| {
            let letter = u8::try_from((number + 2) % 3).unwrap_or_default();
            format!("zone-{}", char::from(b'a' + letter))
        });
        Self { name: format!("node-{number}"), labels, capacity, taints, is_unschedulable: false }
    }

    /// Reads groups of Nodes, separated by spaces or semicolons: `3x4cpu,16Gi` is three with four CPUs and 16 GiB of memory each.
    /// After the CPUs come, separated by commas, the memory, `pods=20`, other resources such as `example.com/gpu=2` written
    /// `resource=example.com/gpu=2`, `taint=key=value:NoSchedule`, and labels; `zone=a` is the zone.
    ///
    /// ```
    /// use settled_simulator::nodes::NodeSpec;
    ///
    /// let nodes = NodeSpec::parse_all("2x4cpu,16Gi; 1x8cpu,32Gi,zone=b,taint=gpu=yes:NoSchedule")?;
    /// assert_eq!(nodes.len(), 3);
    /// assert_eq!(nodes[2].name, "node-3");
    /// assert_eq!(nodes[2].labels["topology.kubernetes.io/zone"], "b");
    /// # Ok::<(), settled_simulator::nodes::NodeSpecError>(())
    /// ```
    ///
    /// # Errors
    /// A part that has no such form.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, NodeSpecError> {
        let mut nodes = Vec::new();
        for group in text.split([';', ' ', '\n', '\t']).filter(|group| !group.is_empty()) {
            let mut parts = group.split(',');
            let first = parts.next().unwrap_or_default();
            let failed =
                |message: &str| NodeSpecError { part: first.to_owned(), message: message.to_owned() };
            // Without a number it is one: 4cpu,16Gi.
            let (count, cpus) = match first.split_once('x') {
                Some((count, cpus)) => {
                    (count.parse().map_err(|_| failed("the number before the x is no number"))?, cpus)
                }
                None => (1, first),
            };
            if count + nodes.len() > MAX_NODES {
                return Err(failed("more than 5,000 Nodes"));
            }
            let cpus = cpus.strip_suffix("cpu").ok_or_else(|| failed("the CPUs come first, as in 4cpu"))?;
            let mut capacity = BTreeMap::from([("cpu".to_owned(), quantity(first, cpus)?)]);
            let (mut labels, mut taints) = (BTreeMap::new(), Vec::new());
            for part in parts {
                read(part, &mut capacity, &mut labels, &mut taints)?;
            }
            for _ in 0..count {
                let number = nodes.len() + 1;
                nodes.push(Self::new(number, capacity.clone(), labels.clone(), taints.clone()));
            }
        }
        Ok(nodes)
    }
}

fn quantity(part: &str, text: &str) -> Result<String, NodeSpecError> {
    let is_amount = Quantity::parse(text).is_ok_and(|quantity| !quantity.is_negative());
    let message = || NodeSpecError { part: part.to_owned(), message: format!("{text:?} is no quantity") };
    is_amount.then(|| text.to_owned()).ok_or_else(message)
}

fn read(
    part: &str,
    capacity: &mut BTreeMap<String, String>,
    labels: &mut BTreeMap<String, String>,
    taints: &mut Vec<Taint>,
) -> Result<(), NodeSpecError> {
    let Some((key, value)) = part.split_once('=') else {
        capacity.insert("memory".to_owned(), quantity(part, part)?);
        return Ok(());
    };
    match key {
        "pods" | "memory" | "ephemeral-storage" => {
            capacity.insert(key.to_owned(), quantity(part, value)?);
        }
        "resource" => {
            let Some((name, amount)) = value.split_once('=') else {
                return Err(NodeSpecError {
                    part: part.to_owned(),
                    message: "write resource=NAME=QUANTITY".to_owned(),
                });
            };
            capacity.insert(name.to_owned(), quantity(part, amount)?);
        }
        "taint" => {
            let (key, effect) = value.rsplit_once(':').unwrap_or((value, ""));
            if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
                let message = "a taint ends with :NoSchedule, :PreferNoSchedule or :NoExecute".to_owned();
                return Err(NodeSpecError { part: part.to_owned(), message });
            }
            let (key, value) =
                key.split_once('=').map_or((key, None), |(key, value)| (key, Some(value.to_owned())));
            let taint = Taint { key: key.to_owned(), value, effect: effect.to_owned(), ..Taint::default() };
            taints.push(taint);
        }
        "zone" => drop(labels.insert(ZONE.to_owned(), value.to_owned())),
        label => drop(labels.insert(label.to_owned(), value.to_owned())),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_from_a_text() {
        let nodes =
            NodeSpec::parse_all("2x500mcpu,16Gi,pods=7 8cpu,32Gi,zone=a,disk=ssd,resource=example.com/gpu=2")
                .expect("Nodes");
        let of = |number: usize, resource: &str| nodes[number].capacity.get(resource).map(String::as_str);
        assert_eq!((of(0, "cpu"), of(1, "memory"), of(1, "pods")), (Some("500m"), Some("16Gi"), Some("7")));
        assert_eq!(
            (of(2, "cpu"), of(2, "example.com/gpu"), of(2, "pods")),
            (Some("8"), Some("2"), Some("110"))
        );
        let zones: Vec<_> = nodes.iter().map(|node| node.labels[ZONE].as_str()).collect();
        assert_eq!(zones, ["zone-a", "zone-b", "a"]);
        assert_eq!(nodes[2].labels["disk"], "ssd");
        let tainted = NodeSpec::parse_all("1cpu,taint=a=b:NoExecute,taint=c:NoSchedule").expect("a Node");
        let taints: Vec<_> = tainted[0]
            .taints
            .iter()
            .map(|taint| (&*taint.key, taint.value.as_deref(), &*taint.effect))
            .collect();
        assert_eq!(taints, [("a", Some("b"), "NoExecute"), ("c", None, "NoSchedule")]);
        assert!(NodeSpec::parse_all(" ").expect("no Nodes").is_empty());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("3x4", "3x4"),
            ("ax4cpu", "ax4cpu"),
            ("3xmanycpu", "3xmanycpu"),
            ("9999999x1cpu", "9999999x1cpu"),
            ("1x4cpu,lots", "lots"),
            ("1x4cpu,taint=key", "taint=key"),
            ("1x4cpu,resource=gpu", "resource=gpu"),
        ] {
            assert_eq!(NodeSpec::parse_all(text).expect_err(text).part, part);
        }
    }
}
