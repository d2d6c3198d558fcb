//! Which versions of the network's interface a node serves, and whether one of them is ours.

use super::Endpoint;
use crate::fault::{Blame, Fault, NodeError};
use crate::method::Method;
use crate::proto::akash::discovery::v1 as discovery;
use crate::proto::akash::market::v1beta5::QueryParamsRequest;
use crate::rpc::types::Discovery;
use serde::Serialize;

/// Modules and the versions of their messages that we speak.
const SPOKEN: [(&str, &str); 6] = [
    ("audit", "v1"),
    ("cert", "v1"),
    ("deployment", "v1beta4"),
    ("escrow", "v1"),
    ("market", "v1beta5"),
    ("provider", "v1beta4"),
];

/// Code by which JSON-RPC says that there is no such method.
const NO_METHOD: i64 = -32601;

/// Versions a node offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// Names of the versions offered.
    pub offered: Vec<String>,
    /// The one in use; `None` where the node has no discovery and was found to answer our queries.
    pub chosen: Option<String>,
}

/// A version and its modules.
type Offer = (String, Vec<(String, String)>);

#[derive(Serialize)]
struct NoParams {}

impl Endpoint {
    /// Asks what the node serves.
    ///
    /// # Errors
    /// [`Fault::Version`] with what is offered when nothing fits.
    pub(crate) async fn versions(&self) -> Result<Versions, NodeError> {
        let (method, offers) = if self.rpc().is_some() {
            (
                "akash",
                self.call::<Discovery>("akash", NoParams {})
                    .await
                    .map(offers_of_json),
            )
        } else {
            let answer = self.ask(&discovery::GetInfoRequest {}).await;
            (discovery::GetInfoRequest::PATH, answer.map(offers_of_proto))
        };
        let offers = match offers {
            Ok(offers) => offers,
            Err(error) if has_no_discovery(&error) => return self.try_out().await,
            Err(error) => return Err(error),
        };
        choose(offers).map_err(|fault| self.error(method, fault))
    }

    /// Without discovery a node is judged by whether it answers one of our queries.
    async fn try_out(&self) -> Result<Versions, NodeError> {
        match self.ask(&QueryParamsRequest {}).await {
            Ok(_) => Ok(Versions {
                offered: Vec::new(),
                chosen: None,
            }),
            // The node understood and refused a question that every node of our version answers.
            Err(error) if error.fault.blame() == Blame::Question => {
                let offered = Vec::new();
                Err(self.error(QueryParamsRequest::PATH, Fault::Version { offered }))
            }
            Err(error) => Err(error),
        }
    }
}

fn has_no_discovery(error: &NodeError) -> bool {
    let unimplemented = i64::from(i32::from(tonic::Code::Unimplemented));
    match &error.fault {
        Fault::Refused { codespace, code, .. } => {
            (codespace == "json-rpc" && *code == NO_METHOD) || (codespace == "grpc" && *code == unimplemented)
        }
        _ => false,
    }
}

fn offers_of_json(answer: Discovery) -> Vec<Offer> {
    let versions = answer.supported_versions.unwrap_or_default();
    // An older form names one version without modules. It fits nothing, but the fault can name it.
    if versions.is_empty() {
        let old = answer.client_info.map(|c| (c.api_version, Vec::new()));
        return old.into_iter().collect();
    }
    let modules = |list: Option<Vec<crate::rpc::types::DiscoveredModule>>| {
        let list = list.unwrap_or_default().into_iter();
        list.map(|m| (m.module, m.version)).collect()
    };
    versions
        .into_iter()
        .map(|v| (v.api_version, modules(v.modules)))
        .collect()
}

fn offers_of_proto(answer: discovery::GetInfoResponse) -> Vec<Offer> {
    let info = answer.info.unwrap_or_default();
    if info.supported_versions.is_empty() {
        let old = info.client_info.map(|c| (c.api_version, Vec::new()));
        return old.into_iter().collect();
    }
    let modules =
        |list: Vec<discovery::ModuleVersion>| list.into_iter().map(|m| (m.module, m.version)).collect();
    let versions = info.supported_versions.into_iter();
    versions.map(|v| (v.api_version, modules(v.modules))).collect()
}

/// The newest version whose modules are all ours.
fn choose(offers: Vec<Offer>) -> Result<Versions, Fault> {
    let fits = |(_, modules): &&Offer| {
        let is_served =
            |(module, version): &(&str, &str)| modules.iter().any(|(m, v)| m == module && v == version);
        SPOKEN.iter().all(is_served)
    };
    // The name is only told further: nothing depends on which of those that fit is taken.
    let chosen = offers.iter().filter(fits).map(|(name, _)| name.clone()).max();
    let offered = offers.iter().map(described).collect();
    match chosen {
        Some(name) => Ok(Versions {
            offered,
            chosen: Some(name),
        }),
        None => Err(Fault::Version { offered }),
    }
}

fn described((name, modules): &Offer) -> String {
    let ours = modules.iter().filter(|(m, _)| SPOKEN.iter().any(|(s, _)| s == m));
    let ours: Vec<String> = ours.map(|(m, v)| format!("{m}/{v}")).collect();
    format!(
        "{} ({})",
        crate::convert::shown(name),
        crate::convert::shown(&ours.join(" "))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(name: &str, market: &str) -> Offer {
        let modules = SPOKEN.iter().map(|(m, v)| {
            let version = if *m == "market" { market } else { v };
            ((*m).to_owned(), version.to_owned())
        });
        (name.to_owned(), modules.collect())
    }

    #[test]
    fn the_newest_fitting_version_is_chosen() {
        let offers = vec![
            offer("v1beta3", "v1beta5"),
            offer("v1beta4", "v1beta5"),
            offer("v2", "v2beta1"),
        ];
        let versions = choose(offers).unwrap();
        assert_eq!(versions.chosen.as_deref(), Some("v1beta4"));
        assert_eq!(versions.offered.len(), 3);
    }

    #[test]
    fn an_unknown_version_names_what_is_offered() {
        let Err(Fault::Version { offered }) = choose(vec![offer("v2", "v2beta1")]) else {
            unreachable!("nothing fits");
        };
        assert!(offered[0].starts_with("v2 ("), "{offered:?}");
        assert!(offered[0].contains("market/v2beta1"), "{offered:?}");
        let fault = Fault::Version { offered };
        assert!(fault.to_string().contains("market/v2beta1"), "{fault}");
    }
}
