//! Lease of one service with an HTTP port and a node port.

use crate::Failed;
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::{Group, HttpOptions, Proto, Service, ServiceExpose};
use akash_provider_core::types::{
    Address, Cpu, DeploymentId, Gpu, GroupId, LeaseId, Memory, OrderId, Resources, Storage,
};
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
    let group = GroupId {
        deployment: DeploymentId { owner, dseq },
        gseq: 1,
    };
    let lease = LeaseId {
        order: OrderId { group, oseq: 1 },
        provider: settings.provider.clone(),
    };
    Ok(WorkloadSpec {
        lease,
        group: Arc::new(Group {
            name: "bench".to_owned(),
            services: vec![service()],
        }),
        params: Arc::default(),
        hostnames: Vec::new(),
        ips: Vec::new(),
        epoch: 1,
    })
}

fn service() -> Service {
    Service {
        name: "web".to_owned(),
        image: "nginx:1.27".to_owned(),
        command: None,
        args: None,
        env: Some(vec!["A=1".to_owned()]),
        resources: Resources {
            id: 1,
            cpu: Cpu {
                units: 100,
                attributes: Vec::new(),
            },
            memory: Memory {
                bytes: 64 << 20,
                attributes: Vec::new(),
            },
            storage: vec![Storage {
                name: "default".to_owned(),
                bytes: 64 << 20,
                attributes: Vec::new(),
            }],
            gpu: Gpu::default(),
            endpoints: Vec::new(),
        },
        count: 1,
        expose: [80, 9000].map(expose).to_vec(),
        params: None,
        credentials: None,
    }
}

fn expose(port: u16) -> ServiceExpose {
    ServiceExpose {
        port,
        external_port: 0,
        proto: Proto::Tcp,
        service: String::new(),
        global: true,
        hosts: None,
        http_options: HttpOptions::default(),
        ip: String::new(),
        endpoint_sequence_number: 0,
    }
}
