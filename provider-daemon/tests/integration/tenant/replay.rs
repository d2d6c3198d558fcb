//! A server with recorded responses and its own certificate on the chain.

use akash_provider_chain::cert::OwnCertificate;
use data_encoding::{BASE64, HEXLOWER};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Timeout of a read from the client.
const PATIENCE: Duration = Duration::from_secs(120);

type Tls = StreamOwned<ServerConnection, TcpStream>;

/// Server that replays the recording of [`Self::play`] on each connection.
pub(crate) struct Replay {
    address: SocketAddr,
    recording: Arc<Mutex<Value>>,
    received: Arc<Mutex<Vec<u8>>>,
    serving: Option<JoinHandle<()>>,
}

impl Replay {
    pub(crate) fn start(own: &OwnCertificate) -> Self {
        let crypto = Arc::new(ring::default_provider());
        let key = own.private_key_der().unwrap().to_vec();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key));
        let key = crypto.key_provider.load_private_key(key).unwrap();
        let chain = vec![CertificateDer::from(own.der().to_vec())];
        let resolver = SingleCertAndKey::from(CertifiedKey::new(chain, key));
        let config = ServerConfig::builder_with_provider(crypto)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (recording, received) = (Arc::new(Mutex::new(Value::Null)), Arc::default());
        let (played, request_bytes) = (Arc::clone(&recording), Arc::clone(&received));
        let serving = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let recording = played.lock().unwrap().clone();
                if recording == "stop" {
                    return;
                }
                let stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let tls = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
                if let Err(error) = serve(tls, &recording, &request_bytes) {
                    println!("replay client failed: {error}");
                }
            }
        });
        Self {
            address,
            recording,
            received,
            serving: Some(serving),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Sets the recording for the next connections.
    pub(crate) fn play(&self, recording: &Value) {
        *self.recording.lock().unwrap() = recording.clone();
        self.received.lock().unwrap().clear();
    }

    /// Returns the bytes received from the client since the last `play`.
    pub(crate) fn received(&self) -> Vec<u8> {
        self.received.lock().unwrap().clone()
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        *self.recording.lock().unwrap() = Value::from("stop");
        // The listener checks the flag at the next connection.
        drop(TcpStream::connect(self.address));
        if let Some(serving) = self.serving.take() {
            drop(serving.join());
        }
    }
}

fn serve(mut tls: Tls, recording: &Value, received: &Mutex<Vec<u8>>) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        tls.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&request).to_lowercase();
    let after = |name: &str| {
        head.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let length = after("content-length:").map_or(0, |l| l.parse().unwrap());
    let mut body = vec![0; length];
    tls.read_exact(&mut body)?;
    let mut all = request.clone();
    all.extend_from_slice(&body);
    received.lock().unwrap().extend_from_slice(&all);
    match recording.get("response").and_then(|r| r["raw_b64"].as_str()) {
        Some(raw) => tls.write_all(&BASE64.decode(raw.as_bytes()).unwrap())?,
        None => websocket(&mut tls, recording, &String::from_utf8_lossy(&request), received)?,
    }
    tls.conn.send_close_notify();
    tls.flush()
}

/// Sends the recorded response head with the accept key for this client, then the recorded server frames. At
/// each recorded client frame, waits for a frame of the client.
fn websocket(
    tls: &mut Tls,
    recording: &Value,
    request: &str,
    received: &Mutex<Vec<u8>>,
) -> std::io::Result<()> {
    let key = request
        .lines()
        .find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("sec-websocket-key").then_some(value)
        })
        .unwrap();
    let recorded = recording["response_head"].as_str().unwrap();
    let accept = derive_accept_key(key.as_bytes());
    let lines = recorded.split("\r\n").map(|line| match line.split_once(": ") {
        Some((name, _)) if name == "Sec-WebSocket-Accept" => format!("{name}: {accept}"),
        _ => line.to_owned(),
    });
    let head = lines.collect::<Vec<_>>().join("\r\n") + "\r\n\r\n";
    tls.write_all(head.as_bytes())?;
    if let Some(body) = recording["body"].as_str() {
        tls.write_all(body.as_bytes())?;
    }
    tls.flush()?;
    for frame in recording["frames"].as_array().into_iter().flatten() {
        if frame["dir"] == "S->C" {
            tls.write_all(
                &HEXLOWER
                    .decode(frame["raw_hex"].as_str().unwrap().as_bytes())
                    .unwrap(),
            )?;
            tls.flush()?;
        } else if frame["op"] == 2 {
            let recorded = frame["hex"].as_str().unwrap().len() / 2;
            let payload = client_frame(tls, recorded)?;
            received.lock().unwrap().extend_from_slice(&payload);
        }
    }
    Ok(())
}

/// Reads client frames up to the recorded length. A client may use more frames than the recording.
fn client_frame(tls: &mut Tls, recorded: usize) -> std::io::Result<Vec<u8>> {
    let mut all = binary_frame(tls)?;
    while all.len() < recorded {
        let more = binary_frame(tls)?;
        assert_eq!(more.first(), all.first());
        all.extend_from_slice(&more[1..]);
    }
    Ok(all)
}

/// Returns the payload of the next binary client frame.
fn binary_frame(tls: &mut Tls) -> std::io::Result<Vec<u8>> {
    loop {
        let mut head = [0; 2];
        tls.read_exact(&mut head)?;
        assert!(head[1] & 0x80 != 0 && head[1] & 0x7f < 126, "{head:?}");
        let mut mask = [0; 4];
        tls.read_exact(&mut mask)?;
        let mut payload = vec![0; usize::from(head[1] & 0x7f)];
        tls.read_exact(&mut payload)?;
        for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        if head[0] & 0x0f == 2 {
            return Ok(payload);
        }
    }
}
