//! Raw mode and size of the local terminal.

use akash_provider_cli::error::WithHelp;
use anyhow::{Context, bail};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{IsTerminal, stdin, stdout};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Terminal of this process, and its signal for size changes.
#[derive(Debug)]
pub(super) struct Terminal {
    changes: Signal,
    is_sent: bool,
}

/// Raw mode of the terminal. Dropping this value restores the previous mode.
#[derive(Debug)]
pub(super) struct RawMode {
    before: Termios,
}

impl Terminal {
    /// Returns the terminal at standard input.
    ///
    /// # Errors
    /// Returns an error if standard input is not a terminal.
    pub(super) fn from_stdin() -> anyhow::Result<Self> {
        if !stdin().is_terminal() {
            bail!(WithHelp::new(
                "--tty requires a terminal at standard input",
                "for a pipe use --stdin without --tty"
            ));
        }
        let changes = signal(SignalKind::window_change()).context("cannot watch the terminal size")?;
        Ok(Self {
            changes,
            is_sent: false,
        })
    }

    /// Switches the terminal to raw mode.
    ///
    /// # Errors
    /// Returns an error if the settings of the terminal cannot be read or changed.
    pub(super) fn raw(&self) -> anyhow::Result<RawMode> {
        let before = tcgetattr(stdin()).context("cannot read the terminal settings")?;
        let mut settings = before.clone();
        settings.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &settings).context("cannot change the terminal settings")?;
        Ok(RawMode { before })
    }

    /// Returns the terminal's width and height: at once in the first call, then after each change. Skips
    /// unknown sizes.
    pub(super) async fn next_size(&mut self) -> anyhow::Result<(u16, u16)> {
        loop {
            if self.is_sent {
                self.changes
                    .recv()
                    .await
                    .context("cannot watch the terminal size")?;
            }
            self.is_sent = true;
            // If the output is redirected, the terminal is at the input.
            let size = tcgetwinsize(stdout()).or_else(|_| tcgetwinsize(stdin()));
            match size {
                Ok(size) if size.ws_col > 0 && size.ws_row > 0 => return Ok((size.ws_col, size.ws_row)),
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "cannot read the terminal size"),
            }
        }
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(stdin(), OptionalActions::Now, &self.before) {
            eprintln!("warning: cannot restore the terminal: {error}; run `reset`");
        }
    }
}
