//! Hostnames, leased IPs and commands of a cluster in memory.

use super::{MemoryCluster, MemoryClusterState, Operation, terminal};
use crate::cluster::{
    AssignedIp, DeclaredHostname, ExecIo, ExecRequest, HostnameDeclaration, Hostnames, IpDeclaration,
    LeasedIps, Shell,
};
use crate::error::{Error, ErrorKind};
use crate::feed::lock;
use crate::inventory::LeasedIpUsage;
use crate::types::LeaseId;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const STDIN_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecResult {
    /// Content of the standard output.
    pub stdout: Vec<u8>,
    /// Content of the standard error.
    pub stderr: Vec<u8>,
    /// Exit code of the command.
    pub code: i32,
}

/// Function that runs a command with its complete input.
pub type ExecFn = Arc<dyn Fn(&LeaseId, &ExecRequest, Vec<u8>) -> ExecResult + Send + Sync>;

#[async_trait]
impl Hostnames for MemoryCluster {
    async fn declare_hostname(&self, lease: &LeaseId, name: &HostnameDeclaration) -> Result<(), Error> {
        let call = self.begin(Operation::DeclareHostname, Some(lease)).await?;
        let declaration = (lease.clone(), name.clone());
        lock(&self.state)
            .hostnames
            .insert(name.hostname.clone(), declaration);
        call.answer(())
    }

    async fn purge_declared_hostname(&self, lease: &LeaseId, hostname: &str) -> Result<(), Error> {
        let call = self.begin(Operation::PurgeHostname, Some(lease)).await?;
        {
            let mut state = lock(&self.state);
            let holder = state.hostnames.get(hostname).map(|(holder, _)| holder);
            // A late purge must not remove a name that has moved to another lease.
            if holder == Some(lease) {
                state.hostnames.remove(hostname);
            }
        }
        call.answer(())
    }

    async fn purge_declared_hostnames(&self, lease: &LeaseId) -> Result<(), Error> {
        let call = self.begin(Operation::PurgeHostname, Some(lease)).await?;
        lock(&self.state)
            .hostnames
            .retain(|_, (holder, _)| holder != lease);
        call.answer(())
    }

    async fn all_hostnames(&self) -> Result<Vec<DeclaredHostname>, Error> {
        let call = self.begin(Operation::AllHostnames, None).await?;
        let state = lock(&self.state);
        let declared = |(name, (lease, _)): (&String, &(LeaseId, _))| DeclaredHostname {
            hostname: name.clone(),
            lease: lease.clone(),
        };
        let all = state.hostnames.iter().map(declared).collect();
        // The lock is released first, because `answer` takes the same lock.
        drop(state);
        call.answer(all)
    }
}

impl MemoryClusterState {
    /// Returns the sharing keys in use. Each sharing key uses one address of the pool.
    fn sharing_keys(&self) -> BTreeSet<&str> {
        let declared = self.ips.values().flatten();
        declared.map(|ip| ip.sharing_key.as_str()).collect()
    }

    /// Returns the addresses of a lease. IPs with the same sharing key share an address.
    pub(super) fn assigned_ips(&self, lease: &LeaseId) -> BTreeMap<String, Vec<AssignedIp>> {
        let mut by_service: BTreeMap<String, Vec<AssignedIp>> = BTreeMap::new();
        for ip in self.ips.get(lease).into_iter().flatten() {
            let assigned = AssignedIp {
                ip: address_of(&ip.sharing_key),
                port: ip.port,
                external_port: ip.external_port,
                proto: ip.proto,
            };
            by_service.entry(ip.service.clone()).or_default().push(assigned);
        }
        by_service
    }

    fn declare_ip(
        &mut self,
        lease: &LeaseId,
        ip: &IpDeclaration,
        overwrite: bool,
        pool: u32,
    ) -> Result<(), Error> {
        let refuse = |kind, message| Err(Error::new(kind, Operation::DeclareIp.name(), message));
        let key = &ip.sharing_key;
        let holds = |ips: &Vec<IpDeclaration>| ips.iter().any(|i| i.sharing_key == *key);
        let mut others = self.ips.iter().filter(|(id, ips)| *id != lease && holds(ips));
        if let Some((holder, _)) = others.find(|(id, _)| !overwrite || id.owner() != lease.owner()) {
            let message = format!("address `{key}` is held by lease {holder}");
            return refuse(ErrorKind::Conflict, message);
        }
        let keys = self.sharing_keys();
        // A key in use takes no further address.
        if !keys.contains(key.as_str()) && keys.len() >= usize::try_from(pool).unwrap_or(usize::MAX) {
            return refuse(ErrorKind::Unavailable, format!("all {pool} addresses are in use"));
        }
        // The key moves, because one lease at a time can hold a key.
        self.ips.retain(|id, ips| {
            if id != lease {
                ips.retain(|i| i.sharing_key != *key);
            }
            !ips.is_empty()
        });
        let of_lease = self.ips.entry(lease.clone()).or_default();
        if !of_lease.contains(ip) {
            of_lease.push(ip.clone());
        }
        Ok(())
    }
}

