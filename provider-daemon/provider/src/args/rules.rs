//! Flags of the engine without counterpart in the Go provider: the unhealthy limit, the circuit breaker, the full scan
//! and the timeouts of calls.

use super::values;
use akash_provider_cli::setting::HaRule;
use akash_provider_core::Config;
use clap::Args;
use std::time::Duration;

/// Engine rules.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Rules")]
pub struct RuleArgs {
    /// Close a lease after this time in an unhealthy state; unknown health does not count; 0 disables the limit
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = values::go_duration)]
    pub unhealthy_limit: Duration,
    /// Interval of the full comparison of the chain, the cluster and the state of the provider
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = positive)]
    #[arg(add = HaRule::MACHINE)]
    pub full_scan_interval: Duration,
    /// Time window in which the circuit breaker counts leases closed by the provider
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = positive)]
    pub breaker_window: Duration,
    /// Number of leases that the provider can always close within --breaker-window
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub breaker_floor: u32,
    /// Percentage of all leases that the provider can close within --breaker-window, if more than
    /// --breaker-floor
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub breaker_percent: u32,
    /// Maximum number of closes that --breaker-percent permits; a higher --breaker-floor takes precedence
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub breaker_ceiling: u32,
    /// Time in which the provider closes no lease on its own, from the first listing of the cluster after a
    /// start
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = values::go_duration)]
    pub breaker_warmup: Duration,
    /// Timeout of one cluster operation, which may be many API calls
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = positive)]
    #[arg(add = HaRule::MACHINE)]
    pub cluster_timeout: Duration,
    /// Timeout of one price calculation, including the wait for other price programs
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = positive)]
    #[arg(add = HaRule::MACHINE)]
    pub pricing_timeout: Duration,
    /// Timeout of one transaction until its result is known
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = positive)]
    #[arg(add = HaRule::MACHINE)]
    pub tx_timeout: Duration,
    /// Timeout of a manifest request of a tenant
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = positive)]
    #[arg(add = HaRule::MACHINE)]
    pub manifest_request_timeout: Duration,
}

fn positive(text: &str) -> Result<Duration, String> {
    let duration = values::go_duration(text)?;
    if duration.is_zero() {
        return Err("must be greater than zero".to_owned());
    }
    Ok(duration)
}

impl RuleArgs {
    /// Copies the rules into `config`.
    pub fn apply(&self, config: &mut Config) {
        config.unhealthy_limit = (!self.unhealthy_limit.is_zero()).then_some(self.unhealthy_limit);
        config.scan_interval = self.full_scan_interval;
        config.breaker_window = self.breaker_window;
        config.breaker_floor = self.breaker_floor;
        config.breaker_percent = self.breaker_percent;
        config.breaker_ceiling = self.breaker_ceiling;
        config.breaker_warmup = self.breaker_warmup;
        config.cluster_timeout = self.cluster_timeout;
        config.pricing_timeout = self.pricing_timeout;
        config.tx_timeout = self.tx_timeout;
        config.manifest_request_timeout = self.manifest_request_timeout;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::types::Address;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        rules: RuleArgs,
    }

    fn applied(words: &[&str]) -> Config {
        let flags = Flags::try_parse_from([&["test"], words].concat()).unwrap();
        let mut config = Config::new(Address::from_bytes(&[1; 20]).unwrap(), "chain-1");
        flags.rules.apply(&mut config);
        config
    }

    #[test]
    fn has_the_defaults_of_the_engine() {
        let own = Config::new(Address::from_bytes(&[1; 20]).unwrap(), "chain-1");
        assert_eq!(applied(&[]), own);
    }

    #[test]
    fn has_a_flag_for_every_engine_rule() {
        let config = applied(&[
            "--unhealthy-limit=0",
            "--full-scan-interval=1m",
            "--breaker-window=2m",
            "--breaker-floor=5",
            "--breaker-percent=20",
            "--breaker-ceiling=30",
            "--breaker-warmup=0",
            "--cluster-timeout=3m",
            "--pricing-timeout=4s",
            "--tx-timeout=5s",
            "--manifest-request-timeout=6s",
        ]);
        assert_eq!(config.unhealthy_limit, None);
        let minutes = [
            config.scan_interval,
            config.breaker_window,
            config.cluster_timeout,
        ];
        assert_eq!(minutes, [1, 2, 3].map(|n| Duration::from_secs(n * 60)));
        let counts = [
            config.breaker_floor,
            config.breaker_percent,
            config.breaker_ceiling,
        ];
        assert_eq!(counts, [5, 20, 30]);
        let seconds = [
            config.breaker_warmup,
            config.pricing_timeout,
            config.tx_timeout,
            config.manifest_request_timeout,
        ];
        assert_eq!(seconds, [0, 4, 5, 6].map(Duration::from_secs));
        for bad in [
            "--full-scan-interval=0",
            "--breaker-percent=101",
            "--tx-timeout=0s",
        ] {
            assert!(Flags::try_parse_from(["test", bad]).is_err(), "{bad}");
        }
    }
}
