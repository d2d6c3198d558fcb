//! Remedies for SDLs that `dev` declined.

use crate::args::DevArgs;
use akash_provider_core::types::{DeclineCode, GroupSpec, quantity};
use akash_provider_service::args::{ClusterArgs, PricingArgs, Strategy};
use std::path::PathBuf;

/// Returns the flags of `dev` with which the provider would bid, or another remedy.
#[must_use]
pub(crate) fn remedy(args: &DevArgs, groups: &[GroupSpec], reason: DeclineCode) -> String {
    let flags = match reason {
        DeclineCode::Price => return no_price(&args.pricing),
        DeclineCode::PriceTooHigh => return too_expensive(&args.pricing),
        DeclineCode::NoHostnames => {
            return "processes have no hostnames: expose a port other than 80, such as `as: 8080`".to_owned();
        }
        DeclineCode::NoLeasedIps if args.processes => {
            return "processes have no IP addresses: remove `ip:`".to_owned();
        }
        DeclineCode::Unsupported => return "remove the feature from the SDL".to_owned(),
        DeclineCode::PriceDenom => return "use prices in uact".to_owned(),
        DeclineCode::ExternalPortsExhausted => vec![format!(
            "--cluster-node-port-quantity {}",
            args.cluster.cluster_node_port_quantity.saturating_mul(2)
        )],
        DeclineCode::Attributes => attributes(args, groups),
        DeclineCode::Gpu
        | DeclineCode::Storage
        | DeclineCode::InsufficientCapacity
        | DeclineCode::LeasedIpsExhausted
        | DeclineCode::NoLeasedIps => hardware(&args.cluster, groups),
        _ => Vec::new(),
    };
    // The nodes of a Kubernetes cluster cannot be changed by flags.
    if flags.is_empty() || args.kubernetes.kubeconfig.is_some() {
        return "--accept-any gives the provider everything that the SDLs require".to_owned();
    }
    format!("{}, or --accept-any", flags.join(" "))
}

fn no_price(pricing: &PricingArgs) -> String {
    let path = |path: &Option<PathBuf>| {
        let path = path.as_ref().map(|path| path.display().to_string());
        path.unwrap_or_default()
    };
    match pricing.bid_price_strategy {
        Strategy::ShellScript => format!(
            "fix the price script {}: it must exit with 0 and print one number greater than zero",
            path(&pricing.bid_price_script_path)
        ),
        Strategy::Policy => format!("run `price check {}`", path(&pricing.bid_price_policy)),
        Strategy::Scale | Strategy::RandomRange => {
            "set prices greater than zero, such as --bid-price-cpu-scale 0.0001".to_owned()
        }
    }
}

fn too_expensive(pricing: &PricingArgs) -> String {
    let lower = match pricing.bid_price_strategy {
        Strategy::ShellScript => "lower the prices of the price script",
        Strategy::Policy => "lower the prices of the policy file",
        Strategy::Scale | Strategy::RandomRange => "lower the prices, such as --bid-price-cpu-scale 0.0001",
    };
    format!("{lower}, or raise the price in the SDL")
}

fn attributes(args: &DevArgs, groups: &[GroupSpec]) -> Vec<String> {
    let has = args.cluster.attributes(&args.attribute);
    let wanted = groups.iter().flat_map(|group| &group.requirements.attributes);
    let missing = wanted.filter(|attribute| !has.contains(attribute));
    missing
        .map(|attribute| format!("--attribute {}={}", attribute.key, attribute.value))
        .collect()
}

/// Returns the flags that enlarge the cluster until these groups fit.
fn hardware(cluster: &ClusterArgs, groups: &[GroupSpec]) -> Vec<String> {
    let mut grown = cluster.clone();
    grown.grow_for(groups);
    let mut flags = Vec::new();
    let mut add = |is_more: bool, flag: &str, value: String| {
        if is_more {
            flags.push(format!("{flag} {value}"));
        }
    };
    add(grown.nodes > cluster.nodes, "--nodes", grown.nodes.to_string());
    add(
        grown.node_cpu > cluster.node_cpu,
        "--node-cpu",
        cores(grown.node_cpu),
    );
    let memory = grown.node_memory;
    add(memory > cluster.node_memory, "--node-memory", bytes(memory));
    let storage = grown.node_storage;
    add(storage > cluster.node_storage, "--node-storage", bytes(storage));
    let ips = grown.leased_ips;
    add(ips > cluster.leased_ips, "--leased-ips", ips.to_string());
    for gpu in grown
        .node_gpus
        .iter()
        .filter(|gpu| !cluster.node_gpus.contains(gpu))
    {
        let parts = [&gpu.vendor, &gpu.model, &gpu.memory_size, &gpu.interface];
        let name: Vec<&str> = parts.iter().map(|part| part.as_str()).collect();
        let name = name.join("/");
        add(
            true,
            "--node-gpus",
            format!("{}={}", name.trim_end_matches('/'), gpu.count),
        );
    }
    for (class, size) in grown
        .storage_class
        .iter()
        .filter(|have| !cluster.storage_class.contains(have))
    {
        add(true, "--storage-class", format!("{class}={}", bytes(*size)));
    }
    flags
}

fn cores(thousandths: i64) -> String {
    match thousandths % 1000 {
        0 => (thousandths / 1000).to_string(),
        _ => format!("{thousandths}m"),
    }
}

fn bytes(size: i64) -> String {
    quantity::bytes(u128::try_from(size).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct DevLine {
        #[command(flatten)]
        args: DevArgs,
    }

    fn advice(flags: &[&str], reason: DeclineCode) -> String {
        let words = ["dev", "web.yaml"].iter().chain(flags);
        let DevLine { args } = DevLine::try_parse_from(words).unwrap();
        remedy(&args, &[], reason)
    }

    #[test]
    fn names_the_source_of_prices_in_remedies() {
        let script = [
            "--bid-price-strategy=shellScript",
            "--bid-price-script-path=/opt/price.sh",
        ];
        let policy = ["--bid-price-strategy=policy", "--bid-price-policy=prices.yaml"];
        for (flags, reason, expected) in [
            (
                &script[..],
                DeclineCode::Price,
                "fix the price script /opt/price.sh",
            ),
            (
                &script,
                DeclineCode::PriceTooHigh,
                "lower the prices of the price script",
            ),
            (&policy, DeclineCode::Price, "run `price check prices.yaml`"),
            (
                &policy,
                DeclineCode::PriceTooHigh,
                "lower the prices of the policy file",
            ),
            (&[], DeclineCode::Price, "set prices greater than zero"),
            (
                &[],
                DeclineCode::PriceTooHigh,
                "lower the prices, such as --bid-price-cpu-scale",
            ),
        ] {
            let advice = advice(flags, reason);
            assert!(advice.starts_with(expected), "{advice}");
            assert_eq!(
                advice.contains("--bid-price-cpu-scale"),
                flags.is_empty(),
                "{advice}"
            );
        }
    }
}
