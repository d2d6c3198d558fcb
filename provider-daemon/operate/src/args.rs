//! Flags of the commands for the operator of a provider.

pub mod bus;
pub mod config;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod keys;
pub mod migrate;
pub mod operator;
pub mod orders;
pub mod price;
pub mod query;
pub mod sdl;
pub mod state;
pub mod tools;
pub mod tx;

pub use bus::BusCommand;
pub use config::ConfigCommand;
pub use doctor::DoctorArgs;
pub use events::EventsArgs;
pub use explain::ExplainArgs;
pub use keys::KeysArgs;
pub use migrate::MigrateCommand;
pub use operator::OperatorCommand;
pub use price::{PriceCheckArgs, PriceCommand};
pub use query::QueryArgs;
pub use sdl::{SdlArgs, SdlPart};
pub use state::StateAction;
pub use tools::ToolsCommand;
pub use tx::TxArgs;
