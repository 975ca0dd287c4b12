"""What `idempotent` of both clients needs: how results become bytes, and where a call's key is from."""

from __future__ import annotations

import functools
import json
import logging
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Tuple

from .errors import NoResult
from .key import Key
from .outcome import Outcome

_log = logging.getLogger("idempotency_ledger")


@dataclass(frozen=True)
class Codec:
    """How a function's value becomes the bytes that the ledger stores, and how they are read back."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


JSON = Codec(lambda value: json.dumps(value).encode(), json.loads)
"""The default: what `json` can write. A repeat gets lists for tuples, and text for keys of objects."""


class _Unencoded:
    """Stands for a value that could not be encoded."""


@dataclass(frozen=True)
class Call:
    """A function, and how the key and the body of a call are found among its arguments."""

    function: Callable[..., Any]
    _key: Callable[..., Key]
    _body: Optional[Callable[..., Any]]
    codec: Codec

    def key(self, arguments: Tuple[Any, ...], named: Dict[str, Any]) -> Key:
        """The key of a call."""
        return self._key(*arguments, **named)

    def body(self, arguments: Tuple[Any, ...], named: Dict[str, Any]) -> Any:
        """The body of a call; `None` where none is compared."""
        return self._body(*arguments, **named) if self._body else None

    def encoded(self, value: Any) -> Any:
        """The value as the ledger stores it; without a result where it cannot be encoded."""
        try:
            return self.codec.encode(value)
        except Exception as error:
            _log.error("a value of %s cannot be stored: %s", self.function.__name__, type(error).__name__)
            return _Unencoded()

    def named(self, wrapper: Callable[..., Any]) -> Callable[..., Any]:
        """The wrapper under the function's name and documentation."""
        return functools.wraps(self.function)(wrapper)


def replayed(outcome: Outcome, codec: Codec) -> Any:
    """The value of a call by its outcome. Raises `NoResult`, or the steering error of the function itself."""
    if outcome.error is not None:
        raise outcome.error
    if outcome.result is None or outcome.result_dropped and outcome.replayed:
        raise NoResult(outcome)
    return codec.decode(outcome.result)
