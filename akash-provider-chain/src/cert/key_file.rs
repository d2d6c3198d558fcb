//! Files with a certificate and its private key, compatible with the Go provider.
//!
//! `HOME/ADDRESS.pem` has two PEM blocks: the certificate, and its private key in PKCS#8 form, encrypted
//! (PBKDF2 with HMAC-SHA-256, 600000 rounds, AES-256-CBC). The password is the signature of the account key
//! over the text of the address, so every process with the account key can decrypt the file. An older version
//! of the format has a `Proc-Type: 4,ENCRYPTED` header. In this version, the password is the signature of the
//! account key over the bytes of the address. Both versions can be read.

use super::{CERTIFICATE, CertError, OwnCertificate, PEM_BYTES_MAX, encode_pem};
use crate::private_file;
use crate::private_key::PrivateKey;
use crate::regular_file;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use data_encoding::HEXUPPER_PERMISSIVE;
use md5::{Digest, Md5};
use p256::ecdsa::SigningKey;
use p256::pkcs8::DecodePrivateKey;
use pem::Pem;
use pkcs8::pkcs5::pbes2::Parameters;
use pkcs8::{EncryptedPrivateKeyInfoRef, PrivateKeyInfoRef};
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use zeroize::Zeroizing;

mod copy;

pub use copy::FileContents;

const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";
const LEGACY: &str = "EC PRIVATE KEY";
const ROUNDS: u32 = 600_000;
/// Maximum number of PBKDF2 rounds. Without this limit, a manipulated file could use unlimited CPU time.
const ROUNDS_MAX: u32 = 10_000_000;
const SALT_BYTES: usize = 16;
const IV_BYTES: usize = 16;

/// Role of a certificate file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFile {
    /// Certificate in use.
    Current,
    /// Certificate that is being published on the chain. After the publication, `Next` replaces `Current`.
    Next,
    /// Previous certificate, which is not revoked on the chain yet.
    Old,
}

/// Certificate files of one chain account in a home folder.
#[derive(Debug)]
pub struct KeyFiles<'a> {
    home: &'a Path,
    account: &'a PrivateKey,
}

impl<'a> KeyFiles<'a> {
    /// Returns the certificate files of `account` in the folder `home`.
    #[must_use]
    pub const fn new(home: &'a Path, account: &'a PrivateKey) -> Self {
        Self { home, account }
    }

    /// Returns the path of the certificate file with the role `which`.
    #[must_use]
    pub fn path(&self, which: KeyFile) -> PathBuf {
        let ending = match which {
            KeyFile::Current => "pem",
            KeyFile::Next => "next.pem",
            KeyFile::Old => "old.pem",
        };
        self.home.join(format!("{}.{ending}", self.account.address()))
    }

    /// Reads the certificate file with the role `which`.
    ///
    /// # Errors
    /// Returns an error if the file does not exist, is invalid, or belongs to another chain account.
    pub fn read(&self, which: KeyFile) -> Result<OwnCertificate, CertError> {
        let path = self.path(which);
        self.decode(&read_file(&path)?, &path)
    }

    /// Decodes the contents of a certificate file. `path` is for error messages.
    fn decode(&self, text: &[u8], path: &Path) -> Result<OwnCertificate, CertError> {
        let damaged = |why: String| CertError::damaged(path, why);
        let blocks = pem::parse_many(text).map_err(|e| damaged(e.to_string()))?;
        let find = |tags: &[&str]| blocks.iter().find(|b| tags.contains(&b.tag()));
        let certificate =
            find(&[CERTIFICATE]).ok_or_else(|| damaged(format!("no PEM block `{CERTIFICATE}`")))?;
        let block =
            find(&[ENCRYPTED, LEGACY]).ok_or_else(|| damaged(format!("no PEM block `{ENCRYPTED}`")))?;
        let key = self.decrypt(block, path)?;
        let own =
            OwnCertificate::new(certificate.contents().to_vec(), key).map_err(|e| damaged(e.to_string()))?;
        // The account key decrypts the file, but the certificate in the file may name another account.
        if own.info.owner != *self.account.address() {
            return Err(CertError::Owner {
                expected: self.account.address().clone(),
                found: own.info.owner.to_string(),
            });
        }
        Ok(own)
    }

