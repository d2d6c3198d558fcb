//! Orders at a real ACME server (Pebble).

use super::args;
use crate::acme::check::CertificateFault;
use crate::acme::error::AcmeError;
use crate::acme::schedule::Retry;
use crate::acme::{AcmeSettings, Issuer, now};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;
use testbed::Pebble;

const DAY: Duration = Duration::from_hours(24);

/// ACME server and storage directory of a test.
struct AcmeWorld {
    pebble: Pebble,
    folder: TempDir,
}

impl AcmeWorld {
    fn start() -> Option<Self> {
        Self::with_lifetime(90 * DAY)
    }

    fn with_lifetime(lifetime: Duration) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let pebble = Pebble::start(folder.path(), lifetime).unwrap()?;
        Some(Self { pebble, folder })
    }

    fn issuer(&self, words: &[&str]) -> Issuer {
        let directory = format!("--cert-issuer-ca-dir-url={}", self.pebble.directory());
        let storage = format!(
            "--cert-issuer-storage-dir={}",
            self.folder.path().join("acme").display()
        );
        let given = [&directory, &storage, "--gateway-listen-address=127.0.0.1:0"];
        let args = args(&[&given[..], words].concat());
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(self.pebble.authority()).unwrap();
        roots.add(authority).unwrap();
        Issuer::with_roots(
            AcmeSettings::from_args(&args, self.folder.path())
                .unwrap()
                .unwrap(),
            roots,
        )
    }

    fn http(&self) -> String {
        format!("--cert-issuer-http-challenge-port={}", self.pebble.http_port())
    }

    fn tls(&self) -> String {
        format!("--cert-issuer-tls-challenge-port={}", self.pebble.tls_port())
    }
}

#[tokio::test]
async fn certificate_is_issued_with_either_challenge_and_one_account() {
    let Some(world) = AcmeWorld::start() else { return };
    let (kid, hmac) = Pebble::EXTERNAL_ACCOUNT;
    let account = [
        "--cert-issuer-email=ops@provider.test",
        &format!("--cert-issuer-kid={kid}"),
    ]
    .map(str::to_owned);
    let hmac = format!("--cert-issuer-hmac={hmac}");
    let mut accounts = Vec::new();
    for port in [world.http(), world.tls()] {
        let issuer = world.issuer(&[&account[0], &account[1], &hmac, &port]);
        let before = issuer.store.certificate();
        let validity = issuer.issue().await.map_err(|(error, _)| error).unwrap();
        assert_ne!(issuer.store.certificate(), before, "{port}");
        assert_eq!(issuer.current(now()), Some(validity));
        let renewal_in = validity.renewal().checked_sub(now()).unwrap();
        assert!(renewal_in > 59 * DAY && renewal_in < 61 * DAY, "{renewal_in:?}");
        let folder = issuer.settings.folder();
        accounts.push(std::fs::read(folder.join("account.json")).unwrap());
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{entry:?}");
        }
    }
    assert_eq!(accounts[0], accounts[1], "the account is registered once");
}

#[tokio::test]
async fn failed_order_has_a_reason_and_keeps_the_certificate() {
    let Some(mut world) = AcmeWorld::start() else {
        return;
    };
    let http = world.http();
    let issuer = world.issuer(&[&http]);
    issuer.issue().await.map_err(|(error, _)| error).unwrap();
    let certificate = issuer.store.certificate();
    let reason = async |issuer: &Issuer| issuer.issue().await.unwrap_err().0;
    let blocked = format!("--cluster-public-hostname={}", Pebble::BLOCKED);
    let refused = reason(&world.issuer(&[&http, &blocked])).await;
    assert!(
        matches!(&refused, AcmeError::Refused(why) if why.contains("rejectedIdentifier")),
        "{refused}"
    );
    // Another port than the one that the server connects to.
    let unused = format!(
        "--cert-issuer-http-challenge-port={}",
        testbed::free_port().unwrap()
    );
    let unreachable = reason(&world.issuer(&[&unused])).await;
    assert!(
        matches!(&unreachable, AcmeError::Validation(why) if why.contains("connection refused")),
        "{unreachable}"
    );
    let taken = std::net::TcpListener::bind(("127.0.0.1", world.pebble.http_port())).unwrap();
    let busy = reason(&issuer).await;
    assert!(matches!(busy, AcmeError::Listen { .. }), "{busy}");
    drop(taken);
    world.pebble.kill();
    let down = reason(&issuer).await;
    assert!(
        matches!(&down, AcmeError::Unavailable(why) if why.contains("onnection refused")),
        "{down}"
    );
    assert_eq!(issuer.store.certificate(), certificate);
}

#[tokio::test]
async fn restarted_server_gets_a_new_account() {
    let Some(world) = AcmeWorld::start() else { return };
    let http = world.http();
    let issuer = world.issuer(&[&http]);
    issuer.issue().await.map_err(|(error, _)| error).unwrap();
    let folder = issuer.settings.folder();
    let mut account: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("account.json")).unwrap()).unwrap();
    let (accounts, _) = account["credentials"]["id"]
        .as_str()
        .unwrap()
        .rsplit_once('/')
        .unwrap();
    account["credentials"]["id"] = format!("{accounts}/no-account").into();
    std::fs::write(folder.join("account.json"), account.to_string()).unwrap();
    let (unknown, _) = issuer.issue().await.unwrap_err();
    assert!(matches!(unknown, AcmeError::AccountUnknown), "{unknown}");
    issuer.issue().await.map_err(|(error, _)| error).unwrap();
}

#[tokio::test]
async fn failure_delays_the_next_order_also_after_a_restart() {
    let Some(world) = AcmeWorld::start() else { return };
    let issuer = world.issuer(&[&world.http()]);
    let before = now();
    let retry = issuer.failed(&AcmeError::ShortLived, Duration::from_mins(30), None);
    assert!(retry != Retry::at(before));
    let restarted = world.issuer(&[&world.http()]);
    let at = crate::acme::schedule::due(None, restarted.store.retry(), before);
    assert!(
        at >= before + Duration::from_secs(119) && at <= before + Duration::from_secs(125),
        "{at:?}"
    );
}

#[tokio::test]
async fn unusable_certificate_is_not_stored() {
    let Some(world) = AcmeWorld::with_lifetime(Duration::from_secs(1)) else {
        return;
    };
    let issuer = world.issuer(&[&world.http()]);
    let (error, _) = issuer.issue().await.unwrap_err();
    // The server counts the lifetime in whole seconds, so the certificate may be valid for less than a second.
    let is_expired = matches!(error, AcmeError::Certificate(CertificateFault::Time));
    assert!(is_expired || matches!(error, AcmeError::ShortLived), "{error}");
    assert_eq!(issuer.store.certificate(), None);
}
