use super::*;

fn key() -> PrivateKey {
    PrivateKey::from_bytes(&[7; 32]).unwrap()
}

fn why(text: &str, passphrase: &str) -> String {
    open(text, &passphrase.into()).map_or_else(|e| e.to_string(), |k| format!("opened {}", k.address()))
}

#[test]
fn what_is_sealed_opens() {
    let text = seal(&key(), &"correct horse".into()).unwrap();
    assert_eq!(
        open(&text, &"correct horse".into()).unwrap().to_bytes(),
        key().to_bytes()
    );
    let in_a_mail = format!("Hello,\n\n{}\nbye\n", text.replace('\n', "\r\n"));
    assert!(why(&in_a_mail, "correct horse").contains("opened"));
    assert_eq!(why(&text, "wrong horse"), "wrong passphrase for the exported key");
    assert!(text.lines().all(|l| l.len() <= LINE));
}

#[test]
fn each_defect_is_named() {
    let text = seal(&key(), &"passphrase".into()).unwrap();
    let body = text.lines().nth(5).unwrap().to_owned();
    let flipped = if body.starts_with('A') {
        body.replacen('A', "B", 1)
    } else {
        format!("A{}", &body[1..])
    };
    let cases = [
        (String::new(), "there is no line"),
        (text.replace(END, ""), "cut off"),
        (text.replace(&body, &flipped), "checksum"),
        (text.replace(&body, "!!"), "base64"),
        (text.replace("argon2", "md5"), "`kdf` header is `md5`"),
        (text.replace("salt: ", "salt: x"), "hexadecimal"),
        (text.replace("salt: ", "pepper: "), "no `salt`"),
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
fn checksums_are_those_of_openpgp() {
    assert_eq!(crc24(b""), 0x00b7_04ce);
    assert_eq!(crc24(b"123456789"), 0x0021_cf02);
}

/// Made with the Go tool's libraries (passphrase `a passphrase`, key of 32 sevens).
const BY_THE_GO_TOOL: [&str; 2] = [
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
fn keys_exported_by_the_go_tool_are_read() {
    for text in BY_THE_GO_TOOL {
        let opened = open(text, &"a passphrase".into()).unwrap();
        assert_eq!(opened.to_bytes(), key().to_bytes());
        assert_eq!(why(text, "another"), "wrong passphrase for the exported key");
    }
}
