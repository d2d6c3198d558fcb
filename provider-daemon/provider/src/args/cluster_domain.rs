//! Domain of the cluster, and the names that it makes unavailable to tenants.

use clap::Args;

/// Returns the cluster domain from the `search` line of a pod's `resolv.conf`: `NAMESPACE.svc.DOMAIN
/// svc.DOMAIN DOMAIN`.
fn searched_domain(resolv_conf: &str) -> Option<String> {
    let lists = resolv_conf
        .lines()
        .filter_map(|line| line.trim().strip_prefix("search"));
    let mut domains = lists.flat_map(str::split_whitespace);
    let domain = domains.find_map(|domain| domain.strip_prefix("svc."))?;
    Some(domain.trim_end_matches('.').to_lowercase()).filter(|domain| !domain.is_empty())
}

/// Domain of the cluster, for `run` and the hostname operator.
#[derive(Debug, Clone, Args)]
pub struct ClusterDomainArgs {
    /// Domain of Services in the cluster, not available to tenants [default: from /etc/resolv.conf, else cluster.local]
    #[arg(long, value_name = "DOMAIN")]
    cluster_domain: Option<String>,
}

impl ClusterDomainArgs {
    /// Returns the domain from the flag, or else from the DNS search list of this pod.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        let searched = || searched_domain(&std::fs::read_to_string("/etc/resolv.conf").ok()?);
        self.cluster_domain.clone().or_else(searched)
    }
}

/// Returns block list entries for each name and its subdomains. For a name without a dot, such as
/// `localhost`, blocks only the name.
pub fn blocked_with_names_below<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let names = names.into_iter().map(|name| name.trim().trim_matches('.'));
    let entry = |name: &str| {
        let dot = if name.contains('.') { "." } else { "" };
        format!("{dot}{name}")
    };
    names.filter(|name| !name.is_empty()).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_cluster_domain_from_the_search_list() {
        for (text, domain) in [
            (
                "nameserver 10.96.0.10\nsearch lease.svc.corp.internal svc.corp.internal corp.internal lan\noptions ndots:5",
                Some("corp.internal"),
            ),
            ("search\tsvc.Corp.Internal.\n", Some("corp.internal")),
            ("search svc. example.com", None),
            ("search lan example.com\nnameserver 1.1.1.1", None),
            ("# search svc.commented.internal\n", None),
            ("", None),
        ] {
            assert_eq!(searched_domain(text).as_deref(), domain, "{text}");
        }
    }
}
