//! Keyrings: recorded folders and new ones.

use super::*;
use std::fs;
use testbed::recordings;

fn key(byte: u8) -> PrivateKey {
    PrivateKey::from_bytes(&[byte; 32]).unwrap()
}

fn test_keyring(home: &Path) -> Keyring {
    Keyring::open(KeyringBackend::Test, home, None).unwrap()
}

fn recorded() -> tempfile::TempDir {
    let folder = recordings::folder("chain/keyring");
    let home = tempfile::tempdir().unwrap();
    for keyring in ["keyring-test", "keyring-file"] {
        fs::create_dir(home.path().join(keyring)).unwrap();
        for entry in fs::read_dir(folder.join(keyring)).unwrap() {
            let from = entry.unwrap().path();
            fs::write(
                home.path().join(keyring).join(from.file_name().unwrap()),
                fs::read(&from).unwrap(),
            )
            .unwrap();
        }
    }
    home
}

#[test]
fn reads_recorded_keyrings() {
    let home = recorded();
    let keyring = test_keyring(home.path());
    let listing = keyring.list().unwrap();
    assert!(listing.unreadable.is_empty(), "{:?}", listing.unreadable);
    let names: Vec<_> = listing.keys.iter().map(|k| k.name.as_str()).collect();
    assert_eq!(names, ["auditor", "provider", "provider2", "tenant", "validator"]);
    let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
    assert_eq!(keyring.show(provider).unwrap().name, "provider");
    for key in &listing.keys {
        let address = key.address.as_ref().unwrap().as_str();
        assert_eq!(keyring.private_key(address).unwrap().address().as_str(), address);
    }

    let wrong = Keyring::open(KeyringBackend::File, home.path(), Some(&"hunter2".into())).unwrap_err();
    assert!(matches!(wrong, KeyringError::WrongPassphrase { .. }), "{wrong}");
    let missing = Keyring::open(KeyringBackend::File, home.path(), None).unwrap_err();
    assert!(
        matches!(missing, KeyringError::PassphraseMissing { .. }),
        "{missing}"
    );
    let file = Keyring::open(KeyringBackend::File, home.path(), Some(&"hunter2-pass".into())).unwrap();
    assert_eq!(file.private_key("provider").unwrap().address().as_str(), provider);
    assert!(file.add("two", &keyring.private_key("tenant").unwrap()).is_ok());
    assert_eq!(file.list().unwrap().keys.len(), 2);
}

#[test]
fn adds_shows_and_deletes_keys() {
    for (backend, passphrase) in [
        (KeyringBackend::Test, None),
        (KeyringBackend::File, Some(SecretString::from("long enough"))),
    ] {
        let home = tempfile::tempdir().unwrap();
        let open = || Keyring::open(backend, home.path(), passphrase.as_ref()).unwrap();
        assert!(open().list().unwrap().keys.is_empty());
        let added = open().add("my key", &key(1)).unwrap();
        assert_eq!(added.address.as_ref(), Some(key(1).address()));
        open().add("other", &key(2)).unwrap();
        let keyring = open();
        assert_eq!(keyring.list().unwrap().keys.len(), 2);
        assert_eq!(keyring.show(key(1).address().as_str()).unwrap(), added);
        assert_eq!(
            keyring.private_key("my key").unwrap().to_bytes(),
            key(1).to_bytes()
        );
        for (name, key) in [("my key", key(3)), ("third", key(1))] {
            assert!(
                matches!(keyring.add(name, &key), Err(KeyringError::Exists { .. })),
                "{name}"
            );
        }
        keyring.delete("my key").unwrap();
        assert!(matches!(
            keyring.show("my key"),
            Err(KeyringError::NotFound { .. })
        ));
        assert!(matches!(
            keyring.show(key(1).address().as_str()),
            Err(KeyringError::NotFound { .. })
        ));
        assert!(matches!(
            keyring.delete("my key"),
            Err(KeyringError::NotFound { .. })
        ));
        keyring.add("again", &key(1)).unwrap();
    }
}

