//! SnippetsFilter of NGINX Gateway Fabric with the tenant options that an HTTPRoute cannot express.
//!
//! The text becomes part of the configuration of a proxy that all tenants share. The text therefore contains only
//! bounded numbers and values of a closed list: see [`super::facts`].

use super::facts::Host;
use super::object_kind::ObjectKind;
use akash_provider_core::manifest::{HttpOptions, without_star};
use akash_provider_kube_kernel::labels;
use akash_provider_kube_model::objects::{effective, next_cases};
use serde_json::{Value, json};

/// Buffer size in bytes above which a connection gets 4 buffers instead of 8.
const LARGE_BUFFER: u32 = 65_536;

/// Renders the filter of a hostname. The filter has the same name as the route. `buffer_size` is the
/// provider's proxy buffer: digits, optionally with `k` or `m`.
pub(crate) fn render(name: &str, host: &Host, options: &HttpOptions, buffer_size: &str) -> Value {
    let resource = ObjectKind::Filter.resource();
    let mut all = labels::lease(&host.lease);
    all.insert(labels::MANAGED.to_owned(), "true".to_owned());
    json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {"name": without_star(name), "namespace": host.namespace, "labels": all},
        "spec": {"snippets": [{
            "context": "http.server.location", "value": snippet(options, buffer_size),
        }]},
    })
}

/// Renders the reference to a filter, as part of a route.
pub(crate) fn reference(name: &str) -> Value {
    let resource = ObjectKind::Filter.resource();
    json!({
        "type": "ExtensionRef",
        "extensionRef": {"group": resource.group, "kind": resource.kind, "name": without_star(name)},
    })
}

fn snippet(options: &HttpOptions, buffer_size: &str) -> String {
    let options = effective(options);
    let mut lines = vec![
        format!("client_max_body_size {};", options.max_body_size),
        format!("proxy_read_timeout {}ms;", options.read_timeout),
        format!("proxy_send_timeout {}ms;", options.send_timeout),
    ];
    let own = options.proxy_buffer_size;
    let size = match own {
        0 => is_size(buffer_size).then(|| buffer_size.to_owned()),
        bytes => Some(bytes.to_string()),
    };
    if let Some(size) = size {
        // NGINX requires that the busy buffers fit into the remaining buffers, so both directives are set.
        let number = if own > LARGE_BUFFER { 4 } else { 8 };
        lines.push(format!("proxy_buffer_size {size};"));
        lines.push(format!("proxy_buffers {number} {size};"));
    }
    if options.next_timeout > 0 {
        lines.push(format!("proxy_next_upstream_timeout {}ms;", options.next_timeout));
    }
    lines.push(format!("proxy_next_upstream_tries {};", options.next_tries));
    let cases = next_cases(&options);
    if !cases.is_empty() {
        lines.push(format!("proxy_next_upstream {cases};"));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Returns true for digits with an optional unit.
fn is_size(text: &str) -> bool {
    let number = text.strip_suffix(['k', 'K', 'm', 'M']).unwrap_or(text);
    (1..=7).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_directives_without_injection() {
        assert_eq!(
            snippet(&HttpOptions::default(), "16k"),
            "client_max_body_size 1048576;\nproxy_read_timeout 60000ms;\nproxy_send_timeout 60000ms;\nproxy_buffer_size \
             16k;\nproxy_buffers 8 16k;\nproxy_next_upstream_tries 3;\nproxy_next_upstream error timeout;\n"
        );
        let wild = HttpOptions {
            next_timeout: 1_500,
            proxy_buffer_size: 1_048_576,
            next_cases: Some(vec![
                "error".to_owned(),
                "503".to_owned(),
                "off; } location / { return 301 http://evil.example".to_owned(),
                "http_500".to_owned(),
            ]),
            ..HttpOptions::default()
        };
        for buffers in ["16k", "16k; return 301", "", "99999999k", "$host"] {
            let text = snippet(&wild, buffers);
            assert!(
                text.contains("proxy_buffers 4 1048576;\nproxy_next_upstream_timeout 1500ms;\n"),
                "{text}"
            );
            assert!(
                text.ends_with("\nproxy_next_upstream error http_503;\n"),
                "{text}"
            );
            assert!(
                !text.contains(['{', '}', '$', '"', '\'', '#', '\\']) && !text.contains("301"),
                "{text}"
            );
            let plain = snippet(&HttpOptions::default(), buffers);
            assert_eq!(plain.contains("proxy_buffer"), buffers == "16k", "{plain}");
        }
    }
}
