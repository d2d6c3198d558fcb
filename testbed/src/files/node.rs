//! What a node's programs read.

use crate::error::Result;
use crate::layout::Layout;

/// Writes the configurations of the node's programs.
pub(super) fn write(_layout: &Layout) -> Result<()> {
    Ok(())
}
