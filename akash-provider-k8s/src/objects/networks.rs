//! Networks an operator names, as policies have them.

use super::Refusal;
use super::context::Context;
use crate::settings::network;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Networks by family, each once, those within another left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Networks {
    pub(super) v4: Vec<Ipv4Net>,
    pub(super) v6: Vec<Ipv6Net>,
}

impl Networks {
    /// Everything that is closed to pods.
    pub(super) fn closed(cx: &Context<'_>) -> Result<Self, Refusal> {
        let egress = &cx.settings.egress;
        let closed = read("egress.closed", &egress.closed)?;
        let infrastructure = read("egress.infrastructure", &egress.infrastructure)?;
        Ok(Self::of(closed.into_iter().chain(infrastructure)))
    }

    /// Where resolvers are, besides those that are pods.
    pub(super) fn resolvers(cx: &Context<'_>) -> Result<Vec<IpNet>, Refusal> {
        read("egress.resolvers", &cx.settings.egress.resolvers)
    }

    fn of(networks: impl Iterator<Item = IpNet>) -> Self {
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

/// The networks of one setting.
fn read(field: &str, texts: &[String]) -> Result<Vec<IpNet>, Refusal> {
    let one = |(n, text): (usize, &String)| {
        network(text).map_err(|problem| Context::bad_setting(format!("settings.{field}[{n}]"), problem))
    };
    texts.iter().enumerate().map(one).collect()
}