    /// Atomically writes the certificate file with the role `which`.
    ///
    /// If the path is a symbolic link, the target of the link is written. The target need not exist.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, which: KeyFile, own: &OwnCertificate) -> Result<(), CertError> {
        let text = Zeroizing::new(self.encode(own)?);
        replace(&target(self.path(which)), text.as_bytes())
    }

    /// Replaces the file `Current` with the file `Next`. If `Current` is a symbolic link, the target of the
    /// link is replaced.
    ///
    /// # Errors
    /// Returns an error if the file `Next` does not exist, or if a file operation fails.
    pub fn promote(&self) -> Result<(), CertError> {
        let (from, to) = (self.path(KeyFile::Next), target(self.path(KeyFile::Current)));
        if to.parent() == from.parent() {
            return rename(&from, &to);
        }
        // The target may be on another file system, where `rename` fails.
        replace(&to, &Zeroizing::new(read_file(&from)?))?;
        // The next file is removed last. After a crash in between, `swap` finds two equal files and completes.
        self.discard_next()
    }

    /// Copies the file `Current` to the file `Old`, then replaces the file `Current` with the file `Next`.
    ///
    /// The modification time of the file `Old` is the time of the swap. A call after a crash completes the
    /// swap.
    ///
    /// # Errors
    /// Returns an error if the file `Next` does not exist, or if a file operation fails.
    pub fn swap(&self) -> Result<(), CertError> {
        let (next, current) = (self.path(KeyFile::Next), self.path(KeyFile::Current));
        if !next.exists() {
            return Err(CertError::Absent { path: next });
        }
        if current.exists() {
            let (before, after) = (
                Zeroizing::new(read_file(&current)?),
                Zeroizing::new(read_file(&next)?),
            );
            // An earlier call crashed after the copy: the certificate in use must not become the old one too.
            if before == after {
                return self.discard_next();
            }
            // The old file is written before the current file is replaced, so that no crash loses a certificate that
            // must be revoked. The file is written, not renamed: its modification time is the time of the swap.
            replace(&self.path(KeyFile::Old), &before)?;
        }
        self.promote()
    }

    /// Returns the time of the last [`swap`](Self::swap), since the Unix epoch: the modification time of the file
    /// `Old`.
    ///
    /// # Errors
    /// Returns an error if the file `Old` does not exist, or if the file system does not report the time.
    pub fn swapped_at(&self) -> Result<Duration, CertError> {
        let path = self.path(KeyFile::Old);
        let time = fs::metadata(&path).and_then(|m| m.modified());
        let time = time.map_err(CertError::io("read the time of", &path))?;
        // A time before 1970 becomes 0, so the grace period is over.
        Ok(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
    }

    /// Removes the file `Old`, if it exists.
    ///
    /// # Errors
    /// Returns an error if the file cannot be removed.
    pub fn discard_old(&self) -> Result<(), CertError> {
        self.remove(KeyFile::Old)
    }

    /// Removes the file `Next`, if it exists.
    ///
    /// # Errors
    /// Returns an error if the file cannot be removed.
    pub fn discard_next(&self) -> Result<(), CertError> {
        self.remove(KeyFile::Next)
    }

    fn remove(&self, which: KeyFile) -> Result<(), CertError> {
        let path = self.path(which);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(CertError::io("remove", &path)(source))
            }
            _ => Ok(()),
        }
    }

    fn encode(&self, own: &OwnCertificate) -> Result<String, CertError> {
        let mut salt = [0; SALT_BYTES];
        let mut iv = [0; IV_BYTES];
        let random = |e: getrandom::Error| CertError::Randomness(e.to_string());
        // All files of an account have the same password, so salt and initialization vector must be unique.
        getrandom::fill(&mut salt).map_err(random)?;
        getrandom::fill(&mut iv).map_err(random)?;
        let malformed = |e: &dyn ToString| CertError::Malformed(e.to_string());
        let parameters =
            Parameters::generate_pbkdf2_sha256_aes256cbc(ROUNDS, &salt, iv).map_err(|e| malformed(&e))?;
        let der = own.private_key_der()?;
        let info = PrivateKeyInfoRef::try_from(der.as_slice()).map_err(|e| malformed(&e))?;
        let password = Zeroizing::new(password(self.account));
        let sealed = info
            .encrypt_with_params(parameters, password.as_slice())
            .map_err(|e| malformed(&e))?;
        Ok(format!(
            "{}{}",
            own.cert_pem(),
            encode_pem(ENCRYPTED, sealed.as_bytes())
        ))
    }

    fn decrypt(&self, block: &Pem, path: &Path) -> Result<SigningKey, CertError> {
        let damaged = |why: &str| CertError::damaged(path, why);
        let wrong = || CertError::WrongKey {
            path: path.to_owned(),
        };
        if block.tag() == LEGACY {
            let password = Zeroizing::new(self.account.sign(&self.account.address().to_bytes()));
            return decrypt_legacy(block, password.as_slice())
                .ok_or_else(|| damaged("unsupported format of the encrypted `EC PRIVATE KEY` block"))?
                .ok_or_else(wrong);
        }
        let sealed = EncryptedPrivateKeyInfoRef::try_from(block.contents())
            .map_err(|_| damaged("the private key is not encrypted PKCS#8"))?;
        // Checked before the key derivation: the file selects the number of rounds, and with it the CPU time.
        let rounds = sealed
            .encryption_algorithm
            .pbes2()
            .and_then(|p| p.kdf.pbkdf2())
            .map(|k| k.iteration_count);
        if rounds.is_none_or(|r| r > ROUNDS_MAX) {
            return Err(damaged(
                "the private key is not encrypted with PBKDF2 of at most 10000000 rounds",
            ));
        }
        let password = Zeroizing::new(password(self.account));
        // A wrong password results in bad padding or in bytes that are not a key. Both are the same failure.
        let der = sealed.decrypt(password.as_slice()).map_err(|_| wrong())?;
        SigningKey::from_pkcs8_der(der.as_bytes()).map_err(|_| wrong())
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), CertError> {
    fs::rename(from, to).map_err(CertError::io_or_absent("rename", from))
}

