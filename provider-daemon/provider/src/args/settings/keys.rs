//! Assignment of keys in settings files to flags.

use super::node::YamlValue;
use super::{FileSettings, SettingEntry};
use crate::args::nearest::{nearest, plain};
use crate::args::pricing::SCRIPT_VARIABLE;
use akash_provider_cli::setting::{FileKey, is_settable};
use akash_provider_cli::values::go_bool;
use clap::{Arg, ArgAction, Command};
use std::collections::BTreeMap;
use std::path::Path;

/// Keys of `provider.yaml` that describe the provider record on the chain. `run` ignores these keys.
pub(super) const RECORD: [&str; 8] = [
    "host",
    "jwthost",
    "owner",
    "info",
    "attributes",
    "email",
    "website",
    "organization",
];
/// Chart values that configure Kubernetes objects.
const OBJECTS: [&str; 18] = [
    "affinity",
    "autoscaling",
    "debug",
    "env",
    "fullnameoverride",
    "gcp",
    "image",
    "imagepullsecrets",
    "initimage",
    "nameoverride",
    "nodeselector",
    "podsecuritycontext",
    "replicacount",
    "resources",
    "securitycontext",
    "serviceaccount",
    "storage",
    "tolerations",
];
/// Beginnings of chart values that configure Kubernetes objects, below a key with settings.
const OBJECTS_BELOW: [&str; 4] = [
    "attestationsidecarimage",
    "ingressannotations",
    "letsencryptproviders",
    "letsencryptstorage",
];
/// Environment variables of the price script. The chart sets them from the values with the same names in lower
/// case.
const SCRIPT_VARIABLES: [&str; 11] = [
    "PRICE_TARGET_CPU",
    "PRICE_TARGET_MEMORY",
    "PRICE_TARGET_HD_EPHEMERAL",
    "PRICE_TARGET_HD_PERS_HDD",
    "PRICE_TARGET_HD_PERS_SSD",
    "PRICE_TARGET_HD_PERS_NVME",
    "PRICE_TARGET_ENDPOINT",
    "PRICE_TARGET_IP",
    "PRICE_TARGET_GPU_MAPPINGS",
    "WHITELIST_URL",
    "DEBUG_BID_SCRIPT",
];
/// Values for which the chart sets no variable.
const UNSET: [&str; 3] = ["", "0", "false"];
/// Chart values that are not settings, with the reason and the flag to use instead.
const REPLACED: [(&str, &str); 4] = [
    (
        "home",
        "settings files cannot contain the home directory; use --home",
    ),
    ("key", "settings files cannot contain keys; use --key-file"),
    (
        "keysecret",
        "settings files cannot contain passphrases; use --key-passphrase-file",
    ),
    (
        "bidpricescript",
        "settings files cannot contain scripts; use --bid-price-script-path with \
         --bid-price-strategy shellScript",
    ),
];
/// Maximum number of unknown keys that get a suggestion. A file with more unknown keys is probably not a
/// settings file.
const SUGGESTIONS_MAX: usize = 100;

/// Flags of a command that a settings file can set.
pub(super) struct SettableFlags<'a> {
    args: BTreeMap<String, &'a Arg>,
    /// Flags by their value in the chart of the Go provider.
    chart: BTreeMap<String, &'a Arg>,
}

impl<'a> SettableFlags<'a> {
    pub(super) fn from_command(command: &'a Command) -> Self {
        let args = || command.get_arguments().filter(|arg| is_settable(arg));
        let chart = args().filter_map(|arg| match arg.get::<FileKey>()? {
            FileKey::Chart(key) => Some((plain(key), arg)),
            FileKey::Excluded => None,
        });
        Self {
            chart: chart.collect(),
            args: args()
                .filter_map(|arg| Some((plain(arg.get_long()?), arg)))
                .collect(),
        }
    }

