//! Deployments from SDL texts.

use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::Service;
use akash_provider_core::manifest::hosts::{hostnames_wanted, ips_wanted};
use akash_provider_core::sdl;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_model::settings::KubeSettings;
use std::sync::Arc;

pub(crate) fn lease() -> LeaseId {
    let text = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh/3944427/1/1/\
                akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
    text.parse().unwrap()
}

/// Settings with a public hostname and a chain id.
pub(crate) fn settings() -> KubeSettings {
    let mut settings = KubeSettings::new(lease().provider);
    settings.chain_id = "chain-1".to_owned();
    settings.public_hostname = "provider.example.com".to_owned();
    settings
}

/// Returns the first group of an SDL as the workload of [`lease`].
pub(crate) fn deployment(text: &str) -> WorkloadSpec {
    let parsed = sdl::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let group = parsed.manifest.groups.into_iter().next().unwrap();
    let lease = lease();
    WorkloadSpec {
        hostnames: hostnames_wanted(&group, &lease, Some("example.net")),
        ips: ips_wanted(&group, &lease),
        params: Arc::new(group.services.iter().map(|s| (s.resources.id, None)).collect()),
        group: Arc::new(group),
        lease,
        epoch: 7,
    }
}

/// One service `web` on port 80, changed by `change`.
pub(crate) fn web(change: impl FnOnce(&mut Service)) -> WorkloadSpec {
    let text = "
version: '2.0'
services: {web: {image: nginx:1, expose: [{port: 80, to: [{global: true}]}]}}
profiles:
  compute: {web: {resources: {cpu: {units: 0.5}, memory: {size: 64Mi}, storage: {size: 1Gi}}}}
  placement: {any: {pricing: {web: {denom: uakt, amount: 5}}}}
deployment: {web: {any: {profile: web, count: 1}}}
";
    let mut deployment = deployment(text);
    let group = Arc::make_mut(&mut deployment.group);
    change(group.services.first_mut().unwrap());
    deployment
}
