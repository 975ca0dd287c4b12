//! No crash point is forgotten: at each one of the source a proof demands that servers end.

use std::collections::BTreeSet;

use super::{conservation, harm};
use crate::architecture::{code, files};

/// The names that follow each `point` in a text.
fn names_after<'a>(text: &'a str, point: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(point).skip(1).filter_map(|rest| rest.split('"').next())
}

#[test]
fn each_crash_point_of_the_source_is_one_of_a_proof() {
    let sources: Vec<String> = files("src").iter().map(|(_, text)| code(text)).collect();
    let points = [r#"point(""#, r#"point_soon(""#];
    let named: BTreeSet<&str> = sources
        .iter()
        .flat_map(|text| points.into_iter().flat_map(|point| names_after(text, point)))
        .collect();
    let demanded: BTreeSet<&str> = harm::POINTS.into_iter().chain(conservation::POINTS).collect();
    assert_eq!(named, demanded);
}
