//! Configuration files of a cluster: keys, tokens and kubeconfigs.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use data_encoding::{BASE64, HEXLOWER};

use crate::command::Run;
use crate::component::Component;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::tier::Tier;

mod node;

/// Users in the token file: component (`None` for the administrator), name and group.
const USERS: [(Option<Component>, &str, &str); 6] = [
    (None, "testbed-admin", "system:masters"),
    (
        Some(Component::ControllerManager),
        "system:kube-controller-manager",
        "",
    ),
    (Some(Component::Scheduler), "system:kube-scheduler", ""),
    (Some(Component::Kubelet), NODE_USER, "system:nodes"),
    (Some(Component::KubeProxy), "system:kube-proxy", ""),
    (Some(Component::Kwok), "testbed-kwok", "system:masters"),
];

/// User name of the kubelet, with the node name.
const NODE_USER: &str = "system:node:node-1";

/// Writes all files that must exist before the first component starts.
pub(crate) fn write(layout: &Layout) -> Result<()> {
    for folder in ["config", "data", "logs", "pids", "pki"] {
        create_dir(&layout.dir.join(folder))?;
    }
    for component in layout.tier.components() {
        create_dir(&layout.data(*component))?;
    }
    plain(
        &layout.config("audit.yaml"),
        include_str!("../manifests/audit.yaml"),
    )?;
    keys(layout)?;
    let tokens = USERS.map(|_| token());
    let tokens = tokens.into_iter().collect::<Result<Vec<String>>>()?;
    secret(&layout.dir.join("tokens.csv"), &token_file(&tokens))?;
    for ((component, ..), token) in USERS.iter().zip(&tokens) {
        if let Some(component) = component {
            let authority = Authority::File(layout.secret("ca.crt").display().to_string());
            secret(
                &layout.kubeconfig_of(*component),
                &kubeconfig(layout, &authority, token),
            )?;
        }
    }
    match layout.tier {
        Tier::Api => Ok(()),
        Tier::Node => node::write(layout),
        Tier::Scale => plain(
            &layout.config("kwok.yaml"),
            include_str!("../manifests/kwok.yaml"),
        ),
    }
}

/// Writes the certificate authority of the API server to `ca.crt` and to the administrator's kubeconfig.
pub(crate) fn write_authority(layout: &Layout) -> Result<()> {
    let chain = read(&layout.secret("apiserver.crt"))?;
    let authority = last_certificate(&chain).ok_or_else(|| {
        Error::at(
            &layout.secret("apiserver.crt"),
            "no certificate authority in the file",
        )
    })?;
    plain(&layout.secret("ca.crt"), authority)?;
    let tokens = read(&layout.dir.join("tokens.csv"))?;
    let token = tokens.split(',').next().unwrap_or_default();
    let authority = Authority::Inline(BASE64.encode(authority.as_bytes()));
    secret(&layout.kubeconfig(), &kubeconfig(layout, &authority, token))
}

/// Removes the files of [`write()`] and of the components, except logs.
pub(crate) fn remove(layout: &Layout) -> Result<()> {
    for folder in ["config", "data", "pids", "pki"] {
        remove_if_present(&layout.dir.join(folder), |path| std::fs::remove_dir_all(path))?;
    }
    for file in ["kubeconfig", "tokens.csv"] {
        remove_if_present(&layout.dir.join(file), |path| std::fs::remove_file(path))?;
    }
    remove_if_present(&layout.run_dir(), |path| std::fs::remove_dir_all(path))?;
    remove_if_present(&layout.record(), |path| std::fs::remove_file(path))
}

pub(crate) fn remove_if_present(path: &Path, remove: impl Fn(&Path) -> std::io::Result<()>) -> Result<()> {
    match remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::at(path, error)),
        _ => Ok(()),
    }
}

pub(crate) fn create_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Error::at(path, error))
}

pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Error::at(path, error))
}

pub(crate) fn plain(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Error::at(path, error))
}

