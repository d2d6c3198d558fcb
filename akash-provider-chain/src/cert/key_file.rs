//! The file of a certificate and its private key, as today's tool writes and reads it.
//!
//! `HOME/ADDRESS.pem` has two PEM blocks: the certificate, and its key in PKCS#8 form encrypted (PBKDF2 with
//! HMAC-SHA-256, 600000 rounds, AES-256-CBC). The password is the account key's signature of the address text, so
//! whoever has the account's key can open it. Older files have a `Proc-Type: 4,ENCRYPTED` header instead and a
//! signature of the address bytes; they are read.

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

const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";
const LEGACY: &str = "EC PRIVATE KEY";
const ROUNDS: u32 = 600_000;
/// More rounds than this is an attack on our time.
const ROUNDS_MAX: u32 = 10_000_000;
const SALT_BYTES: usize = 16;
const IV_BYTES: usize = 16;

/// Which of the three files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFile {
    /// The one in use.
    Current,
    /// The one that is being published, to be in use next.
    Next,
    /// The one that was in use before and is not revoked yet.
    Old,
}

/// Files of an account's certificate in a home folder.
#[derive(Debug)]
pub struct KeyFiles<'a> {
    home: &'a Path,
    account: &'a PrivateKey,
}

impl<'a> KeyFiles<'a> {
    /// Those of an account; its key opens them.
    #[must_use]
    pub const fn new(home: &'a Path, account: &'a PrivateKey) -> Self {
        Self { home, account }
    }

    /// Where a file is.
    #[must_use]
    pub fn path(&self, which: KeyFile) -> PathBuf {
        let ending = match which {
            KeyFile::Current => "pem",
            KeyFile::Next => "next.pem",
            KeyFile::Old => "old.pem",
        };
        self.home.join(format!("{}.{ending}", self.account.address()))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it is absent, damaged, or of another account.
    pub fn read(&self, which: KeyFile) -> Result<OwnCertificate, CertError> {
        let path = self.path(which);
        let damaged = |why: String| CertError::Damaged {
            path: path.clone(),
            why,
        };
        let text = read_file(&path)?;
        let blocks = pem::parse_many(&text).map_err(|e| damaged(e.to_string()))?;
        let find = |tags: &[&str]| blocks.iter().find(|b| tags.contains(&b.tag()));
        let certificate =
            find(&[CERTIFICATE]).ok_or_else(|| damaged(format!("it has no block `{CERTIFICATE}`")))?;
        let block =
            find(&[ENCRYPTED, LEGACY]).ok_or_else(|| damaged(format!("it has no block `{ENCRYPTED}`")))?;
        let key = self.decrypt(block, &path)?;
        let own =
            OwnCertificate::new(certificate.contents().to_vec(), key).map_err(|e| damaged(e.to_string()))?;
        // Whoever opens the file has the account's key; the certificate in it may still name another account.
        if own.facts.owner != *self.account.address() {
            return Err(CertError::Owner {
                expected: self.account.address().clone(),
                found: own.facts.owner.to_string(),
            });
        }
        Ok(own)
    }

    /// Writes a file; it is there as a whole or not at all. Where the path is a link, even one that leads to
    /// nothing yet, what it leads to is written and the link stays: in a container the file is often elsewhere.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, which: KeyFile, own: &OwnCertificate) -> Result<(), CertError> {
        let text = Zeroizing::new(self.encode(own)?);
        replace(&target(self.path(which)), text.as_bytes())
    }

    /// The next one becomes the one in use; a link to the latter stays.
    ///
    /// # Errors
    /// When there is none, or the file system refuses.
    pub fn promote(&self) -> Result<(), CertError> {
        let (from, to) = (self.path(KeyFile::Next), target(self.path(KeyFile::Current)));
        if to.parent() == from.parent() {
            return rename(&from, &to);
        }
        // Perhaps on another file system, where nothing can be renamed to.
        replace(&to, &Zeroizing::new(read_file(&from)?))?;
        // Only then is the next one removed: cut off in between, `swap` finds both files equal and ends it.
        self.discard_next()
    }

