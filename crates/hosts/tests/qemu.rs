//! Virtual machines of QEMU with the embedded API server and the real controllers: emulated, so that no device is needed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};
use settled_hosts::agent::Timing;
use settled_hosts::qemu::{API_VERSION, DebianPackages, KIND, Options, QemuProvider};
use settled_machines::provider::conformance::{Subject, check, check_share};
use settled_machines::provider::{
    Desired, HostKey, HostState, Observed, Progress, Provider, ProviderError, Request,
};
use settled_machines::types::{ContainerRuntime, ErrorReason, MachineVersions};

use crate::harness::{CLUSTER, Lossy, Offline, Place, World, is_ready, key, note};

/// Debian's packages, installed, or unpacked below `SETTLED_QEMU_ROOT` (`packaging/install-qemu.sh`). In CI they must be there.
fn debian() -> Option<DebianPackages> {
    let root = std::env::var_os("SETTLED_QEMU_ROOT").map_or_else(|| "/".into(), PathBuf::from);
    let found = DebianPackages::find(&root);
    if found.is_none() {
        let needs = "QEMU machines need qemu-system-x86, linux-image-cloud-amd64 and busybox-static: export SETTLED_QEMU_ROOT=$(packaging/install-qemu.sh)";
        assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "skipped in CI: {needs}");
        note(&format!("skipped: {needs}"));
    }
    found
}

/// Writes images, and returns where they are.
fn write_images(debian: &DebianPackages, place: &Place) -> PathBuf {
    let images = place.directory.join("images");
    for name in ["a", "b"] {
        let image = debian.image(name, Path::new(env!("CARGO_BIN_EXE_settled-agent"))).expect("ldd");
        image.write(&images).expect("an image");
    }
    images
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
    let Some(debian) = debian() else { return };
    let place = Place::new("m1q", 239);
    let images = write_images(&debian, &place);
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
    assert_eq!(info["kernelVersion"], debian.kernel_version());
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
        desired: Desired { config: json!({"image": "a"}), node_name: "one".to_owned(), ..Default::default() },
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

/// A program in the place of QEMU: it reports what the agent of the machine would, as soon as it has been started with it.
const FAKE: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    -serial) state=${2#file:} ;;
    -initrd) initrd=$2 ;;
  esac
  shift
done
asked=$(tr -d '\n\000' < "$initrd" | LC_ALL=C sed 's/.*{ *\("versions": .*"attempt": [0-9]*\)}.*/\1/')
echo "SETTLED-STATE {$asked, \"bootID\": \"$$\"}" > "$state"
while :; do sleep 0.1; done
"#;

/// Machines whose QEMU is the program above, or the real one.
struct Machines {
    place: Arc<Place>,
    images: PathBuf,
    qemu: Vec<String>,
    is_lost: Arc<AtomicBool>,
}

impl Machines {
    /// With a program in the place of QEMU.
    fn fake(place: &Arc<Place>) -> Self {
        let images = place.directory.join("images");
        for (image, file) in [("a", "vmlinuz"), ("a", "initrd"), ("b", "vmlinuz"), ("b", "initrd")] {
            std::fs::create_dir_all(images.join(image)).expect("a directory");
            std::fs::write(images.join(image).join(file), "").expect("written");
        }
        let script = place.directory.join("qemu.sh");
        std::fs::write(&script, FAKE).expect("written");
        let qemu = vec!["/bin/sh".to_owned(), script.to_string_lossy().into_owned()];
        Self { place: place.clone(), images, qemu, is_lost: Arc::default() }
    }

    fn provider(&self) -> QemuProvider {
        let mut options = Options::new(&self.place.directory, &self.images);
        options.qemu.clone_from(&self.qemu);
        QemuProvider::new(options, Arc::new(Offline))
    }
}

fn desired(kubelet: &str, image: &str, runtime: &str) -> Desired {
    Desired {
        versions: MachineVersions {
            kubelet: kubelet.to_owned(),
            control_plane: None,
            container_runtime: Some(ContainerRuntime {
                name: runtime.to_owned(),
                version: "2.1.0".to_owned(),
            }),
        },
        config: json!({"apiVersion": API_VERSION, "kind": KIND, "image": image}),
        node_name: "a".to_owned(),
        ..Desired::default()
    }
}

impl Subject for Machines {
    fn restart(&self) -> Box<dyn Provider> {
        Box::new(Lossy::new(self.provider(), &self.is_lost))
    }

