from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from . import ledger_pb2 as _ledger_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClosedBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLOSED_BY_UNSPECIFIED: _ClassVar[ClosedBy]
    CLOSED_BY_COMPLETE: _ClassVar[ClosedBy]
    CLOSED_BY_FAIL_RETRYABLE: _ClassVar[ClosedBy]
    CLOSED_BY_FAIL_TERMINAL: _ClassVar[ClosedBy]
    CLOSED_BY_FAIL_PARK: _ClassVar[ClosedBy]
    CLOSED_BY_RELEASE: _ClassVar[ClosedBy]
    CLOSED_BY_EXPIRY: _ClassVar[ClosedBy]
    CLOSED_BY_OPERATOR_PARK: _ClassVar[ClosedBy]
    CLOSED_BY_OPERATOR: _ClassVar[ClosedBy]
    CLOSED_BY_STORE: _ClassVar[ClosedBy]

class MessageState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MESSAGE_STATE_UNSPECIFIED: _ClassVar[MessageState]
    MESSAGE_STATE_KEPT: _ClassVar[MessageState]
    MESSAGE_STATE_ERASED: _ClassVar[MessageState]

class EntryChange(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTRY_CHANGE_UNSPECIFIED: _ClassVar[EntryChange]
    ENTRY_CHANGE_REDRIVE: _ClassVar[EntryChange]
    ENTRY_CHANGE_RESOLVE: _ClassVar[EntryChange]
    ENTRY_CHANGE_PARK: _ClassVar[EntryChange]
    ENTRY_CHANGE_DELETE: _ClassVar[EntryChange]

class EntryOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTRY_ORDER_UNSPECIFIED: _ClassVar[EntryOrder]
    ENTRY_ORDER_OLDEST_FIRST: _ClassVar[EntryOrder]
    ENTRY_ORDER_NEWEST_FIRST: _ClassVar[EntryOrder]

class EffectEvidence(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EFFECT_EVIDENCE_UNSPECIFIED: _ClassVar[EffectEvidence]
    EFFECT_EVIDENCE_GUARD: _ClassVar[EffectEvidence]
    EFFECT_EVIDENCE_SPOOL: _ClassVar[EffectEvidence]
    EFFECT_EVIDENCE_SPOOL_UNFINISHED: _ClassVar[EffectEvidence]

class ReconcileOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECONCILE_OUTCOME_UNSPECIFIED: _ClassVar[ReconcileOutcome]
    RECONCILE_OUTCOME_COMPLETED: _ClassVar[ReconcileOutcome]
    RECONCILE_OUTCOME_RESOLVED: _ClassVar[ReconcileOutcome]
    RECONCILE_OUTCOME_PARKED: _ClassVar[ReconcileOutcome]
    RECONCILE_OUTCOME_CONFIRMED: _ClassVar[ReconcileOutcome]
    RECONCILE_OUTCOME_DOUBLED: _ClassVar[ReconcileOutcome]
    RECONCILE_OUTCOME_NOT_NOW: _ClassVar[ReconcileOutcome]
    RECONCILE_OUTCOME_CONTRADICTS: _ClassVar[ReconcileOutcome]
    RECONCILE_OUTCOME_MISMATCH: _ClassVar[ReconcileOutcome]
    RECONCILE_OUTCOME_KNOWN: _ClassVar[ReconcileOutcome]
    RECONCILE_OUTCOME_RETENTION_OVER: _ClassVar[ReconcileOutcome]

class FingerprintMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINGERPRINT_MODE_UNSPECIFIED: _ClassVar[FingerprintMode]
    FINGERPRINT_MODE_VERIFY: _ClassVar[FingerprintMode]
    FINGERPRINT_MODE_IGNORE: _ClassVar[FingerprintMode]
    FINGERPRINT_MODE_REQUIRE: _ClassVar[FingerprintMode]

class OccurredAtMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OCCURRED_AT_MODE_UNSPECIFIED: _ClassVar[OccurredAtMode]
    OCCURRED_AT_MODE_OPTIONAL: _ClassVar[OccurredAtMode]
    OCCURRED_AT_MODE_REQUIRE: _ClassVar[OccurredAtMode]

class ReplayMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPLAY_MODE_UNSPECIFIED: _ClassVar[ReplayMode]
    REPLAY_MODE_FORBID: _ClassVar[ReplayMode]
    REPLAY_MODE_SUPPRESS: _ClassVar[ReplayMode]
    REPLAY_MODE_REBUILD: _ClassVar[ReplayMode]

class PolicySource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POLICY_SOURCE_UNSPECIFIED: _ClassVar[PolicySource]
    POLICY_SOURCE_DEFAULT: _ClassVar[PolicySource]
    POLICY_SOURCE_CONFIGURATION: _ClassVar[PolicySource]
    POLICY_SOURCE_SET: _ClassVar[PolicySource]
CLOSED_BY_UNSPECIFIED: ClosedBy
CLOSED_BY_COMPLETE: ClosedBy
CLOSED_BY_FAIL_RETRYABLE: ClosedBy
CLOSED_BY_FAIL_TERMINAL: ClosedBy
CLOSED_BY_FAIL_PARK: ClosedBy
CLOSED_BY_RELEASE: ClosedBy
CLOSED_BY_EXPIRY: ClosedBy
CLOSED_BY_OPERATOR_PARK: ClosedBy
CLOSED_BY_OPERATOR: ClosedBy
CLOSED_BY_STORE: ClosedBy
MESSAGE_STATE_UNSPECIFIED: MessageState
MESSAGE_STATE_KEPT: MessageState
MESSAGE_STATE_ERASED: MessageState
ENTRY_CHANGE_UNSPECIFIED: EntryChange
ENTRY_CHANGE_REDRIVE: EntryChange
ENTRY_CHANGE_RESOLVE: EntryChange
ENTRY_CHANGE_PARK: EntryChange
ENTRY_CHANGE_DELETE: EntryChange
ENTRY_ORDER_UNSPECIFIED: EntryOrder
ENTRY_ORDER_OLDEST_FIRST: EntryOrder
ENTRY_ORDER_NEWEST_FIRST: EntryOrder
EFFECT_EVIDENCE_UNSPECIFIED: EffectEvidence
EFFECT_EVIDENCE_GUARD: EffectEvidence
EFFECT_EVIDENCE_SPOOL: EffectEvidence
EFFECT_EVIDENCE_SPOOL_UNFINISHED: EffectEvidence
RECONCILE_OUTCOME_UNSPECIFIED: ReconcileOutcome
RECONCILE_OUTCOME_COMPLETED: ReconcileOutcome
RECONCILE_OUTCOME_RESOLVED: ReconcileOutcome
RECONCILE_OUTCOME_PARKED: ReconcileOutcome
RECONCILE_OUTCOME_CONFIRMED: ReconcileOutcome
RECONCILE_OUTCOME_DOUBLED: ReconcileOutcome
RECONCILE_OUTCOME_NOT_NOW: ReconcileOutcome
RECONCILE_OUTCOME_CONTRADICTS: ReconcileOutcome
RECONCILE_OUTCOME_MISMATCH: ReconcileOutcome
RECONCILE_OUTCOME_KNOWN: ReconcileOutcome
RECONCILE_OUTCOME_RETENTION_OVER: ReconcileOutcome
FINGERPRINT_MODE_UNSPECIFIED: FingerprintMode
FINGERPRINT_MODE_VERIFY: FingerprintMode
FINGERPRINT_MODE_IGNORE: FingerprintMode
FINGERPRINT_MODE_REQUIRE: FingerprintMode
OCCURRED_AT_MODE_UNSPECIFIED: OccurredAtMode
OCCURRED_AT_MODE_OPTIONAL: OccurredAtMode
OCCURRED_AT_MODE_REQUIRE: OccurredAtMode
REPLAY_MODE_UNSPECIFIED: ReplayMode
REPLAY_MODE_FORBID: ReplayMode
REPLAY_MODE_SUPPRESS: ReplayMode
REPLAY_MODE_REBUILD: ReplayMode
POLICY_SOURCE_UNSPECIFIED: PolicySource
POLICY_SOURCE_DEFAULT: PolicySource
POLICY_SOURCE_CONFIGURATION: PolicySource
POLICY_SOURCE_SET: PolicySource

class Attempt(_message.Message):
    __slots__ = ("attempt", "started_at", "ended_at", "owner", "outcome", "error", "reported_done")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REPORTED_DONE_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    started_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    owner: str
    outcome: ClosedBy
    error: str
    reported_done: bool
    def __init__(self, attempt: _Optional[int] = ..., started_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., owner: _Optional[str] = ..., outcome: _Optional[_Union[ClosedBy, str]] = ..., error: _Optional[str] = ..., reported_done: bool = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("key", "state", "cause", "closed_by", "expired", "version", "attempts", "owner", "principal", "granted_at", "lease_until", "hold_until", "not_before", "closed_at", "parked_at", "last_error", "effect_started", "prior_effect_started", "effect_unknown", "history", "fingerprint", "result_bytes", "checkpoint_bytes", "retain_until", "created_at", "updated_at", "policy_version", "retention", "traceparent", "effect_doubtful", "allowed_changes", "result_dropped", "fingerprint_unpinned", "superseded_completes", "doubled", "message_state", "due_at", "erase_at")
    KEY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    CLOSED_BY_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    GRANTED_AT_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    HOLD_UNTIL_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    CLOSED_AT_FIELD_NUMBER: _ClassVar[int]
    PARKED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    EFFECT_STARTED_FIELD_NUMBER: _ClassVar[int]
    PRIOR_EFFECT_STARTED_FIELD_NUMBER: _ClassVar[int]
    EFFECT_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    RESULT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_BYTES_FIELD_NUMBER: _ClassVar[int]
    RETAIN_UNTIL_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    EFFECT_DOUBTFUL_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_CHANGES_FIELD_NUMBER: _ClassVar[int]
    RESULT_DROPPED_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_UNPINNED_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_COMPLETES_FIELD_NUMBER: _ClassVar[int]
    DOUBLED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_STATE_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_FIELD_NUMBER: _ClassVar[int]
    ERASE_AT_FIELD_NUMBER: _ClassVar[int]
    key: _ledger_pb2.EntryKey
    state: _ledger_pb2.EntryState
    cause: _ledger_pb2.ParkCause
    closed_by: ClosedBy
    expired: bool
    version: int
    attempts: int
    owner: str
    principal: str
    granted_at: _timestamp_pb2.Timestamp
    lease_until: _timestamp_pb2.Timestamp
    hold_until: _timestamp_pb2.Timestamp
    not_before: _timestamp_pb2.Timestamp
    closed_at: _timestamp_pb2.Timestamp
    parked_at: _timestamp_pb2.Timestamp
    last_error: str
    effect_started: bool
    prior_effect_started: bool
    effect_unknown: bool
    history: _containers.RepeatedCompositeFieldContainer[Attempt]
    fingerprint: bytes
    result_bytes: int
    checkpoint_bytes: int
    retain_until: _timestamp_pb2.Timestamp
    created_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    policy_version: int
    retention: _duration_pb2.Duration
    traceparent: str
    effect_doubtful: bool
    allowed_changes: _containers.RepeatedCompositeFieldContainer[AllowedChange]
    result_dropped: bool
    fingerprint_unpinned: bool
    superseded_completes: int
    doubled: bool
    message_state: MessageState
    due_at: _timestamp_pb2.Timestamp
    erase_at: _timestamp_pb2.Timestamp
    def __init__(self, key: _Optional[_Union[_ledger_pb2.EntryKey, _Mapping]] = ..., state: _Optional[_Union[_ledger_pb2.EntryState, str]] = ..., cause: _Optional[_Union[_ledger_pb2.ParkCause, str]] = ..., closed_by: _Optional[_Union[ClosedBy, str]] = ..., expired: bool = ..., version: _Optional[int] = ..., attempts: _Optional[int] = ..., owner: _Optional[str] = ..., principal: _Optional[str] = ..., granted_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., lease_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., hold_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., not_before: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., closed_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., parked_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., last_error: _Optional[str] = ..., effect_started: bool = ..., prior_effect_started: bool = ..., effect_unknown: bool = ..., history: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., fingerprint: _Optional[bytes] = ..., result_bytes: _Optional[int] = ..., checkpoint_bytes: _Optional[int] = ..., retain_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., created_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., policy_version: _Optional[int] = ..., retention: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., traceparent: _Optional[str] = ..., effect_doubtful: bool = ..., allowed_changes: _Optional[_Iterable[_Union[AllowedChange, _Mapping]]] = ..., result_dropped: bool = ..., fingerprint_unpinned: bool = ..., superseded_completes: _Optional[int] = ..., doubled: bool = ..., message_state: _Optional[_Union[MessageState, str]] = ..., due_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., erase_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class AllowedChange(_message.Message):
    __slots__ = ("change", "needs_force")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FORCE_FIELD_NUMBER: _ClassVar[int]
    change: EntryChange
    needs_force: bool
    def __init__(self, change: _Optional[_Union[EntryChange, str]] = ..., needs_force: bool = ...) -> None: ...

class GetEntryRequest(_message.Message):
    __slots__ = ("key", "key_hash")
    KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_HASH_FIELD_NUMBER: _ClassVar[int]
    key: _ledger_pb2.EntryKey
    key_hash: str
    def __init__(self, key: _Optional[_Union[_ledger_pb2.EntryKey, _Mapping]] = ..., key_hash: _Optional[str] = ...) -> None: ...

class GetEntryResponse(_message.Message):
    __slots__ = ("entry", "policy_version_in_force")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    entry: Entry
    policy_version_in_force: int
    def __init__(self, entry: _Optional[_Union[Entry, _Mapping]] = ..., policy_version_in_force: _Optional[int] = ...) -> None: ...

class GetMessageRequest(_message.Message):
    __slots__ = ("key", "reason")
    KEY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    key: _ledger_pb2.EntryKey
    reason: str
    def __init__(self, key: _Optional[_Union[_ledger_pb2.EntryKey, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class GetMessageResponse(_message.Message):
    __slots__ = ("message", "stored_at")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STORED_AT_FIELD_NUMBER: _ClassVar[int]
    message: _ledger_pb2.Message
    stored_at: _timestamp_pb2.Timestamp
    def __init__(self, message: _Optional[_Union[_ledger_pb2.Message, _Mapping]] = ..., stored_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class EntryFilter(_message.Message):
    __slots__ = ("consumer", "source", "id_prefix", "states", "causes", "expired", "min_age", "max_age", "replay_run", "doubled", "owner", "error_contains", "parked_max_age", "inbox")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    REPLAY_RUN_FIELD_NUMBER: _ClassVar[int]
    DOUBLED_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ERROR_CONTAINS_FIELD_NUMBER: _ClassVar[int]
    PARKED_MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    INBOX_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    source: str
    id_prefix: str
    states: _containers.RepeatedScalarFieldContainer[_ledger_pb2.EntryState]
    causes: _containers.RepeatedScalarFieldContainer[_ledger_pb2.ParkCause]
    expired: bool
    min_age: _duration_pb2.Duration
    max_age: _duration_pb2.Duration
    replay_run: str
    doubled: bool
    owner: str
    error_contains: str
    parked_max_age: _duration_pb2.Duration
    inbox: MessageState
    def __init__(self, consumer: _Optional[str] = ..., source: _Optional[str] = ..., id_prefix: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_ledger_pb2.EntryState, str]]] = ..., causes: _Optional[_Iterable[_Union[_ledger_pb2.ParkCause, str]]] = ..., expired: bool = ..., min_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., replay_run: _Optional[str] = ..., doubled: bool = ..., owner: _Optional[str] = ..., error_contains: _Optional[str] = ..., parked_max_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., inbox: _Optional[_Union[MessageState, str]] = ...) -> None: ...

class ListEntriesRequest(_message.Message):
    __slots__ = ("filter", "order", "page_size", "page_token")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    filter: EntryFilter
    order: EntryOrder
    page_size: int
    page_token: str
    def __init__(self, filter: _Optional[_Union[EntryFilter, _Mapping]] = ..., order: _Optional[_Union[EntryOrder, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListEntriesResponse(_message.Message):
    __slots__ = ("entries", "next_page_token", "unreadable", "looked_at_until")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_UNTIL_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    next_page_token: str
    unreadable: _containers.RepeatedCompositeFieldContainer[UnreadableEntry]
    looked_at_until: _timestamp_pb2.Timestamp
    def __init__(self, entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., unreadable: _Optional[_Iterable[_Union[UnreadableEntry, _Mapping]]] = ..., looked_at_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class UnreadableEntry(_message.Message):
    __slots__ = ("key_hash", "column", "created_at")
    KEY_HASH_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    key_hash: str
    column: str
    created_at: _timestamp_pb2.Timestamp
    def __init__(self, key_hash: _Optional[str] = ..., column: _Optional[str] = ..., created_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GroupEntriesRequest(_message.Message):
    __slots__ = ("filter", "maximum")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    filter: EntryFilter
    maximum: int
    def __init__(self, filter: _Optional[_Union[EntryFilter, _Mapping]] = ..., maximum: _Optional[int] = ...) -> None: ...

class GroupEntriesResponse(_message.Message):
    __slots__ = ("groups", "looked_at", "is_sample", "more_groups", "as_of")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    IS_SAMPLE_FIELD_NUMBER: _ClassVar[int]
    MORE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[EntryGroup]
    looked_at: int
    is_sample: bool
    more_groups: int
    as_of: _timestamp_pb2.Timestamp
    def __init__(self, groups: _Optional[_Iterable[_Union[EntryGroup, _Mapping]]] = ..., looked_at: _Optional[int] = ..., is_sample: bool = ..., more_groups: _Optional[int] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class EntryGroup(_message.Message):
    __slots__ = ("consumer", "state", "cause", "error", "count", "oldest_age")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    OLDEST_AGE_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    state: _ledger_pb2.EntryState
    cause: _ledger_pb2.ParkCause
    error: str
    count: int
    oldest_age: _duration_pb2.Duration
    def __init__(self, consumer: _Optional[str] = ..., state: _Optional[_Union[_ledger_pb2.EntryState, str]] = ..., cause: _Optional[_Union[_ledger_pb2.ParkCause, str]] = ..., error: _Optional[str] = ..., count: _Optional[int] = ..., oldest_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SummarizeEntriesRequest(_message.Message):
    __slots__ = ("consumer", "page_size", "page_token", "replay_run")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REPLAY_RUN_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    page_size: int
    page_token: str
    replay_run: str
    def __init__(self, consumer: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., replay_run: _Optional[str] = ...) -> None: ...

class SummarizeEntriesResponse(_message.Message):
    __slots__ = ("consumers", "as_of", "next_page_token")
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    consumers: _containers.RepeatedCompositeFieldContainer[ConsumerSummary]
    as_of: _timestamp_pb2.Timestamp
    next_page_token: str
    def __init__(self, consumers: _Optional[_Iterable[_Union[ConsumerSummary, _Mapping]]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ConsumerSummary(_message.Message):
    __slots__ = ("consumer", "states", "expired", "longest_expired", "near_exhaustion", "disabled", "replay_run", "held_by", "doubled", "inbox")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    LONGEST_EXPIRED_FIELD_NUMBER: _ClassVar[int]
    NEAR_EXHAUSTION_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    REPLAY_RUN_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    DOUBLED_FIELD_NUMBER: _ClassVar[int]
    INBOX_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    states: _containers.RepeatedCompositeFieldContainer[StateSummary]
    expired: int
    longest_expired: _duration_pb2.Duration
    near_exhaustion: int
    disabled: bool
    replay_run: str
    held_by: str
    doubled: int
    inbox: InboxSummary
    def __init__(self, consumer: _Optional[str] = ..., states: _Optional[_Iterable[_Union[StateSummary, _Mapping]]] = ..., expired: _Optional[int] = ..., longest_expired: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., near_exhaustion: _Optional[int] = ..., disabled: bool = ..., replay_run: _Optional[str] = ..., held_by: _Optional[str] = ..., doubled: _Optional[int] = ..., inbox: _Optional[_Union[InboxSummary, _Mapping]] = ...) -> None: ...

class InboxSummary(_message.Message):
    __slots__ = ("due", "oldest_due_age", "later", "at_least")
    DUE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_DUE_AGE_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    due: int
    oldest_due_age: _duration_pb2.Duration
    later: int
    at_least: bool
    def __init__(self, due: _Optional[int] = ..., oldest_due_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., later: _Optional[int] = ..., at_least: bool = ...) -> None: ...

class StateSummary(_message.Message):
    __slots__ = ("state", "cause", "count", "estimated", "oldest_age", "at_least")
    STATE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_AGE_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    state: _ledger_pb2.EntryState
    cause: _ledger_pb2.ParkCause
    count: int
    estimated: bool
    oldest_age: _duration_pb2.Duration
    at_least: bool
    def __init__(self, state: _Optional[_Union[_ledger_pb2.EntryState, str]] = ..., cause: _Optional[_Union[_ledger_pb2.ParkCause, str]] = ..., count: _Optional[int] = ..., estimated: bool = ..., oldest_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., at_least: bool = ...) -> None: ...

class RedriveEntryRequest(_message.Message):
    __slots__ = ("key", "request_id", "expected_version", "reason", "force", "drop_fingerprint", "admit")
    KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    DROP_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    ADMIT_FIELD_NUMBER: _ClassVar[int]
    key: _ledger_pb2.EntryKey
    request_id: str
    expected_version: int
    reason: str
    force: bool
    drop_fingerprint: bool
    admit: bool
    def __init__(self, key: _Optional[_Union[_ledger_pb2.EntryKey, _Mapping]] = ..., request_id: _Optional[str] = ..., expected_version: _Optional[int] = ..., reason: _Optional[str] = ..., force: bool = ..., drop_fingerprint: bool = ..., admit: bool = ...) -> None: ...

class RedriveEntryResponse(_message.Message):
    __slots__ = ("entry", "replayed", "message_erased")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ERASED_FIELD_NUMBER: _ClassVar[int]
    entry: Entry
    replayed: bool
    message_erased: bool
    def __init__(self, entry: _Optional[_Union[Entry, _Mapping]] = ..., replayed: bool = ..., message_erased: bool = ...) -> None: ...

class ParkEntryRequest(_message.Message):
    __slots__ = ("key", "request_id", "expected_version", "reason")
    KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    key: _ledger_pb2.EntryKey
    request_id: str
    expected_version: int
    reason: str
    def __init__(self, key: _Optional[_Union[_ledger_pb2.EntryKey, _Mapping]] = ..., request_id: _Optional[str] = ..., expected_version: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ParkEntryResponse(_message.Message):
    __slots__ = ("entry", "replayed")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    entry: Entry
    replayed: bool
    def __init__(self, entry: _Optional[_Union[Entry, _Mapping]] = ..., replayed: bool = ...) -> None: ...

class ResolveEntryRequest(_message.Message):
    __slots__ = ("key", "request_id", "expected_version", "reason", "force", "state", "result", "evidence")
    KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    key: _ledger_pb2.EntryKey
    request_id: str
    expected_version: int
    reason: str
    force: bool
    state: _ledger_pb2.EntryState
    result: bytes
    evidence: str
    def __init__(self, key: _Optional[_Union[_ledger_pb2.EntryKey, _Mapping]] = ..., request_id: _Optional[str] = ..., expected_version: _Optional[int] = ..., reason: _Optional[str] = ..., force: bool = ..., state: _Optional[_Union[_ledger_pb2.EntryState, str]] = ..., result: _Optional[bytes] = ..., evidence: _Optional[str] = ...) -> None: ...

class ResolveEntryResponse(_message.Message):
    __slots__ = ("entry", "replayed", "message_erased")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ERASED_FIELD_NUMBER: _ClassVar[int]
    entry: Entry
    replayed: bool
    message_erased: bool
    def __init__(self, entry: _Optional[_Union[Entry, _Mapping]] = ..., replayed: bool = ..., message_erased: bool = ...) -> None: ...

class DeleteEntryRequest(_message.Message):
    __slots__ = ("key", "request_id", "expected_version", "reason", "force", "key_hash")
    KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    KEY_HASH_FIELD_NUMBER: _ClassVar[int]
    key: _ledger_pb2.EntryKey
    request_id: str
    expected_version: int
    reason: str
    force: bool
    key_hash: str
    def __init__(self, key: _Optional[_Union[_ledger_pb2.EntryKey, _Mapping]] = ..., request_id: _Optional[str] = ..., expected_version: _Optional[int] = ..., reason: _Optional[str] = ..., force: bool = ..., key_hash: _Optional[str] = ...) -> None: ...

class DeleteEntryResponse(_message.Message):
    __slots__ = ("replayed",)
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    replayed: bool
    def __init__(self, replayed: bool = ...) -> None: ...

class RedriveEntriesRequest(_message.Message):
    __slots__ = ("filter", "operation_id", "reason", "dry_run", "rate", "maximum", "drop_fingerprint")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    DROP_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    filter: EntryFilter
    operation_id: str
    reason: str
    dry_run: bool
    rate: int
    maximum: int
    drop_fingerprint: bool
    def __init__(self, filter: _Optional[_Union[EntryFilter, _Mapping]] = ..., operation_id: _Optional[str] = ..., reason: _Optional[str] = ..., dry_run: bool = ..., rate: _Optional[int] = ..., maximum: _Optional[int] = ..., drop_fingerprint: bool = ...) -> None: ...

class RedriveEntriesResponse(_message.Message):
    __slots__ = ("outcomes", "redriven", "refused", "at_most_left", "finished", "maximum_reached")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    AT_MOST_LEFT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_REACHED_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[RedriveOutcome]
    redriven: int
    refused: int
    at_most_left: int
    finished: bool
    maximum_reached: bool
    def __init__(self, outcomes: _Optional[_Iterable[_Union[RedriveOutcome, _Mapping]]] = ..., redriven: _Optional[int] = ..., refused: _Optional[int] = ..., at_most_left: _Optional[int] = ..., finished: bool = ..., maximum_reached: bool = ...) -> None: ...

class RedriveOutcome(_message.Message):
    __slots__ = ("key", "state", "cause", "redriven", "rejected", "effect_doubtful", "key_hash", "message_erased")
    KEY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    EFFECT_DOUBTFUL_FIELD_NUMBER: _ClassVar[int]
    KEY_HASH_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ERASED_FIELD_NUMBER: _ClassVar[int]
    key: _ledger_pb2.EntryKey
    state: _ledger_pb2.EntryState
    cause: _ledger_pb2.ParkCause
    redriven: bool
    rejected: _ledger_pb2.Rejected
    effect_doubtful: bool
    key_hash: str
    message_erased: bool
    def __init__(self, key: _Optional[_Union[_ledger_pb2.EntryKey, _Mapping]] = ..., state: _Optional[_Union[_ledger_pb2.EntryState, str]] = ..., cause: _Optional[_Union[_ledger_pb2.ParkCause, str]] = ..., redriven: bool = ..., rejected: _Optional[_Union[_ledger_pb2.Rejected, _Mapping]] = ..., effect_doubtful: bool = ..., key_hash: _Optional[str] = ..., message_erased: bool = ...) -> None: ...

class ParkEntriesRequest(_message.Message):
    __slots__ = ("filter", "operation_id", "reason", "dry_run", "rate", "maximum")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    filter: EntryFilter
    operation_id: str
    reason: str
    dry_run: bool
    rate: int
    maximum: int
    def __init__(self, filter: _Optional[_Union[EntryFilter, _Mapping]] = ..., operation_id: _Optional[str] = ..., reason: _Optional[str] = ..., dry_run: bool = ..., rate: _Optional[int] = ..., maximum: _Optional[int] = ...) -> None: ...

class ParkEntriesResponse(_message.Message):
    __slots__ = ("outcomes", "changed", "refused", "at_most_left", "finished", "maximum_reached")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    AT_MOST_LEFT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_REACHED_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[EntryOutcome]
    changed: int
    refused: int
    at_most_left: int
    finished: bool
    maximum_reached: bool
    def __init__(self, outcomes: _Optional[_Iterable[_Union[EntryOutcome, _Mapping]]] = ..., changed: _Optional[int] = ..., refused: _Optional[int] = ..., at_most_left: _Optional[int] = ..., finished: bool = ..., maximum_reached: bool = ...) -> None: ...

class ResolveEntriesRequest(_message.Message):
    __slots__ = ("filter", "operation_id", "reason", "dry_run", "rate", "maximum", "state", "evidence")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    filter: EntryFilter
    operation_id: str
    reason: str
    dry_run: bool
    rate: int
    maximum: int
    state: _ledger_pb2.EntryState
    evidence: str
    def __init__(self, filter: _Optional[_Union[EntryFilter, _Mapping]] = ..., operation_id: _Optional[str] = ..., reason: _Optional[str] = ..., dry_run: bool = ..., rate: _Optional[int] = ..., maximum: _Optional[int] = ..., state: _Optional[_Union[_ledger_pb2.EntryState, str]] = ..., evidence: _Optional[str] = ...) -> None: ...

class ResolveEntriesResponse(_message.Message):
    __slots__ = ("outcomes", "changed", "refused", "at_most_left", "finished", "maximum_reached")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    AT_MOST_LEFT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_REACHED_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[EntryOutcome]
    changed: int
    refused: int
    at_most_left: int
    finished: bool
    maximum_reached: bool
    def __init__(self, outcomes: _Optional[_Iterable[_Union[EntryOutcome, _Mapping]]] = ..., changed: _Optional[int] = ..., refused: _Optional[int] = ..., at_most_left: _Optional[int] = ..., finished: bool = ..., maximum_reached: bool = ...) -> None: ...

class EntryOutcome(_message.Message):
    __slots__ = ("key", "state", "cause", "changed", "rejected", "effect_doubtful", "key_hash", "message_erased")
    KEY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    EFFECT_DOUBTFUL_FIELD_NUMBER: _ClassVar[int]
    KEY_HASH_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ERASED_FIELD_NUMBER: _ClassVar[int]
    key: _ledger_pb2.EntryKey
    state: _ledger_pb2.EntryState
    cause: _ledger_pb2.ParkCause
    changed: bool
    rejected: _ledger_pb2.Rejected
    effect_doubtful: bool
    key_hash: str
    message_erased: bool
    def __init__(self, key: _Optional[_Union[_ledger_pb2.EntryKey, _Mapping]] = ..., state: _Optional[_Union[_ledger_pb2.EntryState, str]] = ..., cause: _Optional[_Union[_ledger_pb2.ParkCause, str]] = ..., changed: bool = ..., rejected: _Optional[_Union[_ledger_pb2.Rejected, _Mapping]] = ..., effect_doubtful: bool = ..., key_hash: _Optional[str] = ..., message_erased: bool = ...) -> None: ...

class ImportEntriesRequest(_message.Message):
    __slots__ = ("operation_id", "reason", "entries")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    operation_id: str
    reason: str
    entries: _containers.RepeatedCompositeFieldContainer[ImportedEntry]
    def __init__(self, operation_id: _Optional[str] = ..., reason: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[ImportedEntry, _Mapping]]] = ...) -> None: ...

class ImportedEntry(_message.Message):
    __slots__ = ("key", "completed_at", "result", "fingerprint")
    KEY_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    key: _ledger_pb2.EntryKey
    completed_at: _timestamp_pb2.Timestamp
    result: bytes
    fingerprint: bytes
    def __init__(self, key: _Optional[_Union[_ledger_pb2.EntryKey, _Mapping]] = ..., completed_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., result: _Optional[bytes] = ..., fingerprint: _Optional[bytes] = ...) -> None: ...

class ImportEntriesResponse(_message.Message):
    __slots__ = ("stored", "already_completed", "retention_over", "rejections")
    STORED_FIELD_NUMBER: _ClassVar[int]
    ALREADY_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    RETENTION_OVER_FIELD_NUMBER: _ClassVar[int]
    REJECTIONS_FIELD_NUMBER: _ClassVar[int]
    stored: int
    already_completed: int
    retention_over: int
    rejections: _containers.RepeatedCompositeFieldContainer[ImportRejection]
    def __init__(self, stored: _Optional[int] = ..., already_completed: _Optional[int] = ..., retention_over: _Optional[int] = ..., rejections: _Optional[_Iterable[_Union[ImportRejection, _Mapping]]] = ...) -> None: ...

class ImportRejection(_message.Message):
    __slots__ = ("index", "rejected")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    index: int
    rejected: _ledger_pb2.Rejected
    def __init__(self, index: _Optional[int] = ..., rejected: _Optional[_Union[_ledger_pb2.Rejected, _Mapping]] = ...) -> None: ...

class ReconcileEntriesRequest(_message.Message):
    __slots__ = ("reason", "dry_run", "rows")
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    dry_run: bool
    rows: _containers.RepeatedCompositeFieldContainer[ReconcileRow]
    def __init__(self, reason: _Optional[str] = ..., dry_run: bool = ..., rows: _Optional[_Iterable[_Union[ReconcileRow, _Mapping]]] = ...) -> None: ...

class ReconcileRow(_message.Message):
    __slots__ = ("key", "at", "evidence", "result", "fingerprint")
    KEY_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    key: _ledger_pb2.EntryKey
    at: _timestamp_pb2.Timestamp
    evidence: EffectEvidence
    result: bytes
    fingerprint: bytes
    def __init__(self, key: _Optional[_Union[_ledger_pb2.EntryKey, _Mapping]] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., evidence: _Optional[_Union[EffectEvidence, str]] = ..., result: _Optional[bytes] = ..., fingerprint: _Optional[bytes] = ...) -> None: ...

class ReconcileEntriesResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ReconcileResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ReconcileResult, _Mapping]]] = ...) -> None: ...

class ReconcileResult(_message.Message):
    __slots__ = ("outcome", "retry_after", "rejected")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    outcome: ReconcileOutcome
    retry_after: _duration_pb2.Duration
    rejected: _ledger_pb2.Rejected
    def __init__(self, outcome: _Optional[_Union[ReconcileOutcome, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., rejected: _Optional[_Union[_ledger_pb2.Rejected, _Mapping]] = ...) -> None: ...

class AuditEvent(_message.Message):
    __slots__ = ("request_id", "at", "actor", "action", "consumer", "key_hash", "reason", "before_json", "after_json", "changes")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    KEY_HASH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BEFORE_JSON_FIELD_NUMBER: _ClassVar[int]
    AFTER_JSON_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    at: _timestamp_pb2.Timestamp
    actor: str
    action: str
    consumer: str
    key_hash: str
    reason: str
    before_json: str
    after_json: str
    changes: _containers.RepeatedCompositeFieldContainer[AuditChange]
    def __init__(self, request_id: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., actor: _Optional[str] = ..., action: _Optional[str] = ..., consumer: _Optional[str] = ..., key_hash: _Optional[str] = ..., reason: _Optional[str] = ..., before_json: _Optional[str] = ..., after_json: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[AuditChange, _Mapping]]] = ...) -> None: ...

class AuditChange(_message.Message):
    __slots__ = ("path", "to")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    path: str
    to: str
    def __init__(self, path: _Optional[str] = ..., to: _Optional[str] = ..., **kwargs) -> None: ...

class ListAuditEventsRequest(_message.Message):
    __slots__ = ("consumer", "key", "page_size", "page_token", "operation", "actions", "actor", "until")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    key: _ledger_pb2.EntryKey
    page_size: int
    page_token: str
    operation: str
    actions: _containers.RepeatedScalarFieldContainer[str]
    actor: str
    until: _timestamp_pb2.Timestamp
    def __init__(self, consumer: _Optional[str] = ..., key: _Optional[_Union[_ledger_pb2.EntryKey, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., operation: _Optional[str] = ..., actions: _Optional[_Iterable[str]] = ..., actor: _Optional[str] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., **kwargs) -> None: ...

class ListAuditEventsResponse(_message.Message):
    __slots__ = ("events", "next_page_token")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[AuditEvent]
    next_page_token: str
    def __init__(self, events: _Optional[_Iterable[_Union[AuditEvent, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class BackoffPolicy(_message.Message):
    __slots__ = ("initial", "multiplier", "max", "jitter")
    INITIAL_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    initial: _duration_pb2.Duration
    multiplier: float
    max: _duration_pb2.Duration
    jitter: float
    def __init__(self, initial: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., multiplier: _Optional[float] = ..., max: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., jitter: _Optional[float] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("lease", "max_lease", "max_hold", "reclaim_grace", "on_expiry", "max_attempts", "backoff", "retention", "failed_retention", "abandoned_retention", "result_retention", "max_redelivery_window", "accepted_risk", "fingerprint", "disabled", "claims_per_second", "occurred_at", "replay", "result_bytes_max", "inbox", "message_retention", "backlog_max_age")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MAX_LEASE_FIELD_NUMBER: _ClassVar[int]
    MAX_HOLD_FIELD_NUMBER: _ClassVar[int]
    RECLAIM_GRACE_FIELD_NUMBER: _ClassVar[int]
    ON_EXPIRY_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    FAILED_RETENTION_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_RETENTION_FIELD_NUMBER: _ClassVar[int]
    RESULT_RETENTION_FIELD_NUMBER: _ClassVar[int]
    MAX_REDELIVERY_WINDOW_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_RISK_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FIELD_NUMBER: _ClassVar[int]
    RESULT_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    INBOX_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_RETENTION_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    lease: _duration_pb2.Duration
    max_lease: _duration_pb2.Duration
    max_hold: _duration_pb2.Duration
    reclaim_grace: _duration_pb2.Duration
    on_expiry: _ledger_pb2.OnExpiry
    max_attempts: int
    backoff: BackoffPolicy
    retention: _duration_pb2.Duration
    failed_retention: _duration_pb2.Duration
    abandoned_retention: _duration_pb2.Duration
    result_retention: _duration_pb2.Duration
    max_redelivery_window: _duration_pb2.Duration
    accepted_risk: str
    fingerprint: FingerprintMode
    disabled: bool
    claims_per_second: int
    occurred_at: OccurredAtMode
    replay: ReplayMode
    result_bytes_max: int
    inbox: bool
    message_retention: _duration_pb2.Duration
    backlog_max_age: _duration_pb2.Duration
    def __init__(self, lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., reclaim_grace: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., on_expiry: _Optional[_Union[_ledger_pb2.OnExpiry, str]] = ..., max_attempts: _Optional[int] = ..., backoff: _Optional[_Union[BackoffPolicy, _Mapping]] = ..., retention: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., failed_retention: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., abandoned_retention: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., result_retention: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_redelivery_window: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., accepted_risk: _Optional[str] = ..., fingerprint: _Optional[_Union[FingerprintMode, str]] = ..., disabled: bool = ..., claims_per_second: _Optional[int] = ..., occurred_at: _Optional[_Union[OccurredAtMode, str]] = ..., replay: _Optional[_Union[ReplayMode, str]] = ..., result_bytes_max: _Optional[int] = ..., inbox: bool = ..., message_retention: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., backlog_max_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ConsumerPolicy(_message.Message):
    __slots__ = ("consumer", "version", "source", "policy", "window_floor", "unreadable", "held_by")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FLOOR_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    version: int
    source: PolicySource
    policy: Policy
    window_floor: _timestamp_pb2.Timestamp
    unreadable: bool
    held_by: str
    def __init__(self, consumer: _Optional[str] = ..., version: _Optional[int] = ..., source: _Optional[_Union[PolicySource, str]] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., window_floor: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., unreadable: bool = ..., held_by: _Optional[str] = ...) -> None: ...

class GetPolicyRequest(_message.Message):
    __slots__ = ("consumer",)
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    def __init__(self, consumer: _Optional[str] = ...) -> None: ...

class GetPolicyResponse(_message.Message):
    __slots__ = ("policy",)
    POLICY_FIELD_NUMBER: _ClassVar[int]
    policy: ConsumerPolicy
    def __init__(self, policy: _Optional[_Union[ConsumerPolicy, _Mapping]] = ...) -> None: ...

class ListPoliciesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPoliciesResponse(_message.Message):
    __slots__ = ("policies", "next_page_token")
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    policies: _containers.RepeatedCompositeFieldContainer[ConsumerPolicy]
    next_page_token: str
    def __init__(self, policies: _Optional[_Iterable[_Union[ConsumerPolicy, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class SetPolicyRequest(_message.Message):
    __slots__ = ("consumer", "request_id", "expected_version", "reason", "policy", "update_mask", "validate_only")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    request_id: str
    expected_version: int
    reason: str
    policy: Policy
    update_mask: _field_mask_pb2.FieldMask
    validate_only: bool
    def __init__(self, consumer: _Optional[str] = ..., request_id: _Optional[str] = ..., expected_version: _Optional[int] = ..., reason: _Optional[str] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., validate_only: bool = ...) -> None: ...

class SetPolicyResponse(_message.Message):
    __slots__ = ("policy", "replayed", "changes")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    policy: ConsumerPolicy
    replayed: bool
    changes: _containers.RepeatedCompositeFieldContainer[PolicyChange]
    def __init__(self, policy: _Optional[_Union[ConsumerPolicy, _Mapping]] = ..., replayed: bool = ..., changes: _Optional[_Iterable[_Union[PolicyChange, _Mapping]]] = ...) -> None: ...

class PolicyChange(_message.Message):
    __slots__ = ("path", "to")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    path: str
    to: str
    def __init__(self, path: _Optional[str] = ..., to: _Optional[str] = ..., **kwargs) -> None: ...

class DeletePolicyRequest(_message.Message):
    __slots__ = ("consumer", "request_id", "expected_version", "reason")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    request_id: str
    expected_version: int
    reason: str
    def __init__(self, consumer: _Optional[str] = ..., request_id: _Optional[str] = ..., expected_version: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class DeletePolicyResponse(_message.Message):
    __slots__ = ("policy", "replayed")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    policy: ConsumerPolicy
    replayed: bool
    def __init__(self, policy: _Optional[_Union[ConsumerPolicy, _Mapping]] = ..., replayed: bool = ...) -> None: ...

class PolicyVersion(_message.Message):
    __slots__ = ("version", "policy", "created_at", "actor", "reason", "unreadable")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    version: int
    policy: Policy
    created_at: _timestamp_pb2.Timestamp
    actor: str
    reason: str
    unreadable: bool
    def __init__(self, version: _Optional[int] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., created_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., actor: _Optional[str] = ..., reason: _Optional[str] = ..., unreadable: bool = ...) -> None: ...

class ListPolicyVersionsRequest(_message.Message):
    __slots__ = ("consumer", "page_size", "page_token")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    page_size: int
    page_token: str
    def __init__(self, consumer: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPolicyVersionsResponse(_message.Message):
    __slots__ = ("versions", "next_page_token")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[PolicyVersion]
    next_page_token: str
    def __init__(self, versions: _Optional[_Iterable[_Union[PolicyVersion, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetRetentionStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetRetentionStatusResponse(_message.Message):
    __slots__ = ("due", "due_is_lower_bound", "oldest_due_age", "falling_behind", "workers", "as_of")
    DUE_FIELD_NUMBER: _ClassVar[int]
    DUE_IS_LOWER_BOUND_FIELD_NUMBER: _ClassVar[int]
    OLDEST_DUE_AGE_FIELD_NUMBER: _ClassVar[int]
    FALLING_BEHIND_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    due: int
    due_is_lower_bound: bool
    oldest_due_age: _duration_pb2.Duration
    falling_behind: bool
    workers: _containers.RepeatedCompositeFieldContainer[PurgeWorker]
    as_of: _timestamp_pb2.Timestamp
    def __init__(self, due: _Optional[int] = ..., due_is_lower_bound: bool = ..., oldest_due_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., falling_behind: bool = ..., workers: _Optional[_Iterable[_Union[PurgeWorker, _Mapping]]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PurgeWorker(_message.Message):
    __slots__ = ("replica", "last_run_at", "purged_per_second", "purged_total", "last_error", "last_error_at")
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    LAST_RUN_AT_FIELD_NUMBER: _ClassVar[int]
    PURGED_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    PURGED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_AT_FIELD_NUMBER: _ClassVar[int]
    replica: str
    last_run_at: _timestamp_pb2.Timestamp
    purged_per_second: float
    purged_total: int
    last_error: str
    last_error_at: _timestamp_pb2.Timestamp
    def __init__(self, replica: _Optional[str] = ..., last_run_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., purged_per_second: _Optional[float] = ..., purged_total: _Optional[int] = ..., last_error: _Optional[str] = ..., last_error_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RaiseTokenOffsetRequest(_message.Message):
    __slots__ = ("request_id", "reason", "token_offset", "expected_token_offset", "validate_only")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TOKEN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_TOKEN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    reason: str
    token_offset: _duration_pb2.Duration
    expected_token_offset: _duration_pb2.Duration
    validate_only: bool
    def __init__(self, request_id: _Optional[str] = ..., reason: _Optional[str] = ..., token_offset: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., expected_token_offset: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., validate_only: bool = ...) -> None: ...

class RaiseTokenOffsetResponse(_message.Message):
    __slots__ = ("token_offset", "clock", "clock_mark", "behind", "replayed", "ahead", "before_release")
    TOKEN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MARK_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    BEFORE_RELEASE_FIELD_NUMBER: _ClassVar[int]
    token_offset: _duration_pb2.Duration
    clock: _timestamp_pb2.Timestamp
    clock_mark: _timestamp_pb2.Timestamp
    behind: _duration_pb2.Duration
    replayed: bool
    ahead: _duration_pb2.Duration
    before_release: bool
    def __init__(self, token_offset: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., clock: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., clock_mark: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., behind: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., replayed: bool = ..., ahead: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., before_release: bool = ...) -> None: ...

class ReplayRun(_message.Message):
    __slots__ = ("consumer", "replay_run", "mode", "open", "created_at", "ends_at", "closed_at", "actor", "reason", "states")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    REPLAY_RUN_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_FIELD_NUMBER: _ClassVar[int]
    CLOSED_AT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    replay_run: str
    mode: ReplayMode
    open: bool
    created_at: _timestamp_pb2.Timestamp
    ends_at: _timestamp_pb2.Timestamp
    closed_at: _timestamp_pb2.Timestamp
    actor: str
    reason: str
    states: _containers.RepeatedCompositeFieldContainer[StateSummary]
    def __init__(self, consumer: _Optional[str] = ..., replay_run: _Optional[str] = ..., mode: _Optional[_Union[ReplayMode, str]] = ..., open: bool = ..., created_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., ends_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., closed_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., actor: _Optional[str] = ..., reason: _Optional[str] = ..., states: _Optional[_Iterable[_Union[StateSummary, _Mapping]]] = ...) -> None: ...

class CreateReplayRunRequest(_message.Message):
    __slots__ = ("consumer", "replay_run", "request_id", "reason", "ends_in")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    REPLAY_RUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ENDS_IN_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    replay_run: str
    request_id: str
    reason: str
    ends_in: _duration_pb2.Duration
    def __init__(self, consumer: _Optional[str] = ..., replay_run: _Optional[str] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ..., ends_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CreateReplayRunResponse(_message.Message):
    __slots__ = ("run", "replayed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    run: ReplayRun
    replayed: bool
    def __init__(self, run: _Optional[_Union[ReplayRun, _Mapping]] = ..., replayed: bool = ...) -> None: ...

class CloseReplayRunRequest(_message.Message):
    __slots__ = ("consumer", "replay_run", "request_id", "reason")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    REPLAY_RUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    replay_run: str
    request_id: str
    reason: str
    def __init__(self, consumer: _Optional[str] = ..., replay_run: _Optional[str] = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CloseReplayRunResponse(_message.Message):
    __slots__ = ("run", "replayed")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    run: ReplayRun
    replayed: bool
    def __init__(self, run: _Optional[_Union[ReplayRun, _Mapping]] = ..., replayed: bool = ...) -> None: ...

class ListReplayRunsRequest(_message.Message):
    __slots__ = ("consumer", "page_size", "page_token")
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    consumer: str
    page_size: int
    page_token: str
    def __init__(self, consumer: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListReplayRunsResponse(_message.Message):
    __slots__ = ("runs", "as_of", "next_page_token")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[ReplayRun]
    as_of: _timestamp_pb2.Timestamp
    next_page_token: str
    def __init__(self, runs: _Optional[_Iterable[_Union[ReplayRun, _Mapping]]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("prefix", "all", "created_at", "actor", "reason")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    all: bool
    created_at: _timestamp_pb2.Timestamp
    actor: str
    reason: str
    def __init__(self, prefix: _Optional[str] = ..., all: bool = ..., created_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., actor: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class HoldConsumersRequest(_message.Message):
    __slots__ = ("prefix", "all", "request_id", "reason")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    all: bool
    request_id: str
    reason: str
    def __init__(self, prefix: _Optional[str] = ..., all: bool = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class HoldConsumersResponse(_message.Message):
    __slots__ = ("hold", "replayed")
    HOLD_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    hold: Hold
    replayed: bool
    def __init__(self, hold: _Optional[_Union[Hold, _Mapping]] = ..., replayed: bool = ...) -> None: ...

class ResumeConsumersRequest(_message.Message):
    __slots__ = ("prefix", "all", "request_id", "reason")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    all: bool
    request_id: str
    reason: str
    def __init__(self, prefix: _Optional[str] = ..., all: bool = ..., request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ResumeConsumersResponse(_message.Message):
    __slots__ = ("replayed",)
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    replayed: bool
    def __init__(self, replayed: bool = ...) -> None: ...

class ListHoldsRequest(_message.Message):
    __slots__ = ("prefix",)
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    def __init__(self, prefix: _Optional[str] = ...) -> None: ...

class ListHoldsResponse(_message.Message):
    __slots__ = ("holds",)
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    holds: _containers.RepeatedCompositeFieldContainer[Hold]
    def __init__(self, holds: _Optional[_Iterable[_Union[Hold, _Mapping]]] = ...) -> None: ...
