//! Rotation against an in-memory chain, interrupted after each step.

use super::*;
use crate::cert::{CertificateStore, FileContents, RENEW_BEFORE, StoredFiles, VALIDITY};
use akash_provider_core::chain::{BroadcastResult, Inclusion, MemoryChain, QueryOutage};
use akash_provider_core::error::Error;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::market::MarketConfig;
use akash_provider_core::types::Coin;
use async_trait::async_trait;
use std::path::Path;
use std::sync::Mutex;

const NOW: Duration = Duration::from_secs(1_800_000_000);
const GRACE: Duration = Duration::from_secs(3600);

struct Scene {
    chain: MemoryChain,
    account: Arc<PrivateKey>,
    home: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let account = Arc::new(PrivateKey::from_bytes(&[9; 32]).unwrap());
        let chain = MemoryChain::new(MarketConfig::new("rotation", BlockTime(1_800_000_000_000)));
        chain.set_inclusion(Inclusion::Immediate {
            block_time: Duration::from_secs(6),
        });
        let coin: Coin = "1000000uakt".parse().unwrap();
        chain.market(|market| market.fund(account.address(), &coin));
        Self {
            chain,
            account,
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// Returns a rotation without in-memory state, as after a restart.
    fn rotation(&self) -> Rotation {
        let settings = RotationSettings {
            grace: GRACE,
            ..RotationSettings::new(CertUsage::Server {
                domains: vec!["provider.example".to_owned()],
            })
        };
        Rotation::new(
            Arc::new(self.chain.clone()),
            self.home.path().to_owned(),
            Arc::clone(&self.account),
            settings,
        )
    }

    async fn step(&self, now: Duration) -> StepResult {
        self.rotation().step(now).await.unwrap()
    }

    /// Returns the serial numbers of the valid certificates on the chain.
    fn valid(&self) -> Vec<String> {
        let owner = self.account.address();
        self.chain.market(|market| {
            let all = market.certificates(owner).iter().filter(|c| c.valid);
            all.map(|c| c.serial.clone()).collect()
        })
    }

    fn file(&self, which: KeyFile) -> std::path::PathBuf {
        KeyFiles::new(self.home.path(), &self.account).path(which)
    }

    /// Sets the time of the swap to `now` minus `ago`.
    fn swapped_before(&self, now: Duration, ago: Duration) {
        let file = std::fs::OpenOptions::new()
            .append(true)
            .open(self.file(KeyFile::Old))
            .unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + now.checked_sub(ago).unwrap())
            .unwrap();
    }
}

fn serial(done: &StepResult) -> String {
    match done {
        StepResult::Generated(serial)
        | StepResult::Published(serial)
        | StepResult::Swapped(serial)
        | StepResult::Revoked(serial) => serial.clone(),
        other => panic!("{other:?} has no serial"),
    }
}

/// Activates the first certificate and returns its serial number.
async fn first(scene: &Scene) -> String {
    let made = scene.step(NOW).await;
    assert!(matches!(made, StepResult::Generated(_)), "{made:?}");
    assert_eq!(scene.step(NOW).await, StepResult::Published(serial(&made)));
    assert_eq!(scene.step(NOW).await, StepResult::Swapped(serial(&made)));
    let idle = scene.step(NOW).await;
    assert_eq!(idle, StepResult::Idle(VALIDITY - RENEW_BEFORE));
    serial(&made)
}

#[tokio::test]
async fn interrupted_rotation_completes_after_restart() {
    let scene = Scene::new();
    let old = first(&scene).await;
    let due = NOW + VALIDITY - Duration::from_secs(6 * 24 * 3600);
    let new = serial(&scene.step(due).await);
    assert_ne!(new, old);
    assert_eq!(scene.valid(), std::slice::from_ref(&old));
    assert_eq!(scene.step(due).await, StepResult::Published(new.clone()));
    assert_eq!(scene.valid(), [old.clone(), new.clone()]);
    // A crash in the middle of the swap: the current file is already renamed, the next file still exists.
    std::fs::rename(scene.file(KeyFile::Current), scene.file(KeyFile::Old)).unwrap();
    scene.swapped_before(due, Duration::ZERO);
    assert_eq!(scene.step(due).await, StepResult::Swapped(new.clone()));
    assert_eq!(scene.step(due).await, StepResult::Idle(GRACE));
    scene.swapped_before(due, GRACE);
    assert_eq!(scene.step(due).await, StepResult::Revoked(old.clone()));
    assert_eq!(scene.valid(), [new]);
    assert_eq!(scene.step(due).await, StepResult::Discarded);
    assert!(!scene.file(KeyFile::Old).exists());
    assert!(matches!(scene.step(due).await, StepResult::Idle(_)));
}

