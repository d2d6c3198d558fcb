//! Lease of one service with an HTTP port and a node port.

use crate::Failed;
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::{Group, Service, ServiceExpose};
use akash_provider_core::types::{Address, Cpu, DeploymentId, Gpu, Memory, Resources, Storage};
use akash_provider_k8s::settings::KubeSettings;
use std::sync::Arc;

/// Returns the settings of a provider; `number` selects the address of its account.
pub(crate) fn settings(number: u8) -> Result<KubeSettings, Failed> {
    let mut settings = KubeSettings::new(Address::from_bytes(&[number; 20])?);
    settings.chain_id = "bench".to_owned();
    settings.public_hostname = "provider.localhost".to_owned();
    Ok(settings)
}

/// Returns a deployment of one service with an HTTP port and a node port.
pub(crate) fn deployment(settings: &KubeSettings, dseq: u64) -> Result<WorkloadSpec, Failed> {
    let owner = Address::from_bytes(&[200; 20])?;
    let lease = DeploymentId::new(owner, dseq)
        .group(1)
        .order(1)
        .bid(settings.provider.clone());
    Ok(WorkloadSpec {
        epoch: 1,
        ..WorkloadSpec::new(lease, Arc::new(Group::new("bench", vec![service()])))
    })
}

fn service() -> Service {
    Service {
        env: Some(vec!["A=1".to_owned()]),
        expose: [80, 9000].map(expose).to_vec(),
        ..Service::new(
            "web",
            "nginx:1.27",
            Resources {
                id: 1,
                cpu: Cpu::new(100, Vec::new()),
                memory: Memory::new(64 << 20, Vec::new()),
                storage: vec![Storage::new("default", 64 << 20, Vec::new())],
                gpu: Gpu::default(),
                endpoints: Vec::new(),
            },
        )
    }
}

fn expose(port: u16) -> ServiceExpose {
    ServiceExpose {
        global: true,
        ..ServiceExpose::new(port)
    }
}
