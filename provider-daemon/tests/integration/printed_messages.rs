//! Tests that messages of the chain are printed as in the recorded output of the Go tool.

use akash_provider_chain::proto::DESCRIPTORS;
use akash_provider_operate::chain_json::decoded;
use data_encoding::BASE64;
use prost_reflect::DescriptorPool;
use serde_json::Value;
use testbed::recordings::{self, files};

#[test]
fn transactions_are_printed_like_the_go_tool() {
    let folder = recordings::folder("chain/tx");
    let mut compared = 0;
    for path in files(&folder, ".decoded.json") {
        let theirs = std::fs::read_to_string(&path).unwrap();
        let name = path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .replace(".decoded.json", ".tx.b64");
        let Ok(packed) = std::fs::read_to_string(folder.join(&name)) else {
            continue;
        };
        let bytes = BASE64.decode(packed.trim().as_bytes()).unwrap();
        let ours = decoded("cosmos.tx.v1beta1.Tx", &bytes).unwrap();
        let ours = serde_json::to_string(&ours).unwrap();
        // This program does not include messages that no provider sends.
        let is_known = |m: &Value| {
            let ours = m["@type"].as_str().unwrap();
            ours.starts_with("/akash.")
                && DescriptorPool::decode(DESCRIPTORS)
                    .unwrap()
                    .get_message_by_name(&ours[1..])
                    .is_some()
        };
        let parsed: Value = serde_json::from_str(&theirs).unwrap();
        if !parsed["body"]["messages"]
            .as_array()
            .unwrap()
            .iter()
            .all(is_known)
        {
            continue;
        }
        assert_eq!(ours, theirs.trim(), "{name}");
        compared += 1;
    }
    assert!(compared >= 40, "{compared}");
}

/// Compares printed responses with recorded JSON. The recorded JSON encodes decimals and bytes in another
/// form. Fields that are missing in the recorded JSON are not compared.
#[test]
fn query_responses_are_printed_completely() {
    let folder = recordings::folder("chain/grpc/active-lease");
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let mut compared = 0;
    for path in files(&folder, ".json") {
        let recorded = recordings::json(&path);
        let Some(answer) = recorded["response_b64"].as_str() else {
            continue;
        };
        let method = recorded["path"].as_str().unwrap();
        if method.starts_with("/cosmos.base.tendermint.") {
            // The program decodes only some fields of a node's own status.
            continue;
        }
        let (service, method) = method[1..].split_once('/').unwrap();
        let Some(service) = pool.get_service_by_name(service) else {
            continue;
        };
        let Some(method) = service.methods().find(|m| m.name() == method) else {
            continue;
        };
        let ours = decoded(
            method.output().full_name(),
            &BASE64.decode(answer.as_bytes()).unwrap(),
        )
        .unwrap();
        let ours = serde_json::to_value(&ours).unwrap();
        holds(&ours, &recorded["response_json_raw"], &path.display().to_string());
        compared += 1;
    }
    assert!(compared >= 25, "{compared}");
}

fn holds(ours: &Value, recorded: &Value, place: &str) {
    match (ours, recorded) {
        (Value::Object(ours), Value::Object(fields)) => {
            for (name, value) in fields {
                let own = ours.get(name).unwrap_or_else(|| panic!("{place} has no {name}"));
                match name.as_str() {
                    "amount" if own.as_str().unwrap().contains('.') => {
                        let scaled = own.as_str().unwrap().replace('.', "");
                        let (scaled, value) = (scaled.trim_start_matches('0'), value.as_str().unwrap());
                        assert_eq!(scaled, value.trim_start_matches('0'), "{place}.{name}");
                    }
                    "val" => {
                        let digits = BASE64.decode(value.as_str().unwrap().as_bytes()).unwrap();
                        assert_eq!(own.as_str().unwrap().as_bytes(), digits, "{place}.{name}");
                    }
                    _ => holds(own, value, &format!("{place}.{name}")),
                }
            }
        }
        (Value::Array(ours), Value::Array(items)) => {
            assert_eq!(ours.len(), items.len(), "{place}");
            for (ours, item) in ours.iter().zip(items) {
                holds(ours, item, place);
            }
        }
        _ => assert_eq!(ours, recorded, "{place}"),
    }
}
