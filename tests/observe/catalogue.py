"""The metrics of docs/metrics.md with their labels, and the metrics that a query selects."""

import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/metrics.md"
TABLE = re.compile(r"<!-- printed: metrics -->\n(.*?)<!-- end -->", re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| \w+ \| ([^|]*) \|", re.MULTILINE)
SELECTOR = re.compile(r"\b((?:idempotency_ledger|grpc_server|process)_\w+)(?:\{([^}]*)\})?")


def labels():
    """The labels of each metric. A test in Rust keeps the page equal to the catalogue of the source."""
    return {metric: set(re.findall(r"\w+", labels)) for metric, labels in ROW.findall(TABLE.search(PAGE.read_text())[1])}


def selected(query, metrics):
    """The metric and the matchers of each selector in the query. A series of a histogram counts as the histogram."""
    for name, matchers in SELECTOR.findall(query):
        yield (name if name in metrics else re.sub(r"_(bucket|sum|count)$", "", name)), matchers
