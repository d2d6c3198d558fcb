//! Certificate rotation. Each call of [`Rotation::step`] performs the step that [`next_step`] returns.
//!
//! ```text
//!   Make ─▶ Publish ─▶ in a block ─▶ Swap: current becomes old, next becomes current ─▶ grace period ─▶ Revoke old
//! ```
//! The state that must survive a crash is in files: the next certificate and the old certificate. The
//! modification time of the old certificate file is the time of the swap. The old certificate is revoked only
//! if one response of the chain contains both the old certificate and its replacement. Both must be valid and
//! byte for byte equal to the files. If a response does not contain a certificate, the state of this
//! certificate counts as unknown.

use super::rotation::{ChainStatus, chain_status};
use super::shared::{SharedFiles, with_files};
use super::{
    CertError, CertUsage, CertificateInfo, KeyFile, KeyFiles, OwnCertificate, RotationError, RotationStep,
    next_step,
};
use crate::private_key::PrivateKey;
use akash_provider_core::chain::{Certificate, ChainClient};
use akash_provider_core::types::{Address, BlockTime, Msg, TxOutcome};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// Interval between queries of the block time while the outcome of a transaction is unknown.
const UNKNOWN_POLL: Duration = Duration::from_secs(5);
/// Maximum time to wait for the expiry of a transaction with an unknown outcome.
const UNKNOWN_MAX: Duration = Duration::from_secs(300);

/// Settings of a certificate rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RotationSettings {
    /// Purpose of the certificate.
    pub usage: CertUsage,
    /// Time between the swap and the revocation of the old certificate.
    pub grace: Duration,
    /// Maximum interval between two queries of the certificates on the chain.
    pub recheck_max: Duration,
    /// Back-off after the first failed step. The back-off doubles after each further failure.
    pub retry_min: Duration,
    /// Maximum back-off after a failed step.
    pub retry_max: Duration,
}

impl RotationSettings {
    /// Returns the default settings: a grace period of one hour, a query every six hours, a back-off of 5 seconds to
    /// 10 minutes.
    #[must_use]
    pub const fn new(usage: CertUsage) -> Self {
        Self {
            usage,
            grace: Duration::from_secs(3600),
            recheck_max: Duration::from_secs(6 * 3600),
            retry_min: Duration::from_secs(5),
            retry_max: Duration::from_secs(600),
        }
    }
}

/// Result of one rotation step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepResult {
    /// No action was necessary. The next step is due after this duration.
    Idle(Duration),
    /// A certificate with this serial was generated and written to the file `Next`.
    Generated(String),
    /// The certificate with this serial was published in a block.
    Published(String),
    /// The certificate with this serial is in use now.
    Swapped(String),
    /// The old certificate with this serial was revoked.
    Revoked(String),
    /// The unusable file `Next` or `Old` was removed.
    Discarded,
}

/// Rotation of the certificate of one chain account.
pub struct Rotation {
    chain: Arc<dyn ChainClient>,
    home: PathBuf,
    account: Arc<PrivateKey>,
    settings: RotationSettings,
    shared: Option<Arc<SharedFiles>>,
}

impl fmt::Debug for Rotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rotation")
            .field("home", &self.home)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

struct StoredCertificates {
    current: Option<OwnCertificate>,
    next: Option<OwnCertificate>,
    /// Old certificate, and the time at which it was replaced (since the Unix epoch).
    old: Option<(OwnCertificate, Duration)>,
}