    fn lose_response(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        tokio::time::sleep(time.min(Duration::from_millis(200))).boxed()
    }

    fn leftovers(&self) -> BoxFuture<'_, Vec<String>> {
        let provider = self.provider();
        let mut left = provider.leftovers();
        for key in ["uid-1", "uid-2"] {
            let processes = provider.processes(&HostKey::new(key));
            left.extend(processes.iter().map(|process| format!("process {process} of {key}")));
        }
        async move { left }.boxed()
    }

    fn desired(&self) -> Desired {
        desired("v1.36.0", "a", "containerd")
    }

    fn in_place(&self) -> Desired {
        desired("v1.37.1", "a", "containerd")
    }

    /// Every change is in place.
    fn replaced(&self) -> Option<Desired> {
        None
    }

    fn unsupported(&self) -> Option<Desired> {
        Some(desired("v1.36.0", "a", "cri-o"))
    }
}

#[tokio::test]
async fn the_qemu_provider_is_a_provider() {
    let place = Arc::new(Place::new("m1s", 241));
    let cases = AtomicUsize::new(0);
    let failures = check(|| {
        cases.fetch_add(1, Ordering::Relaxed);
        Machines::fake(&place)
    })
    .await;
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert_eq!(failures, Vec::<String>::new());
    assert!(cases.into_inner() > 15);
}

/// The same with real machines, which take seconds to boot: one disturbance of all.
#[tokio::test]
async fn the_qemu_provider_is_a_provider_of_real_machines() {
    let Some(debian) = debian() else { return };
    let place = Arc::new(Place::new("m1t", 242));
    let images = write_images(&debian, &place);
    let make = || Machines {
        place: place.clone(),
        images: images.clone(),
        qemu: debian.qemu(),
        is_lost: Arc::default(),
    };
    let begin = Instant::now();
    let failures = check_share(make, 1, 18).await;
    note(&format!("conformance with real machines in {:?}", begin.elapsed()));
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert_eq!(failures, Vec::<String>::new());
}

/// What was recorded is what runs, wherever the process of the provider ended: before a machine was started, before the old one was ended, and after
/// both.
#[tokio::test]
async fn a_machine_that_was_started_is_found_again() {
    let place = Arc::new(Place::new("m1u", 243));
    let machines = Machines::fake(&place);
    let request = Request {
        key: HostKey::new("uid-1"),
        machine: "default/one".to_owned(),
        generation: 1,
        desired: machines.desired(),
        last_host: None,
    };
    let until_running = async || loop {
        let observed = machines.provider().observe(&request.key).await.expect("observed");
        match observed {
            Observed::Host(host) if host.state == HostState::Running => return host,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(machines.provider().create(&request).await.is_ok());
    let created = until_running().await;
    let [first] = machines.provider().processes(&request.key)[..] else { panic!("one process") };
    // A later process of the provider finds it, and starts no other one.
    assert!(matches!(machines.provider().create(&request).await, Ok(Progress::Pending { .. })));
    assert_eq!(until_running().await, created);
    assert_eq!(machines.provider().processes(&request.key), [first]);

    let arguments = |process: i32| {
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ")
    };
    // Another image was recorded, and then the provider was killed: the old machine runs, and reports the same versions.
    let path = place.directory.join("hosts/uid-1/machine.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&path).expect("a record")).expect("JSON");
    record["previous"] = record["boot"].clone();
    record["boot"]["image"] = "b".into();
    record["boot"]["number"] = 2.into();
    std::fs::write(&path, record.to_string()).expect("written");
    let updated = until_running().await;
    assert_eq!(updated.id, created.id);
    assert_eq!(updated.facts["image"], "b");
    let [second] = machines.provider().processes(&request.key)[..] else { panic!("one process") };
    assert!(second != first && arguments(second).contains("images/b/vmlinuz"), "{}", arguments(second));

    // Killed between the record and the start of the machine; and its power is cut.
    let _killed = std::process::Command::new("kill").args(["-9", &second.to_string()]).status();
    while machines.provider().processes(&request.key).contains(&second) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(until_running().await, updated);
    assert_eq!(machines.provider().processes(&request.key).len(), 1);
    assert_eq!(machines.provider().delete(&request.key).await, Ok(Progress::Done));
    assert_eq!(machines.leftovers().await, Vec::<String>::new());
}
