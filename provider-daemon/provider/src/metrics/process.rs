//! Metrics of the process and its build.

use super::convert::length;
use super::{Measure, MetricSource};
use crate::COMMIT;
use nix::unistd::{SysconfVar, sysconf};
use std::fs;
use std::time::SystemTime;

/// Source of the metrics of this process, with the names and units of the Prometheus client libraries.
#[derive(Debug)]
pub(crate) struct ProcessSource {
    /// Start of the process, in seconds since the Unix epoch.
    started: f64,
    /// Clock ticks per second.
    ticks: f64,
    /// Size of a memory page, in bytes.
    page: f64,
}

impl ProcessSource {
    pub(crate) fn new() -> Self {
        let (ticks, page) = (
            setting(SysconfVar::CLK_TCK, 100.0),
            setting(SysconfVar::PAGE_SIZE, 4096.0),
        );
        Self {
            started: started(ticks).unwrap_or_default(),
            ticks,
            page,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "system settings are small")]
fn setting(variable: SysconfVar, default: f64) -> f64 {
    sysconf(variable)
        .ok()
        .flatten()
        .map_or(default, |value| value as f64)
}

/// Returns the start of the process in seconds since the Unix epoch. `ticks` are the clock ticks per second.
fn started(ticks: f64) -> Option<f64> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    let now = SystemTime::UNIX_EPOCH.elapsed().ok()?.as_secs_f64();
    Some(now - uptime + number(&stat()?, 19)? / ticks)
}

/// Returns the fields after the program name in `/proc/self/stat`. The name may contain spaces.
fn stat() -> Option<Vec<String>> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn number(fields: &[String], at: usize) -> Option<f64> {
    fields.get(at)?.parse().ok()
}

fn files_max() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

fn files() -> Option<f64> {
    Some(length(fs::read_dir("/proc/self/fd").ok()?.count()))
}

impl MetricSource for ProcessSource {
    fn measures(&self) -> Vec<Measure> {
        let build = Measure::gauge(
            "akash_provider_build_info",
            "Always 1; the labels have the provider's version",
        );
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("commit", COMMIT)];
        let mut measures = vec![build.with(labels, 1.0)];
        let one = |measure: Measure, value: Option<f64>| value.map(|value| measure.with([], value));
        let stat = stat().unwrap_or_default();
        let ticks = number(&stat, 11).zip(number(&stat, 12));
        measures.extend(
            [
                one(
                    Measure::counter(
                        "process_cpu_seconds",
                        "CPU time in user and kernel mode, in seconds",
                    ),
                    ticks.map(|(user, kernel)| (user + kernel) / self.ticks),
                ),
                one(
                    Measure::gauge("process_resident_memory_bytes", "Resident memory, in bytes"),
                    number(&stat, 21).map(|pages| pages * self.page),
                ),
                one(
                    Measure::gauge("process_virtual_memory_bytes", "Virtual memory, in bytes"),
                    number(&stat, 20),
                ),
                one(
                    Measure::gauge("process_threads", "Number of threads"),
                    number(&stat, 17),
                ),
                one(Measure::gauge("process_open_fds", "Open files"), files()),
                one(
                    Measure::gauge("process_max_fds", "Limit of open files"),
                    files_max(),
                ),
                one(
                    Measure::gauge(
                        "process_start_time_seconds",
                        "Start of the process, in seconds since the Unix epoch",
                    ),
                    Some(self.started),
                ),
            ]
            .into_iter()
            .flatten(),
        );
        measures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_metrics_agree_with_the_system() {
        let source = ProcessSource::new();
        let measures = source.measures();
        let value = |name: &str| {
            measures
                .iter()
                .find(|m| m.name() == name)
                .and_then(Measure::number)
        };
        let memory = fs::read_to_string("/proc/self/statm").unwrap();
        let resident: f64 = memory.split(' ').nth(1).unwrap().parse().unwrap();
        let reported = value("process_resident_memory_bytes").unwrap() / source.page;
        assert!(
            (reported - resident).abs() < 1000.0,
            "{reported} pages, {resident} expected"
        );
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        let age = now - value("process_start_time_seconds").unwrap();
        assert!((0.0..600.0).contains(&age), "{age} s");
        assert!(value("process_open_fds").unwrap() >= 3.0);
        assert!(value("process_max_fds").unwrap() >= value("process_open_fds").unwrap());
        assert!(value("process_threads").unwrap() >= 1.0);
        assert!(value("process_cpu_seconds").is_some());
        assert_eq!(value("akash_provider_build_info"), Some(1.0));
    }
}