/// Writes a file that only its owner can read.
fn secret(path: &Path, text: &str) -> Result<()> {
    let failed = |error| Error::at(path, error);
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}

/// Creates the signing key of service account tokens, and the certificate with which the API server connects
/// to the kubelet.
fn keys(layout: &Layout) -> Result<()> {
    let path = |file: &str| layout.secret(file).display().to_string();
    let openssl = |args: &[&str]| Run::new("openssl").args(args).done();
    openssl(&["genrsa", "-out", &path("service-account.key"), "2048"])?;
    let (key, certificate) = (path("kubelet-client.key"), path("kubelet-client.crt"));
    openssl(&[
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "365",
        "-subj",
        "/O=system:masters/CN=testbed-apiserver",
        "-keyout",
        &key,
        "-out",
        &certificate,
    ])
}

fn token() -> Result<String> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0_u8; 16];
    std::fs::File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| Error::at(source, error))?;
    Ok(HEXLOWER.encode(&bytes))
}

/// Returns the API server's token file: token, user name, uid and groups per line.
fn token_file(tokens: &[String]) -> String {
    USERS
        .iter()
        .zip(tokens)
        .map(|((_, user, group), token)| format!("{token},{user},{user},\"{group}\"\n"))
        .collect()
}

/// Certificate authority in a kubeconfig: a path or the certificate.
enum Authority {
    File(String),
    Inline(String),
}

fn kubeconfig(layout: &Layout, authority: &Authority, token: &str) -> String {
    let authority = match authority {
        Authority::File(path) => format!("certificate-authority: {path:?}"),
        Authority::Inline(data) => format!("certificate-authority-data: {data}"),
    };
    let server = layout.addresses().api_server;
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: testbed\nclusters:\n- name: testbed\n  cluster:\n    \
         server: {server}\n    {authority}\ncontexts:\n- name: testbed\n  context:\n    cluster: testbed\n    \
         user: testbed\nusers:\n- name: testbed\n  user:\n    token: {token}\n"
    )
}

/// Returns the certificate authority, which is the last certificate of the chain.
fn last_certificate(chain: &str) -> Option<&str> {
    let from = chain.rfind("-----BEGIN CERTIFICATE-----")?;
    chain.get(from..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::NODE;
    use crate::layout::tests::layout;

    #[test]
    fn user_of_kubelet_matches_its_node() {
        assert_eq!(NODE_USER, format!("system:node:{NODE}"));
    }

    #[test]
    fn tokens_are_unique_and_have_one_line_each() {
        let (one, two) = (token().unwrap(), token().unwrap());
        assert!(one != two && one.len() == 32);
        let tokens: Vec<String> = (0..USERS.len()).map(|n| format!("t{n}")).collect();
        let file = token_file(&tokens);
        assert_eq!(
            file.lines().next(),
            Some("t0,testbed-admin,testbed-admin,\"system:masters\"")
        );
        assert_eq!(file.lines().count(), USERS.len());
    }

    #[test]
    fn kubeconfig_contains_server_and_authority() {
        let text = kubeconfig(
            &layout(Tier::Api, 4),
            &Authority::Inline("Q0E=".to_owned()),
            "abc",
        );
        assert!(
            text.contains("    server: https://10.99.4.2:6443\n    certificate-authority-data: Q0E=\n"),
            "{text}"
        );
        assert!(text.ends_with("    token: abc\n"), "{text}");
        let text = kubeconfig(
            &layout(Tier::Api, 4),
            &Authority::File("/a b/ca".to_owned()),
            "abc",
        );
        assert!(text.contains("certificate-authority: \"/a b/ca\"\n"), "{text}");
    }

    #[test]
    fn certificate_authority_is_last_in_the_chain() {
        let one = "-----BEGIN CERTIFICATE-----\n111\n-----END CERTIFICATE-----\n";
        let two = one.replace("111", "222");
        assert_eq!(last_certificate(&format!("{one}{two}")), Some(two.as_str()));
        assert_eq!(last_certificate("nothing"), None);
    }
}
