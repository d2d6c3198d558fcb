//! Flags of hostname checks: probes of the routes, and proofs of ownership.

use akash_provider_cli::error::WithHelp;
use akash_provider_cli::setting::HaRule;
use akash_provider_cli::values;
use akash_provider_operators::hostname::index::ProofRule;
use akash_provider_operators::hostname::schedule::CheckRate;
use anyhow::bail;
use clap::{Args, ValueEnum};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const DNS: u16 = 53;

/// Checks of hostnames.
#[derive(Debug, Clone, Args)]
pub struct NamesArgs {
    /// Send HTTP requests to every accepted route, and show the results in the status of the operator and the
    /// lease
    #[arg(long)]
    #[arg(add = HaRule::OPERATOR)]
    pub probe: bool,
    /// Interval between probes of a hostname, divided by 5 after a failed probe; requires --probe
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = values::go_duration)]
    #[arg(add = HaRule::OPERATOR)]
    pub probe_interval: Duration,
    /// Maximum number of probes per minute; requires --probe
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=6_000))]
    #[arg(add = HaRule::OPERATOR)]
    pub probe_budget: u32,
    /// Proof of ownership that tenants must give for hostnames outside --deployment-ingress-domain
    #[arg(long, value_enum, default_value = "off")]
    pub hostname_proof: ProofArg,
    /// Maximum interval between proof checks of a hostname; requires --hostname-proof
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = values::go_duration)]
    #[arg(add = HaRule::OPERATOR)]
    pub proof_interval: Duration,
    /// Maximum number of DNS queries per minute; requires --hostname-proof
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=6_000))]
    #[arg(add = HaRule::OPERATOR)]
    pub proof_budget: u32,
    /// DNS resolvers for proof checks [default: the resolvers in /etc/resolv.conf]
    #[arg(long, value_name = "ADDRESS[:PORT],...", value_delimiter = ',', value_parser = server)]
    #[arg(add = HaRule::OPERATOR)]
    pub dns_server: Vec<SocketAddr>,
}

/// Proof of ownership of a hostname.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProofArg {
    /// No proof is required
    Off,
    /// TXT record `_akash-challenge.NAME` with the value `akash-owner=ADDRESS`
    DnsTxt,
}

impl NamesArgs {
    /// Returns the interval and limit of probes, or `None` without `--probe`.
    #[must_use]
    pub fn probe(&self) -> Option<CheckRate> {
        self.probe.then_some(CheckRate {
            every: self.probe_interval,
            per_minute: self.probe_budget,
        })
    }

    /// Returns the interval and limit of proof checks.
    #[must_use]
    pub const fn proving(&self) -> CheckRate {
        CheckRate {
            every: self.proof_interval,
            per_minute: self.proof_budget,
        }
    }

    /// Returns whether probes or proofs are enabled.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.probe || self.hostname_proof != ProofArg::Off
    }

    /// Returns the rule for ownership proofs, or `None` if proofs are disabled. Hostnames under `own_domain`
    /// need no proof.
    ///
    /// # Errors
    /// Returns an error if proofs are enabled without `own_domain`.
    pub fn rule(&self, own_domain: Option<&str>) -> anyhow::Result<Option<ProofRule>> {
        if self.hostname_proof == ProofArg::Off {
            return Ok(None);
        }
        let domain = own_domain.unwrap_or_default().trim();
        if domain.trim_matches('.').is_empty() {
            bail!(WithHelp::new(
                "--hostname-proof requires --deployment-ingress-domain, because automatic hostnames are below that domain and need no proof",
                "add --deployment-ingress-domain with the same value as for `run`"
            ));
        }
        let own_domain = domain.to_owned();
        Ok(Some(ProofRule { own_domain }))
    }
}

fn server(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>();
    let found = with_port.or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DNS)));
    found.map_err(|_| {
        format!(
            "invalid address `{text}`; expected an address such as 10.0.0.10, 10.0.0.10:5353 or [fd00::10]:53"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        names: NamesArgs,
    }

    fn parsed(words: &[&str]) -> Result<NamesArgs, clap::Error> {
        Flags::try_parse_from([&["test"], words].concat()).map(|flags| flags.names)
    }

    #[test]
    fn disables_probes_and_proofs_by_default() {
        let names = parsed(&[]).unwrap();
        assert_eq!(names.probe(), None);
        assert_eq!(names.rule(None).unwrap(), None);
        assert!(!names.is_asked());
        let names = parsed(&["--probe", "--probe-budget=5"]).unwrap();
        assert_eq!(names.probe().map(|budget| budget.per_minute), Some(5));
        assert!(names.is_asked() && parsed(&["--hostname-proof=dns-txt"]).unwrap().is_asked());
    }

    #[test]
    fn requires_the_ingress_domain_for_proofs() {
        let names = parsed(&["--hostname-proof=dns-txt"]).unwrap();
        for none in [None, Some(""), Some(" . ")] {
            let refused = names.rule(none).unwrap_err().to_string();
            assert!(refused.contains("--deployment-ingress-domain"), "{refused}");
        }
        let rule = names.rule(Some("ingress.example.com")).unwrap();
        assert_eq!(rule.unwrap().own_domain, "ingress.example.com");
    }

    #[test]
    fn parses_dns_servers() {
        let names = parsed(&["--dns-server=10.0.0.10,[fd00::10]:5353,fd00::11"]).unwrap();
        let texts: Vec<String> = names.dns_server.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.0.0.10:53", "[fd00::10]:5353", "[fd00::11]:53"]);
        for bad in [
            "--dns-server=dns.example.com",
            "--probe-budget=0",
            "--proof-interval=often",
        ] {
            assert!(parsed(&[bad]).is_err(), "{bad}");
        }
    }
}
