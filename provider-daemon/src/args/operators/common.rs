//! Flags that every operator has.

use super::super::values;
use akash_provider_k8s::election::Timing;
use akash_provider_k8s::operators::queue::RetryPolicy;
use clap::{Args, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Where an operator works, is asked, and how it is told from others like it.
#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// The cluster's kubeconfig; without it KUBECONFIG, the user's own, or the account of the pod.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Manifest, ProviderHost and ProviderLeasedIP objects.
    #[arg(long, value_name = "NAMESPACE", default_value = "lease", value_parser = values::dns_name)]
    pub k8s_manifest_ns: String,
    /// The address on which it is asked how it is.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub rest_address: IpAddr,
    /// The port on which it is asked how it is; without it the port `rest` of its own pod, else 8080.
    #[arg(long, value_name = "PORT")]
    pub rest_port: Option<u16>,
    /// Name of the pod it runs in.
    #[arg(long, value_name = "NAME", value_parser = values::dns_name)]
    pub pod_name: Option<String>,
    /// Namespace of the pod it runs in.
    #[arg(long, value_name = "NAMESPACE", value_parser = values::dns_name)]
    pub pod_namespace: Option<String>,
    /// How long a text that it shows stays the same, however often it is asked for.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::go_duration)]
    pub web_refresh_interval: Duration,
    /// Limit of one call to the API server.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::go_duration)]
    pub kube_call_timeout: Duration,
    /// Whether a Lease in --k8s-manifest-ns says which of several works.
    #[arg(long, value_enum, default_value = "on")]
    pub election: ElectionArg,
    /// How long others wait after the last sign of life of the one that works; it stops by itself after two thirds of it.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::go_duration)]
    pub election_lease: Duration,
}

/// Whether there is an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ElectionArg {
    /// One of several works, the others wait.
    On,
    /// It works, whoever else does.
    Off,
}

impl CommonArgs {
    /// How long a leadership lasts.
    #[must_use]
    pub fn timing(&self) -> Timing {
        Timing {
            lease: self.election_lease,
            renew: self.election_lease * 2 / 3,
            retry: self.election_lease / 8,
        }
    }
}

/// How failures are answered, by an operator that writes what records say.
#[derive(Debug, Clone, Args)]
pub struct PatienceArgs {
    /// How often is forgotten what is of records that are gone.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = values::go_duration)]
    pub prune_interval: Duration,
    /// First wait after a failure; it doubles up to five minutes.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = values::go_duration)]
    pub retry_delay: Duration,
    /// How many records are ignored at most; the oldest of them is tried again.
    #[arg(long, value_name = "COUNT", default_value_t = 131_072)]
    pub ignore_list_entry_limit: usize,
    /// For how long a record is ignored at most.
    #[arg(long, value_name = "DURATION", default_value = "726h", value_parser = values::go_duration)]
    pub ignore_list_age_limit: Duration,
    /// Refusals in a row after which a record is ignored until it changes.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub event_failure_limit: u32,
}

impl PatienceArgs {
    /// The same for the queue.
    #[must_use]
    pub fn patience(&self) -> RetryPolicy {
        RetryPolicy {
            retry_delay: self.retry_delay,
            refusals: self.event_failure_limit,
            ignored: self.ignore_list_entry_limit,
            ignored_for: self.ignore_list_age_limit,
        }
    }
}
