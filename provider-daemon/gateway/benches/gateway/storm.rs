//! Response times of a tenant's requests while thousands of clients with unknown certificates connect.

use super::daemon::Daemon;
use super::figure;
use super::load::{PersistentConnection, authorization, connect, lease_path, request, tls};
use super::requests::percentile;
use akash_provider_chain::cert::{CertUsage, OwnCertificate};
use akash_provider_chain::private_key::PrivateKey;
use anyhow::{Context, ensure};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;

const STRANGERS: u16 = if cfg!(debug_assertions) { 100 } else { 2_000 };
/// Number of clients that connect concurrently.
const TOGETHER: usize = 50;

/// Measures the response times of a tenant while many clients with unknown certificates connect.
pub(crate) fn strangers() -> anyhow::Result<()> {
    let daemon = Daemon::start()?;
    let address = daemon.address;
    let configs = (0..STRANGERS).map(stranger).collect::<Result<Vec<_>, _>>()?;
    let over = Arc::new(AtomicBool::new(false));
    let begun = Arc::clone(&over);
    let tenant = std::thread::spawn(move || runtime()?.block_on(tenant(address, &begun)));
    let began = Instant::now();
    let outcome = runtime()?.block_on(storm(address, configs));
    let seconds = began.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    let tenant = tenant
        .join()
        .map_err(|_| anyhow::anyhow!("a thread of the benchmark panicked"))?;
    outcome?;
    let mut took = tenant?;
    figure("storm_p99_ms", f64::from(percentile(&mut took, 99)) / 1e3, "ms");
    figure("storm_handshakes_per_s", f64::from(STRANGERS) / seconds, "1/s");
    Ok(())
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

/// Returns the TLS configuration of a client with a new, unknown certificate.
fn stranger(number: u16) -> anyhow::Result<Arc<ClientConfig>> {
    let mut secret = [9; 32];
    secret[..2].copy_from_slice(&number.to_be_bytes());
    let account = PrivateKey::from_bytes(&secret)?;
    let made = SystemTime::now().duration_since(UNIX_EPOCH)? - Duration::from_secs(60);
    let own = OwnCertificate::make(account.address(), &CertUsage::Client, made)?;
    let private = PrivatePkcs8KeyDer::from(own.private_key_der()?.to_vec());
    let key = ring::default_provider()
        .key_provider
        .load_private_key(PrivateKeyDer::from(private))?;
    let chain = vec![CertificateDer::from(own.der().to_vec())];
    tls(Some(rustls::sign::CertifiedKey::new(chain, key)))
}

/// Sends requests of the tenant until `over` is set. Returns the response times in microseconds.
async fn tenant(address: SocketAddr, over: &AtomicBool) -> anyhow::Result<Vec<u32>> {
    let mut connection = PersistentConnection::new(connect(address, &tls(None)?).await?);
    let request = request(&lease_path("status"), &authorization(1)?);
    let mut took = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let at = Instant::now();
        let (status, _) = connection.ask(&request).await?;
        ensure!(status == 200, "status {status}");
        took.push(u32::try_from(at.elapsed().as_micros())?);
        // The tenant alone must not be a load.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(took)
}

/// Connects all clients. Asserts that each request is refused or gets no response.
async fn storm(address: SocketAddr, configs: Vec<Arc<ClientConfig>>) -> anyhow::Result<()> {
    let mut coming = JoinSet::new();
    let mut refused = 0_u32;
    let mut count = |response: Option<u16>| {
        let is_no = response.is_none_or(|status| [401, 429].contains(&status));
        ensure!(is_no, "an unknown client got status {response:?}");
        refused += 1;
        Ok(())
    };
    for config in configs {
        if coming.len() >= TOGETHER {
            count(coming.join_next().await.context("a client")??)?;
        }
        coming.spawn(async move {
            let mut connection = PersistentConnection::new(connect(address, &config).await.ok()?);
            let asked = connection.ask(&request(&lease_path("status"), "")).await;
            asked.ok().map(|(status, _)| status)
        });
    }
    while let Some(came) = coming.join_next().await {
        count(came?)?;
    }
    ensure!(refused == u32::from(STRANGERS), "{refused} came");
    Ok(())
}
