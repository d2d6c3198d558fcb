//! Gateway of a provider: the gateway starts when its certificate is available, and reloads the certificate when the
//! file changes.

use super::certificate_secret::{self, CertificateSecret};
use super::cluster::ClusterAccess;
use super::readiness::WaitCondition;
use super::recordings::{Recordings, UNWRITABLE};
use crate::acme::{self, AcmeSettings, Issuer};
use crate::args::RunArgs;
use crate::audit::{Audit, AuditedSender};
use crate::metrics::{CertificateExpiry, GatewaySource};
use crate::operators::serve;
use crate::printer::Printer;
use crate::state::State;
use crate::supervise::{Part, Supervisor};
use crate::writers::Writers;
use akash_provider_chain::AkashClient;
use akash_provider_chain::cert::{CertUsage, KeyFile, KeyFiles, OwnCertificate};
use akash_provider_chain::cert::{Rotation, RotationSettings, SharedFiles};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::chain::{ChainClient, SplitChain};
use akash_provider_core::cluster::Cluster;
use akash_provider_core::provider::{Lifecycle, ProviderBuilder, ProviderHandle};
use akash_provider_core::types::Address;
use akash_provider_gateway::Screening;
use akash_provider_gateway::auth::memory::AuthStore;
use akash_provider_gateway::tls::Tls;
use akash_provider_gateway::{
    CertificateFiles, Gateway, GatewayBackends, GatewaySettings, LeadershipSource, ProblemSource,
};
use axum::Router;
use axum::extract::Request;
use futures::FutureExt;
use http::StatusCode;
use serde_json::json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Interval of checks for a new certificate.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct GatewayOptions {
    settings: GatewaySettings,
    /// Listen address of health probes; `None` if disabled.
    health: Option<SocketAddr>,
    home: PathBuf,
    account: Address,
    key: Arc<PrivateKey>,
    /// Host names of the managed certificate; empty if the provider manages no certificate.
    domains: Vec<String>,
    /// Settings of the ACME client; `None` if disabled.
    acme: Option<AcmeSettings>,
    /// Expiry of the certificate that the gateway uses.
    expiry: CertificateExpiry,
    /// Certificate files that all instances share, if enabled.
    shared: Option<Arc<SharedFiles>>,
    /// True if the Service of the pod selects the leader.
    is_role_labelled: bool,
}

#[derive(Debug)]
pub(super) struct GatewayDependencies {
    handle: ProviderHandle,
    cluster: Arc<dyn Cluster>,
    chain: AkashClient,
    memory: Arc<dyn AuthStore>,
    writers: Writers,
    /// Audit log, if enabled.
    audit: Option<Audit>,
}

impl GatewayDependencies {
    pub(super) fn new(
        handle: &ProviderHandle,
        cluster: &ClusterAccess,
        chain: AkashClient,
        (state, recordings): (&State, &Recordings),
        writers: Writers,
    ) -> Self {
        Self {
            handle: handle.clone(),
            cluster: Arc::clone(&cluster.cluster),
            chain,
            memory: state.tenants(),
            writers,
            audit: recordings.audit.clone(),
        }
    }

    /// Returns true for a standby that can become the leader.
    fn is_standby(&self) -> bool {
        self.handle.lifecycle() == Lifecycle::Running && !self.writers.leads()
    }

    /// Returns the source of a problem for `/readyz`: the audit log cannot be written. The text omits the
    /// cause, which contains a local path.
    fn problem(&self) -> Option<ProblemSource> {
        let audit = self.audit.clone()?;
        Some(ProblemSource::new(move || {
            let is_failed = audit.health().problem.is_some();
            is_failed.then(|| UNWRITABLE.to_owned())
        }))
    }

    fn rotation_chain(&self) -> Arc<dyn ChainClient> {
        let chain = self.chain.clone();
        match self.audit.clone() {
            Some(audit) => {
                let sender = AuditedSender::new(chain.clone(), audit, "certificate_rotation");
                Arc::new(SplitChain::new(chain, sender))
            }
            None => Arc::new(chain),
        }
    }
}

impl GatewayOptions {
    /// Returns the settings, or `None` if the gateway is disabled.
    pub(super) fn from_args(
        args: &RunArgs,
        home: &Path,
        key: PrivateKey,
        screening: Screening,
        leadership: Option<LeadershipSource>,
        writers: &Writers,
    ) -> Option<Self> {
        let account = screening.config.provider.clone();
        let mut settings = GatewaySettings::at(args.gateway.gateway_listen_address.0?);
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
            shared: CertificateSecret::shared(args, &account, writers),
            account,
            key: Arc::new(key),
            // `run` has refused invalid settings before.
            acme: AcmeSettings::from_args(args, home).ok().flatten(),
            domains: names.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            expiry: CertificateExpiry::default(),
            is_role_labelled: args.ha.ha_pod.is_some(),
        })
    }

    pub(super) fn metric_source(&self) -> GatewaySource {
        GatewaySource::new(self.settings.counters.clone(), self.expiry.clone())
    }

    /// Reads and decrypts the certificate in the home directory. The decryption takes several hundred
    /// milliseconds.
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

    /// Returns the modification time and size of the certificate file, to detect changes.
    fn stamp(&self) -> Option<(SystemTime, u64)> {
        acme::stamp(&KeyFiles::new(&self.home, &self.key).path(KeyFile::Current))
    }
}

