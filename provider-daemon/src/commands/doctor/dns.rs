//! Names and ports for tenants: the public host name, the wildcard domain of services, and the gateway.

use super::Context;
use super::check::{Check, listed, within};
use crate::operators::hostname::dns::Dns;
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(2);
const PUBLIC: &str = "public host name";
const WILDCARD: &str = "ingress domain";
/// Maximum number of addresses in one line.
const ADDRESSES_MAX: usize = 4;

/// Addresses of a name; empty if the name does not exist.
type Lookup = Result<Vec<IpAddr>, String>;

/// Checks names and ports.
pub(super) async fn checks(context: &Context<'_>) -> Vec<Check> {
    let host = context.host();
    let domain = context
        .args
        .leases
        .deployment_ingress_domain
        .trim()
        .to_lowercase();
    // A random name proves the wildcard record, which a fixed name would not.
    let sample = format!("doctor-{:08x}.{domain}", std::process::id());
    let (public, wildcard, ports) = tokio::join!(
        resolve(&host),
        resolve(if domain.is_empty() { "" } else { &sample }),
        ports(context, &host)
    );
    let is_required = context.args.leases.deployment_ingress_static_hosts;
    let mut checks = vec![
        judge_public(&host, &public),
        judge_wildcard(&domain, &wildcard, is_required),
    ];
    checks.extend(ports);
    checks
}

async fn resolve(name: &str) -> Lookup {
    if name.is_empty() {
        return Ok(Vec::new());
    }
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    let dns = Dns::from_system(LIMIT).map_err(|error| error.to_string())?;
    within(LIMIT * 2, dns.addresses(name)).await
}

fn judge_public(host: &str, found: &Lookup) -> Check {
    if host.is_empty() {
        return Check::warning(
            PUBLIC,
            "unknown",
            "set --cluster-public-hostname, or `host` in the provider.yaml",
        );
    }
    match found {
        Err(why) => Check::warning(
            PUBLIC,
            format!("cannot look up {host}: {why}"),
            "check the resolvers in /etc/resolv.conf",
        ),
        Ok(addresses) if addresses.is_empty() => Check::failure(
            PUBLIC,
            format!("{host} has no address"),
            format!("create an A or AAAA record for {host}"),
        ),
        Ok(addresses) => match addresses.iter().find(|address| !is_public(**address)) {
            Some(address) => Check::warning(
                PUBLIC,
                format!("{host} has the private address {address}, which tenants cannot reach"),
                format!("set the A or AAAA record of {host} to the public address of the provider"),
            ),
            None => Check::ok(PUBLIC, format!("{host} has {}", list(addresses))),
        },
    }
}

/// Judges the wildcard record of `--deployment-ingress-domain`. `is_required` is true if each HTTP service gets an
/// automatic hostname below this domain.
fn judge_wildcard(domain: &str, found: &Lookup, is_required: bool) -> Check {
    if domain.is_empty() {
        return Check::skipped(WILDCARD, "--deployment-ingress-domain is not set");
    }
    match found {
        Err(why) => Check::warning(
            WILDCARD,
            format!("cannot look up a name below {domain}: {why}"),
            "check the resolvers in /etc/resolv.conf",
        ),
        Ok(addresses) if addresses.is_empty() => Check::problem(
            !is_required,
            WILDCARD,
            format!("*.{domain} has no address"),
            format!("create the wildcard record *.{domain} with the address of the ingress controller"),
        ),
        Ok(addresses) => Check::ok(WILDCARD, format!("*.{domain} has {}", list(addresses))),
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !(address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_unspecified())
        }
        IpAddr::V6(address) => {
            !(address.is_unique_local()
                || address.is_loopback()
                || address.is_unicast_link_local()
                || address.is_unspecified())
        }
    }
}

fn list(addresses: &[IpAddr]) -> String {
    listed(addresses.iter().map(ToString::to_string), ADDRESSES_MAX)
}

/// Connects to both ports of the gateway under the public name.
async fn ports(context: &Context<'_>, host: &str) -> Vec<Check> {
    let gateway = &context.args.gateway;
    let rest = gateway.gateway_listen_address.0.map(|address| address.port());
    let grpc = gateway
        .gateway_grpc_listen_address
        .0
        .map(|address| address.port());
    let rest = rest.map(|port| context.public_port().unwrap_or(port));
    let named = [("gateway port", rest), ("gRPC port", rest.and(grpc))];
    let named = named.into_iter().filter_map(|(name, port)| Some((name, port?)));
    let connecting = named.map(|(name, port)| async move {
        let outcome = match host {
            "" => return Check::skipped(name, "the public host name is unknown"),
            host => within(LIMIT, TcpStream::connect((host, port))).await.map(drop),
        };
        judge_port(name, &format!("{host}:{port}"), &outcome, context.is_running())
    });
    futures::future::join_all(connecting).await
}

fn judge_port(name: &str, place: &str, outcome: &Result<(), String>, is_running: bool) -> Check {
    match outcome {
        Ok(()) => Check::ok(name, format!("{place} accepts connections")),
        Err(_) if !is_running => Check::skipped(name, "no provider runs with this home directory"),
        Err(why) => Check::warning(
            name,
            format!("cannot connect to {place}: {why}"),
            "check the firewall and the port forwarding from outside; some routers do not forward connections from inside",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;

    #[test]
    fn names_are_resolved_to_public_addresses() {
        let found =
            |texts: &[&str]| -> Lookup { Ok(texts.iter().map(|text| text.parse().unwrap()).collect()) };
        let [ok, skipped, warning, failure] = [
            Severity::Ok,
            Severity::Skipped,
            Severity::Warning,
            Severity::Failure,
        ];
        let unknown = Err("no response".to_owned());
        for (host, lookup, wanted) in [
            ("", found(&[]), warning),
            ("p.example", found(&["203.0.113.5", "2001:db8::1"]), ok),
            ("p.example", found(&["203.0.113.5", "10.0.0.1"]), warning),
            ("p.example", found(&["fd00::1"]), warning),
            ("p.example", found(&[]), failure),
            ("p.example", unknown.clone(), warning),
        ] {
            assert_eq!(
                judge_public(host, &lookup).severity(),
                wanted,
                "{host} {lookup:?}"
            );
        }
        for (domain, lookup, is_required, wanted) in [
            ("", found(&[]), true, skipped),
            ("i.example", found(&["203.0.113.5"]), true, ok),
            ("i.example", found(&[]), true, failure),
            ("i.example", found(&[]), false, warning),
            ("i.example", unknown, true, warning),
        ] {
            let check = judge_wildcard(domain, &lookup, is_required);
            assert_eq!(check.severity(), wanted, "{domain} {lookup:?}");
        }
    }

    #[test]
    fn closed_port_is_a_warning_only_while_the_provider_runs() {
        let closed = Err("refused".to_owned());
        for (outcome, is_running, wanted) in [
            (Ok(()), false, Severity::Ok),
            (closed.clone(), false, Severity::Skipped),
            (closed, true, Severity::Warning),
        ] {
            assert_eq!(judge_port("port", "h:1", &outcome, is_running).severity(), wanted);
        }
    }
}
