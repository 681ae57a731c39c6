//! Findings about ipBlocks: exceptions, and addresses that belong to the cluster.

use super::finding::{FindingKind, Findings};
use crate::extract::rules;
use crate::index::{ClusterIndex, Unread};
use crate::model::{IpBlock, PeerKind, Peers, Place, Policy};
use crate::profile::Direction;
use crate::ranges::Ranges;

/// Checks the blocks of all rules.
pub(super) fn check(policy: &Policy, index: Option<&ClusterIndex<'_>>, findings: &mut Findings) {
    for direction in [Direction::Ingress, Direction::Egress] {
        for rule in rules(policy, direction).unwrap_or_default() {
            let Peers::Of(peers) = &rule.peers else { continue };
            for peer in peers {
                let PeerKind::Block(block) = &peer.kind else { continue };
                check_except(block, &peer.place, findings);
                // A block of all addresses is meant to have those of the cluster.
                if block.cidr.bits > 0 {
                    check_cluster(block, &peer.place, index, findings);
                }
            }
        }
    }
}

fn check_except(block: &IpBlock, place: &Place, findings: &mut Findings) {
    let mut except = block.except.clone();
    for inner in
        except.iter().filter(|inner| inner.bits <= block.cidr.bits || !block.cidr.contains(inner.network))
    {
        let message = format!("exception {inner} is no strict subset of {}", block.cidr);
        findings.push(FindingKind::ExceptNotSubset, place, message);
    }
    // Sorted by address, an overlap is one of neighbors: ranges are nested or disjoint, and a wider one comes first.
    except.sort_by_key(|cidr| (cidr.network, cidr.bits));
    let mut widest = None::<crate::model::Cidr>;
    for inner in &except {
        match widest {
            Some(outer) if outer.overlaps(inner) => {
                let message = format!("exceptions {outer} and {inner} overlap");
                findings.push(FindingKind::ExceptOverlapping, place, message);
            }
            _ => widest = Some(*inner),
        }
    }
    if !except.is_empty() && Ranges::new(except).covers(block.cidr) {
        let message = format!("the exceptions leave nothing of {}", block.cidr);
        findings.push(FindingKind::ExceptCoversBlock, place, message);
    }
}

fn check_cluster(block: &IpBlock, place: &Place, index: Option<&ClusterIndex<'_>>, findings: &mut Findings) {
    const KINDS: [FindingKind; 3] =
        [FindingKind::BlockOverPods, FindingKind::BlockOverNodes, FindingKind::BlockOverServices];
    let Some(index) = index else {
        findings.miss_for(&KINDS, "cluster", "no cluster was given");
        return;
    };
    let cidr = block.cidr;
    let sets: [(FindingKind, &Ranges, Option<Unread>, String); 3] = [
        (
            FindingKind::BlockOverPods,
            &index.pod_addresses,
            index.pods_unread(),
            format!(
                "{cidr} has addresses of pods: pods change theirs, and some providers never match them with an ipBlock"
            ),
        ),
        (
            FindingKind::BlockOverNodes,
            &index.node_addresses,
            index.nodes_unread(),
            format!("{cidr} has addresses of nodes: some providers never match them with an ipBlock"),
        ),
        (
            FindingKind::BlockOverServices,
            &index.service_addresses,
            index.services_unread(),
            format!("{cidr} has cluster IPs of Services: most providers see the address of a pod instead"),
        ),
    ];
    for (kind, addresses, unread, message) in sets {
        if addresses.meets(block) {
            findings.push(kind, place, message);
        } else if let Some(unread) = unread {
            findings.miss(&[kind], &unread);
        }
    }
}
