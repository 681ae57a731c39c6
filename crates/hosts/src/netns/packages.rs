//! Packages of hosts: programs of a version, from a directory of the user, or built in.

use std::fs;
use std::io;
use std::path::PathBuf;

use settled_machines::types::MachineVersions;

use crate::agent::layout::{self, Layout, LayoutError};

/// Where the programs of kubelets and container runtimes come from.
#[derive(Clone, Debug, Default)]
pub struct Packages {
    /// A directory with programs: `kubelet/v1.36.0/kubelet`. What it does not have is built in.
    pub directory: Option<PathBuf>,
}

impl Packages {
    /// Installs what versions need on a host.
    pub(super) fn install(
        &self,
        layout: &Layout,
        versions: &MachineVersions,
        agent: &[String],
    ) -> Result<(), LayoutError> {
        self.program(layout, "kubelet", &versions.kubelet, agent)?;
        match &versions.container_runtime {
            Some(runtime) => self.program(layout, &runtime.name, &runtime.version, agent),
            None => Ok(()),
        }
    }

    fn program(
        &self,
        layout: &Layout,
        component: &str,
        version: &str,
        agent: &[String],
    ) -> Result<(), LayoutError> {
        let source = self
            .directory
            .as_ref()
            .map(|directory| directory.join(component).join(version).join(component))
            .filter(|source| source.is_file());
        let target = layout.program(component, version);
        let content = match &source {
            Some(source) => fs::read(source).map_err(LayoutError::file(source))?,
            None => layout::builtin_package(component, version, agent).into_bytes(),
        };
        if fs::read(&target).is_ok_and(|installed| installed == content) {
            return Ok(());
        }
        let directory = target.parent().unwrap_or(&target);
        fs::create_dir_all(directory).map_err(LayoutError::file(directory))?;
        layout::write(&target, 0o755, &content)
    }

    /// Removes the packages of other versions than these.
    pub(super) fn prune(layout: &Layout, versions: &[&MachineVersions]) {
        let keep: Vec<PathBuf> = versions
            .iter()
            .flat_map(|versions| {
                let runtime = versions.container_runtime.as_ref();
                let runtime = runtime.map(|runtime| layout.program(&runtime.name, &runtime.version));
                [Some(layout.program("kubelet", &versions.kubelet)), runtime]
            })
            .flatten()
            .collect();
        let list = |directory: PathBuf| -> Vec<PathBuf> {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        };
        for component in list(layout.path().join("packages")) {
            for version in list(component) {
                if !keep.iter().any(|program| program.starts_with(&version))
                    && let Err(error) = fs::remove_dir_all(&version)
                    && error.kind() != io::ErrorKind::NotFound
                {
                    tracing::debug!(%error, "an old package stays");
                }
            }
        }
    }
}
