//! Parts of images and the command of QEMU, from Debian's packages: installed, or unpacked below a directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::image::Image;

/// Modules of the kernel that virtio's network needs, in the order in which they are loaded.
const MODULES: [&str; 8] = [
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "net/core/failover.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
];

/// The packages qemu-system-x86, linux-image-cloud-amd64 and busybox-static.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DebianPackages {
    root: PathBuf,
    kernel: PathBuf,
    version: String,
}

impl DebianPackages {
    /// The packages below a directory; `/` if they are installed. `None` if one is missing.
    #[must_use]
    pub fn find(root: &Path) -> Option<Self> {
        let programs = ["usr/bin/qemu-system-x86_64", "bin/busybox"];
        if !programs.iter().all(|program| root.join(program).exists()) {
            return None;
        }
        let entries = fs::read_dir(root.join("boot")).ok()?.flatten();
        let mut kernels = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix("vmlinuz-")?.to_owned();
            version.contains("cloud").then_some((entry.path(), version))
        });
        let (kernel, version) = kernels.next()?;
        Some(Self { root: root.to_owned(), kernel, version })
    }

    /// The version of the kernel.
    #[must_use]
    pub fn kernel_version(&self) -> &str {
        &self.version
    }

    /// An image with a node agent, and with the libraries that it is linked with.
    ///
    /// # Errors
    /// `ldd` cannot be run.
    pub fn image(&self, name: &str, agent: &Path) -> io::Result<Image> {
        let libraries = Command::new("ldd").arg(agent).output()?;
        let libraries = String::from_utf8_lossy(&libraries.stdout);
        let modules = self.root.join("lib/modules").join(&self.version).join("kernel");
        Ok(Image {
            name: name.to_owned(),
            kernel: self.kernel.clone(),
            modules: MODULES.iter().map(|module| modules.join(module)).collect(),
            busybox: self.root.join("bin/busybox"),
            agent: agent.to_owned(),
            libraries: libraries
                .split_whitespace()
                .filter(|word| word.starts_with('/'))
                .map(PathBuf::from)
                .collect(),
        })
    }

    /// The command of QEMU, also of one that is not installed.
    #[must_use]
    pub fn qemu(&self) -> Vec<String> {
        let path = |path: &str| self.root.join(path).to_string_lossy().into_owned();
        let program = path("usr/bin/qemu-system-x86_64");
        if self.root == Path::new("/") {
            return vec![program];
        }
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(path);
        let mut words = vec!["env".to_owned(), format!("LD_LIBRARY_PATH={}", libraries.join(":")), program];
        for data in ["usr/share/qemu", "usr/share/seabios"] {
            words.extend(["-L".to_owned(), path(data)]);
        }
        words
    }
}