impl StoredCertificates {
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

enum OldAction {
    Wait(Duration),
    Revoke(Msg, String),
    Discard,
}

impl Rotation {
    /// Creates a rotation of the certificate files of `account` in the folder `home`.
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
            shared: None,
        }
    }

    /// Shares the certificate files with other instances, see [`SharedFiles`].
    #[must_use]
    pub fn sharing(mut self, shared: Option<Arc<SharedFiles>>) -> Self {
        self.shared = shared;
        self
    }

    /// Runs the rotation until `stop` is cancelled. Calls `in_use` with the current certificate at the start and
    /// after each swap.
    pub async fn run(&self, in_use: impl Fn(OwnCertificate) + Send + Sync, stop: CancellationToken) {
        let mut reported = None;
        let mut wait = self.settings.retry_min;
        loop {
            let pause = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                done = self.shared_step(since_epoch()) => match done {
                    Ok(StepResult::Idle(recheck)) => {
                        wait = self.settings.retry_min;
                        recheck.min(self.settings.recheck_max)
                    }
                    Ok(done) => {
                        tracing::info!(?done, "rotation of the provider's certificate: one step completed, see the field `done`");
                        wait = self.settings.retry_min;
                        Duration::ZERO
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot rotate the provider's certificate, retrying: check the certificate files, the key and the chain node");
                        let pause = wait;
                        wait = (wait * 2).min(self.settings.retry_max);
                        pause
                    }
                },
            };
            // Also read after a failed step: a failed swap may have replaced the file.
            if let Ok(Some(own)) = self
                .with_files(|files| StoredCertificates::read(files).map(|stored| stored.current))
                .await
            {
                let serial = own.info().serial.clone();
                if reported.as_ref() != Some(&serial) {
                    reported = Some(serial);
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

    /// Performs the next step with the files in the store, and saves the changed files there.
    async fn shared_step(&self, now: Duration) -> Result<StepResult, RotationError> {
        let Some(shared) = &self.shared else {
            return self.step(now).await;
        };
        let _turn = shared.turn.lock().await;
        let before = shared.load_into(&self.home, &self.account).await?;
        let done = self.step(now).await;
        // Also after a failed step, which may have changed a file.
        shared.save_from(&before, &self.home, &self.account).await?;
        done
    }

    /// Performs the next step of the rotation. `now` is the time since the Unix epoch.
    ///
    /// # Errors
    /// Returns an error if the step failed. The next call retries the step.
    pub async fn step(&self, now: Duration) -> Result<StepResult, RotationError> {
        // The chain is queried first: decrypting the files is slow, and useless if the query fails.
        let published = self.chain.certificates(self.account.address(), None).await?;
        let stored = self.with_files(StoredCertificates::read).await?;
        let pem = |own: &Option<OwnCertificate>| own.as_ref().map(OwnCertificate::cert_pem);
        let (current, next) = (pem(&stored.current), pem(&stored.next));
        let step = next_step(
            view(&stored.current, current.as_ref()),
            view(&stored.next, next.as_ref()),
            &published,
            now,
        );
        match step {
            RotationStep::Make => self.make(now).await,
            RotationStep::PublishNext => self.publish(stored.next).await,
            RotationStep::PublishCurrent => self.publish(stored.current).await,
            // A swap was interrupted: there is no current file, and the old file is already written.
            RotationStep::Promote if stored.current.is_none() => self.swap(stored.next).await,
            RotationStep::Promote => match old_step(&stored, &published, now, self.settings.grace) {
                // There is only one old file, so the old certificate is revoked first.
                Some(OldAction::Wait(left)) if left > Duration::ZERO => Ok(StepResult::Idle(left)),
                Some(OldAction::Revoke(msg, serial)) => self.revoke(msg, serial).await,
                _ => self.swap(stored.next).await,
            },
            RotationStep::DiscardNext => {
                self.with_files(|files| files.discard_next()).await?;
                Ok(StepResult::Discarded)
            }
            RotationStep::Keep { recheck_in } => {
                match old_step(&stored, &published, now, self.settings.grace) {
                    None => Ok(StepResult::Idle(recheck_in)),
                    Some(OldAction::Wait(left)) => Ok(StepResult::Idle(recheck_in.min(left))),
                    Some(OldAction::Revoke(msg, serial)) => self.revoke(msg, serial).await,
                    Some(OldAction::Discard) => {
                        self.with_files(|files| files.discard_old()).await?;
                        Ok(StepResult::Discarded)
                    }
                }
            }
        }
    }

    async fn make(&self, now: Duration) -> Result<StepResult, RotationError> {
        let (owner, usage) = (self.account.address().clone(), self.settings.usage.clone());
        let made = move |files: &KeyFiles<'_>| {
            let own = OwnCertificate::make(&owner, &usage, now)?;
            // Written before the publication: a published certificate without its private key is useless.
            files.write(KeyFile::Next, &own)?;
            Ok(own.info().serial.clone())
        };
        Ok(StepResult::Generated(self.with_files(made).await?))
    }

    async fn publish(&self, own: Option<OwnCertificate>) -> Result<StepResult, RotationError> {
        let absent = || RotationError::Interrupted("the certificate file does not exist".to_owned());
        let own = own.ok_or_else(absent)?;
        self.send("publish the certificate", own.publish()).await?;
        Ok(StepResult::Published(own.info().serial.clone()))
    }

    async fn swap(&self, next: Option<OwnCertificate>) -> Result<StepResult, RotationError> {
        self.with_files(|files| files.swap()).await?;
        Ok(StepResult::Swapped(
            next.map_or_else(String::new, |own| own.info().serial.clone()),
        ))
    }

    async fn revoke(&self, msg: Msg, serial: String) -> Result<StepResult, RotationError> {
        // The file remains until a later response of the chain reports the certificate as revoked.
        self.send("revoke the old certificate", msg).await?;
        Ok(StepResult::Revoked(serial))
    }

    /// Sends `msg` and waits until a block contains the transaction.
    ///
    /// If the outcome is unknown, waits for at most [`UNKNOWN_MAX`], then returns an error.
    async fn send(&self, what: &'static str, msg: Msg) -> Result<(), RotationError> {
        match self.chain.broadcast_msgs(vec![msg]).await? {
            TxOutcome::Committed { .. } => Ok(()),
            TxOutcome::Rejected { code, log, .. } => Err(RotationError::Refused { what, code, log }),
            TxOutcome::Unknown { expires } => {
                // Before block time passes `expires`, the transaction can still be included.
                drop(tokio::time::timeout(UNKNOWN_MAX, self.until(expires)).await);
                Err(RotationError::Unknown { what })
            }
        }
    }

    async fn until(&self, time: BlockTime) {
        loop {
            // A failed query proves nothing. The caller limits the time of this loop.
            if matches!(self.chain.sync_info().await, Ok(info) if info.time > time) {
                return;
            }
            tokio::time::sleep(UNKNOWN_POLL).await;
        }
    }

    async fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&KeyFiles<'_>) -> Result<T, CertError> + Send + 'static,
    ) -> Result<T, RotationError> {
        with_files(&self.home, &self.account, work).await
    }

    /// Returns the chain account that owns the certificate.
    #[must_use]
    pub fn owner(&self) -> &Address {
        self.account.address()
    }
}

