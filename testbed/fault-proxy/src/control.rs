//! HTTP control endpoint: `GET` and `PUT /faults`, `POST /cut`, `GET /stats`.

use crate::faults::{Faults, ProxyFaults};
use crate::{Proxy, TlsProxy, serve};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_util::sync::DropGuard;

/// Maximum size of a request body, in bytes; enough for all faults.
const BYTES_MAX: usize = 64 << 10;

/// HTTP endpoint that sets the faults of proxies and pipes. Dropping the value stops the endpoint.
#[derive(Debug)]
pub struct Control {
    address: SocketAddr,
    _ends: DropGuard,
}

impl Control {
    /// Starts the endpoint at an address.
    ///
    /// # Errors
    /// Fails if the address cannot be bound.
    pub async fn start_at(
        listen: SocketAddr,
        proxies: &[&Proxy],
        pipes: &[&TlsProxy],
    ) -> std::io::Result<Self> {
        let proxies = proxies.iter().map(|proxy| Arc::clone(&proxy.shared));
        let pipes = pipes.iter().map(|pipe| Arc::clone(&pipe.shared));
        let all: Arc<[Arc<ProxyFaults>]> = proxies.chain(pipes).collect();
        // The control endpoint itself has no faults.
        let own = Arc::new(ProxyFaults::new("", 0));
        let (address, ends) = serve(listen, &own, move |_, stream| {
            connection(Arc::clone(&all), stream)
        })
        .await?;
        Ok(Self { address, _ends: ends })
    }

    /// Listening address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn connection(all: Arc<[Arc<ProxyFaults>]>, stream: TcpStream) {
    let service = service_fn(move |request| {
        let all = Arc::clone(&all);
        async move { Ok::<_, Infallible>(answer(&all, request).await) }
    });
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    drop(serving.await);
}

async fn answer(all: &[Arc<ProxyFaults>], request: Request<Incoming>) -> Response<Full<Bytes>> {
    let text = |status: StatusCode, text: String| {
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response
    };
    let json = |value: serde_json::Result<String>| match value {
        Ok(json) => text(StatusCode::OK, json),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    match (request.method().clone(), request.uri().path()) {
        (Method::GET, "/faults") => {
            let faults: Vec<Faults> = all.iter().map(|shared| shared.faults()).collect();
            json(serde_json::to_string(&faults))
        }
        (Method::GET, "/stats") => {
            let stats: Vec<_> = all.iter().map(|shared| shared.stats()).collect();
            json(serde_json::to_string(&stats))
        }
        (Method::PUT, "/faults") => {
            let body = Limited::new(request.into_body(), BYTES_MAX).collect().await;
            let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            match serde_json::from_slice::<Faults>(&body) {
                Ok(faults) => {
                    all.iter().for_each(|shared| shared.set(faults));
                    json(serde_json::to_string(&faults))
                }
                Err(error) => text(StatusCode::BAD_REQUEST, error.to_string()),
            }
        }
        (Method::POST, "/cut") => {
            all.iter().for_each(|shared| shared.cut());
            text(StatusCode::OK, String::new())
        }
        _ => text(
            StatusCode::NOT_FOUND,
            "GET /faults, PUT /faults, POST /cut or GET /stats".to_owned(),
        ),
    }
}