/// Returns an address in 198.18.0.0/16 that depends only on the sharing key.
fn address_of(sharing_key: &str) -> IpAddr {
    let digest = sharing_key.bytes().fold(0_u32, |digest, byte| {
        digest.wrapping_mul(31).wrapping_add(byte.into())
    });
    let [_, _, high, low] = digest.to_be_bytes();
    IpAddr::from([198, 18, high, low])
}

#[async_trait]
impl LeasedIps for MemoryCluster {
    async fn declare_ip(&self, lease: &LeaseId, ip: &IpDeclaration, overwrite: bool) -> Result<(), Error> {
        let call = self.begin(Operation::DeclareIp, Some(lease)).await?;
        let pool = self.facets.leased_ips.unwrap_or(0);
        lock(&self.state).declare_ip(lease, ip, overwrite, pool)?;
        call.answer(())
    }

    async fn purge_declared_ip(&self, lease: &LeaseId, ip: &IpDeclaration) -> Result<(), Error> {
        let call = self.begin(Operation::PurgeIp, Some(lease)).await?;
        lock(&self.state).ips.retain(|id, ips| {
            if id == lease {
                ips.retain(|i| i != ip);
            }
            !ips.is_empty()
        });
        call.answer(())
    }

    async fn purge_declared_ips(&self, lease: &LeaseId) -> Result<(), Error> {
        let call = self.begin(Operation::PurgeIp, Some(lease)).await?;
        lock(&self.state).ips.remove(lease);
        call.answer(())
    }

    async fn declared_ips(&self, lease: &LeaseId) -> Result<Vec<IpDeclaration>, Error> {
        let call = self.begin(Operation::Ips, Some(lease)).await?;
        let declared = lock(&self.state).ips.get(lease).cloned();
        call.answer(declared.unwrap_or_default())
    }

    async fn usage(&self) -> Result<LeasedIpUsage, Error> {
        let call = self.begin(Operation::Ips, None).await?;
        let state = lock(&self.state);
        let usage = LeasedIpUsage {
            total: self.facets.leased_ips.unwrap_or(0),
            in_use: u32::try_from(state.sharing_keys().len()).unwrap_or(u32::MAX),
            confirmed: state.ips.keys().cloned().collect(),
        };
        // The lock is released first, because `answer` takes the same lock.
        drop(state);
        call.answer(usage)
    }
}

impl MemoryCluster {
    /// Returns the `exec` function and the banner, each `None` if not set. Fails if the service or the
    /// replica does not run.
    fn find_exec(
        &self,
        lease: &LeaseId,
        request: &ExecRequest,
    ) -> Result<(Option<ExecFn>, Option<String>), Error> {
        let state = lock(&self.state);
        let missing = |message| Error::new(ErrorKind::NotFound, Operation::Exec.name(), message);
        let running = state.workloads.get(lease).and_then(|w| w.running.as_ref());
        let running = running.ok_or_else(|| missing(format!("lease {lease} does not run")))?;
        let service = running.group.services.iter().find(|s| s.name == request.service);
        let service =
            service.ok_or_else(|| missing(format!("lease {lease} has no service `{}`", request.service)))?;
        if request.replica >= service.count {
            let (name, count, replica) = (&service.name, service.count, request.replica);
            return Err(missing(format!(
                "service `{name}` has {count} replicas; there is no replica {replica}"
            )));
        }
        Ok((state.exec.clone(), state.banner.clone()))
    }
}

#[async_trait]
impl Shell for MemoryCluster {
    async fn exec(&self, lease: &LeaseId, request: ExecRequest, io: ExecIo) -> Result<i32, Error> {
        let call = self.begin(Operation::Exec, Some(lease)).await?;
        let (exec, banner) = self.find_exec(lease, &request)?;
        let broken = |e: std::io::Error| {
            Error::new(ErrorKind::Unavailable, Operation::Exec.name(), "a stream broke").with_source(e)
        };
        if let (None, Some(banner), true) = (&exec, &banner, request.tty) {
            let code = terminal::serve(banner, io).await.map_err(broken)?;
            return call.answer(code);
        }
        let mut input = Vec::new();
        if let Some(stdin) = io.stdin {
            // Bounded, so that endless input does not fill the memory.
            stdin
                .take(STDIN_BYTES_MAX)
                .read_to_end(&mut input)
                .await
                .map_err(broken)?;
        }
        let result = match exec {
            Some(exec) => exec(lease, &request, input),
            None => copied(banner.as_deref(), input),
        };
        for (mut stream, bytes) in [(io.stdout, result.stdout), (io.stderr, result.stderr)] {
            stream.write_all(&bytes).await.map_err(broken)?;
            stream.flush().await.map_err(broken)?;
        }
        call.answer(result.code)
    }
}

/// Runs a command without a terminal: copies the input to stdout and writes the banner to stderr.
fn copied(banner: Option<&str>, input: Vec<u8>) -> ExecResult {
    ExecResult {
        stdout: input,
        stderr: banner
            .map(|text| format!("{text}\n").into_bytes())
            .unwrap_or_default(),
        code: 0,
    }
}
