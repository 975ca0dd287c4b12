//! Reports a measurement: for people, and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::counts::{CallKind, Latencies, LoadCounts};
use super::machine::Limit;
use super::measured::Measured;
use super::numbers::approximate;
use super::options::Plan;
use super::recheck::Checked;
use super::safety::Faults;
use crate::cli::output::{Output, TextStyle};
use crate::cli::problem::Problem;
use crate::cli::table::{Cell, Table};
use crate::cli::text::counted;

/// The quantiles of the latency in a summary.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
/// The resolution of `--histogram`: the number of steps for each halving of the remaining share.
const STEPS_OF_HALVES: u32 = 2;

/// Prints one second of a running measurement.
pub(super) fn second(output: Output, plan: &Plan, passed: Duration, took: Duration, tally: &LoadCounts) {
    let all = tally.all();
    let rate = approximate(tally.items) / took.as_secs_f64().max(f64::MIN_POSITIVE);
    let (_, units) = plan.workload.unit();
    let refused = match tally.refused_in_all() {
        0 => String::new(),
        count => format!(", {count} refused"),
    };
    output.note(&format!(
        "{:>4} s  {rate:>8.0} {units} a second  p50 {:>8}  p99 {:>8}{refused}",
        (passed + took).as_secs_f64().round(),
        latency(all.value_at_quantile(0.5)),
        latency(all.value_at_quantile(0.99)),
    ));
}

/// A latency in a unit that fits it.
pub(super) fn latency(micros: u64) -> String {
    let value = approximate(micros);
    match micros {
        ..1_000 => format!("{micros} us"),
        1_000..10_000 => format!("{:.2} ms", value / 1e3),
        10_000..100_000 => format!("{:.1} ms", value / 1e3),
        100_000..1_000_000 => format!("{:.0} ms", value / 1e3),
        1_000_000.. => format!("{:.2} s", value / 1e6),
    }
}

/// Describes a measurement in one line.
pub(super) fn heading(plan: &Plan, steps: bool) -> String {
    let mut text = plan.workload.to_string();
    if plan.batch > 1 {
        let _written = write!(text, " in batches of {}", plan.batch);
    }
    if !steps {
        let _written = write!(text, ", {} under way", counted(plan.in_flight, "call", "calls"));
    }
    let _written = write!(text, " on {}", counted(plan.connections, "connection", "connections"));
    if let Some(rate) = plan.rate {
        let _written = write!(text, ", {rate} a second");
    }
    text
}

/// Prints a single measurement.
pub(super) fn one(output: Output, measured: &Measured) -> Result<(), Problem> {
    let plan = &measured.plan;
    let (unit, units) = plan.workload.unit();
    output.line(&format!(
        "{} in {:.1} s: {:.0} a second",
        counted(measured.items, unit, units),
        measured.time.as_secs_f64(),
        measured.rate()
    ))?;
    let mut table = Table::new(&["CALL", "ANSWERED", "P50", "P90", "P99", "P99.9", "MAX"]);
    let refusals = ("refused", &measured.tally.refusals);
    for (name, latencies) in calls(measured).into_iter().chain([refusals]) {
        if latencies.is_empty() {
            continue;
        }
        let quantiles = QUANTILES.map(|(_, share)| Cell::from(latency(latencies.value_at_quantile(share))));
        let mut row = vec![name.into(), latencies.len().to_string().into()];
        row.extend(quantiles);
        row.push(latency(latencies.max()).into());
        table.row(row);
    }
    table.print(output)?;
    troubles(output, measured)?;
    if plan.histogram {
        for (name, latencies) in calls(measured) {
            distribution(output, name, latencies)?;
        }
    }
    Ok(())
}

/// Prints what was refused or missed, and what the client itself used.
fn troubles(output: Output, measured: &Measured) -> Result<(), Problem> {
    let tally = &measured.tally;
    if tally.refused_in_all() > 0 {
        let refused: Vec<String> =
            tally.refused.iter().map(|(word, count)| format!("{word} {count}")).collect();
        output.line(&format!("{}: {}", output.styled("refused", TextStyle::Doubtful), refused.join(", ")))?;
    }
    if measured.missed > 0 {
        output.line(&format!(
            "{}: {} had no room: all calls that may be under way were; raise --in-flight, or lower --rate",
            output.styled("the rate was not reached", TextStyle::Doubtful),
            counted(measured.missed, "call", "calls")
        ))?;
    }
    let load = measured.load;
    let each = load.own.as_secs_f64() * 1e6 / approximate(measured.items.max(1));
    let busy =
        load.busy.map_or_else(String::new, |busy| format!("; this machine was {:.0} % busy", busy * 100.0));
    let (unit, _) = measured.plan.workload.unit();
    output.line(&format!(
        "client: {:.2} of {:.0} cores, {each:.1} us for each {unit}{busy}",
        load.client, load.cores
    ))?;
    let limit = match load.limit() {
        Limit::Elsewhere => return Ok(()),
        Limit::Client => {
            "the client is the limit: a server with more room would not show it; give it more --threads, or run several clients"
        }
        Limit::Machine => {
            "this machine is the limit, and the client takes a part of it: run the client on another one"
        }
    };
    output.line(&output.styled(limit, TextStyle::Doubtful))
}

