//! The gateway of a provider on a chain: it begins as soon as there is a certificate, and shows a new one as soon as
//! there is one.

use super::awaited::Desk;
use super::writers::Writers;
use crate::args::RunArgs;
use crate::dev::Printer;
use crate::operators::serve;
use crate::supervise::{Part, Supervisor};
use akash_provider_chain::AkashClient;
use akash_provider_chain::cert::{KeyFile, KeyFiles, OwnCertificate, Usage};
use akash_provider_chain::cert::{Rotation, RotationSettings};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::cluster::Cluster;
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::types::Address;
use akash_provider_gateway::Screening;
use akash_provider_gateway::auth::memory::Memory;
use akash_provider_gateway::tls::Tls;
use akash_provider_gateway::{CertificateFiles, Gateway, LeadershipSource, Ports, Settings};
use axum::Router;
use axum::extract::Request;
use futures::FutureExt;
use http::StatusCode;
use serde_json::json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Time between two looks for a certificate, or for another one.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What it is started with.
#[derive(Debug)]
pub(super) struct Plan {
    settings: Settings,
    /// Port of probes.
    health: Option<SocketAddr>,
    home: PathBuf,
    account: Address,
    key: Arc<PrivateKey>,
    /// Names of a certificate that is to be kept valid; empty when somebody else does.
    domains: Vec<String>,
}

/// What the gateway serves from; only its certificate is still missing at the start.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) handle: ProviderHandle,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) chain: AkashClient,
    pub(super) memory: Arc<dyn Memory>,
    pub(super) writers: Writers,
}

impl Plan {
    /// `None` where none is wanted.
    pub(super) fn of(
        args: &RunArgs,
        home: &Path,
        key: PrivateKey,
        screening: Screening,
        leadership: Option<LeadershipSource>,
    ) -> Option<Self> {
        let account = screening.config.provider.clone();
        let mut settings = Settings::at(args.gateway.gateway_listen_address.0?);
        settings.grpc_listen = args.gateway.gateway_grpc_listen_address.0;
        settings.reclamation_window = screening.config.reclamation_window;
        settings.screening = Some(screening);
        settings.notes = args.left_to_others();
        settings.leadership = leadership;
        settings.program = crate::program();
        settings.limits = args.gateway.limits.limits();
        settings.token_lifetime_max = args.gateway.gateway_token_lifetime_max;
        settings.public_hostname = args.kubernetes.cluster_public_hostname.clone();
        let files = args
            .gateway
            .gateway_tls_cert
            .clone()
            .zip(args.gateway.gateway_tls_key.clone());
        settings.public_certificate = files.map(|(certificate, key)| CertificateFiles { certificate, key });
        let names = args.gateway.certificate_domain.iter().map(|name| name.trim());
        Some(Self {
            settings,
            health: args.gateway.gateway_health_listen_address.0,
            home: home.to_owned(),
            account,
            key: Arc::new(key),
            domains: names.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        })
    }

    /// The certificate in the home folder; opening it takes a good part of a second.
    async fn certificate(&self) -> Result<OwnCertificate, String> {
        let (home, key) = (self.home.clone(), Arc::clone(&self.key));
        let reading = move || {
            KeyFiles::new(&home, &key)
                .read(KeyFile::Current)
                .map_err(|e| e.to_string())
        };
        let read = tokio::task::spawn_blocking(reading).await;
        read.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Tells one state of the file from another, without opening it.
    fn stamp(&self) -> Option<(SystemTime, u64)> {
        let path = KeyFiles::new(&self.home, &self.key).path(KeyFile::Current);
        let about = std::fs::metadata(path).ok()?;
        Some((about.modified().ok()?, about.len()))
    }
}

/// What bids wait for until the gateway has its first word.
pub(super) const STARTS: &str = "the gateway to start, so that tenants can be served";

/// Starts it, where one is wanted.
pub(super) fn start(
    plan: Option<Plan>,
    served: Served,
    desk: Desk,
    printer: &Arc<Printer>,
    end: &End,
    parts: &mut Supervisor,
) {
    let Some(plan) = plan else {
        desk.put(None);
        return;
    };
    let (plan, served) = (Arc::new(plan), Arc::new(served));
    let (printer, end) = (Arc::clone(printer), end.clone());
    parts.again(Part::Gateway, move |_| {
        // Also when it is begun anew: until it is there again, a lease that is won would get no manifest.
        desk.put(Some(STARTS.to_owned()));
        let (plan, served) = (Arc::clone(&plan), Arc::clone(&served));
        serve(plan, served, desk.clone(), Arc::clone(&printer), end.clone())
            .map(Ok)
            .boxed()
    });
}

/// The two steps in which the gateway ends. A clone has the same tokens.
#[derive(Debug, Clone)]
pub(super) struct End {
    /// The provider begins to stop: streams end, and requests are still answered.
    pub(super) draining: CancellationToken,
    /// The provider has stopped: requests are answered no more, and connections end.
    pub(super) over: CancellationToken,
}

impl End {
    /// Of a provider that begins to stop then.
    pub(super) fn of(shutdown: &CancellationToken) -> Self {
        Self {
            draining: shutdown.clone(),
            over: CancellationToken::new(),
        }
    }
}

/// Serves until the end.
async fn serve(plan: Arc<Plan>, served: Arc<Served>, desk: Desk, printer: Arc<Printer>, end: End) {
    let shutdown = &end.draining;
    let keeping = keep(&plan, &served, shutdown);
    let health = Arc::new(OnceLock::new());
    let probing = probes(plan.health, &health, &printer, &end.over);
    let serving = async {
        let Some((gateway, stamp)) = begin(&plan, &served, &desk, shutdown).await else {
            return;
        };
        tell(&gateway, &printer);
        let _ = health.set(gateway.health_router());
        let tls = gateway.tls();
        tokio::join!(
            gateway.serve_through(end.draining.clone(), end.over.clone()),
            follow(&plan, &tls, stamp, shutdown)
        );
    };
    // Side by side: `begin` waits for the very file that `keep` writes.
    tokio::join!(keeping, serving, probing);
}

/// Serves probes at a port of their own, from the start on: `/readyz` is 503 until there is a gateway.
async fn probes(
    address: Option<SocketAddr>,
    gateway: &Arc<OnceLock<Router>>,
    printer: &Printer,
    over: &CancellationToken,
) {
    let Some(address) = address else { return };
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => tracing::warn!(
                %address, %error,
                "cannot listen for probes: free the port or change --gateway-health-listen-address"
            ),
        }
        tokio::select! {
            biased;
            () = over.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    };
    let url = format!("http://{}", listener.local_addr().unwrap_or(address));
    if printer.is_text() {
        printer.note(&format!("health at {url}"));
    }
    printer.object(json!({ "event": "health", "url": url }));
    let gateway = Arc::clone(gateway);
    let probe = move |request: Request| {
        let gateway = Arc::clone(&gateway);
        async move {
            match gateway.get() {
                Some(routes) => routes.clone().oneshot(request).await,
                None if request.uri().path() == "/healthz" => Ok(serve::status(StatusCode::OK, "ok\n")),
                None => Ok(serve::status(
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("waiting for {STARTS}\n"),
                )),
            }
        }
    };
    serve::serve(listener, Router::new().fallback(probe), over.clone()).await;
}

