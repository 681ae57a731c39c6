//! `settled cluster export` and `import`: objects with their status, kubeadm's configuration, and `cluster.k8s.io/v1alpha1`.

use std::process::ExitCode;

use settled_machines::convert::{
    Note, export as export_objects, export_kubeadm, export_v1alpha1, import_kubeadm, import_v1alpha1,
    is_kubeadm, is_v1alpha1,
};
use settled_machines::inventory::{Id, Kind};
use settled_machines::live;

use super::{documents, server};
use crate::cli::machines::{ExportArgs, ExportFormat, ImportArgs};
use crate::error::CommandError;
use crate::session::INTERRUPTED;
use crate::stderr;
use crate::text;

pub(super) fn export(args: &ExportArgs) -> Result<ExitCode, CommandError> {
    let read = server::with(&args.server, async |opened| {
        let read = live::read(&opened.client(), Some(&opened.namespace)).await.map_err(server::failed)?;
        Ok((read, opened.namespace.clone()))
    })?;
    let Some((mut inventory, namespace)) = read else { return Ok(ExitCode::from(INTERRUPTED)) };
    if let Some(name) = &args.name {
        if inventory.get(&Id::new(Kind::Cluster, &namespace, name)).is_none() {
            return Err(CommandError::input(format!("there is no Cluster {name} in namespace {namespace}")));
        }
        inventory = inventory.of_cluster(&namespace, name);
    }
    let objects = match args.format {
        ExportFormat::Settled => {
            let export = export_objects(&inventory);
            for object in &export.deleting {
                stderr::warning(&format!("{object} is being deleted, and is not exported"));
            }
            export.objects
        }
        ExportFormat::Kubeadm => {
            let clusters: Vec<_> = inventory.of_kind(Kind::Cluster).collect();
            let [(_, cluster)] = clusters.as_slice() else {
                return Err(CommandError::usage("kubeadm's configuration is of one Cluster")
                    .hint("name it: settled cluster export NAME --format kubeadm"));
            };
            export_kubeadm(cluster)
        }
        ExportFormat::V1alpha1 => {
            inventory.iter().filter_map(|(_, object)| export_v1alpha1(object)).collect()
        }
    };
    if objects.is_empty() {
        return Err(CommandError::input(format!("no objects found in namespace {namespace}")));
    }
    documents::print(&objects, args.output.format)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn import(args: &ImportArgs) -> Result<ExitCode, CommandError> {
    if args.manifests.files.is_empty() {
        return Err(
            CommandError::usage("no input").hint("pass manifests with -f FILE, or -f - for standard input")
        );
    }
    let documents = documents::read(&args.manifests.files)?;
    let (mut objects, mut notes) = (Vec::new(), Vec::new());
    for document in documents.iter().filter(|document| is_v1alpha1(document)) {
        if let Some(mut imported) = import_v1alpha1(document) {
            if imported.object["metadata"]["namespace"].is_null() {
                imported.object["metadata"]["namespace"] = args.namespace.clone().into();
            }
            objects.push(imported.object);
            notes.extend(imported.notes);
        }
    }
    let of_kubeadm: Vec<_> = documents.iter().filter(|document| is_kubeadm(document)).cloned().collect();
    if let Some(imported) = import_kubeadm(&of_kubeadm, &args.namespace) {
        objects.push(imported.cluster);
        notes.extend(imported.notes);
    }
    let others = documents.iter().filter(|document| !is_v1alpha1(document) && !is_kubeadm(document)).count();
    if objects.is_empty() {
        return Err(CommandError::input("there is nothing to import")
            .hint("Cluster, Machine, MachineSet, MachineDeployment and MachineClass of cluster.k8s.io/v1alpha1, and ClusterConfiguration of kubeadm are imported"));
    }
    documents::print(&objects, args.output.format)?;
    report(&notes);
    if others > 0 {
        stderr::warning(&format!("{} of other kinds left out", text::plural(others as u64, "object")));
    }
    Ok(ExitCode::from(u8::from(args.strict && !(notes.is_empty() && others == 0))))
}

/// Prints what is not carried out.
pub(super) fn report(notes: &[Note]) {
    for note in notes {
        let place = match note.field.as_str() {
            "" => note.object.clone(),
            field => format!("{}: {field}", note.object),
        };
        stderr::warning(&format!("{place}: {}", note.message));
    }
}