pub(super) fn password(account: &PrivateKey) -> [u8; crate::private_key::SIGNATURE_BYTES] {
    account.sign(account.address().as_str().as_bytes())
}

/// Decrypts a private key in the PEM format of older Go providers. Returns `None` for any other format, and
/// `Some(None)` for a wrong password.
#[expect(clippy::option_option, reason = "two different failures of one small step")]
fn decrypt_legacy(block: &Pem, password: &[u8]) -> Option<Option<SigningKey>> {
    let info = block.headers().get("DEK-Info")?;
    let (algorithm, iv) = info.split_once(',')?;
    if algorithm.trim() != "AES-256-CBC" {
        return None;
    }
    let iv: [u8; IV_BYTES] = HEXUPPER_PERMISSIVE
        .decode(iv.trim().as_bytes())
        .ok()?
        .try_into()
        .ok()?;
    // The older format of OpenSSL uses the first half of the initialization vector as the salt.
    let key = legacy_key(password, iv.get(..8)?);
    let opened = cbc::Decryptor::<aes::Aes256>::new((&*key).into(), (&iv).into())
        .decrypt_padded_vec::<Pkcs7>(block.contents())
        .map(Zeroizing::new);
    let Ok(der) = opened else {
        return Some(None);
    };
    // About 1 of 256 wrong passwords results in valid padding, so only a parsed key proves the password.
    let pkcs8 = SigningKey::from_pkcs8_der(&der).ok();
    Some(pkcs8.or_else(|| {
        p256::SecretKey::from_sec1_der(&der)
            .ok()
            .map(|k| SigningKey::from(&k))
    }))
}

/// Derives the encryption key of a file in the legacy PEM format.
fn legacy_key(password: &[u8], salt: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    let mut last: Vec<u8> = Vec::new();
    for part in key.chunks_mut(16) {
        let digest = Md5::new()
            .chain_update(&last)
            .chain_update(password)
            .chain_update(salt)
            .finalize();
        part.copy_from_slice(&digest);
        last = digest.to_vec();
    }
    key
}

/// Returns the target of a symbolic link, even if the target does not exist. Returns any other path
/// unchanged.
fn target(path: PathBuf) -> PathBuf {
    let Ok(leads_to) = fs::read_link(&path) else {
        return path;
    };
    path.parent()
        .map_or_else(|| leads_to.clone(), |folder| folder.join(&leads_to))
}

/// Writes a file atomically. The file is readable only by its owner.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), CertError> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(CertError::io("create the folder of", path))?;
    // Two processes must not write to the same temporary file.
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    private_file::replace(path, &temporary, bytes).map_err(CertError::io("write", path))
}

fn read_file(path: &Path) -> Result<Vec<u8>, CertError> {
    let io = CertError::io_or_absent("read", path);
    let mut bytes = Vec::new();
    let file = regular_file::open(path).map_err(&io)?;
    let limit = PEM_BYTES_MAX as u64;
    // One byte more than allowed distinguishes a file that is too large from one of the maximum size.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(&io)?;
    if bytes.len() > PEM_BYTES_MAX {
        return Err(CertError::damaged(
            path,
            format!("larger than {PEM_BYTES_MAX} bytes"),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "key_file/tests.rs"]
mod tests;
