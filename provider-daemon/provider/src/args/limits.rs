//! Limits of the gateway for unauthenticated clients. A network is one IPv4 address or one /64 prefix of IPv6.

use akash_provider_cli::setting::HaRule;
use akash_provider_gateway::GatewayLimits;
use clap::{Args, value_parser};

/// Limits for unauthenticated clients.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Gateway limits for unauthenticated clients")]
pub struct LimitArgs {
    /// Maximum connections per port, from 16 to 100000; reduced if the limit of open files is too low
    #[arg(long, value_name = "COUNT", default_value_t = 12_000, value_parser = value_parser!(u32).range(16..=100_000))]
    #[arg(add = HaRule::MACHINE)]
    pub gateway_connections: u32,
    /// Connection limit per network (IPv4 or IPv6 /64) for clients without a lease, from 1 to 100000; new
    /// ones close old ones
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = value_parser!(u32).range(1..=100_000))]
    #[arg(add = HaRule::MACHINE)]
    pub gateway_strangers: u32,
    /// Maximum requests without credentials per minute and network (IPv4 or IPv6 /64), from 1 to 1000000;
    /// more get 429
    #[arg(long, value_name = "PER_MINUTE", default_value_t = 3_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    #[arg(add = HaRule::MACHINE)]
    pub gateway_anonymous_requests: u32,
    /// Maximum lookups of unknown accounts or certificates, per minute and network, from 1 to 10000; more get
    /// status 429
    #[arg(long, value_name = "PER_MINUTE", default_value_t = 60, value_parser = value_parser!(u32).range(1..=10_000))]
    #[arg(add = HaRule::MACHINE)]
    pub gateway_unknown_accounts: u32,
    /// Maximum groups screened per minute and network (IPv4 address or IPv6 /64), from 1 to 10000; more get
    /// status 429
    #[arg(long, value_name = "PER_MINUTE", default_value_t = 60, value_parser = value_parser!(u32).range(1..=10_000))]
    #[arg(add = HaRule::MACHINE)]
    pub gateway_screenings: u32,
    /// Maximum groups screened at the same time, from 1 to 64: each may use one CPU core
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = value_parser!(u32).range(1..=64))]
    #[arg(add = HaRule::MACHINE)]
    pub gateway_screenings_at_once: u32,
    /// Maximum concurrent gRPC status streams per network (IPv4 address or IPv6 /64), from 1 to 1024
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = value_parser!(u32).range(1..=1024))]
    #[arg(add = HaRule::MACHINE)]
    pub gateway_status_streams: u32,
}

impl LimitArgs {
    /// Returns the limits of the gateway, with defaults for limits without a flag.
    #[must_use]
    pub fn limits(&self) -> GatewayLimits {
        let count = |flag: u32| usize::try_from(flag).unwrap_or(usize::MAX);
        let mut limits = GatewayLimits::default();
        limits.connections = count(self.gateway_connections);
        limits.unleased_per_network = count(self.gateway_strangers);
        limits.requests_per_network = self.gateway_anonymous_requests;
        limits.unknown_per_network = self.gateway_unknown_accounts;
        limits.screenings_per_network = self.gateway_screenings;
        limits.screenings = count(self.gateway_screenings_at_once);
        limits.status_streams_per_network = count(self.gateway_status_streams);
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        limits: LimitArgs,
    }

    fn parsed(words: &[&str]) -> Result<GatewayLimits, clap::Error> {
        let words = ["run"].iter().chain(words);
        Flags::try_parse_from(words).map(|flags| flags.limits.limits())
    }

    /// Name, default, minimum and maximum of each flag.
    const FLAGS: [(&str, u32, u32, u32); 7] = [
        ("--gateway-connections", 12_000, 16, 100_000),
        ("--gateway-strangers", 256, 1, 100_000),
        ("--gateway-anonymous-requests", 3_000, 1, 1_000_000),
        ("--gateway-unknown-accounts", 60, 1, 10_000),
        ("--gateway-screenings", 60, 1, 10_000),
        ("--gateway-screenings-at-once", 4, 1, 64),
        ("--gateway-status-streams", 32, 1, 1024),
    ];

    #[test]
    fn sets_each_limit_or_its_default() {
        let usual = parsed(&[]).unwrap();
        assert_eq!(usual, GatewayLimits::default());
        let counts = |limits: &GatewayLimits| {
            let count = |number: usize| u32::try_from(number).unwrap();
            [
                count(limits.connections),
                count(limits.unleased_per_network),
                limits.requests_per_network,
                limits.unknown_per_network,
                limits.screenings_per_network,
                count(limits.screenings),
                count(limits.status_streams_per_network),
            ]
        };
        for (place, (flag, usually, ..)) in FLAGS.into_iter().enumerate() {
            let mut wanted = counts(&usual);
            assert_eq!(wanted[place], usually, "{flag}");
            wanted[place] = 33;
            let set = parsed(&[&format!("{flag}=33")]).unwrap();
            assert_eq!(counts(&set), wanted, "{flag}");
        }
    }

    #[test]
    fn documents_the_bounds_of_each_limit() {
        let guide = include_str!("../../../../docs/gateway.md");
        let command = Flags::command();
        for (flag, usually, least, most) in FLAGS {
            for good in [least, most] {
                assert!(parsed(&[&format!("{flag}={good}")]).is_ok(), "{flag} {good}");
            }
            for bad in [least - 1, most + 1] {
                let error = parsed(&[&format!("{flag}={bad}")]).unwrap_err().to_string();
                assert!(error.contains(&format!("{least}..={most}")), "{error}");
            }
            let row = format!("| `{flag}` | {usually} | {least} to {most} |");
            assert!(guide.contains(&row), "{row}");
            let name = flag.trim_start_matches("--");
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(name));
            let help = arg.unwrap().get_help().unwrap().to_string();
            assert!(help.contains(&format!("from {least} to {most}")), "{help}");
        }
        let all = command
            .get_arguments()
            .filter(|arg| arg.get_long() != Some("help"));
        assert_eq!(all.count(), FLAGS.len());
    }
}
