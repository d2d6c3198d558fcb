//! Handshakes: versions, server names, certificates.

use super::world::{NOW, SDL, World, tenant, until};
use akash_provider_chain::cert::{CertUsage, OwnCertificate};
use akash_provider_core::types::Address;
use std::time::Duration;

fn server_certificate(connection: &super::clients::Connection) -> Vec<u8> {
    let chain = connection.get_ref().1.peer_certificates().unwrap();
    assert_eq!(chain.len(), 1);
    chain[0].to_vec()
}

#[tokio::test]
async fn tls_1_3_alone_is_spoken() {
    let world = World::start().await;
    let old = world.client().versions(&[&rustls::version::TLS12]);
    assert!(old.connect().await.is_err());
    let new = world.client().connect().await.unwrap();
    assert_eq!(
        new.get_ref().1.protocol_version(),
        Some(rustls::ProtocolVersion::TLSv1_3)
    );
    world.stop().await;
}

#[tokio::test]
async fn plain_http_gets_a_readable_error() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let world = World::start().await;
    for asked in [
        "GET /status HTTP/1.1\r\nHost: x\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut tcp = tokio::net::TcpStream::connect(world.address).await.unwrap();
        tcp.write_all(asked.as_bytes()).await.unwrap();
        tcp.shutdown().await.unwrap();
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        assert!(
            answer.ends_with("this is an https port: write https:// in front of the address\n"),
            "{answer}"
        );
    }
    // Other data is disconnected.
    let mut tcp = tokio::net::TcpStream::connect(world.address).await.unwrap();
    tcp.write_all(b"\x01nonsense").await.unwrap();
    let mut answer = Vec::new();
    drop(tcp.read_to_end(&mut answer).await);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    world.stop().await;
}

fn files(owner: &Address, name: &str, made: u64) -> (tempfile::TempDir, OwnCertificate) {
    let usage = CertUsage::Server {
        domains: vec![name.to_owned()],
    };
    let own = OwnCertificate::make(owner, &usage, Duration::from_secs(made)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &own);
    (folder, own)
}

fn write(folder: &std::path::Path, own: &OwnCertificate) {
    std::fs::write(folder.join("tls.crt"), own.cert_pem()).unwrap();
    let key = data_encoding::BASE64.encode(&own.private_key_der().unwrap());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
    std::fs::write(folder.join("tls.key"), pem).unwrap();
}

#[tokio::test]
async fn certificate_follows_the_server_name_and_can_be_replaced() {
    let world = World::start().await;
    let own = world.own.der().to_vec();
    let connect = async |name: &str| world.client().named(name).connect().await.unwrap();
    for name in ["localhost", "mtls.provider.localhost", "provider.localhost"] {
        assert_eq!(server_certificate(&connect(name).await), own, "{name}");
    }
    let owner = tenant(50).address().clone();
    let (folder, public) = files(&owner, "provider.localhost", NOW - 10);
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    world
        .tls
        .set_public("provider.localhost", &certificate, &key)
        .unwrap();
    assert_eq!(
        server_certificate(&connect("PROVIDER.localhost").await),
        public.der()
    );
    assert_eq!(server_certificate(&connect("mtls.provider.localhost").await), own);
    // A client of the public hostname sends no certificate.
    let tenant = world.known_tenant(1);
    world.running(tenant.address(), 7, SDL).await;
    let with = world.client().certificate(&world.certificate(&tenant));
    let path = "/lease/7/1/1/status";
    assert_eq!(
        with.clone().named("provider.localhost").get(path).await.status,
        401
    );
    assert_eq!(with.named("mtls.provider.localhost").get(path).await.status, 200);

    let again = OwnCertificate::make(&owner, &CertUsage::Client, Duration::from_secs(NOW - 5)).unwrap();
    write(folder.path(), &again);
    world
        .tls
        .set_public("provider.localhost", &certificate, &key)
        .unwrap();
    assert_eq!(
        server_certificate(&connect("provider.localhost").await),
        again.der()
    );
    std::fs::write(&certificate, "nonsense").unwrap();
    assert!(
        world
            .tls
            .set_public("provider.localhost", &certificate, &key)
            .is_err()
    );
    assert_eq!(
        server_certificate(&connect("provider.localhost").await),
        again.der()
    );

    let provider = world.own.info().owner.clone();
    let renewed = OwnCertificate::make(&provider, &CertUsage::Client, Duration::from_secs(NOW)).unwrap();
    world.tls.set_own(&renewed).unwrap();
    assert_eq!(server_certificate(&connect("localhost").await), renewed.der());
    world.stop().await;
}

#[tokio::test]
async fn invalid_client_certificates_fail_the_handshake() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let old = Duration::from_secs(NOW - 2 * 366 * 24 * 3600);
    let over = OwnCertificate::make(key.address(), &CertUsage::Client, old).unwrap();
    let early =
        OwnCertificate::make(key.address(), &CertUsage::Client, Duration::from_secs(NOW + 60)).unwrap();
    for wrong in [over, early] {
        world.publish(&wrong.publish());
        let refused = world
            .client()
            .certificate(&wrong)
            .try_send("GET", "/status", "")
            .await;
        assert!(refused.is_err(), "{refused:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn sessions_are_not_resumed() {
    let world = World::start().await;
    let key = world.known_tenant(1);
    let client = world.client().certificate(&world.certificate(&key));
    assert_eq!(client.get("/status").await.status, 200);
    let connection = client.connect().await.unwrap();
    assert_eq!(
        connection.get_ref().1.handshake_kind(),
        Some(rustls::HandshakeKind::Full)
    );
    assert_eq!(connection.get_ref().1.tls13_tickets_received(), 0);
    world.stop().await;
}

#[tokio::test]
async fn changed_public_certificate_is_reloaded() {
    let owner = tenant(50).address().clone();
    let (folder, first) = files(&owner, "provider.localhost", NOW - 10);
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let world = World::with(|s| {
        s.limits.certificate_interval = Duration::from_millis(20);
        s.public_certificate = Some(crate::CertificateFiles {
            certificate: certificate.clone(),
            key,
        });
    })
    .await;
    let client = world.client().named("provider.localhost");
    let connection = client.connect().await.unwrap();
    assert_eq!(server_certificate(&connection), first.der());
    // An incomplete or invalid change keeps the previous certificate.
    std::fs::write(&certificate, "nonsense").unwrap();
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(server_certificate(&client.connect().await.unwrap()), first.der());
    }
    let second = OwnCertificate::make(&owner, &CertUsage::Client, Duration::from_secs(NOW - 5)).unwrap();
    write(folder.path(), &second);
    until("the new certificate", || async {
        server_certificate(&client.connect().await.unwrap()) == second.der()
    })
    .await;
    assert_eq!(server_certificate(&connection), first.der());
    world.stop().await;
}
