//! The provider of a cluster: one is checked, none or two are an answer of their own, with the evidence.

use settled_netpol::detect::{Detected, Detection, Inventory, detect};
use settled_netpol::profile::Profiles;

use super::files::Contents;
use super::providers::Chosen;
use crate::error::{CommandError, ErrorKind};

/// The provider that runs in a cluster, in all its variants.
pub(super) fn chosen<'p>(
    profiles: &'p Profiles,
    inventory: &Inventory,
) -> Result<Vec<Chosen<'p>>, CommandError> {
    of(profiles, detect(profiles, inventory))
}

/// The provider that runs according to files, such as a dump of a cluster; None if there is none in them.
pub(super) fn in_files<'p>(
    profiles: &'p Profiles,
    contents: &Contents,
) -> Result<Option<Vec<Chosen<'p>>>, CommandError> {
    let detection = detect(profiles, &contents.snapshot.inventory());
    if detection.providers.is_empty() { Ok(None) } else { of(profiles, detection).map(Some) }
}

fn of(profiles: &Profiles, detection: Detection) -> Result<Vec<Chosen<'_>>, CommandError> {
    if !detection.is_unique() {
        return Err(undetected(&detection));
    }
    detection
        .providers
        .into_iter()
        .map(|found| Chosen::new(profiles, &found.reference, found.evidence))
        .collect()
}

fn undetected(detection: &Detection) -> CommandError {
    const HINT: &str = "name it: --provider cilium@1.16; settled netpol profiles lists the providers";
    if detection.providers.is_empty() {
        if let [reason, ..] = &*detection.unread {
            return CommandError::cluster(format!("cannot detect the provider of the cluster: {reason}"))
                .hint(HINT);
        }
        let error = CommandError::new(ErrorKind::Undetected, "no known provider runs in the cluster");
        let traces = detection.traces.iter().flat_map(|found| lines(found, "left over"));
        return traces.fold(error, CommandError::detail).hint(HINT);
    }
    let names: Vec<String> = detection.providers.iter().map(|found| found.reference.to_string()).collect();
    let message = format!("several providers run in the cluster: {}", names.join(", "));
    let evidence = detection.providers.iter().flat_map(|found| lines(found, "found"));
    let error = evidence.fold(CommandError::new(ErrorKind::Undetected, message), CommandError::detail);
    let options: Vec<String> = names.iter().map(|name| format!("--provider {name}")).collect();
    error.hint(format!("name the one that carries out policies, or all of them: {}", options.join(" ")))
}

/// `cilium@v1.16.2: found DaemonSet …`
fn lines(found: &Detected, how: &str) -> Vec<String> {
    let line = |evidence: &String| format!("{}: {how}: {evidence}", found.reference);
    found.evidence.iter().map(line).collect()
}
