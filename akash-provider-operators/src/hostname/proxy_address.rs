//! Address of the proxy of a route, from the status of an Ingress or of the Gateway. Only controllers of the cluster
//! write these statuses, so a tenant cannot redirect a probe.

use serde_json::Value;
use std::net::IpAddr;

/// Address and ports of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProxyAddress {
    /// First IP address in the status.
    pub ip: IpAddr,
    /// HTTP port.
    pub http: Option<u16>,
    /// HTTPS port.
    pub https: Option<u16>,
}

const HTTP: u16 = 80;
const HTTPS: u16 = 443;

impl ProxyAddress {
    /// Reads the status of an Ingress. The default ports are 80 and 443.
    pub(super) fn from_ingress(status: Option<&Value>) -> Option<Self> {
        let all = list(status?, "/loadBalancer/ingress");
        let (ip, one) = all.filter_map(|one| Some((address(one, "/ip")?, one))).next()?;
        let ports: Vec<u16> = list(one, "/ports").filter_map(port).collect();
        if ports.is_empty() {
            return Some(Self {
                ip,
                http: Some(HTTP),
                https: Some(HTTPS),
            });
        }
        let has = |usual: u16| ports.contains(&usual).then_some(usual);
        let other = ports.iter().copied().find(|port| *port != HTTPS);
        Some(Self {
            ip,
            http: has(HTTP).or(other),
            https: has(HTTPS),
        })
    }

    /// Reads the first address and the listener ports of a Gateway.
    pub(super) fn from_gateway(gateway: &Value) -> Option<Self> {
        let is_ip = |one: &&Value| {
            one.pointer("/type")
                .and_then(Value::as_str)
                .is_none_or(|kind| kind == "IPAddress")
        };
        let mut all = list(gateway, "/status/addresses").filter(is_ip);
        let ip = all.find_map(|one| address(one, "/value"))?;
        let listens = |protocol: &str| {
            let mut listeners = list(gateway, "/spec/listeners");
            let is_it = |one: &&Value| one.pointer("/protocol").and_then(Value::as_str) == Some(protocol);
            listeners.find(is_it).and_then(port)
        };
        Some(Self {
            ip,
            http: listens("HTTP"),
            https: listens("HTTPS"),
        })
    }
}

fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    value
        .pointer(path)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn address(value: &Value, path: &str) -> Option<IpAddr> {
    value.pointer(path)?.as_str()?.parse().ok()
}

fn port(value: &Value) -> Option<u16> {
    value
        .get("port")?
        .as_u64()?
        .try_into()
        .ok()
        .filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text_of(entrance: Option<ProxyAddress>) -> String {
        let Some(ProxyAddress { ip, http, https }) = entrance else {
            return "none".to_owned();
        };
        let text = |port: Option<u16>| port.map_or_else(|| "-".to_owned(), |port| port.to_string());
        format!("{ip} {} {}", text(http), text(https))
    }

    #[test]
    fn ingress_status_has_the_proxy_address() {
        let of = |list: Value| {
            text_of(ProxyAddress::from_ingress(Some(
                &json!({"loadBalancer": {"ingress": list}}),
            )))
        };
        assert_eq!(of(json!([{"ip": "10.0.0.7"}])), "10.0.0.7 80 443");
        assert_eq!(
            of(json!([{"hostname": "lb.example"}, {"ip": "fd00::7"}])),
            "fd00::7 80 443"
        );
        assert_eq!(
            of(json!([{"ip": "10.0.0.7", "ports": [{"port": 8443}, {"port": 443}]}])),
            "10.0.0.7 8443 443"
        );
        assert_eq!(
            of(json!([{"ip": "10.0.0.7", "ports": [{"port": 8080}]}])),
            "10.0.0.7 8080 -"
        );
        assert_eq!(
            of(json!([{"ip": "10.0.0.7", "ports": [{"port": 0}, {"port": 99_999}]}])),
            "10.0.0.7 80 443"
        );
        for none in [
            json!([]),
            json!([{"hostname": "lb.example"}]),
            json!([{"ip": "lb.example"}]),
            json!(7),
        ] {
            assert_eq!(of(none.clone()), "none", "{none}");
        }
        assert_eq!(text_of(ProxyAddress::from_ingress(None)), "none");
    }

    #[test]
    fn gateway_status_has_the_proxy_address() {
        let of = |addresses: Value| {
            let listeners = json!([
                {"protocol": "TLS", "port": 9443}, {"protocol": "HTTP", "port": 8080}, {"protocol": "HTTPS", "port": 8443},
            ]);
            let gateway = json!({"spec": {"listeners": listeners}, "status": {"addresses": addresses}});
            text_of(ProxyAddress::from_gateway(&gateway))
        };
        assert_eq!(
            of(json!([{"type": "IPAddress", "value": "10.0.0.7"}])),
            "10.0.0.7 8080 8443"
        );
        let named = json!([{"type": "Hostname", "value": "10.0.0.8"}, {"value": "10.0.0.9"}]);
        assert_eq!(of(named), "10.0.0.9 8080 8443");
        assert_eq!(of(json!([])), "none");
    }
}
