"""Effects without a claim, while the ledger cannot be reached: written down before and after, and reconciled later.

Work stops while the ledger is away, unless a consumer chooses otherwise. docs/away.md of the ledger says when that is
right, and describes the file: ``idempotency-ledger entries reconcile FILE`` brings it in afterwards.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import inspect
import json
import os
import threading
import uuid
from dataclasses import replace
from typing import Any, Awaitable, Callable, Dict, Optional, Union

from ._claim import Result
from ._core.delivery import Done, ended
from ._core.steps import DEFAULT_DELAY
from ._options import Body
from .errors import Doubtful, GiveBack, InvalidField, LedgerError, Retry, Steer, Terminal
from .key import Fingerprint, Key, checked_text
from .outcome import Advice, Outcome

try:
    import fcntl
except ImportError:  # Not a POSIX system.
    fcntl = None  # type: ignore[assignment]

_VERSION = 1
_RESULT_MAX = 16_384  # bytes; the ledger stores no larger result
_MICROSECOND = datetime.timedelta(microseconds=1)


class SpoolFailed(LedgerError):
    """The spool cannot be written, or not any more: an effect that it does not have must not begin.

    After a write or a sync has failed, nothing more is written to the same file: what the system has lost of it is not
    known. Mend the disk, and open another file.
    """


class Spool:
    """A file of effects that happen without a claim. One process writes it; its threads may share it.

    `path`: the file, on a local disk that outlives the process. It is made if it does not exist, readable for its
    owner alone, since it has the results. Raises `SpoolFailed` where it cannot be opened, or another process has it.
    """

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self._lock = threading.Lock()
        self._failed: Optional[str] = None
        self._last = datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)
        self._pid = os.getpid()
        if fcntl is None:
            raise SpoolFailed("a spool needs the file locks of a POSIX system")
        self._file = -1
        try:
            self._file = _opened(path)
        except OSError as error:
            raise SpoolFailed(f"{os.fspath(path)}: {error.strerror or error}") from error

    def process(
        self,
        outcome: Outcome,
        consumer: str,
        key: Key,
        effect: Callable[[], Result],
        *,
        body: Optional[Body] = None,
        fingerprint: Optional[Fingerprint] = None,
    ) -> Outcome:
        """Runs the effect where `outcome` of `Ledger.process` is `away`, and returns any other outcome as it is.

        The beginning is on the disk before `effect` is called, and its end before this returns. The outcome is then:
        ACK where it has returned, with its result; RETRY_LATER where it raised `Retry`, `Terminal` or `GiveBack`, since
        it certainly did not happen, or `Doubtful`; DEAD_LETTER, for a person to look, where it raised anything else.
        Where the spool cannot be written the outcome is RETRY_LATER and its `error` a `SpoolFailed`: the effect has not
        begun, or it has ended and is not noted (`effect_unknown`). A key of a replay run is never opened.
        """
        if not callable(effect) or inspect.iscoroutinefunction(effect):
            raise InvalidField(
                "effect", "must be a plain function without arguments; process_async runs coroutine functions"
            )
        line = _line(consumer, key, body, fingerprint)
        if not outcome.away or key.replay_run:
            return outcome
        try:
            self._append("begin", line)
        except SpoolFailed as error:
            return replace(outcome, reason="SPOOL_FAILED", detail=str(error), error=error)
        try:
            result = effect()
        except Exception as error:
            return self._raised(line, error)
        return self._returned(line, ended(result))

    async def process_async(
        self,
        outcome: Outcome,
        consumer: str,
        key: Key,
        effect: Callable[[], Awaitable[Result]],
        *,
        body: Optional[Body] = None,
        fingerprint: Optional[Fingerprint] = None,
    ) -> Outcome:
        """The same for `AsyncLedger.process`, with a coroutine function. The disk is written in a thread."""
        line = _line(consumer, key, body, fingerprint)
        if not outcome.away or key.replay_run:
            return outcome
        try:
            await asyncio.to_thread(self._append, "begin", line)
        except SpoolFailed as error:
            return replace(outcome, reason="SPOOL_FAILED", detail=str(error), error=error)
        try:
            result = await effect()
        except Exception as error:
            return await asyncio.to_thread(self._raised, line, error)
        return await asyncio.to_thread(self._returned, line, ended(result))

    def close(self) -> None:
        """Closes the file. An effect that still runs has no end in it."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file, self._failed = -1, "the spool is closed"

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _raised(self, line: Dict[str, Any], error: Exception) -> Outcome:
        reason = (error.reason if isinstance(error, Steer) else None) or type(error).__name__
        if isinstance(error, (Retry, Terminal, GiveBack)):
            try:
                self._append("none", line)
            except SpoolFailed:
                pass  # Without this line a person looks, and finds that it did not happen.
            after = getattr(error, "after", None)
            delay = DEFAULT_DELAY if not after else max(float(after), 0.05)
            return Outcome(Advice.RETRY_LATER, delay, reason=reason, error=error, away=True)
        doubtful = isinstance(error, Doubtful)
        return Outcome(
            Advice.RETRY_LATER if doubtful else Advice.DEAD_LETTER,
            DEFAULT_DELAY if doubtful else 0.0,
            effect_unknown=True,
            reason=reason,
            error=error,
            away=True,
        )

    def _returned(self, line: Dict[str, Any], done: Done) -> Outcome:
        fits = not done.left_out and len(done.result) <= _RESULT_MAX
        more = {"result_base64": base64.b64encode(done.result).decode()} if fits and done.result else {}
        known = None if done.left_out else done.result
        try:
            self._append("end", {**line, **more})
        except SpoolFailed as error:
            return Outcome(
                Advice.RETRY_LATER,
                DEFAULT_DELAY,
                known,
                effect_unknown=True,
                reason="SPOOL_FAILED",
                detail=str(error),
                error=error,
                away=True,
            )
        return Outcome(Advice.ACK, result=known, result_dropped=not fits, away=True)

    def _append(self, event: str, line: Dict[str, Any]) -> None:
        """Appends a line, and returns when it is on the disk."""
        with self._lock:
            if os.getpid() != self._pid:
                raise SpoolFailed("the spool was opened before the process was forked: open it after the fork")
            if self._failed is not None:
                raise SpoolFailed(self._failed)
            # Later than all lines before: key and instant identify a row, and an end follows its beginning.
            now = max(datetime.datetime.now(datetime.timezone.utc), self._last + _MICROSECOND)
            self._last = now
            at = now.strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"
            text = json.dumps({"v": _VERSION, "event": event, "at": at, **line}, separators=(",", ":")) + "\n"
            data = text.encode("ascii")
            try:
                written = os.write(self._file, data)
                if written != len(data):
                    raise OSError(f"{written} of {len(data)} bytes were written")
                _sync(self._file)
            except OSError as error:
                self._failed = f"the spool could not be written ({error.strerror or error}): open another file"
                raise SpoolFailed(self._failed) from error