/// Condition that delays bids until the gateway serves requests.
const PENDING: &str = "the gateway to start, so that tenants can be served";

/// Delays bids until an enabled gateway runs, because tenants must be able to send manifests.
pub(super) fn hold_bids(builder: ProviderBuilder, gateway: Option<&GatewayOptions>) -> ProviderBuilder {
    match gateway {
        Some(_) => builder.hold_bids(PENDING),
        None => builder,
    }
}

pub(super) fn start(
    plan: Option<GatewayOptions>,
    dependencies: GatewayDependencies,
    condition: WaitCondition,
    printer: &Arc<Printer>,
    end: &ShutdownTokens,
    parts: &mut Supervisor,
) {
    let Some(mut plan) = plan else {
        condition.set(None);
        return;
    };
    plan.settings.problem = dependencies.problem();
    let (plan, dependencies) = (Arc::new(plan), Arc::new(dependencies));
    let (printer, end) = (Arc::clone(printer), end.clone());
    parts.again(Part::Gateway, move |_| {
        // Also after a restart of the part: until the gateway serves again, a won lease would get no manifest.
        condition.set(Some(PENDING.to_owned()));
        let (plan, dependencies) = (Arc::clone(&plan), Arc::clone(&dependencies));
        serve(
            plan,
            dependencies,
            condition.clone(),
            Arc::clone(&printer),
            end.clone(),
        )
        .map(Ok)
        .boxed()
    });
}

/// Tokens of the two shutdown steps. Clones share the tokens.
#[derive(Debug, Clone)]
pub(super) struct ShutdownTokens {
    /// Cancelled at the start of the shutdown: streams end, but requests are still served.
    pub(super) draining: CancellationToken,
    /// Cancelled after the provider stopped: requests fail, and connections are closed.
    pub(super) stopped: CancellationToken,
}

impl ShutdownTokens {
    pub(super) fn new(shutdown: &CancellationToken) -> Self {
        Self {
            draining: shutdown.clone(),
            stopped: CancellationToken::new(),
        }
    }
}

/// Starts the gateway and serves requests until the shutdown.
async fn serve(
    plan: Arc<GatewayOptions>,
    dependencies: Arc<GatewayDependencies>,
    condition: WaitCondition,
    printer: Arc<Printer>,
    end: ShutdownTokens,
) {
    let shutdown = &end.draining;
    let maintaining = maintain_certificate(&plan, &dependencies, shutdown);
    let issuing = issue_certificate(&plan, &dependencies, shutdown);
    let health = Arc::new(OnceLock::new());
    let probing = probes(&plan, &dependencies, &health, &printer, &end.stopped);
    let serving = async {
        let Some((gateway, stamp)) = begin(&plan, &dependencies, &condition, shutdown).await else {
            return;
        };
        print(&gateway, &printer);
        let _ = health.set(gateway.health_router());
        let tls = gateway.tls();
        tokio::join!(
            gateway.serve_through(end.draining.clone(), end.stopped.clone()),
            follow(&plan, &tls, stamp, shutdown),
            follow_issued(&plan, &tls, shutdown)
        );
    };
    // Concurrent, because `begin` waits for the file that `keep` writes.
    tokio::join!(maintaining, issuing, serving, probing);
}

/// Serves health probes on a separate port. `/readyz` returns 503 until the gateway runs. A standby creates its
/// certificate, which the gateway requires, only when it leads. If its Service selects the leader, the standby is ready
/// before, so that a StatefulSet continues its update.
async fn probes(
    plan: &GatewayOptions,
    dependencies: &Arc<GatewayDependencies>,
    gateway: &Arc<OnceLock<Router>>,
    printer: &Printer,
    over: &CancellationToken,
) {
    let Some(address) = plan.health else { return };
    let report = |error: &std::io::Error| {
        tracing::warn!(
            %address, %error,
            "cannot listen for health probes, retrying: free the port or change --gateway-health-listen-address"
        );
    };
    let Some(listener) = serve::listen(address, over, report).await else {
        return;
    };
    let url = format!("http://{}", listener.local_addr().unwrap_or(address));
    if printer.is_text() {
        printer.note(&format!("health at {url}"));
    }
    printer.object(json!({ "event": "health", "url": url }));
    let (gateway, dependencies) = (Arc::clone(gateway), Arc::clone(dependencies));
    let is_role_labelled = plan.is_role_labelled;
    let probe = move |request: Request| {
        let gateway = Arc::clone(&gateway);
        let is_standby = is_role_labelled && dependencies.is_standby();
        async move {
            match gateway.get() {
                Some(routes) => routes.clone().oneshot(request).await,
                None if request.uri().path() == "/healthz" => Ok(serve::status(StatusCode::OK, "ok\n")),
                None if is_standby && request.uri().path() == "/readyz" => Ok(serve::status(
                    StatusCode::OK,
                    "ok; standby: the gateway starts when this instance leads\n",
                )),
                None => Ok(serve::status(
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("waiting for {PENDING}\n"),
                )),
            }
        }
    };
    serve::serve(listener, Router::new().fallback(probe), over.clone()).await;
}

