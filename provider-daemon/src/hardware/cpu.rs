//! Processors, their cores and threads.

use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;

/// Where the kernel lists threads.
const THREADS: &str = "/sys/devices/system/cpu";
/// Longest text of all threads; one of 512 has 1 MiB.
const TEXT_MAX: u64 = 16 << 20;
/// Threads of one machine.
const THREADS_MAX: usize = 8192;

/// All processors. The fields are ghw's, those of its older versions too.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Cpu {
    total_cores: u32,
    total_hardware_threads: u32,
    total_threads: u32,
    processors: Vec<Processor>,
}

#[derive(Debug, Serialize)]
struct Processor {
    id: i64,
    total_cores: u32,
    total_hardware_threads: u32,
    total_threads: u32,
    vendor: String,
    model: String,
    capabilities: Vec<String>,
    cores: Vec<Core>,
}

#[derive(Debug, Serialize)]
struct Core {
    id: i64,
    total_hardware_threads: u32,
    total_threads: u32,
    logical_processors: Vec<u32>,
}

type Facts<'a> = BTreeMap<&'a str, &'a str>;

/// The threads that run, by their processors and cores.
///
/// # Errors
/// They cannot be looked at, or there are too many.
pub(super) fn cpu(tree: &Tree) -> Result<Cpu, String> {
    let text = tree.text("/proc/cpuinfo", TEXT_MAX);
    let text = text.map_err(|error| format!("/proc/cpuinfo: {error}"))?;
    let facts = facts(&text);
    let names = tree.names(THREADS)?;
    let threads = names
        .iter()
        .filter_map(|name| name.strip_prefix("cpu")?.parse().ok());
    let mut threads: Vec<u32> = threads.collect();
    if threads.len() > THREADS_MAX {
        return Err(format!("{THREADS} has more than {THREADS_MAX} threads"));
    }
    threads.sort_unstable();
    let mut found: BTreeMap<i64, BTreeMap<i64, Vec<u32>>> = BTreeMap::new();
    for thread in threads {
        let number = |file: &str| tree.number::<i64>(&format!("{THREADS}/cpu{thread}/{file}"));
        // The first one cannot be switched off, and does not say so.
        if number("online") == Some(0) {
            continue;
        }
        let place = |file| number(&format!("topology/{file}")).unwrap_or(NOWHERE);
        let (processor, core) = (place("physical_package_id"), place("core_id"));
        found
            .entry(processor)
            .or_default()
            .entry(core)
            .or_default()
            .push(thread);
    }
    let mut cpu = Cpu::default();
    for (id, cores) in found {
        let processor = Processor::of(id, cores, &facts);
        cpu.total_cores += processor.total_cores;
        cpu.total_threads += processor.total_threads;
        cpu.processors.push(processor);
    }
    cpu.total_hardware_threads = cpu.total_threads;
    Ok(cpu)
}

/// The number of a place that the kernel does not name.
const NOWHERE: i64 = -1;

fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

impl Processor {
    fn of(id: i64, cores: BTreeMap<i64, Vec<u32>>, facts: &BTreeMap<u32, Facts<'_>>) -> Self {
        let first = cores.values().flatten().min();
        let known = first.and_then(|thread| facts.get(thread));
        // Each architecture has words of its own.
        let fact = |names: &[&str]| {
            let mut found = names.iter().filter_map(|name| known?.get(name));
            found.find(|text| !text.is_empty()).copied().unwrap_or_default()
        };
        let arm = (fact(&["CPU implementer"]) == "0x41").then_some("ARM");
        let vendor = match fact(&["vendor_id", "isa"]) {
            "" => arm.unwrap_or_default(),
            vendor => vendor,
        };
        let cores: Vec<Core> = cores
            .into_iter()
            .map(|(id, logical_processors)| Core {
                id,
                total_hardware_threads: count(&logical_processors),
                total_threads: count(&logical_processors),
                logical_processors,
            })
            .collect();
        let threads = cores.iter().map(|core| core.total_threads).sum();
        Self {
            id,
            total_cores: count(&cores),
            total_hardware_threads: threads,
            total_threads: threads,
            vendor: vendor.to_owned(),
            model: fact(&["model name", "Processor", "cpu model", "Model Name", "uarch"]).to_owned(),
            capabilities: fact(&["flags", "Features"])
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            cores,
        }
    }
}

/// What is said of each thread.
fn facts(text: &str) -> BTreeMap<u32, Facts<'_>> {
    let mut all = BTreeMap::new();
    for block in text.split("\n\n") {
        let lines = block.lines().filter_map(|line| line.split_once(':'));
        let facts: Facts<'_> = lines.map(|(key, value)| (key.trim(), value.trim())).collect();
        let number = facts.get("processor").and_then(|number| number.parse().ok());
        if let Some(number) = number.filter(|_| all.len() < THREADS_MAX) {
            all.insert(number, facts);
        }
    }
    all
}
