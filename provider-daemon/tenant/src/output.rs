//! Asynchronous standard output and standard error: a slow or closed reader does not block other work.

use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Standard output or standard error of this process.
pub(super) struct OutputWriter {
    to: Box<dyn AsyncWrite + Unpin>,
}

/// Error of a closed output (`… | head`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputClosed;

impl OutputWriter {
    pub(super) fn stdout() -> Self {
        Self {
            to: Box::new(tokio::io::stdout()),
        }
    }

    pub(super) fn stderr() -> Self {
        Self {
            to: Box::new(tokio::io::stderr()),
        }
    }

    /// Writes and flushes all bytes. Every error counts as a closed output.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), OutputClosed> {
        let printing = async {
            self.to.write_all(bytes).await?;
            self.to.flush().await
        };
        printing.await.map_err(|_| OutputClosed)
    }
}
