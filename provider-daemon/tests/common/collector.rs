//! OpenTelemetry collector on loopback, for traces and logs with OTLP over HTTP.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Response of the collector to each request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Behavior {
    Accept,
    /// Accepts the request, but rejects this number of items.
    Reject(i64),
    Status(u16),
    /// Sends no response.
    Hang,
}

#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Request line and headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug)]
struct Shared {
    behavior: Mutex<Behavior>,
    received: Mutex<Vec<Received>>,
}

/// Running collector. Its threads end with the process.
#[derive(Debug)]
pub(crate) struct Collector {
    url: String,
    shared: Arc<Shared>,
}

impl Collector {
    pub(crate) fn start(behavior: Behavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            behavior: Mutex::new(behavior),
            received: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&of_thread);
                std::thread::spawn(move || while serve(stream.as_ref().unwrap(), &shared).is_some() {});
            }
        });
        Self { url, shared }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn set(&self, behavior: Behavior) {
        *self.shared.behavior.lock().unwrap() = behavior;
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    /// Returns the bodies of the requests to a path.
    fn requests<T: Message + Default>(&self, path: &str) -> impl Iterator<Item = T> {
        let is_sent = move |request: &Received| request.head.starts_with(&format!("post {path} "));
        let requests = self.received().into_iter().filter(is_sent);
        requests.map(|request| T::decode(&request.body[..]).unwrap())
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let scopes = self
            .requests::<ExportTraceServiceRequest>("/v1/traces")
            .flat_map(|body| body.resource_spans)
            .flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    pub(crate) fn logs(&self) -> Vec<(String, LogRecord)> {
        let scopes = self
            .requests::<ExportLogsServiceRequest>("/v1/logs")
            .flat_map(|body| body.resource_logs)
            .flat_map(|resource| resource.scope_logs);
        let records = scopes.flat_map(|scope| {
            let target = scope.scope.unwrap_or_default().name;
            let records = scope.log_records.into_iter();
            records.map(move |record| (target.clone(), record))
        });
        records.collect()
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    loop {
        let start = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if &head[start..] == "\r\n" {
            break;
        }
    }
    let head = head.to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).ok()?;
    let behavior = *shared.behavior.lock().unwrap();
    shared.received.lock().unwrap().push(Received { head, body });
    let (status, rejected) = match behavior {
        Behavior::Accept => (200, 0),
        Behavior::Reject(items) => (200, items),
        Behavior::Status(status) => (status, 0),
        Behavior::Hang => {
            // Returns when the client closes the connection.
            let _ = reader.read(&mut [0]);
            return None;
        }
    };
    let partial = ExportTracePartialSuccess {
        rejected_spans: rejected,
        error_message: "over the limit".to_owned(),
    };
    let response = ExportTraceServiceResponse {
        partial_success: (rejected > 0).then_some(partial),
    };
    let response = response.encode_to_vec();
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n",
        response.len()
    );
    let mut writer = stream;
    writer.write_all(&[head.as_bytes(), &response].concat()).ok()
}

pub(crate) fn attribute(span: &Span, name: &str) -> Option<String> {
    value(&span.attributes, name)
}

pub(crate) fn value(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    Some(text(found.value.as_ref()?))
}

pub(crate) fn message(record: &LogRecord) -> String {
    text(record.body.as_ref().unwrap())
}

fn text(value: &AnyValue) -> String {
    match value.value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Returns the name and the parent of each span of an order. Panics if the spans have different trace ids or
/// an unknown parent.
pub(crate) fn tree(spans: &[Span], order: &str) -> Vec<(String, String)> {
    let of_order = |span: &&Span| attribute(span, "akash.order").unwrap() == order;
    let spans: Vec<&Span> = spans.iter().filter(of_order).collect();
    let named = |span: &Span| {
        if span.parent_span_id.is_empty() {
            return String::new();
        }
        let parent = spans.iter().find(|other| other.span_id == span.parent_span_id);
        parent
            .unwrap_or_else(|| panic!("no parent: {span:#?}"))
            .name
            .clone()
    };
    for span in &spans {
        assert_eq!(span.trace_id, spans[0].trace_id);
    }
    spans
        .iter()
        .map(|span| (span.name.clone(), named(span)))
        .collect()
}
