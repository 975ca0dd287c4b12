//! Which file of `src` uses which, from their `use` lines and paths. A `pub use` counts as the file that it names;
//! tests within a file do not count.

use std::collections::{BTreeMap, BTreeSet};

/// A module's path, `["rpc", "wire"]`; the crate's root is empty.
type Module = Vec<String>;

pub(super) struct Graph {
    pub(super) arrows: BTreeMap<Module, BTreeSet<Module>>,
}

/// How often one thing has another name, at the most.
const RENAMED_MAX: usize = 8;

/// A `use` line's leaves, each with all of its segments.
fn leaves(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((before, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.split("::").map(|part| part.trim().to_owned()).collect()];
    };
    let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
    let first: Vec<String> =
        before.trim().split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in inner.chars() {
        match letter {
            ',' if depth == 0 => parts.push(String::new()),
            _ => {
                depth += i32::from(letter == '{') - i32::from(letter == '}');
                parts.last_mut().unwrap().push(letter);
            }
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts
        .flat_map(|part| leaves(part))
        .map(|leaf| if leaf == ["self"] { first.clone() } else { [first.clone(), leaf].concat() })
        .collect()
}

/// A statement `use …;` without its visibility, and whether it has one.
fn uses(code: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let is_public = line.starts_with("pub use ") || line.starts_with("pub(") && line.contains(") use ");
        let Some((_, tree)) = line.split_once("use ").filter(|_| is_public || line.starts_with("use "))
        else {
            continue;
        };
        let mut tree = tree.to_owned();
        while !tree.contains(';') {
            let Some(more) = lines.next() else { break };
            tree.push_str(more);
        }
        found.push((tree.trim_end().trim_end_matches(';').to_owned(), is_public));
    }
    found
}

/// Paths in the code itself: `crate::…`, `super::…`, `self::…`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let lines = code.lines().filter(|line| !(line.starts_with("pub") && line.contains(" use ")));
    let words = lines.flat_map(|line| {
        line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':'))
    });
    let begins = |word: &&str| ["crate::", "super::", "self::"].iter().any(|first| word.starts_with(first));
    words.filter(begins).map(|word| word.split("::").map(str::to_owned).collect()).collect()
}

impl Graph {
    /// Of the files, each with its module and its code without tests and comments.
    pub(super) fn new(files: &BTreeMap<Module, String>) -> Graph {
        let absolute = |path: &[String], module: &Module| -> Option<Module> {
            let mut at = module.clone();
            match path.first()?.as_str() {
                "crate" => return Some(path[1..].to_vec()),
                "self" => return Some([at, path[1..].to_vec()].concat()),
                "super" => {}
                child => {
                    at.push(child.to_owned());
                    return files.contains_key(&at).then(|| [module.clone(), path.to_vec()].concat());
                }
            }
            let rest = path.iter().skip_while(|part| *part == "super");
            for _ in path.iter().take_while(|part| *part == "super") {
                at.pop();
            }
            Some(at.into_iter().chain(rest.cloned()).collect())
        };
        let mut named = BTreeMap::new();
        for (module, code) in files {
            for (tree, _) in uses(code).iter().filter(|(_, is_public)| *is_public) {
                for target in leaves(tree).iter().filter_map(|leaf| absolute(leaf, module)) {
                    let name = target.last().cloned().unwrap_or_default();
                    named.insert([module.clone(), vec![name]].concat(), target);
                }
            }
        }
        let file_of = |mut target: Module| -> Module {
            for _ in 0..RENAMED_MAX {
                let again = (1..=target.len()).rev().find_map(|length| {
                    // A module keeps its name, also where something in it has the same.
                    let to =
                        named.get(&target[..length]).filter(|_| !files.contains_key(&target[..length]))?;
                    Some([to.clone(), target[length..].to_vec()].concat())
                });
                let Some(next) = again else { break };
                target = next;
            }
            while !files.contains_key(&target) {
                target.pop();
            }
            target
        };
        let mut arrows: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (module, code) in files {
            let private = uses(code).into_iter().filter(|(_, is_public)| !is_public);
            let used = private.flat_map(|(tree, _)| leaves(&tree));
            let all = used.chain(paths(code)).filter_map(|path| absolute(&path, module)).map(file_of);
            arrows.entry(module.clone()).or_default().extend(all.filter(|target| target != module));
        }
        Graph { arrows }
    }

    /// The arrows between rooms: the folders and files side by side in one folder.
    pub(super) fn of_rooms(&self) -> Graph {
        let mut arrows: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (from, targets) in &self.arrows {
            for to in targets {
                let common = from.iter().zip(to).take_while(|(one, other)| one == other).count();
                if from.len() > common && to.len() > common {
                    arrows.entry(from[..=common].to_vec()).or_default().insert(to[..=common].to_vec());
                }
            }
        }
        Graph { arrows }
    }

    /// A circle, if there is one: each uses the next, and the last uses the first.
    pub(super) fn circle(&self) -> Option<Vec<String>> {
        let mut left: BTreeMap<&Module, BTreeSet<&Module>> =
            self.arrows.iter().map(|(from, to)| (from, to.iter().collect())).collect();
        // Whoever uses nobody that is left is in no circle.
        loop {
            let known: BTreeSet<&Module> = left.keys().copied().collect();
            left.values_mut().for_each(|to| to.retain(|module| known.contains(module)));
            let before = left.len();
            left.retain(|_, to| !to.is_empty());
            if left.len() == before {
                break;
            }
        }
        let mut at = *left.keys().next()?;
        let mut way: Vec<&Module> = Vec::new();
        while !way.contains(&at) {
            way.push(at);
            at = left[at].iter().next()?;
        }
        let from = way.iter().position(|one| *one == at)?;
        Some(way[from..].iter().map(|module| module.join("/")).collect())
    }
}

#[test]
fn a_circle_is_found() {
    let file = |path: &str, code: &str| (path.split('/').map(str::to_owned).collect(), code.to_owned());
    let circle = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(path, code)| file(path, code)).chain([(Vec::new(), String::new())]);
        let graph = Graph::new(&files.collect());
        (graph.circle().is_some(), graph.of_rooms().circle().is_some())
    };
    for (name, files, found) in [
        ("a line", &[("a", "use crate::b::B;"), ("b", "")][..], (false, false)),
        ("two files", &[("a", "use crate::b::B;"), ("b", "use super::a::{A, AA};")], (true, true)),
        ("a path", &[("a", "use crate::b;"), ("b", "fn f() { crate::a::f() }")], (true, true)),
        (
            "over three",
            &[("a", "use crate::b;"), ("b", "use crate::c::C;"), ("c", "use crate::a::A;")],
            (true, true),
        ),
        (
            "by another name",
            &[("a", "pub use self::x::X;"), ("a/x", "use crate::b::B;"), ("b", "use crate::a::X;")],
            (true, true),
        ),
        (
            "of rooms alone",
            &[
                ("a", ""),
                ("a/x", "use crate::b::y::Y;"),
                ("a/z", ""),
                ("b", ""),
                ("b/y", "use crate::a::z::Z;"),
            ],
            (false, true),
        ),
        (
            "a mod.rs and its own",
            &[("a", "mod x;\nuse self::x::X;"), ("a/x", "use super::Y;")],
            (true, false),
        ),
        (
            "groups",
            &[("a", "use crate::{\n    b::{self, B},\n    c,\n};"), ("b", ""), ("c", "use crate::a::A;")],
            (true, true),
        ),
    ] {
        assert_eq!(circle(files), found, "{name}");
    }
}
