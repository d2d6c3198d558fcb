use super::*;
use crate::cert::CertUsage;
use data_encoding::HEXLOWER;
use std::time::Duration;
use testbed::recordings;

fn account(byte: u8) -> PrivateKey {
    PrivateKey::from_bytes(&[byte; 32]).unwrap()
}

fn own(account: &PrivateKey) -> OwnCertificate {
    let usage = CertUsage::Server {
        domains: vec!["provider.example.com".into()],
    };
    OwnCertificate::make(
        account.address(),
        &usage,
        Duration::from_nanos(1_795_253_704_990_464_384),
    )
    .unwrap()
}

#[test]
fn reads_files_of_the_go_provider() {
    let folder = recordings::folder("chain/cert");
    let keys = [
        (
            "provider",
            "476b6588a0341cd336005f811383eb9c2a93c4bca787699219c0dc021cc85c0c",
        ),
        (
            "tenant",
            "bfc3769e37a12b62deb5f215d5af5e9260eda64f2b610a6eb363013e21a767a1",
        ),
    ];
    let passwords: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("pem-passwords.json")).unwrap()).unwrap();
    for (name, hex) in keys {
        let account = PrivateKey::from_bytes(&HEXLOWER.decode(hex.as_bytes()).unwrap()).unwrap();
        let recorded = passwords
            .as_array()
            .unwrap()
            .iter()
            .find(|p| p["key"] == name)
            .unwrap();
        assert_eq!(
            HEXLOWER.encode(&password(&account)),
            recorded["pem_password_hex"].as_str().unwrap()
        );
        let home = tempfile::tempdir().unwrap();
        let files = KeyFiles::new(home.path(), &account);
        let from = folder.join(format!("{name}-{}.pem", account.address()));
        let text = fs::read_to_string(&from).unwrap();
        fs::write(files.path(KeyFile::Current), &text).unwrap();
        let own = files.read(KeyFile::Current).unwrap();
        assert_eq!(own.info().serial, recorded["serial_decimal"].as_str().unwrap());
        assert!(text.starts_with(&own.cert_pem()));

        files.write(KeyFile::Next, &own).unwrap();
        let written = fs::read_to_string(files.path(KeyFile::Next)).unwrap();
        let shape = |text: &str| {
            text.lines()
                .map(|l| (l.starts_with('-'), l.len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(shape(&written), shape(&text), "{name}");
        assert_eq!(
            files.read(KeyFile::Next).unwrap().private_key_der().unwrap(),
            own.private_key_der().unwrap()
        );
    }
}

#[test]
fn writes_reads_promotes_and_discards_a_file() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let account = account(7);
    let files = KeyFiles::new(home.path(), &account);
    assert!(matches!(
        files.read(KeyFile::Current),
        Err(CertError::Absent { .. })
    ));
    assert!(matches!(files.promote(), Err(CertError::Absent { .. })));
    let own = own(&account);
    files.write(KeyFile::Next, &own).unwrap();
    let mode = fs::metadata(files.path(KeyFile::Next))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    files.promote().unwrap();
    assert_eq!(files.read(KeyFile::Current).unwrap().der(), own.der());
    assert_eq!(
        files.path(KeyFile::Current),
        home.path().join(format!("{}.pem", account.address()))
    );
    files.discard_next().unwrap();
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn reports_each_defect_of_a_file() {
    let home = tempfile::tempdir().unwrap();
    let (account, other) = (account(7), account(8));
    let files = KeyFiles::new(home.path(), &account);
    files.write(KeyFile::Current, &own(&account)).unwrap();
    let good = fs::read_to_string(files.path(KeyFile::Current)).unwrap();
    let other_files = KeyFiles::new(home.path(), &other);
    fs::copy(files.path(KeyFile::Current), other_files.path(KeyFile::Current)).unwrap();
    assert!(matches!(
        other_files.read(KeyFile::Current),
        Err(CertError::WrongKey { .. })
    ));

    let key_at = good.find("-----BEGIN ENC").unwrap();
    let another = own(&account).cert_pem();
    let bad = [
        String::new(),
        good[..key_at].to_owned(),
        good[key_at..].to_owned(),
        good[..good.len() - 60].to_owned(),
        good.replace("ENCRYPTED PRIVATE KEY", "EC PRIVATE KEY"),
        format!("{another}{}", &good[key_at..]),
        "x".repeat(PEM_BYTES_MAX + 1),
    ];
    for text in bad {
        fs::write(files.path(KeyFile::Current), &text).unwrap();
        let error = files.read(KeyFile::Current).unwrap_err();
        assert!(matches!(error, CertError::Damaged { .. }), "{error}");
    }
}

#[test]
fn reads_the_legacy_key_format() {
    use cbc::cipher::BlockModeEncrypt;
    let account = account(7);
    let own = own(&account);
    let iv: [u8; IV_BYTES] = *b"0123456789abcdef";
    let password = account.sign(&account.address().to_bytes());
    let key = legacy_key(&password, &iv[..8]);
    let sealed = cbc::Encryptor::<aes::Aes256>::new((&*key).into(), (&iv).into())
        .encrypt_padded_vec::<Pkcs7>(&own.private_key_der().unwrap());
    let mut block = Pem::new(LEGACY, sealed);
    block.headers_mut().add("Proc-Type", "4,ENCRYPTED").unwrap();
    block
        .headers_mut()
        .add("DEK-Info", "AES-256-CBC,30313233343536373839616263646566")
        .unwrap();
    let home = tempfile::tempdir().unwrap();
    let files = KeyFiles::new(home.path(), &account);
    let text = format!("{}{}", own.cert_pem(), pem::encode(&block));
    fs::write(files.path(KeyFile::Current), &text).unwrap();
    let read = files.read(KeyFile::Current).unwrap();
    assert_eq!(read.private_key_der().unwrap(), own.private_key_der().unwrap());
    fs::write(files.path(KeyFile::Current), text.replace("AES-256", "DES")).unwrap();
    assert!(matches!(
        files.read(KeyFile::Current),
        Err(CertError::Damaged { .. })
    ));
}

#[test]
fn derives_the_legacy_key_as_openssl_does() {
    // openssl enc -aes-256-cbc -md md5 -pass pass:secret -S 3031323334353637 -P
    let key = legacy_key(b"secret", b"01234567");
    assert_eq!(HEXLOWER.encode(&*key), include_str!("openssl.hex").trim());
}

#[test]
fn writes_the_target_of_a_symbolic_link() {
    let (home, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let account = account(7);
    let files = KeyFiles::new(home.path(), &account);
    let real = target.path().join("provider.pem");
    // The target of the link does not exist yet.
    std::os::unix::fs::symlink(&real, files.path(KeyFile::Current)).unwrap();
    let (first, second) = (own(&account), own(&account));
    files.write(KeyFile::Current, &first).unwrap();
    assert!(
        fs::symlink_metadata(files.path(KeyFile::Current))
            .unwrap()
            .is_symlink()
    );
    assert!(fs::read_to_string(&real).unwrap().starts_with(&first.cert_pem()));
    files.write(KeyFile::Next, &second).unwrap();
    files.promote().unwrap();
    assert!(
        fs::symlink_metadata(files.path(KeyFile::Current))
            .unwrap()
            .is_symlink()
    );
    assert_eq!(
        files.read(KeyFile::Current).unwrap().cert_pem(),
        second.cert_pem()
    );
    assert!(!files.path(KeyFile::Next).exists());
}
