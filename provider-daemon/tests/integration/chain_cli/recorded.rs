//! A node that returns recorded responses to status, discovery, and queries at one height.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use testbed::recordings::{files, json as json_of};

/// Server with recorded responses of a chain node, which runs until the test process ends.
pub(super) struct Recorded {
    pub(super) url: String,
}

type Answers = BTreeMap<String, Vec<(String, Value)>>;

impl Recorded {
    pub(super) fn start() -> Self {
        let (rpc, queries) = (
            testbed::recordings::folder("chain/rpc"),
            testbed::recordings::folder("chain/grpc/active-lease"),
        );
        let mut answers = Answers::new();
        for path in files(&queries, ".json") {
            let recorded = json_of(&path);
            let answer = recorded["abci_query_response"]["result"].clone();
            if let (Some(path), false) = (recorded["path"].as_str(), answer.is_null()) {
                let request = recorded["request_b64"].as_str().unwrap_or_default().to_owned();
                answers
                    .entry(path.to_owned())
                    .or_default()
                    .push((request, answer));
            }
        }
        let status = json_of(&rpc.join("status.json"))["result"].clone();
        let discovery = json_of(&rpc.join("akash.json"))["result"].clone();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = Arc::new(
            move |call: &Value| match call["method"].as_str().unwrap_or_default() {
                "status" => status.clone(),
                "akash" => discovery.clone(),
                "abci_query" => queried(&answers, &call["params"]),
                _ => Value::Null,
            },
        );
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || serve(stream, &*answer));
            }
        });
        Self { url }
    }
}

/// Returns the recorded response. If the parameters were not recorded, returns a response to the same query
/// with other parameters.
fn queried(answers: &Answers, params: &Value) -> Value {
    let unknown = json!({"response": {
        "code": 6, "codespace": "sdk", "log": "unknown query path", "height": "0", "value": null,
    }});
    let Some(of_path) = answers.get(params["path"].as_str().unwrap_or_default()) else {
        return unknown;
    };
    let hex = params["data"].as_str().unwrap_or_default();
    let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).unwrap();
    // Lists are recorded without the page request at the end of the parameters.
    let begins =
        |recorded: &str| bytes.starts_with(&data_encoding::BASE64.decode(recorded.as_bytes()).unwrap());
    let alike = of_path
        .iter()
        .filter(|(recorded, _)| !recorded.is_empty() && begins(recorded));
    let same = alike.max_by_key(|(recorded, _)| recorded.len());
    let good = |(_, answer): &&(String, Value)| answer["response"]["code"] == 0;
    same.or_else(|| of_path.iter().find(good))
        .map_or(unknown, |(_, answer)| answer.clone())
}

fn serve(stream: TcpStream, answer: &dyn Fn(&Value) -> Value) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let call: Value = serde_json::from_slice(&body).unwrap();
        let body = json!({"jsonrpc": "2.0", "id": call["id"], "result": answer(&call)}).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body.as_bytes()))
            .is_err()
        {
            return;
        }
    }
}
