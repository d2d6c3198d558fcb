//! API versions of a node.

use super::NodeEndpoint;
use crate::fault::{Blame, Fault, NodeError};
use crate::method::Method;
use crate::proto::akash::discovery::v1 as discovery;
use crate::proto::akash::market::v1beta5::QueryParamsRequest;
use crate::rpc::types::Discovery;
use serde::Serialize;

/// Modules and message versions that this crate requires.
pub(crate) const SPOKEN: [(&str, &str); 6] = [
    ("audit", "v1"),
    ("cert", "v1"),
    ("deployment", "v1beta4"),
    ("escrow", "v1"),
    ("market", "v1beta5"),
    ("provider", "v1beta4"),
];

/// JSON-RPC error code for an unknown method.
const NO_METHOD: i64 = -32601;

/// API versions of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// All API versions that the node supports, each with the versions of its modules, for display.
    pub offered: Vec<String>,
    /// API version that this crate uses with the node. `None` if the node does not report its versions.
    pub chosen: Option<String>,
}

/// API version, with the names and versions of its modules.
type Offer = (String, Vec<(String, String)>);

#[derive(Serialize)]
struct NoParams {}

impl NodeEndpoint {
    /// Queries the API versions of the node and selects one.
    ///
    /// # Errors
    /// Returns the error of the query, or [`Fault::Version`] if this crate supports no API version of the
    /// node.
    pub(crate) async fn versions(&self) -> Result<Versions, NodeError> {
        let (method, offers) = if self.rpc().is_some() {
            (
                "akash",
                self.call::<Discovery>("akash", NoParams {})
                    .await
                    .map(offers_of_json),
            )
        } else {
            let response = self.query_message(&discovery::GetInfoRequest {}).await;
            (discovery::GetInfoRequest::PATH, response.map(offers_of_proto))
        };
        let offers = match offers {
            Ok(offers) => offers,
            Err(error) if has_no_discovery(&error) => return self.try_out().await,
            Err(error) => return Err(error),
        };
        choose(offers).map_err(|fault| self.error(method, fault))
    }

    /// Sends a test query to a node that does not report its API versions.
    async fn try_out(&self) -> Result<Versions, NodeError> {
        match self.query_message(&QueryParamsRequest {}).await {
            Ok(_) => Ok(Versions {
                offered: Vec::new(),
                chosen: None,
            }),
            // The node refused a query that every node of a supported version supports.
            Err(error) if error.fault.blame() == Blame::Request => {
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

fn offers_of_json(response: Discovery) -> Vec<Offer> {
    let versions = response.supported_versions.unwrap_or_default();
    // An older format contains one version without modules. This version is not supported, but part of the error.
    if versions.is_empty() {
        let old = response.client_info.map(|c| (c.api_version, Vec::new()));
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

fn offers_of_proto(response: discovery::GetInfoResponse) -> Vec<Offer> {
    let info = response.info.unwrap_or_default();
    if info.supported_versions.is_empty() {
        let old = info.client_info.map(|c| (c.api_version, Vec::new()));
        return old.into_iter().collect();
    }
    let modules =
        |list: Vec<discovery::ModuleVersion>| list.into_iter().map(|m| (m.module, m.version)).collect();
    let versions = info.supported_versions.into_iter();
    versions.map(|v| (v.api_version, modules(v.modules))).collect()
}

/// Selects the newest version with all required modules.
fn choose(offers: Vec<Offer>) -> Result<Versions, Fault> {
    let fits = |(_, modules): &&Offer| {
        let is_served =
            |(module, version): &(&str, &str)| modules.iter().any(|(m, v)| m == module && v == version);
        SPOKEN.iter().all(is_served)
    };
    // The name is informational only, so any supported version can be selected.
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
        crate::convert::excerpt(name),
        crate::convert::excerpt(&ours.join(" "))
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
    fn selects_the_newest_supported_version() {
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
    fn error_lists_the_versions_of_the_node() {
        let Err(Fault::Version { offered }) = choose(vec![offer("v2", "v2beta1")]) else {
            unreachable!("no version is supported");
        };
        assert!(offered[0].starts_with("v2 ("), "{offered:?}");
        assert!(offered[0].contains("market/v2beta1"), "{offered:?}");
        let fault = Fault::Version { offered };
        assert!(fault.to_string().contains("market/v2beta1"), "{fault}");
    }
}
