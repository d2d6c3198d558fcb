//! Redis of the event bus and of the leader election.

use super::check::Check;
use akash_provider_redis::{Location, server_version};
use akash_provider_service::args::RunArgs;
use akash_provider_service::args::ha::HaStore;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(3);

pub(super) async fn checks(args: &RunArgs) -> Vec<Check> {
    let bus = args.bus.location();
    let election = match args.ha.ha {
        HaStore::Redis => args.ha.redis(&args.bus).map(Some),
        HaStore::Off | HaStore::Kubernetes => Ok(None),
    };
    let (bus, election) = tokio::join!(
        check("Redis of --bus", bus, "--bus"),
        check("Redis of --ha", election, "--ha-url")
    );
    bus.into_iter().chain(election).collect()
}

async fn check(subject: &str, location: anyhow::Result<Option<Location>>, flag: &str) -> Option<Check> {
    let version = match location {
        Ok(None) => return None,
        Ok(Some(location)) => server_version(location, LIMIT)
            .await
            .map_err(|error| error.message().to_owned()),
        Err(error) => Err(format!("{error:#}")),
    };
    Some(judge(subject, version, flag))
}

fn judge(subject: &str, version: Result<String, String>, flag: &str) -> Check {
    match version {
        Ok(version) => Check::ok(subject, format!("version {version}")),
        Err(why) => Check::failure(
            subject,
            why,
            format!("start the server, or correct {flag} and its password file"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;

    #[test]
    fn unreachable_server_is_a_failure() {
        assert_eq!(
            judge("Redis", Ok("8".to_owned()), "--bus").severity(),
            Severity::Ok
        );
        let check = judge("Redis", Err("refused".to_owned()), "--bus");
        assert_eq!(check.severity(), Severity::Failure);
        assert!(check.help().is_some_and(|help| help.contains("--bus")));
    }
}
