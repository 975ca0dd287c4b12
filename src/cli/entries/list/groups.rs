//! `entries list --group-by error`: how many things went wrong, and what they are.

use crate::cli::client::{Admin, Client};
use crate::cli::consumer::{note_unknown, refused};
use crate::cli::enums;
use crate::cli::output::{Output, TextStyle};
use crate::cli::problem::{Exit, Problem};
use crate::cli::step::step;
use crate::cli::table::{Cell, Column, Table};
use crate::cli::text::{clean, counted, name, quoted, rough};
use crate::proto;

/// The largest number of groups that a server returns.
const GROUPS_MAX: usize = 1_000;
const COLUMNS: [Column; 6] = [
    Column::whole("COUNT"),
    Column::name("CONSUMER"),
    Column::whole("STATE").left_out(1),
    Column::whole("CAUSE").left_out(3),
    Column::whole("OLDEST").left_out(2),
    Column::text("ERROR"),
];

pub(super) async fn run(
    client: &Client,
    admin: &mut Admin,
    filter: proto::EntryFilter,
    limit: usize,
) -> Result<Exit, Problem> {
    let (consumer, replay_run) = (filter.consumer.clone(), filter.replay_run.clone());
    let maximum = if limit == 0 { GROUPS_MAX } else { limit.min(GROUPS_MAX) };
    let maximum = i32::try_from(maximum).unwrap_or(i32::MAX);
    let request = proto::GroupEntriesRequest { filter: Some(filter), maximum };
    let answer = admin.group_entries(client.request(request)).await;
    let answer = answer.map_err(|status| refused(&status, &consumer))?.into_inner();
    let output = client.output;
    if output.json() {
        output.message("GroupEntriesResponse", &answer)?;
        return Ok(Exit::Done);
    }
    if answer.groups.is_empty() {
        output.note("no entry matches");
        if !consumer.is_empty() {
            note_unknown(client, admin, &consumer).await;
        }
    } else {
        table(&answer, output).print(output)?;
    }
    for remark in remarks(&answer) {
        output.note(&remark);
    }
    for line in next(output, &client.program(), &replay_run, &answer) {
        output.note(&line);
    }
    Ok(Exit::Done)
}

/// The groups; on a narrow terminal each error follows its group as a whole, since the error is what the groups are made by.
fn table(answer: &proto::GroupEntriesResponse, output: Output) -> Table {
    let narrow = output.is_narrow();
    let mut table = Table::of(if narrow { &COLUMNS[..COLUMNS.len() - 1] } else { &COLUMNS[..] });
    let more = if answer.is_sample { "+" } else { "" };
    for group in &answer.groups {
        let mut row = vec![
            format!("{}{more}", group.count).into(),
            name(&group.consumer).into(),
            Cell::new(enums::state(group.state), enums::style(group.state, false)),
            enums::cause(group.cause).into(),
            group.oldest_age.as_ref().map_or_else(|| "-".to_owned(), |age| rough(age.seconds)).into(),
        ];
        let error = if group.error.is_empty() { "-".to_owned() } else { clean(&group.error) };
        if narrow {
            table.row(row);
            table.below(error);
            continue;
        }
        row.push(if group.error.is_empty() { Cell::new(error, TextStyle::Faint) } else { error.into() });
        table.row(row);
    }
    table
}

/// The command that lists the entries of the largest group's consumer and state.
fn next(
    output: Output,
    program: &str,
    replay_run: &str,
    answer: &proto::GroupEntriesResponse,
) -> Vec<String> {
    let Some(group) = answer.groups.first() else { return Vec::new() };
    let run =
        if replay_run.is_empty() { String::new() } else { format!(" --replay-run {}", quoted(replay_run)) };
    let (consumer, state) = (quoted(&group.consumer), enums::state(group.state));
    let command = format!("{program} entries list --consumer {consumer}{run} --state {state}");
    let mut lines =
        step(output.width(), &command, "which entries; `entries get` shows what can be done with one");
    if [proto::EntryState::Parked, proto::EntryState::FailedTerminal].contains(&group.state()) {
        let cause = enums::cause(group.cause);
        let cause = if group.cause == 0 { String::new() } else { format!(" --cause {cause}") };
        let command = format!(
            "{program} entries redrive --consumer {consumer}{run} --state {state}{cause} --reason WHY --dry-run"
        );
        lines.extend(step(output.width(), &command, "all of them, once the fault is mended"));
    }
    lines
}

