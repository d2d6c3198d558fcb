//! The terminal that a command gets: every key goes to it as it is, and the terminal's size.

use anyhow::{Context, bail};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{IsTerminal, stdin, stdout};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The terminal of this process, and the signal that its size has changed.
#[derive(Debug)]
pub(super) struct Terminal {
    changes: Signal,
    is_told: bool,
}

/// The terminal while it is the command's; it is as before when this is dropped.
#[derive(Debug)]
pub(super) struct Raw {
    before: Termios,
}

impl Terminal {
    /// The one behind standard input.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn of_process() -> anyhow::Result<Self> {
        if !stdin().is_terminal() {
            bail!(
                "--tty needs a terminal, and standard input is none: leave it out, --stdin alone does for a pipe"
            );
        }
        let changes =
            signal(SignalKind::window_change()).context("listening for changes of the terminal's size")?;
        Ok(Self {
            changes,
            is_told: false,
        })
    }

    /// Hands the terminal over.
    ///
    /// # Errors
    /// It does not let itself be.
    pub(super) fn raw(&self) -> anyhow::Result<Raw> {
        let before = tcgetattr(stdin()).context("reading the terminal's settings")?;
        let mut settings = before.clone();
        settings.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &settings).context("changing the terminal's settings")?;
        Ok(Raw { before })
    }

    /// Width and height: at once the first time, then when they change. One that is not known is not told.
    pub(super) async fn next_size(&mut self) -> anyhow::Result<(u16, u16)> {
        loop {
            if self.is_told {
                self.changes
                    .recv()
                    .await
                    .context("listening for changes of the terminal's size")?;
            }
            self.is_told = true;
            // Where the output goes elsewhere, the terminal is the one behind the input.
            let size = tcgetwinsize(stdout()).or_else(|_| tcgetwinsize(stdin()));
            match size {
                Ok(size) if size.ws_col > 0 && size.ws_row > 0 => return Ok((size.ws_col, size.ws_row)),
                Ok(_) => {}
                Err(error) => tracing::debug!("the terminal's size: {error}"),
            }
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(stdin(), OptionalActions::Now, &self.before) {
            eprintln!("warning: the terminal cannot be set back ({error}): type `reset`");
        }
    }
}
