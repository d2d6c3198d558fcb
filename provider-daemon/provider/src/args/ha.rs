//! Flags of high availability: several instances of one provider with an elected leader.

use super::bus::{Files, location, prefix};
use super::needs::Needs;
use super::{BusArgs, values};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::setting::HaRule;
use akash_provider_core::election::Timing;
use akash_provider_redis::Location;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Backend of the leader election.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HaStore {
    /// No election: a single instance.
    Off,
    /// Lease object in the cluster.
    Kubernetes,
    /// Key in Redis.
    Redis,
}

/// High availability.
#[derive(Debug, Args)]
#[command(next_help_heading = "High availability")]
pub struct HaArgs {
    /// Leader election among instances of one account: off, kubernetes (Lease object) or redis (Redis key)
    #[arg(long, value_enum, default_value = "off")]
    #[arg(add = HaRule::COORDINATION)]
    pub ha: HaStore,
    /// Name of the election [default: akash-provider for a Lease, derived from account and chain for Redis]
    #[arg(long, value_name = "NAME", value_parser = values::dns_name)]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_name: Option<String>,
    /// Namespace of the Lease object [default: the namespace of --k8s-manifest-ns]
    #[arg(long, value_name = "NAMESPACE", value_parser = values::dns_name)]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_namespace: Option<String>,
    /// Name of this instance in the election record; a random suffix is appended [default: the host name]
    #[arg(long, value_name = "NAME", value_parser = values::dns_name)]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_identity: Option<String>,
    /// Gateway address of this instance, as HOST:PORT; standbys redirect tenants to the address of the leader
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_address: Option<String>,
    /// Pod of this instance; its label provider.akash.network/role becomes leader or standby
    #[arg(long, value_name = "NAMESPACE/NAME")]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_pod: Option<PodName>,
    /// Time without a leader heartbeat after which a standby takes over; the leader stops after two thirds of
    /// this time
    #[arg(long, value_name = "DURATION", default_value = "12s", value_parser = lease)]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_lease: Duration,
    /// Take over immediately, even if the previous leader had other settings [default: after a delay]
    #[arg(long)]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_takeover_settings: bool,
    /// URL of the Redis for the election, in the format of --bus [default: the Redis of --bus]
    #[arg(long, value_name = "URL", value_parser = location)]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_url: Option<Location>,
    /// File with the password for --ha-url
    #[arg(long, value_name = "FILE", requires = "ha_url")]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_password_file: Option<PathBuf>,
    /// File with the password of the Redis sentinels of --ha-url
    #[arg(long, value_name = "FILE", requires = "ha_url")]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_sentinel_password_file: Option<PathBuf>,
    /// CA certificates (PEM) for the Redis of --ha-url [default: the CA certificates of the system]
    #[arg(long, value_name = "FILE", requires = "ha_url")]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_ca: Option<PathBuf>,
    /// Client certificate (PEM) for the Redis of --ha-url
    #[arg(long, value_name = "FILE", requires_all = ["ha_url", "ha_key"])]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_cert: Option<PathBuf>,
    /// Private key (PEM) of the client certificate in --ha-cert
    #[arg(long, value_name = "FILE", requires_all = ["ha_url", "ha_cert"])]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_key: Option<PathBuf>,
    /// Prefix of the election keys in Redis [default: {akash-provider}]
    #[arg(long, value_name = "TEXT", requires = "ha_url", value_parser = prefix)]
    #[arg(add = HaRule::COORDINATION, add = Needs::HA)]
    pub ha_prefix: Option<String>,
}

impl HaArgs {
    /// Returns the timing of the election.
    #[must_use]
    pub fn timing(&self) -> Timing {
        Timing::for_lease(self.ha_lease)
    }