#[test]
fn exports_and_imports_keys() {
    let home = tempfile::tempdir().unwrap();
    let keyring = test_keyring(home.path());
    keyring.add("one", &key(1)).unwrap();
    let passphrase = SecretString::from("a passphrase");
    let text = keyring.export("one", &passphrase).unwrap();
    assert!(matches!(
        keyring.import("two", &text, &passphrase),
        Err(KeyringError::Exists { .. })
    ));
    keyring.delete("one").unwrap();
    let wrong = keyring.import("two", &text, &"another".into());
    assert!(matches!(wrong, Err(KeyringError::WrongPassphrase { .. })));
    assert_eq!(
        keyring
            .import("two", &text, &passphrase)
            .unwrap()
            .address
            .as_ref(),
        Some(key(1).address())
    );
    assert_eq!(
        decrypt_armor(&text, &passphrase).unwrap().to_bytes(),
        key(1).to_bytes()
    );
    for short in ["", "short"] {
        let refused = keyring.export("two", &short.into());
        assert!(matches!(refused, Err(KeyringError::PassphraseLength { .. })));
    }
}

#[test]
fn refuses_names_that_leave_the_folder() {
    let home = tempfile::tempdir().unwrap();
    let keyring = test_keyring(home.path());
    let long = "n".repeat(NAME_BYTES_MAX + 1);
    for name in [
        "",
        ".",
        "../x",
        "a/b",
        "a\\b",
        "a%2fb",
        " a",
        "a\0",
        ".hidden",
        long.as_str(),
    ] {
        assert!(
            matches!(keyring.add(name, &key(1)), Err(KeyringError::BadName { .. })),
            "{name}"
        );
    }
    for name in ["../x", "", "a/b"] {
        assert!(
            matches!(keyring.show(name), Err(KeyringError::BadName { .. })),
            "{name}"
        );
    }
    keyring.add(&"n".repeat(NAME_BYTES_MAX), &key(1)).unwrap();
    keyring.add("schlüssel", &key(2)).unwrap();
    assert_eq!(keyring.list().unwrap().keys.len(), 2);
}

#[test]
fn key_can_have_its_address_as_its_name() {
    let home = tempfile::tempdir().unwrap();
    let keyring = test_keyring(home.path());
    let address = key(1).address().to_string();
    let added = keyring.add(&address, &key(1)).unwrap();
    assert_eq!(added.name, address);
    let index = data_encoding::HEXLOWER.encode(&key(1).address().to_bytes());
    let index = home.path().join(format!("keyring-test/{index}.address"));
    for is_indexed in [true, false] {
        if !is_indexed {
            fs::remove_file(&index).unwrap();
        }
        assert_eq!(keyring.show(&address).unwrap(), added);
        let found = keyring.private_key(&address).unwrap();
        assert_eq!(found.to_bytes(), key(1).to_bytes());
    }
    assert!(keyring.list().unwrap().unreadable.is_empty());
    let again = keyring.add(&address, &key(1)).unwrap_err();
    assert!(matches!(again, KeyringError::Exists { .. }), "{again}");
    keyring.delete(&address).unwrap();
    assert!(keyring.list().unwrap().keys.is_empty());
    keyring.add("plain", &key(1)).unwrap();
    assert_eq!(keyring.private_key(&address).unwrap().address().as_str(), address);
}

#[test]
fn address_never_selects_another_key() {
    let home = tempfile::tempdir().unwrap();
    let keyring = test_keyring(home.path());
    let other = key(2).address().to_string();
    let refused = keyring.add(&other, &key(1)).unwrap_err();
    assert!(
        matches!(refused, KeyringError::NamedAsAnother { .. }),
        "{refused}"
    );
    assert!(
        refused.to_string().contains(key(1).address().as_str()),
        "{refused}"
    );
    // The Go tools accept this name.
    keyring.folder.write(&other, &key(1)).unwrap();
    assert!(keyring.list().unwrap().unreadable.is_empty());
    assert_eq!(
        keyring.show(&other).unwrap().address.as_ref(),
        Some(key(1).address())
    );
    let none = keyring.private_key(&other).unwrap_err();
    assert!(matches!(none, KeyringError::NotFound { .. }), "{none}");
    keyring.add("second", &key(2)).unwrap();
    assert_eq!(keyring.private_key(&other).unwrap().to_bytes(), key(2).to_bytes());
    keyring.delete(&other).unwrap();
    assert_eq!(keyring.list().unwrap().keys.len(), 1);
    assert_eq!(keyring.show(&other).unwrap().name, "second");
}

