"""Each value of the chart is used: set to something else, it changes the manifests, or is refused by its name.

The values are those of values.schema.json and of values.yaml, leaf by leaf. Helm renders all of them in one call: a parent
chart holds this chart under one alias for each set of values. A refusal ends such a call, so each refused set costs
one more call.
"""

import copy
import json
import pathlib
import re
import shutil
import tempfile

import yaml

import chart

# Helm's own value, which each chart of a release sees.
HELMS_OWN = {"global"}
# Values that act only next to others: the value, or the folder of it, and the others.
NEEDS = {
    "autoscaling.max": {"autoscaling": {"enabled": True, "max": 4}},
    "autoscaling.cpu": {"autoscaling": {"enabled": True, "max": 4}},
    "migration.grantTo": {"migration": {"secret": "the-owner"}},
    "tls.clients": {"tls": {"secret": "the-certificate"}},
    "networkPolicy.egress.otlp.cidrs": {"networkPolicy": {"egress": {"otlp": {"ports": [4317]}}}},
    "networkPolicy.egress.jwks.cidrs": {"networkPolicy": {"egress": {"jwks": {"ports": [443]}}}},
    "monitoring.labels": {"monitoring": {"rules": True}},
    "monitoring.runbooks": {"monitoring": {"rules": True}},
    "monitoring.labels.release": {"monitoring": {"serviceMonitor": True}},
}
# What a text may become: the first that its pattern takes.
TEXTS = ["another-one", "7m", "10.9.0.0/16", "https://another.example/"]
NAMES = ["another", "OTEL_ANOTHER"]
SOURCE = re.compile(r"^# Source: all/charts/(v\d+)/(?:charts/)?(.*)$", re.MULTILINE)
REFUSED_BY = re.compile(r"all/charts/(v\d+)/templates")


