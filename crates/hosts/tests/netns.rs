//! The provider of namespace hosts by itself: the conformance suite, and what goes wrong.

use std::cell::Cell;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use serde_json::json;
use settled_hosts::netns::{API_VERSION, KIND, NetnsProvider};
use settled_machines::provider::conformance::{Subject, check};
use settled_machines::provider::{
    Desired, HostKey, HostState, Observed, Progress, Provider, ProviderError, Request, Step,
};
use settled_machines::types::{ContainerRuntime, ErrorReason, MachineVersions};

use crate::harness::{Lossy, Offline, Place, is_available, note};

fn desired(kubelet: &str, image: &str, runtime: &str, version: &str) -> Desired {
    Desired {
        versions: MachineVersions {
            kubelet: kubelet.to_owned(),
            control_plane: None,
            container_runtime: Some(ContainerRuntime {
                name: runtime.to_owned(),
                version: version.to_owned(),
            }),
        },
        config: json!({"apiVersion": API_VERSION, "kind": KIND, "image": image}),
        node_name: "a".to_owned(),
        ..Desired::default()
    }
}

fn request(uid: &str, generation: i64, desired: Desired) -> Request {
    Request {
        key: HostKey::new(uid),
        machine: format!("default/{uid}"),
        generation,
        desired,
        last_host: None,
    }
}

struct Namespaces {
    place: Arc<Place>,
    is_lost: Arc<AtomicBool>,
}

impl Namespaces {
    fn provider(&self) -> NetnsProvider {
        NetnsProvider::new(self.place.options(), Arc::new(Offline))
    }
}

impl Subject for Namespaces {
    fn restart(&self) -> Box<dyn Provider> {
        Box::new(Lossy::new(self.provider(), &self.is_lost))
    }

    fn lose_response(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// Nothing is started that a call does not wait for: long times need not pass.
    fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        tokio::time::sleep(time.min(Duration::from_millis(200))).boxed()
    }

    fn leftovers(&self) -> BoxFuture<'_, Vec<String>> {
        async move { self.provider().leftovers().expect("a directory") }.boxed()
    }

    fn desired(&self) -> Desired {
        desired("v1.36.0", "debian-12", "containerd", "2.1.0")
    }

    fn in_place(&self) -> Desired {
        desired("v1.37.1", "debian-12", "containerd", "2.2.0")
    }

    fn replaced(&self) -> Option<Desired> {
        Some(desired("v1.36.0", "debian-13", "containerd", "2.1.0"))
    }

    fn unsupported(&self) -> Option<Desired> {
        Some(desired("v1.36.0", "debian-12", "cri-o", "2.1.0"))
    }
}

#[tokio::test]
async fn the_namespace_provider_is_a_provider() {
    if !is_available() {
        return;
    }
    let place = Arc::new(Place::new("m1c", 233));
    let cases = Cell::new(0);
    let failures = check(|| {
        cases.set(cases.get() + 1);
        Namespaces { place: place.clone(), is_lost: Arc::default() }
    })
    .await;
    let provider = NetnsProvider::new(place.options(), Arc::new(Offline));
    provider.stop_network().await.expect("no bridge");
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert_eq!(failures, Vec::<String>::new());
    assert!(cases.get() > 20, "{} cases", cases.get());
}

/// A process that is killed in the middle of a creation, at any of its steps, leaves nothing behind: the next look begins anew.
#[tokio::test]
async fn a_creation_that_was_cut_off_begins_anew() {
    if !is_available() {
        return;
    }
    let place = Place::new("m1d", 234);
    let first = request("uid-1", 1, desired("v1.36.0", "debian-12", "containerd", "2.1.0"));
    // How often the future is polled before it is dropped, as a killed process would leave it.
    for polls in [1_u8, 2, 3, 5, 8, 13] {
        let provider = NetnsProvider::new(place.options(), Arc::new(Offline));
        let left = AtomicU8::new(polls);
        let mut create = provider.create(&first);
        let cut = std::future::poll_fn(|context| {
            if left.fetch_sub(1, Ordering::Relaxed) == 0 {
                return std::task::Poll::Ready(());
            }
            create.poll_unpin(context).map(drop)
        });
        cut.await;
        drop(create);
        let provider = NetnsProvider::new(place.options(), Arc::new(Offline));
        match provider.observe(&first.key).await.expect("observed") {
            Observed::Absent => assert_eq!(provider.leftovers().expect("a list"), Vec::<String>::new()),
            Observed::Host(host) => assert!(host.id.starts_with("netns://m1d/uid-1/"), "{host:?}"),
        }
        while provider.create(&first).await.expect("created") != Progress::Done {}
        let observed = provider.observe(&first.key).await.expect("observed");
        assert_eq!(observed.host().map(|host| &host.state), Some(&HostState::Running), "after {polls} polls");
        assert_eq!(provider.delete(&first.key).await, Ok(Progress::Done));
        assert_eq!(provider.leftovers().expect("a list"), Vec::<String>::new());
        provider.stop_network().await.expect("no bridge");
    }
}

