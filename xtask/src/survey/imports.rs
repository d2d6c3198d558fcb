//! Imports among the files of a crate, and the cycles they form.

use std::collections::{BTreeMap, BTreeSet};

use super::reach::words;

/// Path of a module: the crate folder, then the names of the modules.
type ModulePath = Vec<String>;

/// Re-exports are followed to this depth.
const DEPTH: usize = 8;

type Modules<'a> = BTreeMap<ModulePath, Module<'a>>;

struct Module<'a> {
    file: &'a str,
    declared: BTreeSet<&'a str>,
    /// Absolute path of each imported name.
    imported: BTreeMap<String, ModulePath>,
}

/// Returns an arrow from each file to the files that declare the names it imports. A module and the modules below it
/// are one part, without arrows.
pub(super) fn arrows<'a>(
    files: impl Iterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut modules = Modules::new();
    for (file, text) in files {
        let Some(path) = module_path(file) else { continue };
        let imported = used(text)
            .into_iter()
            .filter_map(|used| absolute(&path, &used))
            .filter_map(|target| Some((target.last()?.clone(), target)))
            .collect();
        let declared = text.lines().filter_map(declaration).collect();
        modules.insert(
            path,
            Module {
                file,
                declared,
                imported,
            },
        );
    }
    let mut arrows = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (path, module) in &modules {
        let targets = module.imported.values();
        let targets = targets.filter_map(|target| declaring(&modules, target, DEPTH));
        let others = targets.filter(|(target, _)| !path.starts_with(target) && !target.starts_with(path));
        let others = others.map(|(_, file)| file);
        arrows.entry(module.file).or_default().extend(others);
    }
    arrows
}

/// Returns the groups of files that import each other, directly or through further files.
pub(super) fn cycles<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = arrows
        .keys()
        .map(|file| (*file, reachable(arrows, file)))
        .collect();
    let mut cycles = BTreeSet::new();
    for (file, others) in &reached {
        let cycle: BTreeSet<&str> = others
            .iter()
            .copied()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(file)))
            .collect();
        if cycle.len() > 1 {
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}

fn reachable<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = arrows.get(from).into_iter().flatten().copied().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(arrows.get(file).into_iter().flatten().copied());
        }
    }
    reached
}

/// Returns the module that declares the last name of a path, and its file.
fn declaring<'m, 'a>(
    modules: &'m Modules<'a>,
    target: &[String],
    depth: usize,
) -> Option<(&'m ModulePath, &'a str)> {
    if let Some((path, module)) = modules.get_key_value(target) {
        return Some((path, module.file));
    }
    let (name, path) = target.split_last()?;
    let Some((path, module)) = modules.get_key_value(path) else {
        // A path below a type, such as a variant.
        return (path.len() > 1)
            .then(|| declaring(modules, path, depth))
            .flatten();
    };
    if module.declared.contains(name.as_str()) || depth == 0 {
        return Some((path, module.file));
    }
    declaring(modules, module.imported.get(name)?, depth - 1)
}

fn module_path(file: &str) -> Option<ModulePath> {
    let (folder, below) = file.split_once("/src/")?;
    let below = below.strip_suffix(".rs")?;
    let mut path = vec![folder.to_owned()];
    path.extend(below.split('/').map(str::to_owned));
    if path
        .last()
        .is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str()))
    {
        path.pop();
    }
    Some(path)
}

/// Converts a path of a `use` line in the module `at` to an absolute path. Returns `None` for other crates.
fn absolute(at: &[String], used: &[String]) -> Option<ModulePath> {
    let mut base = at.to_vec();
    let mut rest = used;
    match used.first()?.as_str() {
        "crate" => base.truncate(1),
        "self" => {}
        "super" => {
            while rest.first().is_some_and(|word| word == "super") {
                base.pop();
                rest = &rest[1..];
            }
            base.extend(rest.iter().cloned());
            return Some(base);
        }
        // A child module, or another crate, which has no file below this path.
        _ => {
            base.extend(rest.iter().cloned());
            return Some(base);
        }
    }
    base.extend(rest[1..].iter().cloned());
    Some(base)
}

/// Returns the paths of all `use` declarations, one per imported name.
fn used(text: &str) -> Vec<ModulePath> {
    let mut paths = Vec::new();
    let mut statement: Option<String> = None;
    for line in text.lines() {
        let code = line.trim();
        if statement.is_none() {
            let code = code
                .split_once("use ")
                .filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
            statement = code.map(|(_, rest)| rest.to_owned());
        } else if let Some(statement) = &mut statement {
            statement.push_str(code);
        }
        if let Some(whole) = statement.take_if(|statement| statement.ends_with(';')) {
            expand(&[], whole.trim_end_matches(';'), &mut paths);
        }
    }
    paths
}

/// Adds the paths of a use tree below `prefix`.
fn expand(prefix: &[String], tree: &str, paths: &mut Vec<ModulePath>) {
    let tree = tree.trim();
    let (path, group) = tree.split_once('{').unwrap_or((tree, ""));
    let path = path.split(" as ").next().unwrap_or(path);
    let mut base = prefix.to_vec();
    base.extend(
        words(path)
            .filter(|word| *word != "self" || prefix.is_empty())
            .map(str::to_owned),
    );
    let Some(group) = group.strip_suffix('}') else {
        if !base.is_empty() {
            paths.push(base);
        }
        return;
    };
    let mut depth = 0;
    let branches = group.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for branch in branches.filter(|branch| !branch.trim().is_empty()) {
        expand(&base, branch, paths);
    }
}

/// Returns the name that a line declares.
fn declaration(line: &str) -> Option<&str> {
    const KINDS: [&str; 9] = [
        "struct",
        "enum",
        "trait",
        "type",
        "fn",
        "const",
        "static",
        "mod",
        "macro_rules",
    ];
    let is_inner = line.starts_with(' ');
    let mut words = words(line).skip_while(|word| !KINDS.contains(word));
    let name = words.find(|word| !KINDS.contains(word))?;
    (!is_inner && !line.starts_with("use ") && !line.starts_with("//")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 5] = [
        (
            "a/src/lib.rs",
            "mod one;\nmod two;\npub use one::{One, deep::Deep};\n",
        ),
        (
            "a/src/one.rs",
            "mod deep;\nuse crate::two::Two;\nuse deep::Deep;\npub struct One;\n",
        ),
        ("a/src/one/deep.rs", "pub(crate) struct Deep;\nuse super::One;\n"),
        (
            "a/src/two.rs",
            "use crate::{\n    Deep,\n    three::{self as other},\n};\nuse super::One;\npub enum Two {}\n",
        ),
        (
            "a/src/three.rs",
            "use crate::one::deep::Deep;\nuse super::one::Missing;\n",
        ),
    ];

    #[test]
    fn cycle_is_found_through_a_reexport() {
        let arrows = arrows(FILES.into_iter());
        let of = |file: &str| arrows[file].iter().copied().collect::<Vec<_>>();
        assert_eq!(
            of("a/src/two.rs"),
            ["a/src/one.rs", "a/src/one/deep.rs", "a/src/three.rs"]
        );
        assert_eq!(of("a/src/one/deep.rs"), Vec::<&str>::new());
        assert_eq!(
            cycles(&arrows),
            [BTreeSet::from(["a/src/one.rs", "a/src/two.rs"])]
        );
    }
}
