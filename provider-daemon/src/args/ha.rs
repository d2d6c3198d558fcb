//! Flags of high availability: several instances of one provider, of which one leads.

use super::bus::{Files, location, prefix};
use super::{BusArgs, values};
use akash_provider_core::election::Timing;
use akash_provider_redis::Location;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Where the instances agree who leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HaStore {
    /// This is the only instance.
    Off,
    /// By a Lease of the cluster.
    Kubernetes,
    /// By a key of a Redis.
    Redis,
}

/// Several instances of one provider.
#[derive(Debug, Args)]
#[command(next_help_heading = "High availability")]
pub struct HaArgs {
    /// Where several instances of this provider, with the same key and each with a home of its own, agree which one
    /// works: off for one instance, kubernetes for a Lease, redis for a key of a Redis.
    #[arg(long, value_enum, default_value = "off")]
    pub ha: HaStore,
    /// Name of the leadership; without it `akash-provider` for a Lease, which is the one that deploy/rbac gives rights to,
    /// and for a Redis one that follows from account and chain, so that two providers never meet.
    #[arg(long, value_name = "NAME", value_parser = values::dns_name)]
    pub ha_name: Option<String>,
    /// Namespace of the Lease; without it that of --k8s-manifest-ns.
    #[arg(long, value_name = "NAMESPACE", value_parser = values::dns_name)]
    pub ha_namespace: Option<String>,
    /// Name of this instance in the record of the leadership, before something random; without it that of the host.
    #[arg(long, value_name = "NAME", value_parser = values::dns_name)]
    pub ha_identity: Option<String>,
    /// Where tenants reach the gateway of this very instance, as HOST:PORT: a standby sends them there while it leads.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub ha_address: Option<String>,
    /// How long others wait after the last sign of life of the leader; it stops by itself after two thirds of it.
    #[arg(long, value_name = "DURATION", default_value = "12s", value_parser = lease)]
    pub ha_lease: Duration,
    /// Lead with other settings than the leader before at once, and not only when nobody with the same came.
    #[arg(long)]
    pub ha_takeover_settings: bool,
    /// The Redis, in the words of --bus; without it that of --bus.
    #[arg(long, value_name = "URL", value_parser = location)]
    pub ha_url: Option<Location>,
    /// A file with the password for --ha-url.
    #[arg(long, value_name = "FILE", requires = "ha_url")]
    pub ha_password_file: Option<PathBuf>,
    /// A file with the password of the sentinels.
    #[arg(long, value_name = "FILE", requires = "ha_url")]
    pub ha_sentinel_password_file: Option<PathBuf>,
    /// The authorities (PEM) that certificates of the servers are from; without it those of the machine.
    #[arg(long, value_name = "FILE", requires = "ha_url")]
    pub ha_ca: Option<PathBuf>,
    /// Our certificate for the servers (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["ha_url", "ha_key"])]
    pub ha_cert: Option<PathBuf>,
    /// Key of that certificate (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["ha_url", "ha_cert"])]
    pub ha_key: Option<PathBuf>,
    /// Begin the keys with this; without it `{akash-provider}`.
    #[arg(long, value_name = "TEXT", requires = "ha_url", value_parser = prefix)]
    pub ha_prefix: Option<String>,
}

impl HaArgs {
    /// How long a leadership lasts.
    #[must_use]
    pub fn timing(&self) -> Timing {
        Timing::of(self.ha_lease)
    }

    /// The Redis of the leadership, or else that of the bus.
    ///
    /// # Errors
    /// There is neither, or a file that a flag names cannot be used.
    pub fn redis(&self, bus: &BusArgs) -> anyhow::Result<Location> {
        let Some(location) = self.ha_url.clone() else {
            let missing =
                || anyhow::anyhow!("--ha redis needs the Redis: give it with --ha-url, or with --bus");
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

fn address(text: &str) -> Result<String, String> {
    const LENGTH_MAX: usize = 262;
    let is_fine = text.rsplit_once(':').is_some_and(|(host, port)| {
        let plain = host.bytes().all(|sign| sign.is_ascii_graphic() && sign != b'/');
        !host.is_empty() && plain && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    match is_fine && text.len() <= LENGTH_MAX {
        true => Ok(text.to_owned()),
        false => Err("write it as provider-1.example.com:8443".to_owned()),
    }
}

fn lease(text: &str) -> Result<Duration, String> {
    let (least, most) = (Duration::from_secs(3), Duration::from_secs(300));
    let lease = values::go_duration(text).map_err(|error| error.to_string())?;
    match (least..=most).contains(&lease) {
        true => Ok(lease),
        false => Err(format!("it is from {least:?} to {most:?}")),
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
    fn without_a_redis_of_its_own_the_leadership_lies_on_that_of_the_bus() {
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
        assert!(parsed(&["--ha-password-file=/x"]).is_err(), "of which Redis?");
    }

    #[test]
    fn times_and_addresses_that_make_no_sense_are_refused() {
        for words in [
            "--ha-lease=1s",
            "--ha-lease=1h",
            "--ha-address=host",
            "--ha-address=:8443",
            "--ha-address=https://host:1/",
            "--ha-address=host:0",
            "--ha-name=A B",
        ] {
            assert!(parsed(&[words]).is_err(), "{words}");
        }
        let fine = parsed(&["--ha-address=[::1]:8443", "--ha-lease=4s"]).unwrap();
        assert_eq!(fine.ha.timing().retry, Duration::from_millis(500));
    }
}