#[tokio::test]
async fn a_kubelet_that_does_not_start_is_no_host() {
    if !is_available() {
        return;
    }
    let place = Place::new("m1e", 235);
    let mut options = place.options();
    options.packages.directory = Some(place.directory.join("packages"));
    let program = place.directory.join("packages/kubelet/v1.36.0/kubelet");
    std::fs::create_dir_all(program.parent().expect("a parent")).expect("a directory");
    std::fs::write(&program, "not a program").expect("written");
    let provider = NetnsProvider::new(options, Arc::new(Offline));
    let first = request("uid-1", 1, desired("v1.36.0", "debian-12", "containerd", "2.1.0"));
    match provider.create(&first).await {
        Err(ProviderError::Terminal { reason: ErrorReason::CreateError, message }) => {
            assert!(message.contains("kubelet v1.36.0"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(provider.observe(&first.key).await, Ok(Observed::Absent));
    assert_eq!(provider.leftovers().expect("a list"), Vec::<String>::new());
    provider.stop_network().await.expect("no bridge");
}

#[tokio::test]
async fn a_full_disk_is_reported_and_used_again_once_there_is_space() {
    if !is_available() {
        return;
    }
    let place = Place::new("m1f", 236);
    let mounted = Mounted::new(&place.directory.join("small"), "64k");
    let mut options = place.options();
    options.directory.clone_from(&mounted.0);
    let provider = NetnsProvider::new(options, Arc::new(Offline));
    let first = request("uid-1", 1, desired("v1.36.0", "debian-12", "containerd", "2.1.0"));
    let filler = mounted.0.join("filler");
    let fill = || {
        let _full = std::fs::write(&filler, vec![0_u8; 128 << 10]).expect_err("a full disk");
    };
    fill();
    match provider.create(&first).await {
        Err(ProviderError::Terminal { reason: ErrorReason::InsufficientResources, message }) => {
            assert!(message.contains("the disk is full"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(provider.observe(&first.key).await, Ok(Observed::Absent));
    assert_eq!(provider.leftovers().expect("a list"), Vec::<String>::new());
    std::fs::remove_file(&filler).expect("removed");
    assert_eq!(provider.create(&first).await, Ok(Progress::Done));

    // Full under a running host: an update waits for space, and the host keeps serving.
    fill();
    let second = request("uid-1", 2, desired("v1.37.0", "debian-12", "containerd", "2.1.0"));
    let step = Step::new("kubelet", "v1.37.0");
    match provider.apply_step(&second, &step).await {
        Err(ProviderError::Transient(message)) => assert!(message.contains("space"), "{message}"),
        other => panic!("{other:?}"),
    }
    let observed = provider.observe(&first.key).await.expect("observed");
    let host = observed.host().expect("a host");
    assert_eq!((&host.state, host.versions.kubelet.as_str()), (&HostState::Running, "v1.36.0"));
    std::fs::remove_file(&filler).expect("removed");
    assert_eq!(provider.apply_step(&second, &step).await, Ok(Progress::Done));
    // Deleting is possible on a full disk.
    fill();
    assert_eq!(provider.delete(&first.key).await, Ok(Progress::Done));
    assert_eq!(provider.leftovers().expect("a list"), Vec::<String>::new());
    provider.stop_network().await.expect("no bridge");
}

/// A small file system.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn new(path: &Path, size: &str) -> Self {
        std::fs::create_dir_all(path).expect("a directory");
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path);
        assert!(mount.status().expect("mount").success());
        Self(path.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _best_effort = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// What a namespace without a record, and a host without its namespace, become.
#[tokio::test]
async fn leftovers_are_swept_and_hosts_without_a_namespace_are_gone() {
    if !is_available() {
        return;
    }
    let place = Place::new("m1g", 237);
    let provider = NetnsProvider::new(place.options(), Arc::new(Offline));
    let first = request("uid-1", 1, desired("v1.36.0", "debian-12", "containerd", "2.1.0"));
    assert_eq!(provider.create(&first).await, Ok(Progress::Done));
    let run = |arguments: &[&str]| {
        assert!(Command::new("ip").args(arguments).status().expect("ip").success(), "{arguments:?}");
    };
    run(&["netns", "add", "m1g-stray"]);
    run(&["link", "add", "m1g0badcafe", "type", "bridge"]);
    let mut swept = provider.sweep().await.expect("swept");
    swept.sort();
    assert_eq!(swept, ["m1g-stray", "m1g0badcafe"]);
    let observed = provider.observe(&first.key).await.expect("observed");
    assert_eq!(observed.host().map(|host| &host.state), Some(&HostState::Running));

    // As after a restart of the machine.
    for process in provider.processes(&first.key) {
        let _best_effort = Command::new("kill").args(["-9", &process.to_string()]).status();
    }
    run(&["netns", "del", "m1g-uid-1"]);
    assert_eq!(provider.observe(&first.key).await, Ok(Observed::Absent));
    assert_eq!(provider.leftovers().expect("a list"), Vec::<String>::new());
    provider.stop_network().await.expect("no bridge");
}

/// Run as another user by the next test.
#[tokio::test]
#[ignore = "it is run by `without_root_it_is_clear_what_is_needed`"]
async fn without_root() {
    if rustix_is_root() {
        return;
    }
    let directory = std::env::temp_dir().join("settled-hosts-nobody");
    let options = settled_hosts::netns::Options::new(directory, vec!["settled-agent".to_owned()]);
    let provider = NetnsProvider::new(options, Arc::new(Offline));
    let first = request("uid-1", 1, desired("v1.36.0", "debian-12", "containerd", "2.1.0"));
    match provider.create(&first).await {
        Err(ProviderError::Terminal { reason: ErrorReason::InsufficientResources, message }) => {
            note(&format!("refused: {message}"));
        }
        other => panic!("{other:?}"),
    }
}

fn rustix_is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

#[test]
fn without_root_it_is_clear_what_is_needed() {
    let mut test = Command::new(std::env::current_exe().expect("a path"));
    test.args(["netns::without_root", "--exact", "--ignored", "--nocapture"]);
    if rustix_is_root() {
        test.uid(65534).gid(65534);
    }
    let output = match test.output() {
        Ok(output) => output,
        // The build directory is closed to others.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "skipped in CI: {error}");
            note(&format!("skipped: another user cannot run the tests: {error}"));
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("refused: network-namespace hosts need root (CAP_NET_ADMIN and CAP_SYS_ADMIN)"),
        "{text}"
    );
}