    pub(super) fn args(&self) -> impl Iterator<Item = &'a Arg> {
        self.args.values().copied()
    }

    pub(super) fn id(&self, flag: &str) -> Option<&str> {
        self.args.get(&plain(flag)).map(|arg| arg.get_id().as_str())
    }

    /// Adds each line of a file to `found`, as a setting, a note or an unknown key. Ignores keys in
    /// [`RECORD`].
    pub(super) fn sort(
        &self,
        lines: Vec<(String, YamlValue)>,
        file: &Path,
        found: &mut FileSettings,
    ) -> Result<(), String> {
        let mut objects = Vec::new();
        for (key, node) in lines {
            if RECORD.contains(&plain(&key).as_str()) {
                continue;
            }
            if OBJECTS.contains(&plain(&key).as_str()) {
                objects.push(key);
                continue;
            }
            self.line(key, node, file, found)?;
        }
        if !objects.is_empty() {
            found.notes.push(format!(
                "{}: ignored keys of the chart: {}",
                file.display(),
                objects.join(", ")
            ));
        }
        Ok(())
    }

    fn line(
        &self,
        key: String,
        node: YamlValue,
        file: &Path,
        found: &mut FileSettings,
    ) -> Result<(), String> {
        let name = plain(&key);
        if let Some((_, what)) = REPLACED.iter().find(|(replaced, _)| *replaced == name) {
            if node != YamlValue::Nothing {
                found.notes.push(format!("{}: `{key}`: {what}", file.display()));
            }
            return Ok(());
        }
        let values = match node {
            YamlValue::Nothing => return Ok(()),
            YamlValue::Fields(fields) => {
                for (below, node) in fields {
                    self.line(format!("{key}.{below}"), node, file, found)?;
                }
                return Ok(());
            }
            YamlValue::Text(text) => vec![text],
            YamlValue::List(nodes) => texts(&key, nodes, file)?,
        };
        for (flag, values) in self.meant(&key, &name, values) {
            let Some(arg) = self.args.get(&plain(&flag)) else {
                if OBJECTS_BELOW.iter().any(|start| name.starts_with(start)) {
                    continue;
                }
                let is_suggested = found.unknown.len() < SUGGESTIONS_MAX;
                found.unknown.push(self.unknown(&key, file, is_suggested));
                continue;
            };
            let flag = arg.get_long().unwrap_or_default().to_owned();
            if values.iter().all(String::is_empty) && !accepts_empty(arg) {
                continue;
            }
            let words = words(arg, &flag, &values);
            // Each variable of the price script is a setting of its own.
            let parts = match flag == SCRIPT_VARIABLE {
                true => words.into_iter().map(|word| vec![word]).collect(),
                false => vec![words],
            };
            for words in parts {
                found.push(SettingEntry {
                    flag: flag.clone(),
                    words,
                    key: key.clone(),
                    file: file.to_owned(),
                })?;
            }
        }
        Ok(())
    }

    /// Converts a key of a settings file to flags. Returns each flag with its values.
    fn meant(&self, key: &str, name: &str, values: Vec<String>) -> Vec<(String, Vec<String>)> {
        let first = values.first().cloned().unwrap_or_default();
        if self.args.contains_key(name) {
            return vec![(key.to_owned(), values)];
        }
        let mut variables = SCRIPT_VARIABLES.iter();
        if let Some(variable) = variables.find(|variable| plain(variable) == name) {
            let value = values.join(",");
            let is_set = !UNSET.contains(&value.as_str());
            let set = is_set.then(|| format!("{variable}={value}"));
            return set
                .map(|set| (SCRIPT_VARIABLE.to_owned(), vec![set]))
                .into_iter()
                .collect();
        }
        if name == "domain" {
            // The chart derives these names from its domain.
            return vec![
                (
                    "deployment-ingress-domain".to_owned(),
                    vec![format!("ingress.{first}")],
                ),
                (
                    "cluster-public-hostname".to_owned(),
                    vec![format!("provider.{first}")],
                ),
                (
                    "deployment-ingress-static-hosts".to_owned(),
                    vec!["true".to_owned()],
                ),
            ];
        }
        if name == "gatewayapienabled" {
            let mode = if go_bool(&first) == Ok(true) {
                "gateway-api"
            } else {
                "ingress"
            };
            return vec![("ingress-mode".to_owned(), vec![mode.to_owned()])];
        }
        let flag = self.chart.get(name).and_then(|arg| arg.get_long()).unwrap_or(key);
        vec![(flag.to_owned(), values)]
    }

    fn unknown(&self, key: &str, file: &Path, is_suggested: bool) -> String {
        let names = self.args.values().filter_map(|arg| arg.get_long());
        let near = is_suggested.then(|| nearest(key, names)).flatten();
        let near = near
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        format!("{}: unknown setting `{key}`{near}", file.display())
    }
}

fn texts(key: &str, nodes: Vec<YamlValue>, file: &Path) -> Result<Vec<String>, String> {
    let text = |node| match node {
        YamlValue::Text(text) => Ok(text),
        _ => Err(format!(
            "{}: `{key}` must be a text or a list of texts",
            file.display()
        )),
    };
    nodes.into_iter().map(text).collect()
}

/// Returns whether the empty text is a value of a flag. For other flags, an empty value in a file sets nothing, as in
/// the Go provider.
fn accepts_empty(arg: &Arg) -> bool {
    let value = Arg::new("value").value_parser(arg.get_value_parser().clone());
    let alone = Command::new("check").no_binary_name(true).arg(value);
    alone.try_get_matches_from([""]).is_ok()
}

fn words(arg: &Arg, flag: &str, values: &[String]) -> Vec<String> {
    let is_repeated = matches!(arg.get_action(), ArgAction::Append) && arg.get_value_delimiter().is_none();
    if is_repeated {
        return values.iter().map(|value| format!("--{flag}={value}")).collect();
    }
    vec![format!("--{flag}={}", values.join(","))]
}
