//! Virtual machines of QEMU with the embedded API server and the real controllers: emulated, so that no device is needed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use settled_hosts::agent::Timing;
use settled_hosts::qemu::{API_VERSION, Image, KIND, Options, QemuProvider};
use settled_machines::provider::{HostKey, Observed, Provider as _, ProviderError, Request};
use settled_machines::types::ErrorReason;

use crate::harness::{CLUSTER, Offline, Place, World, is_ready, key, note};

/// Where the programs and the kernel are: Debian's packages qemu-system-x86, linux-image-cloud-amd64 and busybox-static, installed, or unpacked below
/// `SETTLED_QEMU_ROOT`.
struct Debian(PathBuf);

impl Debian {
    fn find() -> Option<Self> {
        let debian = Self(std::env::var_os("SETTLED_QEMU_ROOT").map_or_else(|| "/".into(), PathBuf::from));
        let parts = [debian.path("usr/bin/qemu-system-x86_64"), debian.path("bin/busybox")];
        let is_there = parts.iter().all(|part| part.exists()) && debian.kernel().is_some();
        if !is_there {
            note(
                "skipped: QEMU machines need qemu-system-x86, linux-image-cloud-amd64 and busybox-static (SETTLED_QEMU_ROOT: where they are unpacked)",
            );
        }
        is_there.then_some(debian)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    fn kernel(&self) -> Option<(PathBuf, String)> {
        let entries = std::fs::read_dir(self.path("boot")).ok()?.flatten();
        let mut kernels = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix("vmlinuz-")?.to_owned();
            version.contains("cloud").then_some((entry.path(), version))
        });
        kernels.next()
    }

    fn image(&self, name: &str) -> Image {
        let (kernel, version) = self.kernel().expect("a kernel");
        let modules = self.path("lib/modules").join(version).join("kernel");
        let agent = PathBuf::from(env!("CARGO_BIN_EXE_settled-agent"));
        let libraries = Command::new("ldd").arg(&agent).output().expect("ldd");
        let libraries = String::from_utf8_lossy(&libraries.stdout)
            .split_whitespace()
            .filter(|word| word.starts_with('/'))
            .map(PathBuf::from)
            .collect();
        let module = |path: &&str| modules.join(path);
        Image {
            name: name.to_owned(),
            kernel,
            modules: [
                "drivers/virtio/virtio_ring.ko",
                "drivers/virtio/virtio.ko",
                "drivers/virtio/virtio_pci_legacy_dev.ko",
                "drivers/virtio/virtio_pci_modern_dev.ko",
                "drivers/virtio/virtio_pci.ko",
                "net/core/failover.ko",
                "drivers/net/net_failover.ko",
                "drivers/net/virtio_net.ko",
            ]
            .iter()
            .map(module)
            .collect(),
            busybox: self.path("bin/busybox"),
            agent,
            libraries,
        }
    }

    /// The command of QEMU, also of one that is not installed.
    fn qemu(&self) -> Vec<String> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let program = text(self.path("usr/bin/qemu-system-x86_64"));
        if self.0 == Path::new("/") {
            return vec![program];
        }
        let libraries =
            ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|path| text(self.path(path)));
        let mut words = vec!["env".to_owned(), format!("LD_LIBRARY_PATH={}", libraries.join(":")), program];
        for data in ["usr/share/qemu", "usr/share/seabios"] {
            words.extend(["-L".to_owned(), text(self.path(data))]);
        }
        words
    }
}