/// Copies the certificate from its Secret, and creates and renews a managed certificate.
async fn maintain_certificate(
    plan: &GatewayOptions,
    dependencies: &GatewayDependencies,
    shutdown: &CancellationToken,
) {
    let copying = async {
        if let Some(shared) = &plan.shared {
            certificate_secret::follow(shared, &plan.home, &plan.key, shutdown).await;
        }
    };
    tokio::join!(copying, rotate_certificate(plan, dependencies, shutdown));
}

async fn rotate_certificate(
    plan: &GatewayOptions,
    dependencies: &GatewayDependencies,
    shutdown: &CancellationToken,
) {
    if plan.domains.is_empty() {
        return;
    }
    let usage = CertUsage::Server {
        domains: plan.domains.clone(),
    };
    let rotation = Rotation::new(
        dependencies.rotation_chain(),
        plan.home.clone(),
        Arc::clone(&plan.key),
        RotationSettings::new(usage),
    )
    .sharing(plan.shared.clone());
    let rotating = dependencies
        .writers
        // `begin` and `follow` read the file, independent of its writer.
        .while_leading(|| rotation.run(|_| {}, shutdown.clone()));
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = rotating => {}
    }
}

/// Orders and renews the public certificate while this instance leads. Returns at once without an ACME client.
async fn issue_certificate(
    plan: &GatewayOptions,
    dependencies: &GatewayDependencies,
    shutdown: &CancellationToken,
) {
    let Some(settings) = plan.acme.clone() else {
        return;
    };
    let issuer = Issuer::new(settings);
    let issuing = dependencies.writers.while_leading(|| issuer.run());
    shutdown.run_until_cancelled(issuing).await;
}

/// Loads the public certificate of the ACME client, also on a standby that shares the storage directory.
async fn follow_issued(plan: &GatewayOptions, tls: &Tls, shutdown: &CancellationToken) {
    if let Some(settings) = &plan.acme {
        acme::follow(settings, tls, shutdown).await;
    }
}

/// Waits for the certificate, and starts the gateway. Returns `None` if a shutdown starts.
///
/// The second value is the modification time and size of the certificate file. Both are read before the
/// certificate.
async fn begin(
    plan: &GatewayOptions,
    dependencies: &GatewayDependencies,
    condition: &WaitCondition,
    shutdown: &CancellationToken,
) -> Option<(Gateway, Option<(SystemTime, u64)>)> {
    loop {
        // Taken before the file is read, so that a file that is replaced in between counts as changed.
        let stamp = plan.stamp();
        let why = match plan.certificate().await {
            Ok(own) => match bind(plan, dependencies, &own).await {
                Ok(gateway) => {
                    condition.set(None);
                    plan.expiry.set(own.info().not_after);
                    return Some((gateway, stamp));
                }
                Err(error) => format!("the gateway, so that tenants reach it: {error:#}"),
            },
            Err(why) => format!("a certificate, so that tenants reach it: {why}"),
        };
        condition.set(Some(why));
        let pause = tokio::time::sleep(CHECK_INTERVAL);
        shutdown.run_until_cancelled(pause).await?;
    }
}

async fn bind(
    plan: &GatewayOptions,
    dependencies: &GatewayDependencies,
    own: &OwnCertificate,
) -> anyhow::Result<Gateway> {
    let ports = GatewayBackends {
        handle: dependencies.handle.clone(),
        cluster: Arc::clone(&dependencies.cluster),
        chain: Arc::new(dependencies.chain.clone()),
        memory: Arc::clone(&dependencies.memory),
    };
    Ok(Gateway::bind(plan.account.clone(), ports, own, plan.settings.clone()).await?)
}

fn print(gateway: &Gateway, printer: &Printer) {
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

/// Reloads the certificate whenever the file changes.
async fn follow(
    plan: &GatewayOptions,
    tls: &Tls,
    mut loaded: Option<(SystemTime, u64)>,
    shutdown: &CancellationToken,
) {
    while shutdown
        .run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL))
        .await
        .is_some()
    {
        let there = plan.stamp();
        if there == loaded || there.is_none() {
            continue;
        }
        let replaced = match plan.certificate().await {
            Ok(own) => {
                let set = tls.set_own(&own).map_err(|e| e.to_string());
                set.map(|()| plan.expiry.set(own.info().not_after))
            }
            Err(why) => Err(why),
        };
        match replaced {
            Ok(()) => {
                tracing::info!("gateway reloaded its certificate from the file");
                loaded = there;
            }
            // The stamp is not updated, so that the file is read again with the next check.
            Err(why) => tracing::warn!(
                error = why,
                "gateway cannot reload its certificate, the previous certificate is used; check the \
                 certificate file"
            ),
        }
    }
}
