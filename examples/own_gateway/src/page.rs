//! Web page for the person who runs the provider. The page shows data of this program in addition to the status that
//! every provider has.

use akash_provider_core::provider::ProviderHandle;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Maximum duration of a request. Also the pause after a failure of the server.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Serves the page until `stop` is cancelled, one request after the other.
pub(crate) async fn serve(listener: TcpListener, handle: ProviderHandle, stop: CancellationToken) {
    let one = async || {
        let (stream, _) = listener.accept().await?;
        connection(stream, &handle).await;
        std::io::Result::Ok(())
    };
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            served = one() => if let Err(error) = served {
                eprintln!("page failed: {error}");
                tokio::time::sleep(TIMEOUT).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, handle: &ProviderHandle) {
    let service = service_fn(async |request| Ok::<_, Infallible>(answer(request, handle).await));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client that disconnects or is slow gets no response, and the next one is served.
    drop(tokio::time::timeout(TIMEOUT, connection).await);
}

async fn answer(request: Request<Incoming>, handle: &ProviderHandle) -> Response<Full<Bytes>> {
    let (status, text) = match request.uri().path() {
        "/hello" => (StatusCode::OK, "hello\n".to_owned()),
        "/leases" => (StatusCode::OK, leases(handle).await),
        _ => (StatusCode::NOT_FOUND, "try /hello or /leases\n".to_owned()),
    };
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    answer
}

async fn leases(handle: &ProviderHandle) -> String {
    let status = handle.status().await;
    let line = |lease: &akash_provider_core::engine::status::LeaseInfo| {
        format!("{} {:?}\n", lease.lease, lease.health)
    };
    status.leases.iter().map(line).collect()
}
