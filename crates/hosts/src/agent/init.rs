//! Init of a host: supervises the kubelet, swaps it for another version, steps back if that does not start, and reboots.
//!
//! It is synchronous and polls: it may be process 1 of a namespace or of a virtual machine, where less can go wrong.

#[cfg(not(unix))]
pub(super) fn run(_layout: &super::layout::Layout) -> Result<(), super::error::AgentError> {
    Err(super::error::AgentError::Platform)
}

#[cfg(unix)]
pub(super) use unix::run;

#[cfg(unix)]
mod unix {
    use std::ffi::OsStr;
    use std::fs;
    use std::io;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};
    use std::thread::sleep;
    use std::time::{Duration, Instant, SystemTime};

    use rustix::process::{Pid, Signal, WaitIdOptions, WaitOptions, kill_process};
    use settled_machines::types::{ContainerRuntime, MachineVersions};

    use super::super::error::{AgentError, log};
    use super::super::layout::{Asked, Failed, Layout, Settings, State};

    /// How often it looks at what is asked for, and at the kubelet.
    const TICK: Duration = Duration::from_millis(50);
    /// How long a kubelet may take to end before it is killed.
    const STOP: Duration = Duration::from_secs(2);
    /// Before a kubelet that ended is started again; doubled each time.
    const RESTART_FIRST: Duration = Duration::from_millis(100);
    const RESTART_MAX: Duration = Duration::from_secs(5);

    struct Init<'l> {
        layout: &'l Layout,
        settings: Settings,
        state: State,
        kubelet: Option<Child>,
        restart_at: Option<Instant>,
        backoff: Duration,
    }

    /// Runs until the host ends.
    pub(in super::super) fn run(layout: &Layout) -> Result<(), AgentError> {
        let path = layout.path().display().to_string();
        let settings = layout.settings()?.ok_or(AgentError::NoSettings(path))?;
        if settings.is_isolated {
            isolate(layout, &settings)?;
        }
        let mut state = layout.state()?.unwrap_or_default();
        state.boots += 1;
        state.boot_id = boot_id();
        let mut init =
            Init { layout, settings, state, kubelet: None, restart_at: None, backoff: RESTART_FIRST };
        init.boot();
        let mut seen = None;
        loop {
            // Without a change of the file, nothing is asked for that was not asked before.
            let written = modified(layout);
            if written != seen || written.is_none() {
                match layout.asked() {
                    Ok(asked) => {
                        seen = written;
                        init.follow(&asked.unwrap_or_default())?;
                    }
                    Err(error) => log(format_args!("{error}")),
                }
            }
            init.watch();
            reap(init.kubelet.as_ref().map(Child::id));
            sleep(TICK);
        }
    }

    fn modified(layout: &Layout) -> Option<(SystemTime, u64)> {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = fs::metadata(layout.path().join("asked.json")).ok()?;
        Some((metadata.modified().ok()?, metadata.ino()))
    }

    fn boot_id() -> String {
        let random = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
        random.trim().to_owned()
    }

    impl Init<'_> {
        /// Starts what ran before the boot, or what is asked for on the first one.
        fn boot(&mut self) {
            let asked = self.layout.asked().ok().flatten().unwrap_or_default();
            if self.state.boots > 1 && !self.state.versions.kubelet.is_empty() {
                let version = self.state.versions.kubelet.clone();
                // The kubelet reports what it finds there.
                self.save();
                if let Err(error) = self.start(&version) {
                    log(format_args!("kubelet {version} does not start: {error}"));
                    self.restart_at = Some(Instant::now() + RESTART_FIRST);
                }
                return;
            }
            self.state.reboot.clone_from(&asked.reboot);
        }

        /// Brings what runs to what is asked for.
        fn follow(&mut self, asked: &Asked) -> Result<(), AgentError> {
            let is_refused = self.state.failed.as_ref().is_some_and(|failed| failed.attempt == asked.attempt);
            if asked.versions != self.state.versions && !asked.versions.kubelet.is_empty() && !is_refused {
                let previous = self.state.versions.clone();
                self.state.failed = match self.update(&asked.versions) {
                    Ok(()) => None,
                    Err(message) => {
                        log(format_args!("{message}"));
                        self.state.versions = previous;
                        Some(Failed { attempt: asked.attempt, message })
                    }
                };
                self.save();
            } else if asked.versions == self.state.versions && self.state.failed.take().is_some() {
                self.save();
            }
            if self.state.reboot != asked.reboot && self.state.failed.is_none() {
                self.stop();
                self.state.reboot.clone_from(&asked.reboot);
                self.save();
                reboot()?;
            }
            Ok(())
        }

        fn update(&mut self, asked: &MachineVersions) -> Result<(), String> {
            if let Some(ContainerRuntime { name, version }) = &asked.container_runtime
                && asked.container_runtime != self.state.versions.container_runtime
            {
                self.verify(name, version)?;
            }
            // Also for another container runtime: its containers are gone.
            let previous = std::mem::take(&mut self.state.versions);
            self.verify("kubelet", &asked.kubelet)?;
            self.stop();
            // The kubelet reports what it finds there.
            self.state.versions = asked.clone();
            self.save();
            let Err(error) = self.start(&asked.kubelet) else { return Ok(()) };
            let failed = format!("kubelet {} does not start: {error}", asked.kubelet);
            self.state.versions = previous.clone();
            self.save();
            if previous.kubelet.is_empty() {
                return Err(failed);
            }
            match self.start(&previous.kubelet) {
                Ok(()) => Err(format!("{failed}; {} serves again", previous.kubelet)),
                Err(error) => {
                    self.restart_at = Some(Instant::now() + RESTART_FIRST);
                    Err(format!("{failed}; {} does not start again: {error}", previous.kubelet))
                }
            }
        }

        /// Whether a package answers with its version.
        fn verify(&self, component: &str, version: &str) -> Result<(), String> {
            let program = self.layout.program(component, version);
            let mut command = Command::new(&program);
            command.arg("--version").stdin(Stdio::null());
            let answer = unless_busy(|| command.output());
            let answer = answer.map_err(|error| format!("cannot run {component} {version}: {error}"))?;
            let text = String::from_utf8_lossy(&answer.stdout);
            if answer.status.success() && text.split_whitespace().any(|word| word == version) {
                return Ok(());
            }
            let first = text.lines().next().unwrap_or_default();
            Err(format!(
                "{component} {version} does not start: `--version` answers {first:?} ({})",
                answer.status
            ))
        }

        /// Starts a kubelet, and waits until it is ready.
        fn start(&mut self, version: &str) -> io::Result<()> {
            let ready = self.layout.ready();
            match fs::remove_file(&ready) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut command = Command::new(self.layout.program("kubelet", version));
            command.args([OsStr::new("--dir"), self.layout.path().as_os_str()]);
            command.env("SETTLED_READY_FILE", &ready).stdin(Stdio::null());
            let mut child = unless_busy(|| command.spawn())?;
            let until = Instant::now() + Duration::from_millis(self.settings.timing.start_millis);
            loop {
                if ready.exists() {
                    self.kubelet = Some(child);
                    self.restart_at = None;
                    self.backoff = RESTART_FIRST;
                    return Ok(());
                }
                if let Some(status) = child.try_wait()? {
                    return Err(io::Error::other(format!("it ended with {status}")));
                }
                if Instant::now() >= until {
                    end(&mut child);
                    let millis = self.settings.timing.start_millis;
                    return Err(io::Error::other(format!("it is not ready after {millis}ms")));
                }
                sleep(TICK / 5);
            }
        }

        fn stop(&mut self) {
            if let Some(mut child) = self.kubelet.take() {
                end(&mut child);
            }
            self.restart_at = None;
            // Providers take it as the end of an update.
            let _best_effort = fs::remove_file(self.layout.ready());
        }

        /// Starts a kubelet again that has ended.
        fn watch(&mut self) {
            if let Some(child) = &mut self.kubelet
                && let Ok(Some(status)) = child.try_wait()
            {
                log(format_args!("the kubelet ended with {status}"));
                self.kubelet = None;
                self.restart_at = Some(Instant::now() + self.backoff);
                self.backoff = (self.backoff * 2).min(RESTART_MAX);
            }
            if self.restart_at.is_some_and(|at| at <= Instant::now()) {
                let version = self.state.versions.kubelet.clone();
                let backoff = self.backoff;
                self.restart_at = None;
                if let Err(error) = self.start(&version) {
                    log(format_args!("kubelet {version} does not start: {error}"));
                    self.restart_at = Some(Instant::now() + backoff);
                    self.backoff = (backoff * 2).min(RESTART_MAX);
                }
            }
        }

        /// A full disk must not end the host: what runs is written when there is space.
        fn save(&self) {
            while let Err(error) = self.layout.set_state(&self.state) {
                log(format_args!("{error}"));
                if !error.is_disk_full() {
                    return;
                }
                sleep(TICK * 4);
            }
        }
    }

    /// Begins anew, as the same process.
    fn reboot() -> Result<(), AgentError> {
        let system = |error| AgentError::System("restart init", error);
        let program = std::env::current_exe().map_err(system)?;
        Err(system(Command::new(program).args(std::env::args_os().skip(1)).exec()))
    }

    /// Runs a program that was just written: a process that its writer forked may have it open for a moment.
    fn unless_busy<T>(mut run: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        for _ in 0..20 {
            match run() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => sleep(TICK),
                result => return result,
            }
        }
        run()
    }

    /// Ends a process: by a signal that it can handle, and by one that it cannot.
    fn end(child: &mut Child) {
        if let Some(process) = Pid::from_raw(child.id().cast_signed()) {
            // It may have ended just now.
            let _best_effort = kill_process(process, Signal::TERM);
        }
        let until = Instant::now() + STOP;
        while Instant::now() < until {
            match child.try_wait() {
                Ok(None) => sleep(TICK / 5),
                _ => return,
            }
        }
        let _best_effort = child.kill();
        let _best_effort = child.wait();
    }

    /// Waits for orphans that process 1 has inherited.
    fn reap(kubelet: Option<u32>) {
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Ok(Some(_)) = rustix::process::waitid(rustix::process::WaitId::All, peek) {
            let before = kubelet.and_then(|id| Pid::from_raw(id.cast_signed()));
            if let Some(process) = before
                && let Ok(Some(_)) = rustix::process::waitid(rustix::process::WaitId::Pid(process), peek)
            {
                // It is the kubelet: the supervisor waits for it.
                return;
            }
            if !matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {
                return;
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn isolate(layout: &Layout, settings: &Settings) -> Result<(), AgentError> {
        rustix::system::sethostname(settings.node_name.as_bytes())
            .map_err(|error| AgentError::System("set the host name", error.into()))?;
        let image = layout.os_release();
        if let (true, Ok(target)) = (image.exists(), fs::canonicalize("/etc/os-release")) {
            rustix::mount::mount_bind(&image, &target)
                .map_err(|error| AgentError::System("mount os-release", error.into()))?;
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn isolate(_layout: &Layout, _settings: &Settings) -> Result<(), AgentError> {
        Ok(())
    }
}