    /// Returns the Redis location of the election, from `--ha-url` or else from `--bus`.
    ///
    /// # Errors
    /// Returns an error if both flags are unset, or a credential file cannot be used.
    pub fn redis(&self, bus: &BusArgs) -> anyhow::Result<Location> {
        let Some(location) = self.ha_url.clone() else {
            let missing = || {
                anyhow::anyhow!(WithHelp::new(
                    "--ha redis requires --ha-url or --bus",
                    "add --ha-url redis://HOST:6379, or use --ha kubernetes"
                ))
            };
            return bus.location()?.ok_or_else(missing);
        };
        let files = Files {
            of: "ha",
            password: self.ha_password_file.as_deref(),
            sentinel_password: self.ha_sentinel_password_file.as_deref(),
            authorities: self.ha_ca.as_deref(),
            identity: self.ha_cert.as_deref().zip(self.ha_key.as_deref()),
            prefix: self.ha_prefix.as_deref(),
        };
        files.given_to(location)
    }
}

/// Name of a pod with its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodName {
    namespace: String,
    name: String,
}

impl PodName {
    /// Returns the namespace of the pod.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the name of the pod.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for PodName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').map(|(namespace, name)| {
            let namespace = values::dns_name(namespace).ok()?;
            let name = values::dns_name(name).ok()?;
            Some(Self { namespace, name })
        });
        let expected = "expected NAMESPACE/NAME, such as akash-services/akash-provider-0";
        parts.flatten().ok_or_else(|| expected.to_owned())
    }
}

fn address(text: &str) -> Result<String, String> {
    const LENGTH_MAX: usize = 262;
    let is_fine = text.rsplit_once(':').is_some_and(|(host, port)| {
        let plain = host.bytes().all(|sign| sign.is_ascii_graphic() && sign != b'/');
        !host.is_empty() && plain && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    match is_fine && text.len() <= LENGTH_MAX {
        true => Ok(text.to_owned()),
        false => Err("expected HOST:PORT, such as provider-1.example.com:8443".to_owned()),
    }
}

fn lease(text: &str) -> Result<Duration, String> {
    let (least, most) = (Duration::from_secs(3), Duration::from_secs(300));
    let lease = values::go_duration(text).map_err(|error| error.to_string())?;
    match (least..=most).contains(&lease) {
        true => Ok(lease),
        false => Err(format!("expected a duration from {least:?} to {most:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Both {
        #[command(flatten)]
        ha: HaArgs,
        #[command(flatten)]
        bus: BusArgs,
    }

    fn parsed(words: &[&str]) -> Result<Both, clap::Error> {
        Both::try_parse_from([&["test"][..], words].concat())
    }

    #[test]
    fn uses_the_redis_of_the_bus_for_the_election() {
        let redis = |words: &[&str]| {
            let both = parsed(words).unwrap();
            both.ha.redis(&both.bus).map(|location| location.to_string())
        };
        assert!(
            redis(&["--ha=redis"])
                .unwrap_err()
                .to_string()
                .contains("--ha-url")
        );
        assert_eq!(
            redis(&["--ha=redis", "--bus=redis://a"]).unwrap(),
            "redis://a:6379/0"
        );
        let own = [
            "--ha=redis",
            "--bus=redis://a",
            "--ha-url=redis-sentinel://b,c/main/2",
        ];
        assert_eq!(redis(&own).unwrap(), "redis-sentinel://b:26379,c:26379/main/2");
        let missing = ["--ha=redis", "--ha-url=redis://a", "--ha-password-file=/no/such"];
        assert!(
            redis(&missing)
                .unwrap_err()
                .to_string()
                .starts_with("--ha-password-file")
        );
        assert!(
            parsed(&["--ha-password-file=/x"]).is_err(),
            "a password without a Redis"
        );
    }

    #[test]
    fn rejects_invalid_durations_addresses_and_pods() {
        for words in [
            "--ha-lease=1s",
            "--ha-lease=1h",
            "--ha-address=host",
            "--ha-address=:8443",
            "--ha-address=https://host:1/",
            "--ha-address=host:0",
            "--ha-name=A B",
            "--ha-pod=akash-provider-0",
            "--ha-pod=ops/a/b",
            "--ha-pod=/a",
        ] {
            assert!(parsed(&[words]).is_err(), "{words}");
        }
        let fine = parsed(&["--ha-address=[::1]:8443", "--ha-lease=4s"]).unwrap();
        assert_eq!(fine.ha.timing().retry, Duration::from_millis(500));
    }
}
