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
