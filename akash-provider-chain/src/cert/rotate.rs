//! Carries out a rotation: each call does the one step that [`next_step`] names, and says what it did.
//!
//! ```text
//!   Make ─▶ Publish ─▶ in a block ─▶ Swap: current becomes old, next becomes current ─▶ grace ─▶ Revoke old ─▶ Keep
//! ```
//! Everything that must be known after a crash is in files: the next certificate, and the old one with the time of
//! the swap as the time of its file. Nothing is revoked unless one answer of the chain shows the old certificate as
//! valid and one that replaces it as valid too, both byte for byte; what is absent from an answer is unknown.

use super::rotation::{OnChain, on_chain};
use super::{CertError, Facts, KeyFile, KeyFiles, OwnCertificate, Step, Usage, next_step};
use crate::private_key::PrivateKey;
use akash_provider_core::chain::{Certificate, ChainClient};
use akash_provider_core::error::Error;
use akash_provider_core::types::{Address, BlockTime, Msg, TxOutcome};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// How often the block time is asked for while an outcome is unknown.
const UNKNOWN_POLL: Duration = Duration::from_secs(5);
/// Block time passes the timeout of a transaction within this, unless the chain stands still.
const UNKNOWN_MAX: Duration = Duration::from_secs(300);

/// How a certificate is kept valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotationSettings {
    /// What it is for.
    pub usage: Usage,
    /// How long the old one stays valid after the swap: clients may still hold connections or have read it.
    pub grace: Duration,
    /// Longest time between two looks at the chain: somebody else may revoke what is in use.
    pub recheck_max: Duration,
    /// First wait after a failure; it doubles.
    pub retry_min: Duration,
    /// Longest wait after a failure.
    pub retry_max: Duration,
}

impl RotationSettings {
    /// The usual times: an hour of grace, a look at the chain every six hours, waits of 5 seconds to 10 minutes.
    #[must_use]
    pub const fn new(usage: Usage) -> Self {
        Self {
            usage,
            grace: Duration::from_secs(3600),
            recheck_max: Duration::from_secs(6 * 3600),
            retry_min: Duration::from_secs(5),
            retry_max: Duration::from_secs(600),
        }
    }
}

/// What one step did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// Nothing is to be done for so long.
    Kept(Duration),
    /// A certificate with this serial was made; it is in the next file.
    Made(String),
    /// A certificate with this serial is in a block.
    Published(String),
    /// The certificate with this serial is in use.
    Swapped(String),
    /// The old certificate with this serial is revoked.
    Revoked(String),
    /// The next, or the old, file was of no use and is gone.
    Discarded,
}