#[tokio::test]
async fn old_certificate_is_revoked_after_the_grace_period() {
    let scene = Scene::new();
    let old = first(&scene).await;
    let due = NOW + VALIDITY - Duration::from_secs(3600);
    let new = serial(&scene.step(due).await);
    scene.step(due).await;
    assert_eq!(scene.step(due).await, StepResult::Swapped(new.clone()));
    scene.swapped_before(due, Duration::from_secs(60));
    let wait = GRACE - Duration::from_secs(60);
    assert_eq!(scene.step(due).await, StepResult::Idle(wait));
    assert_eq!(scene.valid().len(), 2);
    scene.swapped_before(due, GRACE);
    assert_eq!(scene.step(due).await, StepResult::Revoked(old));
    assert_eq!(scene.valid(), [new]);
}

#[tokio::test]
async fn no_certificate_is_revoked_on_uncertainty() {
    let scene = Scene::new();
    let old = first(&scene).await;
    let due = NOW + VALIDITY - Duration::from_secs(3600);
    let new = serial(&scene.step(due).await);
    scene.step(due).await;
    scene.step(due).await;
    scene.swapped_before(due, GRACE);
    // Queries fail.
    scene.chain.fail_queries(QueryOutage::UntilRestored);
    let error = scene.rotation().step(due).await.unwrap_err();
    assert!(matches!(error, RotationError::Chain(_)), "{error}");
    scene.chain.restore_queries();
    // The current file was deleted: a new certificate is generated, and the old one stays valid.
    let current = std::fs::read(scene.file(KeyFile::Current)).unwrap();
    std::fs::remove_file(scene.file(KeyFile::Current)).unwrap();
    let made = scene.step(due).await;
    assert!(matches!(made, StepResult::Generated(_)), "{made:?}");
    assert_eq!(scene.valid(), [old.clone(), new.clone()]);
    std::fs::remove_file(scene.file(KeyFile::Next)).unwrap();
    // An unreadable file is not replaced, and no certificate is revoked because of it.
    std::fs::write(scene.file(KeyFile::Current), b"damaged").unwrap();
    let error = scene.rotation().step(due).await.unwrap_err();
    assert!(
        matches!(error, RotationError::Certificate(CertError::Damaged { .. })),
        "{error}"
    );
    assert_eq!(scene.valid(), [old.clone(), new.clone()]);
    std::fs::write(scene.file(KeyFile::Current), current).unwrap();
    // A transaction that was not sent is retried.
    scene.chain.set_next_broadcast(BroadcastResult::NotSent);
    assert!(matches!(
        scene.rotation().step(due).await,
        Err(RotationError::Chain(_))
    ));
    assert_eq!(scene.step(due).await, StepResult::Revoked(old));
    assert_eq!(scene.valid(), [new]);
}

#[tokio::test(start_paused = true)]
async fn unknown_publication_is_resolved_before_the_next_step() {
    let scene = Scene::new();
    scene.step(NOW).await;
    scene.chain.set_inclusion(Inclusion::NextBlock);
    scene.chain.set_next_broadcast(BroadcastResult::Unknown {
        included_after: Some(2),
    });
    let rotation = scene.rotation();
    let blocks = async {
        loop {
            tokio::time::sleep(Duration::from_secs(6)).await;
            scene.chain.advance(Duration::from_secs(6));
        }
    };
    let result = tokio::select! {
        result = rotation.step(NOW) => result,
        () = blocks => unreachable!(),
    };
    assert!(matches!(result, Err(RotationError::Unknown { .. })), "{result:?}");
    assert_eq!(
        scene.valid().len(),
        1,
        "the transaction is finally included in a block"
    );
    let swapped = scene.step(NOW).await;
    assert!(
        matches!(swapped, StepResult::Swapped(_)),
        "the certificate must be published only once: {swapped:?}"
    );
}

#[tokio::test]
async fn running_rotation_reports_the_certificate_in_use() {
    let scene = Scene::new();
    let rotation = scene.rotation();
    let stop = CancellationToken::new();
    let reported = std::sync::Mutex::new(Vec::new());
    let in_use = |own: OwnCertificate| {
        reported.lock().unwrap().push(own.info().serial.clone());
        stop.cancel();
    };
    tokio::time::timeout(Duration::from_secs(120), rotation.run(in_use, stop.clone()))
        .await
        .unwrap();
    assert_eq!(*reported.lock().unwrap(), scene.valid());
    assert!(Path::new(&scene.file(KeyFile::Current)).exists());
}

