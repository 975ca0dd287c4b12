use super::*;
use crate::cli::screens::{NOW, check};
use crate::proto::{
    ConsumerSummary, EntryState, Hold, InboxSummary, ParkCause, StateSummary, SummarizeEntriesResponse,
};

#[allow(clippy::unnecessary_wraps, reason = "as messages have it")]
fn age(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn of(state: EntryState, count: i64) -> StateSummary {
    StateSummary { state: state.into(), count, ..Default::default() }
}

fn one(consumer: &str, states: Vec<StateSummary>) -> ConsumerSummary {
    ConsumerSummary { consumer: consumer.into(), states, ..Default::default() }
}

fn look(consumers: Vec<ConsumerSummary>) -> Look {
    Look { summary: SummarizeEntriesResponse { consumers, ..Default::default() }, ..Look::default() }
}

#[test]
fn summary_shows_estimates_bounds_stuck_and_held() {
    let consumer = ConsumerSummary {
        expired: 3,
        longest_expired: age(61),
        near_exhaustion: 1,
        disabled: true,
        doubled: 4,
        ..one(
            "pay\x1bments",
            vec![
                StateSummary { at_least: true, ..of(EntryState::Received, 0) },
                StateSummary { at_least: true, ..of(EntryState::InProgress, 1_001) },
                StateSummary { estimated: true, ..of(EntryState::Completed, 7) },
                StateSummary {
                    cause: ParkCause::EffectUnknown.into(),
                    oldest_age: age(90_000),
                    ..of(EntryState::Parked, 2)
                },
            ],
        )
    };
    assert_eq!(
        lines(Output::plain(), &look(vec![consumer]), None),
        [
            "needs a person:",
            "  4 effects may have happened twice: pay\u{fffd}ments 4 (entries list --doubled)",
            "  2 entries are parked: pay\u{fffd}ments 2 (entries list --state PARKED --group-by error)",
            "  3 claims are expired, the longest for 1m: pay\u{fffd}ments 3 (entries list --expired)",
            "  1 entry has at most one attempt left: pay\u{fffd}ments 1 (entries list --state FAILED_RETRYABLE)",
            "  no new grants: pay\u{fffd}ments (disabled) (policy history \"$(printf %b 'pay\\0033ments')\")",
            "pay\u{fffd}ments  disabled: no new grants",
            "  STATE        CAUSE           COUNT  OLDEST",
            "  IN_PROGRESS  -               1001+  -",
            "  COMPLETED    -               ~7     -",
            "  PARKED       EFFECT_UNKNOWN  2      1d 1h",
            "  expired claims: 3, the longest for 1m",
            "  doubled effects: 4",
            "  with at most one attempt left: 1",
        ]
    );
}

#[test]
fn summary_of_nothing_says_so() {
    assert_eq!(
        lines(Output::plain(), &look(Vec::new()), None),
        ["nothing needs a person", "there are no entries"]
    );
}

#[test]
fn summary_overdue_backlog_needs_a_person() {
    for (due, seconds, needs) in [
        (0, None, "nothing needs a person"),
        (12, Some(899), "nothing needs a person"),
        (
            12,
            Some(900),
            "  stored messages wait, the oldest has been due for 15m: mail 12 (entries next mail)",
        ),
    ] {
        let inbox = InboxSummary { due, later: 3, oldest_due_age: seconds.and_then(age), at_least: due > 0 };
        let consumer = ConsumerSummary { inbox: Some(inbox), ..one("mail", Vec::new()) };
        let shown = lines(Output::plain(), &look(vec![consumer]), None);
        assert!(shown.contains(&needs.to_owned()), "{due}: {shown:?}");
    }
    let inbox = InboxSummary { due: 2, later: 3, oldest_due_age: age(70), at_least: false };
    let consumer = ConsumerSummary { inbox: Some(inbox), ..one("mail", Vec::new()) };
    let shown = lines(Output::plain(), &look(vec![consumer]), None);
    assert!(shown.contains(&"  stored messages: 2 due, the oldest for 1m; 3 later".to_owned()), "{shown:?}");
}

#[test]
fn summary_shows_what_is_worth_a_look_below_what_needs_a_person() {
    let aged = |state, count, seconds| StateSummary { oldest_age: age(seconds), ..of(state, count) };
    let inbox = Some(InboxSummary { due: 2, ..InboxSummary::default() });
    let stored = ConsumerSummary { inbox, ..one("mail", vec![of(EntryState::Received, 2)]) };
    let held = "  claims are held on messages that are up to 8m old: labels 3 (entries list --state IN_PROGRESS --older-than 5m)";
    let waits = "  redriven or resolved messages wait until they are delivered again: invoices 120 (entries list --state RECEIVED)";
    for (consumers, looks) in [
        (vec![one("labels", vec![aged(EntryState::InProgress, 3, 299)])], &[][..]),
        (vec![one("labels", vec![aged(EntryState::InProgress, 3, 480)])], &[held]),
        (
            vec![ConsumerSummary { expired: 3, ..one("labels", vec![aged(EntryState::InProgress, 3, 480)]) }],
            &[],
        ),
        (vec![stored.clone()], &[]),
        (
            vec![
                stored,
                one("labels", vec![aged(EntryState::InProgress, 3, 480)]),
                one("invoices", vec![aged(EntryState::Received, 120, 22)]),
            ],
            &[held, waits],
        ),
    ] {
        let shown = lines(Output::plain(), &look(consumers), None);
        let heading = shown.iter().position(|line| line == "worth a look:");
        assert_eq!(heading, (!looks.is_empty()).then_some(1), "{shown:?}");
        let found = shown.iter().skip(2).take(looks.len()).map(String::as_str).collect::<Vec<_>>();
        assert_eq!(found, looks, "{shown:?}");
        assert_eq!(
            shown[0].starts_with("nothing"),
            !shown.iter().any(|line| line.contains("expired")),
            "{shown:?}"
        );
    }
}

#[test]
fn summary_commands_are_never_broken() {
    let shown = lines(Output::of_width(80), &busy(), None);
    assert!(shown.contains(&"    entries list --state PARKED --group-by error".to_owned()), "{shown:?}");
}

#[test]
fn held_consumers_without_entries_are_shown() {
    let held = Look {
        holds: vec![Hold { prefix: "team-a-".into(), ..Hold::default() }],
        disabled: vec!["mail".into(), "mail".into()],
        ..look(Vec::new())
    };
    let shown = lines(Output::plain(), &held, None);
    assert_eq!(
        shown[1],
        "  no new grants: team-a-* (held), mail (disabled) (policy holds; policy history mail)"
    );
    let all = Look { holds: vec![Hold { all: true, ..Hold::default() }], ..look(Vec::new()) };
    assert!(lines(Output::plain(), &all, None)[1].starts_with("  no new grants: all consumers (held) "));
}

/// Two consumers, of which one has a page of trouble.
fn busy() -> Look {
    let parked = |cause: ParkCause, count, seconds| StateSummary {
        cause: cause.into(),
        oldest_age: age(seconds),
        ..of(EntryState::Parked, count)
    };
    let mut payments = one(
        "payments",
        vec![
            StateSummary { estimated: true, ..of(EntryState::Completed, 101_731) },
            parked(ParkCause::AttemptsExhausted, 1_000, 17),
            parked(ParkCause::EffectUnknown, 30, 187_200),
        ],
    );
    payments.doubled = 10;
    payments.held_by = Some("pay".into());
    let mut refunds = one("refunds-of-the-european-region", vec![parked(ParkCause::EffectUnknown, 2, 60)]);
    refunds.doubled = 2;
    refunds.expired = 3;
    refunds.longest_expired = age(3_700);
    let mut look = look(vec![payments, refunds]);
    look.summary.as_of = Some(prost_types::Timestamp { seconds: NOW, nanos: 0 });
    look.holds = vec![Hold { prefix: "pay".into(), ..Hold::default() }];
    look
}

#[test]
fn summary_screens_show_what_needs_a_person_first() {
    check("summary", |output| lines(output, &busy(), None));
    let shown = lines(Output::of_width(80), &busy(), None);
    assert!(shown[2].starts_with("  12 effects may have happened twice: payments 10,"), "{shown:?}");
    assert!(shown.contains(&"  PARKED     EFFECT_UNKNOWN      32       2d 4h".to_owned()), "{shown:?}");
}

#[test]
fn second_look_names_what_has_changed() {
    let (last, mut now) = (busy(), busy());
    let line = |now: &Look| {
        let lines = lines(Output::plain(), now, Some(&last));
        lines
            .into_iter()
            .find_map(|line| line.strip_prefix("changed since the last look: ").map(str::to_owned))
    };
    assert_eq!(line(&now).as_deref(), Some("nothing"));
    // An estimate is not compared: it moves by itself.
    now.summary.consumers[0].states[0].count += 500;
    assert_eq!(line(&now).as_deref(), Some("nothing"));
    now.summary.consumers[0].states[1].count -= 3;
    now.summary.consumers[0].doubled += 1;
    now.summary.consumers[1].states.clear();
    now.summary.consumers.push(one("shipping", vec![of(EntryState::FailedTerminal, 4)]));
    assert_eq!(
        line(&now).as_deref(),
        Some(
            "payments PARKED (ATTEMPTS_EXHAUSTED) -3, refunds-of-the-european-region PARKED (EFFECT_UNKNOWN) -2, \
             shipping FAILED_TERMINAL +4, doubled effects +1"
        )
    );
    assert_eq!(
        lines(Output::plain(), &now, None).iter().filter(|line| line.contains("last look")).count(),
        0
    );
}

#[test]
fn entries_of_a_replay_run_are_named_with_their_run() {
    let parked = |count| ConsumerSummary {
        replay_run: "view-9".into(),
        ..one("mail", vec![of(EntryState::Parked, count)])
    };
    let shown = lines(Output::plain(), &look(vec![parked(3)]), Some(&look(vec![parked(1)])));
    for line in [
        "  3 entries are parked: mail (replay run view-9) 3 (entries list --state PARKED --group-by error)",
        "mail  replay run view-9",
        "changed since the last look: mail (replay run view-9) PARKED +2",
    ] {
        assert!(shown.contains(&line.to_owned()), "must show {line:?}: {shown:?}");
    }
}

#[test]
fn summary_names_five_consumers_and_counts_the_others() {
    // An operator who may not see the holds sees which consumers are held.
    let stopped = |number: i64| ConsumerSummary {
        held_by: Some(String::new()),
        doubled: number,
        ..one(&format!("c{number}"), Vec::new())
    };
    let shown = lines(Output::plain(), &look((1..=7).map(stopped).collect()), None);
    let needs = [
        "  28 effects may have happened twice: c7 7, c6 6, c5 5, c4 4, c3 3, 2 more (entries list --doubled)",
        "  no new grants: c1 (held), c2 (held), c3 (held), c4 (held), c5 (held), 2 more (policy holds)",
    ];
    assert_eq!(shown[1..3], needs, "{shown:?}");
}
