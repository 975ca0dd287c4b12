use super::*;

fn lines(table: &Table, width: Option<usize>) -> Vec<String> {
    table.fitted(Output::plain(), width).lines
}

#[test]
fn long_names_lose_their_middle_on_a_narrow_terminal() {
    let mut table = Table::new(&["STATE", "ID", "ERROR"]);
    table.row(vec!["PARKED".into(), "order-0123456789-0123456789-end".into(), "no".into()]);
    let narrow = table.fitted(Output::plain(), Some(40));
    assert_eq!(narrow.lines[1], "PARKED  order-012345…23456789-end  no", "{narrow:?}");
    assert_eq!(narrow.note(), ["shortened to the terminal's width;", "--wide shows all"]);
    let whole = table.fitted(Output::plain(), None);
    assert!(whole.lines[1].contains("order-0123456789-0123456789-end"));
    assert!(whole.note().is_empty());
    assert_eq!(shortened("世界世界世界", 7, false), "世…界");
}

#[test]
fn columns_are_aligned_by_visible_width() {
    let mut table = Table::new(&["A", "B"]);
    table.row(vec!["世界".into(), "x".into()]);
    table.row(vec!["a".into(), "a long text that does not fit".into()]);
    assert_eq!(lines(&table, Some(22)), ["A     B", "世界  x", "a     a long text tha…"]);
    assert_eq!(lines(&table, None)[2], "a     a long text that does not fit");
}

#[test]
fn empty_columns_are_left_out_first_without_a_note() {
    let mut table = Table::of(&[Column::name("ID"), Column::name("OWNER"), Column::text("LAST ERROR")]);
    table.row(vec!["order-0123456789".into(), "newsletter-6b/1".into(), "".into()]);
    let narrow = table.fitted(Output::plain(), Some(40));
    assert_eq!(narrow.lines, ["ID                OWNER", "order-0123456789  newsletter-6b/1"]);
    assert!(narrow.note().is_empty(), "{narrow:?}");
    // Where there is room, the heading shows that no entry has an error.
    assert_eq!(lines(&table, Some(60))[0], "ID                OWNER            LAST ERROR");
}

#[test]
fn text_below_a_row_wraps_and_is_never_cut() {
    let mut table = Table::of(&[Column::whole("COUNT")]);
    table.row(vec!["12".into()]);
    table.below("the provider answered 502 for this order".into());
    table.row(vec!["3".into()]);
    let narrow = ["COUNT", "12", "  the provider", "    answered 502 for", "    this order", "3"];
    assert_eq!(lines(&table, Some(20)), narrow);
    assert_eq!(lines(&table, None), ["COUNT", "12", "  the provider answered 502 for this order", "3"]);
}

const LIST: [Column; 5] = [
    Column::whole("WHEN"),
    Column::name("ID"),
    Column::name("SOURCE").left_out(1),
    Column::name("OWNER").left_out(2),
    Column::text("ERROR"),
];

fn list() -> Table {
    let mut table = Table::of(&LIST);
    for (id, owner) in [("order-1", "one"), ("order-2", "other")] {
        let error = "the provider answered 502 for this order";
        table.row(vec!["2026-11-21T13:11:33Z".into(), id.into(), "shop".into(), owner.into(), error.into()]);
    }
    table
}

#[test]
fn columns_are_left_out_before_an_instant_is_cut() {
    for (width, heading, left_out) in [
        (80, "WHEN                  ID       SOURCE  OWNER  ERROR", None),
        (
            55,
            "WHEN                  ID       OWNER  ERROR",
            Some("left out here: SOURCE (shop); --wide shows all"),
        ),
        (
            50,
            "WHEN                  ID       ERROR",
            Some("left out here: SOURCE (shop), OWNER; --wide shows all"),
        ),
        // Then a line is longer than the terminal: what is left stays whole.
        (
            10,
            "WHEN                  ID       ERROR",
            Some("left out here: SOURCE (shop), OWNER; --wide shows all"),
        ),
    ] {
        let fitted = list().fitted(Output::plain(), Some(width));
        assert_eq!(fitted.lines[0], heading, "{width}");
        assert!(fitted.lines[1].starts_with("2026-11-21T13:11:33Z  order-1  "), "{width}: {fitted:?}");
        assert!(
            fitted.lines.iter().all(|line| measure_text_width(line) <= width.max(47)),
            "{width}: {fitted:?}"
        );
        if let Some(note) = left_out {
            assert_eq!(fitted.note().join(" "), note, "{width}");
        }
    }
}

#[test]
fn wrapping_table_shows_everything() {
    let mut table = Table::fields();
    let error = "the provider answered 502 for order-0123456789012345678901234567890123456789";
    table.row(vec!["last error".into(), error.into()]);
    let shown = lines(&table, Some(40));
    assert_eq!(
        shown,
        [
            "last error  the provider answered 502",
            "            for",
            "            order-0123456789012345678901",
            "            234567890123456789",
        ]
    );
    assert_eq!(lines(&table, None), [format!("last error  {error}")]);
    let mut table = list().wrapping();
    table.row(vec!["-".into(), "-".into(), "-".into(), "-".into(), "x".repeat(50).into()]);
    let shown = lines(&table, Some(64));
    assert!(shown.iter().all(|line| measure_text_width(line) <= 64), "{shown:?}");
    let all = shown.concat();
    assert_eq!(all.matches('x').count(), 50);
    assert_eq!(all.matches('…').count(), 0);
}

#[test]
fn wrapped_breaks_at_spaces() {
    for (text, width, expected) in [
        ("", 5, &[""][..]),
        ("a b", 5, &["a b"]),
        ("aa bb cc", 5, &["aa bb", "cc"]),
        ("aaaaaaa b", 3, &["aaa", "aaa", "a b"]),
        ("世界世界", 5, &["世界", "世界"]),
        ("ab", 0, &["a", "b"]),
    ] {
        assert_eq!(wrapped(text, width), expected, "{text:?} {width}");
    }
}
