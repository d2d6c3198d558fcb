//! Standard output and error while something else goes on: a reader that is slow, or gone, holds up nothing else.

use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Where bytes are shown.
pub(super) struct Output {
    to: Box<dyn AsyncWrite + Unpin>,
}

/// Nobody reads any more (`… | head`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

impl Output {
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

    /// Writes all of the bytes and flushes, so that they are seen now. Any error counts as nobody reading.
    pub(super) async fn show(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let shown = async {
            self.to.write_all(bytes).await?;
            self.to.flush().await
        };
        shown.await.map_err(|_| Gone)
    }
}
