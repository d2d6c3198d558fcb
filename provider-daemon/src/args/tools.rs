//! Flags of `tools`. Names and defaults are those of today's.

use super::values;
use crate::hardware::Part;
use clap::{Args, Subcommand, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;
use url::Url;

/// Where the PCI id database is had where nobody says it.
const DATABASE: &str = "https://pci-ids.ucw.cz/v2.2/pci.ids";

/// What is asked of the machine that this runs on.
#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// Say what this machine has: processors, cards, memory, devices on its bus.
    #[command(subcommand)]
    Psutil(PsutilCommand),
}

/// How it is said.
#[derive(Debug, Subcommand)]
pub enum PsutilCommand {
    /// Print a part of it as JSON.
    List(ListArgs),
    /// Answer what it has over HTTP: GET /, /cpu, /gpu, /memory and /pci.
    Serve(ServeArgs),
}

/// Settings of `tools psutil list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// What is printed of this machine.
    #[arg(value_enum)]
    pub part: PartArg,
    /// Which machine it is.
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// Settings of `tools psutil serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The port on which it is asked.
    #[arg(long, value_name = "PORT", default_value_t = 8081)]
    pub api_port: u16,
    /// The address on which it is asked; whoever reaches it may.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub api_address: IpAddr,
    /// Which machine it is.
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// Which machine is looked at, and who names what it has.
#[derive(Debug, Args)]
pub struct MachineArgs {
    /// Look at /proc, /sys and /usr/share below this folder.
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    pub root: PathBuf,
    /// Ask --provider-pcidb-url for names where the machine has no pci.ids; so does PCIDB_ENABLE_NETWORK_FETCH=1. Without
    /// names there are numbers.
    #[arg(long)]
    pub pcidb_enable_network_fetch: bool,
    /// Where the database of names is, as plain text.
    #[arg(long, value_name = "URL", default_value = DATABASE, value_parser = values::web_url)]
    pub provider_pcidb_url: Url,
}

impl MachineArgs {
    /// True where names may be asked for over the network; `look` says what is set in the environment.
    pub fn may_fetch(&self, look: impl Fn(&str) -> Option<String>) -> bool {
        let set = look("PCIDB_ENABLE_NETWORK_FETCH").unwrap_or_default();
        self.pcidb_enable_network_fetch || ["1", "t", "true"].contains(&set.to_ascii_lowercase().as_str())
    }
}

/// A part of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PartArg {
    /// Processors, cores, threads.
    Cpu,
    /// Cards and accelerators.
    Gpu,
    /// Memory and sizes of pages.
    Memory,
    /// Devices on the bus.
    Pci,
}

impl PartArg {
    /// The part that is meant.
    pub(crate) const fn part(self) -> Part {
        match self {
            Self::Cpu => Part::Cpu,
            Self::Gpu => Part::Gpu,
            Self::Memory => Part::Memory,
            Self::Pci => Part::Pci,
        }
    }
}
