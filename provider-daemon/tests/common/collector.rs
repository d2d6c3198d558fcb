//! OpenTelemetry collector on loopback, for traces with OTLP over HTTP.

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Response of the collector to each request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Behavior {
    Accept,
    /// Accepts the request, but rejects this number of spans.
    Reject(i64),
    Status(u16),
    /// Sends no response.
    Hang,
}

#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Request line and headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: ExportTraceServiceRequest,
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

    pub(crate) fn spans(&self) -> Vec<Span> {
        let bodies = self.received().into_iter().map(|received| received.body);
        let scopes = bodies
            .flat_map(|body| body.resource_spans)
            .flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

/// Receives a request and responds. Returns `None` at the end of the connection.
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
    let body = ExportTraceServiceRequest::decode(&body[..]).unwrap();
    let behavior = *shared.behavior.lock().unwrap();
    shared.received.lock().unwrap().push(Received { head, body });
    let (status, rejected) = match behavior {
        Behavior::Accept => (200, 0),
        Behavior::Reject(spans) => (200, spans),
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
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{name}: {other:?}"),
    }
}

/// Returns name and parent name of each span of an order, in the order of arrival. Fails if the spans have
/// several trace ids or an unknown parent.
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
