//! TLS connections to nodes, with a certificate authority of the test.

use super::*;
use crate::endpoints::Endpoints;
use crate::events::{BlockSource, FollowerSettings};
use crate::limits::EndpointLimits;
use crate::reader::Reader;
use crate::testing::chain::{Chain, account};
use crate::testing::grpc::GrpcNode;
use akash_provider_core::chain::{ChainEvents, ChainQuery};
use akash_provider_core::types::ChainEvent;
use futures::StreamExt;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Certificate authority, with its certificate in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn roots(&self) -> Roots {
        Roots::File(self.folder.path().join("ca.pem"))
    }

    /// Starts a TLS proxy in front of a node. Returns the address without scheme.
    async fn proxy(&self, node: SocketAddr, protocol: &str) -> String {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = builder
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that does not trust the certificate closes the connection.
                    let Ok(mut open) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut plain = TcpStream::connect(node).await.unwrap();
                    drop(tokio::io::copy_bidirectional(&mut open, &mut plain).await);
                });
            }
        });
        format!("localhost:{port}")
    }
}

fn reader(url: &str, roots: &Roots) -> Reader {
    let limits = EndpointLimits {
        attempts: 2,
        ..EndpointLimits::default()
    };
    let endpoints = Endpoints::with_roots(&[url], "local", limits, roots).unwrap();
    let settings = FollowerSettings {
        wait_min: Duration::from_millis(10),
        ..FollowerSettings::default()
    };
    Reader::new(endpoints).with_settings(settings)
}

#[tokio::test]
async fn queries_and_pushed_blocks_work_over_tls() {
    let (chain, authority) = (Chain::new(), Authority::new("ours"));
    let node = chain.node(Arc::default()).await;
    let at = authority.proxy(node.address(), "http/1.1").await;
    let reader = reader(&format!("https://{at}"), &authority.roots());
    assert!(reader.provider(&account(2)).await.unwrap().is_some());
    let mut events = reader.subscribe(&account(2));
    let first = events.next().await.unwrap().unwrap();
    assert!(matches!(first, ChainEvent::Resync(_)), "{first:?}");
    let began = Instant::now();
    while node.pushes.subscribed.load(std::sync::atomic::Ordering::Relaxed) == 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", reader.status());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let height = chain.end_block();
    node.push(chain.frame(height));
    let event = events.next().await.unwrap().unwrap();
    assert!(
        matches!(event, ChainEvent::Block { height: h, .. } if h == height),
        "{event:?}"
    );
    assert!(matches!(
        reader.status().follower.source,
        BlockSource::Websocket(_)
    ));
}

#[tokio::test]
async fn queries_work_over_grpc_with_tls() {
    let (chain, authority) = (Chain::new(), Authority::new("ours"));
    let node = GrpcNode::for_chain(&chain).await;
    let address = node.url.trim_start_matches("grpc://").parse().unwrap();
    let at = authority.proxy(address, "h2").await;
    let reader = reader(&format!("grpcs://{at}"), &authority.roots());
    assert!(reader.provider(&account(2)).await.unwrap().is_some());
}

#[tokio::test]
async fn untrusted_node_is_refused_with_a_remedy() {
    let (chain, authority, other) = (Chain::new(), Authority::new("ours"), Authority::new("another"));
    let namesake = Authority::new("ours");
    let node = chain.node(Arc::default()).await;
    let grpc = GrpcNode::for_chain(&chain).await;
    let grpc_at = grpc.url.trim_start_matches("grpc://").parse().unwrap();
    let https = format!("https://{}", authority.proxy(node.address(), "http/1.1").await);
    let grpcs = format!("grpcs://{}", authority.proxy(grpc_at, "h2").await);
    for url in [&https, &grpcs] {
        for roots in [other.roots(), namesake.roots(), Roots::System] {
            let error = reader(url, &roots).provider(&account(2)).await.unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains("invalid peer certificate") && text.contains("authority"),
                "{url}: {text}"
            );
        }
    }
    assert_eq!(
        node.calls.load(std::sync::atomic::Ordering::Relaxed),
        0,
        "no request is sent"
    );
    // A host name that is not in the certificate.
    let other = https.replace("localhost", "127.0.0.1");
    let error = reader(&other, &authority.roots())
        .provider(&account(2))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn error_names_unreadable_root_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let (absent, garbage) = (
        folder.path().join("absent.pem"),
        folder.path().join("garbage.pem"),
    );
    std::fs::write(&garbage, "nothing of use").unwrap();
    for path in [absent, garbage] {
        let roots = Roots::File(path.clone());
        let error =
            Endpoints::with_roots(&["https://x"], "local", EndpointLimits::default(), &roots).unwrap_err();
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        // Without TLS, the root certificates are not read.
        Endpoints::with_roots(&["http://x"], "local", EndpointLimits::default(), &roots).unwrap();
    }
}
