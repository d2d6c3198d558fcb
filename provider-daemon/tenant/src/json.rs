//! JSON responses with unchanged order of fields, including unknown fields.

pub(super) use akash_provider_cli::json::Json;
use akash_provider_core::types::LeaseId;
use akash_provider_gateway::escaped;
use serde::Serialize;

/// Returns the ID of a lease in the JSON format of the Go provider.
pub(super) fn lease_id(id: &LeaseId) -> Json {
    let text = |text: &str| Json::Text(text.to_owned());
    let order = &id.order;
    Json::Fields(Vec::new())
        .with("owner", text(id.owner().as_str()))
        .with("dseq", Json::Number(order.deployment().dseq.into()))
        .with("gseq", Json::Number(order.group.gseq.into()))
        .with("oseq", Json::Number(order.oseq.into()))
        .with("provider", text(id.provider.as_str()))
        .with("bseq", Json::Number(0.into()))
}

/// Returns indented JSON that escapes the same characters as the Go provider.
pub(super) fn pretty(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(serde_json::to_string_pretty(value)?) + "\n")
}

pub(super) fn compact(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(serde_json::to_string(value)?) + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preserves_order_numbers_and_unknown_fields() {
        let text = r#"{"z":1,"a":[null,true,-5,18446744073709551615,0.5,"<ü>"],"m":{"y":{},"b":[]}}"#;
        let read: Json = serde_json::from_str(text).unwrap();
        let written = compact(&read).unwrap();
        assert_eq!(written, text.replace("<ü>", "\\u003cü\\u003e") + "\n");
        let indented = pretty(&read).unwrap();
        assert!(
            indented.starts_with("{\n  \"z\": 1,\n  \"a\": [\n    null,\n"),
            "{indented}"
        );
        assert!(
            indented.ends_with("\"y\": {},\n    \"b\": []\n  }\n}\n"),
            "{indented}"
        );
    }

    #[test]
    fn writes_a_lease_id_as_the_go_provider_does() {
        let owner = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
        let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
        let lease = format!("{owner}/7/1/2/{provider}").parse().unwrap();
        let expected = format!(
            "{{\"owner\":\"{owner}\",\"dseq\":7,\"gseq\":1,\"oseq\":2,\"provider\":\"{provider}\",\"bseq\":0}}\n"
        );
        assert_eq!(compact(&lease_id(&lease)).unwrap(), expected);
    }
}