fn machine(name: &str) -> Value {
    json!({
        "apiVersion": CLUSTER, "kind": "Machine", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "versions": {"kubelet": "v1.36.0"},
            "providerSpec": {"value": {"apiVersion": API_VERSION, "kind": KIND, "image": "a"}},
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_machines_boot_and_another_image_is_a_real_reboot() {
    let Some(debian) = Debian::find() else { return };
    let place = Place::new("m1q", 239);
    let images = place.directory.join("images");
    for name in ["a", "b"] {
        debian.image(name).write(&images).expect("an image");
    }
    let mut options = Options::new(&place.directory, &images);
    options.qemu = debian.qemu();
    options.timing = Timing { renew_millis: 2000, ..options.timing };
    let provider = Arc::new(std::sync::OnceLock::new());
    let mut world = World::start_with(place, "10.0.2.2", |signed| {
        let made = QemuProvider::new(options, Arc::new(signed));
        provider.set(made.clone()).expect("one provider");
        Arc::new(made)
    })
    .await;
    let provider = provider.get().expect("a provider");
    world.limit = Duration::from_secs(180);
    let begin = Instant::now();
    world.create(machine("one")).await;
    world.create(machine("two")).await;
    let machines = world.until("Machine", "2 ready", |all| all.len() == 2 && all.iter().all(is_ready)).await;
    note(&format!("two machines ready in {:?}", begin.elapsed()));
    let before = world.get("Node", "one").await;
    let info = &before["status"]["nodeInfo"];
    assert_eq!(info["osImage"], "a");
    let (_, kernel) = debian.kernel().expect("a kernel");
    assert_eq!(info["kernelVersion"], kernel.as_str());
    assert_eq!(before["status"]["addresses"][1]["address"], "one");

    let begin = Instant::now();
    let image = json!({"spec": {"providerSpec": {"value": {"image": "b"}}}});
    world.patch("Machine", "one", image).await;
    let after =
        world.until_one("Node", "one", "image b", |node| node["status"]["nodeInfo"]["osImage"] == "b").await;
    world.until_one("Machine", "one", "ready", is_ready).await;
    note(&format!("image changed in {:?}", begin.elapsed()));
    assert_ne!(after["status"]["nodeInfo"]["bootID"], info["bootID"]);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"]["providerID"], before["spec"]["providerID"]);
    let two = world.get("Node", "two").await;
    assert_eq!(two["status"]["nodeInfo"]["osImage"], "a");

    for machine in &machines {
        world.delete("Machine", machine["metadata"]["name"].as_str().unwrap_or_default()).await;
    }
    world.until("Machine", "no Machine is left", <[Value]>::is_empty).await;
    for machine in &machines {
        assert_eq!(provider.processes(&key(machine)), Vec::<i32>::new());
    }
    assert_eq!(provider.leftovers(), Vec::<String>::new());
    world.end().await;
}

#[tokio::test]
async fn without_qemu_it_is_clear_what_is_needed() {
    let place = Place::new("m1r", 240);
    let images = place.directory.join("images");
    std::fs::create_dir_all(images.join("a")).expect("a directory");
    for file in ["vmlinuz", "initrd"] {
        std::fs::write(images.join("a").join(file), "").expect("written");
    }
    let mut options = Options::new(&place.directory, &images);
    options.qemu = vec!["/nonexistent/qemu-system-x86_64".to_owned()];
    let provider = QemuProvider::new(options, Arc::new(Offline));
    let mut request = Request {
        key: HostKey::new("uid-1"),
        machine: "default/one".to_owned(),
        generation: 1,
        desired: settled_machines::provider::Desired {
            config: json!({"image": "a"}),
            node_name: "one".to_owned(),
            ..Default::default()
        },
        last_host: None,
    };
    for (image, wanted, text) in [
        ("a", ErrorReason::InsufficientResources, "install qemu-system-x86"),
        ("b", ErrorReason::CreateError, "there is no image b"),
    ] {
        request.desired.config = json!({"image": image});
        match provider.create(&request).await {
            Err(ProviderError::Terminal { reason, message }) => {
                assert_eq!(reason, wanted);
                assert!(message.contains(text), "{message}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(provider.observe(&request.key).await, Ok(Observed::Absent));
        assert_eq!(provider.leftovers(), Vec::<String>::new());
    }
}
