//! Flags of what the hostname operator finds out about names: whether they answer, and whose they are.

use crate::args::values;
use akash_provider_k8s::operators::hostname::index::ProofRule;
use akash_provider_k8s::operators::hostname::schedule::Budget;
use anyhow::bail;
use clap::{Args, ValueEnum};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The port of DNS.
const DNS: u16 = 53;

/// What is found out about hostnames.
#[derive(Debug, Clone, Args)]
pub struct NamesArgs {
    /// Ask the address of every accepted route whether it answers for its hostname, and show it in the status of the
    /// operator and of the lease. No route is changed for it.
    #[arg(long)]
    pub probe: bool,
    /// How often a hostname is asked for, with --probe; one that does not answer five times as often.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = values::go_duration)]
    pub probe_interval: Duration,
    /// Questions a minute, of all hostnames together, with --probe.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=6_000))]
    pub probe_budget: u32,
    /// What a tenant has to prove before a hostname that is not under --deployment-ingress-domain gets a route.
    #[arg(long, value_enum, default_value = "off")]
    pub hostname_proof: ProofArg,
    /// How often a proof is looked for again, with --hostname-proof.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = values::go_duration)]
    pub proof_interval: Duration,
    /// Questions to DNS a minute, of all hostnames together, with --hostname-proof.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=6_000))]
    pub proof_budget: u32,
    /// Resolvers that are asked instead of those of /etc/resolv.conf, with --hostname-proof.
    #[arg(long, value_name = "ADDRESS[:PORT],...", value_delimiter = ',', value_parser = server)]
    pub dns_server: Vec<SocketAddr>,
}

/// How a tenant proves that a hostname is theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProofArg {
    /// Nobody has to prove anything.
    Off,
    /// A TXT record `_akash-challenge.NAME` with `akash-owner=ADDRESS`.
    DnsTxt,
}

impl NamesArgs {
    /// How often names are asked for; `None` for never.
    #[must_use]
    pub fn probe(&self) -> Option<Budget> {
        self.probe.then_some(Budget {
            every: self.probe_interval,
            per_minute: self.probe_budget,
        })
    }

    /// How often proofs are looked for.
    #[must_use]
    pub const fn proving(&self) -> Budget {
        Budget {
            every: self.proof_interval,
            per_minute: self.proof_budget,
        }
    }

    /// Whether anything is to be found out.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.probe || self.hostname_proof != ProofArg::Off
    }

    /// Which names need a proof; those under `own_domain` (`--deployment-ingress-domain`) do not.
    ///
    /// # Errors
    /// It is not said which ones are the provider's own.
    pub fn rule(&self, own_domain: Option<&str>) -> anyhow::Result<Option<ProofRule>> {
        if self.hostname_proof == ProofArg::Off {
            return Ok(None);
        }
        let domain = own_domain.unwrap_or_default().trim();
        if domain.trim_matches('.').is_empty() {
            bail!(
                "--hostname-proof needs --deployment-ingress-domain, as `run` has it: automatic hostnames are under it and \
                 need no proof"
            );
        }
        let own_domain = domain.to_owned();
        Ok(Some(ProofRule { own_domain }))
    }
}

fn server(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>();
    let found = with_port.or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DNS)));
    found.map_err(|_| {
        format!("`{text}` is no address: use one such as 10.0.0.10, 10.0.0.10:5353 or [fd00::10]:53")
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
    fn nothing_is_asked_and_nothing_needs_a_proof_unless_it_is_said() {
        let names = parsed(&[]).unwrap();
        assert_eq!(names.probe(), None);
        assert_eq!(names.rule(None).unwrap(), None);
        assert!(!names.is_asked());
        let names = parsed(&["--probe", "--probe-budget=5"]).unwrap();
        assert_eq!(names.probe().map(|budget| budget.per_minute), Some(5));
        assert!(names.is_asked() && parsed(&["--hostname-proof=dns-txt"]).unwrap().is_asked());
    }

    #[test]
    fn a_proof_needs_to_know_which_names_are_the_providers_own() {
        let names = parsed(&["--hostname-proof=dns-txt"]).unwrap();
        for none in [None, Some(""), Some(" . ")] {
            let refused = names.rule(none).unwrap_err().to_string();
            assert!(refused.contains("--deployment-ingress-domain"), "{refused}");
        }
        let rule = names.rule(Some("ingress.example.com")).unwrap();
        assert_eq!(rule.unwrap().own_domain, "ingress.example.com");
    }

    #[test]
    fn servers_are_addresses() {
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