fn view<'a>(
    own: &'a Option<OwnCertificate>,
    pem: Option<&'a String>,
) -> Option<(&'a CertificateInfo, &'a [u8])> {
    Some((own.as_ref()?.info(), pem?.as_bytes()))
}

/// Returns the action for the old certificate, or `None` if no old certificate exists.
fn old_step(
    stored: &StoredCertificates,
    published: &[Certificate],
    now: Duration,
    grace: Duration,
) -> Option<OldAction> {
    let (old, swapped) = stored.old.as_ref()?;
    let status = |own: &OwnCertificate| chain_status(own.info(), own.cert_pem().as_bytes(), published);
    // The certificate needs no revocation: it is expired or revoked, or its serial belongs to another certificate.
    if !old.info().is_valid_at(now) || status(old) == ChainStatus::Invalid {
        return Some(OldAction::Discard);
    }
    let left = swapped.saturating_add(grace).saturating_sub(now);
    let others = stored.current.iter().chain(&stored.next);
    // After an interrupted swap, the current file may contain the old certificate, which cannot replace itself.
    let mut others = others.filter(|own| own.info().serial != old.info().serial);
    let replaced = others.any(|own| status(own) == ChainStatus::Valid);
    if replaced && status(old) == ChainStatus::Valid && left.is_zero() {
        return Some(OldAction::Revoke(old.revoke(), old.info().serial.clone()));
    }
    Some(OldAction::Wait(left))
}

fn since_epoch() -> Duration {
    // With a clock before 1970 every certificate is invalid, which is reported on parsing.
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "rotate/tests.rs"]
mod tests;
