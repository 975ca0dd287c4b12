"""The dashboard without the values that it shows: the selection by `$consumer`, units, legends and variables.

Each query, legend, unit and variable is then changed by each of the mistakes that fit it, and a check must notice the mistake.
"""

import collections
import json
import pathlib
import re

import catalogue

BOARD = pathlib.Path(__file__).resolve().parents[2] / "deploy/dashboards/ledger.json"
# The only row whose queries do not select by `$consumer`: it shows the whole ledger, whichever consumers are chosen.
WHOLE = "Is the ledger well?"
CHOICE = 'consumer=~"$consumer"'
# The value of `$consumer` while all consumers are chosen.
ALL = ".*"

# The unit of a query is that of the first pattern that the query matches.
UNITS = [
    (r"histogram_quantile\(.*_seconds_bucket\b|rate\(\w+_seconds_sum\b.* / ", "s"),
    (r"_timestamp_seconds - time\(\)\) / 86400", "d"),
    # The mean of a histogram's values, and the part of a counter's events.
    (r"rate\((\w+)_sum\b.* / .*rate\(\1_count\b", "short"),
    (r"rate\((\w+)\b.* / .*rate\(\1\b", "percentunit"),
    # Seconds of CPU time a second are cores.
    (r"rate\(\w+_seconds_total\b", "short"),
    (r"rate\(", "ops"),
    (r"increase\(", "short"),
    (r"_seconds\b", "s"),
    (r"_bytes\b", "bytes"),
    (r"", "short"),
]

# Changes of a line: the field, the text that is replaced, and its replacement. A check must notice the change at each place.
MISTAKES = [
    ("query", r'consumer=~"\$consumer"(, )?', ""), ("query", r'"\$consumer"', '"$consumer|.*"'),
    ("query", r"(?<=_total)\[", f"{{{CHOICE}}}["),
    ("legend", r"\{\{\w+\}\}", ""), ("legend", r"\{\{\w+\}\}", "{{job}}"), ("legend", r"^.+$", ""), ("legend", r"$", "{{job}}"),
    *[("unit", f"^(?!{unit}$).+", unit) for unit in sorted({unit for _, unit in UNITS})],
]
# Changes of the variable.
VARIABLE_MISTAKES = [
    {"query": "label_values(idempotency_ledger_alerts_total, consumer)"},
    {"query": "label_values(idempotency_ledger_claimed_total, consumer)"},
    {"query": "label_values(idempotency_ledger_claims_total, verdict)"},
    {"query": "consumer"}, {"name": "who"}, {"type": "custom"}, {"includeAll": False}, {"allValue": "c"},
]

Line = collections.namedtuple("Line", "row kind title number unit query legend")


def read():
    return json.loads(BOARD.read_text())


def lines():
    """Each query of the dashboard, with its legend, and with the row, the kind, the title and the unit of its panel."""
    row = None
    for panel in read()["panels"]:
        row = panel["title"] if panel["type"] == "row" else row
        for number, target in enumerate(panel.get("targets", [])):
            unit = panel["fieldConfig"]["defaults"].get("unit")
            yield Line(row, panel["type"], panel["title"], number, unit, target["expr"], target.get("legendFormat", ""))


def unit_of(query):
    return next(unit for pattern, unit in UNITS if re.search(pattern, query))


def line_problems(line, shown, metrics):
    """The problems of a line that shows series with these labels."""
    if line.unit != unit_of(line.query):
        yield f"the unit is {line.unit}, not {unit_of(line.query)}"
    if sorted(re.findall(r"\{\{(\w+)\}\}", line.legend)) != sorted(shown):
        yield f"the legend {line.legend!r} does not name exactly the labels {sorted(shown)}"
    if line.kind != "stat" and not line.legend:
        yield "the legend is empty"
    for metric, matchers in catalogue.selected(line.query, metrics):
        wanted = line.row != WHOLE and "consumer" in metrics.get(metric, ())
        if (CHOICE in matchers.split(", ")) != wanted:
            yield f"{metric} must {'' if wanted else 'not '}be selected by {CHOICE}"


def problems_of(several, shown, metrics):
    """The problems of the lines. Two lines of one panel must have different legends."""
    problems = [f"the panel {line.title!r}, query {line.number}: {problem}" for line in several
                for problem in line_problems(line, shown.get((line.title, line.number), ()), metrics)]
    counts = collections.Counter((line.title, line.legend) for line in several)
    return problems + [f"the panel {title!r} has {count} lines {legend!r}" for (title, legend), count in counts.items() if count > 1]


def mistaken(line, panel):
    """The line with each of MISTAKES that fits it, at each place; and with the legend of each other line of its panel."""
    for field, pattern, instead in MISTAKES:
        before = getattr(line, field)
        for found in re.finditer(pattern, before):
            yield line._replace(**{field: before[: found.start()] + instead + before[found.end():]})
    yield from (line._replace(legend=other.legend) for other in panel if other != line)


def variable_problems(variables, several, metrics):
    """The problems of the variables. Each must be used, and must list the values of the label that has its name."""
    used = {name for line in several for name in re.findall(r"\$(\w+)", line.query)} - {"__rate_interval"}
    asked = {variable["name"]: variable for variable in variables if variable["type"] == "query"}
    if set(asked) != used:
        yield f"the queries use the variables {sorted(used)}, and the dashboard has {sorted(asked)}"
    for name, variable in asked.items():
        found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"])
        if not found or found[2] != name or name not in metrics.get(found[1], ()):
            yield f"the variable {name} does not list the label {name} of a metric: {variable['query']}"
        if not variable["includeAll"] or variable["allValue"] != ALL:
            yield f"the variable {name} does not offer {ALL!r} for all values"


def check(shown):
    """The problems, and the number of mistakes. Shown are the labels of the series, by a panel's title and a query's number."""
    metrics, every, variables = catalogue.labels(), list(lines()), read()["templating"]["list"]
    problems = problems_of(every, shown, metrics) + list(variable_problems(variables, every, metrics))
    mistakes = 0
    for line in every:
        panel = [one for one in every if one.title == line.title]
        for changed in mistaken(line, panel):
            mistakes += 1
            if not problems_of([changed if one == line else one for one in panel], shown, metrics):
                problems.append(f"no check notices this mistake in {line.title!r}: {changed}")
    for mistake in VARIABLE_MISTAKES:
        changed = [one | mistake if one["type"] == "query" else one for one in variables]
        if not list(variable_problems(changed, every, metrics)):
            problems.append(f"no check notices this mistake in a variable: {mistake}")
    return problems, mistakes + len(VARIABLE_MISTAKES)
