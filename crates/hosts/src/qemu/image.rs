//! Images of virtual machines: a kernel, and an initial file system with the node agent.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::cpio::Archive;

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {} for an image: {source}", path.display())]
pub struct ImageError {
    path: PathBuf,
    source: io::Error,
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ImageError {
    let path = path.to_owned();
    move |source| ImageError { path, source }
}

/// What an image is made of.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// Its name, in `os-release`.
    pub name: String,
    /// The kernel.
    pub kernel: PathBuf,
    /// Modules of the kernel, in the order in which they are loaded: those of virtio's network.
    pub modules: Vec<PathBuf>,
    /// A static busybox.
    pub busybox: PathBuf,
    /// The node agent.
    pub agent: PathBuf,
    /// Libraries that the agent is linked with, if it is not static. They keep their paths.
    pub libraries: Vec<PathBuf>,
}

/// Process 1 until the agent is.
const INIT: &str = r#"#!/bin/sh
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t sysfs sysfs /sys
$B mount -t devtmpfs devtmpfs /dev
for module in /modules/*.ko; do $B insmod $module; done
$B hostname "$($B cat /host/hostname)"
$B ip link set lo up
$B ip addr add 10.0.2.15/24 dev eth0
$B ip link set eth0 up
$B ip route add default via 10.0.2.2
(
  last=
  while :; do
    if [ -f /host/state.json ] && { [ -f /host/ready ] || $B grep -q '"failed"' /host/state.json; }; then
      now=$($B tr -d '\n' < /host/state.json)
      if [ "$now" != "$last" ]; then echo "SETTLED-STATE $now" > /dev/ttyS1; last=$now; fi
    fi
    $B usleep 200000
  done
) &
export PATH=/bin
exec /bin/settled-agent init --dir /host
"#;

impl Image {
    /// Writes the image below a directory of images: `NAME/vmlinuz` and `NAME/initrd`.
    ///
    /// # Errors
    /// A part cannot be read, or the image cannot be written.
    pub fn write(&self, images: &Path) -> Result<(), ImageError> {
        let read = |path: &Path| fs::read(path).map_err(failed(path));
        let mut archive = Archive::default();
        for directory in ["proc", "sys", "dev", "tmp", "host"] {
            archive.directory(directory);
        }
        let busybox = read(&self.busybox)?;
        archive.file("bin/busybox", 0o755, &busybox);
        archive.file("bin/sh", 0o755, &busybox);
        archive.file("bin/settled-agent", 0o755, &read(&self.agent)?);
        for library in &self.libraries {
            archive.file(&library.to_string_lossy(), 0o755, &read(library)?);
        }
        for (number, module) in self.modules.iter().enumerate() {
            archive.file(&format!("modules/{number:02}.ko"), 0o644, &read(module)?);
        }
        let release = format!("NAME={0:?}\nPRETTY_NAME={0:?}\n", self.name);
        archive.file("etc/os-release", 0o644, release.as_bytes());
        archive.file("init", 0o755, INIT.as_bytes());
        let directory = images.join(&self.name);
        fs::create_dir_all(&directory).map_err(failed(&directory))?;
        let kernel = directory.join("vmlinuz");
        fs::copy(&self.kernel, &kernel).map_err(failed(&self.kernel))?;
        let initrd = directory.join("initrd");
        fs::write(&initrd, archive.finish()).map_err(failed(&initrd))
    }
}