    /// The one in use becomes the old one, as of this moment, and the next one the one in use. Cut off in the
    /// middle, the next call ends it.
    ///
    /// # Errors
    /// When there is no next one, or the file system refuses.
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
            // An earlier call was cut off after the copy: what is in use must not become the old one too.
            if before == after {
                return self.discard_next();
            }
            // Before the current file is replaced, so that no crash loses what is to be revoked. Written and not
            // renamed: the time of this file is the time of the swap.
            replace(&self.path(KeyFile::Old), &before)?;
        }
        self.promote()
    }

    /// When the old one went out of use, since the Unix epoch.
    ///
    /// # Errors
    /// When there is none, or the file system does not say it.
    pub fn swapped_at(&self) -> Result<Duration, CertError> {
        let path = self.path(KeyFile::Old);
        let time = fs::metadata(&path).and_then(|m| m.modified());
        let time = time.map_err(|source| CertError::Io {
            operation: "read the time of",
            path,
            source,
        })?;
        // A time before 1970 reads as long ago: the grace is over.
        Ok(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
    }

    /// Removes the old one; fine when there is none.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn discard_old(&self) -> Result<(), CertError> {
        self.remove(KeyFile::Old)
    }

    /// Removes the next one; fine when there is none.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn discard_next(&self) -> Result<(), CertError> {
        self.remove(KeyFile::Next)
    }

    fn remove(&self, which: KeyFile) -> Result<(), CertError> {
        let path = self.path(which);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(CertError::Io {
                operation: "remove",
                path,
                source,
            }),
            _ => Ok(()),
        }
    }

    fn encode(&self, own: &OwnCertificate) -> Result<String, CertError> {
        let mut salt = [0; SALT_BYTES];
        let mut iv = [0; IV_BYTES];
        let random = |e: getrandom::Error| CertError::Randomness(e.to_string());
        // The password is the same for each file of an account, so salt and vector must not be.
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
        let damaged = |why: &str| CertError::Damaged {
            path: path.to_owned(),
            why: why.to_owned(),
        };
        let wrong = || CertError::WrongKey {
            path: path.to_owned(),
        };
        if block.tag() == LEGACY {
            let password = Zeroizing::new(self.account.sign(&self.account.address().to_bytes()));
            return decrypt_legacy(block, password.as_slice())
                .ok_or_else(|| damaged("its older form is not understood"))?
                .ok_or_else(wrong);
        }
        let sealed = EncryptedPrivateKeyInfoRef::try_from(block.contents())
            .map_err(|_| damaged("its key is not an encrypted PKCS#8 key"))?;
        // Before the key is derived: the number of rounds is in the file, and whoever wrote it would choose how long we
        // work.
        let rounds = sealed
            .encryption_algorithm
            .pbes2()
            .and_then(|p| p.kdf.pbkdf2())
            .map(|k| k.iteration_count);
        if rounds.is_none_or(|r| r > ROUNDS_MAX) {
            return Err(damaged(
                "its key is not encrypted with PBKDF2 of a bearable number of rounds",
            ));
        }
        let password = Zeroizing::new(password(self.account));
        // A wrong password shows as bad padding or as bytes that are no key: both are the same failure.
        let der = sealed.decrypt(password.as_slice()).map_err(|_| wrong())?;
        SigningKey::from_pkcs8_der(der.as_bytes()).map_err(|_| wrong())
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), CertError> {
    fs::rename(from, to).map_err(|source| match source.kind() {
        ErrorKind::NotFound => CertError::Absent {
            path: from.to_owned(),
        },
        _ => CertError::Io {
            operation: "rename",
            path: from.to_owned(),
            source,
        },
    })
}

/// Password of an account's files.
pub(super) fn password(account: &PrivateKey) -> [u8; crate::private_key::SIGNATURE_BYTES] {
    account.sign(account.address().as_str().as_bytes())
}

/// `None` when it is not that form, `Some(None)` when the password does not open it.
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
    // OpenSSL's older form takes the first half of the vector as the salt.
    let key = legacy_key(password, iv.get(..8)?);
    let opened = cbc::Decryptor::<aes::Aes256>::new((&*key).into(), (&iv).into())
        .decrypt_padded_vec::<Pkcs7>(block.contents())
        .map(Zeroizing::new);
    let Ok(der) = opened else {
        return Some(None);
    };
    // A wrong password passes the padding once in about 256 times: only a key that can be read is proof.
    let pkcs8 = SigningKey::from_pkcs8_der(&der).ok();
    Some(pkcs8.or_else(|| {
        p256::SecretKey::from_sec1_der(&der)
            .ok()
            .map(|k| SigningKey::from(&k))
    }))
}

/// The key derivation of older PEM files: MD5 over password and salt, chained until there are 32 bytes.
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

/// Where a path leads to when it is a link, one step: what is there need not exist.
fn target(path: PathBuf) -> PathBuf {
    let Ok(leads_to) = fs::read_link(&path) else {
        return path;
    };
    path.parent()
        .map_or_else(|| leads_to.clone(), |folder| folder.join(&leads_to))
}

/// Puts a file in place as a whole, readable by its owner alone.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), CertError> {
    let io = |operation| {
        move |source| CertError::Io {
            operation,
            path: path.to_owned(),
            source,
        }
    };
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(io("create the folder of"))?;
    // Two processes must not write to the same temporary file.
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    private_file::replace(path, &temporary, bytes).map_err(io("write"))
}

fn read_file(path: &Path) -> Result<Vec<u8>, CertError> {
    let io = |source: std::io::Error| match source.kind() {
        ErrorKind::NotFound => CertError::Absent {
            path: path.to_owned(),
        },
        _ => CertError::Io {
            operation: "read",
            path: path.to_owned(),
            source,
        },
    };
    let mut bytes = Vec::new();
    let file = regular_file::open(path).map_err(io)?;
    let limit = PEM_BYTES_MAX as u64;
    // One byte more than allowed tells a file that is too large from one that just fits.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() > PEM_BYTES_MAX {
        let why = format!("it is larger than {PEM_BYTES_MAX} bytes");
        return Err(CertError::Damaged {
            path: path.to_owned(),
            why,
        });
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "key_file/tests.rs"]
mod tests;