/// The kinds of calls that were answered.
fn calls(measured: &Measured) -> Vec<(&'static str, &Latencies)> {
    let all = CallKind::ALL.map(|call| (call.name(measured.plan.batch), measured.tally.of(call)));
    all.into_iter().filter(|(_, latencies)| !latencies.is_empty()).collect()
}

fn distribution(output: Output, name: &str, latencies: &Latencies) -> Result<(), Problem> {
    output.line(&format!("\n{name}"))?;
    let mut table = Table::new(&["LATENCY", "PERCENTILE", "CALLS"]).indented();
    let mut calls = 0;
    for step in latencies.iter_quantiles(STEPS_OF_HALVES) {
        calls += step.count_since_last_iteration();
        let share = format!("{:.4}", step.quantile_iterated_to() * 100.0);
        table.row(vec![latency(step.value_iterated_to()).into(), share.into(), calls.to_string().into()]);
    }
    table.print(output)
}

/// Prints several measurements as a table.
pub(super) fn steps(output: Output, all: &[Measured]) -> Result<(), Problem> {
    let mut table = Table::new(&["CALLS UNDER WAY", "A SECOND", "P50", "P99", "MAX", "REFUSED", "CLIENT"]);
    for measured in all {
        let latencies = measured.tally.all();
        table.row(vec![
            measured.plan.in_flight.to_string().into(),
            format!("{:.0}", measured.rate()).into(),
            latency(latencies.value_at_quantile(0.5)).into(),
            latency(latencies.value_at_quantile(0.99)).into(),
            latency(latencies.max()).into(),
            measured.tally.refused_in_all().to_string().into(),
            format!("{:.2} of {:.0} cores", measured.load.client, measured.load.cores).into(),
        ]);
    }
    table.print(output)
}

/// Prints the result of the safety check; wrong answers are described separately.
pub(super) fn checked(output: Output, checked: &Checked) -> Result<(), Problem> {
    let unknown = match checked.unknown {
        0 => String::new(),
        count => format!("; {} could not be looked at", counted(count, "message", "messages")),
    };
    output.line(&format!(
        "checked: {} delivered again, {} claimed by several at the same time{unknown}",
        counted(checked.again, "message", "messages"),
        counted(checked.raced, "new one", "new ones")
    ))
}

/// A measurement as JSON.
pub(super) fn json(measured: &Measured) -> Value {
    let (plan, load) = (&measured.plan, measured.load);
    let mut calls: Map<String, Value> = Map::new();
    for (name, latencies) in self::calls(measured) {
        calls.insert(name.to_owned(), latencies_json(latencies, plan.histogram));
    }
    if !measured.tally.refusals.is_empty() {
        calls.insert("refused".to_owned(), latencies_json(&measured.tally.refusals, plan.histogram));
    }
    json!({
        "workload": plan.workload.to_string(),
        "batch": plan.batch,
        "inFlight": plan.in_flight,
        "connections": plan.connections,
        "rate": plan.rate,
        "seconds": rounded(measured.time.as_secs_f64()),
        "count": measured.items,
        "perSecond": rounded(measured.rate()),
        "calls": calls,
        "refused": measured.tally.refused,
        "missed": measured.missed,
        "created": measured.created,
        "client": {
            "cpuSeconds": rounded(load.own.as_secs_f64()),
            "cores": load.cores,
            "machineBusy": load.busy.map(rounded),
            "isTheLimit": load.limit() == Limit::Client,
            "machineIsTheLimit": load.limit() == Limit::Machine,
        },
    })
}

pub(super) fn checked_json(checked: Option<&Checked>, faults: &Faults) -> Value {
    let Some(checked) = checked else { return json!({ "wrongAnswers": faults.count }) };
    json!({
        "deliveredAgain": checked.again,
        "raced": checked.raced,
        "unknown": checked.unknown,
        "created": checked.created,
        "wrongAnswers": faults.count,
    })
}

/// In microseconds.
fn latencies_json(latencies: &Latencies, histogram: bool) -> Value {
    let mut report = Map::new();
    report.insert("answered".to_owned(), latencies.len().into());
    report.insert("mean".to_owned(), json!(rounded(latencies.mean())));
    for (name, share) in QUANTILES {
        report.insert(name.to_owned(), latencies.value_at_quantile(share).into());
    }
    report.insert("max".to_owned(), latencies.max().into());
    if histogram {
        let buckets = latencies.iter_recorded();
        let buckets = buckets.map(|one| json!([one.value_iterated_to(), one.count_at_value()]));
        report.insert("histogram".to_owned(), buckets.collect());
    }
    Value::Object(report)
}

/// To a thousandth.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::latency;

    #[test]
    fn latencies_have_a_fitting_unit() {
        for (micros, text) in [
            (7, "7 us"),
            (999, "999 us"),
            (1_234, "1.23 ms"),
            (43_210, "43.2 ms"),
            (120_400, "120 ms"),
            (1_500_000, "1.50 s"),
        ] {
            assert_eq!(latency(micros), text);
        }
    }
}