def _line(consumer: str, key: Key, body: Optional[Body], fingerprint: Optional[Fingerprint]) -> Dict[str, Any]:
    """What all lines of one effect have in common."""
    checked_text("consumer", consumer, 128)
    if body is not None and fingerprint is not None:
        raise InvalidField("fingerprint", "give the raw body or its fingerprint, not both")
    printed = Fingerprint.of(body) if body is not None else fingerprint
    line = {"row": uuid.uuid4().hex, "consumer": consumer, "source": key.source, "id": key.id}
    return {**line, "fingerprint_hex": printed.digest.hex()} if printed else line


def _opened(path: Union[str, os.PathLike[str]]) -> int:
    """The file, locked, at the beginning of a line; its folder is synced, so that a new file outlives a crash."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise OSError(error.errno, "another process, or another Spool of this one, has the file") from error
        size = os.fstat(file).st_size
        # A line that a crash has cut off ends here: the next one must not continue it.
        if size > 0 and os.pread(file, 1, size - 1) != b"\n":
            os.write(file, b"\n")
        _sync(file)
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except BaseException:
        os.close(file)
        raise
    return file


def _sync(file: int) -> None:
    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone leaves the data in the disk's cache.
    if full is not None:
        fcntl.fcntl(file, full)
    else:
        os.fsync(file)