#[test]
fn invalid_files_are_reported_and_other_keys_stay_usable() {
    let home = tempfile::tempdir().unwrap();
    let keyring = test_keyring(home.path());
    keyring.add("good", &key(1)).unwrap();
    keyring.add("bad", &key(2)).unwrap();
    let dir = home.path().join("keyring-test");
    let good = fs::read(dir.join("good.info")).unwrap();
    let cut = good[..good.len() - 9].to_vec();
    let contents = [
        Vec::new(),
        cut,
        good.clone(),
        vec![0xff; 100],
        vec![b'a'; 64 * 1024 + 1],
        b"a.b.c.d.e".to_vec(),
    ];
    for content in contents {
        fs::write(dir.join("bad.info"), &content).unwrap();
        let listing = keyring.list().unwrap();
        assert_eq!(listing.keys.len(), 1);
        let [error] = &listing.unreadable[..] else {
            panic!("{listing:?}")
        };
        assert!(matches!(error, KeyringError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("bad.info"), "{error}");
        assert!(keyring.private_key("bad").is_err());
    }
    fs::write(dir.join(format!("{}.address", "00".repeat(20))), b"x").unwrap();
    let zero = Address::from_bytes(&[0; 20]).unwrap();
    assert!(matches!(
        keyring.show(zero.as_str()),
        Err(KeyringError::Damaged { .. })
    ));
}

#[test]
fn file_keyring_without_a_hash_requires_the_right_passphrase() {
    let home = tempfile::tempdir().unwrap();
    let open = |passphrase: &str| Keyring::open(KeyringBackend::File, home.path(), Some(&passphrase.into()));
    for bad in ["short", &"x".repeat(PASSPHRASE_BYTES_MAX + 1)] {
        assert!(matches!(open(bad), Err(KeyringError::PassphraseLength { .. })));
    }
    open("right one").unwrap().add("key", &key(1)).unwrap();
    let hash = home.path().join("keyring-file/keyhash");
    assert!(fs::read_to_string(&hash).unwrap().starts_with("$2a$10$"));
    fs::remove_file(&hash).unwrap();
    assert!(matches!(
        open("wrong one"),
        Err(KeyringError::WrongPassphrase { .. })
    ));
    assert!(!hash.exists());
    assert_eq!(open("right one").unwrap().list().unwrap().keys.len(), 1);
    fs::write(&hash, b"invalid").unwrap();
    assert!(matches!(open("right one"), Err(KeyringError::Damaged { .. })));
}

#[test]
fn files_are_readable_by_the_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    test_keyring(home.path()).add("key", &key(1)).unwrap();
    let dir = home.path().join("keyring-test");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for entry in fs::read_dir(&dir).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn error_for_desktop_backends_names_the_export_command() {
    for backend in ["os", "pass", "kwallet"] {
        let error = backend.parse::<KeyringBackend>().unwrap_err().to_string();
        assert!(
            error.contains("keys export") && error.contains(backend),
            "{error}"
        );
    }
    assert!(matches!(
        "vault".parse::<KeyringBackend>(),
        Err(KeyringError::UnknownBackend(_))
    ));
}

#[test]
fn debug_output_contains_no_secret() {
    let home = tempfile::tempdir().unwrap();
    let keyring = Keyring::open(KeyringBackend::File, home.path(), Some(&"long enough".into())).unwrap();
    keyring.add("key", &key(0x41)).unwrap();
    let output = format!(
        "{keyring:?} {:?} {:?}",
        keyring.list(),
        keyring.private_key("key")
    );
    assert!(
        !output.contains("long enough") && !output.contains("4141") && !output.contains("65, 65"),
        "{output}"
    );
}