/// Makes and renews the certificate, where that is wanted.
async fn keep(plan: &Plan, served: &Served, shutdown: &CancellationToken) {
    if plan.domains.is_empty() {
        return;
    }
    let usage = Usage::Server {
        domains: plan.domains.clone(),
    };
    let rotation = Rotation::new(
        Arc::new(served.chain.clone()),
        plan.home.clone(),
        Arc::clone(&plan.key),
        RotationSettings::new(usage),
    );
    let rotating = served
        .writers
        // `begin` and `follow` read the file, whoever wrote it.
        .while_leading(|| rotation.run(|_| {}, shutdown.clone()));
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = rotating => {}
    }
}

/// A gateway with its address, and the state of the file that its certificate is from. `None` at the shutdown.
async fn begin(
    plan: &Plan,
    served: &Served,
    desk: &Desk,
    shutdown: &CancellationToken,
) -> Option<(Gateway, Option<(SystemTime, u64)>)> {
    loop {
        // Taken before the file is read: one that is replaced in between then counts as changed.
        let stamp = plan.stamp();
        let why = match plan.certificate().await {
            Ok(own) => match bind(plan, served, &own).await {
                Ok(gateway) => {
                    desk.put(None);
                    return Some((gateway, stamp));
                }
                Err(error) => format!("the gateway, so that tenants reach it: {error:#}"),
            },
            Err(why) => format!("a certificate, so that tenants reach it: {why}"),
        };
        desk.put(Some(why));
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return None,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

async fn bind(plan: &Plan, served: &Served, own: &OwnCertificate) -> anyhow::Result<Gateway> {
    let ports = Ports {
        handle: served.handle.clone(),
        cluster: Arc::clone(&served.cluster),
        chain: Arc::new(served.chain.clone()),
        memory: Arc::clone(&served.memory),
    };
    Ok(Gateway::bind(plan.account.clone(), ports, own, plan.settings.clone()).await?)
}

fn tell(gateway: &Gateway, printer: &Printer) {
    let Ok(address) = gateway.address() else {
        return;
    };
    let grpc = gateway.grpc_address();
    if printer.is_text() {
        let grpc = grpc.map(|grpc| format!(", gRPC at {grpc}")).unwrap_or_default();
        printer.note(&format!("gateway at https://{address}{grpc}"));
    }
    printer.object(json!({ "event": "gateway", "url": format!("https://{address}"), "grpc": grpc }));
}

/// Shows the certificate of the file whenever that changes.
async fn follow(plan: &Plan, tls: &Tls, mut shown: Option<(SystemTime, u64)>, shutdown: &CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let there = plan.stamp();
        if there == shown || there.is_none() {
            continue;
        }
        let replaced = match plan.certificate().await {
            Ok(own) => tls.set_own(&own).map_err(|e| e.to_string()),
            Err(why) => Err(why),
        };
        match replaced {
            Ok(()) => {
                tracing::info!("the gateway shows another certificate");
                shown = there;
            }
            // The stamp stays as it was, so that the file is tried again with each look.
            Err(why) => tracing::warn!("the certificate cannot be replaced: {why}"),
        }
    }
}
