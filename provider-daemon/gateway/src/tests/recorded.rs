//! Exchanges recorded from the Go provider, replayed against the gateway: the same request gets the same response,
//! except for the differences that `docs/parity.md` lists.

mod rest;
mod sockets;

use super::world::World;
use akash_provider_core::bidding;
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_core::types::{Address, LeaseId};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use testbed::recordings;

const TENANT: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
/// Sequence number (dseq) and SDL name of each recorded deployment.
const DEPLOYMENTS: [(u64, &str); 6] = [
    (2194, "web"),
    (2896, "ports"),
    (3197, "gpu"),
    (3298, "storage"),
    (2900, "tiny"),
    (2899, "gpu-plain"),
];
/// Deployments with a manifest that was sent during an outage.
const LATE: [(u64, &str); 2] = [(3_846_000, "tiny"), (4_020_000, "tiny")];

struct Stage {
    world: World,
    tenant: Address,
    sdls: BTreeMap<String, Sdl>,
    leases: BTreeMap<u64, LeaseId>,
}

impl Stage {
    async fn set(folder: &Path) -> Self {
        let mut names: Vec<&str> = DEPLOYMENTS.iter().map(|(_, name)| *name).collect();
        names.push("web-updated");
        let read = |name: &str| {
            let path = folder.join(format!("sdl/{name}.yaml"));
            sdl::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
        };
        let sdls: BTreeMap<String, Sdl> = names.iter().map(|n| ((*n).to_owned(), read(n))).collect();
        let groups: Vec<_> = sdls.values().flat_map(|s| s.groups.clone()).collect();
        let (attributes, _) = bidding::accepting_profile(&groups, "nobody");
        let world = World::with_attributes(attributes, |_| {}).await;
        let tenant: Address = TENANT.parse().unwrap();
        let accounts = folder.join("../chain/grpc/active-lease/auth-Account-tenant.json");
        let account = recordings::json(&accounts);
        let key = account["response_json_raw"]["account"]["pub_key"]["key"].as_str();
        let key = data_encoding::BASE64.decode(key.unwrap().as_bytes()).unwrap();
        world.register(&tenant, &key);
        let mut stage = Self {
            world,
            tenant,
            sdls,
            leases: BTreeMap::new(),
        };
        for (dseq, name) in DEPLOYMENTS {
            let lease = stage.lease(dseq, name).await;
            let sdl = &stage.sdls[name];
            let manifest = Arc::new(sdl.manifest.clone());
            let handle = &stage.world.handle;
            handle
                .submit_manifest(lease.deployment(), manifest, sdl.hash)
                .await
                .unwrap();
            stage.world.runs(&lease).await;
        }
        for (dseq, name) in LATE {
            stage.lease(dseq, name).await;
        }
        stage
    }

    async fn lease(&mut self, dseq: u64, name: &str) -> LeaseId {
        let lease = self.world.lease(&self.tenant, dseq, &self.sdls[name]).await;
        self.leases.insert(dseq, lease.clone());
        lease
    }

    fn turn_back_clock(&self, recording: &Value) {
        // An expired or future token does not contain the time of the recording; all were made within minutes.
        let name = recording["name"].as_str().unwrap_or_default();
        let issued = recording["jwt"]["claims"]["iat"].as_u64();
        let odd = name.contains("expired") || name.contains("future");
        self.world
            .set_time(issued.filter(|_| !odd).map_or(super::world::NOW, |i| i + 1));
    }
}

fn exchanges(folder: &Path, kind: &str) -> Vec<(String, Value)> {
    let entries = std::fs::read_dir(folder.join(kind)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
    paths.sort();
    let name = |p: &PathBuf| p.file_stem().unwrap().to_string_lossy().into_owned();
    paths.iter().map(|p| (name(p), recordings::json(p))).collect()
}