/// Store in memory that counts its versions. While `is_down`, every call fails.
#[derive(Debug, Default)]
struct MemoryStore {
    files: Mutex<(u32, FileContents)>,
    is_down: Mutex<bool>,
}

impl MemoryStore {
    fn check(&self) -> Result<(), Error> {
        match *self.is_down.lock().unwrap() {
            true => Err(Error::new(ErrorKind::Unavailable, "test", "down")),
            false => Ok(()),
        }
    }

    fn names(&self) -> Vec<String> {
        let files = self.files.lock().unwrap();
        let endings = files
            .1
            .keys()
            .map(|name| name.split_once('.').unwrap().1.to_owned());
        endings.collect()
    }
}

#[async_trait]
impl CertificateStore for MemoryStore {
    async fn load(&self) -> Result<StoredFiles, Error> {
        self.check()?;
        let (version, files) = self.files.lock().unwrap().clone();
        let version = Some(version.to_string());
        Ok(StoredFiles { version, files })
    }

    async fn save(&self, before: &StoredFiles, files: &FileContents) -> Result<(), Error> {
        self.check()?;
        let mut stored = self.files.lock().unwrap();
        assert_eq!(before.version, Some(stored.0.to_string()));
        *stored = (stored.0 + 1, files.clone());
        Ok(())
    }
}

#[tokio::test]
async fn next_leader_continues_the_rotation_of_the_store_and_standbys_get_its_certificate() {
    let (one, store) = (Scene::new(), Arc::new(MemoryStore::default()));
    let other = Scene {
        chain: one.chain.clone(),
        account: Arc::clone(&one.account),
        home: tempfile::tempdir().unwrap(),
    };
    let shared = Arc::new(SharedFiles::new(store.clone()));
    let step = async |scene: &Scene| {
        let rotation = scene.rotation().sharing(Some(Arc::clone(&shared)));
        rotation.shared_step(NOW).await
    };
    let made = step(&one).await.unwrap();
    assert_eq!(store.names(), ["next.pem"]);
    // The second instance publishes the certificate that the first instance generated.
    assert_eq!(step(&other).await.unwrap(), StepResult::Published(serial(&made)));
    assert_eq!(step(&other).await.unwrap(), StepResult::Swapped(serial(&made)));
    assert_eq!(store.names(), ["pem"]);
    shared.adopt(one.home.path(), &one.account).await.unwrap();
    let current = KeyFiles::new(one.home.path(), &one.account).read(KeyFile::Current);
    assert_eq!(current.unwrap().info().serial, serial(&made));
    assert!(!one.file(KeyFile::Next).exists());
    // Without the store nothing is known, so no step is made.
    *store.is_down.lock().unwrap() = true;
    std::fs::remove_file(one.file(KeyFile::Current)).unwrap();
    assert!(step(&one).await.is_err());
    assert!(!one.file(KeyFile::Next).exists());
    assert_eq!(one.valid().len(), 1);
}

#[tokio::test]
async fn invalid_or_foreign_files_of_a_store_replace_nothing() {
    let scene = Scene::new();
    let serial = first(&scene).await;
    let files = KeyFiles::new(scene.home.path(), &scene.account);
    let name = format!("{}.pem", scene.account.address());
    let mine = files.contents().unwrap();
    assert_eq!(mine.keys().collect::<Vec<_>>(), [&name]);
    let another = Scene {
        account: Arc::new(PrivateKey::from_bytes(&[8; 32]).unwrap()),
        ..Scene::new()
    };
    let own = OwnCertificate::make(another.account.address(), &scene.rotation().settings.usage, NOW).unwrap();
    let foreign = KeyFiles::new(another.home.path(), &another.account);
    foreign.write(KeyFile::Current, &own).unwrap();
    let foreign = foreign.contents().unwrap().into_values().next().unwrap();
    for invalid in [b"text".to_vec(), foreign, vec![b'-'; 1 << 20]] {
        let copy = FileContents::from([(name.clone(), invalid)]);
        assert!(files.adopt(&copy).is_err());
    }
    // Entries of other programs are no copy.
    files
        .adopt(&FileContents::from([("tls.crt".to_owned(), Vec::new())]))
        .unwrap();
    assert_eq!(files.read(KeyFile::Current).unwrap().info().serial, serial);
}
