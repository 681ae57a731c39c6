//! What a Windows console sends in place of signals.

use std::io;

use tokio::signal::windows::{self, CtrlBreak, CtrlC, CtrlClose};

use super::signal::Signal;

#[derive(Debug)]
pub(crate) struct Process {
    interrupt: CtrlC,
    terminate: CtrlBreak,
    close: CtrlClose,
    /// The console was closed.
    is_closed: bool,
}

impl Process {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: windows::ctrl_c()?,
            terminate: windows::ctrl_break()?,
            close: windows::ctrl_close()?,
            is_closed: false,
        })
    }

    /// As for SIGHUP and SIGINT.
    pub(super) fn exit_code(&self) -> u8 {
        if self.is_closed { 129 } else { 130 }
    }

    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Interrupt,
            _ = self.close.recv() => {
                self.is_closed = true;
                Signal::Hangup
            }
        }
    }
}

/// Processes are not stopped there.
pub(crate) fn stop() {}
