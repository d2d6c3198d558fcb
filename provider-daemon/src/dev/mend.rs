//! What to say to `dev` so that an SDL it declined is served.

use crate::args::{ClusterArgs, DevArgs};
use akash_provider_core::types::{DeclineCode, GroupSpec};

/// The flags, or a hint where flags cannot do it.
#[must_use]
pub fn mend(args: &DevArgs, groups: &[GroupSpec], reason: DeclineCode) -> String {
    let flags = match reason {
        DeclineCode::Price | DeclineCode::PriceTooHigh => {
            return "lower the prices, as with --bid-price-cpu-scale 0.0001, or let the SDL pay more"
                .to_owned();
        }
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
        DeclineCode::Attributes => attributes(&args.cluster, groups),
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

fn attributes(cluster: &ClusterArgs, groups: &[GroupSpec]) -> Vec<String> {
    let has = cluster.attributes();
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
    let units = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20)];
    let unit = units
        .iter()
        .find(|(_, factor)| size >= *factor && size % factor == 0);
    unit.map_or_else(
        || size.to_string(),
        |(name, factor)| format!("{}{name}", size / factor),
    )
}
