//! Flags common to all operators.

use super::super::values;
use crate::args::audit::{default_settings, directory};
use crate::audit;
use akash_provider_k8s::audit::DeletionLog;
use akash_provider_k8s::election::Timing;
use akash_provider_operators::queue::RetryPolicy;
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Cluster, status server and leader election of an operator.
#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// Kubeconfig of the cluster [default: KUBECONFIG, ~/.kube/config, or the service account of the pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Manifest, ProviderHost and ProviderLeasedIP objects
    #[arg(long, value_name = "NAMESPACE", default_value = "lease", value_parser = values::dns_name)]
    pub k8s_manifest_ns: String,
    /// Listen address of the status server
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub rest_address: IpAddr,
    /// Port of the status server [default: the port `rest` of this pod, else 8080]
    #[arg(long, value_name = "PORT")]
    pub rest_port: Option<u16>,
    /// Name of the pod of this process
    #[arg(long, value_name = "NAME", value_parser = values::dns_name)]
    pub pod_name: Option<String>,
    /// Namespace of the pod of this process
    #[arg(long, value_name = "NAMESPACE", value_parser = values::dns_name)]
    pub pod_namespace: Option<String>,
    /// Cache lifetime of status responses
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::go_duration)]
    pub web_refresh_interval: Duration,
    /// Timeout of one call to the API server
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::go_duration)]
    pub kube_call_timeout: Duration,
    /// Leader election by a Lease object in --k8s-manifest-ns
    #[arg(long, value_enum, default_value = "on")]
    pub election: ElectionArg,
    /// Time without a leader heartbeat after which a standby takes over; the leader stops after two thirds of
    /// this time
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::go_duration)]
    pub election_lease: Duration,
}

/// Leader election of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ElectionArg {
    /// One instance works, the others stand by
    On,
    /// This instance works regardless of others
    Off,
}

impl CommonArgs {
    /// Returns the timing of the leader election.
    #[must_use]
    pub fn timing(&self) -> Timing {
        Timing::for_lease(self.election_lease)
    }
}

/// Settings of retries, for an operator that writes one Kubernetes object per record.
#[derive(Debug, Clone, Args)]
pub struct RetryArgs {
    /// Interval at which the operator removes the retry state of deleted records from memory
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = values::go_duration)]
    pub prune_interval: Duration,
    /// Back-off after the first failure, doubled after each further failure up to five minutes
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = values::go_duration)]
    pub retry_delay: Duration,
    /// Maximum number of ignored records; beyond it, the operator retries the record that was ignored longest
    #[arg(long, value_name = "COUNT", default_value_t = 131_072)]
    pub ignore_list_entry_limit: usize,
    /// Time after which the operator retries an ignored record
    #[arg(long, value_name = "DURATION", default_value = "726h", value_parser = values::go_duration)]
    pub ignore_list_age_limit: Duration,
    /// Number of consecutive rejections by the API server after which the operator ignores a record until it
    /// changes
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub event_failure_limit: u32,
}

impl RetryArgs {
    /// Returns the retry policy of the work queue.
    #[must_use]
    pub fn policy(&self) -> RetryPolicy {
        let mut policy = RetryPolicy::default();
        policy.retry_delay = self.retry_delay;
        policy.refusals = self.event_failure_limit;
        policy.ignored = self.ignore_list_entry_limit;
        policy.ignored_for = self.ignore_list_age_limit;
        policy
    }
}

/// Audit log of an operator that deletes objects.
#[derive(Debug, Clone, Args)]
pub struct DeletionLogArgs {
    /// Directory of the audit log of deletions [default: no log]
    #[arg(long, value_name = "DIR")]
    pub audit_log: Option<PathBuf>,
}

impl DeletionLogArgs {
    /// Starts the audit log, if there is one.
    ///
    /// # Errors
    /// Returns an error if the thread of the log cannot be started.
    pub fn start(&self) -> anyhow::Result<DeletionLog> {
        let Some(dir) = directory(self.audit_log.as_deref(), None) else {
            return Ok(DeletionLog::default());
        };
        let log = audit::start(default_settings(dir)?);
        Ok(DeletionLog::new(log.context("cannot start the audit log")?))
    }
}