/// Why a step was not done. Trying again later is right, whatever it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RotationError {
    /// A file or certificate is not what it should be.
    #[error(transparent)]
    Certificate(#[from] CertError),
    /// The chain cannot be asked.
    #[error(transparent)]
    Chain(#[from] Error),
    /// The chain refuses the transaction.
    #[error("the chain refuses to {what} ({code}): {log}")]
    Refused {
        /// What the transaction was for, as a verb phrase.
        what: &'static str,
        /// Codespace and code, as the outcome of the transaction has them.
        code: String,
        /// What the chain wrote about it: foreign text, for people only.
        log: String,
    },
    /// It is not known whether a transaction landed.
    #[error("whether the chain took the transaction to {what} is not known yet")]
    Unknown {
        /// What the transaction was for, as a verb phrase.
        what: &'static str,
    },
    /// A task of this process ended in the middle.
    #[error("the rotation was interrupted: {0}")]
    Interrupted(String),
}

/// Keeps an account's certificate valid.
pub struct Rotation {
    chain: Arc<dyn ChainClient>,
    home: PathBuf,
    account: Arc<PrivateKey>,
    settings: RotationSettings,
}

impl fmt::Debug for Rotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rotation")
            .field("home", &self.home)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// What the files hold.
struct Held {
    current: Option<OwnCertificate>,
    next: Option<OwnCertificate>,
    /// With the time of the swap, since the Unix epoch.
    old: Option<(OwnCertificate, Duration)>,
}

impl Held {
    fn read(files: &KeyFiles<'_>) -> Result<Self, CertError> {
        let read = |which| match files.read(which) {
            Ok(own) => Ok(Some(own)),
            Err(CertError::Absent { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let old = match read(KeyFile::Old)? {
            Some(own) => Some((own, files.swapped_at()?)),
            None => None,
        };
        Ok(Self {
            current: read(KeyFile::Current)?,
            next: read(KeyFile::Next)?,
            old,
        })
    }
}

/// What is to be done about the old certificate.
enum Old {
    Wait(Duration),
    Revoke(Msg, String),
    Discard,
}

impl Rotation {
    /// A rotation of the account's files in a home folder. The account's key also signs the transactions of
    /// `chain`.
    #[must_use]
    pub const fn new(
        chain: Arc<dyn ChainClient>,
        home: PathBuf,
        account: Arc<PrivateKey>,
        settings: RotationSettings,
    ) -> Self {
        Self {
            chain,
            home,
            account,
            settings,
        }
    }

    /// Goes on until `stop`: `in_use` is told the certificate at the start, when there is one, and after each swap.
    pub async fn run(&self, in_use: impl Fn(OwnCertificate) + Send + Sync, stop: CancellationToken) {
        let mut told = None;
        let mut wait = self.settings.retry_min;
        loop {
            let pause = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                done = self.step(since_epoch()) => match done {
                    Ok(Done::Kept(recheck)) => {
                        wait = self.settings.retry_min;
                        recheck.min(self.settings.recheck_max)
                    }
                    Ok(done) => {
                        tracing::info!(?done, "certificate");
                        wait = self.settings.retry_min;
                        Duration::ZERO
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the certificate cannot be kept valid; trying again");
                        let pause = wait;
                        wait = (wait * 2).min(self.settings.retry_max);
                        pause
                    }
                },
            };
            // Read after a failed step too: a swap that failed may have changed the file all the same.
            if let Ok(Some(own)) = self
                .with_files(|files| Held::read(files).map(|held| held.current))
                .await
            {
                let serial = own.facts().serial.clone();
                if told.as_ref() != Some(&serial) {
                    told = Some(serial);
                    in_use(own);
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does the next step; `now` is since the Unix epoch.
    ///
    /// # Errors
    /// When it could not be done. It is found again by the next call.
    pub async fn step(&self, now: Duration) -> Result<Done, RotationError> {
        // The chain is asked first: when that fails, no file was opened for nothing, which is slow.
        let published = self.chain.certificates(self.account.address(), None).await?;
        let held = self.with_files(Held::read).await?;
        let pem = |own: &Option<OwnCertificate>| own.as_ref().map(OwnCertificate::cert_pem);
        let (current, next) = (pem(&held.current), pem(&held.next));
        let step = next_step(
            view(&held.current, current.as_ref()),
            view(&held.next, next.as_ref()),
            &published,
            now,
        );
        match step {
            Step::Make => self.make(now).await,
            Step::PublishNext => self.publish(held.next).await,
            Step::PublishCurrent => self.publish(held.current).await,
            // Cut off in the middle of a swap: nothing is in use, and the old one is where it belongs.
            Step::Promote { .. } if held.current.is_none() => self.swap(held.next).await,
            Step::Promote { .. } => match old_step(&held, &published, now, self.settings.grace) {
                // One file holds one old certificate: it is dealt with first.
                Some(Old::Wait(left)) if left > Duration::ZERO => Ok(Done::Kept(left)),
                Some(Old::Revoke(msg, serial)) => self.revoke(msg, serial).await,
                _ => self.swap(held.next).await,
            },
            Step::DiscardNext => {
                self.with_files(|files| files.discard_next()).await?;
                Ok(Done::Discarded)
            }
            Step::Keep { recheck_in } => match old_step(&held, &published, now, self.settings.grace) {
                None => Ok(Done::Kept(recheck_in)),
                Some(Old::Wait(left)) => Ok(Done::Kept(recheck_in.min(left))),
                Some(Old::Revoke(msg, serial)) => self.revoke(msg, serial).await,
                Some(Old::Discard) => {
                    self.with_files(|files| files.discard_old()).await?;
                    Ok(Done::Discarded)
                }
            },
        }
    }

    async fn make(&self, now: Duration) -> Result<Done, RotationError> {
        let (owner, usage) = (self.account.address().clone(), self.settings.usage.clone());
        let made = move |files: &KeyFiles<'_>| {
            let own = OwnCertificate::make(&owner, &usage, now)?;
            // Written before it is published: on the chain a certificate without its key is of no use.
            files.write(KeyFile::Next, &own)?;
            Ok(own.facts().serial.clone())
        };
        Ok(Done::Made(self.with_files(made).await?))
    }

    async fn publish(&self, own: Option<OwnCertificate>) -> Result<Done, RotationError> {
        let absent = || RotationError::Interrupted("the certificate is gone".to_owned());
        let own = own.ok_or_else(absent)?;
        self.send("publish the certificate", own.publish()).await?;
        Ok(Done::Published(own.facts().serial.clone()))
    }

    async fn swap(&self, next: Option<OwnCertificate>) -> Result<Done, RotationError> {
        self.with_files(|files| files.swap()).await?;
        Ok(Done::Swapped(
            next.map_or_else(String::new, |own| own.facts().serial.clone()),
        ))
    }

    async fn revoke(&self, msg: Msg, serial: String) -> Result<Done, RotationError> {
        // The file stays until a later answer of the chain shows the certificate as revoked.
        self.send("revoke the old certificate", msg).await?;
        Ok(Done::Revoked(serial))
    }

    /// Sends and waits until it is certain what became of it.
    async fn send(&self, what: &'static str, msg: Msg) -> Result<(), RotationError> {
        match self.chain.broadcast_msgs(vec![msg]).await? {
            TxOutcome::Committed { .. } => Ok(()),
            TxOutcome::Rejected { code, log, .. } => Err(RotationError::Refused { what, code, log }),
            TxOutcome::Unknown { expires } => {
                // Before it can no longer land, nothing that is read says that it did not.
                drop(tokio::time::timeout(UNKNOWN_MAX, self.until(expires)).await);
                Err(RotationError::Unknown { what })
            }
        }
    }

    async fn until(&self, time: BlockTime) {
        loop {
            // A failed question says nothing; the caller limits how long it is repeated.
            if matches!(self.chain.sync_info().await, Ok(info) if info.time > time) {
                return;
            }
            tokio::time::sleep(UNKNOWN_POLL).await;
        }
    }

    /// Files are slow on purpose: opening one takes 600,000 rounds.
    async fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&KeyFiles<'_>) -> Result<T, CertError> + Send + 'static,
    ) -> Result<T, RotationError> {
        let (home, account) = (self.home.clone(), Arc::clone(&self.account));
        let task = tokio::task::spawn_blocking(move || work(&KeyFiles::new(&home, &account)));
        let done = task
            .await
            .map_err(|e| RotationError::Interrupted(e.to_string()))?;
        Ok(done?)
    }

    /// The account whose certificate is kept valid.
    #[must_use]
    pub fn owner(&self) -> &Address {
        self.account.address()
    }
}

fn view<'a>(own: &'a Option<OwnCertificate>, pem: Option<&'a String>) -> Option<(&'a Facts, &'a [u8])> {
    Some((own.as_ref()?.facts(), pem?.as_bytes()))
}

/// What to do about the old certificate, if there is one.
fn old_step(held: &Held, published: &[Certificate], now: Duration, grace: Duration) -> Option<Old> {
    let (old, swapped) = held.old.as_ref()?;
    let stands = |own: &OwnCertificate| on_chain(own.facts(), own.cert_pem().as_bytes(), published);
    // Nothing is left to revoke: it has expired, was revoked, or its serial is another certificate's.
    if !old.facts().is_valid_at(now) || stands(old) == OnChain::Useless {
        return Some(Old::Discard);
    }
    let left = swapped.saturating_add(grace).saturating_sub(now);
    let others = held.current.iter().chain(&held.next);
    // The old one does not replace itself: after a swap that was cut off both files may hold it.
    let mut others = others.filter(|own| own.facts().serial != old.facts().serial);
    let replaced = others.any(|own| stands(own) == OnChain::Valid);
    if replaced && stands(old) == OnChain::Valid && left.is_zero() {
        return Some(Old::Revoke(old.revoke(), old.facts().serial.clone()));
    }
    Some(Old::Wait(left))
}

fn since_epoch() -> Duration {
    // A clock before 1970 makes every certificate invalid, which is said where it is read.
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "rotate/tests.rs"]
mod tests;
