//! Signals of a Unix process.

use std::io;

use rustix::process;
use tokio::signal::unix::{self, SignalKind};

use super::signal::Signal;

#[derive(Debug)]
pub(crate) struct Process {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    /// Which of them asked to end.
    ended_by: Option<SignalKind>,
    resize: unix::Signal,
    stop: unix::Signal,
}

impl Process {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hangup: unix::signal(SignalKind::hangup())?,
            ended_by: None,
            resize: unix::signal(SignalKind::window_change())?,
            stop: unix::signal(SignalKind::from_raw(process::Signal::TSTP.as_raw()))?,
        })
    }

    pub(super) fn exit_code(&self) -> u8 {
        let signal = self.ended_by.unwrap_or(SignalKind::interrupt());
        128 + u8::try_from(signal.as_raw_value()).unwrap_or(2)
    }

    pub(super) async fn next(&mut self) -> Signal {
        let ended_by = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
            _ = self.resize.recv() => return Signal::Resize,
            _ = self.stop.recv() => return Signal::Stop,
        };
        self.ended_by = Some(ended_by);
        if ended_by == SignalKind::hangup() { Signal::Hangup } else { Signal::Interrupt }
    }
}

/// Suspends the process until SIGCONT, the default action of Ctrl-Z.
pub(crate) fn stop() {
    process::kill_process(process::getpid(), process::Signal::STOP).ok();
}
