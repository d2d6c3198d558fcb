//! Parts that the commands of the provider's program share: flags, secrets, connections to nodes, output, and
//! errors with remedies.

pub mod environment;
pub mod error;
pub mod flags;
pub mod json;
pub mod node;
pub mod output;
pub mod plain;
pub mod sdl;
pub mod secrets;
pub mod setting;
pub mod values;
