use super::*;

fn key() -> PrivateKey {
    PrivateKey::from_bytes(&[7; 32]).unwrap()
}

fn why(text: &str, passphrase: &str) -> String {
    open(text, &passphrase.into()).map_or_else(|e| e.to_string(), |k| format!("opened {}", k.address()))
}

#[test]
fn decrypts_an_encrypted_key() {
    let text = seal(&key(), &"correct horse".into()).unwrap();
    assert_eq!(
        open(&text, &"correct horse".into()).unwrap().to_bytes(),
        key().to_bytes()
    );
    let with_other_text = format!("Hello,\n\n{}\nbye\n", text.replace('\n', "\r\n"));
    assert!(why(&with_other_text, "correct horse").contains("opened"));
    assert_eq!(why(&text, "wrong horse"), "wrong passphrase for the exported key");
    assert!(text.lines().all(|l| l.len() <= LINE));
}

#[test]
fn reports_each_defect() {
    let text = seal(&key(), &"passphrase".into()).unwrap();
    let body = text.lines().nth(5).unwrap().to_owned();
    let flipped = if body.starts_with('A') {
        body.replacen('A', "B", 1)
    } else {
        format!("A{}", &body[1..])
    };
    let cases = [
        (String::new(), "missing line"),
        (text.replace(END, ""), "truncated"),
        (text.replace(&body, &flipped), "checksum"),
        (text.replace(&body, "!!"), "base64"),
        (text.replace("argon2", "md5"), "`kdf` header is `md5`"),
        (text.replace("salt: ", "salt: x"), "hexadecimal"),
        (text.replace("salt: ", "pepper: "), "missing `salt`"),
        (
            text.replace("type: secp256k1", "type: ed25519"),
            "type is `ed25519`",
        ),
        (text.replace("kdf: argon2", "kdf argon2"), "name: value"),
        (format!("{text}{}", " ".repeat(ARMOR_BYTES_MAX)), "longer than"),
    ];
    for (changed, expected) in cases {
        let why = why(&changed, "passphrase");
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

#[test]
fn checksum_is_crc24_of_openpgp() {
    assert_eq!(crc24(b""), 0x00b7_04ce);
    assert_eq!(crc24(b"123456789"), 0x0021_cf02);
}

/// Keys that Go libraries exported. The passphrase is `a passphrase`. The private key has 32 bytes with the
/// value 7.
const GO_EXPORTS: [&str; 2] = [
    "-----BEGIN TENDERMINT PRIVATE KEY-----
salt: 30313233343536373839616263646566
kdf: argon2
type: secp256k1

+8yZwowLczdrsIuCGqlig4WgCJIXqQ9ZHYc4FUqBFkSofzmP4rx6NqcH42XJjPoG
bRXT07s=
=F5dx
-----END TENDERMINT PRIVATE KEY-----",
    "-----BEGIN TENDERMINT PRIVATE KEY-----
kdf: bcrypt
type: secp256k1
salt: 30313233343536373839616263646566

bm9uY2Ugbm9uY2Ugbm9uY2Ugbm9uY2UgnuVDSU4NjQ3E9kE8qzsvgq7jDHipyAe9
EPLt/y6ivYiQraSmSQoFPzfQC8KIhEXz1Ruz/uM=
=18DN
-----END TENDERMINT PRIVATE KEY-----
",
];

#[test]
fn reads_keys_exported_by_the_go_tools() {
    for text in GO_EXPORTS {
        let opened = open(text, &"a passphrase".into()).unwrap();
        assert_eq!(opened.to_bytes(), key().to_bytes());
        assert_eq!(why(text, "another"), "wrong passphrase for the exported key");
    }
}
