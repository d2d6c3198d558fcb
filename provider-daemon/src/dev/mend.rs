//! What to say to `dev` so that an SDL it declined is served.

use crate::args::{ClusterArgs, DevArgs, PricingArgs, Strategy};
use akash_provider_core::types::{DeclineCode, GroupSpec, quantity};
use std::path::PathBuf;

/// The flags, or a hint where flags cannot do it.
#[must_use]
pub fn mend(args: &DevArgs, groups: &[GroupSpec], reason: DeclineCode) -> String {
    let flags = match reason {
        DeclineCode::Price => return no_price(&args.pricing),
        DeclineCode::PriceTooHigh => return too_expensive(&args.pricing),
        DeclineCode::NoHostnames => {
            return "processes have ports and no hostnames: expose another port than 80, as with `as: 8080`"
                .to_owned();
        }
        DeclineCode::NoLeasedIps if args.processes => {
            return "processes have no addresses of their own: leave `ip:` out".to_owned();
        }
        DeclineCode::PriceDenom => return "price the SDL in uact".to_owned(),
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
    // A real cluster has the nodes it has.
    if flags.is_empty() || args.kubernetes.kubeconfig.is_some() {
        return "--accept-any gives the provider whatever the SDLs ask for".to_owned();
    }
    format!("{}, or --accept-any", flags.join(" "))
}

/// Advice for a strategy that calculated no price, or a price that is not above zero.
fn no_price(pricing: &PricingArgs) -> String {
    let path = |path: &Option<PathBuf>| {
        let path = path.as_ref().map(|path| path.display().to_string());
        path.unwrap_or_default()
    };
    match pricing.bid_price_strategy {
        Strategy::ShellScript => format!(
            "fix the price script {}: it must exit with 0 and print one number above zero",
            path(&pricing.bid_price_script_path)
        ),
        Strategy::Policy => format!("run `price check {}`", path(&pricing.bid_price_policy)),
        Strategy::Scale | Strategy::RandomRange => {
            "set prices above zero, as with --bid-price-cpu-scale 0.0001".to_owned()
        }
    }
}

/// Advice for a price above the maximum of the SDL.
fn too_expensive(pricing: &PricingArgs) -> String {
    let lower = match pricing.bid_price_strategy {
        Strategy::ShellScript => "lower the prices of the price script",
        Strategy::Policy => "lower the prices of the policy file",
        Strategy::Scale | Strategy::RandomRange => "lower the prices, as with --bid-price-cpu-scale 0.0001",
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

/// What a cluster that has room for these groups has more of.
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
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn advice(flags: &[&str], reason: DeclineCode) -> String {
        let words = ["provider-daemon", "dev", "web.yaml"].iter().chain(flags);
        let Command::Dev(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("not `dev`");
        };
        mend(&args, &[], reason)
    }

    #[test]
    fn advice_on_prices_names_what_makes_them() {
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
            (&[], DeclineCode::Price, "set prices above zero"),
            (
                &[],
                DeclineCode::PriceTooHigh,
                "lower the prices, as with --bid-price-cpu-scale",
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
