//! Flags of `tools`, with the names and defaults of the Go provider.

use crate::hardware::HardwarePart;
use akash_provider_cli::flags::DataOutput;
use akash_provider_cli::setting::NoVariable;
use akash_provider_cli::values;
use clap::{Args, Subcommand, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;
use url::Url;

/// Default URL of the PCI ID database.
const DATABASE: &str = "https://pci-ids.ucw.cz/v2.2/pci.ids";

/// Commands that inspect the local machine.
#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// Report processors, GPUs, memory and PCI devices of this machine
    #[command(subcommand)]
    Psutil(PsutilCommand),
}

/// Actions of `tools psutil`.
#[derive(Debug, Subcommand)]
pub enum PsutilCommand {
    /// Print one part of the hardware report
    List(ListArgs),
    /// Serve the hardware report over HTTP: GET /, /cpu, /gpu, /memory and /pci
    Serve(ServeArgs),
}

/// Arguments of `tools psutil list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Part of the hardware report to print
    #[arg(value_enum)]
    pub part: PartArg,
    /// Output format of the report
    #[arg(long, short, value_enum, default_value = "json", add = NoVariable)]
    pub output: DataOutput,
    /// Machine.
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// Arguments of `tools psutil serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Port of the HTTP server
    #[arg(long, value_name = "PORT", default_value_t = 8081)]
    pub api_port: u16,
    /// Listen address of the HTTP server; requests are not authenticated
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub api_address: IpAddr,
    /// Machine.
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// Machine to inspect, and the source of device names.
#[derive(Debug, Args)]
pub struct MachineArgs {
    /// Root directory of /proc, /sys and /usr/share
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    pub root: PathBuf,
    /// Fetch device names from --provider-pcidb-url if the machine has no pci.ids; or set PCIDB_ENABLE_NETWORK_FETCH=1
    #[arg(long)]
    pub pcidb_enable_network_fetch: bool,
    /// URL of the PCI ID database, an uncompressed text file
    #[arg(long, value_name = "URL", default_value = DATABASE, value_parser = values::web_url)]
    pub provider_pcidb_url: Url,
}

impl MachineArgs {
    /// Returns true if a flag or the environment permits the download of the device names. `look` returns the
    /// value of an environment variable.
    pub fn may_fetch(&self, look: impl Fn(&str) -> Option<String>) -> bool {
        let set = look("PCIDB_ENABLE_NETWORK_FETCH").unwrap_or_default();
        self.pcidb_enable_network_fetch || ["1", "t", "true"].contains(&set.to_ascii_lowercase().as_str())
    }
}

/// Part of the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PartArg {
    /// Processors, cores and threads
    Cpu,
    /// Graphics cards and accelerators
    Gpu,
    /// Memory and page sizes
    Memory,
    /// Devices on the PCI bus
    Pci,
}

impl PartArg {
    pub(crate) const fn part(self) -> HardwarePart {
        match self {
            Self::Cpu => HardwarePart::Cpu,
            Self::Gpu => HardwarePart::Gpu,
            Self::Memory => HardwarePart::Memory,
            Self::Pci => HardwarePart::Pci,
        }
    }
}
