//! `rights`: tokens that have an end, and what is said of those that are near it.

use super::alone;

/// Makes a token; the line for the file of tokens.
fn line(name: &str, expires: &str) -> String {
    let made = alone(&["rights", "token", name, "--expires", expires, "--json"]).json();
    made[0]["line"].as_str().unwrap().to_owned()
}

#[test]
fn a_token_with_an_end_is_written_with_it_and_named_before_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (tokens, rights) = (path("tokens.toml"), path("rights.toml"));
    let (soon, later) = (line("soon", "13d"), line("later", "15d"));
    assert!(soon.starts_with("soon = [{ hash = \"sha256:") && soon.contains(", expires = 20"), "{soon}");
    std::fs::write(&tokens, format!("[tokens]\n{soon}\n{later}\n")).unwrap();
    std::fs::write(
        &rights,
        "[[rights]]\nprincipal = 'token:*'\nconsumers = ['c']\nmay = ['claim', 'settle']\n",
    )
    .unwrap();
    let lint = ["rights", "lint", "--strict", "--rights-file", &rights, "--tokens-file", &tokens];
    let said = alone(&lint).says(1, &["a token of token:soon ends at 20", "within 13 days"]);
    assert!(!said.out.contains("later"), "{said:?}");
    let check = |principal| {
        alone(&[
            "rights",
            "check",
            "--rights-file",
            &rights,
            "--tokens-file",
            &tokens,
            principal,
            "c",
            "Claim",
        ])
    };
    check("token:soon").says(0, &["yes: ", "a token of token:soon ends at 20"]);
    let said = check("token:later").says(0, &["yes: "]);
    assert!(!said.out.contains("ends at"), "{said:?}");
    // Without an end the line is the short one.
    alone(&["rights", "token", "pay"]).says(0, &["pay = [\"sha256:"]);
    for expires in ["59s", "3651d", "soon"] {
        alone(&["rights", "token", "pay", "--expires", expires]).says(2, &["--expires"]);
    }
}

#[test]
fn rights_are_checked_for_one_consumer_a_prefix_and_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (rights, wrong) = (path("rights.toml"), path("wrong.toml"));
    let line = |consumer: &str| {
        format!("[[rights]]\nprincipal = 'token:p'\nconsumers = ['{consumer}']\nmay = ['read']\n")
    };
    std::fs::write(&rights, line("team-*")).unwrap();
    let check = |consumer, more: &[&str]| {
        alone(&[&["rights", "check", "--rights-file", &rights, "token:p", consumer], more].concat())
    };
    for (consumer, code, says) in [
        ("team-a", 0, "yes: token:p, ListEntries for the consumer team-a: needs `read`"),
        ("team-a-*", 0, "ListEntries for all consumers whose names begin with team-a-: needs `read`"),
        ("tea*", 1, "no: token:p, ListEntries for all consumers whose names begin with tea: "),
        ("*", 1, "no: token:p, ListEntries for all consumers: needs `read`"),
    ] {
        check(consumer, &["listentries"]).says(code, &[says]);
    }
    let answer = check("team-a", &["ListEntries", "--json"]).json().remove(0);
    assert_eq!(
        (&answer["allowed"], &answer["needs"], &answer["line"]),
        (&true.into(), &"read".into(), &1.into())
    );
    let answer = check("*", &["ListEntries", "--json"]);
    assert_eq!((answer.code, answer.out.contains("\"allowed\":false")), (1, true), "{answer:?}");
    check("team-a", &["NoSuchCall"]).says(2, &["RPC: NoSuchCall is none; there are ", "ListEntries"]);

    let lint =
        |file: &str, more: &[&str]| alone(&[&["rights", "lint", "--rights-file", file], more].concat());
    lint(&rights, &["--strict"]).says(0, &["nothing is odd"]);
    assert_eq!(lint(&rights, &["--json"]).json()[0]["warnings"], serde_json::json!([]));
    // Each fault of a file stands on a line, with the flag and the file.
    let unnamed = line("c").replace("'c'", "");
    std::fs::write(&wrong, unnamed.clone() + &unnamed).unwrap();
    let says = format!("error: --rights-file: {wrong}: ");
    let refused = lint(&wrong, &[]).says(2, &["line 1: consumers: is empty", "line 5: consumers: is empty"]);
    assert_eq!(refused.err.matches(&says).count(), 2, "{refused:?}");
}
