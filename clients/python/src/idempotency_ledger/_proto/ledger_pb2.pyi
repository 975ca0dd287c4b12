from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Advice(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ADVICE_UNSPECIFIED: _ClassVar[Advice]
    ADVICE_PROCESS: _ClassVar[Advice]
    ADVICE_ACK: _ClassVar[Advice]
    ADVICE_RETRY_LATER: _ClassVar[Advice]
    ADVICE_DEAD_LETTER: _ClassVar[Advice]

class EntryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTRY_STATE_UNSPECIFIED: _ClassVar[EntryState]
    ENTRY_STATE_RECEIVED: _ClassVar[EntryState]
    ENTRY_STATE_IN_PROGRESS: _ClassVar[EntryState]
    ENTRY_STATE_FAILED_RETRYABLE: _ClassVar[EntryState]
    ENTRY_STATE_COMPLETED: _ClassVar[EntryState]
    ENTRY_STATE_FAILED_TERMINAL: _ClassVar[EntryState]
    ENTRY_STATE_PARKED: _ClassVar[EntryState]

class ParkCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PARK_CAUSE_UNSPECIFIED: _ClassVar[ParkCause]
    PARK_CAUSE_ATTEMPTS_EXHAUSTED: _ClassVar[ParkCause]
    PARK_CAUSE_LEASE_EXPIRED: _ClassVar[ParkCause]
    PARK_CAUSE_EFFECT_UNKNOWN: _ClassVar[ParkCause]
    PARK_CAUSE_CONSUMER: _ClassVar[ParkCause]
    PARK_CAUSE_OPERATOR: _ClassVar[ParkCause]

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_FIELD: _ClassVar[ErrorReason]
    ERROR_REASON_TOO_MANY_ITEMS: _ClassVar[ErrorReason]
    ERROR_REASON_TOO_LARGE: _ClassVar[ErrorReason]
    ERROR_REASON_CLAIM_CLOSED: _ClassVar[ErrorReason]
    ERROR_REASON_EFFECT_STARTED: _ClassVar[ErrorReason]
    ERROR_REASON_LEASE_LIMIT_REACHED: _ClassVar[ErrorReason]
    ERROR_REASON_TOKEN_FROM_FUTURE: _ClassVar[ErrorReason]
    ERROR_REASON_CONSUMER_DISABLED: _ClassVar[ErrorReason]
    ERROR_REASON_UNKNOWN_CONSUMER: _ClassVar[ErrorReason]
    ERROR_REASON_RETENTION_TOO_SHORT: _ClassVar[ErrorReason]
    ERROR_REASON_STATE_NOT_ALLOWED: _ClassVar[ErrorReason]
    ERROR_REASON_LEASE_LOST: _ClassVar[ErrorReason]
    ERROR_REASON_VERSION_MISMATCH: _ClassVar[ErrorReason]
    ERROR_REASON_ENTRY_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_POLICY_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_UNAUTHENTICATED: _ClassVar[ErrorReason]
    ERROR_REASON_CONSUMER_NOT_ALLOWED: _ClassVar[ErrorReason]
    ERROR_REASON_OVERLOADED: _ClassVar[ErrorReason]
    ERROR_REASON_QUOTA_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_STORE_UNAVAILABLE: _ClassVar[ErrorReason]
    ERROR_REASON_STORE_CLOCK_BEHIND: _ClassVar[ErrorReason]
    ERROR_REASON_DRAINING: _ClassVar[ErrorReason]
    ERROR_REASON_OUTCOME_UNKNOWN: _ClassVar[ErrorReason]
    ERROR_REASON_DEADLINE_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_CANCELLED: _ClassVar[ErrorReason]
    ERROR_REASON_KEY_COLLISION: _ClassVar[ErrorReason]
    ERROR_REASON_ENTRY_UNREADABLE: _ClassVar[ErrorReason]
    ERROR_REASON_INTERNAL: _ClassVar[ErrorReason]
    ERROR_REASON_UNIMPLEMENTED: _ClassVar[ErrorReason]
    ERROR_REASON_POLICY_UNREADABLE: _ClassVar[ErrorReason]
    ERROR_REASON_TOO_RECENT: _ClassVar[ErrorReason]
    ERROR_REASON_REPLAY_RUN_UNKNOWN: _ClassVar[ErrorReason]
    ERROR_REASON_REPLAY_RUN_CLOSED: _ClassVar[ErrorReason]
    ERROR_REASON_REPLAY_FORBIDDEN: _ClassVar[ErrorReason]
    ERROR_REASON_STORE_CLOCK_AHEAD: _ClassVar[ErrorReason]
    ERROR_REASON_INBOX_OFF: _ClassVar[ErrorReason]
    ERROR_REASON_BACKLOG_FULL: _ClassVar[ErrorReason]

class OnExpiry(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_EXPIRY_UNSPECIFIED: _ClassVar[OnExpiry]
    ON_EXPIRY_RECLAIM: _ClassVar[OnExpiry]
    ON_EXPIRY_PARK: _ClassVar[OnExpiry]
    ON_EXPIRY_PARK_IF_STARTED: _ClassVar[OnExpiry]

class FailureKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_KIND_UNSPECIFIED: _ClassVar[FailureKind]
    FAILURE_KIND_RETRYABLE: _ClassVar[FailureKind]
    FAILURE_KIND_TERMINAL: _ClassVar[FailureKind]
    FAILURE_KIND_PARK: _ClassVar[FailureKind]
ADVICE_UNSPECIFIED: Advice
ADVICE_PROCESS: Advice
ADVICE_ACK: Advice
ADVICE_RETRY_LATER: Advice
ADVICE_DEAD_LETTER: Advice
ENTRY_STATE_UNSPECIFIED: EntryState
ENTRY_STATE_RECEIVED: EntryState
ENTRY_STATE_IN_PROGRESS: EntryState
ENTRY_STATE_FAILED_RETRYABLE: EntryState
ENTRY_STATE_COMPLETED: EntryState
ENTRY_STATE_FAILED_TERMINAL: EntryState
ENTRY_STATE_PARKED: EntryState
PARK_CAUSE_UNSPECIFIED: ParkCause
PARK_CAUSE_ATTEMPTS_EXHAUSTED: ParkCause
PARK_CAUSE_LEASE_EXPIRED: ParkCause
PARK_CAUSE_EFFECT_UNKNOWN: ParkCause
PARK_CAUSE_CONSUMER: ParkCause
PARK_CAUSE_OPERATOR: ParkCause
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_INVALID_FIELD: ErrorReason
ERROR_REASON_TOO_MANY_ITEMS: ErrorReason
ERROR_REASON_TOO_LARGE: ErrorReason
ERROR_REASON_CLAIM_CLOSED: ErrorReason
ERROR_REASON_EFFECT_STARTED: ErrorReason
ERROR_REASON_LEASE_LIMIT_REACHED: ErrorReason
ERROR_REASON_TOKEN_FROM_FUTURE: ErrorReason
ERROR_REASON_CONSUMER_DISABLED: ErrorReason
ERROR_REASON_UNKNOWN_CONSUMER: ErrorReason
ERROR_REASON_RETENTION_TOO_SHORT: ErrorReason
ERROR_REASON_STATE_NOT_ALLOWED: ErrorReason
ERROR_REASON_LEASE_LOST: ErrorReason
ERROR_REASON_VERSION_MISMATCH: ErrorReason
ERROR_REASON_ENTRY_NOT_FOUND: ErrorReason
ERROR_REASON_POLICY_NOT_FOUND: ErrorReason
ERROR_REASON_UNAUTHENTICATED: ErrorReason
ERROR_REASON_CONSUMER_NOT_ALLOWED: ErrorReason
ERROR_REASON_OVERLOADED: ErrorReason
ERROR_REASON_QUOTA_EXCEEDED: ErrorReason
ERROR_REASON_STORE_UNAVAILABLE: ErrorReason
ERROR_REASON_STORE_CLOCK_BEHIND: ErrorReason
ERROR_REASON_DRAINING: ErrorReason
ERROR_REASON_OUTCOME_UNKNOWN: ErrorReason
ERROR_REASON_DEADLINE_EXCEEDED: ErrorReason
ERROR_REASON_CANCELLED: ErrorReason
ERROR_REASON_KEY_COLLISION: ErrorReason
ERROR_REASON_ENTRY_UNREADABLE: ErrorReason
ERROR_REASON_INTERNAL: ErrorReason
ERROR_REASON_UNIMPLEMENTED: ErrorReason
ERROR_REASON_POLICY_UNREADABLE: ErrorReason
ERROR_REASON_TOO_RECENT: ErrorReason
ERROR_REASON_REPLAY_RUN_UNKNOWN: ErrorReason
ERROR_REASON_REPLAY_RUN_CLOSED: ErrorReason
ERROR_REASON_REPLAY_FORBIDDEN: ErrorReason
ERROR_REASON_STORE_CLOCK_AHEAD: ErrorReason
ERROR_REASON_INBOX_OFF: ErrorReason
ERROR_REASON_BACKLOG_FULL: ErrorReason
ON_EXPIRY_UNSPECIFIED: OnExpiry
ON_EXPIRY_RECLAIM: OnExpiry
ON_EXPIRY_PARK: OnExpiry
ON_EXPIRY_PARK_IF_STARTED: OnExpiry
FAILURE_KIND_UNSPECIFIED: FailureKind
FAILURE_KIND_RETRYABLE: FailureKind
FAILURE_KIND_TERMINAL: FailureKind
FAILURE_KIND_PARK: FailureKind

class EntryKey(_message.Message):
    __slots__ = ("consumer", "source", "id", "replay_run")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    REPLAY_RUN_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    source: str
    id: str
    replay_run: str
    def __init__(self, consumer: _Optional[str] = ..., source: _Optional[str] = ..., id: _Optional[str] = ..., replay_run: _Optional[str] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ("key", "claim_id", "owner", "lease", "fingerprint", "occurred_at", "event_type", "wait")
    KEY_FIELD_NUMBER: _ClassVar[int]
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    key: EntryKey
    claim_id: str
    owner: str
    lease: _duration_pb2.Duration
    fingerprint: bytes
    occurred_at: _timestamp_pb2.Timestamp
    event_type: str
    wait: _duration_pb2.Duration
    def __init__(self, key: _Optional[_Union[EntryKey, _Mapping]] = ..., claim_id: _Optional[str] = ..., owner: _Optional[str] = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., fingerprint: _Optional[bytes] = ..., occurred_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., event_type: _Optional[str] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ClaimResponse(_message.Message):
    __slots__ = ("advice", "retry_after", "acquired", "completed", "in_progress", "backoff", "failed", "parked", "fingerprint_mismatch", "outside_window", "rejected", "suppressed")
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_MISMATCH_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_WINDOW_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    SUPPRESSED_FIELD_NUMBER: _ClassVar[int]
    advice: Advice
    retry_after: _duration_pb2.Duration
    acquired: Acquired
    completed: Completed
    in_progress: InProgress
    backoff: Backoff
    failed: Failed
    parked: Parked
    fingerprint_mismatch: FingerprintMismatch
    outside_window: OutsideWindow
    rejected: Rejected
    suppressed: Suppressed
    def __init__(self, advice: _Optional[_Union[Advice, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., acquired: _Optional[_Union[Acquired, _Mapping]] = ..., completed: _Optional[_Union[Completed, _Mapping]] = ..., in_progress: _Optional[_Union[InProgress, _Mapping]] = ..., backoff: _Optional[_Union[Backoff, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., parked: _Optional[_Union[Parked, _Mapping]] = ..., fingerprint_mismatch: _Optional[_Union[FingerprintMismatch, _Mapping]] = ..., outside_window: _Optional[_Union[OutsideWindow, _Mapping]] = ..., rejected: _Optional[_Union[Rejected, _Mapping]] = ..., suppressed: _Optional[_Union[Suppressed, _Mapping]] = ...) -> None: ...

class Acquired(_message.Message):
    __slots__ = ("token", "attempt", "lease", "replayed", "effect_unknown", "prior_effect_started", "idempotency_key", "checkpoint", "last_error", "attempts_left", "checkpoint_omitted", "hold", "on_expiry")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    EFFECT_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    PRIOR_EFFECT_STARTED_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_LEFT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_OMITTED_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    ON_EXPIRY_FIELD_NUMBER: _ClassVar[int]
    token: int
    attempt: int
    lease: _duration_pb2.Duration
    replayed: bool
    effect_unknown: bool
    prior_effect_started: bool
    idempotency_key: str
    checkpoint: bytes
    last_error: str
    attempts_left: int
    checkpoint_omitted: bool
    hold: _duration_pb2.Duration
    on_expiry: OnExpiry
    def __init__(self, token: _Optional[int] = ..., attempt: _Optional[int] = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., replayed: bool = ..., effect_unknown: bool = ..., prior_effect_started: bool = ..., idempotency_key: _Optional[str] = ..., checkpoint: _Optional[bytes] = ..., last_error: _Optional[str] = ..., attempts_left: _Optional[int] = ..., checkpoint_omitted: bool = ..., hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., on_expiry: _Optional[_Union[OnExpiry, str]] = ...) -> None: ...

class Completed(_message.Message):
    __slots__ = ("result", "result_expired", "result_omitted", "completed_at", "attempt", "by_this_claim", "fingerprint_unverified", "result_dropped")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_EXPIRED_FIELD_NUMBER: _ClassVar[int]
    RESULT_OMITTED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    BY_THIS_CLAIM_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_UNVERIFIED_FIELD_NUMBER: _ClassVar[int]
    RESULT_DROPPED_FIELD_NUMBER: _ClassVar[int]
    result: bytes
    result_expired: bool
    result_omitted: bool
    completed_at: _timestamp_pb2.Timestamp
    attempt: int
    by_this_claim: bool
    fingerprint_unverified: bool
    result_dropped: bool
    def __init__(self, result: _Optional[bytes] = ..., result_expired: bool = ..., result_omitted: bool = ..., completed_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., by_this_claim: bool = ..., fingerprint_unverified: bool = ..., result_dropped: bool = ...) -> None: ...

class InProgress(_message.Message):
    __slots__ = ("owner", "attempt", "lease")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    owner: str
    attempt: int
    lease: _duration_pb2.Duration
    def __init__(self, owner: _Optional[str] = ..., attempt: _Optional[int] = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Backoff(_message.Message):
    __slots__ = ("attempts_left", "last_error")
    ATTEMPTS_LEFT_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    attempts_left: int
    last_error: str
    def __init__(self, attempts_left: _Optional[int] = ..., last_error: _Optional[str] = ...) -> None: ...

class Failed(_message.Message):
    __slots__ = ("error", "failed_at")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FAILED_AT_FIELD_NUMBER: _ClassVar[int]
    error: str
    failed_at: _timestamp_pb2.Timestamp
    def __init__(self, error: _Optional[str] = ..., failed_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Parked(_message.Message):
    __slots__ = ("cause", "error", "parked_at")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PARKED_AT_FIELD_NUMBER: _ClassVar[int]
    cause: ParkCause
    error: str
    parked_at: _timestamp_pb2.Timestamp
    def __init__(self, cause: _Optional[_Union[ParkCause, str]] = ..., error: _Optional[str] = ..., parked_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class FingerprintMismatch(_message.Message):
    __slots__ = ("expected", "presented")
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    PRESENTED_FIELD_NUMBER: _ClassVar[int]
    expected: bytes
    presented: bytes
    def __init__(self, expected: _Optional[bytes] = ..., presented: _Optional[bytes] = ...) -> None: ...

class OutsideWindow(_message.Message):
    __slots__ = ("window", "occurred_at")
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    window: _duration_pb2.Duration
    occurred_at: _timestamp_pb2.Timestamp
    def __init__(self, window: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., occurred_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Suppressed(_message.Message):
    __slots__ = ("replay_run",)
    REPLAY_RUN_FIELD_NUMBER: _ClassVar[int]
    replay_run: str
    def __init__(self, replay_run: _Optional[str] = ...) -> None: ...

class Rejected(_message.Message):
    __slots__ = ("reason", "code", "message", "field_violations", "retry_after", "current_state", "advice")
    REASON_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELD_VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    CURRENT_STATE_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    reason: ErrorReason
    code: int
    message: str
    field_violations: _containers.RepeatedCompositeFieldContainer[FieldViolation]
    retry_after: _duration_pb2.Duration
    current_state: EntryState
    advice: Advice
    def __init__(self, reason: _Optional[_Union[ErrorReason, str]] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., field_violations: _Optional[_Iterable[_Union[FieldViolation, _Mapping]]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., current_state: _Optional[_Union[EntryState, str]] = ..., advice: _Optional[_Union[Advice, str]] = ...) -> None: ...

class FieldViolation(_message.Message):
    __slots__ = ("field", "description")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    field: str
    description: str
    def __init__(self, field: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("key", "token", "lease", "effect_started", "checkpoint")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_STARTED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    key: EntryKey
    token: int
    lease: _duration_pb2.Duration
    effect_started: bool
    checkpoint: bytes
    def __init__(self, key: _Optional[_Union[EntryKey, _Mapping]] = ..., token: _Optional[int] = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., effect_started: bool = ..., checkpoint: _Optional[bytes] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("lease", "revived", "hold", "on_expiry", "checkpoint_dropped")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    REVIVED_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    ON_EXPIRY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_DROPPED_FIELD_NUMBER: _ClassVar[int]
    lease: _duration_pb2.Duration
    revived: bool
    hold: _duration_pb2.Duration
    on_expiry: OnExpiry
    checkpoint_dropped: bool
    def __init__(self, lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., revived: bool = ..., hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., on_expiry: _Optional[_Union[OnExpiry, str]] = ..., checkpoint_dropped: bool = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ("key", "token", "result", "result_left_out", "event_type")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    key: EntryKey
    token: int
    result: bytes
    result_left_out: bool
    event_type: str
    def __init__(self, key: _Optional[_Union[EntryKey, _Mapping]] = ..., token: _Optional[int] = ..., result: _Optional[bytes] = ..., result_left_out: bool = ..., event_type: _Optional[str] = ...) -> None: ...

class CompleteResponse(_message.Message):
    __slots__ = ("advice", "replayed", "late", "result_dropped")
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    RESULT_DROPPED_FIELD_NUMBER: _ClassVar[int]
    advice: Advice
    replayed: bool
    late: bool
    result_dropped: bool
    def __init__(self, advice: _Optional[_Union[Advice, str]] = ..., replayed: bool = ..., late: bool = ..., result_dropped: bool = ...) -> None: ...

class FailRequest(_message.Message):
    __slots__ = ("key", "token", "kind", "error", "retry_after", "event_type")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    key: EntryKey
    token: int
    kind: FailureKind
    error: str
    retry_after: _duration_pb2.Duration
    event_type: str
    def __init__(self, key: _Optional[_Union[EntryKey, _Mapping]] = ..., token: _Optional[int] = ..., kind: _Optional[_Union[FailureKind, str]] = ..., error: _Optional[str] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., event_type: _Optional[str] = ...) -> None: ...

class FailResponse(_message.Message):
    __slots__ = ("advice", "state", "retry_after", "attempts_left", "replayed")
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_LEFT_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    advice: Advice
    state: EntryState
    retry_after: _duration_pb2.Duration
    attempts_left: int
    replayed: bool
    def __init__(self, advice: _Optional[_Union[Advice, str]] = ..., state: _Optional[_Union[EntryState, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., attempts_left: _Optional[int] = ..., replayed: bool = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("key", "token", "delay", "unpin_fingerprint", "event_type")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    UNPIN_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    key: EntryKey
    token: int
    delay: _duration_pb2.Duration
    unpin_fingerprint: bool
    event_type: str
    def __init__(self, key: _Optional[_Union[EntryKey, _Mapping]] = ..., token: _Optional[int] = ..., delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., unpin_fingerprint: bool = ..., event_type: _Optional[str] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("advice", "replayed", "fingerprint_unpinned")
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_UNPINNED_FIELD_NUMBER: _ClassVar[int]
    advice: Advice
    replayed: bool
    fingerprint_unpinned: bool
    def __init__(self, advice: _Optional[_Union[Advice, str]] = ..., replayed: bool = ..., fingerprint_unpinned: bool = ...) -> None: ...

class BatchClaimRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[ClaimRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[ClaimRequest, _Mapping]]] = ...) -> None: ...

class BatchClaimResponse(_message.Message):
    __slots__ = ("responses",)
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[ClaimResponse]
    def __init__(self, responses: _Optional[_Iterable[_Union[ClaimResponse, _Mapping]]] = ...) -> None: ...

class Settlement(_message.Message):
    __slots__ = ("complete", "fail", "release", "renew")
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    FAIL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    complete: CompleteRequest
    fail: FailRequest
    release: ReleaseRequest
    renew: RenewRequest
    def __init__(self, complete: _Optional[_Union[CompleteRequest, _Mapping]] = ..., fail: _Optional[_Union[FailRequest, _Mapping]] = ..., release: _Optional[_Union[ReleaseRequest, _Mapping]] = ..., renew: _Optional[_Union[RenewRequest, _Mapping]] = ...) -> None: ...

class SettlementResult(_message.Message):
    __slots__ = ("complete", "fail", "release", "renew", "rejected")
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    FAIL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    complete: CompleteResponse
    fail: FailResponse
    release: ReleaseResponse
    renew: RenewResponse
    rejected: Rejected
    def __init__(self, complete: _Optional[_Union[CompleteResponse, _Mapping]] = ..., fail: _Optional[_Union[FailResponse, _Mapping]] = ..., release: _Optional[_Union[ReleaseResponse, _Mapping]] = ..., renew: _Optional[_Union[RenewResponse, _Mapping]] = ..., rejected: _Optional[_Union[Rejected, _Mapping]] = ...) -> None: ...

class BatchSettleRequest(_message.Message):
    __slots__ = ("settlements",)
    SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    settlements: _containers.RepeatedCompositeFieldContainer[Settlement]
    def __init__(self, settlements: _Optional[_Iterable[_Union[Settlement, _Mapping]]] = ...) -> None: ...

class BatchSettleResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettlementResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SettlementResult, _Mapping]]] = ...) -> None: ...

class LookupRequest(_message.Message):
    __slots__ = ("key", "wait")
    KEY_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    key: EntryKey
    wait: _duration_pb2.Duration
    def __init__(self, key: _Optional[_Union[EntryKey, _Mapping]] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LookupResponse(_message.Message):
    __slots__ = ("state", "attempt", "retry_after", "completed", "failed", "parked", "in_progress", "backoff")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    state: EntryState
    attempt: int
    retry_after: _duration_pb2.Duration
    completed: Completed
    failed: Failed
    parked: Parked
    in_progress: InProgress
    backoff: Backoff
    def __init__(self, state: _Optional[_Union[EntryState, str]] = ..., attempt: _Optional[int] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., completed: _Optional[_Union[Completed, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., parked: _Optional[_Union[Parked, _Mapping]] = ..., in_progress: _Optional[_Union[InProgress, _Mapping]] = ..., backoff: _Optional[_Union[Backoff, _Mapping]] = ...) -> None: ...

class BatchLookupRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[LookupRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[LookupRequest, _Mapping]]] = ...) -> None: ...

class LookupResult(_message.Message):
    __slots__ = ("lookup", "rejected")
    LOOKUP_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    lookup: LookupResponse
    rejected: Rejected
    def __init__(self, lookup: _Optional[_Union[LookupResponse, _Mapping]] = ..., rejected: _Optional[_Union[Rejected, _Mapping]] = ...) -> None: ...

class BatchLookupResponse(_message.Message):
    __slots__ = ("responses",)
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[LookupResult]
    def __init__(self, responses: _Optional[_Iterable[_Union[LookupResult, _Mapping]]] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("payload", "headers", "topic", "partition", "offset", "message_key", "event_type", "event_version", "content_type")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_KEY_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    EVENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    topic: str
    partition: int
    offset: int
    message_key: bytes
    event_type: str
    event_version: str
    content_type: str
    def __init__(self, payload: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., message_key: _Optional[bytes] = ..., event_type: _Optional[str] = ..., event_version: _Optional[str] = ..., content_type: _Optional[str] = ...) -> None: ...

class StoreRequest(_message.Message):
    __slots__ = ("key", "message", "fingerprint", "occurred_at")
    KEY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    key: EntryKey
    message: Message
    fingerprint: bytes
    occurred_at: _timestamp_pb2.Timestamp
    def __init__(self, key: _Optional[_Union[EntryKey, _Mapping]] = ..., message: _Optional[_Union[Message, _Mapping]] = ..., fingerprint: _Optional[bytes] = ..., occurred_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class StoreResponse(_message.Message):
    __slots__ = ("advice", "retry_after", "stored", "already_stored", "completed", "failed", "fingerprint_mismatch", "outside_window", "rejected")
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    ALREADY_STORED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_MISMATCH_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_WINDOW_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    advice: Advice
    retry_after: _duration_pb2.Duration
    stored: Stored
    already_stored: AlreadyStored
    completed: StoreCompleted
    failed: Failed
    fingerprint_mismatch: FingerprintMismatch
    outside_window: OutsideWindow
    rejected: Rejected
    def __init__(self, advice: _Optional[_Union[Advice, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., stored: _Optional[_Union[Stored, _Mapping]] = ..., already_stored: _Optional[_Union[AlreadyStored, _Mapping]] = ..., completed: _Optional[_Union[StoreCompleted, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., fingerprint_mismatch: _Optional[_Union[FingerprintMismatch, _Mapping]] = ..., outside_window: _Optional[_Union[OutsideWindow, _Mapping]] = ..., rejected: _Optional[_Union[Rejected, _Mapping]] = ...) -> None: ...

class Stored(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: EntryState
    def __init__(self, state: _Optional[_Union[EntryState, str]] = ...) -> None: ...

class AlreadyStored(_message.Message):
    __slots__ = ("state", "stored_at")
    STATE_FIELD_NUMBER: _ClassVar[int]
    STORED_AT_FIELD_NUMBER: _ClassVar[int]
    state: EntryState
    stored_at: _timestamp_pb2.Timestamp
    def __init__(self, state: _Optional[_Union[EntryState, str]] = ..., stored_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class StoreCompleted(_message.Message):
    __slots__ = ("completed_at",)
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    completed_at: _timestamp_pb2.Timestamp
    def __init__(self, completed_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class BatchStoreRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[StoreRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[StoreRequest, _Mapping]]] = ...) -> None: ...

class BatchStoreResponse(_message.Message):
    __slots__ = ("responses",)
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[StoreResponse]
    def __init__(self, responses: _Optional[_Iterable[_Union[StoreResponse, _Mapping]]] = ...) -> None: ...

class ClaimNextRequest(_message.Message):
    __slots__ = ("consumer", "claim_id", "owner", "lease", "max", "bytes_max", "wait")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    claim_id: str
    owner: str
    lease: _duration_pb2.Duration
    max: int
    bytes_max: int
    wait: _duration_pb2.Duration
    def __init__(self, consumer: _Optional[str] = ..., claim_id: _Optional[str] = ..., owner: _Optional[str] = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max: _Optional[int] = ..., bytes_max: _Optional[int] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ClaimNextResponse(_message.Message):
    __slots__ = ("messages", "retry_after")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Handed]
    retry_after: _duration_pb2.Duration
    def __init__(self, messages: _Optional[_Iterable[_Union[Handed, _Mapping]]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Handed(_message.Message):
    __slots__ = ("key", "acquired", "message", "stored_at")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STORED_AT_FIELD_NUMBER: _ClassVar[int]
    key: EntryKey
    acquired: Acquired
    message: Message
    stored_at: _timestamp_pb2.Timestamp
    def __init__(self, key: _Optional[_Union[EntryKey, _Mapping]] = ..., acquired: _Optional[_Union[Acquired, _Mapping]] = ..., message: _Optional[_Union[Message, _Mapping]] = ..., stored_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