/// What the groups do not show.
fn remarks(answer: &proto::GroupEntriesResponse) -> Vec<String> {
    let mut remarks = Vec::new();
    if answer.is_sample {
        let read = counted(answer.looked_at, "entry of more was", "entries of more were");
        remarks.push(format!("a sample: {read} read, the newest of each consumer and state"));
    }
    if answer.more_groups > 0 {
        let groups = counted(answer.more_groups, "group is", "groups are");
        remarks.push(format!("{groups} not shown: raise --limit, or 0 for {GROUPS_MAX}"));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Output;
    use crate::cli::screens::check;
    use crate::proto::{EntryGroup, EntryState, GroupEntriesResponse, ParkCause};

    fn screen(answer: &GroupEntriesResponse, output: Output) -> Vec<String> {
        let fitted = table(answer, output).fitted(output, output.width());
        let note = fitted.note();
        let next = next(output, "ledger", "", answer);
        fitted.lines.into_iter().chain(note).chain(remarks(answer)).chain(next).collect()
    }

    #[test]
    fn group_screens_show_counts_and_errors() {
        let group = |consumer: &str, cause: ParkCause, error: &str, count| EntryGroup {
            consumer: consumer.into(),
            state: EntryState::Parked.into(),
            cause: cause.into(),
            error: error.into(),
            count,
            oldest_age: Some(prost_types::Duration { seconds: 187_200, nanos: 0 }),
        };
        let error = "provider answered 502: upstream connect error or disconnect/reset before headers";
        let answer = GroupEntriesResponse {
            groups: vec![
                group("payments", ParkCause::AttemptsExhausted, error, 9_120),
                group("refunds-of-the-european-region", ParkCause::Consumer, "no such \u{1b}[31maccount", 30),
                group("payments", ParkCause::EffectUnknown, "", 1),
            ],
            looked_at: 10_000,
            is_sample: true,
            more_groups: 1,
            as_of: None,
        };
        check("groups", |output| screen(&answer, output));
        let whole = GroupEntriesResponse { is_sample: false, more_groups: 0, ..answer };
        let shown = screen(&whole, Output::plain());
        assert_eq!(shown.len(), 6, "{shown:?}");
        assert!(shown[1].starts_with("9120   payments "), "{shown:?}");
        assert!(shown[2].ends_with("  no such \u{fffd}[31maccount"), "{shown:?}");
        assert!(
            shown[4].starts_with("next: ledger entries list --consumer payments --state PARKED "),
            "{shown:?}"
        );
        // An error is never cut.
        let narrow =
            screen(&whole, Output::of_width(80)).join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(narrow.contains(error), "{narrow}");
    }

    #[test]
    fn only_groups_that_a_redrive_helps_suggest_it() {
        for (state, redrive) in [
            (EntryState::Parked, true),
            (EntryState::FailedTerminal, true),
            (EntryState::FailedRetryable, false),
            (EntryState::InProgress, false),
        ] {
            let group =
                EntryGroup { consumer: "c".into(), state: state.into(), count: 1, ..Default::default() };
            let answer = GroupEntriesResponse { groups: vec![group], ..Default::default() };
            let next = next(Output::plain(), "ledger", "view 9", &answer);
            let list = format!(
                "ledger entries list --consumer c --replay-run 'view 9' --state {}",
                enums::state(state.into())
            );
            assert!(next[0].contains(&list), "{next:?}");
            assert_eq!(next.iter().any(|line| line.contains("entries redrive")), redrive, "{next:?}");
        }
    }
}
