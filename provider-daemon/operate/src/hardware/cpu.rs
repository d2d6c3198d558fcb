//! Processors, their cores and threads.

use super::tree::KernelFiles;
use serde::Serialize;
use std::collections::BTreeMap;

/// Directory in which the kernel lists threads.
const THREADS: &str = "/sys/devices/system/cpu";
/// Maximum size of `/proc/cpuinfo`, in bytes.
const TEXT_MAX: u64 = 16 << 20;
const THREADS_MAX: usize = 8192;

/// Processors, with the JSON fields of the current and of older versions of the library ghw.
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

type CpuFields<'a> = BTreeMap<&'a str, &'a str>;

/// Returns the online threads, by processor and core.
///
/// # Errors
/// Returns an error if the threads cannot be listed, or are too many.
pub(super) fn cpu(tree: &KernelFiles) -> Result<Cpu, String> {
    let text = tree.text("/proc/cpuinfo", TEXT_MAX);
    let text = text.map_err(|error| format!("/proc/cpuinfo: {error}"))?;
    let fields = fields(&text);
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
        // The first thread is always online and has no such file.
        if number("online") == Some(0) {
            continue;
        }
        let place = |file| number(&format!("topology/{file}")).unwrap_or(UNKNOWN_ID);
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
        let processor = Processor::new(id, cores, &fields);
        cpu.total_cores += processor.total_cores;
        cpu.total_threads += processor.total_threads;
        cpu.processors.push(processor);
    }
    cpu.total_hardware_threads = cpu.total_threads;
    Ok(cpu)
}

/// ID of a core or processor that the kernel does not report.
const UNKNOWN_ID: i64 = -1;

fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

impl Processor {
    fn new(id: i64, cores: BTreeMap<i64, Vec<u32>>, fields: &BTreeMap<u32, CpuFields<'_>>) -> Self {
        let first = cores.values().flatten().min();
        let thread_fields = first.and_then(|thread| fields.get(thread));
        // The field names depend on the architecture.
        let field = |names: &[&str]| {
            let mut found = names.iter().filter_map(|name| thread_fields?.get(name));
            found.find(|text| !text.is_empty()).copied().unwrap_or_default()
        };
        let arm = (field(&["CPU implementer"]) == "0x41").then_some("ARM");
        let vendor = match field(&["vendor_id", "isa"]) {
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
            model: field(&["model name", "Processor", "cpu model", "Model Name", "uarch"]).to_owned(),
            capabilities: field(&["flags", "Features"])
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            cores,
        }
    }
}

/// Parses the fields of each thread in `/proc/cpuinfo`.
fn fields(text: &str) -> BTreeMap<u32, CpuFields<'_>> {
    let mut all = BTreeMap::new();
    for block in text.split("\n\n") {
        let lines = block.lines().filter_map(|line| line.split_once(':'));
        let fields: CpuFields<'_> = lines.map(|(key, value)| (key.trim(), value.trim())).collect();
        let number = fields.get("processor").and_then(|number| number.parse().ok());
        if let Some(number) = number.filter(|_| all.len() < THREADS_MAX) {
            all.insert(number, fields);
        }
    }
    all
}
