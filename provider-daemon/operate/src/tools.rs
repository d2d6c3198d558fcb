//! `tools psutil`: hardware of the local machine. `GET /` returns everything:
//!
//! | route | response |
//! |---|---|
//! | `GET /cpu`, `/gpu`, `/memory`, `/pci` | one part; status 500 with the reason if it cannot be read |

use crate::args::tools::{ListArgs, MachineArgs, PsutilCommand, ServeArgs, ToolsCommand};
use crate::chain_json::yaml;
use crate::hardware::{DATABASE_MAX, HardwarePart, HostHardware, Names};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::{DataOutput, Output};
use akash_provider_cli::node::block_on;
use akash_provider_cli::output::say;
use akash_provider_core::error::listen_text;
use akash_provider_service::download::download;
use akash_provider_service::operators::serve::{serve, status};
use akash_provider_service::printer::Printer;
use akash_provider_service::signals::on_signals;
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde_json::Value;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Runs a `tools` command.
///
/// # Errors
/// Returns an error if the hardware cannot be read, or if the port is in use.
pub fn run(command: &ToolsCommand) -> anyhow::Result<ExitCode> {
    let ToolsCommand::Psutil(command) = command;
    match command {
        PsutilCommand::List(args) => block_on(list(args)),
        PsutilCommand::Serve(args) => block_on(answer(args)),
    }
}

async fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let machine = HostHardware::new(&args.machine.root);
    fetch_names(&machine, &args.machine).await;
    let found = machine.part(args.part.part()).map_err(anyhow::Error::msg)?;
    say(&match args.output {
        DataOutput::Json => format!("{found:#}\n"),
        DataOutput::Text | DataOutput::Yaml => yaml(&found),
    });
    Ok(ExitCode::SUCCESS)
}

async fn answer(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let address = SocketAddr::new(args.api_address, args.api_port);
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| {
        anyhow::anyhow!(WithHelp::new(
            format!("--api-address, --api-port: {address}: {}", listen_text(&error)),
            "set --api-address and --api-port to a free address of this machine"
        ))
    })?;
    let printer = Arc::new(Printer::with_wall_clock(Output::Text));
    let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
    let signals = on_signals(Arc::clone(&printer), shutdown.clone(), abort.clone())?;
    let _signals = AbortOnDropHandle::new(tokio::spawn(signals));
    let machine = Arc::new(HostHardware::new(&args.machine.root));
    let at = listener.local_addr().unwrap_or(address);
    printer.note(&format!("serving the hardware report at http://{at}/"));
    // The server starts before names are available, and reports numbers until then.
    let named = async {
        fetch_names(&machine, &args.machine).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = serve(listener, router(&machine), shutdown) => Ok(ExitCode::SUCCESS),
        () = abort.cancelled() => Ok(ExitCode::FAILURE),
        () = named => Ok(ExitCode::SUCCESS),
    }
}

/// Fetches the PCI ID database if the machine has none and downloads are permitted. Without the database,
/// devices are reported by number.
async fn fetch_names(machine: &HostHardware, args: &MachineArgs) {
    if machine.has_names() || !args.may_fetch(|name| std::env::var(name).ok()) {
        return;
    }
    let text = download(&args.provider_pcidb_url, DATABASE_MAX).await;
    let names = text.map(|text| Names::read(&String::from_utf8_lossy(&text)));
    match names {
        Ok(names) if !names.is_empty() => machine.set_names(names),
        Ok(_) => tracing::warn!(
            "invalid PCI ID database, device names are unavailable; check --provider-pcidb-url"
        ),
        Err(why) => {
            tracing::warn!(
                why,
                "cannot fetch the PCI ID database, device names are unavailable; check --provider-pcidb-url"
            );
        }
    }
}

fn router(machine: &Arc<HostHardware>) -> Router {
    // One reading at a time, regardless of the number of requests.
    let turn = Arc::new(Mutex::new(()));
    let route = |part: Option<HardwarePart>| {
        let (machine, turn) = (Arc::clone(machine), Arc::clone(&turn));
        get(move || read(Arc::clone(&machine), Arc::clone(&turn), part))
    };
    let all = Router::new().route("/", route(None));
    HardwarePart::ALL.into_iter().fold(all, |router, part| {
        router.route(&format!("/{}", part.name()), route(Some(part)))
    })
}

async fn read(
    machine: Arc<HostHardware>,
    turn: Arc<Mutex<()>>,
    part: Option<HardwarePart>,
) -> Response<Body> {
    let _turn = turn.lock().await;
    // Reads hundreds of small files.
    let reading = tokio::task::spawn_blocking(move || match part {
        Some(part) => machine.part(part),
        None => Ok(machine.all()),
    });
    match reading.await.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(found) => json(&found),
        Err(why) => status(StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")),
    }
}

fn json(found: &Value) -> Response<Body> {
    let mut answer = Response::new(Body::from(found.to_string()));
    let kind = HeaderValue::from_static("application/json; charset=UTF-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        machine: MachineArgs,
    }

    async fn ask(router: &Router, method: &str, path: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path);
        let answer = router.clone().oneshot(request.body(Body::empty()).unwrap());
        let answer = answer.await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn serves_each_part_and_reports_unreadable_parts() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().join("proc");
        std::fs::create_dir_all(&proc).unwrap();
        std::fs::write(proc.join("meminfo"), "MemTotal:       1024 kB\n").unwrap();
        let router = router(&Arc::new(HostHardware::new(folder.path())));
        let (code, memory) = ask(&router, "GET", "/memory").await;
        let memory: Value = serde_json::from_str(&memory).unwrap();
        assert_eq!(
            (code, &memory["total_usable_bytes"]),
            (200, &Value::from(1 << 20))
        );
        assert_eq!(
            ask(&router, "GET", "/gpu").await,
            (200, r#"{"cards":[]}"#.to_owned())
        );
        assert_eq!(
            ask(&router, "GET", "/pci").await,
            (200, r#"{"Devices":[]}"#.to_owned())
        );
        let (code, words) = ask(&router, "GET", "/cpu").await;
        assert!(
            code == 500 && words.starts_with("/proc/cpuinfo: "),
            "{code} {words}"
        );
        let (code, all) = ask(&router, "GET", "/").await;
        let all: Value = serde_json::from_str(&all).unwrap();
        assert_eq!((code, all["errors"].as_array().unwrap().len()), (200, 1), "{all}");
        assert_eq!(all["memory"], memory);
        assert_eq!(ask(&router, "POST", "/gpu").await.0, 405);
        assert_eq!(ask(&router, "GET", "/disks").await.0, 404);
    }

    #[tokio::test]
    async fn fetches_names_if_enabled_and_falls_back_to_numbers() {
        let args = |words: &[&str]| {
            Flags::try_parse_from([&["test"], words].concat())
                .unwrap()
                .machine
        };
        let usual = args(&[]);
        assert!(!usual.may_fetch(|_| None));
        assert!(!usual.may_fetch(|_| Some("0".to_owned())));
        assert!(usual.may_fetch(|name| (name == "PCIDB_ENABLE_NETWORK_FETCH").then(|| "1".to_owned())));
        let folder = tempfile::tempdir().unwrap();
        let machine = HostHardware::new(folder.path());
        let nobody = args(&[
            "--pcidb-enable-network-fetch",
            "--provider-pcidb-url=http://127.0.0.1:9/",
        ]);
        fetch_names(&machine, &nobody).await;
        assert!(!machine.has_names());
    }
}
