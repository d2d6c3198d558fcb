//! Names and ports for tenants: the public host name, the wildcard domain of services, and the gateway.

#[cfg(test)]
mod server;

use super::DoctorContext;
use super::check::{Check, listed, within};
use akash_provider_chain::Reader;
use akash_provider_core::chain::ChainQuery;
use akash_provider_service::operators::hostname::dns::Dns;
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

const LIMIT: Duration = Duration::from_secs(2);
const PUBLIC: &str = "public host name";
const WILDCARD: &str = "ingress domain";
/// Maximum number of addresses that one check lists.
const ADDRESSES_MAX: usize = 4;

/// Addresses of a name; empty if the name does not exist.
type Lookup = Result<Vec<IpAddr>, String>;

/// Checks the DNS names and ports of the provider. Without a configured host name, reads the name from the
/// chain with `reader`.
pub(super) async fn checks(
    context: &DoctorContext<'_>,
    reader: impl Future<Output = Option<Reader>>,
) -> Vec<Check> {
    let (host, port) = match context.host() {
        host if host.is_empty() => registered(context, reader).await.unwrap_or_default(),
        host => (host, context.public_port()),
    };
    let domain = context
        .args
        .leases
        .deployment_ingress_domain
        .trim()
        .to_lowercase();
    let is_required = context.args.leases.deployment_ingress_static_hosts;
    let dns = Dns::from_system(LIMIT).map_err(|error| error.to_string());
    let limit = context.remaining(LIMIT * 2);
    let (names, ports) = tokio::join!(
        names((dns.as_ref(), limit), &host, &domain, is_required),
        ports(context, &host, port)
    );
    names.into_iter().chain(ports).collect()
}

async fn registered(
    context: &DoctorContext<'_>,
    reader: impl Future<Output = Option<Reader>>,
) -> Option<(String, Option<u16>)> {
    let account = context.account.as_ref()?;
    let record = async { reader.await?.provider(account).await.ok()? };
    let record = timeout(context.remaining(LIMIT), record).await.ok()??;
    let url = Url::parse(&record.host_uri).ok()?;
    Some((url.host_str()?.to_owned(), url.port()))
}

/// DNS client, or the reason for its absence, and the maximum duration of a lookup.
type Resolver<'a> = (Result<&'a Dns, &'a String>, Duration);

/// Checks the public name and the wildcard record of the domain. `is_required` is true if HTTP services get
/// automatic hostnames below the domain.
async fn names(dns: Resolver<'_>, host: &str, domain: &str, is_required: bool) -> [Check; 2] {
    // A random name proves the wildcard record, which a fixed name would not.
    let sample = match domain {
        "" => String::new(),
        domain => format!("doctor-{:08x}.{domain}", std::process::id()),
    };
    let (public, wildcard) = tokio::join!(resolve(dns, host), resolve(dns, &sample));
    [
        judge_public(host, &public),
        judge_wildcard(domain, &wildcard, is_required),
    ]
}

async fn resolve((dns, limit): Resolver<'_>, name: &str) -> Lookup {
    if name.is_empty() {
        return Ok(Vec::new());
    }
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    let dns = dns.map_err(String::clone)?;
    within(limit, dns.addresses(name)).await
}

fn judge_public(host: &str, found: &Lookup) -> Check {
    if host.is_empty() {
        return Check::warning(
            PUBLIC,
            "unknown",
            "set --cluster-public-hostname, or register the provider with `provider-daemon tx provider create provider.yaml`",
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

/// Judges the wildcard record of `--deployment-ingress-domain`. `is_required` is true if HTTP services get
/// automatic hostnames below this domain.
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
        Ok(addresses) => match addresses.iter().find(|address| !is_public(**address)) {
            Some(address) => Check::warning(
                WILDCARD,
                format!("*.{domain} has the private address {address}, which tenants cannot reach"),
                format!("set the wildcard record *.{domain} to the public address of the ingress controller"),
            ),
            None => Check::ok(WILDCARD, format!("*.{domain} has {}", list(addresses))),
        },
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

async fn ports(context: &DoctorContext<'_>, host: &str, public_port: Option<u16>) -> Vec<Check> {
    let gateway = &context.args.gateway;
    let rest = gateway.gateway_listen_address.0.map(|address| address.port());
    let grpc = gateway
        .gateway_grpc_listen_address
        .0
        .map(|address| address.port());
    let rest = rest.map(|port| public_port.unwrap_or(port));
    let limit = context.remaining(LIMIT);
    let named = [("gateway port", rest), ("gRPC port", rest.and(grpc))];
    let named = named.into_iter().filter_map(|(name, port)| Some((name, port?)));
    let connecting = named.map(|(name, port)| async move {
        let outcome = match host {
            "" => return Check::skipped(name, "the public host name is unknown"),
            host => within(limit, TcpStream::connect((host, port))).await.map(drop),
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
    use super::server::Records;
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
            ("i.example", found(&["192.168.1.5"]), true, warning),
            ("i.example", found(&[]), true, failure),
            ("i.example", found(&[]), false, warning),
            ("i.example", unknown, true, warning),
        ] {
            let check = judge_wildcard(domain, &lookup, is_required);
            assert_eq!(check.severity(), wanted, "{domain} {lookup:?}");
        }
    }

    #[tokio::test]
    async fn names_without_records_fail_until_the_records_exist() {
        let records = Records::default();
        let (at, _server) = records.serve().await;
        let dns = Dns::new(&[at]).unwrap();
        let check = async |host: &str| {
            let checks = names((Ok(&dns), LIMIT), host, "ingress.example.com", true).await;
            checks.map(|check| (check.severity(), check.help().map(str::to_owned)))
        };
        let [public, wildcard] = check("p.example.com").await;
        let (host, domain) = (
            "create an A or AAAA record for p.example.com",
            "create the wildcard record *.ingress.example.com with the address of the ingress controller",
        );
        assert_eq!(public, (Severity::Failure, Some(host.to_owned())));
        assert_eq!(wildcard, (Severity::Failure, Some(domain.to_owned())));

        // A private address, and a record of one name instead of the wildcard.
        records.set("p.example.com.", "10.0.0.7");
        records.set("www.ingress.example.com.", "203.0.113.7");
        let [public, wildcard] = check("p.example.com").await;
        assert_eq!((public.0, wildcard.0), (Severity::Warning, Severity::Failure));
        records.set("p.example.com.", "203.0.113.7");
        records.set("*.ingress.example.com.", "203.0.113.7");
        let ok = (Severity::Ok, None);
        assert_eq!(check("p.example.com").await, [ok.clone(), ok.clone()]);
        // An address needs no record.
        assert_eq!(check("203.0.113.9").await, [ok.clone(), ok]);

        // A failing server does not prove that the name is missing.
        records.fail();
        let [public, wildcard] = check("p.example.com").await;
        assert_eq!((public.0, wildcard.0), (Severity::Warning, Severity::Warning));
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
