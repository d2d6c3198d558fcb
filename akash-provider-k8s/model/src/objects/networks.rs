//! Networks in the provider's settings, converted for network policies.

use super::RenderError;
use super::context::RenderContext;
use crate::settings::network;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Networks that are closed to all leases, each with the reason.
const EXCLUDED: [(&str, &str); 10] = [
    ("100.100.100.200/32", "instance metadata of Alibaba Cloud"),
    (
        "168.63.129.16/32",
        "host services of Azure: certificates and settings of the machine",
    ),
    (
        "169.254.169.254/32",
        "instance metadata of most clouds, with credentials of the node",
    ),
    ("169.254.170.2/32", "credentials of tasks on AWS ECS"),
    ("169.254.170.23/32", "credentials of pods on AWS EKS"),
    ("192.0.0.192/32", "instance metadata of Oracle Cloud"),
    (
        "64:ff9b::/96",
        "NAT64 (RFC 6052): routes to every IPv4 address, including closed ones",
    ),
    ("64:ff9b:1::/48", "local NAT64 (RFC 8215): same as above"),
    (
        "fd00:ec2::/32",
        "instance metadata and credentials of AWS over IPv6",
    ),
    ("fd20:ce::254/128", "instance metadata of Google Cloud over IPv6"),
];

/// Networks by IP version. No network contains another network of the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Networks {
    pub(super) v4: Vec<Ipv4Net>,
    pub(super) v6: Vec<Ipv6Net>,
}

impl Networks {
    /// Returns all networks that pods must not reach.
    pub(super) fn closed(cx: &RenderContext<'_>) -> Result<Self, RenderError> {
        let egress = &cx.settings.egress;
        let closed = read("egress.closed", &egress.closed)?;
        let infrastructure = read("egress.infrastructure", &egress.infrastructure)?;
        Ok(Self::merge(
            closed.into_iter().chain(infrastructure).chain(excluded()),
        ))
    }

    /// Returns the IPv4 addresses of cloud metadata services. Even leases with the isolation level `legacy`
    /// cannot connect to these addresses.
    pub(super) fn metadata() -> Vec<Ipv4Net> {
        Self::merge(excluded()).v4
    }

    /// Returns the networks of DNS resolvers that are not pods.
    pub(super) fn resolvers(cx: &RenderContext<'_>) -> Result<Vec<IpNet>, RenderError> {
        read("egress.resolvers", &cx.settings.egress.resolvers)
    }

    fn merge(networks: impl Iterator<Item = IpNet>) -> Self {
        let mut sorted = Self::default();
        for network in networks {
            match network {
                IpNet::V4(network) => sorted.v4.push(network),
                IpNet::V6(network) => sorted.v6.push(network),
            }
        }
        sorted.v4 = Ipv4Net::aggregate(&sorted.v4);
        sorted.v6 = Ipv6Net::aggregate(&sorted.v6);
        sorted
    }
}

fn excluded() -> impl Iterator<Item = IpNet> {
    EXCLUDED.iter().filter_map(|(network, _)| network.parse().ok())
}

fn read(field: &str, texts: &[String]) -> Result<Vec<IpNet>, RenderError> {
    let one = |(n, text): (usize, &String)| {
        network(text).map_err(|problem| RenderContext::bad_setting(format!("settings.{field}[{n}]"), problem))
    };
    texts.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_excluded_network_is_valid_and_has_a_reason() {
        assert_eq!(excluded().count(), EXCLUDED.len());
        assert!(excluded().all(|network| network == network.trunc()));
        assert!(EXCLUDED.iter().all(|(_, reason)| !reason.is_empty()));
    }
}