def resolved(schema, whole):
    return whole["definitions"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema


def children(schema, default):
    """The named values inside of an object: of the schema, and of values.yaml where the schema leaves the names open."""
    named = dict(schema.get("properties", {}))
    for pattern, inside in schema.get("patternProperties", {}).items():
        named |= {name: inside for name in schema.get("required", []) if re.search(pattern, name)}
    of_any = schema.get("additionalProperties", {}) or {}
    return named | {name: of_any for name in (default or {}) if name not in named}


def is_open(schema):
    """Whether it is an object that may have any names: such an object is a value itself."""
    return schema.get("type") == "object" and "properties" not in schema and not schema.get("required")


def leaves(schema, default, whole, path=()):
    """Path, schema and default of each value."""
    schema = resolved(schema, whole)
    inside = children(schema, default) if schema.get("type") == "object" or isinstance(default, dict) else {}
    for name, one in inside.items():
        if path or name not in HELMS_OWN:
            yield from leaves(one, (default or {}).get(name), whole, (*path, name))
    if not inside or is_open(schema):
        yield path, schema, default


def others(schema, default, whole):
    """Other values that the schema takes."""
    schema = resolved(schema, whole)
    kinds = schema.get("type") or {int: "integer", bool: "boolean"}.get(type(default), "string")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if kind == "boolean":
        found = [True, False]
    elif kind == "integer":
        least, most = schema.get("minimum", 0), schema.get("maximum", 1_000_000)
        found = [min(most, (default or least) + 1), least, most]
    elif kind == "string":
        found = [next(text for text in TEXTS if re.search(schema.get("pattern", ""), text))]
    elif kind == "array":
        found = [(default or []) + others(schema["items"], None, whole)[-1:]]
    else:
        inside = next(iter(schema.get("patternProperties", {}).items()), ("", schema.get("additionalProperties") or {}))
        name = next(name for name in NAMES if re.search(inside[0], name))
        found = [{name: others(inside[1], None, whole)[0]}]
    return [one for one in found if one != default]


def nested(path, value):
    for name in reversed(path):
        value = {name: value}
    return value


def merged(one, other):
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return copy.deepcopy(other)
    return {name: merged(one[name], other[name]) if name in one and name in other else copy.deepcopy(other.get(name, one.get(name)))
            for name in one | other}


class Together:
    """Many sets of values, rendered in one call of Helm: each set with its manifests, or with its refusal."""

    def __init__(self, deploy, helm):
        self.deploy, self.helm = deploy, helm
        self.sets, self.shown, self.refused, self.calls = [], {}, {}, 0

    def number(self, values):
        if values not in self.sets:
            self.sets.append(values)
        return self.sets.index(values)

    def render(self):
        """Renders the sets that are new. Returns a complaint of Helm that is not about one set, otherwise nothing."""
        about = yaml.safe_load(chart.text(self.deploy, "Chart.yaml"))
        left = set(range(len(self.sets))) - self.shown.keys() - self.refused.keys()
        with tempfile.TemporaryDirectory(prefix="ledger-leaves-") as folder:
            parent = pathlib.Path(folder) / "all"
            shutil.copytree(self.deploy / chart.CHART, parent / "charts" / chart.NAME)
            # Each call renders all sets that are left, or refuses one of them.
            while left:
                used = [{"name": chart.NAME, "version": about["version"], "repository": "", "alias": f"v{number}"} for number in sorted(left)]
                (parent / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": "all", "version": "0.0.0", "dependencies": used}))
                (parent / "values.yaml").write_text(yaml.safe_dump({f"v{number}": self.sets[number] for number in left}))
                code, documents, said = self.helm.run("template", chart.NAME, parent, "--namespace", chart.NAME)
                self.calls += 1
                if code == 0:
                    parts = SOURCE.split(documents)[1:]
                    for alias, file, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
                        # The last manifest of all has no mark of an end.
                        self.shown.setdefault(int(alias[1:]), []).append(file + text.rstrip("-\n"))
                    return ""
                by = REFUSED_BY.search(said)
                if not by:
                    return said
                self.refused[int(by[1][1:])] = said
                left.remove(int(by[1][1:]))
        return ""

    def acts(self, name, base, other):
        """Whether a value, set to something else, changes the manifests of a base, or is refused by its name."""
        base, other = self.number(base), self.number(other)
        both = base in self.shown and other in self.shown
        return name in self.refused.get(other, "") or both and self.shown[other] != self.shown[base]


def check(deploy, helm, _program, problems):
    """The number of values and of Helm's calls."""
    whole, defaults = json.loads(chart.text(deploy, "values.schema.json")), yaml.safe_load(chart.text(deploy, "values.yaml"))
    together, asked, left = Together(deploy, helm), {}, {}
    for path, schema, default in leaves(whole, defaults, whole):
        name, found = ".".join(path), [nested(path, other) for other in others(schema, default, whole)]
        problems.expect(found, f"{name}: tests/deploy/leaves.py knows no other value than {default!r}")
        left[name] = asked[name] = found
    alone = {name: found[0] for name, found in asked.items() if name in NEEDS}
    for values in alone.values():
        together.number(values)
    together.number({})
    # The next value of each leaf, while the ones before did not act.
    for turn in range(max(map(len, asked.values()))):
        tried = {name: (NEEDS.get(name, {}), merged(NEEDS.get(name, {}), found[turn])) for name, found in left.items() if turn < len(found)}
        for values in (values for pair in tried.values() for values in pair):
            together.number(values)
        said = together.render()
        if said:
            problems.add(f"helm template of all values together: {said}")
            return len(asked), together.calls
        left = {name: found for name, found in left.items() if name not in tried or not together.acts(name, *tried[name])}
    for name in left:
        problems.add(f"{name}: set to another value, it changes no manifest and is not refused by its name")
    for name, needs in NEEDS.items():
        values = alone.get(name)
        problems.expect(values, f"tests/deploy/leaves.py: NEEDS has {name}, which is not a value of the chart")
        changed = values and together.number(values) in together.shown and together.acts(name, {}, values)
        problems.expect(not changed, f"tests/deploy/leaves.py: {name} acts without {needs}: take it out of NEEDS")
    return len(asked), together.calls
