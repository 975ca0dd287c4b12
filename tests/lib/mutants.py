"""Seeded bugs: what is changed where, and which suite must see it.

Where a change no longer fits the code, the proof says so: adapt it here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    number: str
    bug: str
    suite: str
    changes: list[tuple[str, str, str]]


CALL_ACCOUNT = "src/accounts/call.rs"
CLAIM = "src/domain/claim.rs"
SETTLE = "src/domain/settle.rs"
PRECONDITIONS = "src/domain/preconditions.rs"
OPERATE = "src/domain/operate.rs"
RECONCILE = "src/domain/reconcile.rs"
RECONCILES = "src/ledger/operators/reconcile.rs"
BATCH = "src/ledger/claims/round/mod.rs"
PG_AUDIT = "src/store/postgres/audit.rs"
PG_ENTRIES = "src/store/postgres/entry_statements.rs"
PG_ENTRY_ROWS = "src/store/postgres/entries.rs"
PG_OPERATORS = "src/store/postgres/operators.rs"
PG_POLICIES = "src/store/postgres/policies.rs"
PG_STATEMENTS = "src/store/postgres/statements.rs"
PG_SCHEMA = "migrations/postgres/0001_ledger.sql"
PG_PURGE = "src/store/postgres/purge.rs"
PG_UPKEEP = "src/store/postgres/upkeep.rs"
LITE_AUDIT = "src/store/sqlite/audit.rs"
LITE_ONE_TRIP = "src/store/sqlite/one_trip.rs"
LITE_ENTRIES = "src/store/sqlite/entries.rs"
LITE_STATEMENTS = "src/store/sqlite/entry_statements.rs"
LITE_OPERATORS = "src/store/sqlite/operators.rs"
LITE_POLICIES = "src/store/sqlite/policies.rs"
LITE_PURGE = "src/store/sqlite/purge.rs"
LITE_UPKEEP = "src/store/sqlite/upkeep.rs"
CONNECT = "src/store/postgres/connection/connect.rs"
LINK = "src/store/postgres/connection/link.rs"
PURGE = "src/ledger/upkeep/purge.rs"
PURGE_TURN = "src/ledger/upkeep/purge_turn.rs"
QUEUE = "src/ledger/claims/queue/mod.rs"
LANE = "src/ledger/claims/queue/lane.rs"
ROUND_ROBIN = "src/ledger/claims/queue/fair.rs"
ANSWERS = "src/ledger/claims/answers.rs"
CHAIN = "src/ledger/claims/request.rs"
FAILURES = "src/ledger/claims/round/failures.rs"
STATEMENT = "src/ledger/claims/round/timed.rs"
CLAIMS_FOLD = "src/ledger/claims/round/decide.rs"
DOMAIN_FOLD = "src/domain/fold.rs"
INBOX_JOBS = "src/ledger/inbox/jobs.rs"
INBOX_NEXT = "src/ledger/inbox/next.rs"
INBOX_STORE = "src/ledger/inbox/store.rs"
GROWTH = "proof::rows::growth"
DIFFERENTIAL = "proof::differential"
LOCKSTEP = "proof::lockstep"
MESH = "proof::live::mesh"
ACKNOWLEDGED = "store::postgres::connection::lost_commits"
ENVOY = "deploy/envoy/envoy.yaml"
DIRECT = "proof::direct"
SERVICE_CONFIG = "deploy/clients/service-config.json"
GUARD = "proof::guard"
OBSERVE_PLACES = "src/server/observe/permits.rs"
CARDINALITY = "src/metrics/cardinality.rs"
RIGHTS_LINT = "src/identity/lint.rs"
LITE_CONNECT = "src/store/sqlite/connect.rs"
GUARD_PACKAGE = "clients/python/src/idempotency_ledger/guard"
GUARD_ONCE = f"{GUARD_PACKAGE}/__init__.py"
GUARD_DIALECTS = f"{GUARD_PACKAGE}/_dialects.py"
GUARD_INSERT = """\
    if not dialect.insert_new(_INSERT, (*row, key.consumer, key.source, key.id, claim.token)):
        return _done_before(dialect, row, (key.consumer, key.source, key.id))
"""
GUARD_EFFECT = """\
    try:
        result = _kept(effect(dialect.cursor()))
    except Exception as error:
        if isinstance(error, (Steer, *dialect.errors)):
            raise
        again = Retry(type(error).__name__)
        again._of_guard = True
        raise again from error
"""

ERRORS = "src/store/postgres/errors.rs"
LOOKUP = "src/domain/lookup.rs"
ONCE = "src/cli/once"
HTTP_LEDGER = "examples/http/ledger.py"
HTTP_MIDDLEWARE = "examples/http/idempotency.py"
TOKEN_OFFSET_RPC = "src/rpc/admin/token_offset.rs"
CLI_LIST = "src/cli/entries/list.rs"
CODEC = "src/accounts/codec.rs"
MUTANTS = [
    Mutant("1", "the token check of Complete is off", LOCKSTEP, [
        (PG_ENTRIES, " AND e.token = r.token AND e.state = ", " AND e.state = "),
        (LITE_STATEMENTS, "WHERE e.token = r.token AND e.state = ", "WHERE r.token > 0 AND e.state = "),
        (SETTLE, "if token < entry.token {", "if false {"),
    ]),
    Mutant("2", "Claim is idempotent on the owner alone", DIFFERENTIAL, [
        ("src/domain/entry.rs", "self.claimant.as_ref() == Some(claimant)",
         "self.claimant.as_ref().is_some_and(|held| held.owner == claimant.owner)"),
    ]),
    Mutant("3", "a cancelled Claim releases its key", "cancel::", [
        (CHAIN, "        self.head.to.send(answer);\n", """\
        use crate::domain::{Reply, Settle, Span, Verdict};
        if let (true, Ok(Reply::Verdict(Verdict::Acquired { token, .. }))) = (self.head.to.is_closed(), &answer) {
            let release = Command::Settle(*token, Settle::Release { delay: Span::ZERO, unpin: false });
            let nobody = AnswerTo::Call(tokio::sync::oneshot::channel().0);
            let head = Request { unknown: 1, ..Request::new(release, nobody, self.head.span.clone()) };
            return Some(KeyQueue { head: Box::new(head), must_load: true, ..self });
        }
        self.head.to.send(answer);
"""),
    ]),
    Mutant("4", "the purge does not recheck its condition", "stores::", [
        (PG_PURGE, "  AND e.version = r.version AND greatest(e.version, e.token)", "  AND greatest(e.version, e.token)"),
        (LITE_STATEMENTS, "WHERE key = ?1 AND version = ?2 AND max(version, token)", "WHERE key = ?1 AND ?2 > 0 AND max(version, token)"),
    ]),
    Mutant("5", "a batch is not sorted by key", "interleavings", [
        ("src/ledger/claims/worker.rs", "    all.sort_by_cached_key(|key_queue| key_queue.key.hash());\n", """\
    let order = std::collections::hash_map::RandomState::new();
    all.sort_by_cached_key(|key_queue| std::hash::BuildHasher::hash_one(&order, key_queue.key.hash()));
"""),
    ]),
    Mutant("6", "the answer is sent before the commit", "interleavings", [
        (BATCH, "            let complete = self.session.entries().complete(&part.rows);\n", """\
            let rows = std::mem::take(&mut part.rows);
            for pending in part.pending.drain(..) {
                let reply = Reply::Completed {
                    replayed: false, late: false, result_dropped: false, attempt: 1, doubled: false,
                };
                self.answer_head(pending.key_queue, Ok(reply));
            }
            let complete = self.session.entries().complete(&rows);
"""),
    ]),
    Mutant("7", "tokens restart after a purge", LOCKSTEP, [
        (PG_ENTRIES, "r.clock_now, r.token_clock + r.token,", "r.clock_now, r.token,"),
        ("src/domain/entry.rs", "        self.token = self.token.saturating_add(token_clock);\n", ""),
    ]),
    Mutant("8", "reclaimed without the grace", DIFFERENTIAL, [
        ("src/domain/entry.rs", "self.lease_until + self.grace <= now", "self.lease_until <= now"),
    ]),
    Mutant("9", "the fingerprint is not compared when COMPLETED", DIFFERENTIAL, [
        (CLAIM, "if mismatch(entry, &claim.fingerprint, context.policy) {",
         "if entry.state != State::Completed && mismatch(entry, &claim.fingerprint, context.policy) {"),
    ]),
    Mutant("10", "an unknown outcome is treated as not applied", "faults::", [
        (FAILURES, "            if wrote {\n", "            if !wrote {\n"),
    ]),
    Mutant("11", "the write ignores the version: the last one wins", "proof::live::suites::histories", [
        (PG_ENTRIES, "AND e.version = r.version - 1", "AND r.version > 0"),
    ]),
    Mutant("12", "a batch's answers are shifted when a key stands in it twice", LOCKSTEP, [
        ("src/ledger/submit_all.rs", "        let answers = arrive.await.map_err(|_| lost())?;\n", """\
        let mut answers = arrive.await.map_err(|_| lost())?;
        if chain_of.len() < answers.len() {
            answers.rotate_right(1);
        }
"""),
    ]),
    Mutant("13", "Complete is accepted after another one reclaimed", DIFFERENTIAL, [
        (SETTLE, "    let entry = match present(key, entry, token, context) {", """\
    let token = match (settle, entry) {
        (Settle::Complete { .. }, Some(entry)) => token.max(entry.token),
        _ => token,
    };
    let entry = match present(key, entry, token, context) {"""),
    ]),
    Mutant("14", "Release gives the attempt back twice", DIFFERENTIAL, [
        (SETTLE, "next.attempts = entry.attempts.saturating_sub(1);", "next.attempts = entry.attempts.saturating_sub(2);"),
    ]),
    Mutant("11b", "a key that was purged begins at its first version again", "stores::", [
        (PG_ENTRIES, ", 1, r.token_clock - r.token_clock % 1000, \",", ", 1, 1, \","),
        ("src/domain/entry.rs", "        self.version = self.version.saturating_add(token_clock - token_clock.rem_euclid(VERSION_STEP));\n", "        self.version = 1;\n"),
    ]),
    Mutant("15a", "effect_unknown is forgotten on Release", DIFFERENTIAL, [
        (SETTLE, "    next.not_before = context.now + delay;\n", "    next.not_before = context.now + delay;\n    next.effect_unknown = false;\n"),
    ]),
    Mutant("16", "a policy is not in force on the replica that was asked", "proof::live::suites::operators", [
        ("src/ledger/policies/set.rs", "let now = live.refresh(session).await;",
         "let now: Result<_, StoreError> = Ok(live.snapshot());"),
    ]),
    Mutant("17", "the other replicas do not look for new policies", "proof::live::suites::operators", [
        ("src/ledger/upkeep/probe.rs", "        shared.policies.refresh_as_of(session.as_mut(), reading.now).await?;\n", ""),
        ("src/ledger/policies/in_force.rs", "now <= self.trusted_until && self.fresh()", "now <= StoreTime::MAX"),
    ]),
    Mutant("18", "a change that lost its race leaves its audit event", "proof::live::suites::operators", [
        ("src/store/postgres/audit.rs", 'self.connection.rollback().await?;', 'self.connection.commit().await?;'),
    ]),
    Mutant("15b", "the window floor is ignored", "claims::", [
        (CLAIM, "(context.now - context.policy.retention).max(context.policy.window_floor)", "context.now - context.policy.retention"),
    ]),
    Mutant("C1", "a worker without a session refuses, though another one has a session", "availability::one_lost", [
        ("src/ledger/claims/worker.rs", "        shared.live_workers.none_for(NO_SESSION_MAX).await;\n", ""),
        ("src/ledger/claims/worker.rs", "            () = shared.live_workers.any() => {}\n            key_queues", "            key_queues"),
    ]),
    Mutant("C2", "held rows are not remembered", "availability::one_held", [
        (BATCH, "let is_locked = self.shared.locked_rows.is_locked(key_queue.key.hash());", "let is_locked = self.shared.locked_rows.is_locked(key_queue.key.hash()) && key_queue.head.unknown > 9;"),
    ]),
    Mutant("C3", "nobody looks which row is held", "availability::a_batch", [
        (PG_ENTRIES, "FOR NO KEY UPDATE OF f SKIP LOCKED)", "FOR NO KEY UPDATE OF f SKIP LOCKED) AND false"),
    ]),
    Mutant("C4", "what ends a claim does not wait for its row", "availability::a_settlement", [
        ("src/ledger/claims/locked_rows.rs", "key_queue.split(ends_a_claim)", "key_queue.split(|request| !ends_a_claim(request))"),
    ]),
    Mutant("C5", "sessions are opened however many were left behind", "availability::an_absent", [
        ("src/store/postgres/connection/orphans.rs", "if count < max {", "if count < max * 100 {"),
    ]),
    Mutant("C6", "a silent session is waited for as long as before", "availability::a_silent", [
        (STATEMENT, "const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3);", "const STATEMENT_TIMEOUT: Duration = Duration::from_secs(15);"),
    ]),
    Mutant("C7", "the age of unanswered statements is no matter of health", "ledger::upkeep::probe", [
        ("src/ledger/upkeep/probe.rs", "steady && unanswered < UNANSWERED_MAX", "steady"),
    ]),
    Mutant("C8", "a statement that takes too long is refused whole", "batches::", [
        ("src/ledger/claims/round/failures.rs", "if part.len() > 1 && self.timeouts < TIMEOUTS_MAX =>", "if part.len() > 1 && self.timeouts > TIMEOUTS_MAX =>"),
    ]),
    Mutant("C9", "an operator's job trusts a session that was idle", "availability::a_silent", [
        ("src/ledger/operators/retry.rs", "self.answered.elapsed() > FRESH\n", "self.answered.elapsed() > FRESH * 3_600\n"),
    ]),
    Mutant("A1", "what fails on an old connection is not tried on a new one", "stale::", [
        ("src/ledger/operators/retry.rs", "session_at_fault && began", "session_at_fault && false && began"),
    ]),
    Mutant("A2", "a refusal after an unknown outcome is told as certain", "stale::", [
        ("src/ledger/operators/retry.rs", "Ok(Ok(done)) => Ok(Ok(done)),\n                Ok(Err(_)) | Err(_)", "Ok(done) => Ok(done),\n                Err(_)"),
    ]),
    Mutant("A3", "what breaks before anything was sent is unknown", "stale::", [
        ("src/store/error.rs", "StoreError::Unknown(text) => StoreError::NotApplied(Fault::Unavailable(text)),", "StoreError::Unknown(text) => StoreError::Unknown(text),"),
    ]),
    Mutant("A4", "a statement that is gone fails for ever", "stale::", [
        ("src/store/postgres/errors.rs", '("26", Stale),', '("26", Permanent),'),
    ]),
    Mutant("A5", "a plan that is of another table fails for ever", "stale::", [
        ("src/store/postgres/errors.rs", '("0A000", Some("RevalidateCachedQuery")) =>', '("0A000", Some("")) =>'),
    ]),
    Mutant("A6", "the fields at fault are not bounded together", "answers::", [
        ("src/wire/errors.rs", "bytes <= VIOLATIONS_BYTES_MAX", "bytes <= 1_000 * VIOLATIONS_BYTES_MAX"),
    ]),
    Mutant("A7", "errors are not cut where a batch is too large", "answers::", [
        ("src/wire/fit.rs", "*text = cut(text, longest);", "*text = cut(text, usize::MAX.max(longest));"),
    ]),
    Mutant("A8", "an operator's Resolve and a late Complete are an alarm", "settle_table", [
        ("src/domain/entry.rs", "            || self.closed_by == ClosedBy::Complete\n", "            || self.state == State::Completed\n"),
    ]),
    Mutant("A9", "a request_id of a policy is good for any mask", "policies::", [
        ("src/rpc/admin/policies.rs", "{ validate_only: false, ..request.clone() }", "{ validate_only: false, update_mask: None, ..request.clone() }"),
    ]),
    Mutant("A10", "a failing store writes a line for each batch", "quiet::", [
        ("src/common/log_limit.rs", "self.suppressed += 1;\n            return None;", "self.suppressed += 1;"),
    ]),
    Mutant("A11", "the token offset is raised beside writes that read the old one", "token_offset::", [
        (PG_OPERATORS, "        self.plain(OFFSET_LOCK).await?;\n", ""),
    ]),
    Mutant("A12", "the token offset can be lowered", "token_offset::", [
        (PG_OPERATORS, "WHERE token_offset = $1 AND $2 > $1", "WHERE token_offset = $1 AND $2 <> $1"),
        (LITE_OPERATORS, "WHERE token_offset = ?1 AND ?2 > ?1", "WHERE token_offset = ?1 AND ?2 <> ?1"),
    ]),
    Mutant("A13", "the token offset is raised from whatever it is", "token_offset::", [
        ("src/domain/token_offset.rs", "if expected != present {", "if false {"),
    ]),
    Mutant("P1", "a first grant is not bound to the policies that decided it", "policies::", [
        (BATCH, "let until = until.min(self.policies.trusted_until);", "let until = until.min(StoreTime::MAX);"),
    ]),
    Mutant("P2", "a later grant is not bound to the policies that decided it", "policies::", [
        (CLAIMS_FOLD, "if granting { granting_until } else { StoreTime::MAX }", "if granting { StoreTime::MAX.max(granting_until) } else { StoreTime::MAX }"),
    ]),
    Mutant("P3", "a replacement is written after its instant", "stores::", [
        (PG_ENTRIES, " AND r.now <= r.until", " AND r.until IS NOT NULL"),
        (LITE_ENTRIES, "{ StoreTime::MAX } else { reading.now };", "{ StoreTime::MAX } else { StoreTime(0) };"),
    ]),
    Mutant("P4", "parking in place of a grant is not bound to the policies that decided it", "policies::", [
        (CLAIM, "Decision::grant(Ok(Reply::Verdict(parked(", "Decision::write(Ok(Reply::Verdict(parked("),
    ]),
    Mutant("P5", "of two readings of the policies the older one wins", "policies::", [
        ("src/ledger/policies/in_force.rs", "if fresh.number > current.number {", "if fresh.number > 0 {"),
    ]),
    Mutant("P6", "policies that are too old are not read again, and not trusted all the same", "policies::", [
        (CLAIMS_FOLD, "} else if self.policies.trusted(reading.now) {", "} else if self.policies.trusted(reading.now) || reading.now <= StoreTime::MAX {"),
    ]),
    Mutant("P7", "an unknown field of a stored policy is passed over", "unreadable::", [
        ("src/domain/policy.rs", "#[serde(default, deny_unknown_fields)]", "#[serde(default)]"),
    ]),
    Mutant("P8", "a policy that cannot be read leaves the one below it, without a doubt", "unreadable::", [
        ("src/ledger/policies/table.rs", "let policy = Policy { doubt: Doubt::Unreadable, ..Policy::clone(&last) };", "let policy = Policy { doubt: Doubt::None, ..Policy::clone(&last) };"),
    ]),
    Mutant("P9", "the purge goes by rules that are in doubt", "unreadable::", [
        ("src/domain/retention.rs", "if policy.doubt != Doubt::None {", "if false && policy.doubt != Doubt::None {"),
        (PURGE, "if policy.doubt != Doubt::None {", "if false && policy.doubt != Doubt::None {"),
    ]),
    Mutant("P10", "the last attempt is parked by rules that are in doubt", "unreadable::", [
        (SETTLE, "policy.exhausted(entry.attempts) && policy.doubt == Doubt::None", "policy.exhausted(entry.attempts)"),
    ]),
    Mutant("P11", "a policy is written though a replica at work cannot read it", "unreadable::", [
        ("src/ledger/policies/set.rs", "    if behind.is_empty() {\n", "    if behind.len() < 100 {\n"),
    ]),
    Mutant("P12", "fields at their default are stored", "unreadable::", [
        ("src/domain/stored_policy.rs", "own.retain(|name, value| usual.get(name) != Some(value));", "own.retain(|name, _| usual.contains_key(name));"),
    ]),
    Mutant("P13", "single fields of a policy that cannot be read are changed", "unreadable::", [
        ("src/ledger/policies/set.rs", "    if base.doubt == Doubt::Unreadable {\n", "    if base.doubt == Doubt::Stale {\n"),
    ]),
    Mutant("P14", "the heartbeat waits for whoever has locked meta", "proof::live::hold::a_lock", [
        (PG_UPKEEP, "FROM ledger.meta m FOR NO KEY UPDATE SKIP LOCKED", "FROM ledger.meta m FOR NO KEY UPDATE"),
    ]),
    Mutant("P15", "a change of a policy leaves the number of what is in force", "stores::", [
        (PG_POLICIES, "        self.raise_policy_epoch().await?;\n", ""),
        (LITE_POLICIES, "    raise_policy_epoch(connection).await?;\n    shorten_runs", "    shorten_runs"),
    ]),
    Mutant("P16", "all policies are read each second", "proof::live::policy_costs", [
        ("src/ledger/policies/in_force.rs", "(self.epoch == Some(epoch) && is_recent)", "(self.epoch == Some(epoch - 1) && is_recent)"),
    ]),
    Mutant("P17", "a change of a policy is not looked for where nothing else is", "policies::", [
        ("src/ledger/policies/in_force.rs", "(self.epoch == Some(epoch) && is_recent)", "(self.epoch <= Some(epoch) && is_recent)"),
    ]),
    Mutant("P18", "the window of a policy that cannot be read is trusted", "unreadable::", [
        (CLAIM, "    if let Some(reason) = doubtful(policy) {\n        return not_granted(&blank, policy, reason);\n    }\n", ""),
    ]),
    Mutant("E1", "a connection may take for ever to finish its preface", "edge::silence", [
        ("src/listener/connection.rs", "const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);", "const HANDSHAKE_WITHIN: Duration = Duration::from_hours(5);"),
    ]),
    Mutant("E2", "draining waits for connections without a call", "edge::silence", [
        ("src/listener/lifetime.rs", "Err(_) if account.open().is_none() && account.moved_bytes() == before => {", "Err(_) if account.open().is_none() && account.moved_bytes() < before => {"),
    ]),
    Mutant("E3", "draining cuts off calls under way", "edge::silence", [
        ("src/listener/lifetime.rs", "Err(_) if account.open().is_none() && account.moved_bytes() == before => {", "Err(_) if account.moved_bytes() == before => {"),
    ]),
    Mutant("E4", "a turn brings more resets than a connection may have", "edge::resets", [
        ("src/listener/protocol/mod.rs", "const PENDING_RESETS_MAX: usize = BYTES_MAX / 16;", "const PENDING_RESETS_MAX: usize = 20;"),
    ]),
    Mutant("E5", "the small messages of a pause are more than a connection may have", "edge::resets", [
        ("src/listener/protocol/mod.rs", "const CONNECTION_WINDOW: u32 = 2 << 20;", "const CONNECTION_WINDOW: u32 = 32 << 10;"),
    ]),
    Mutant("E6", "whoever takes its calls back at once is cut off", "edge::resets", [
        ("src/listener/fairness/poll_budget.rs", "this.budget.open().bytes_left().store(bytes, ", "this.budget.open().bytes_left().store(usize::MAX, "),
    ]),
    Mutant("E7", "requests take no bytes of the budget", "edge::memory", [
        ("src/accounts/request_body.rs", "call.take_message(now)?;", "call.take_message(0)?;"),
    ]),
    Mutant("E8", "a request keeps its bytes after its end", "edge::memory", [
        ("src/accounts/call.rs", "        self.put_back(self.state.request_bytes());\n", ""),
    ]),
    Mutant("E9", "what a compressed request is unpacked does not count", "edge::memory", [
        ("src/accounts/codec.rs", "call.take_up_to(bytes)", "call.take_up_to(bytes.min(1))"),
    ]),
    Mutant("E10", "empty items are unfolded by the million", "edge::memory", [
        ("src/accounts/fields.rs", "const FIELDS_MAX: usize = 4_096;", "const FIELDS_MAX: usize = 1 << 30;"),
    ]),
    Mutant("L1", "an address may have one connection more than its number", "edge::life", [
        ("src/listener/addresses.rs", "if *count >= self.max.min(free) {", "if *count > self.max.min(free) {"),
    ]),
    Mutant("L2", "a connection that ends keeps the place of its address", "edge::life", [
        ("src/listener/addresses.rs", "            *count -= 1;\n", "            *count -= 0;\n"),
    ]),
    Mutant("L3", "a connection that waits for an answer is taken for idle", "edge::life", [
        ("src/listener/lifetime.rs", "if !open.is_none() || open.begun() != calls {", "if open.begun() != calls {"),
    ]),
    Mutant("L4", "an old connection is cut off with its calls", "edge::life", [
        ("src/listener/lifetime.rs", "[(self.limits.age_grace, true), (self.call_max + SILENT_MAX, false)]", "[(self.limits.age_grace, true), (Duration::ZERO, false)]"),
    ]),
    Mutant("L5", "streams of an old connection are not told to end", "edge::life", [
        ("src/listener/lifetime.rs", "                leaving.cancel();\n", "                let _told = leaving.is_cancelled();\n"),
    ]),
    Mutant("L6", "settlements have no reserve of what their principal may take", "identity::limits", [
        ("src/accounts/limits.rs", "if settles { max } else { part(max, false) }", "if settles || max > 0 { max } else { part(max, false) }"),
    ]),
    Mutant("L7", "a call of a principal counts for ever", "identity::limits", [
        ("src/accounts/owner.rs", "self.calls.fetch_sub(1, ", "self.calls.fetch_sub(0, "),
    ]),
    Mutant("L8", "items of a batch are not counted for their principal", "identity::limits", [
        ("src/rpc/edge/auth.rs", "Some(call) if index > 0 => call.item(),", "Some(call) if index > 9_999 => call.item(),"),
    ]),
    Mutant("L9", "each connection of a principal has an account of its own", "accounts", [
        ("src/accounts/connection.rs", "self.server.owners.principal(&who.principal);", "self.server.owners.principal(&format!(\"{} {:p}\", who.principal, self));"),
    ]),
    Mutant("L10", "principals are remembered without a bound", "accounts", [
        ("src/accounts/owner.rs", "        if map(&mut known).len() >= OWNERS_MAX {\n            known.tidy", "        if map(&mut known).len() == usize::MAX {\n            known.tidy"),
    ]),
    Mutant("L11", "a stream is not under way for its principal once its answers begin", "identity::limits", [
        ("src/rpc/edge/auth.rs", "Caller { call: Some(Arc::clone(call)), deadline, http1, ..self }", "Caller { call: Some(Arc::clone(call)).filter(|_| !self.rpc.is_some_and(|rpc| rpc.streams)), deadline, http1, ..self }"),
        ("src/rpc/edge/layer.rs", "Poll::Ready(answer.map(|response| response.map(|body| AnswerBody::of(body, call))))", "drop(call);\n        Poll::Ready(answer.map(|response| response.map(AnswerBody::refused)))"),
    ]),
    Mutant("L12", "bytes of a principal's requests count for ever", "identity::limits", [
        ("src/accounts/call.rs", "self.state.owner.requests.put_back(bytes, self.settles);", "self.state.owner.requests.put_back(bytes / 4, self.settles);"),
    ]),
    Mutant("L13", "answers may be left unread without a bound", "edge::floods::held", [
        ("src/accounts/sweep.rs", "if !call.connection.reset(call.number) && !call.connection.is_proxy() {", "if call.number == usize::MAX && !call.connection.is_proxy() {"),
    ]),
    Mutant("KL1", "the queue of the log has no bound", "server::log_queue", [
        ("src/server/log_queue.rs", "line.len() > BYTES_MAX && ", "line.len() > usize::MAX && "),
    ]),
    Mutant("KL2", "the thread that logs waits for the reader of the log", "process::log", [
        ("src/server/telemetry.rs", "with_writer(LogQueue::of_stderr())", "with_writer(std::io::stderr)"),
    ]),
    Mutant("KL3", "the end of the process waits for its log for ever", "process::log", [
        ("src/server/log_queue.rs", "const ENDS_WITHIN: Duration = Duration::from_secs(1);", "const ENDS_WITHIN: Duration = Duration::from_hours(1);"),
    ]),
    Mutant("KL4", "each command of a batch has its ERROR line", "process::log", [
        ("src/ledger/claims/round/mod.rs", "WRITTEN.permit(alert.reason.word(), Instant::now())", "WRITTEN.permit(alert.reason.word(), Instant::now()).or(Some(Default::default()))"),
    ]),
    Mutant("KL5", "each notice of Postgres has its line", "process::log", [
        ("src/server/bounded_lines.rs", '|| line.target() == "sqlx::postgres::notice";', '|| line.target() == "sqlx::postgres::notices";'),
    ]),
    Mutant("KL6", "an answer that is lost makes a plain failure of every exit code", "cli::output", [
        ("src/cli/output.rs", "if exit == Exit::Done { Exit::Failed } else { exit }", "Exit::Failed"),
    ]),
    Mutant("KL7", "a change ends where its answer is not read", "cli::output", [
        ("src/cli/output.rs", "tables, unread: Unread::GoesOn }", "tables, unread: Unread::Ends }"),
    ]),
    Mutant("KL8", "a signal before the server serves is only counted", "process::early", [
        ("src/server/signals.rs", "if let Some(end) = taken(&early) {", "if let Some(end) = taken(&early).filter(|_| false) {"),
    ]),
    Mutant("KL9", "a migrate that a signal ends says that all is done", "process::early", [
        ("src/server/args.rs", "const UNDONE: u8 = 1;", "const UNDONE: u8 = 0;"),
    ]),
    Mutant("KL10", "a start ends with the first statement of unknown outcome", "process::start", [
        ("src/server/serve.rs", "Err(error) if never(&error) ||", "Err(error) if never(&error) || matches!(error, StoreError::Unknown(_)) ||"),
    ]),
    Mutant("KL11", "a start ends where its store is not there for a moment", "process::early", [
        ("src/server/serve.rs", "Fault::Schema(_) | Fault::Permanent(_) | Fault::Outdated(_)))\n}", "Fault::Schema(_) | Fault::Permanent(_) | Fault::Outdated(_) | Fault::Unavailable(_)))\n}"),
    ]),
    Mutant("KL12", "a write that is refused for a moment loses the rest", "process::outputs", [
        ("src/common/patient_write.rs", "[ErrorKind::Interrupted, ErrorKind::WouldBlock].contains", "[ErrorKind::Interrupted].contains"),
    ]),
    Mutant("KL13", "lines that a full disk did not take are not counted", "process::outputs", [
        ("src/server/log_queue.rs", "state.dropped += rest.split_inclusive", "state.dropped += 0 * rest.split_inclusive"),
    ]),
    Mutant("KL14", "a file that reaches the limit of file sizes ends the server", "process::outputs", [
        ("src/server/signals.rs", "SignalKind::from_raw(TOO_LARGE.as_raw())", "SignalKind::user_defined1()"),
    ]),
    Mutant("FL1", "announced bytes are taken before they arrive", "accounts", [
        ("src/accounts/request_body.rs", "        self.counts = self.left <= self.message_bytes_max;\n",
         "        self.counts = false;\n        if self.left <= self.message_bytes_max {\n            call.take_message(self.left)?;\n        }\n"),
    ]),
    Mutant("FL2", "a message that never arrives is waited for", "edge::floods::held", [
        ("src/accounts/sweep.rs", "            call.state.end_request(Unfinished::Stalled);\n",
         ""),
    ]),
    Mutant("FL3", "the reader of a message that never arrives is not woken", "edge::floods::held", [
        ("src/accounts/state.rs", "        self.unfinished.store(why as u8, Relaxed);\n        self.reader.wake();\n",
         "        self.unfinished.store(why as u8, Relaxed);\n"),
    ]),
    Mutant("FL4", "time in which the server does not wait for the client counts", "accounts", [
        ("src/accounts/progress.rs", "self.began.fetch_add(paused, Relaxed);",
         "self.began.fetch_add(paused.min(0), Relaxed);"),
    ]),
    Mutant("FL5", "one byte now and then is progress enough", "accounts", [
        ("src/accounts/progress.rs", "now.wrapping_sub(self.began.load(Relaxed)) > stall.saturating_add(earned)",
         "now.wrapping_sub(self.moved.load(Relaxed)) > stall.saturating_add(earned / u32::MAX)"),
    ]),
    Mutant("FL6", "an answer counts only from 16 KiB on", "accounts", [
        ("src/accounts/answer.rs", "            call.answers(rest.len());\n            *buffer = Some(Arc::new(Buffer { bytes: rest.len(),",
         "            let counted = if rest.len() < 16_384 { 0 } else { rest.len() };\n            call.answers(counted);\n            *buffer = Some(Arc::new(Buffer { bytes: counted,"),
    ]),
    Mutant("FL7", "a large answer is handed over in one piece", "accounts", [
        ("src/accounts/answer.rs", "const PIECE_BYTES: usize = 16 * 1_024;",
         "const PIECE_BYTES: usize = usize::MAX;"),
    ]),
    Mutant("FL8", "a connection of many streams without progress stays open", "accounts", [
        ("src/accounts/sweep.rs", "if connection.had_too_many_stalls(now) && !connection.is_proxy() {",
         "if connection.had_too_many_stalls(now) && false {"),
    ]),
    Mutant("FL9", "a trusted proxy's connection is closed for the streams of one principal", "accounts", [
        ("src/accounts/sweep.rs", "if connection.had_too_many_stalls(now) && !connection.is_proxy() {",
         "if connection.had_too_many_stalls(now) {"),
    ]),
    Mutant("FL10", "a socket that takes nothing is kept", "accounts", [
        ("src/accounts/sweep.rs", "if connection.is_blocked(now, stall) {",
         "if connection.is_blocked(now, u32::MAX) {"),
    ]),
    Mutant("FL11", "what a client sends counts as bytes that it takes", "accounts", [
        ("src/accounts/connection.rs", "let (sent, sweep_state) = (self.sent.load(Relaxed), &self.sweep_state);", "let (sent, sweep_state) = (self.moved.load(Relaxed), &self.sweep_state);"),
    ]),
    Mutant("FL12", "a principal has no share", "accounts", [
        ("src/accounts/limits.rs", "Kind::Principal => self.share(self.server_bytes_max),",
         "Kind::Principal => self.server_bytes_max,"),
    ]),
    Mutant("FL13", "claims may take the bytes that are kept for settlements", "accounts", [
        ("src/accounts/balance.rs", "if taken && (settles || others() <= part(max, false)) {",
         "if taken && (settles || others() <= max) {"),
    ]),
    Mutant("FL14", "settlements may take all bytes of the server", "accounts", [
        ("src/accounts/balance.rs", "if settles && !self.settling.take(bytes, part(max, true)) {",
         "if settles && !self.settling.take(bytes, max) {"),
    ]),
    Mutant("FL15", "calls without a credential have no purse of their own", "accounts", [
        ("src/accounts/call.rs", "            let taken = server.strangers.take(bytes, max, self.settles);", "            let taken = server.strangers.take(bytes, usize::MAX / 8, self.settles);"),
    ]),
    Mutant("FL16", "the answers of the lightest owner go first", "accounts", [
        ("src/accounts/heaviest.rs", "        Reverse((of_owner[&call.owner],",
         "        ((of_owner[&call.owner],"),
    ]),
    Mutant("FL17", "an answer that is taken at once is held against its owner", "accounts", [
        ("src/accounts/heaviest.rs", "(if call.idle >= RECENT { call.bytes } else { 0 }, call.bytes)",
         "(call.bytes, call.bytes)"),
    ]),
    Mutant("FL18", "a buffer counts no more once its first piece is taken", "accounts", [
        ("src/accounts/answer.rs", "        self.of.call.answer_moved(self.data.len());\n", "        self.of.call.answer_moved(self.data.len());\n        self.of.call.answered(self.data.len());\n"),
        ("src/accounts/answer.rs", "        self.call.answered(self.bytes);\n    }\n}\n\n/// A piece", "        self.call.answered(self.bytes % 2);\n    }\n}\n\n/// A piece"),
    ]),
    Mutant("FL25", "the last piece of an answer is kept for a client that does not take it", "accounts", [
        ("src/accounts/sweep.rs", "if !call.connection.reset(call.number) && !call.connection.is_proxy() {", "if !call.connection.reset(call.number) && false {"),
    ]),
    Mutant("FL26", "a write that was taken is still called unsent", "listener", [
        ("src/listener/io/write_buffer.rs", "        shared.can_write()?;\n        shared.refused = 0;\n", "        shared.can_write()?;\n"),
    ]),
    Mutant("FL27", "the server's own time counts where bytes are there when it is over", "accounts", [
        ("src/accounts/progress.rs", "        if !self.waits.swap(false, Relaxed) {\n            self.pause_ends(now);\n        }\n", "        self.waits.store(false, Relaxed);\n"),
    ]),
    Mutant("FL28", "settlements that have not arrived make room for claims", "accounts", [
        ("src/accounts/sweep.rs", "call.state.settles == settles && receiving.waits()", "receiving.waits()"),
    ]),
    Mutant("FL29", "watches of health may keep its checks out", "accounts", [
        ("src/accounts/call.rs", "matches!(who, CallOwner::Probe) || rpc", "rpc"),
    ]),
    Mutant("FL19", "claims of those who read their answers are refused for those who do not", "accounts", [
        ("src/accounts/call.rs", "all > max && (self.connection.answers.bytes() > FEW_ANSWERS || all > max.saturating_mul(2))",
         "all > max && (self.connection.answers.bytes() < usize::MAX || FEW_ANSWERS > 0)"),
    ]),
    Mutant("FL20", "reflection asks nobody for a credential", "edge::shape", [
        ("src/rpc/edge/layer.rs", "if path.starts_with(HEALTH) {", "if path.starts_with(HEALTH) || path.starts_with(REFLECTION) {"),
    ]),
    Mutant("FL21", "large metadata has no status of gRPC", "edge::shape", [
        ("src/listener/protocol/mod.rs", "const HEADER_BYTES_READ: u32 = 64 * 1_024;", "const HEADER_BYTES_READ: u32 = 8 * 1_024;"),
    ]),
    Mutant("FL22", "metadata of any size is taken", "edge::shape", [
        ("src/rpc/edge/layer.rs", "if header_bytes > HEADER_BYTES_MAX {", "if header_bytes > usize::MAX - HEADER_BYTES_MAX {"),
    ]),
    Mutant("FL23", "the second message of a unary call is thrown away", "edge::shape", [
        ("src/accounts/request_body.rs", "} else if self.begun > 1 {", "} else if self.begun > u64::MAX - 1 {"),
    ]),
    Mutant("FL24", "reflection takes the bytes of anonymous claims", "accounts", [
        ("src/accounts/call.rs", "if &*identity.principal == ANONYMOUS { CallOwner::Stranger }", "if &*identity.principal == ANONYMOUS && false { CallOwner::Stranger }"),
    ]),
    Mutant("E11", "the queue is bounded in commands alone", "edge::memory", [
        ("src/ledger/claims/queue/mod.rs", "|few| held <= lane.share(self.bytes_max, few) && wait", "|few| held < usize::MAX && wait"),
    ]),
    Mutant("E12", "claims may fill the queue's bytes to the last", "edge::memory", [
        ("src/ledger/claims/queue/mod.rs", "held <= lane.share(self.bytes_max, few)", "held <= self.bytes_max"),
    ]),
    Mutant("E13", "the limit of open files stays as low as it was", "edge::silence", [
        ("src/server/descriptors.rs", "let raised = Rlimit { current: limit.maximum,", "let raised = Rlimit { current: limit.current,"),
    ]),
    Mutant("E14", "an import may take any memory", "edge::memory", [
        ("src/rpc/edge/layer.rs", "    if let Some(rejection) = accounts::refusal(status) {\n        return Some(rejection);\n    }\n", ""),
    ]),
    Mutant("E15", "no open files are kept for the store", "edge::silence", [
        ("src/server/descriptors.rs", "files.saturating_sub(KEPT + observed)", "files.saturating_sub((KEPT + observed) * 0)"),
    ]),
    Mutant("E16", "the last control character of ASCII passes", "limits::", [
        ("src/wire/fields.rs", "matches!(byte, b' '..=b'~')", "matches!(byte, b' '..=b'\\x7f')"),
    ]),
    Mutant("E17", "a claim_id of a refused item may stand in its batch again", "batches::", [
        ("src/rpc/ledger.rs", "is_some_and(|id| !seen.insert(id));", "is_some_and(|id| request.key.is_some() && !seen.insert(id));"),
    ]),
    Mutant("E18", "the path of a settlement's field leaves out its action", "limits::", [
        ("src/wire/fields.rs", 'write!(to, "{list}[{index}].{choice}.")', 'write!(to, "{list}[{index}].{}", &choice[..0])'),
    ]),
    Mutant("S1", "a guessed Complete leaves the entry among those that are not COMPLETED", "guesses::", [
        (PG_ENTRIES, "attention = NULL, effect_unknown = NULL", "effect_unknown = NULL"),
    ]),
    Mutant("S2", "the mark follows a clock that runs back", "only_grows::", [
        (PG_UPKEEP, "greatest(m.clock_mark, c.now + m.token_offset)", "c.now + m.token_offset"),
        (LITE_UPKEEP, "max(clock_mark, ?1 + token_offset)", "?1 + token_offset"),
    ]),
    Mutant("S3", "a guessed Complete ignores the retention fixed at the claim", "guesses::", [
        (PG_ENTRIES, "CASE WHEN t.retention >= r.retention THEN NULL", "CASE WHEN t.retention = r.retention THEN NULL"),
        (LITE_STATEMENTS, "CASE WHEN t.retention >= r.retention THEN NULL", "CASE WHEN t.retention = r.retention THEN NULL"),
    ]),
    Mutant("S4", "a slow replica lowers a window floor", "only_grows::", [
        (PG_POLICIES, "window_floor = greatest(n.window_floor, r.window_floor)", "window_floor = r.window_floor"),
        (LITE_POLICIES, "window_floor = max(window_floor, ?3)", "window_floor = ?3"),
    ]),
    Mutant("S5", "a page of a consumer's audit skips events of the same instant", "cursors::", [
        (PG_AUDIT, "WHERE consumer = $4 AND (at, request_id) < ($1, $2)", "WHERE consumer = $4 AND at < $1 AND $2::text IS NOT NULL"),
        (LITE_AUDIT, "WHERE consumer = ?4 AND (at, request_id) < (?1, ?2)", "WHERE consumer = ?4 AND at < ?1 AND ?2 IS NOT NULL"),
    ]),
    Mutant("S6", "Release outlives Renew under overload", "batches::", [
        (LANE, "Lane::Renew => 14,", "Lane::Renew => 12,"),
        (LANE, "Lane::Release => 12,", "Lane::Release => 14,"),
    ]),
    Mutant("S7", "synchronous_commit = local is accepted with standbys", "trust::", [
        (CONNECT, 'if synchronous_commit == "local" && !standbys.is_empty() {', 'if synchronous_commit == "none" && !standbys.is_empty() {'),
    ]),
    Mutant("S9", "SQLite does not wait for the disk", "store::sqlite", [
        ("src/store/sqlite/connect.rs", "SqliteSynchronous::Full)", "SqliteSynchronous::Normal)"),
    ]),
    Mutant("S10", "without a session an unknown outcome is told as unavailable", "faults::", [
        ("src/ledger/claims/worker.rs", "if key_queue.head.unknown > 0 { lost() } else { rejection.clone() }", "rejection.clone()"),
        ("src/ledger/claims/worker.rs", "use crate::ledger::refusals::{lost, store_unavailable};", "use crate::ledger::refusals::store_unavailable;"),
    ]),
    Mutant("S11", "Complete finds its entries by a plain equality", GROWTH, [
        (PG_ENTRIES, "WHERE e.key = ANY (ARRAY[r.key]) AND e.token = r.token", "WHERE e.key = r.key AND e.token = r.token"),
    ]),
    Mutant("S12", "the purge finds its entries by a plain equality", GROWTH, [
        (PG_PURGE, "WHERE e.ctid = r.place AND e.key IS NOT DISTINCT FROM r.key\n", "WHERE e.key = r.key\n"),
    ]),
    Mutant("S13", "the marking of open claims sorts all of a consumer's", GROWTH, [
        (PG_UPKEEP, "ORDER BY e.created_at FETCH FIRST ($3) ROWS WITH TIES", "ORDER BY e.created_at, e.key LIMIT $3"),
    ]),
    Mutant("S14", "the search for open claims reads all of an index", GROWTH, [
        (PG_UPKEEP, "      AND e.created_at <= c.until\n    OFFSET 0)", "      AND e.created_at <= c.until)"),
    ]),
    Mutant("S15", "the purge goes on while the clock is behind", "only_grows::", [
        (PG_PURGE, "  AND c.token_clock >= greatest(c.clock_mark, $3)\"\n", "  AND $3::bigint IS NOT NULL\"\n"),
        (LITE_PURGE, "if !reading.is_sound() || policy_epoch(", "if policy_epoch("),
    ]),
    Mutant("S16", "the mark is of the clock alone, without token_offset", "only_grows::", [
        (PG_UPKEEP, "greatest(m.clock_mark, c.now + m.token_offset)", "greatest(m.clock_mark, c.now)"),
        (LITE_UPKEEP, "max(clock_mark, ?1 + token_offset)", "max(clock_mark, ?1)"),
    ]),
    Mutant("S17", "a window floor is forgotten with the policy", "only_grows::", [
        (PG_POLICIES, "WHERE retention IS NOT NULL OR window_floor > 0", "WHERE retention IS NOT NULL"),
        (LITE_POLICIES, "WHERE retention IS NOT NULL OR window_floor > 0", "WHERE retention IS NOT NULL"),
    ]),
    Mutant("S18", "a page of an entry's audit skips events of the same instant", "cursors::", [
        (PG_AUDIT, "WHERE key = $4 AND (at, request_id) < ($1, $2)", "WHERE key = $4 AND at < $1 AND $2::text IS NOT NULL"),
        (LITE_AUDIT, "WHERE key = ?4 AND (at, request_id) < (?1, ?2)", "WHERE key = ?4 AND at < ?1 AND ?2 IS NOT NULL"),
    ]),
    Mutant("S19", "what the purges of servers did that are gone is kept for ever", "upkeep::", [
        (PG_UPKEEP, "DELETE FROM ledger.purges WHERE last_run_at < $7", "DELETE FROM ledger.purges WHERE $7::bigint < 0"),
        (LITE_UPKEEP, "DELETE FROM purges WHERE last_run_at < ?1", "DELETE FROM purges WHERE ?1 < 0"),
    ]),
    Mutant("S20", "a claim that is completed meanwhile is marked as open", "only_grows::", [
        (PG_UPKEEP, "(ARRAY[r.key]) AND e.state = \",", "(ARRAY[r.key]) AND 2 = \","),
    ]),
    Mutant("S21", "a slow replica lowers the mark of open claims", "only_grows::", [
        (PG_UPKEEP, "WHERE n.no = $1 AND (n.marked_at, n.marked_key) < ($2::bigint, $3::uuid)", "WHERE n.no = $1"),
    ]),
    Mutant("S22", "claims are served before completions", "ledger::claims::queue", [
        (QUEUE, "in self.lanes.iter_mut().zip(&mut self.by_lane) {\n            while", "in self.lanes.iter_mut().zip(&mut self.by_lane).rev() {\n            while"),
    ]),
    Mutant("S23", "a guessed Complete leaves the effect unknown", "guesses::", [
        (PG_ENTRIES, "attention = NULL, effect_unknown = NULL, ", "attention = NULL, "),
        (LITE_STATEMENTS, "attention = NULL, effect_unknown = NULL, ", "attention = NULL, "),
    ]),
    Mutant("S24", "a server that is read-only is accepted", "trust::", [
        (CONNECT, 'if row.try_get("read_only").map_err(of_sqlx)? {', 'if row.try_get::<bool, _>("read_only").map_err(of_sqlx)? && version < VERSION_MIN {'),
    ]),
    Mutant("S25", "an operator's Delete goes on while the clock is behind", "only_grows::", [
        (PG_ENTRIES, "      AND c.token_clock >= greatest(c.clock_mark, $3) AND c.level", "      AND $3::bigint IS NOT NULL AND c.level"),
        (LITE_OPERATORS, "if grows && !reading.is_sound() {", "if grows && !reading.is_sound() && entry_is_new(&write) {"),
        (LITE_OPERATORS, "#[async_trait]\nimpl Operators for", "fn entry_is_new(write: &Write) -> bool {\n    matches!(write, Write::Insert(_))\n}\n\n#[async_trait]\nimpl Operators for"),
    ]),
    Mutant("S26", "sessions compile their plans", "trust::", [(PG_STATEMENTS, "SET jit = off; ", "")]),
    Mutant("S27", "sessions may merge", "trust::", [(PG_STATEMENTS, "SET enable_mergejoin = off; ", "")]),
    Mutant("S28", "plans are not pinned", "trust::", [(PG_STATEMENTS, "SET plan_cache_mode = force_generic_plan; ", "")]),
    Mutant("S29", "a session may stay in a transaction for ever", "trust::", [
        (PG_STATEMENTS, "SET idle_in_transaction_session_timeout = '10s'; ", ""),
    ]),
    Mutant("X1", "behind a pooler an answer does not ask what became of its commit", "stores::commits", [
        (LINK, "Ok(_) => self.commit().await.map_err(carried)?,", "Ok(_) => drop(self.commit().await),"),
    ]),
    Mutant("X2", "behind a pooler statements have names", "stores::commits", [
        ("src/store/postgres/mod.rs", "options.prepared_statements && !settings.pooled", "options.prepared_statements"),
    ]),
    Mutant("X3", "a session goes over to whatever server is behind the pooler", "stores::commits", [
        (LINK, "if *pooled.server_started.get_or_insert(server) == server {", "if *pooled.server_started.insert(server) == server {"),
    ]),
    Mutant("X4", "behind a pooler a server that stands still holds its rows for ten seconds", "stores::commits", [
        (CONNECT, "if settings.pooled { bounds + &idle } else { bounds }", "if settings.pooled && idle.is_empty() { bounds + &idle } else { bounds }"),
    ]),
    Mutant("X5", "behind a pooler commits are as durable as others have set", "stores::commits", [
        (CONNECT, 'link.keep("synchronous_commit", &check_durability(&row)?);', "check_durability(&row)?;"),
    ]),
    Mutant("X6", "behind a pooler a commit that is given up is forgotten", "stores::commits", [
        (LINK, "        let ended = self.connection.execute(how).await;\n", "        if self.pooled.is_some() {\n            self.active_backend.set(None);\n        }\n        let ended = self.connection.execute(how).await;\n"),
    ]),
    Mutant("X7", "what a session needs stays on the pooler's connections", "stores::commits", [
        (LINK, 'settings.replace("SET ", "SET LOCAL ")', "settings.replace(\"SET \", \"SET \")"),
    ]),
    Mutant("X8", "behind a pooler a statement follows one that was given up, in its transaction", "stores::commits", [
        (LINK, "if self.active_backend.get().is_some() {", "if self.active_backend.get().is_some() && self.within {"),
        (LINK, "self.pooled.is_some() && !self.within", "self.pooled.is_some() && !self.within && self.active_backend.get().is_none()"),
    ]),
    Mutant("X9", "whatever ends the connection of a commit says what became of it", "stores::commits", [
        ("src/store/postgres/errors.rs", "error.severity() != PgSeverity::Error", "error.severity() == PgSeverity::Warning"),
    ]),
    Mutant("X10", "an operator's insert fails its transaction where it meets an entry", "stores::met", [
        ("src/store/postgres/entries.rs", "self.connection.is_in_transaction() || ", ""),
    ]),
    Mutant("X11", "migrate does not say that it came through a pooler", "stores::commits", [
        ("src/store/postgres/migrate.rs", "} else if is_of_pooler(error) {", "} else if is_of_pooler(error) && is_blocked(error) {"),
    ]),
    Mutant("U1", "under overload claims keep out the completions of others", "proof::live::overload", [
        (LANE, "Lane::Claim => 10,", "Lane::Claim => 16,"),
    ]),
    Mutant("U6", "a second try of Renew forgets that the first one revived the lease", "faults::", [
        (BATCH, "*revived |= key_queue.head.revived,", "*revived |= key_queue.head.revived && !second_try,"),
    ]),
    Mutant("U3", "the flood of one consumer gets the claims of others refused", "crowd::", [
        (QUEUE, " || is_room(true) && small(waiting)", ""),
    ]),
    Mutant("U4", "whoever has many claims in the queue is taken for one who has few", "crowd::", [
        (QUEUE, "lane.waiting(&key_queue.key) + more <= few", "lane.waiting(&key_queue.key) == 0 || more <= few"),
    ]),
    Mutant("U5", "batches are large while several consumers are served", "crowd::", [
        ("src/ledger/claims/queue/batch_bound.rs", "max.min(self.fits.unwrap_or_else(|| fits(ASSUMED_NANOS)))", "max.max(self.fits.unwrap_or_else(|| fits(ASSUMED_NANOS)))"),
    ]),
    Mutant("U2", "a server does not start on the next schema", "proof::live::versions", [
        ("src/store/schema.rs", "if self.version < known {", "if self.version != known {"),
    ]),
    Mutant("S30", "sessions for claims wait as long as the others", "trust::", [
        (CONNECT, "            (settings.lock_wait, HOT_STATEMENT_TIMEOUT)", "            (settings.lock_wait.max(LOCK_TIMEOUT), HOT_STATEMENT_TIMEOUT.max(STATEMENT_TIMEOUT))"),
    ]),
    Mutant("P19", "a start reads policies and retentions of different moments", "policies::", [
        ("src/ledger/policies/in_force.rs", "    if session.policy_book().policy_epoch().await? != epoch {\n        return Ok(None);\n    }\n", ""),
    ]),
    Mutant("P20", "a start writes over what was written down meanwhile", "only_grows::", [
        (PG_POLICIES, "AND ($6 OR (", "AND ($6 IS NOT NULL OR ("),
        (LITE_POLICIES, "AND (?6 OR (", "AND (?6 IS NOT NULL OR ("),
    ]),
    Mutant("P21", "the server arms a claim once more for a caller who may have gone", "faults::", [
        (CLAIMS_FOLD, "request.unknown > 0 && entry.map", "request.unknown > 9 && entry.map"),
    ]),
    Mutant("W1", "a grant tells its lease as what is left to hold", DIFFERENTIAL, [
        (CLAIM, "hold: entry.hold_until.remaining(context.now)", "hold: entry.lease_until.remaining(context.now)"),
    ]),
    Mutant("W2", "a renewal tells what the policy now says of expiry", DIFFERENTIAL, [
        (SETTLE, "on_expiry: next.on_expiry,", "on_expiry: context.policy.on_expiry,"),
    ]),
    Mutant("O1", "an operator's change leaves the token of the claim that it forgets", "operate_table::", [
        (OPERATE, "next.token = context.next_token(entry.token);", "next.token = entry.token;"),
    ]),
    Mutant("O2", "a redriven claim that nobody settled leaves no doubt of its effect", "operate_table::", [
        (OPERATE, "    next.effect_unknown |= entry.unsettled();\n", ""),
    ]),
    Mutant("O3", "a holder at work is overtaken without force once an operator has parked its entry", "operate_table::", [
        (OPERATE, "entry.unsettled() && now <", "entry.closed_by == ClosedBy::Open && now <"),
    ]),
    Mutant("B1", "the benchmark does not see two claims of one key held at once", "bench::safety", [
        ("src/bench/safety.rs", "} else if before.live && !grant.effect_unknown {", "} else if before.live && grant.effect_unknown {"),
    ]),
    Mutant("B2", "the benchmark does not see that one of several claims at once is granted twice", "bench", [
        ("src/bench/recheck.rs", "        (2.., _) => {", "        (9.., _) => {"),
    ]),
    Mutant("B3", "with a rate, latencies count from when a call was sent", "bench::pacing", [
        ("src/bench/pacing.rs", "        Some(self.began + self.instant(number))", "        Some(Instant::now() - self.instant(number) + self.instant(number))"),
    ]),
    Mutant("B4", "the server that the benchmark has started stays", "bench", [
        ("src/bench/own_server.rs", "        let _killed = self.child.kill();\n        let _ended = self.child.wait();\n", ""),
    ]),
    Mutant("L35", "a connection that cannot send is polled when somebody else wakes it", "listener", [
        ("src/listener/io/write_buffer.rs", "            self.failed = Some(error.kind());\n            context.waker().wake_by_ref();", "            self.failed = Some(error.kind());"),
    ]),
    Mutant("I28", "an operator takes the ids of another one's redriving in advance", "operators::", [
        ("src/wire/fields.rs", "if value.contains('/') {", "if value.contains(\"//\") {"),
    ]),
    Mutant("I29", "of two lists of one authority the first counts, and nobody is told", "identity::authority", [
        ("src/identity/authority.rs", "two[0] == two[1]", "two[0] < two[0]"),
    ]),
    Mutant("I30", "a stream outlives the rights of its caller", "identity::rights", [
        ("src/rpc/admin/imports.rs", "        let caller = self.caller.checked_again()?;\n        caller.allowed_somewhere()?;\n", "        let caller = self.caller.checked_again()?;\n"),
    ]),
    Mutant("B5", "the load of the benchmark gives nothing back of what it has read", "bench::link", [
        ("src/bench/link.rs", "self.stream.flow_control().release_capacity(bytes.len())?;", "let _ = &self.stream;"),
    ]),
    Mutant("B6", "the load of the benchmark takes any certificate of a client for none", "cli::tls", [
        ("src/bench/dial.rs", "(Some(cert), Some(key)) => {", "(Some(cert), Some(key)) if false => {"),
    ]),
    Mutant("B7", "the load of the benchmark ends with the connection that its server ends", "bench::link", [
        ("src/bench/link.rs", "if ready!(self.calls.poll_ready(context)).is_ok() {", "if ready!(self.calls.poll_ready(context)).is_ok() || true {"),
    ]),
    Mutant("N1", "the token and the key of the current context go to whatever an endpoint names", "cli::context", [
        ("src/cli/contexts/choose.rs", "(Some(_), None) => None,", "(Some(_), None) => choose(options, None)?,"),
    ]),
    Mutant("N2", "a token goes to another machine in the clear", "cli::", [
        ("src/cli/connect_options.rs", "!self.plaintext_token && !is_local(&uri)", "!self.plaintext_token && false"),
    ]),
    Mutant("N3", "of two who change the contexts at once one loses", "cli::context", [
        ("src/cli/contexts/file.rs", "match file.try_lock() {", "match Ok::<(), TryLockError>(()) {"),
    ]),
    Mutant("N4", "a measurement loads the server of the current context", "cli::context", [
        ("src/bench/mod.rs", "if options.names_no_server() {", "if options.names_no_server() && false {"),
    ]),
    Mutant("N5", "a command to paste goes to whichever context is the current one", "cli::context", [
        ("src/cli/client.rs", 'words.push(format!("--context {}", quoted(context)));', "let _ = context;"),
    ]),
    Mutant("H1", "a command is decided on what was read, not on what the ones before it left", LOCKSTEP, [
        (DOMAIN_FOLD, "decide(self.key, self.entry(), command, context)", "decide(self.key, self.read, command, context)"),
    ]),
    Mutant("H2", "commands that were decided together are answered though their write is lost", "interleavings", [
        (CLAIMS_FOLD, "                        if done {\n", "                        if done || !pending.later.is_empty() {\n"),
    ]),
    Mutant("H3", "each change of one write is a step of the version", DIFFERENTIAL, [
        (DOMAIN_FOLD, "next.version = before.version;", "next.version = before.version + 1;"),
    ]),
    Mutant("H4", "two grants of one instant have the same token", DIFFERENTIAL, [
        ("src/domain/context.rs", "old.saturating_add(1).max(", "old.max("),
    ]),
    Mutant("H5", "an unknown outcome is unknown for the first of those that were written together alone", "hot::", [
        (FAILURES, "in pending.decided() {", "in pending.decided().take(1) {"),
    ]),
    Mutant("H6", "one poisoned command fails all that are written with it", "hot::", [
        (FAILURES, "        if decided > 1 {\n", "        if decided > 1_000 {\n"),
    ]),
    Mutant("H7", "commands for one key are carried out one by one", "hot::", [
        (CLAIMS_FOLD, "if key_queue.together > 0 { key_queue.together.min(self.together_max) } else { self.together_max }", "1.min(key_queue.together + self.together_max)"),
    ]),
    Mutant("H8", "the backlog of one consumer is served to its end", "ledger::claims::queue::fair", [
        (ROUND_ROBIN, "self.deficit = self.deficit.checked_sub(next.len())?;", "self.deficit = self.deficit.saturating_sub(next.len());"),
    ]),
    Mutant("RR1", "a consumer saves its turns up", "ledger::claims::queue::fair", [
        (ROUND_ROBIN, "                    self.current = None;\n                    self.backlog = Backlog::default();", "                    self.current = None;\n                    self.backlog = Backlog { deficit: self.backlog.deficit + 40, ..Backlog::default() };"),
    ]),
    Mutant("RR2", "whoever has had its turn has the next one too", "ledger::claims::queue::fair", [
        (ROUND_ROBIN, "self.order.push_back(consumer.clone());\n                self.others.insert(consumer, before);", "self.order.push_front(consumer.clone());\n                self.others.insert(consumer, before);"),
    ]),
    Mutant("RR3", "the time of a command has that of its statement in it", "ledger::claims::queue::batch_bound", [
        ("src/ledger/claims/queue/batch_bound.rs", "slopes.push((one.nanos - other.nanos) / more);", "slopes.push(one.nanos / one.commands.max(1));"),
    ]),
    Mutant("RR4", "one batch that waited for a row makes all others small", "ledger::claims::queue::batch_bound", [
        ("src/ledger/claims/queue/batch_bound.rs", "let middle = slopes.len() / 2;", "let middle = slopes.len().saturating_sub(1);"),
    ]),
    Mutant("RR5", "what batches took is not measured", "ledger::claims::queue", [
        (QUEUE, "self.waiting().bound.completed(commands, took);", "self.waiting().bound.completed(commands, took * 0);"),
    ]),
    Mutant("RR6", "slow batches are parted beyond the least", "ledger::claims::queue::batch_bound", [
        ("src/ledger/claims/queue/batch_bound.rs", "unwrap_or(usize::MAX).max(CAP_MIN)", "unwrap_or(usize::MAX).max(CAP_MIN / 8)"),
    ]),
    Mutant("H9", "each worker takes whatever waits", "ledger::claims::queue::in_flight", [
        ("src/ledger/claims/queue/in_flight.rs", "if commands >= min_concurrent || self.batches.is_empty() {", "if commands > 0 || min_concurrent == 0 || self.batches.is_empty() {"),
    ]),
    Mutant("H10", "what waits stands still for as long as a session hangs", "ledger::claims::queue::in_flight", [
        ("src/ledger/claims/queue/in_flight.rs", "Duration::from_millis(5);", "Duration::from_mins(5);"),
    ]),
    Mutant("G1", "an entry that went while an insert ran is told as met", "stores::met", [
        (PG_ENTRIES, " AND r.key NOT IN (SELECT f.key FROM fresh f)", ""),
        (PG_ENTRY_ROWS, "conflicts.chain(fresh).collect()", "fresh.chain(conflicts).collect()"),
    ]),
    Mutant("G2", "an insert that is done is told as failed", "stores::met", [
        (PG_ENTRY_ROWS, "self.raw_of(answers).await.unwrap_or_default()\n        } else", "self.raw_of(answers).await?\n        } else"),
    ]),
    Mutant("G3", "a claim that met an entry unseen is granted", "interleavings", [
        (BATCH, "                            not_inserted.unknown_conflicts.push(pending.key_queue);\n", "                            self.answer_head(pending.key_queue, pending.answer.unwrap_or_else(|| Err(lost())));\n"),
    ]),
    Mutant("G4", "what an insert gave back is loaded once more", "claims::duplicates", [
        (BATCH, "                            not_inserted.conflicts.push(pending.key_queue);\n                            found.push(entry);\n", "                            drop(entry);\n                            not_inserted.unknown_conflicts.push(pending.key_queue);\n"),
    ]),
    Mutant("K1", "an outdated server sends what it was about to send", "schema::level", [
        (STATEMENT, "    shared.outdated.check()?;\n", ""),
        ("src/ledger/claims/queue/mod.rs", "if waiting.outdated {", "if waiting.outdated && waiting.closed && waiting.commands > usize::MAX / 2 {"),
    ]),
    Mutant("K2", "a start does not look at the level", "store::schema", [
        ("src/store/schema.rs", "        still(self.serves_from, self.level, known)\n", "        still(self.serves_from, 0, known)\n"),
    ]),
    Mutant("K3", "a migration waits for its lock as long as it takes", "schema::next", [
        ("src/store/postgres/migrate.rs", "set_timeouts(connection, pace.lock_wait, pace.statement).await?;", "set_timeouts(connection, pace.within, pace.within).await?;"),
    ]),
    Mutant("K4", "an index that was built by half is taken for a whole one", "schema::next", [
        ("src/store/postgres/migrate.rs", "if migration.sql.as_str().contains(&index) {", "if index.is_empty() {"),
    ]),
    Mutant("K5", "the servers' role may change the audit", "schema::rights", [
        ("src/store/postgres/rights.rs", "\"GRANT SELECT, INSERT, UPDATE ON ledger.consumers, ledger.replay_runs TO @role\"", "\"GRANT SELECT, INSERT, UPDATE ON ledger.consumers, ledger.replay_runs, ledger.audit TO @role\""),
    ]),
    Mutant("K6", "two migrate at once", "schema::together", [
        ("src/store/postgres/migrate.rs", "SELECT pg_try_advisory_lock(1818584167, 1) AS mine", "SELECT true AS mine"),
    ]),
    Mutant("KP1", "a UUID of version 1 has the place of its low bits", "domain::key_place", [
        ("src/domain/key_place.rs", "b'6' | b'7' => Some(last_six(first)),", "b'1' | b'6' | b'7' => Some(last_six(first)),"),
    ]),
    Mutant("KP2", "a decimal with more digits has a smaller place", "domain::key_place", [
        ("src/domain/key_place.rs", "u64::from(length) << room | first", "(u64::from(length) & 0x3f) << room | first"),
    ]),
    Mutant("KP3", "all partitions have one place", "domain::key_place", [
        ("src/domain/key_place.rs", "u64::from(fnv1a(prefix) >> (32 - PREFIX_BITS))", "u64::from(fnv1a(&prefix[..1]) >> (32 - PREFIX_BITS))"),
    ]),
    Mutant("KP4", "text beyond 160 bits is a KSUID", "domain::key_place", [
        ("src/domain/key_place.rs", "if carried > 0 {", "if carried > u64::from(u32::MAX) {"),
    ]),
    Mutant("KP5", "a decimal with a leading zero has a place", "domain::key_place", [
        ("src/domain/key_place.rs", "[] | [b'0', _, ..] => false,", "[] => false,"),
    ]),
    Mutant("KP6", "entries under keys of another format are taken", "schema::level", [
        ("src/store/schema.rs", "if has_entries && key_format != KEY_FORMAT {", "if has_entries && key_format > KEY_FORMAT {"),
        ("migrations/postgres/0007_key_format.sql", "IF EXISTS (SELECT FROM ledger.entries) THEN", "IF false THEN"),
    ]),
    Mutant("K8", "a server that is named second is never tried", "schema::servers", [
        ("src/store/postgres/connection/servers.rs", "for number in 0..all.len() {", "for number in 0..all.len().min(1) {"),
    ]),
    Mutant("K9", "a claim is completed beyond the level that the server knows", "schema::level", [
        (PG_ENTRIES, '            " FROM clock c WHERE c.level <= ",\n            level!(),\n            " AND c.serves_from <= ",\n            known!(),\n            ") AS r\nWHERE e.key = ANY (ARRAY[r.key]) AND e.token', '            " FROM clock c WHERE c.serves_from <= ",\n            known!(),\n            ") AS r\nWHERE e.key = ANY (ARRAY[r.key]) AND e.token'),
    ]),
    Mutant("K10", "an entry is changed beyond the level that the server knows", "schema::level", [
        (PG_ENTRIES, "WHERE c.level <= {LEVEL} AND", "WHERE c.level <= {LEVEL} + 1 AND"),
    ]),
    Mutant("R1", "a later grant is read as if it were the first", LOCKSTEP, [
        ("src/store/row.rs", "self.granted_at.map_or(created_at, StoreTime);", "created_at;"),
    ]),
    Mutant("R2", "the end of a claim is read as the last change", LOCKSTEP, [
        ("src/store/row.rs", ".then(|| changed(self.closed_at)),", ".then_some(updated_at),"),
    ]),
    Mutant("R3", "an id's time stands behind its hash", "domain::key", [
        ("src/domain/key.rs", "hash[..key_place::BYTES].copy_from_slice(&place);", "hash[10..].copy_from_slice(&place);"),
    ]),
    Mutant("Q1", "two servers have a turn of the purge at the same time", "stores::", [
        (PG_PURGE, "      AND (n.purge_held <= c.now OR n.purge_held > c.now + $2)\n", ""),
        (LITE_PURGE, "      AND (n.purge_held <= ?1 OR n.purge_held > ?1 + ?3)\n", ""),
    ]),
    Mutant("Q2", "whoever had a turn of the purge too long still writes down how far it came", "stores::", [
        (PG_PURGE, "WHERE n.no = $1 AND n.purge_held = $2", "WHERE n.no = $1 AND $2::bigint > 0"),
        (LITE_PURGE, "WHERE no = ?1 AND purge_held = ?2", "WHERE no = ?1 AND ?2 > 0"),
    ]),
    Mutant("Q3", "what the purge has left it never looks at again", "retention::", [
        (PURGE_TURN, "if due <= batch.now || due > batch.now + TURN_MAX {", "if due > batch.now + TURN_MAX {"),
    ]),
    Mutant("Q4", "a batch of the purge ends among entries of one instant", "stores::", [
        (PG_PURGE, "FETCH FIRST ($4) ROWS WITH TIES", "FETCH FIRST ($4) ROWS ONLY"),
        (LITE_PURGE, "ORDER BY e.created_at\"\n);", "ORDER BY e.created_at LIMIT ?4\"\n);"),
    ]),
    Mutant("Q5", "the purge does not go back when entries are kept for longer", "ledger::upkeep::purge_turn", [
        (PURGE_TURN, "self.place.passed.min(old_enough);", "self.place.passed.max(StoreTime(0));"),
    ]),
    Mutant("Q6", "another retention lets a turn of the purge go on", "stores::", [
        (PG_POLICIES, "r.window_floor), purge_due = 0,\n        purge_held = 0\n", "r.window_floor), purge_due = 0\n"),
        (LITE_POLICIES, "max(window_floor, ?3), purge_due = 0, purge_held = 0", "max(window_floor, ?3), purge_due = 0"),
    ]),
    Mutant("Q7", "another default makes no consumer due for the purge", "stores::", [
        (PG_POLICIES, "((c.name = '' AND n.retention IS NULL)", "((c.name = '-' AND n.retention IS NULL)"),
        (LITE_POLICIES, "if changed && one.consumer.is_empty() {", "if changed && one.consumer == \"-\" {"),
    ]),
    Mutant("R4", "an id is taken for a UUID whatever its case", "store::ids", [
        ("src/store/ids.rs", "(*uuid.hyphenated().encode_lower(&mut [0; LENGTH]) == *id).then_some(uuid)", "Some(uuid)"),
    ]),
    Mutant("R5", "a list by a prefix finds no id that is a UUID", "queries::", [
        ("src/store/postgres/listing.rs", "coalesce(e.id, e.id_uuid::text)", "coalesce(e.id, '')"),
        ("src/store/sqlite/listing.rs", "|| substr(hex(e.id_uuid), 21)", "|| substr(hex(e.id_uuid), 20)"),
    ]),
    Mutant("R6", "SQLite finds the rows of a batch as its planner likes", "stores::", [
        (LITE_STATEMENTS, "r CROSS JOIN entries e INDEXED BY sqlite_autoindex_entries_1 ON e.key = r.key", "r JOIN entries e ON e.key = r.key"),
    ]),
    Mutant("R7", "a batch is answered as if all of it had been written", "stores::", [
        (LITE_ENTRIES, "fresh.contains(&entry.key.hash()).then_some(entry.token)", "(fresh.contains(&entry.key.hash()) || fresh.len() > 1).then_some(entry.token)"),
    ]),
    Mutant("R8", "a statement has room for fewer rows than it carries", "stores::", [
        ("src/store/sqlite/for_rows.rs", "rows.len().next_power_of_two().ilog2()", "rows.len().ilog2()"),
    ]),
    Mutant("R9", "an insert that has met an entry is sent again as it was", "stores::", [
        ("src/store/postgres/entries.rs", "self.insert_all(INSERT, &raw, mark, until).await", "self.insert_all(INSERT_NEW, &raw, mark, until).await"),
    ]),
    Mutant("R10", "inserts that fail do not keep the next ones from failing", "store::postgres::recent_duplicates", [
        ("src/store/postgres/recent_duplicates.rs", ">= EXPECTED_FOR", ">= Duration::ZERO"),
    ]),
    Mutant("R11", "claims are guessed to be new whatever they met", "faults::", [
        ("src/ledger/claims/duplicate_rate.rs", "<= ALL / 2", "<= ALL"),
    ]),
    Mutant("R12", "claims look first for ever", "faults::", [
        ("src/ledger/claims/round/decide.rs", "matches!(found, Found::Absent)).collect();", "matches!(found, Found::Collision)).collect();"),
    ]),
    Mutant("R13", "calls have as many threads as there are processors, whatever is set", "process::as_many", [
        ("src/server/config/mod.rs", "        match self.threads {\n", "        match self.threads / 257 {\n"),
    ]),
    Mutant("R14", "a batch that came too late is told as inserted", "stores::", [
        (PG_ENTRY_ROWS, "if !inserted {", "if !inserted && rows.is_empty() {"),
    ]),
    Mutant("R15", "a column that some rows of a batch have is sent by none", "stores::", [
        ("src/store/postgres/mod.rs", "if all.iter().any(Option::is_some) { all }", "if all.iter().all(Option::is_some) { all }"),
    ]),
    Mutant("R16", "tokens of a batch follow another clock than the database's", "stores::", [
        (PG_ENTRY_ROWS, "rows.iter().map(|row| row.token + reading.token_clock())", "rows.iter().map(|row| row.token + reading.token_clock() + 1)"),
    ]),
    Mutant("R17", "what two rows of a batch share is sent for all of them", "stores::", [
        ("src/store/postgres/mod.rs", "if all.windows(2).all(|pair| pair.first() == pair.last()) {", "if all.len() > 1 {"),
    ]),
    Mutant("L36", "the worker that has waited longest is called", "ledger::claims::queue", [
        ("src/ledger/claims/queue/mod.rs", "self.ready.notify_last()", "self.ready.notify_one()"),
    ]),
    Mutant("L37", "a busy connection lets every other turn go, and the next one too", "common::deferred_poll", [
        ("src/common/deferred_poll.rs", "*this.deferred = !*this.deferred && (this.in_flight)() > DEFER_ABOVE;", "*this.deferred = (this.in_flight)() > DEFER_ABOVE;"),
    ]),
    Mutant("L38", "a connection that let a turn go is not woken for the next one", "common::deferred_poll", [
        ("src/common/deferred_poll.rs", "            context.waker().wake_by_ref();\n            return Poll::Pending;", "            return Poll::Pending;"),
    ]),
    Mutant("L39", "a connection with one call lets a turn go, too", "common::deferred_poll", [
        ("src/common/deferred_poll.rs", "(this.in_flight)() > DEFER_ABOVE", "(this.in_flight)() > 0"),
    ]),
    Mutant("L40", "SQLite takes the row before those that it has added for one of them", "stores::", [
        (LITE_STATEMENTS, "WHERE e.rowid > r.above", "WHERE e.rowid >= r.above"),
    ]),
    Mutant("L41", "open claims of a consumer alone are marked 5,000 every ten seconds", "queries::", [
        (PG_UPKEEP, "if more || after > 0 { limit }", "if more { limit }"),
    ]),
    Mutant("L42", "a batch of completions does not tell of those that were late", "stores::", [
        (PG_ENTRIES, "WHERE d.late OR d.attempts <> 1 OR", "WHERE d.attempts <> 1 OR"),
    ]),
    Mutant("L43", "a batch of completions does not tell by which attempt", "stores::", [
        (PG_ENTRIES, "WHERE d.late OR d.attempts <> 1 OR", "WHERE d.late OR"),
    ]),
    Mutant("L44", "where some were completed, all count as completed", "stores::", [
        (PG_ENTRY_ROWS, "(usize::try_from(count) == Ok(completions.len())).then_some(USUAL)", "(count > 0).then_some(USUAL)"),
    ]),
    Mutant("L45", "where some were not completed, only the unusual ones are told", "stores::", [
        (PG_ENTRIES, " OR (SELECT count(*) FROM done) < cardinality($1)", ""),
    ]),
    Mutant("L46", "an insert at once takes meta for what it was", "stores::", [
        (LITE_STATEMENTS, "WHERE key IS NOT NULL AND {is_same}", "WHERE key IS NOT NULL"),
    ]),
    Mutant("L47", "completions at once take meta for what it was", "stores::", [
        (LITE_STATEMENTS, "e.body IS NULL AND {is_same}\nON CONFLICT", "e.body IS NULL\nON CONFLICT"),
    ]),
    Mutant("L48", "replacements at once take meta for what it was", "stores::", [
        (LITE_STATEMENTS, "WHERE e.version = r.version - 1 AND {is_same}", "WHERE e.version = r.version - 1"),
    ]),
    Mutant("L49", "what was not done at once, since meta is another one, is not done again", "stores::", [
        (LITE_ONE_TRIP, "(found == Some(meta)).then_some(done)", "found.is_some().then_some(done)"),
    ]),
    Mutant("L50", "at once, a commit that failed is told as certainly not applied", "stores::", [
        (LITE_ONE_TRIP, "if *step == Step::Commit => return Err(of_commit(&error))", "if *step == Step::Commit => return Err(of_sqlx(&error))"),
    ]),
    Mutant("L51", "nothing is done at once", "store::sqlite", [
        ("src/store/sqlite/file.rs", "*meta = Some(looked);", "*meta = None.or(Some(looked)).filter(|_| false);"),
    ]),
    Mutant("L52", "a connection is used again after a statement has failed on it", "stores::", [
        ("src/store/sqlite/file.rs", "Err(error) => (Err(error), false),", "Err(error) => (Err(error), true),"),
    ]),
    Mutant("L53", "the purge looks each row up by its key, though it knows where it lies", "proof::rows::nothing", [
        (PG_PURGE, "WHERE e.ctid = r.place AND e.key IS NOT DISTINCT FROM r.key\n", "WHERE e.key = ANY (ARRAY[r.key])\n"),
    ]),
    Mutant("L54", "the purge takes whatever lies where a row was read", "stores::", [
        (PG_PURGE, "WHERE e.ctid = r.place AND e.key IS NOT DISTINCT FROM r.key\n", "WHERE e.ctid = r.place\n"),
    ]),
    Mutant("L55", "a late purge does not yield to claims", "ledger::upkeep::purge", [
        (PURGE, "NextStep::Late if beside_claims => took.mul_f64(YIELD)", "NextStep::Late if beside_claims => took.mul_f64(YIELD * 0.1)"),
    ]),
    Mutant("L56", "all of a batch are told that their outcome is unknown where that of one is", "ledger::claims::answers", [
        (ANSWERS, "self.caller.take() {", "self.caller.take().filter(|_| given.iter().all(Option::is_some)) {"),
    ]),
    Mutant("L57", "nobody sees that the caller of a batch has gone", "ledger::claims::answers", [
        (ANSWERS, "answers.caller.as_ref().is_none_or(oneshot::Sender::is_closed)", "answers.caller.is_none()"),
    ]),
    Mutant("L58", "a row that somebody holds keeps the neighbours of its settlement waiting", "availability::a_batch", [
        (ANSWERS, "answers.commands == 1", "answers.commands > 0"),
    ]),
    Mutant("L59", "a batch of new claims is told as granted after its instant", "stores::met", [
        (PG_ENTRIES, "may_write AS inserted", "true AS inserted"),
    ]),
    Mutant("L60", "a batch of new claims is written after its instant", "stores::met", [
        (PG_ENTRIES, " WHERE c.may_write) AS r", ") AS r"),
    ]),
    Mutant("L61", "a look-up keeps a copy of its entry for the join with the clock", GROWTH, [
        (PG_ENTRIES, "FROM clock c OFFSET 0) AS r", "FROM clock c) AS r"),
    ]),
    Mutant("L62", "nobody asks whether the other end of a connection is still there", "listener", [
        ("src/listener/mod.rs", "if let Err(error) = keepalive::configure(&stream) {", "if let Some(Err(error)) = None::<std::io::Result<()>> {"),
    ]),
    Mutant("L63", "nobody sees that a connection's life is over", "edge::life", [
        ("src/listener/connection.rs", "why = lifetime.expired(account.open()) => Some(why),", "() = std::future::pending() => None,"),
    ]),
    Mutant("L64", "bench does not tell the server how long it waits", "bench::link", [
        ("src/bench/link.rs", "        head.headers.insert(GRPC_TIMEOUT, self.deadline.clone());\n", ""),
    ]),
    Mutant("L14", "all whom a full queue refuses come again together", "ledger::claims::queue::retry_after", [
        ("src/ledger/claims/queue/retry_after.rs", "self.turn.wrapping_add(STEP)", "self.turn.wrapping_add(0)"),
    ]),
    Mutant("L15", "a slow queue asks those whom it refuses to come again as soon as a quick one", "ledger::claims::queue", [
        ("src/ledger/claims/queue/mod.rs", "taken_after(now.saturating_duration_since(last.since))", "taken_after(now.saturating_duration_since(last.since) / 1_000)"),
    ]),
    Mutant("L16", "a claim of unknown outcome is granted once more where others came after it", "faults::", [
        ("src/ledger/claims/round/decide.rs", "entry.map(|entry| entry.version) != request.replaced_version\n", "entry.is_none() != request.replaced_version.is_none() && entry.is_some_and(|entry| entry.attempts < 2)\n"),
    ]),
    Mutant("L17", "a claim of unknown outcome is granted once more where its entry was deleted since", "faults::", [
        ("src/ledger/claims/round/decide.rs", "request.unknown > 0 && entry.map", "request.unknown > 0 && entry.is_some() && entry.map"),
    ]),
    Mutant("L19", "a connection has all calls begun that it has sent", "edge::floods::frames", [
        ("src/listener/fairness/poll_budget.rs", "this.budget.open().bytes_left().store(bytes, ", "this.budget.open().bytes_left().store(usize::MAX, "),
    ]),
    Mutant("L20", "a connection is read whatever is open on it", "accounts", [
        ("src/accounts/open.rs", "Ordering::SeqCst) <= READ_UP_TO_CALLS;", "Ordering::SeqCst) < usize::MAX;"),
    ]),
    Mutant("L21", "a connection that waits for its turns reads no less in them", "listener", [
        ("src/listener/fairness/adaptive_budget.rs", "if time > TARGET_WAIT {", "if time > TARGET_WAIT * 1_000 {"),
    ]),
    Mutant("L22", "all connections of the line have their turn at once", "listener", [
        ("src/listener/fairness/scheduler.rs", "let free = PERMITS_PER_THREAD * ", "let free = 1_000 * PERMITS_PER_THREAD * "),
    ]),
    Mutant("L23", "a connection reads while it waits in the line", "listener", [
        ("src/listener/fairness/poll_budget.rs", "} else {\n            0\n        };", "} else {\n            1\n        };"),
    ]),
    Mutant("L27", "addresses do not take turns", "listener", [
        ("src/listener/fairness/scheduler.rs", "while let Some(address) = self.order.pop_front() {", "while let Some(address) = self.order.pop_back() {"),
    ]),
    Mutant("L28", "connections that are gone use up the turns of their address", "listener", [
        ("src/listener/fairness/scheduler.rs", "let next = std::iter::from_fn(|| waits.pop_front()).find(|grant| !grant.is_closed());", "let next = waits.pop_front();"),
    ]),
    Mutant("L29", "turns begin no fewer calls than at first", "listener", [
        ("src/listener/fairness/adaptive_budget.rs", "self.calls.store(calls, Ordering::Relaxed);", "self.calls.store(calls.max(CALLS_FIRST), Ordering::Relaxed);"),
    ]),
    Mutant("L30", "the end of a larger answer is sent by itself", "listener", [
        ("src/listener/io/write_buffer.rs", "if shared.buffered.len() + bytes <= BUFFER_MAX {", "if shared.buffered.len() + bytes <= 256 {"),
    ]),
    Mutant("L31", "nobody is told that nothing can be sent any more", "listener", [
        ("src/listener/io/write_buffer.rs", "self.failed = Some(error.kind());", "self.failed = Some(error.kind()).filter(|_| false);"),
    ]),
    Mutant("L32", "what waits is lost where a connection ends", "listener", [
        ("src/listener/io/write_buffer.rs", "        ready!(shared.poll_send_all(context))?;\n        Pin::new(&mut shared.socket).poll_shutdown(context)", "        Pin::new(&mut shared.socket).poll_shutdown(context)"),
    ]),
    Mutant("L33", "an idle connection keeps the buffer of its largest turn", "listener", [
        ("src/listener/io/write_buffer.rs", "if self.buffered.capacity() > KEPT_CAPACITY_MAX {", "if self.buffered.capacity() > usize::MAX - KEPT_CAPACITY_MAX {"),
    ]),
    Mutant("L34", "a slow reader loses what the wire did not take at once", "listener", [
        ("src/listener/io/write_buffer.rs", "            self.sent += sent;", "            self.sent = usize::MAX;"),
    ]),
    Mutant("L24", "the rest of a refused request is not read", "edge::refused", [
        ("src/accounts/request_body.rs", ".filter(|body| !body.is_end_stream())", ".filter(|_| false)"),
    ]),
    Mutant("L25", "a refused request is read on for as long as it goes on", "edge::refused", [
        ("src/accounts/request_body.rs", "const DRAIN_WITHIN: Duration = Duration::from_secs(1);", "const DRAIN_WITHIN: Duration = Duration::from_secs(1_000);"),
    ]),
    Mutant("L26", "a refused request may have any length", "accounts", [
        ("src/accounts/request_body.rs", "while *read < DRAINED_BYTES_MAX {", "while *read < usize::MAX {"),
    ]),
    Mutant("L18", "settlements that a full queue refuses wait as long as claims", "ledger::claims::queue", [
        ("src/ledger/claims/queue/mod.rs", "retry.settlement()", "retry.claim()"),
    ]),
    Mutant("M1", "a draining server says over HTTP that it is ready", "observe::", [
        ("src/server/observe/answer.rs", '"/readyz" if self.accepting.is() =>', '"/readyz" if self.accepting.is() || self.ledger.metrics().text().is_ok() =>'),
    ]),
    Mutant("M2", "a duplicate is counted as a grant", "observe::", [
        ("src/metrics/answers.rs", "Verdict::Completed { .. } => 1,", "Verdict::Completed { .. } => 0,"),
    ]),
    Mutant("M3", "every consumer gets series of its own, however many there are", "metrics", [
        ("src/metrics/consumers.rs", "self.by_clients < NAMED_MAX", "self.by_clients < usize::MAX"),
    ]),
    Mutant("M4", "a call whose client went away is not counted", "metrics", [
        ("src/metrics/calls.rs", "        self.count(CANCELED, self.took());\n", ""),
    ]),
    Mutant("M5", "what is refused since it is not well-formed is not counted", "observe::", [
        ("src/metrics/mod.rs", "        self.refused(&malformed.rejection);\n", ""),
    ]),
    Mutant("M6", "the queue's depth only grows", "observe::", [
        (QUEUE, "                *waits -= key_queue.len();\n                key_queues", "                key_queues"),
    ]),
    Mutant("M7", "a chosen port for metrics that is taken is passed over", "observe::", [
        ("src/server/observe/mod.rs", "if by_default && error.kind()", "if (by_default || address.port() > 0) && error.kind()"),
    ]),
    Mutant("M8", "the log tells every duplicate", "ledger::answer_log", [
        ("src/common/log_limit.rs", "if !allowed || self.last", "if !allowed && self.last"),
    ]),
    Mutant("M9", "all consumers together fill the log", "ledger::answer_log", [
        ("src/ledger/answer_log.rs", "let allowed = self.lines < most;", "let allowed = self.lines < most.saturating_mul(1_000);"),
    ]),
    Mutant("M10", "the log does not tell that a message was parked", "observe::", [
        ("src/ledger/answer_log.rs", "Ok(Reply::Failed { state: State::Parked(_), replayed: false, .. }) => Some(LogEvent::Parked),",
         "Ok(Reply::Failed { state: State::Parked(_), replayed: true, .. }) => Some(LogEvent::Parked),"),
    ]),
    Mutant("M11", "the log remembers every consumer", "ledger::answer_log", [
        ("src/ledger/answer_log.rs", "consumers.len() < CONSUMERS_MAX {", "consumers.len() < usize::MAX {"),
    ]),
    Mutant("M12", "who is refused takes the names of others", "metrics", [
        ("src/metrics/consumers.rs", "if answer.is_ok() || named == NamedBy::ByOperator {", "if answer.is_ok() || answer.is_err() {"),
    ]),
    Mutant("M13", "alerts are not there before the first one", "metrics", [
        ("src/metrics/refusals.rs", "Reason::ALL.iter().map(of).collect()", "Reason::ALL.iter().take(1).map(of).collect()"),
    ]),
    Mutant("M14", "a command that is dropped unanswered is not counted", "metrics", [
        ("src/metrics/pending.rs", "self.who.as_ref().filter(|_| !self.answered)", "self.who.as_ref().filter(|who| self.answered && !who.named)"),
    ]),
    Mutant("M15", "duplicates take the lines of what is worse", "ledger::answer_log", [
        ("src/ledger/answer_log.rs", "let most = if kind == LogEvent::Duplicate { LINES_MAX / 2 } else { LINES_MAX };", "let most = LINES_MAX;"),
    ]),
    Mutant("M16", "metrics do not tell that the store is gone", "observe::", [
        ("src/ledger/upkeep/probe.rs", "            shared.metrics.work().is_ready(is);\n", "            shared.metrics.work().is_ready(true);\n"),
    ]),
    Mutant("M17", "every event type gets series of its own, however many there are", "metrics", [
        ("src/metrics/consumer.rs", ">= EVENT_TYPES_MAX", ">= usize::MAX"),
    ]),
    Mutant("M18", "what clients name is bounded by series alone, not by its length", "metrics", [
        ("src/metrics/cardinality.rs", "&& self.bytes <= BYTES_MAX", "&& self.bytes > 0"),
    ]),
    Mutant("M19", "the series of who is silent stay for ever", "metrics", [
        ("src/metrics/consumers.rs", "let stays = !consumer.seen_before(since);", "let stays = !consumer.seen_before(since / 1_000);"),
    ]),
    Mutant("M20", "a repeated settlement tells once more how long its claim was held", "metrics", [
        ("src/metrics/pending.rs", "Reply::Completed { replayed: false, attempt, .. } =>", "Reply::Completed { attempt, .. } =>"),
    ]),
    Mutant("M21", "the log does not tell which trace a message belongs to", "observe::", [
        ("src/rpc/edge/auth.rs", "Submission { trace_id: self.trace_id, ..submission }", "Submission { trace_id: None, ..submission }"),
    ]),
    Mutant("M22", "a reclaimed message is not told from a new one", "domain::settle", [
        ("src/domain/claim.rs", "if expired { Grant::Reclaimed }", "if expired && policy.disabled { Grant::Reclaimed }"),
    ]),
    Mutant("M23", "what was released before a failure counts as released in a row", "domain::settle", [
        ("src/domain/entry.rs", "self.history.iter().rev().take_while(", "self.history.iter().rev().filter("),
    ]),
    Mutant("M24", "how many attempts a completion took is not what the store has", "stores::", [
        (PG_ENTRIES, "AS late, e.attempts, e.doubled\"", "AS late, 1 AS attempts, e.doubled\""),
        (LITE_STATEMENTS, "AS late, attempts, doubled", "AS late, 1 AS attempts, doubled"),
    ]),
    Mutant("M25", "metrics do not tell for how long claims are expired", "observe::", [
        ("src/ledger/operators/count_entries.rs", "one.oldest[2] = age(expired.since);", "one.oldest[2] = age(now);"),
    ]),
    Mutant("M26", "what is purged is not counted", "retention::", [
        ("src/ledger/upkeep/purge_report.rs", "        self.metrics.upkeep().purged(count);\n", ""),
    ]),
    Mutant("M27", "metrics do not tell that the store's clock is behind", "claims::", [
        ("src/metrics/upkeep.rs", "micros.max(0).saturating_add(999_999)", "micros.min(0).saturating_add(999_999)"),
    ]),
    Mutant("M28", "policies look fresh, however old they are", "observe::", [
        ("src/ledger/policies/in_force.rs", "(now.asked_at.elapsed(), policies", "(now.asked_at.elapsed() / 1_000, policies"),
    ]),
    Mutant("M29", "the entries of a consumer that has none left are still shown", "metrics", [
        ("src/metrics/entries.rs", "                self.forget(name);\n", ""),
    ]),
    Mutant("M31", "nobody is told how long commands wait", "observe::", [
        ("src/ledger/claims/worker.rs", "work().waited(waits);", "work().waited(waits.take(0));"),
    ]),
    Mutant("M32", "the log does not tell of slow calls", "observe::", [
        ("src/rpc/edge/layer.rs", "if took >= this.options.slow_call {", "if took >= this.options.slow_call * 1_000 {"),
    ]),
    Mutant("M33", "commands of one call are counted by the first one's consumer", "metrics", [
        ("src/metrics/consumers.rs", "who.key.consumer() == key.consumer() &&", "who.key.source() == key.source() &&"),
    ]),
    Mutant("M34", "a consumer that is called other takes the others' series with it", "metrics", [
        ("src/metrics/consumers.rs", "if name == OTHER {", "if name.is_empty() {"),
    ]),
    Mutant("M35", "an alert is counted under what the caller was told", "metrics", [
        ("src/metrics/refusals.rs", "count(&self.alerts, alert.reason, 1);", "count(&self.alerts, if alert.text.is_empty() { alert.reason } else { rejection.reason }, 1);"),
    ]),
    Mutant("M36", "what is refused for its bytes is not counted", "edge::memory", [
        ("src/accounts/call.rs", "self.try_take(bytes).inspect_err(|refused| self.connection.refused(refused))", "self.try_take(bytes)"),
    ]),
    Mutant("M30", "a session that could not be opened counts as opened", "ledger::instrumented_store", [
        ("src/ledger/instrumented_store.rs", "attempt.done = opened.is_ok();", "attempt.done = opened.is_ok() || opened.is_err();"),
    ]),
    Mutant("M37", "nobody is told how many entries a statement carries", "observe::", [
        ("src/metrics/work.rs", "sizes.observe(items(rows));", "sizes.observe(items(rows.min(1)));"),
    ]),
    Mutant("M38", "who has no policy keeps the place that one with a policy needs", "metrics", [
        ("src/metrics/consumers.rs", "named == NamedBy::ByOperator && known.by_clients > 0", "named == NamedBy::ByOperator && known.by_clients > usize::MAX / 2"),
    ]),
    Mutant("M39", "entries are shown of the first consumers by name, whoever has a policy", "metrics", [
        ("src/metrics/entries.rs", "let has_place = by_operator || by_clients < NAMED_MAX;", "let has_place = shown.len() < NAMED_MAX;"),
    ]),
    Mutant("M40", "the log tells the error texts of consumers, whoever asks", "observe::log", [
        ("src/server/config/checked.rs", "given.log_error_texts.as_ref(), false)", "given.log_error_texts.as_ref(), true)"),
    ]),
    Mutant("M41", "what nobody can look at is counted", "metrics", [
        ("src/metrics/mod.rs", "Metrics::counting(false)", "Metrics::counting(true)"),
    ]),
    Mutant("M42", "who lacks a right is refused, and that is not counted", "identity::rights", [
        ("src/rpc/edge/auth.rs", "        self.origin.account.refused(&rejection);\n        Err(rejection)", "        Err(rejection)"),
    ]),
    Mutant("M43", "a claim whose caller lacks the right is counted as refused twice", "identity::rights", [
        ("src/rpc/edge/auth.rs", "        self.origin.account.refused(&rejection);\n        Err(rejection)", "        self.origin.account.refused(&rejection);\n        self.origin.account.refused(&rejection);\n        Err(rejection)"),
    ]),
    Mutant("M44", "who is not authenticated is refused, and that is not counted", "identity::credentials", [
        ("src/rpc/edge/auth.rs", "    origin.account.refused(&rejection);\n    rejection", "    rejection"),
    ]),
    Mutant("M45", "a file of credentials is told to fail for what is wrong with the one beside it", "identity::seen", [
        ("src/server/trust/reloadable.rs", "problems.iter().any(its)", "problems.iter().any(its) || !problems.is_empty()"),
    ]),
    Mutant("M46", "metrics tell the end of a certificate that is not in force any more", "identity::seen", [
        ("src/server/trust/mod.rs", "                    ends(metrics.credentials(), &trust);\n", ""),
    ]),
    Mutant("M47", "a file is counted as read again since the one beside it was", "identity::seen", [
        ("src/server/trust/reloadable.rs", "filter(|(_, (old, new))| old != new)", "filter(|(_, (old, new))| old != new || !new.is_empty())"),
    ]),
    Mutant("M48", "a session that could not be replaced is not counted", "secrets::sessions", [
        ("src/store/postgres/connection/rotation.rs", "            opener.rotation_counts().record(purpose, false);\n", ""),
    ]),
    Mutant("M49", "a server with TLS tells to ask for its health without", "identity::seen", [
        ("src/server/health.rs", "--address https://{address}{domain}", "--address {address}{domain}"),
    ]),
    Mutant("M50", "health takes the operators' authority, which is another server's", "identity::seen", [
        ("src/server/health.rs", '    #[arg(long, value_name = "FILE")]\n', '    #[arg(long, env = "IDEMPOTENCY_LEDGER_TLS_CA", value_name = "FILE")]\n'),
    ]),
    Mutant("T1", "a retry does not lead to its first attempt", "observe::traces", [
        (CLAIMS_FOLD, "request.span.link_first(&entry.traceparent);", "request.span.link_first(&entry.last_error);"),
    ]),
    Mutant("T2", "a batch leads to any number of calls", "traces", [
        ("src/traces/call.rs", "LINKS_MAX: usize = 32;", "LINKS_MAX: usize = 3_200;"),
    ]),
    Mutant("T3", "a call does not lead to a batch that belongs to another one", "traces", [
        ("src/traces/batch.rs", "call.link_batch(context.span().span_context().clone());", "let _ = (call, &context);"),
    ]),
    Mutant("T4", "a call is recorded in a trace of its own, whatever its caller has sent", "observe::traces", [
        ("src/traces/mod.rs", "&context::parent(headers)", "&context::parent(&headers.iter().take(0).map(|(name, value)| (name.clone(), value.clone())).collect())"),
    ]),
    Mutant("T5", "a call whose client goes away does not tell so", "traces", [
        ("src/traces/call.rs", "self.0.end(Code::Cancelled);", "let _ = Code::Cancelled;"),
    ]),
    Mutant("T6", "a mistake of a caller is told as an error of the server", "traces", [
        ("src/traces/call.rs", "        Code::Unknown\n            | Code::DeadlineExceeded", "        Code::Unknown\n            | Code::InvalidArgument\n            | Code::DeadlineExceeded"),
    ]),
    Mutant("T7", "what was recorded last is not sent", "observe::traces", [
        ("src/server/serve.rs", "        exported.end().await;\n", "        std::mem::forget(exported.traces());\n"),
    ]),
    Mutant("T8", "a statement that fails looks well in its trace", "observe::traces", [
        (STATEMENT, "        span.failed(kind(error));\n", ""),
    ]),
    Mutant("T9", "an entry does not keep the span of a call whose caller has sent no trace", "observe::traces", [
        ("src/rpc/edge/auth.rs", "span.traceparent().or(traceparent)", "traceparent.or(None)"),
    ]),
    Mutant("T10", "health checks are recorded", "observe::traces", [
        ("src/rpc/edge/layer.rs", "let mut served = if ours {", "let mut served = if ours || is_stream {"),
    ]),
    Mutant("T11", "a variable that is not used is not told", "server::otlp", [
        ("src/server/otlp/variables.rs", "if !unknown.is_empty() {", "if unknown.len() > 9 {"),
    ]),
    Mutant("T12", "a protocol that is not spoken is taken for the one that is", "server::otlp", [
        ("src/server/otlp/variables.rs", "Some(other) if wanted && other != \"grpc\" =>", "Some(other) if wanted && other.is_empty() =>"),
    ]),
    Mutant("T13", "a collector is not known by the authorities that the system trusts", "observe::traces", [
        ("src/server/otlp/mod.rs", "ClientTlsConfig::new().with_native_roots()", "ClientTlsConfig::new()"),
    ]),
    Mutant("T14", "a call with many messages leads to the first attempt of one of them again and again", "traces", [
        ("src/traces/call.rs", "|| !known.insert(first.span_id())", "|| (!known.insert(first.span_id()) && traceparent.is_empty())"),
    ]),
    Mutant("T15", "a batch counts each command as a call of its own", "traces", [
        ("src/traces/batch.rs", "known.insert(context.span_id())", "known.insert(context.span_id()) || known.len() > 1"),
    ]),
    Mutant("T16", "the service has the name of the program, whatever the environment says", "observe::traces", [
        ("src/server/otlp/mod.rs", "given.get(\"OTEL_SERVICE_NAME\")", "given.get(\"OTEL_SERVICE\")"),
    ]),
    Mutant("I1", "an RPC asks for no right", "identity::rights", [
        ("src/rpc/admin/service.rs", "            caller.allowed_everywhere()?;\n            retention::status", "            retention::status"),
    ]),
    Mutant("I2", "one who may read may change", "identity::rights", [
        ("src/identity/rpcs.rs", '("DeletePolicy", Right::Admin)', '("DeletePolicy", Right::Read)'),
    ]),
    Mutant("I3", "a right on one consumer is one on all", "identity::rights", [
        ("src/identity/rights.rs", "            Whose::All => false,\n", "            Whose::All => !scope.exact.is_empty(),\n"),
    ]),
    Mutant("I4", "the name of a consumer is a prefix", "identity::rights", [
        ("src/identity/rights.rs", "scope.exact.binary_search_by(|exact| (**exact).cmp(name)).is_ok()", "scope.exact.iter().any(|exact| name.starts_with(&**exact))"),
    ]),
    Mutant("I5", "an import asks the store before it asks for rights", "identity::rights", [
        ("src/rpc/admin/imports.rs", "if places.is_empty() { Vec::new() } else", "if places.len() > rows_max() { Vec::new() } else"),
        ("src/rpc/admin/imports.rs", "fn died() -> Rejection {", "fn rows_max() -> usize {\n    usize::MAX\n}\n\nfn died() -> Rejection {"),
    ]),
    Mutant("I6", "a wrong token is made good by a certificate", "identity::tls", [
        ("src/identity/authenticator.rs", "if let Some(identity) = bearer(cache, headers)? {", "if let Ok(Some(identity)) = bearer(cache, headers) {"),
    ]),
    Mutant("I7", "whoever is on this machine is a trusted proxy", "identity::credentials", [
        ("src/identity/proxies.rs", "if self.networks.iter().any(|network| network.contains(&address)) {", "if address.is_loopback() || self.networks.iter().any(|network| network.contains(&address)) {"),
    ]),
    Mutant("I8", "a proxy that names nobody is let in by its own name", "identity::tls", [
        ("src/identity/authenticator.rs", "            None if cache.proxy => Err(Refused::NotForwarded),\n", ""),
    ]),
    Mutant("I9", "the first element of the forwarding header counts", "identity::credentials", [
        ("src/identity/forwarded.rs", "End::Element => pairs.clear(),", "End::Element => return Ok(pairs),"),
    ]),
    Mutant("I10", "of two headers the first counts", "identity::credentials", [
        ("src/identity/authenticator.rs", "        (_, Some(_)) => Err(twice),\n        (one, None) => Ok(one),", "        (one, _) => {\n            let _ = twice;\n            Ok(one)\n        }"),
    ]),
    Mutant("I11", "what was replaced is in force for new connections alone", "identity::tls", [
        ("src/identity/guard.rs", "        self.0.generation.fetch_add(1, Ordering::SeqCst);\n", ""),
    ]),
    Mutant("I12", "a certificate is looked at in the handshake alone", "identity::tls", [
        ("src/identity/authenticator.rs", "        self.verify_certificate(cache)?;\n", "        let _ = self.verify_certificate(cache);\n"),
    ]),
    Mutant("I13", "a revocation list is read, and not asked", "identity::tls", [
        ("src/identity/authority.rs", "            builder = builder.with_crls(lists);\n", "            let _ = lists;\n"),
    ]),
    Mutant("I14", "a file that is broken takes away what was in force", "identity::reload", [
        ("src/server/trust/reloadable.rs", "            Err(problems) => self.report(problems),\n        }\n    }", "            Err(problems) => {\n                self.texts.clear();\n                self.report(problems)\n            }\n        }\n    }"),
        ("src/server/trust/reloadable.rs", "Err(problems) => self.report(problems),\n            },", "Err(_) => std::process::exit(1),\n            },"),
    ]),
    Mutant("I15", "a web token that was remembered never ends", "identity::web_tokens", [
        ("src/identity/authenticator.rs", "&& until.is_none_or(|until| UnixTime::now().as_secs() < until)", "&& (until.is_none() || until.is_some())"),
    ]),
    Mutant("I16", "a web token for somebody else is taken", "identity::web_tokens", [
        ("src/identity/jwt/mod.rs", "    if !is_for_us {\n        return Err(Refused::WrongAudience);\n    }\n", "    let _ = is_for_us;\n"),
    ]),
    Mutant("I17", "an unknown key is not asked for", "identity::web_tokens", [
        ("src/identity/guard.rs", "self.trust.key_refresh.request(issuer);", "let _ = issuer;"),
    ]),
    Mutant("I18", "the operators' service is at the consumers' address, too", "identity::listeners", [
        ("src/rpc/mod.rs", "let offered = if listeners.admin.is_some() { Offered::Ledger } else { Offered::Both };", "let offered = Offered::Both;"),
    ]),
    Mutant("I19", "an address that others reach needs no identity", "server::config::identity", [
        ("src/server/config/identity.rs", "!address.ip().is_loopback()", "address.port() == 0 && !address.ip().is_loopback()"),
    ]),
    Mutant("I20", "a claim is replayed to whoever knows its id", "identity::rights", [
        ("src/rpc/ledger.rs", "            caller.principal(),\n", "            \"anonymous\",\n"),
    ]),
    Mutant("I21", "a certificate is valid for longer than its leeway", "identity::authority", [
        ("src/identity/authority.rs", "now.as_secs().saturating_sub(LEEWAY)", "now.as_secs().saturating_sub(LEEWAY + 1)"),
    ]),
    Mutant("I22", "a name may turn its line around", "identity::jwt", [
        ("src/common/misleading.rs", "one.is_control() || turns", "one.is_control() || (turns && one == '\\0')"),
    ]),
    Mutant("I23", "a list that is late is covered by another one", "identity::authority", [
        ("src/identity/authority.rs", "filter_map(certificate::list_ends_at).min()", "filter_map(certificate::list_ends_at).max()"),
    ]),
    Mutant("I24", "a chain ends with the server's own certificate", "identity::certificate", [
        ("src/identity/certificate.rs", "if at == 0 || parsed.issuer()", "if at == 0 && parsed.issuer()"),
    ]),
    Mutant("I25", "one principal keeps all places for long operations while others wait", "ledger::operators::places", [
        ("src/ledger/operators/places.rs", "let share = share(places, self.principals());", "let share = share(places, 1);"),
    ]),
    Mutant("I26", "a file that hangs is no failing file", "identity::seen", [
        ("src/server/trust/mod.rs", "metrics.credentials().looked_at(setting, true)", "metrics.credentials().looked_at(setting, false)"),
    ]),
    Mutant("I27", "the audit does not tell that a deletion was forced", "operators::", [
        ("src/ledger/operators/change.rs", "serde_json::Value::from(order.kept()).to_string()", "String::new()"),
    ]),
    Mutant("I31", "the id of a request is one of all consumers'", "request_ids::", [
        ("src/domain/read/audit.rs", 'format!("{consumer}{SEPARATOR}{request_id}")', 'format!("{}{SEPARATOR}{request_id}", &consumer[..0])'),
    ]),
    Mutant("I32", "another request with the same id is answered as its repeat", "request_ids::", [
        ("src/domain/read/audit.rs", "self.digest.as_ref() == Some(digest)", "self.digest.is_some() || digest.bytes().is_empty()"),
    ]),
    Mutant("I33", "the request of another RPC is a repeat where it is encoded alike", "request_ids::", [
        ("src/domain/request_digest.rs", "[rpc.as_bytes(), encoded]", "[&rpc.as_bytes()[..0], encoded]"),
    ]),
    Mutant("I34", "a bulk redrive goes on for another reason", "request_ids::", [
        ("src/rpc/admin/bulk.rs", "dry_run: false, ..$request.clone() }", "dry_run: false, reason: String::new(), ..$request.clone() }"),
    ]),
    Mutant("I35", "a page token is good for any filter", "cursors::", [
        ("src/rpc/admin/page_token.rs", "&asked.encode_to_vec()]", "&asked.encode_to_vec()[..0]]"),
    ]),
    Mutant("I36", "a page token with another place is taken", "cursors::", [
        ("src/rpc/admin/page_token.rs", "(sum == self.sum(&bytes) && ", "(self.sum(&bytes).len() == sum.len() && "),
    ]),
    Mutant("I39", "an id from before ids belonged to consumers is used again", "request_ids::", [
        (PG_AUDIT, "request_id IN ($1, $2) AND", "request_id IN ($1, $1) AND $2::text IS NOT NULL AND"),
        (LITE_AUDIT, "request_id IN (?1, ?2) AND", "request_id IN (?1, ?1) AND ?2 IS NOT NULL AND"),
    ]),
    Mutant("I37", "an import of several consumers is an event of one of them", "bulk::imports", [
        ("src/ledger/operators/import.rs", "stored.entry(key.consumer())", 'stored.entry(entries.first().map_or("", |one| one.entry().key.consumer()))'),
    ]),
    Mutant("I38", "an import goes on for another reason", "bulk::imports", [
        ("src/ledger/operators/import.rs", "*digest != Some(order.digest)", "digest.is_none()"),
    ]),
    Mutant("F1", "claims are granted while the store's clock is behind", "proof::live::clocks", [
        (PG_ENTRIES, "now + token_offset >= greatest(clock_mark, $1) AND now <= $2", "$1::bigint IS NOT NULL AND now <= $2"),
        (CLAIM, "if let Some(fault) = ClockFault::behind(context) {", "if let Some(fault) = ClockFault::behind(context).filter(|_| false) {"),
    ]),
    Mutant("F2", "nobody looks for what a database that failed over had acknowledged", "proof::live::failover", [
        ("src/store/postgres/connection/opener.rs", "writes.check(&rows);", "drop((writes, rows));"),
    ]),
    Mutant("F3", "an entry that was made again is taken for the one that was lost", ACKNOWLEDGED, [
        ("src/store/postgres/connection/lost_commits.rs", "Effect::Grant { created_at } => current.created_at > created_at", "Effect::Grant { .. } => false"),
    ]),
    Mutant("F4", "what nobody could look for is forgotten", ACKNOWLEDGED, [
        ("src/store/postgres/connection/lost_commits.rs", "for written in self.writes.drain(..) {", "for written in self.writes.drain(..).take(0) {"),
    ]),
    Mutant("Y1", "systemd is not told that the server drains", "process::supervisor", [
        ("src/server/serve.rs", "        supervisor.drains();\n", ""),
    ]),
    Mutant("Y2", "systemd hears too seldom that the server lives", "process::supervisor", [
        ("src/server/supervisor.rs", "(within / 2)", "(within * 2)"),
    ]),
    Mutant("Z1", "a demanded age is not asked for", "demands::", [
        (PRECONDITIONS, "policy.occurred_at == OccurredAtMode::Require && occurred_at", "false && occurred_at"),
    ]),
    Mutant("Z2", "a server that demands stated windows takes a policy without", "demands::", [
        ("src/ledger/policies/set.rs", "live.window_required && policy", "false && policy"),
    ]),
    Mutant("Z3", "a suppressing run acknowledges after its end", "replays::", [
        (PRECONDITIONS, "Some(match held_back(policy, now) {", "Some(match held_back(policy, StoreTime(0)) {"),
    ]),
    Mutant("Z4", "a run that is over grants", "replays::", [
        (PRECONDITIONS, "(now > policy.run.grants_until())", "(false && now > policy.run.grants_until())"),
    ]),
    Mutant("Z5", "a shorter retention leaves runs open", "replays::runs", [
        ("src/store/postgres/replays.rs", "AND u.ends_at > r.ends_at", "AND u.ends_at > r.ends_at AND false"),
        (LITE_POLICIES, "ends_at - created_at)))\nWHERE swept_at IS NULL", "ends_at - created_at)))\nWHERE false"),
    ]),
    Mutant("Z6", "a run has the entries of the live ones", "replays::", [
        ("src/domain/key.rs", "with_name(Sha256::new(), [namespace.name(), &source, &id])", "with_name(Sha256::new(), [namespace.consumer(), &source, &id])"),
    ]),
    Mutant("Z7", "a run has idempotency keys of its own", "replays::", [
        ("src/domain/key.rs", "with_name(digest, [self.consumer(), self.source(), self.id()])", "with_name(digest, [self.namespace().name(), self.source(), self.id()])"),
    ]),
    Mutant("Z8", "a run is created beside servers that do not know runs", "replays::runs", [
        ("src/ledger/policies/replays.rs", "older::servers(session, REPLAY_LEVEL, reading.now)", "older::servers(session, REPLAY_LEVEL - 1, reading.now)"),
    ]),
    Mutant("Z9", "the purge leaves what waits for a person in a run that is past", "replays::runs", [
        (PURGE, "|| with_run.is_some_and(|from|", "|| with_run.filter(|_| false).is_some_and(|from|"),
    ]),
    Mutant("Z10", "a settlement that forgets its run wakes somebody", "replays::", [
        (SETTLE, "let forgotten_run = !key.is_of_run() &&", "let forgotten_run = false && !key.is_of_run() &&"),
    ]),
    Mutant("Z12", "a shorter retention ends a run in the past, and the purge takes it at once", "replays::runs", [
        ("src/store/postgres/replays.rs", "greatest(s.created_at + coalesce(n.retention, d.retention), c.now)", "s.created_at + coalesce(n.retention, d.retention)"),
        (LITE_POLICIES, "min(ends_at, max(?1, created_at", "min(ends_at, max(?1 * 0, created_at"),
    ]),
    Mutant("Z13", "the purge takes what is done in a run that is open", "proof::model::runs", [
        ("src/domain/retention.rs", "    taken_from <= now && !at_work", "    taken_from < StoreTime::MAX && !at_work"),
    ]),
    Mutant("Z15", "a redrive admits what no purge takes to a replay run", "operate_table", [
        ("src/domain/operate.rs", "if key.is_of_run() {", "if false {"),
    ]),
    Mutant("Z14", "rights go by the replay run of a key, too", "identity::rights", [
        ("src/rpc/admin/service.rs", "Sought::Key(key) => caller.allowed(key.consumer())?", "Sought::Key(key) => caller.allowed(key.namespace().name())?"),
    ]),
    Mutant("Z11", "a claim in a run is answered from the live entry", "proof::live::suites::histories", [
        ("src/wire/fields.rs", "let namespace = if replay_run.is_empty() {", "let namespace = if replay_run.is_empty() || replay_run.starts_with(\"first-\") {"),
    ]),
    Mutant("V1", "Envoy repeats a call at the replica that has just failed", MESH, [
        (ENVOY, "- name: envoy.retry_host_predicates.previous_hosts", "- name: envoy.retry_host_predicates.omit_canary_hosts"),
        (ENVOY, "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
         "envoy.extensions.retry.host.omit_canary_hosts.v3.OmitCanaryHostsPredicate"),
    ]),
    Mutant("V2", "Envoy repeats three calls at a time", MESH, [
        (ENVOY, "            retry_budget: { budget_percent: { value: 50 }, min_retry_concurrency: 100 }\n", ""),
    ]),
    Mutant("V3", "Envoy asks for health a minute after its start", MESH, [
        (ENVOY, "no_traffic_interval: 1s", "no_traffic_interval: 60s"),
    ]),
    Mutant("V4", "Envoy spreads calls while one replica is healthy", MESH, [
        (ENVOY, "healthy_panic_threshold: { value: 1 }", "healthy_panic_threshold: { value: 50 }"),
    ]),
    Mutant("V5", "a replica that drains says that it serves", MESH, [
        ("src/rpc/edge/health.rs", "statuses.set(ServingStatus::NotServing, |name| name != LIVENESS);",
         "statuses.set(ServingStatus::NotServing, |name| name == ACCEPTING);"),
    ]),
    Mutant("V6", "clients that reach servers themselves repeat no call", DIRECT, [
        (SERVICE_CONFIG, '"timeout": "5s",\n      "retryPolicy": {', '"timeout": "5s",\n      "noRetryPolicy": {'),
    ]),
    Mutant("V7", "clients that reach servers themselves do not ask who drains", DIRECT, [
        (SERVICE_CONFIG, '"healthCheckConfig"', '"noHealthCheckConfig"'),
    ]),
    Mutant("N6", "half requests at the plain HTTP port keep their places", "observe::flood", [
        (OBSERVE_PLACES, "open.by_age.get_mut(&age)?.half.take());", "open.by_age.get_mut(&age)?.half.take_if(|_| false));"),
    ]),
    Mutant("N8", "one address may hold all scrapes", "observe::flood", [
        ("src/server/observe/answer.rs", "SCRAPES_OF_ADDRESS_MAX: usize = 8;", "SCRAPES_OF_ADDRESS_MAX: usize = SCRAPES_MAX;"),
    ]),
    Mutant("N9", "an address with few half requests loses one, whatever others have", "server::observe", [
        (OBSERVE_PLACES, "halves.into_values().max()", "halves.into_values().min()"),
    ]),
    Mutant("N10", "clients' names take the whole room of metrics", "metrics", [
        (CARDINALITY, "NamedBy::ByClient => RESERVE,", "NamedBy::ByClient => SeriesCost::default(),"),
    ]),
    Mutant("N11", "metrics do not know which consumers the file of rights names", "identity::seen", [
        ("src/server/trust/mod.rs", "metrics.named_by_rights(trust.rights.named_consumers().map(Into::into).collect());",
         "metrics.named_by_rights(trust.rights.named_consumers().take(0).map(Into::into).collect());"),
    ]),
    Mutant("N12", "rights of before are in force in metrics after a reload", "identity::seen", [
        ("src/server/trust/mod.rs", "                    named(&metrics, &trust);\n", ""),
    ]),
    Mutant("N13", "the log does not report a consumer with a policy for which metrics have no room", "metrics", [
        ("src/metrics/consumers.rs", "self.left_out.fetch_add(1, Ordering::Relaxed);", "self.left_out.fetch_add(0, Ordering::Relaxed);"),
    ]),
    Mutant("N14", "two names share a label, where one has the escape of the other", "common::misleading", [
        ("src/common/misleading.rs", "if is_misleading(one) || name[at..].starts_with(ESCAPE) {", "if is_misleading(one) || name[at..].starts_with(name) {"),
    ]),
    Mutant("N15", "a label of metrics has control characters", "metrics", [
        ("src/metrics/event_type.rs", "let labels = (&*visible(consumer), &*visible(name));", "let labels = (&*visible(consumer), name);"),
    ]),
    Mutant("N16", "JSON is written with control characters of C1", "cli::entries", [
        ("src/cli/output.rs", "let line = if self.json {", "let line = if self.json && text.is_empty() {"),
    ]),
    Mutant("N17", "JSON has half an escape for a character beyond U+FFFF", "cli::json", [
        ("src/cli/json.rs", "for unit in one.encode_utf16(&mut [0; 2]) {", "for unit in one.encode_utf16(&mut [0; 2]).iter().take(1) {"),
    ]),
    Mutant("N18", "`rights lint` takes a prefix within a word for the end of one", "identity::lint", [
        (RIGHTS_LINT, "filter(|last| last.is_alphanumeric())", "filter(|last| last.is_uppercase())"),
    ]),
    Mutant("N19", "`rights lint` does not look at the prefixes of consumers", "identity::lint", [
        (RIGHTS_LINT, "line.consumers.iter().for_each(", "line.consumers.iter().take(0).for_each("),
    ]),
    Mutant("N20", "`rights lint` says nothing of a line for everybody that only reads", "identity::lint", [
        (RIGHTS_LINT, "    if principal.is_all() {\n", "    if principal.is_all() && line.may == [Right::Read] {\n        return;\n    }\n    if principal.is_all() {\n"),
    ]),
    Mutant("N21", "a TLS key that its group may read is not warned of", "server::trust", [
        ("src/server/trust/modes.rs", "mode & OF_GROUP > 0 && owns", "mode & OF_GROUP > OF_GROUP && owns"),
    ]),
    Mutant("N22", "the server does not warn of a TLS key that others may read", "identity::seen", [
        ("src/server/trust/tls.rs", "        warn_if_open(", "        let _ = |setting, path| warn_if_open(setting, path);\n        let _ = ("),
    ]),
    Mutant("N23", "the file of SQLite is created for everybody to read", "store::sqlite", [
        (LITE_CONNECT, "if !path.exists() {", "if path.exists() {"),
    ]),
    Mutant("N24", "the lock file of SQLite is created for everybody to read", "store::sqlite", [
        ("src/store/sqlite/at_path.rs", "const MODE: u32 = 0o600;", "const MODE: u32 = 0o644;"),
    ]),
    Mutant("N25", "the folder of SQLite is created for everybody to read", "server::store", [
        ("src/server/store.rs", ".mode(FOLDER_MODE)", ".mode(FOLDER_MODE | 0o055)"),
    ]),
    Mutant("D1", "an effect is committed before its guard row is inserted", GUARD, [
        (GUARD_ONCE, GUARD_INSERT + GUARD_EFFECT, GUARD_EFFECT + "    dialect.commit()\n    dialect.begin()\n" + GUARD_INSERT),
    ]),
    Mutant("D12", "nobody notices that an effect has lost its transaction", GUARD, [
        (GUARD_ONCE, "if dialect.execute(_KEEP, (result, *row)).rowcount != 1:", "if dialect.execute(_KEEP, (result, *row)) is None:"),
    ]),
    Mutant("D2", "a guard row is committed before its effect", GUARD, [
        (GUARD_ONCE, GUARD_EFFECT, "    dialect.execute(_KEEP, (b'', *row))\n    dialect.commit()\n    dialect.begin()\n" + GUARD_EFFECT),
    ]),
    Mutant("D3", "the guard looks first, and inserts whatever came between", GUARD, [
        (GUARD_ONCE, GUARD_INSERT, """\
    if dialect.execute(_READ, row).fetchone():
        return _done_before(dialect, row, (key.consumer, key.source, key.id))
    dialect.insert_new(_INSERT, (*row, key.consumer, key.source, key.id, claim.token))
"""),
    ]),
    Mutant("D4", "a transaction begins after the hold", GUARD, [
        (GUARD_ONCE, "if time.monotonic() >= claim.hold_until:", "if time.monotonic() < 0:"),
    ]),
    Mutant("D5", "Complete is given a result of its own", GUARD, [
        (GUARD_ONCE, GUARD_INSERT, GUARD_INSERT.replace("key.id))\n", "key.id)) and effect(dialect.cursor())\n")),
    ]),
    Mutant("D6", "an error of the database is called a failure", GUARD, [
        (GUARD_ONCE, 'raise Undecided(f"{type(error).__name__} of the database") from error', "raise Retry(type(error).__name__) from error"),
    ]),
    Mutant("D7", "a guard row of another message is taken for one's own", GUARD, [
        (GUARD_ONCE, "if tuple(_bytes(name) for name in found[:3]) != tuple(_bytes(name) for name in names):", "if not names:"),
    ]),
    Mutant("D8", "the guard's transaction cannot see what it waited for", GUARD, [
        (GUARD_DIALECTS, "BEGIN ISOLATION LEVEL READ COMMITTED", "BEGIN ISOLATION LEVEL REPEATABLE READ"),
    ]),
    Mutant("D9", "replay runs are compared without regard to case", GUARD, [
        (f"{GUARD_PACKAGE}/mysql.sql", "varchar(64) CHARACTER SET ascii COLLATE ascii_bin", "varchar(64) CHARACTER SET ascii COLLATE ascii_general_ci"),
    ]),
    Mutant("D10", "the guard waits for a row for ever", GUARD, [
        (GUARD_DIALECTS, "SET lock_timeout = '{LOCK_WAIT}s'", "SET lock_timeout = 0"),
    ]),
    Mutant("D11", "a transaction that failed is left open", GUARD, [
        (GUARD_ONCE, "            dialect.roll_back()\n", "            pass\n"),
    ]),
    Mutant("D13", "the guard row of an effect without a result looks as if the effect was missing", GUARD, [
        (GUARD_ONCE, 'return b""', "return None"),
    ]),
    Mutant("D14", "a guard uses a transaction that is open already", GUARD, [
        (GUARD_DIALECTS, "        if self.is_open():\n            raise", "        if False:\n            raise"),
    ]),
    Mutant("D15", "names are sent in the encoding of the connection", GUARD, [
        (GUARD_DIALECTS, "        if not self.is_utf8():", "        if False:"),
    ]),
    Mutant("D16", "a connection that was lost amid a transaction is called the program's fault", GUARD, [
        (GUARD_DIALECTS, "        if self.is_closed():", "        if False:"),
    ]),
    Mutant("D17", "a guard row has no place for a large result", GUARD, [
        (f"{GUARD_PACKAGE}/mysql.sql", "    result          longblob,", "    result          blob,"),
    ]),
    Mutant("J1", "the audit of one entry is shown without a right on its consumer", "identity::matrix::rights", [
        ("src/rpc/admin/service.rs", "            allowed_on(caller, asked.key.as_ref().map_or(&asked.consumer, |key| &key.consumer))?;", "            if asked.key.is_none() {\n                allowed_on(caller, &asked.consumer)?;\n            }"),
    ]),
    Mutant("J2", "a prefix of consumers fits its neighbours", "identity::matrix::rights", [
        ("src/identity/rights.rs", "|| scope.prefixes.iter().any(|prefix| name.starts_with(&**prefix))", "|| scope.prefixes.iter().any(|prefix| name.starts_with(prefix.trim_end_matches('-')))"),
    ]),
    Mutant("J3", "the refusal for one consumer differs from that for another", "identity::matrix::rights", [
        ("src/rpc/edge/auth.rs", "Whose::Consumer(consumer) => (consumer, format!(\"the consumer {consumer:?}\")),",
         "Whose::Consumer(consumer) => (consumer, format!(\"{} consumer {consumer:?}\", if consumer.len() > 9 { \"that\" } else { \"the\" })),"),
    ]),
    Mutant("J4", "blanks around a token do not count", "identity::matrix::credentials", [
        ("src/identity/authenticator.rs", "let (snapshot, hash) = (&cache.snapshot, tokens::hash(token));", "let (snapshot, hash) = (&cache.snapshot, tokens::hash(token.trim_ascii()));"),
    ]),
    Mutant("J5", "a web token that names no key is tried with keys that have ids", "identity::jwt", [
        ("src/identity/jwt/keys.rs", "let without_id = |key: &&PublicKey| key.id.is_none() && key.algorithm() == algorithm;", "let without_id = |key: &&PublicKey| key.algorithm() == algorithm;"),
    ]),
    Mutant("J6", "a web token that names no key is tried with all keys", "identity::jwt", [
        ("src/identity/jwt/keys.rs", "filter(without_id).take(CANDIDATES_MAX).any(verifies)", "filter(without_id).take(KEYS_MAX).any(verifies)"),
    ]),
    Mutant("J7", "a host whose name begins like this machine's needs no sslmode", "store::postgres::connection::transport", [
        ("src/store/postgres/connection/transport.rs", "host.eq_ignore_ascii_case(\"localhost\")", "host.to_ascii_lowercase().starts_with(\"localhost\")"),
    ]),
    Mutant("J8", "any PGSSLMODE counts as a written mode", "process::settings", [
        ("src/store/postgres/connection/url_tls.rs", "if modes.iter().any(|mode| mode.parse::<PgSslMode>().is_err()) {", "if modes.iter().any(|mode| mode.is_empty()) {"),
        ("src/store/postgres/connection/servers.rs", "PgConnectOptions::from_str(&url)", "PgConnectOptions::from_str(&url.replace(\"sslmode=sometimes\", \"\"))"),
    ]),
    Mutant("J9", "of several databases only the first needs a written mode", "process::settings", [
        ("src/store/postgres/connection/transport.rs", "match servers.iter().find(|server| !is_local(server)) {", "match servers.iter().take(1).find(|server| !is_local(server)) {"),
    ]),
    Mutant("J10", "a token of the file that a connection remembers never ends", "identity::web_tokens", [
        ("src/identity/authenticator.rs", "(named(snapshot, &known.principal)?, until)", "(named(snapshot, &known.principal)?, None)"),
    ]),
    Mutant("J11", "a token of the file is accepted after its end", "identity::matrix::credentials", [
        ("src/identity/authenticator.rs", "if until.is_some_and(|until| UnixTime::now().as_secs() >= until) {", "if until.is_some_and(|until| UnixTime::now().as_secs() >= until.saturating_mul(2)) {"),
    ]),
    Mutant("J12", "the end of a token is named a day before only", "cli::rights", [
        ("src/identity/token_ends.rs", "const WARNED_BEFORE: u64 = 14 * DAY;", "const WARNED_BEFORE: u64 = DAY;"),
    ]),
    Mutant("J13", "the log does not name the tokens of a changed file that end", "identity::seen", [
        ("src/server/trust/mod.rs", "token_ends.warn(self.tokens.as_ref().map(|kept| &*kept.value), changed);", "token_ends.warn(self.tokens.as_ref().map(|kept| &*kept.value), false);"),
    ]),
    Mutant("J14", "a promise names a suite that is not there", "docs::promises", [
        ("SECURITY.md", "proved by: identity::matrix::rights\n", "proved by: identity::matrix::wrongs\n"),
    ]),
    Mutant("J15", "the bound of a threat has no suite", "docs::promises", [
        ("docs/threats.md", "| knows the token of a claim | `identity::matrix::rights` |\n", ""),
    ]),
    Mutant("Y3", "a hold covers the consumer of its very name alone", "holds::", [
        ("src/ledger/policies/table.rs", "consumer.starts_with(&**prefix))?.1)", "*consumer == **prefix)?.1)"),
    ]),
    Mutant("Y4", "a right on a longer prefix is enough for a hold of a shorter one", "identity::rights", [
        ("src/identity/rights.rs", "any(|prefix| asked.starts_with(&**prefix))", "any(|prefix| prefix.starts_with(asked))"),
    ]),
    Mutant("Y5", "a hold does not raise the level of the store", "holds::", [
        ("src/store/postgres/holds.rs", "level = greatest(level, $2)", "level = greatest(level, 0 * $2)"),
    ]),
    Mutant("Y6", "a policy of a pattern is taken for one of a consumer", "holds::", [
        ("src/domain/hold.rs", "consumer.ends_with('*')", "consumer.ends_with(\"**\")"),
    ]),
    Mutant("Y7", "a hold is placed while an older server goes on granting", "holds::", [
        ("src/ledger/policies/holds.rs", "older::servers(session, HOLD_LEVEL, reading.now)", "older::servers(session, HOLD_LEVEL - 2, reading.now)"),
    ]),
    Mutant("Y8", "an import has a place from its first instant to its last", "bulk::places", [
        ("src/rpc/admin/service.rs", "answered(async { self.begin_import(request) }).await",
         "answered(async {\n            let caller = auth::caller(request.extensions())?.clone();\n            let open = self.operators.open_operation(caller.principal(), false)?;\n            std::mem::forget(self.operators.place(&open).await?);\n            drop(open);\n            self.begin_import(request)\n        })\n        .await"),
    ]),
    Mutant("Y9", "the principal that was served last is served next", "ledger::operators::places", [
        ("src/ledger/operators/places.rs", "may.min_by_key(|queue| queue.turn)", "may.max_by_key(|queue| queue.turn)"),
    ]),
    Mutant("Y10", "one principal may have all replay runs that others leave free", "replays::runs", [
        ("src/domain/run_limits.rs", ".div_ceil(2)", ".div_ceil(1)"),
    ]),
    Mutant("Y11", "a run with entries is swept as an empty one", "replays::runs", [
        ("src/store/sqlite/replays.rs", "n.name = s.consumer || char(31) || s.name", "n.name = s.consumer || s.name"),
    ]),
    Mutant("Y12", "a redrive keeps its place while it waits for its rate", "bulk::places", [
        ("src/ledger/operators/bulk.rs", "        sleep(self.pace.left(Instant::now())).await;", "        let _early = self.place().await?;\n        sleep(self.pace.left(Instant::now())).await;"),
    ]),
    Mutant("Y13", "a run is closed before the policy epoch is raised", "operators::lock_order", [
        ("src/store/postgres/replays.rs", "        self.raise_policy_epoch().await?;\n        let close = self", "        let close = self"),
        ("src/store/postgres/replays.rs", "        Ok(if closed { WriteResult::Done } else { WriteResult::Lost })", "        self.raise_policy_epoch().await?;\n        Ok(if closed { WriteResult::Done } else { WriteResult::Lost })"),
    ]),
    Mutant("Y14", "a hold is lifted before the policy epoch is raised", "operators::lock_order", [
        ("src/store/postgres/holds.rs", "        self.raise_policy_epoch().await?;\n        let lift = self", "        let lift = self"),
        ("src/store/postgres/holds.rs", "        Ok(if lifted { WriteResult::Done } else { WriteResult::Lost })", "        self.raise_policy_epoch().await?;\n        Ok(if lifted { WriteResult::Done } else { WriteResult::Lost })"),
    ]),
    Mutant("Y15", "all principals are one at the operators' desks", "operators::desk", [
        ("src/ledger/operators/handle.rs", "principal: principal.into() }", "principal: principal[..0].into() }"),
    ]),
    Mutant("FL30", "bytes of streams that were reset count against those that go on", "accounts", [
        ("src/accounts/sweep.rs", "let sum: usize = calls.iter().map(|call| call.state.answer_bytes()).sum();", "let sum: usize = calls.first().map_or(0, |call| call.state.owner.answers.bytes());"),
    ]),
    Mutant("FL31", "refusals that sockets do not take have no bound", "accounts", [
        ("src/accounts/sweep.rs", "if self.headers.bytes() <= max {", "if self.headers.bytes() > 0 || max > 0 {"),
    ]),
    Mutant("FL32", "a connection that ends keeps its refusals in the sum", "accounts", [
        ("src/accounts/connection.rs", "        self.headers_sent(self.header_bytes());\n", ""),
    ]),
    Mutant("FL34", "a refusal counts as sent before HTTP/2 has written it", "listener", [
        ("src/listener/io/write_buffer.rs", "self.account.headers_sent(headers);", "self.account.headers_sent(headers.max(self.account.header_bytes()));"),
    ]),
    Mutant("K80", "a schema of another application is taken as an empty one", "schema::names", [
        ("src/store/postgres/owner.rs", "(true, ..) if others.is_empty() => Whose::Empty,", "(true, ..) if others.len() < usize::MAX => Whose::Empty,"),
    ]),
    Mutant("K81", "migrations are made in the usual schema", "schema::names", [
        ("src/store/postgres/migrate.rs", "let migrations = &name.migrations(migrations);", "let migrations = &SchemaName::default().migrations(migrations);"),
    ]),
    Mutant("K82", "what a string says of the schema is not rendered", "store::postgres::schema_name", [
        ("src/store/postgres/schema_name.rs", "let is_quoted = before.ends_with('\\'') && behind.starts_with('\\'');", "let is_quoted = before.ends_with('\\'') && behind.is_empty();"),
    ]),
    Mutant("FL35", "an owner may hold what others would need", "edge::floods::neighbours::principals_together", [
        ("src/accounts/call.rs", "saturating_add(bytes) <= pool.free(max, self.settles) {", "saturating_add(bytes) <= pool.free(max, self.settles).max(usize::MAX) {"),
    ]),
    Mutant("FL36", "settlements that do not arrive keep their room", "edge::floods::neighbours::requests_that_do_not", [
        ("src/accounts/sweep.rs", "if !self.make_room(calls, false, now) {", "if !self.make_room(calls, false, now) && calls.is_empty() {"),
    ]),
    Mutant("FL37", "requests of principals without a right are read", "identity::limits", [
        ("src/rpc/edge/auth.rs", "self.has(Some(rpc.needs), Whose::Any)", "self.has(Some(rpc.needs), Whose::Any).or(Ok(()))"),
    ]),
    Mutant("FL38", "what a compressed import is unpacked counts nowhere", "edge::memory", [
        ("src/rpc/admin/imports.rs", "tokio::spawn(caller.counted(self.run(sender)))", "tokio::spawn(self.run(sender))"),
        ("src/rpc/admin/imports.rs", "        let caller = self.caller.clone();\n        let taking", "        let taking"),
    ]),
    Mutant("FL39", "trailers of errors are not counted", "accounts", [
        ("src/accounts/answer.rs", "filter(|map| !is_ok(map))", "filter(|map| map.is_empty() && !is_ok(map))"),
    ]),
    Mutant("FL40", "one byte within a second keeps a request's room", "edge::floods::neighbours::requests_that_do_not", [
        ("src/accounts/progress.rs", "const SIGN_BYTES: usize = 16 * 1_024;", "const SIGN_BYTES: usize = 1;"),
    ]),
    Mutant("FL41", "what the system took into its buffer earns time without a byte", "edge::floods::errors::a_socket", [
        ("src/accounts/connection.rs", "if now.wrapping_sub(sweep_state.moved_at.load(Relaxed)) > stall {", "if now.wrapping_sub(sweep_state.moved_at.load(Relaxed)) > u32::MAX - stall {"),
    ]),
    Mutant("FL42", "some addresses take all places of scrapes", "observe::flood::unread", [
        ("src/listener/addresses.rs", "if *count >= self.max.min(free) {", "if *count >= self.max.min(free.saturating_mul(64)) {"),
    ]),
    Mutant("FL33", "refusals count until the connection ends", "listener", [
        ("src/listener/io/write_buffer.rs", "if unsent == 0 {\n            self.account", "if unsent == usize::MAX {\n            self.account"),
    ]),
    Mutant("RS1", "a counter that cannot be read is a loss", "sqlite_file::losses", [
        ("src/store/sqlite/losses.rs", "..0 => counter::read(&self.path).map_err(unavailable)?,", "..0 => counter::read(&self.path).unwrap_or(Counter::Other),"),
        ("src/store/sqlite/losses.rs", "let is_new = matches!(counter::read(path).map_err(unavailable)?, ", "let is_new = matches!(counter::read(path).unwrap_or(Counter::Other), "),
    ]),
    Mutant("RS2", "an attempt that fails uses the acceptance of a loss up", "sqlite_file::losses", [
        ("src/store/sqlite/losses.rs", "let accepts = self.accepts.load(Ordering::SeqCst);", "let accepts = self.accepts.swap(false, Ordering::SeqCst);"),
    ]),
    Mutant("RS3", "two backups write the same copy", "sqlite_file::backups", [
        ("src/store/sqlite/unfinished_file.rs", "match file.try_lock() {", "match file.try_lock().or(Ok(())) {"),
    ]),
    Mutant("RS4", "a backup takes the place of the counter", "sqlite_file::backups", [
        ("src/store/sqlite/backup.rs", "[\"\", WAL, SHM, LOCK, COUNTER]", "[\"\", WAL, SHM, LOCK]"),
    ]),
    Mutant("RS5", "a restore gives what it made to the owner of the folder", "sqlite_file::backups", [
        ("src/store/sqlite/unfinished_file.rs", "        if geteuid().is_root() {\n            chown", "        if geteuid().is_root() || old.is_dir() {\n            chown"),
    ]),
    Mutant("RS6", "a row whose attempts are no number is completed", "damaged::", [
        ("src/store/sqlite/entry_statements.rs", "\" AND typeof(e.attempts) = 'integer' AND e.body", "\" AND e.body"),
    ]),
    Mutant("K20", "an answer is given without a second look at the file", "store::sqlite::file", [
        ("src/store/sqlite/file.rs", "let there = done.is_err() || file.location.check(opened.wal.as_deref()).is_ok();", "let there = true;"),
    ]),
    Mutant("K21", "a file that is mounted by itself is served", "sqlite_file::identity", [
        ("src/store/sqlite/at_path.rs", "mounts.iter().any(|mount| mount.point == path)", "mounts.iter().any(|mount| mount.point == path && path.ends_with(\"-journal\"))"),
    ]),
    Mutant("K22", "a file with two names is served", "sqlite_file::identity", [
        ("src/store/sqlite/at_path.rs", "        if names > 1 {", "        if names > 2 {"),
    ]),
    Mutant("K23", "the counter of heartbeats runs ahead of what is durable", "sqlite_file::losses", [
        (LITE_UPKEEP, "losses.beaten(count).await;", "losses.beaten(count + 1).await;"),
    ]),
    Mutant("K24", "a copy without its counter is no loss", "sqlite_file::losses", [
        ("src/store/sqlite/losses.rs", "Counter::Missing if count == 0 => None,", "Counter::Missing if count >= 0 => None,"),
    ]),
    Mutant("K26", "a claim that waits for a foreign writer is taken for a lost race", "sqlite_file::locked", [
        ("src/store/sqlite/errors.rs", "Some(5) => Fault::Unavailable(", "Some(5) => Fault::Conflict("),
    ]),
    Mutant("K27", "each transaction waits for a foreign writer anew", "sqlite_file::locked", [
        ("src/store/sqlite/file.rs", "let busy_timeout = if foreign { connect::BUSY_TIMEOUT_SHORT }", "let busy_timeout = if foreign { connect::BUSY_TIMEOUT }"),
    ]),
    Mutant("K28", "a restore leaves the WAL of the old file", "sqlite_file::backups", [
        ("src/store/sqlite/unfinished_file.rs", "for end in [WAL, SHM, \"-journal\"] {", "for end in [SHM, \"-journal\"] {"),
    ]),
    Mutant("K29", "a backup is not marked as one", "sqlite_file::backups", [
        ("src/store/sqlite/backup.rs", "mark(&mut connection, MARK).await", "mark(&mut connection, MARK - MARK).await"),
    ]),
    Mutant("K30", "a start waits for a file that it cannot write", "sqlite_file::others", [
        ("src/store/sqlite/errors.rs", "if text.starts_with(READ_ONLY) => {", "if false && text.starts_with(READ_ONLY) => {"),
    ]),
    Mutant("K31", "a WAL that cannot be reset is not reported", "sqlite_file::others", [
        (LITE_UPKEEP, "        self.file.location().watch_wal();\n", ""),
    ]),
    Mutant("K60", "a bulk redrive leaves rows out that cannot be read", "damaged::", [
        ("src/ledger/operators/bulk.rs", "if self.note_unreadable(unreadable).await.is_err() {", "if unreadable.column.is_empty() && self.note_unreadable(unreadable).await.is_err() {"),
    ]),
    Mutant("K61", "a damaged token is granted from", "damaged::", [
        ("src/store/row.rs", "if !leaves_a_higher_one(value) {", "if value < 0 {"),
        ("src/domain/context.rs", "self.next_token(old) >= TOKEN_MAX", "self.next_token(old) < 0"),
    ]),
    Mutant("K62", "a clock from before the release grants", "wrong_clock::", [
        ("src/domain/read/clock.rs", "behind_mark.max(self.limits.earliest.micros().saturating_sub(self.now.micros()))", "behind_mark"),
    ]),
    Mutant("K63", "a heartbeat takes a clock that has jumped for the mark", "wrong_clock::", [
        (LITE_UPKEEP, "    if reading.is_sound() {", "    if !reading.behind() {"),
        (PG_UPKEEP, "c.now + m.token_offset - m.clock_mark <= $7)", "$7 > 0)"),
    ]),
    Mutant("K64", "migrate does not look whom the store serves", "schema::level", [
        ("src/store/postgres/migrate.rs", "still(serves_from, level, newest(migrations))", "still(i32::min(serves_from, 0), level, newest(migrations))"),
        (LITE_CONNECT, "still(serves_from, level, newest(&MIGRATIONS))", "still(serves_from * 0, level, newest(&MIGRATIONS))"),
    ]),
    Mutant("K65", "completions do not look whom the store serves", "schema::level", [
        (PG_ENTRIES, "            \" AND c.serves_from <= \",\n            known!(),\n            \") AS r", "            \" AND 0 * c.serves_from <= \",\n            known!(),\n            \") AS r"),
    ]),
    Mutant("K66", "the gauge of sources counts consumers", "observe::entries", [
        ("src/metrics/entries.rs", "(\"source\", stored.sources)", "(\"source\", stored.consumers)"),
    ]),
    Mutant("K67", "a source per object is no warning", "cli::policy::mistakes", [
        ("src/cli/policy/mistakes.rs", "sources * 2 > sample", "sources > sample"),
    ]),
    Mutant("K68", "the publication for a standby leaves a table out", "schema::replication", [
        ("docs/postgres.md", "    ledger.messages, ledger.handouts;", "    ledger.messages;"),
    ]),
    Mutant("K69", "the publication for readers carries the heartbeats", "schema::replication", [
        ("docs/postgres.md", "CREATE PUBLICATION ledger_entries FOR TABLE ledger.entries;", "CREATE PUBLICATION ledger_entries FOR TABLE ledger.entries, ledger.meta;"),
    ]),
    Mutant("K70", "an owner that rotates owns what it makes", "schema::restored", [
        ("docs/postgres.md", "  ALTER ROLE \"{{name}}\" SET role = 'ledger_migrators';\n", ""),
    ]),
    Mutant("K71", "the row of another key is taken for that of the key", "schema::restored", [
        ("src/store/entries.rs", "Found::Entry(entry) if entry.key != *key => Found::Collision,", "Found::Entry(entry) if entry.version < 0 => Found::Collision,"),
    ]),
    Mutant("K40", "an option that asks for safety is left out with a warning", "reaching::urls", [
        ("src/store/postgres/connection/url_options.rs", "        return Err(format!(\"{name} asks for what the ledger does not do: {}\", option.why));", "        return Ok(Becomes::Warning);"),
    ]),
    Mutant("K41", "a plus in a password of an option is a space", "reaching::urls", [
        ("src/store/postgres/connection/url.rs", "\"password\" => self.login.password = some(value),", "\"password\" => self.login.password = some(value.replace('+', \" \")),"),
    ]),
    Mutant("K42", "the rest of a password that a slash cut is the name of a database", "store::postgres::connection::url", [
        ("src/store/postgres/connection/url.rs", "if is_cut || path.contains('@') || path.starts_with('#') {", "if is_cut {"),
    ]),
    Mutant("K43", "sslmode=require does not look at the authority that is named", "reaching::certificates", [
        ("src/store/postgres/connection/transport.rs", "if is_required && names_root { options.ssl_mode(PgSslMode::VerifyCa) } else { options }", "if is_required && names_root { options.ssl_mode(PgSslMode::Require) } else { options }"),
    ]),
    Mutant("K44", "used-up transaction ids are the fault of a row", "reaching::sqlstates", [
        (ERRORS, "(\"54000\", Some(routine)) if WRAPAROUND.contains(&routine) => return Unavailable,", "(\"54000\", Some(routine)) if WRAPAROUND.contains(&routine) => return Permanent,"),
    ]),
    Mutant("K45", "a table that does not take an update is the fault of a row", "reaching::sqlstates", [
        (ERRORS, "    (\"55\", Unavailable),\n", ""),
    ]),
    Mutant("K46", "a panic of Postgres is a write that was certainly not applied", "store::postgres::errors", [
        (ERRORS, "let is_certain = !matches!(means, Permanent | Unavailable) ||", "let is_certain = !matches!(means, Permanent) ||"),
    ]),
    Mutant("K47", "a database of another encoding is taken", "reaching::databases", [
        (CONNECT, "    if encoding != \"UTF8\" {", "    if encoding == \"SQL_ASCII\" {"),
    ]),
    Mutant("K48", "a template is taken for a database", "reaching::databases", [
        (CONNECT, "    if row.try_get(\"template\").map_err(of_sqlx)? {", "    if row.try_get::<bool, _>(\"template\").map_err(of_sqlx)? && database.is_empty() {"),
    ]),
    Mutant("K49", "a certificate of version 1 is refused without a reason", "reaching::certificates", [
        (ERRORS, "            \"UnsupportedCertVersion\",\n", "            \"UnsupportedCertificateVersion\",\n"),
    ]),
    Mutant("K50", "the client's own certificate is taken for the server's", "reaching::certificates", [
        (ERRORS, "if matches!(error, sqlx::Error::Tls(_)) &&", "if matches!(error, sqlx::Error::Protocol(_)) &&"),
    ]),
    Mutant("K51", "a session ends by the timeout of its role", "reaching::databases", [
        (PG_STATEMENTS, "SET idle_session_timeout = 0; SET timezone", "SET timezone"),
    ]),
    Mutant("K52", "a misspelt variable is passed over in silence", "reaching::variables", [
        ("src/server/config/variables.rs", "let unread = ours.iter().filter(|name| !known.own.contains(*name) &&", "let unread = ours.iter().filter(|name| known.own.contains(*name) &&"),
    ]),
    Mutant("K53", "what Kubernetes puts there for a Service is taken for a misspelt variable", "server::config::variables", [
        ("src/server/config/variables.rs", "name.strip_suffix(\"SERVICE_HOST\")", "name.strip_suffix(\"SERVICE_ADDRESS\")"),
    ]),
    Mutant("K54", "an empty name of a file of settings is taken for a file", "reaching::variables", [
        ("src/server/config/file.rs", "    if path.as_os_str().is_empty() {", "    if path.as_os_str().len() == 1 {"),
    ]),
    Mutant("K55", "a certificate for an unusable key is refused as one that does not fit", "reaching::keys", [
        ("src/identity/tls.rs", "kind.as_ref().filter(|kind| !kind.is_usable())", "kind.as_ref().filter(|kind| !kind.is_usable() && chain.is_empty())"),
    ]),
    Mutant("K56", "nothing warns of Ed25519", "reaching::keys", [
        ("src/server/trust/tls.rs", "        if made.uses_ed25519() {", "        if made.uses_ed25519() && key_path.as_os_str().is_empty() {"),
    ]),
    Mutant("K57", "a byte order mark is a part of a password", "common::secret_file", [
        ("src/common/secret_file.rs", "        _ if line.starts_with('\\u{feff}') =>", "        _ if line.ends_with('\\u{feff}') =>"),
    ]),
    Mutant("K58", "the right that the role of `migrate` lacks is not named", "reaching::databases", [
        ("src/store/postgres/migrate.rs", "const NO_RIGHT: &str = \"42501\";", "const NO_RIGHT: &str = \"42500\";"),
    ]),
    Mutant("K59", "a libpq variable that asks for safety is passed over", "reaching::variables", [
        ("src/store/postgres/connection/url_options.rs", "        if !value.is_empty() && !option.same.contains(&value.as_str()) {", "        if value.is_empty() && option.same.contains(&value.as_str()) {"),
    ]),
    Mutant("RP1", "an option of libpq behind a password is taken for a part of it", "store::postgres::connection::url", [
        ("src/store/postgres/connection/url.rs", "if !is_known(name) && (before ==", "if (before =="),
    ]),
    Mutant("RP2", "an option with an @ is taken for a password that was cut", "reaching::urls", [
        ("src/store/postgres/connection/url.rs", "is_some_and(|(name, _)| is_known(name))", "is_some_and(|(name, _)| name.is_empty())"),
    ]),
    Mutant("RP3", "the name of a host is verified as its address", "store::postgres::connection::url", [
        ("src/store/postgres/connection/url.rs", "if is_renamed && self.is_full() {", "if is_renamed && self.is_full() && self.target.hosts.is_empty() {"),
    ]),
    Mutant("RP4", "several ports of the environment are port 5432", "store::postgres::connection::environment", [
        ("src/store/postgres/connection/environment.rs", "get(\"PGPORT\").filter(|ports| !ports.is_empty())", "get(\"PGPORT\").filter(|ports| ports.parse::<u16>().is_ok())"),
    ]),
    Mutant("RP5", "an empty authority of the environment is the name of a file", "reaching::variables", [
        ("src/store/postgres/connection/environment.rs", "not_empty(variable, Some(&value))?;", "not_empty(variable, Some(&value)).or_else(|why| if variable == ROOT_VARIABLE { Ok(()) } else { Err(why) })?;"),
    ]),
    Mutant("RP6", "a file of the environment that cannot be read is not named", "store::postgres::connection::environment", [
        ("src/store/postgres/connection/target.rs", "options.chain(variables).find_map(", "options.chain(variables.take(0)).find_map("),
    ]),
    Mutant("RP7", "a reserved word names a schema", "schema::names", [
        ("src/store/postgres/schema_name.rs", "if RESERVED.contains(&name) {", "if name == \"order\" {"),
    ]),
    Mutant("RP8", "a word that only newer versions reserve names a schema", "store::postgres::schema_name", [
        ("src/store/postgres/schema_name.rs", " \"system_user\",", " \"system_users\","),
    ]),
    Mutant("RP9", "accept-clock waits for a lock without end", "schema::together", [
        (PG_STATEMENTS, "SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '5s'\";", "SET idle_in_transaction_session_timeout = 0; SET lock_timeout = 0\";"),
    ]),
    Mutant("RP10", "what keeps the clock from being accepted is not named", "schema::together", [
        (PG_UPKEEP, "StoreError::NotApplied(Fault::Locked(text)) => unavailable(", "StoreError::NotApplied(Fault::TimedOut(text)) => unavailable("),
    ]),
    Mutant("RP11", "certificates behind a byte order mark are taken without the first one", "reaching::keys", [
        ("src/identity/certificate.rs", "if let Some(why) = has_mark(pem) {", "if let Some(why) = has_mark(pem).filter(|_| pem.is_empty()) {"),
    ]),
    Mutant("RP12", "a revocation list behind a byte order mark revokes nothing", "identity::tls", [
        ("src/identity/authority.rs", "if let Some(why) = has_mark(revoked) {", "if let Some(why) = has_mark(revoked).filter(|_| revoked.is_empty()) {"),
    ]),
    Mutant("RP13", "a byte order mark amid a file is passed over", "reaching::keys", [
        ("src/identity/key_kind.rs", "_ if bytes.windows(MARKED.len()).any(|part| part == MARKED) => {", "_ if bytes.windows(MARKED.len()).any(|part| part == MARKED && bytes.is_empty()) => {"),
    ]),
    Mutant("RP14", "the timeout of a role ends a statement of migrate", "reaching::databases", [
        (PG_STATEMENTS, "NO_STATEMENT_TIMEOUT: &str = \"SET statement_timeout = 0\"", "NO_STATEMENT_TIMEOUT: &str = \"SELECT 1\""),
    ]),
    Mutant("R18", "a Complete is refused for a large result", "claims::carried", [
        ("src/wire/carried.rs", "            self.corrected(field, format!(\"has {} bytes, at most", "            self.wrong(field, format!(\"has {} bytes, at most"),
    ]),
    Mutant("R19", "a guessed Complete forgets that its result was dropped", "claims::carried", [
        (BATCH, "let result_dropped = *left_out || !policy", "let result_dropped = !policy"),
    ]),
    Mutant("R20", "a redrive keeps that a result was dropped", DIFFERENTIAL, [
        (OPERATE, "    next.result_dropped = false;\n", ""),
    ]),
    Mutant("R21", "a repeat of Complete answers for its own result", "settle_table", [
        (SETTLE, "result_dropped: entry.result_dropped,\n                attempt", "result_dropped: left_out,\n                attempt"),
    ]),
    Mutant("R22", "a large checkpoint replaces the old one by nothing", "claims::carried", [
        ("src/wire/convert.rs", "        checkpoint_dropped: sent.is_some() && checkpoint.is_none(),\n        checkpoint,\n",
         "        checkpoint_dropped: sent.is_some() && checkpoint.is_none(),\n        checkpoint: checkpoint.or(sent.map(|_| Bytes::new())),\n"),
    ]),
    Mutant("R23", "a dropped result is read as none", "stores::completions", [
        ("src/store/results.rs", "column.is_some_and(<[u8]>::is_empty)", "column.is_some_and(|bytes| bytes.len() == usize::MAX)"),
    ]),
    Mutant("R24", "a refused request is counted by a name on which its caller has no right", "identity::refused_fields", [
        ("src/rpc/ledger.rs", "caller.may(&malformed.consumer)", "caller.may(&malformed.consumer) || true"),
    ]),
    Mutant("R25", "refused names take the places of series", "identity::refused_fields", [
        ("src/metrics/consumers/malformed.rs", "consumer.is_empty() || named() == NamedBy::ByClient", "consumer.is_empty() || (named() == NamedBy::ByClient && false)"),
    ]),
    Mutant("R26", "what was left out is not counted", "observe::fields", [
        ("src/ledger/noted.rs", "            self.inner.metrics.corrected(&corrected.field);\n", "            let _ = &corrected.field;\n"),
    ]),
    Mutant("R27", "an unset consumer dead-letters its messages", "limits::", [
        ("src/wire/errors.rs", "Some(\"source\" | \"id\")", "Some(\"source\" | \"id\" | \"consumer\")"),
    ]),
    Mutant("R28", "a suppressing run acknowledges under a hold", "replays::", [
        (PRECONDITIONS, "policy.holds_back().then_some(", "(policy.holds_back() && policy.run == Standing::Live).then_some("),
    ]),
    Mutant("R29", "the settlement of a mistyped run raises an alarm", "settle_table", [
        (SETTLE, "let mistyped_run = key.is_of_run() &&", "let mistyped_run = false && key.is_of_run() &&"),
    ]),
    Mutant("R30", "a claim_id may have any variant", "limits::", [
        ("src/wire/fields.rs", " && id.get_variant() == Variant::RFC4122 => {", " => {"),
    ]),
    Mutant("R31", "durations are rounded", "limits::", [
        ("src/wire/fields.rs", "if value.nanos % 1_000 != 0 {", "if value.nanos % 1_000 > 1_000 {"),
    ]),
    Mutant("R32", "an unpinned fingerprint is compared", "claims::unpin", [
        (CLAIM, "        && !entry.unpinned\n", ""),
    ]),
    Mutant("R33", "Complete leaves the fingerprint unpinned", "settle_table", [
        (SETTLE, "    next.unpinned = false;\n    let result_dropped", "    let result_dropped"),
    ]),
    Mutant("R34", "a possible effect lets the fingerprint go", "settle_table", [
        (SETTLE, "\n        && !entry.effect_unknown\n        && entry.checkpoint.is_empty()", "\n        && entry.checkpoint.is_empty()"),
    ]),
    Mutant("R35", "the next grant keeps the unpinned fingerprint", "claims::unpin", [
        (CLAIM, "    if next.unpinned {\n        next.fingerprint = Bytes::new();\n", "    if next.unpinned {\n"),
    ]),
    Mutant("R36", "a delay beyond its bound is taken as it is", "claims::carried", [
        ("src/wire/carried.rs", "nanos(value).clamp(0, DELAY_MAX)", "nanos(value).max(0).min(DELAY_MAX * 2)"),
    ]),
    Mutant("R37", "a repeat of Release unpins what the first one kept", "settle_table", [
        (SETTLE, "(entry.state, entry.unpinned, entry.releases_in_a_row());", "(entry.state, unpin, entry.releases_in_a_row());"),
    ]),
    Mutant("R38", "a guessed Complete does not look at its policy's bound", "claims::carried", [
        (BATCH, "let result_dropped = *left_out || !policy.stores_result(result.len());", "let result_dropped = *left_out;"),
    ]),
    Mutant("R39", "a loaded Complete does not look at its policy's bound", "claims::carried", [
        (SETTLE, "let result_dropped = left_out || !context.policy.stores_result(result.len());", "let result_dropped = left_out;"),
    ]),
    Mutant("R40", "the readable wait is rounded down", "wire::errors", [
        ("src/wire/errors.rs", "wait.as_micros().div_ceil(1_000)", "(wait.as_micros() / 1_000)"),
    ]),
    Mutant("HD1", "a name in JSON that no field has is skipped", "door::calls", [
        ("src/rpc/door/json.rs", "DynamicMessage::deserialize(message.clone(), tracked);", "DynamicMessage::deserialize_with_options(message.clone(), tracked, &prost_reflect::DeserializeOptions::new().deny_unknown_fields(false));"),
    ]),
    Mutant("HD2", "both names of one field may stand in an object", "rpc::door", [
        ("src/rpc/door/json.rs", "name.replace('_', \"\").to_ascii_lowercase()", "name.to_string()"),
    ]),
    Mutant("HD3", "a page can post JSON as a text", "door::safety", [
        ("src/rpc/door/head.rs", "\"application/json\" => Some(Codec::Json),", "\"application/json\" | \"text/plain\" => Some(Codec::Json),"),
    ]),
    Mutant("HD4", "hosts are judged where callers are known, and not where they are anonymous", "door::safety", [
        ("src/rpc/door/mod.rs", "(!self.guard.trust().knows_anybody()).then_some", "self.guard.trust().knows_anybody().then_some"),
    ]),
    Mutant("HD5", "a request may have a length and a coding", "door::smuggling", [
        ("src/listener/protocol/http1_heads.rs", "        _ => bad(\"a request must have one Content-Length", "        (_, [_, ..]) => Ok(Body::Chunked),\n        _ => bad(\"a request must have one Content-Length"),
    ]),
    Mutant("HD6", "a request may have two equal lengths", "door::smuggling", [
        ("src/listener/protocol/http1_heads.rs", "([length], []) => match", "([length, ..], []) => match"),
    ]),
    Mutant("HD7", "the name in the first line of a request is not judged", "rpc::door", [
        ("src/rpc/door/hosts.rs", "request.uri.authority().map(", "request.uri.authority().filter(|_| request.headers.is_empty()).map("),
    ]),
    Mutant("HD8", "a wait is rounded down", "rpc::door", [
        ("src/rpc/door/advice.rs", "wait.as_nanos().div_ceil(1_000_000)", "(wait.as_nanos() / 1_000_000)"),
    ]),
    Mutant("HD9", "a timeout of gRPC counts at the HTTP door", "door::calls", [
        ("src/rpc/door/head.rs", "name.starts_with(\"grpc-\") || name.starts_with", "name.starts_with"),
    ]),
    Mutant("HD10", "a bare message has no bound", "accounts", [
        ("src/accounts/request_body.rs", "shape == Shape::Bare { message_bytes_max }", "shape == Shape::Bare { usize::MAX }"),
    ]),
    Mutant("HD11", "operators are offered at the consumers' HTTP port in any case", "door::safety", [
        ("src/rpc/mod.rs", "&offered.services()", "&Offered::Both.services()"),
    ]),
    Mutant("HD12", "credentials are left at the HTTP door", "identity::matrix::door", [
        ("src/rpc/door/head.rs", "[http::header::TE,", "[http::header::AUTHORIZATION, http::header::TE,"),
    ]),
    Mutant("HD13", "the connection goes on behind a body without a length", "door::smuggling", [
        ("src/rpc/door/mod.rs", "if http1 && !keep {", "if http1 && !keep && headers.is_empty() {"),
    ]),
    Mutant("HD14", "an answer may be kept by intermediaries", "door::calls", [
        ("src/rpc/door/mod.rs", "HeaderValue::from_static(\"no-store\")", "HeaderValue::from_static(\"private\")"),
    ]),
    Mutant("HD15", "a verdict's advice stands in its body alone", "door::calls", [
        ("src/rpc/door/translate.rs", "written.advised.insert(&mut head.headers);", "drop(written.advised);"),
    ]),
    Mutant("LK1", "a Lookup finds an expired claim parked", "claim_table", [
        (LOOKUP, "State::InProgress => Some(claim::held(entry, context)),", "State::InProgress if entry.expired(context.now) => Some(claim::parked(entry, super::ParkCause::LeaseExpired, false)),\n        State::InProgress => Some(claim::held(entry, context)),"),
    ]),
    Mutant("LK2", "a Lookup takes of its consumer's quota", "lookups", [
        ("src/ledger/mod.rs", "if matches!(command, Command::Lookup) { Ok(())", "if matches!(command, Command::Settle(..)) { Ok(())"),
    ]),
    Mutant("LK3", "a Lookup is held back by what holds grants back", "lookups", [
        (LOOKUP, "    let answer = without_entry(context.policy)", "    if let Some(reason) = super::preconditions::held_back(context.policy, context.now) {\n        return Decision::read(Err(refusal(reason)));\n    }\n    let answer = without_entry(context.policy)"),
    ]),
    Mutant("LK4", "of a full queue Lookups are refused no earlier than Claims", "ledger::claims::queue", [
        (LANE, "Lane::Lookup => 8,", "Lane::Lookup => 10,"),
    ]),
    Mutant("LK5", "a Lookup in a run that suppresses effects is refused", DIFFERENTIAL, [
        (LOOKUP, "Standing::Known { mode: RunMode::Suppress, .. } => Some(Ok(found(NOTHING))),", "Standing::Known { mode: RunMode::Suppress, .. } => Some(Err(refusal(Reason::ReplayRunClosed))),"),
    ]),
    Mutant("LK6", "an answer to many Lookups leaves no result out", "lookups", [
        ("src/wire/fit.rs", "            leave_out(completed);\n        }\n    };", "            completed.result_omitted = false;\n        }\n    };"),
    ]),
    Mutant("LK7", "a Lookup says that a pinned fingerprint was compared", DIFFERENTIAL, [
        (CLAIM, "!entry.fingerprint.is_empty() && presented;", "!entry.fingerprint.is_empty() && (presented || claim.is_none());"),
    ]),
    Mutant("LK8", "a Lookup of a consumer that is not registered is answered", "lookups", [
        ("src/ledger/mod.rs", "if matches!(command, Command::Settle(..)) {\n            return Ok(());", "if matches!(command, Command::Settle(..) | Command::Lookup) {\n            return Ok(());"),
    ]),
    Mutant("DE1", "a repeat of a superseded Complete is marked again", "settle_table", [
        ("src/domain/entry.rs", "past.outcome != ClosedBy::Complete && !past.reported_done", "past.outcome != ClosedBy::Complete"),
    ]),
    Mutant("DE2", "an attempt that ended by Complete is marked", DIFFERENTIAL, [
        ("src/domain/entry.rs", "past.token == Some(token) && past.outcome != ClosedBy::Complete && !past.reported_done", "past.token == Some(token) && !past.reported_done"),
    ]),
    Mutant("DE3", "a mark changes when the entry was changed, and for how long it is kept", "claims::doubled", [
        ("src/domain/decide.rs", "if decision.answer.is_ok() {", "if decision.answer.is_ok() || decision.answer.is_err() {"),
    ]),
    Mutant("DE4", "a mark that cannot be written fails the answer", "faults::marks", [
        (BATCH, "if let Some(refused) = key_queue.head.refused.take() {", "if let Some(refused) = key_queue.head.refused.take().filter(|_| false) {"),
    ]),
    Mutant("DE5", "a guessed Complete on Postgres does not look for marks", "claims::doubled", [
        (PG_ENTRIES, "doubled = CASE WHEN e.superseded_completes > 0", "doubled = CASE WHEN e.superseded_completes > 1"),
    ]),
    Mutant("DE6", "a guessed Complete on SQLite does not look for marks", "claims::doubled", [
        (LITE_STATEMENTS, "doubled = CASE WHEN superseded_completes > 0", "doubled = CASE WHEN superseded_completes > 1"),
    ]),
    Mutant("DE7", "a batch of usual completions says nothing of the marks that they met", "claims::doubled", [
        (PG_ENTRIES, "WHERE d.late OR d.attempts <> 1 OR d.doubled OR", "WHERE d.late OR d.attempts <> 1 OR"),
    ]),
    Mutant("DE8", "a mark waits for a locked row", "faults::marks", [
        (FAILURES, "            .and_then(without_refused)\n            .and_then(|key_queue| self.shared", "            .and_then(|key_queue| self.shared"),
    ]),
    Mutant("DE9", "the history forgets the tokens", "stores::", [
        ("src/store/history.rs", "            t: one.token,\n", "            t: one.token.filter(|_| false),\n"),
    ]),
    Mutant("DE10", "the list of doubled effects shows all entries", "claims::doubled", [
        ("src/store/postgres/listing.rs", "\"list_doubled_oldest\", \" AND e.doubled\"", "\"list_doubled_oldest\", \"\""),
    ]),
    Mutant("DE11", "a holder that repeats its Complete is an alarm", "claims::doubled", [
        (BATCH, "*doubled &= second_try || !*replayed,", "*doubled &= second_try || !*replayed || *doubled,"),
    ]),
    Mutant("DE12", "a parking is counted again with each delivery", "metrics::tests::by_type", [
        ("src/metrics/answers.rs", "Verdict::Parked { cause, newly: true, .. }", "Verdict::Parked { cause, .. }"),
    ]),
    Mutant("DE13", "held claims and replays are counted without their event type", "metrics::tests::by_type", [
        ("src/metrics/consumers.rs", "if is_there && consumer.has(event_type) {", "if is_there && consumer.has(event_type) && false {"),
    ]),
    Mutant("DE14", "a policy is set without a word of what lint finds", "cli::policies", [
        ("src/cli/policy/set.rs", "        if let Some(policy) = would_be {", "        if let Some(policy) = would_be.filter(|_| false) {"),
    ]),
    Mutant("DE15", "a mark says that an earlier try was certainly not applied", "faults::", [
        (CLAIMS_FOLD, "(folded.wrote, request.unknown, &folded.answer)", "(folded.wrote, 0, &folded.answer)"),
    ]),
    Mutant("ON1", "the repeat of an unanswered Claim has another claim_id", "cli::once::windows", [
        (f"{ONCE}/grant.rs", "client.request(request.clone()));\n        async move { ledger.claim", "client.request(ClaimRequest { claim_id: retry::id(), ..request.clone() }));\n        async move { ledger.claim"),
    ]),
    Mutant("ON2", "a confirmed renewal does not prolong the lease", "cli::once::lease", [
        (f"{ONCE}/lease.rs", "                until = sent + lease;\n", ""),
    ]),
    Mutant("ON3", "an output that was left out is taken for the answer", "cli::once::outputs", [
        (f"{ONCE}/settle.rs", "result_left_out: result.is_none(),", "result_left_out: false,"),
    ]),
    Mutant("ON4", "a command that exits with 75 is taken for the ledger's later", "cli::once::ended", [
        (f"{ONCE}/exit.rs", "if [DEAD_LETTER, LATER].contains(&code)", "if code == DEAD_LETTER"),
    ]),
    Mutant("ON5", "an output that the ledger dropped has no note", "cli::once::outputs", [
        (f"{ONCE}/settle.rs", "!answer.result_dropped", "answer.advice == 1"),
    ]),
    Mutant("ON6", "a second signal ends nothing", "cli::once::signals", [
        (f"{ONCE}/signals.rs", "self.received >= 2", "self.received >= 3"),
    ]),
    Mutant("ON7", "an announced effect is repeated unasked", "cli::once::ended", [
        (f"{ONCE}/mod.rs", "prior_effect_started && !self.repeat_announced", "prior_effect_started && self.repeat_announced"),
    ]),
    Mutant("ON8", "a refused result loses the completion", "cli::once::outputs", [
        (f"{ONCE}/settle.rs", "if is_sent && is_refused", "if !is_sent && is_refused"),
    ]),
    Mutant("ON9", "an unconfirmed Complete exits with 0", "cli::once::outputs", [
        (f"{ONCE}/mod.rs", "                LATER\n            }\n        }\n    }\n", "                DONE\n            }\n        }\n    }\n"),
    ]),
    Mutant("ON13", "the line of addresses has the ports that were asked for", "process::ephemeral", [
        ("src/server/serve.rs", "http_listen: address_of(listeners.http.as_ref()),", "http_listen: config.http.listen.address(),"),
    ]),
    Mutant("DO1", "a corrected request is another body", "door::middleware", [
        (HTTP_MIDDLEWARE, '("Release", {"unpinFingerprint": True})', '("Release", {})'),
    ]),
    Mutant("DO2", "an answer after an announced effect frees the key", "door::middleware", [
        (HTTP_MIDDLEWARE, "if status in NO_EFFECT and not held.announced:", "if status in NO_EFFECT:"),
    ]),
    Mutant("DO3", "an effect that was announced is repeated", "door::middleware", [
        (HTTP_LEDGER, "        if held.may_have_happened:", "        if held.announced:"),
    ]),
    Mutant("DO4", "an answer that is too large loses its status", "door::middleware", [
        ("examples/http/answers.py", "    if len(result) > most:", "    if len(result) > 100 * most:"),
    ]),
    Mutant("DO5", "a client that goes away interrupts the effect", "door::middleware", [
        (HTTP_LEDGER, "await asyncio.shield(working)", "await working"),
    ]),
    Mutant("DO6", "a claim is not renewed", "door::middleware", [
        (HTTP_LEDGER, "                await self.renew()\n        except", "                self.until += 1\n        except"),
    ]),
    Mutant("DO7", "without the ledger the effect happens unasked", "door::middleware", [
        (HTTP_MIDDLEWARE, "            return problem(503, str(error), error.after)", "            return await called(self.app, scope, receive, body)"),
    ]),
    Mutant("DO8", "credentials are left at the HTTP door by HTTP/1.1 alone", "identity::matrix::door", [
        ("src/rpc/door/mod.rs", "        head::as_grpc(&mut head.headers);\n", "        head::as_grpc(&mut head.headers);\n        if http1 {\n            head.headers.remove(http::header::AUTHORIZATION);\n        }\n"),
    ]),
    Mutant("DO9", "half of a second head has no end", "edge::floods::door", [
        ("src/listener/protocol/http1_heads.rs", "const HEAD_WITHIN: Duration = Duration::from_secs(5);", "const HEAD_WITHIN: Duration = Duration::from_secs(500);"),
    ]),
    Mutant("DO10", "HTTP has places of its own", "door::safety", [
        ("src/rpc/mod.rs", "by_http(listener, &permits, offered)", "by_http(listener, &ConnectionPermits::new(options.connections_max, options.connections), offered)"),
    ]),
    Mutant("DO11", "a client of HTTP/1.1 that takes no bytes keeps its connection", "edge::floods::door", [
        ("src/accounts/sweep.rs", "if connection.is_blocked(now, stall) {", "if connection.is_blocked(now, stall) && connection.open.is_none() {"),
    ]),
    Mutant("DO12", "a Lookup counts an attempt that was given back", "proof::live::suites::histories", [
        (LOOKUP, "attempt: entry.attempts, verdict", "attempt: entry.attempts.max(1), verdict"),
    ]),
    Mutant("DO13", "a database in memory ends with its first connection", "process::ephemeral", [
        ("src/store/sqlite/location.rs", "                if kept_open.is_none() {", "                if kept_open.is_some() {"),
    ]),
    Mutant("DO14", "a Lookup finds nothing of a claim that has expired", "proof::live::suites::histories", [
        (LOOKUP, "        State::InProgress => Some(claim::held(entry, context)),", "        State::InProgress if entry.expired(context.now) => return NOTHING,\n        State::InProgress => Some(claim::held(entry, context)),"),
    ]),
    Mutant("WT1", "no other call looks where the first one is granted nothing", "ledger::waiting", [
        ("src/ledger/waiting/line.rs", "        self.waiters.retain(|waiter| waiter.seat != seat);\n        self.next()", "        self.waiters.retain(|waiter| waiter.seat != seat);\n        Vec::new()"),
    ]),
    Mutant("WT2", "a repeat that waits is not told its own grant", "ledger::waiting", [
        ("src/ledger/waiting/line.rs", "WaiterKind::Claims(claimant) if claimant == holder)", "WaiterKind::Claims(claimant) if claimant == holder && polled)"),
    ]),
    Mutant("WT3", "all calls look when the holder fails", "ledger::waiting", [
        ("src/ledger/waiting/line.rs", "        self.claimable = true;\n        self.next()", "        self.claimable = true;\n        self.call_all(|waiter| waiter.who != WaiterKind::LooksUp)"),
    ]),
    Mutant("WT4", "what a look found counts, though the holder failed since", "ledger::waiting", [
        ("src/ledger/waiting/line.rs", "Looked::Held if !again && !outdated =>", "Looked::Held if !again || outdated =>"),
    ]),
    Mutant("WT5", "each key is polled ten times a second for ever", "ledger::waiting", [
        ("src/ledger/waiting/polls.rs", "plan.every = (plan.every * 2).min(LAST);", "plan.every = plan.every.min(LAST);"),
    ]),
    Mutant("WT6", "a backoff that goes on for longer than the wait is awaited", "domain::waiting", [
        ("src/domain/waiting.rs", "Verdict::Backoff { retry_after, .. } if *retry_after <= left =>", "Verdict::Backoff { retry_after, .. } if *retry_after >= Span::ZERO =>"),
    ]),
    Mutant("WT7", "a consumer takes all places of calls that wait", "ledger::waiting", [
        ("src/ledger/waiting/places.rs", "            && fits(&self.consumers, consumer)\n", ""),
    ]),
    Mutant("WT8", "a call that waits keeps what it holds of its principal", "waiting::account", [
        ("src/accounts/call.rs", "        if self.resting.rests.swap(true, Relaxed) {", "        if self.resting.rests.load(Relaxed) || self.number.is_some() {"),
    ]),
    Mutant("WT9", "credential and right are judged when the call arrives alone", "waiting::account", [
        ("src/rpc/waiting.rs", "        let again = self.caller.checked_again()?;\n", "        let again = self.caller.clone();\n"),
    ]),
    Mutant("WT10", "each look takes of the consumer's quota", "waiting::account", [
        ("src/ledger/submit_waiting.rs", "self.ledger.registered(key.consumer(), &OnceLock::new())?;", "self.ledger.admit(self.submission, &OnceLock::new())?;"),
    ]),
    Mutant("WT11", "calls that wait take all streams of a connection", "waiting::bounds", [
        ("src/accounts/connection.rs", "STREAMS_MAX as usize / 2", "STREAMS_MAX as usize"),
    ]),
    Mutant("WT12", "calls of HTTP/1.1 that wait take all connections", "waiting::bounds", [
        ("src/rpc/edge/auth.rs", "self.http1.then_some(&self.origin.http_waits)", "(!self.http1).then_some(&self.origin.http_waits)"),
    ]),
    Mutant("WT13", "a server that drains waits for the calls that wait", "waiting::crowd", [
        ("src/ledger/mod.rs", "        self.inner.room.drain();\n", ""),
    ]),
    Mutant("WT14", "what another server changed is not looked at", "waiting::replicas", [
        ("src/ledger/waiting/poller.rs", "            self.room.polled(key.hash(), &sight);\n", "            let _seen = sight;\n"),
    ]),
    Mutant("WT15", "the calls of a settled key look one by one", "waiting::", [
        ("src/ledger/waiting/room.rs", "(seats.len() > 1).then(", "(seats.len() > 10_000).then("),
    ]),
    Mutant("WT16", "a call whose wait ends when it is called keeps the others of its batch waiting", "ledger::waiting", [
        ("src/ledger/waiting/call.rs", "(seated.called.try_recv().ok().flatten(), true)", "(None, true)"),
    ]),
    Mutant("WT17", "a backoff that begins during the wait is answered when the wait is over", "waiting::", [
        ("src/ledger/waiting/room.rs", "call.until < due", "call.until < tokio::time::Instant::now()"),
    ]),
    Mutant("WT18", "a mark moves the instant at which a key is due", "ledger::waiting", [
        ("src/ledger/waiting/room.rs", "sight(Some(entry), now)", "sight(Some(entry), entry.updated_at.min(now))"),
    ]),
    Mutant("WT19", "the deadline of a call counts from the end of its request", "waiting::account", [
        ("src/rpc/edge/layer.rs", "caller.admitted(&call, deadline, http1)", "caller.admitted(&call, deadline + Duration::from_secs(1), http1)"),
    ]),
    Mutant("WT20", "a look is another claim than its call", "proof::live::suites::histories", [
        ("src/ledger/submit_waiting.rs", "        let request = Request::new(command.clone(),", "        let mut command = command.clone();\n        if let crate::domain::Command::Claim(claim) = &mut command {\n            claim.claimant.claim_id = uuid::Uuid::from_u128(claim.claimant.claim_id.as_u128() ^ 1);\n        }\n        let request = Request::new(command,"),
    ]),
    Mutant("WT21", "`entries lookup` does not wait", "cli::lookup", [
        ("src/cli/entries/lookup.rs", "wait: Some(duration(wait)) }", "wait: Some(duration(wait * 0)) }"),
    ]),
    Mutant("WT22", "a row that cannot be read is not reported to a Lookup that waits", "waiting::replicas", [
        ("src/ledger/waiting/poller.rs", "Err(_) => Sight::Settled,", "Err(_) => Sight::Claimable,"),
    ]),
    Mutant("WT23", "a repeat of a request in progress does not wait", "door::middleware", [
        (HTTP_LEDGER, ', "wait": f"{self.wait}s"}', "}"),
    ]),
    Mutant("WT24", "a lease counts from the call that has waited for it", "door::middleware", [
        (HTTP_LEDGER, "if answered > begun + (held.until - begun) / 3:", "if answered > begun + 1_000:"),
    ]),
    Mutant("RL1", "a Lookup among Claims of a held row is refused", "faults::held", [
        (FAILURES, "let (lookups, writers) = key_queue.split(|request| matches!(request.command, Command::Lookup));", "let (lookups, writers) = (None::<KeyQueue>, Some(key_queue));"),
    ]),
    Mutant("RL2", "a clock before the release is shown as sound", "wrong_clock", [
        (TOKEN_OFFSET_RPC, "behind: some(reading.behind_by()),", "behind: some(reading.mark.saturating_sub(reading.token_clock())),"),
    ]),
    Mutant("RL3", "the offset is raised where it does not help", "wrong_clock", [
        ("src/domain/token_offset.rs", "if reading.before_release() {", "if false {"),
    ]),
    Mutant("RL4", "a clock that has jumped is shown as its mark", "wrong_clock", [
        (TOKEN_OFFSET_RPC, "shown(StoreTime(reading.mark))", "shown(StoreTime(reading.mark.max(reading.token_clock())))"),
    ]),
    Mutant("RL5", "`tokens show` calls a clock sound that has jumped", "cli::tokens", [
        ("src/cli/tokens.rs", "now.behind.is_none() && now.ahead.is_none()", "now.behind.is_none()"),
    ]),
    Mutant("RL6", "rows that cannot be read are listed beyond the limit", "cli::damaged", [
        (CLI_LIST, "while more && readable + unreadable < limit {", "while more && readable < limit {"),
        (CLI_LIST, "let left = limit - readable - unreadable;", "let left = limit - readable;"),
    ]),
    Mutant("RL15", "the last page of rows that cannot be read is not cut at the limit", "cli::damaged", [
        (CLI_LIST, "            page.unreadable.truncate(left - page.entries.len());\n", ""),
    ]),
    Mutant("RL7", "a list of rows that cannot be read goes on without a reader", "cli::damaged", [
        (CLI_LIST, "    let output = client.output.listing();\n    if output.json() {\n        let line", "    let output = client.output;\n    if output.json() {\n        let line"),
    ]),
    Mutant("RL8", "a damaged token is called too recent", "damaged", [
        ("src/domain/delete_unreadable.rs", "shown.saturating_add(AHEAD_MAX.micros())", "shown.saturating_add(i64::MAX)"),
    ]),
    Mutant("RL9", "a Lookup that is refused for its fields is not counted", "lookups", [
        ("src/metrics/consumers/malformed.rs", "CommandKind::Lookup => self.of_lookups(consumer).count_lookup(LOOKUP_REJECTED),", "CommandKind::Lookup => self.of_lookups(consumer).count_lookup(usize::MAX),"),
    ]),
    Mutant("RL10", "a start waits for a file that is not a database", "process::odd", [
        ("src/store/sqlite/errors.rs", "Some(26) =>", "Some(1_026) =>"),
    ]),
    Mutant("RL11", "a misspelt variable is taken for one of another command", "process::odd", [
        ("src/server/config/variables.rs", "nearest: nearest(&known.own, name),", "nearest: nearest(&known.all, name),"),
    ]),
    Mutant("RL12", "a closed terminal ends a start", "process::odd", [
        ("src/server/signals.rs", "let mut hangup = listen(SignalKind::hangup())?;\n                drop(", "let mut hangup = listen(SignalKind::user_defined1())?;\n                drop("),
    ]),
    Mutant("RL13", "an answer that cannot be written is a success", "process::odd", [
        ("src/server/telemetry.rs", "Err(error) if error.kind() != ErrorKind::BrokenPipe => {", "Err(error) if error.kind() == ErrorKind::Other => {"),
    ]),
    Mutant("RL14", "the number of notices that were held back is lost", "process::log", [
        ("src/server/bounded_lines.rs", "let Some(held_back) = turn.logged() else", "let Some(held_back) = turn.logged().filter(|_| false) else"),
    ]),
    Mutant("RG1", "a page of several states shows what lies beyond the end of one of them", "queries::walks", [
        ("src/store/postgres/listing.rs", "WHERE l.fits AND (d.key IS NULL OR ", "WHERE l.fits AND (true OR "),
    ]),
    Mutant("RG2", "the same on SQLite", "queries::walks", [
        ("src/store/sqlite/listing.rs", "looked.retain(|(at, key, _)| is_within((*at, *key)));", "looked.retain(|(at, key, _)| is_within((*at, *key)) || true);"),
    ]),
    Mutant("RG3", "a page looks at all entries", "queries::walks", [
        ("src/store/query.rs", "const LOOKED_AT_MAX: i64 = 1_000;", "const LOOKED_AT_MAX: i64 = 1_000_000;"),
    ]),
    Mutant("RG4", "the terms of each open claim are looked up", "proof::rows::bounded", [
        ("src/store/postgres/counting.rs", "THEN e.lease_until + (g.by_terms ->> e.terms::text)::bigint END", "THEN e.lease_until + (SELECT t.grace FROM ledger.terms t WHERE t.no = e.terms) END"),
    ]),
    Mutant("RG5", "a summary counts all that is open", "proof::rows::bounded", [
        ("src/store/postgres/counting.rs", "::smallint ORDER BY e.created_at, e.key LIMIT $3::bigint + 1)", "::smallint ORDER BY e.created_at, e.key LIMIT $3::bigint + 1000000)"),
    ]),
    Mutant("RG6", "a count that was cut is reported as whole", "queries::walks", [
        ("src/rpc/admin/summary.rs", "at_least: count.at_least,", "at_least: false,"),
    ]),
    Mutant("RG7", "a redrive of many takes a count that was cut for all", "queries::walks", [
        ("src/ledger/operators/bulk.rs", "if count.at_least { i64::MAX }", "if count.at_least && false { i64::MAX }"),
    ]),
    Mutant("RG8", "a search that was not finished reports that there is nothing", "cli::searches", [
        (CLI_LIST, "if more && readable + unreadable < limit {", "if more && readable + unreadable > limit {"),
    ]),
    Mutant("RG9", "a search for an id goes on to the end", "cli::searches", [
        (CLI_LIST, "const INCOMPLETE_MAX: usize = 10;", "const INCOMPLETE_MAX: usize = 10_000;"),
    ]),
    Mutant("UB1", "a full queue refuses settlements unread", "claims::unread", [
        (CODEC, "if call.rpc() != BATCH_CLAIM || !fields.whole {", "if !fields.whole {"),
    ]),
    Mutant("UB2", "a batch that is cut off is refused as one too many", "claims::unread", [
        (CODEC, "if call.rpc() != BATCH_CLAIM || !fields.whole {", "if call.rpc() != BATCH_CLAIM {"),
    ]),
    Mutant("UB3", "a batch of claims is decoded, room or not", "claims::unread", [
        (CODEC, "(server.room_for_claims)(fields.items)", "(server.room_for_claims)(0)"),
    ]),
    Mutant("UB4", "claims are refused unread for which a new consumer finds room", "ledger::claims::queue", [
        (QUEUE, "let small = |_: &Waiting| commands <= small_backlog_max(self.commands_max);", "let small = |_: &Waiting| commands > self.commands_max;"),
    ]),
    Mutant("UB5", "fields that the decoder leaves out count as items", "accounts::fields", [
        ("src/accounts/fields.rs", "    Some(tag == ITEMS)\n", "    Some(tag <= 5)\n"),
    ]),
    Mutant("UB6", "of a batch that is refused unread one item is counted", "claims::unread", [
        (CODEC, "server.metrics.all_refused(refused, fields.items)", "server.metrics.all_refused(refused, 1)"),
    ]),
    Mutant("SP1", "a claim looks its entry up a second time", "counts", [
        (PG_ENTRIES, "          FROM clock c WHERE c.may_write) AS r\",", "          FROM clock c WHERE c.may_write) AS r\n    WHERE (SELECT count(*) FROM ledger.entries x WHERE x.key = r.key) >= 0\","),
    ]),
    Mutant("SP2", "an entry has a column more, of eight bytes", "counts", [
        (PG_SCHEMA, "    token                bigint NOT NULL,\n    lease_until ", "    token                bigint NOT NULL,\n    inserted_at          timestamptz NOT NULL DEFAULT now(),\n    lease_until "),
    ]),
    Mutant("SP3", "entries have an index more", "counts", [
        (PG_SCHEMA, "CREATE INDEX entries_by_consumer ON", "CREATE INDEX entries_by_source ON ledger.entries (source, created_at);\nCREATE INDEX entries_by_consumer ON"),
    ]),
    Mutant("SP4", "a request is copied that could be moved", "counts of the server", [
        ("src/wire/convert.rs", "    let key = fields.own_key(request.key);\n    let claim_id = fields.claim_id(&request.claim_id);", "    let key = fields.own_key(request.key.clone());\n    let claim_id = fields.claim_id(&request.claim_id);"),
    ]),
    Mutant("SP5", "the signature of a web token is verified with each call", "counts of the server", [
        ("src/identity/authenticator.rs", "&& constant_time_eq(last.as_bytes(), header.as_bytes())", "&& constant_time_eq(last.as_bytes(), b\"\")"),
        ("src/identity/guard.rs", "verified.get(&hash).filter(|(_, until)| now < *until)", "verified.get(&hash).filter(|(_, until)| *until == 0)"),
    ]),
    Mutant("BA1", "a request beyond its principal's share leaves its bytes with the server", "identity::limits", [
        (CALL_ACCOUNT, "            self.put_back_to_server(bytes);\n            Err(match", "            Err(match"),
    ]),
    Mutant("BA2", "a refused request leaves its bytes with its connection", "identity::limits", [
        (CALL_ACCOUNT, "Err(_) => drop(connection.requests.put_back(bytes)),", "Err(_) => {}"),
    ]),
    Mutant("BA3", "a call beyond the rate of its principal counts as one under way for ever", "identity::limits", [
        (CALL_ACCOUNT, "            self.counts = counts;\n            self.rate()?;", "            self.rate()?;\n            self.counts = counts;"),
    ]),
    Mutant("BA4", "a part of a call that goes on after the call counts twice", "bulk::", [
        ("src/accounts/connection.rs", "        connection.open.hold();\n", "        connection.open.hold();\n        connection.open.hold();\n"),
    ]),
    Mutant("BA5", "a call of HTTP/1.1 counts as one that waits for ever", "waiting::bounds", [
        ("src/rpc/edge/waits.rs", "        self.of.count.fetch_sub(1, Relaxed);\n", "        let _kept = &self.of;\n"),
    ]),
    Mutant("AS1", "a write that is cut twice goes on at the wrong byte", "listener::io::any_split", [
        ("src/listener/io/write_buffer.rs", "            self.sent += sent;\n", "            self.sent = sent;\n"),
    ]),
    Mutant("AS2", "a large write passes the bytes that wait for the socket", "listener::io::any_split", [
        ("src/listener/io/write_buffer.rs", "        ready!(shared.poll_send_all(context))?;\n        let sent", "        let _later = shared.poll_send_all(context)?;\n        let sent"),
    ]),
    Mutant("AS3", "what is buffered after a flush begins where the last bytes ended", "listener::io::any_split", [
        ("src/listener/io/write_buffer.rs", "        self.sent = 0;\n        self.buffered.clear();\n", "        self.buffered.clear();\n"),
    ]),
    Mutant("WI1", "a setting is taken from another one's place", "process::precedence", [
        ("src/server/config/checked.rs", '"lock_wait", given.lock_wait.as_ref()', '"lock_wait", given.stall_max.as_ref()'),
    ]),
    Mutant("WI2", "a setting has another variable than its name says", "process::precedence", [
        ("src/server/config/settings.rs", '#[arg(long, env = "IDEMPOTENCY_LEDGER_SESSIONS", value_name = "N")]', '#[arg(long, env = "IDEMPOTENCY_LEDGER_SESSION", value_name = "N")]'),
    ]),
    Mutant("WI3", "a limit is filled in and read nowhere", "architecture::settings", [
        ("src/rpc/mod.rs", "timeout(options.drain_max, drain)", "timeout(Duration::from_secs(15), drain)"),
        ("src/rpc/mod.rs", "within = ?options.drain_max", "within = 15"),
    ]),
    Mutant("AO1", "a principal has the rights of its first lines only", "any_order", [
        ("src/identity/rights.rs", "places.iter().filter_map(|at| self.lines.get(*at))", "places.iter().take(20).filter_map(|at| self.lines.get(*at))"),
    ]),
    Mutant("AO2", "proxies beyond the first hundred networks are not trusted", "any_order", [
        ("src/identity/proxies.rs", "self.networks.iter().any(", "self.networks.iter().take(100).any("),
    ]),
    Mutant("AO3", "replay runs are listed as they were created, from page to page by name", "any_order", [
        ("src/store/postgres/replays.rs", "WHERE consumer = $1 AND name > $2 ORDER BY name LIMIT $3", "WHERE consumer = $1 AND name > $2 ORDER BY created_at, name LIMIT $3"),
        ("src/store/sqlite/replays.rs", "WHERE consumer = ?1 AND name > ?2 ORDER BY name LIMIT ?3", "WHERE consumer = ?1 AND name > ?2 ORDER BY created_at, name LIMIT ?3"),
    ]),
    Mutant("AO4", "policies are listed by the length of their consumers' names", "any_order", [
        ("src/ledger/policies/table.rs", "        names.sort_unstable();\n        names", "        names.sort_unstable_by_key(|name| (name.len(), name.clone()));\n        names"),
    ]),
    Mutant("AO5", "of several servers of a database the first three are tried", "any_order", [
        ("src/store/postgres/connection/servers.rs", "for number in 0..all.len() {", "for number in 0..all.len().min(3) {"),
    ]),
    Mutant("AO6", "`replay list` ends with a page that is not full", "cli::any_order", [
        ("src/cli/replay.rs", "            if page.next_page_token.is_empty() {", "            if page.runs.len() < 100 {"),
    ]),
    Mutant("AO7", "`audit list` shows whole pages beyond its limit", "cli::any_order", [
        ("src/cli/audit.rs", "page.events.truncate(limit - printed);", "page.events.truncate(limit);"),
    ]),
    Mutant("AO8", "`policy history` reads one page less than its limit needs", "cli::any_order", [
        ("src/cli/policy/show.rs", "|| all.len() >= enough {", "|| all.len() + 2 >= enough {"),
    ]),
    Mutant("AO9", "lists that end at their limit report that there is more", "cli::any_order", [
        (CLI_LIST, "cut || has_next(client, &mut admin, request).await", "cut || has_next(client, &mut admin, request).await || limit > 0"),
        ("src/cli/audit.rs", "cut || has_next(&client, &mut admin, request).await", "cut || has_next(&client, &mut admin, request).await || limit > 0"),
    ]),
    Mutant("TK1", "consumers with the same quota share it", "two_of_a_kind", [
        ("src/ledger/claims/admission.rs", "buckets.take(consumer, per_second,", "buckets.take(&per_second.to_string(), per_second,"),
    ]),
    Mutant("TK2", "the principals of a connection have the account of the first one", "two_of_a_kind", [
        ("src/accounts/connection.rs", "            && Arc::ptr_eq(known, who)\n", "            && known.grants == who.grants\n"),
    ]),
    Mutant("TK3", "the waiting calls of all principals count for each", "two_of_a_kind", [
        ("src/ledger/waiting/places.rs", "principal.is_none_or(|principal| fits(&self.principals, principal))", "principal.is_none_or(|_| self.principals.values().sum::<usize>() < free)"),
    ]),
    Mutant("TK4", "the holds of all principals count for each", "two_of_a_kind", [
        ("src/domain/hold.rs", "of_prefixes().filter(|hold| hold.actor == actor).count()", "of_prefixes().filter(|hold| hold.actor.len() > actor.len() / 2).count()"),
    ]),
    Mutant("TK5", "all addresses share the waiting calls of one", "two_of_a_kind", [
        ("src/rpc/edge/waits.rs", "Some(addresses.connected(address)?)", "Some(addresses.connected(IpAddr::from([127, 0, 0, u8::from(address.is_loopback())]))?)"),
    ]),
    Mutant("TK6", "the runs of all consumers count for each", "two_of_a_kind", [
        ("src/ledger/policies/table.rs", "Namespace::stored(name).consumer() == consumer", "Namespace::stored(name).consumer().len() >= consumer.len().min(1)"),
    ]),
    Mutant("TK7", "the waiting calls of all keys count for each", "two_of_a_kind", [
        ("src/ledger/waiting/places.rs", "let is_room = of_key < bounds.key", "let is_room = of_key.max(self.all) < bounds.key"),
    ]),
    Mutant("CL1", "metrics count what was released as claimable, and what failed too", "proof::counted", [
        ("src/ledger/operators/count_entries.rs", "State::FailedRetryable => (2, Some(0)),", "State::FailedRetryable => (0, Some(0)),"),
    ]),
    Mutant("CL2", "a list of expired claims forgets the grace", "proof::counted", [
        ("src/store/postgres/listing.rs", "(g.by_terms ->> e.terms::text)::bigint <= k.clock_now", "(g.by_terms ->> e.terms::text)::bigint * 0 <= k.clock_now"),
        ("src/store/sqlite/listing.rs", "e.lease_until + (SELECT t.grace FROM terms t WHERE t.no = e.terms) <= ?10", "e.lease_until <= ?10"),
    ]),
    Mutant("CL3", "a summary counts a claim as expired while its grace lasts", "proof::counted", [
        ("src/store/postgres/counting.rs", "THEN e.lease_until + (g.by_terms ->> e.terms::text)::bigint END", "THEN e.lease_until END"),
        ("src/store/sqlite/counting.rs", "THEN e.lease_until + (SELECT t.grace FROM terms t WHERE t.no = e.terms) END", "THEN e.lease_until END"),
    ]),
    Mutant("CL4", "an effect stays in the index of doubled ones, but for a list that is of completed entries", "proof::counted", [
        ("src/store/postgres/counting.rs", "WHERE e.consumer = n.no AND e.doubled OFFSET 0", "WHERE e.consumer = n.no AND e.doubled AND e.state = 4 OFFSET 0"),
        ("src/store/sqlite/counting.rs", "WHERE n.name = ?1 AND e.consumer = n.no AND e.doubled IS NOT NULL", "WHERE n.name = ?1 AND e.consumer = n.no AND e.doubled IS NOT NULL AND e.state = 4"),
    ]),
    Mutant("CL5", "metrics report the oldest claim as the one that is expired for the longest time", "proof::counted", [
        ("src/ledger/operators/count_entries.rs", "            one.oldest[2] = age(expired.since);", "            one.oldest[2] = one.oldest[1];"),
    ]),
    Mutant("NR1", "a page keeps the number of an earlier version", "docs::numbers", [
        ("docs/running.md", "was not answered for 4 s", "was not answered for 5 s"),
    ]),
    Mutant("NR2", "a constant changes without its pages", "docs::numbers", [
        ("src/ledger/upkeep/probe.rs", "const UNANSWERED_MAX: Duration = Duration::from_millis(3_500);",
         "const UNANSWERED_MAX: Duration = Duration::from_millis(3_600);"),
    ]),
    Mutant("NR3", "a shipped file changes without the page that shows it", "docs::numbers", [
        (SERVICE_CONFIG, '"timeout": "15s"', '"timeout": "14s"'),
    ]),
    Mutant("NR4", "a page has a number without a source", "docs::numbers", [
        ("docs/sqlite.md", "on the server logs a WARN once a minute", "on the server logs a WARN once in 60 s"),
    ]),
    Mutant("NR5", "a printed default changes without the prose", "docs::numbers", [
        ("docs/without-grpc.md", "`max_wait` (10 s)", "`max_wait` (20 s)"),
    ]),
    Mutant("NR6", "a row of one quantity covers another that is equal", "docs::numbers", [
        ("docs/sqlite.md", "From 128 MiB on the server logs", "From 128 MiB on, and each 128 MiB more, the server logs"),
    ]),
    Mutant("NR7", "the jitter of a rotation changes without its page", "docs::numbers", [
        ("src/store/postgres/connection/rotation.rs", "const JITTER: f64 = 0.1;", "const JITTER: f64 = 0.12;"),
    ]),
    Mutant("NR8", "a bound of what is counted changes without its page", "docs::numbers", [
        ("src/server/observe/answer.rs", "const SCRAPES_MAX: usize = 32;", "const SCRAPES_MAX: usize = 33;"),
    ]),
    Mutant("NR9", "a page has another number than its constant, as a word", "docs::numbers", [
        ("docs/sqlite.md", "with `STORE_UNAVAILABLE` after two seconds", "with `STORE_UNAVAILABLE` after three seconds"),
    ]),
    Mutant("CR1", "a closed run goes on until the server reads the clock again", "replays", [
        ("src/domain/replay.rs", "let end = if self.closed_at.is_some() { StoreTime(0) } else { self.ends_at };",
         "let end = self.end();"),
    ]),
    Mutant("IN1", "a message that was given up is acknowledged", "inbox::store_table", [
        ("src/domain/inbox.rs", "            | StoreVerdict::Completed { .. } => Advice::Ack,\n            StoreVerdict::Failed { .. }\n            | StoreVerdict",
         "            | StoreVerdict::Completed { .. }\n            | StoreVerdict::Failed { .. } => Advice::Ack,\n            StoreVerdict"),
    ]),
    Mutant("IN2", "a message that is attached does not pin its fingerprint", "inbox::store_table", [
        ("src/domain/inbox.rs", "if context.policy.fingerprint != FingerprintMode::Ignore && !is_pinned {", "if before.is_none() && !is_pinned {"),
    ]),
    Mutant("IN3", "a suspect travels with its neighbours", "inbox::next", [
        ("src/domain/hand_out.rs", "let is_alone = due.entry.is_suspect(reading.now);", "let is_alone = false;"),
    ]),
    Mutant("IN4", "a message larger than bytes_max is never handed out", "inbox::next", [
        ("src/domain/hand_out.rs", "if !is_first && (is_alone || !fits) {", "if !fits || (!is_first && is_alone) {"),
    ]),
    Mutant("IN5", "a repeat is handed out other messages", "inbox::next", [
        ("src/store/postgres/inbox_statements.rs", "LEFT JOIN ledger.handouts h ON h.claim_id = ANY (ARRAY[$1::uuid])", "LEFT JOIN ledger.handouts h ON h.claim_id = ANY (ARRAY[$1::uuid]) AND false"),
        ("src/store/sqlite/inbox_statements.rs", "FROM handouts WHERE claim_id = ?1", "FROM handouts WHERE claim_id = ?1 AND false"),
    ]),
    Mutant("IN6", "a repeat is handed out a message whose effect was announced", "inbox::next", [
        ("src/domain/hand_out.rs", "        if due.entry.effect_started {\n            return None;\n        }\n", ""),
        ("src/domain/claim.rs", "        if entry.effect_started {\n            return closed(entry);\n        }\n        if !entry.lease_over(now) {", "        if !entry.lease_over(now) {"),
    ]),
    Mutant("IN7", "a handout demands what its Store has had", "inbox::next", [
        ("src/domain/preconditions.rs", "(!claim.handed_out).then(demanded).flatten()", "demanded()"),
    ]),
    Mutant("IN8", "another caller takes over a handout", "inbox::next", [
        ("src/ledger/inbox/look.rs", "        && before.owner == claim.owner;", ";"),
        ("src/domain/entry.rs", "pub fn is_claim_of(&self, claimant: &Claimant) -> bool {", "pub fn is_claim_of(&self, claimant: &Claimant) -> bool {\n        let claimant = &Claimant { owner: self.claimant.as_ref().map(|one| one.owner.clone()).unwrap_or_default(), ..claimant.clone() };"),
    ]),
    Mutant("IN9", "the message of an earlier life keeps a Store from its key", "stores::inbox", [
        ("src/store/postgres/inbox_statements.rs", "    ON CONFLICT (key) DO UPDATE SET generation = excluded.generation, stored_at = excluded.stored_at,\n        bytes = excluded.bytes, message = excluded.message", "    "),
        ("src/store/sqlite/inbox_statements.rs", "\nON CONFLICT (key) DO UPDATE SET generation = excluded.generation, stored_at = excluded.stored_at,\n    bytes = excluded.bytes, message = excluded.message", ""),
    ]),
    Mutant("IN10", "an erasure takes the message of a later life", "stores::inbox", [
        ("src/store/postgres/inbox_statements.rs", "WHERE m.key = ANY (ARRAY[x.key]) AND m.generation < x.version", "WHERE m.key = ANY (ARRAY[x.key])"),
        ("src/store/sqlite/inbox_statements.rs", "DELETE FROM messages WHERE key = ?1 AND generation <= ?2", "DELETE FROM messages WHERE key = ?1 AND ?2 = ?2"),
    ]),
    Mutant("IN11", "a message is stored by policies that may have changed since", "stores::inbox", [
        ("src/store/postgres/inbox_statements.rs", "AND now <= $2 AND now >= $3", "AND $2 = $2 AND now >= $3"),
        ("src/store/sqlite/inbox.rs", "if reading.now > until || withheld", "if withheld"),
    ]),
    Mutant("IN12", "messages are handed out by policies that may have changed since", "stores::inbox", [
        ("src/store/postgres/inbox.rs", "let (entries, until): (Vec<Entry>, Vec<StoreTime>) = choice.writes.iter().cloned().unzip();", "let (entries, until): (Vec<Entry>, Vec<StoreTime>) = choice.writes.iter().map(|one| (one.0.clone(), StoreTime::MAX)).unzip();"),
        ("src/store/sqlite/inbox.rs", "choice.writes.iter().any(|(_, until)| *until < bound)", "choice.writes.iter().any(|(_, until)| *until < reading.now && false)"),
    ]),
    Mutant("IN13", "a file of policies switches the inbox on", "server::config::policies", [
        ("src/server/config/policies.rs", "if args.inbox == Some(true) {", "if false {"),
    ]),
    Mutant("IN14", "the completion of a stored message never erases it", "inbox::", [
        ("src/store/postgres/entry_statements.rs", '" AND e.body IS NULL\nRETURNING', '"\nRETURNING'),
        ("src/store/sqlite/entry_statements.rs", " AND e.body IS NULL AND {is_same}", " AND {is_same}"),
    ]),
    Mutant("IN15", "a kept message expires with its entry", "proof::differential", [
        ("src/domain/retention.rs", "if entry.body == Some(Body::Kept) => {", "if entry.body == Some(Body::Kept) && entry.attempts > 0 => {"),
    ]),
    Mutant("IN16", "the cursor passes messages that become due", "ledger::inbox::cursor", [
        ("src/ledger/inbox/cursor.rs", "let latest = DuePlace { at: clock - BEHIND, ..DuePlace::default() };", "let latest = DuePlace { at: clock, ..DuePlace::default() };"),
    ]),
    Mutant("IN17", "the cursor stays where it was on another session", "ledger::inbox::cursor", [
        ("src/ledger/inbox/cursor.rs", "if session != self.session || self.returns_at", "if self.returns_at"),
    ]),
    Mutant("IN18", "the backlog of a consumer is not bounded by age", "inbox::store_table", [
        ("src/ledger/inbox/backlog.rs", "policy.backlog_max_age > Span::ZERO && now.max(looked) - due > policy.backlog_max_age", "now.max(looked) < due"),
    ]),
    Mutant("IN19", "who may claim may store", "identity::matrix::rights", [
        ("src/identity/rpcs.rs", '("Store", Right::Store)', '("Store", Right::Claim)'),
    ]),
    Mutant("IN20", "a redrive without the fingerprint hands out the message that had it", "inbox::next", [
        ("src/domain/operate.rs", "        next.body = entry.body.map(|_| Body::Erased);\n", ""),
    ]),
    Mutant("IN21", "a deleted entry leaves its payload behind on Postgres", "inbox::store_table", [
        ("src/store/postgres/entry_statements.rs", "DELETE FROM ledger.messages m USING deleted d WHERE m.key = d.key", "DELETE FROM ledger.messages m USING deleted d WHERE m.key = d.key AND m.bytes < 0"),
    ]),
    Mutant("IN22", "a deleted entry leaves its payload behind on SQLite", "inbox::store_table", [
        ("src/store/sqlite/operators.rs", "delete_message(connection, *key).await?;", "delete_message(connection, KeyHash::default().min(*key)).await?;"),
    ]),
    Mutant("IN30", "a disabled policy or a hold refuses a Store", "inbox::store_rules", [
        ("src/domain/inbox.rs", "lacks(&store.fingerprint, store.occurred_at, policy).or_else(off)", "lacks(&store.fingerprint, store.occurred_at, policy)\n        .or_else(off)\n        .or_else(|| policy.holds_back().then(|| refusal_by(policy, Reason::ConsumerDisabled)))"),
    ]),
    Mutant("IN31", "with a full backlog a Store reads its entry before INBOX_OFF", "inbox::store_rules", [
        ("src/ledger/inbox/store.rs", "if one.rounds > 0 || policy.doubt != Doubt::None {", "if one.rounds > 0 || policy.doubt != Doubt::None || self.may_be_full(key.consumer()) {"),
        ("src/ledger/inbox/mod.rs", "    if is_known { store_refused(&request.store, &policy) } else { None }", "    if is_known { store_refused(&request.store, &policy).filter(|_| false) } else { None }"),
    ]),
    Mutant("IN32", "a clock that is behind refuses the message of an entry that exists", "inbox::store_rules", [
        ("src/domain/inbox.rs", "    if let Some(reason) = doubtful(policy).or(full) {", "    let behind = (context.clock_behind || context.clock_ahead).then_some(Reason::StoreClockBehind);\n    if let Some(reason) = doubtful(policy).or(behind).or(full) {"),
    ]),
    Mutant("IN33", "a full backlog takes the messages of entries that exist", "inbox::store_rules", [
        ("src/domain/inbox.rs", "let full = policy.backlog_full.then_some(Reason::BacklogFull);", "let full = (policy.backlog_full && entry.attempts == 0).then_some(Reason::BacklogFull);"),
    ]),
    Mutant("IN34", "a backlog_max_age of zero stores no message", "inbox::store_rules", [
        ("src/ledger/inbox/backlog.rs", "policy.backlog_max_age > Span::ZERO && now.max(looked)", "now.max(looked)"),
    ]),
    Mutant("IN35", "the token of a stored entry completes it", "inbox::kept", [
        ("src/domain/settle.rs", "        | ClosedBy::OperatorPark => true,\n", "        | ClosedBy::Store\n        | ClosedBy::OperatorPark => true,\n"),
        ("src/domain/settle.rs", "ClosedBy::Operator | ClosedBy::Store => return Decision::read(Err(closed(entry))),", "ClosedBy::Operator => return Decision::read(Err(closed(entry))),"),
    ]),
    Mutant("IN36", "a message that was given up is never erased", "inbox::kept", [
        ("src/domain/retention.rs", "State::FailedTerminal => retain_until(entry, policy),", "State::FailedTerminal => None,"),
    ]),
    Mutant("IN37", "an ignored fingerprint is pinned by a Store", "inbox::store_rules", [
        ("src/domain/inbox.rs", "if context.policy.fingerprint != FingerprintMode::Ignore && !is_pinned {", "if !is_pinned {"),
    ]),
    Mutant("IN38", "GetMessage shows a message that was erased, until the sweep", "inbox::kept", [
        ("src/ledger/operators/message.rs", "entry.body == Some(Body::Kept))", "entry.body.is_some_and(|body| body == Body::Kept || body == Body::Erased))"),
    ]),
    Mutant("IN39", "a message may be kept for longer than its entry", "inbox::store_rules", [
        ("src/domain/policy.rs", 'within("message_retention", self.message_retention, Span::ZERO, self.retention);', 'within("message_retention", self.message_retention, Span::ZERO, RETENTION_MAX);'),
    ]),
    Mutant("IN40", "a redriven message waits for its old back-off", "inbox::kept", [
        ("src/domain/operate.rs", "    next.not_before = context.now;\n    next.effect_unknown |= entry.unsettled();", "    next.effect_unknown |= entry.unsettled();"),
    ]),
    Mutant("IN41", "a Store overwrites what was written since its look", "inbox::store_rules", [
        ("src/store/postgres/inbox_statements.rs", "AND e.version = r.version - 1 AND r.now <= r.until", "AND e.version <= r.version AND r.now <= r.until"),
    ]),
    Mutant("IN42", "a refused waiting call gives back a place that it never had", "inbox::waits", [
        ("src/ledger/inbox/line.rs", "taken.then(|| Place { lines: self, consumer, principal })", "taken.then_some(Place { lines: self, consumer, principal })"),
    ]),
    Mutant("IN43", "messages are handed out with less than a second of the deadline left", "inbox::handouts", [
        ("src/ledger/inbox/next.rs", "let until = ends.deadline.checked_sub(LEFT_MIN).unwrap_or(ends.deadline);", "let until = ends.deadline;"),
    ]),
    Mutant("IN44", "a call with little time left is answered as if the store were away", "inbox::handouts", [
        ("src/ledger/inbox/next.rs", "        if call_clock() >= until {\n            return Ok(nothing(None));\n        }\n", ""),
    ]),
    Mutant("IN45", "a handout is forgotten within its hour", "inbox::handouts", [
        ("src/ledger/upkeep/erase.rs", "const HANDOUTS_KEPT_FOR: Span = Span::from_secs(3_600);", "const HANDOUTS_KEPT_FOR: Span = Span::from_secs(3_599);"),
    ]),
    Mutant("IN46", "another principal takes over a handout", "inbox::handouts", [
        ("src/ledger/inbox/look.rs", "        && before.principal == claim.principal\n", ""),
        ("src/domain/entry.rs", "pub fn is_claim_of(&self, claimant: &Claimant) -> bool {", "pub fn is_claim_of(&self, claimant: &Claimant) -> bool {\n        let claimant = &Claimant { principal: self.claimant.as_ref().map(|one| one.principal.clone()).unwrap_or_default(), ..claimant.clone() };"),
    ]),
    Mutant("IN47", "an unreadable row keeps the messages behind it", "inbox::handouts", [
        ("src/ledger/inbox/look.rs", "        None => due.candidates.len(),", "        None => chosen.passed,"),
    ]),
    Mutant("IN48", "an entry that has lost its message is granted", "inbox::handouts", [
        ("src/ledger/inbox/look.rs", "candidate.bytes.map(|bytes| DueEntry { entry, bytes })", "Some(DueEntry { entry, bytes: candidate.bytes.unwrap_or_default() })"),
    ]),
    Mutant("IN49", "without the inbox stored messages are not handed out any more", "inbox::handouts", [
        ("src/ledger/inbox/next.rs", "        let wanted = request.bounds.messages;\n", "        let wanted = request.bounds.messages;\n        if !policy.inbox {\n            return Ok(nothing(None));\n        }\n"),
    ]),
    Mutant("IN50", "a Store wakes no waiting call", "inbox::waits", [
        ("src/ledger/inbox/line.rs", "            line.stirred.notify_one();\n", "            let _asleep = line;\n"),
    ]),
    Mutant("IN51", "a look waits for the rows of another look", "stores::inbox", [
        ("src/store/postgres/inbox_statements.rs", "ORDER BY e.next_at, e.key LIMIT $5\nFOR NO KEY UPDATE OF e SKIP LOCKED", "ORDER BY e.next_at, e.key LIMIT $5\nFOR NO KEY UPDATE OF e"),
    ]),
    Mutant("IN52", "every good Store logs a bug of the server", "inbox::log", [
        ("src/wire/inbox.rs", ".ok_or_else(|| errors::internal(\"a key is neither wrong nor right\"))?;", ".ok_or(errors::internal(\"a key is neither wrong nor right\"))?;"),
    ]),
    Mutant("IN53", "one event of a lost write proves all of it", "reconcile::overlaps", [
        ("src/ledger/operators/sent.rs", "events.iter().all(|(id, digest)| known.get(id) == Some(digest))", "events.iter().any(|(id, digest)| known.get(id) == Some(digest))"),
    ]),
    Mutant("IN54", "a parked entry is reconciled while its holder is at work", "reconcile::overlaps", [
        ("src/domain/reconcile.rs", "    if at_work(entry, context.now) {", "    if entry.state == State::InProgress && at_work(entry, context.now) {"),
    ]),
    Mutant("IN55", "the audit of an operation reads those whose ids begin alike", "proof::rows::audited", [
        (LITE_AUDIT, "request_id > ?4 || '/' AND request_id < ?4 || '/~' AND request_id < ?2", "request_id > ?4 AND +request_id < ?4 || '/~' AND +request_id < ?2"),
        (PG_AUDIT, "request_id > $4 || '/' AND request_id < $4 || '/~' AND request_id < $2", "request_id > $4 AND starts_with(request_id, $4 || '/') AND request_id < $2"),
    ]),
    Mutant("IN56", "groups of more than a hundred consumers look complete", "queries::everywhere", [
        ("src/ledger/operators/open_entries.rs", "            return Ok((all, true));", "            return Ok((all, false));"),
    ]),
    Mutant("IN57", "a list of all consumers has no doubled entries that are completed", "queries::everywhere", [
        ("src/ledger/operators/open_entries.rs", "open_consumers(&at.consumer, states, *doubled, NAMES)", "open_consumers(&at.consumer, states, *doubled && false, NAMES)"),
    ]),
    Mutant("IN58", "a clock that has jumped brings effects in", "reconcile::overlaps", [
        ("src/domain/clock_fault.rs", "    ClockFault::of(reading).map(ClockFault::refusal)\n}", "    ClockFault::of(reading).filter(|fault| *fault != ClockFault::Ahead).map(ClockFault::refusal)\n}"),
        ("src/domain/reconcile.rs", "ClockFault::of_context(context) {", "ClockFault::of_context(context).filter(|fault| *fault != ClockFault::Ahead) {"),
    ]),
    Mutant("IN59", "a bulk operation changes an entry again that was changed since", "bulk::once", [
        ("src/ledger/operators/bulk.rs", 'format!("{}/{}", self.order.operation_id, entry.key.hash().simple())', 'format!("{}/{}", self.order.operation_id, uuid::Uuid::from_u128(entry.key.hash().as_u128() ^ u128::from(entry.version.unsigned_abs())).simple())'),
    ]),
    Mutant("IN60", "NOT_NOW of a reconciled row leaves out the grace", "reconcile::", [
        ("src/domain/reconcile.rs", "let retry_after = entry.lease_until + entry.grace - context.now;", "let retry_after = entry.lease_until - context.now;"),
    ]),
    Mutant("IN61", "a repeated handout is re-armed again and again", "inbox::handouts", [
        ("src/domain/claim.rs", "    next.rearmed = true;\n", "    next.rearmed = false;\n"),
    ]),
    Mutant("IN62", "a renewed message is due by its grant", "inbox::changes", [
        ("src/domain/due.rs", "State::InProgress => Some(self.lease_until + self.grace),", "State::InProgress => Some(self.granted_at + self.grace),"),
    ]),
    Mutant("IN63", "a message that was attached a moment ago is deleted", "inbox::changes", [
        ("src/domain/operate.rs", "let stored_lately = entry.body.is_some() && entry.updated_at", "let stored_lately = entry.body.is_none() && entry.updated_at"),
    ]),
    Mutant("IN64", "a bulk redrive drops stored messages", "inbox::changes", [
        ("src/domain/operate.rs", "danger.or_else(|| message_lost(entry, &change.action))", "danger.or_else(|| message_lost(entry, &change.action).filter(|_| false))"),
    ]),
    Mutant("IN65", "an unreadable message fills the backlog for ever", "inbox::store_rules", [
        ("src/store/postgres/inbox.rs", "            if stored.entry.is_ok() {", "            if stored.entry.is_ok() || stored.entry.is_err() {"),
        ("src/store/sqlite/inbox.rs", "find(|(_, stored)| stored.entry.is_ok())", "find(|(_, stored)| stored.entry.is_ok() || stored.entry.is_err())"),
    ]),
    # Between the parts: gauges, settings, clocks, and what proofs demand.
    Mutant("IN66", "the cursor passes messages that were not handed out", "proof::lockstep", [
        ("src/ledger/inbox/look.rs", "        Some((next, _)) => *next,", "        Some(_) => due.candidates.len(),"),
    ]),
    Mutant("IN67", "a server that stores does not look at the backlog", "inbox::store_table", [
        ("src/ledger/inbox/store.rs", "if !self.policies.of(consumer).inbox || self.broken {", "if self.policies.of(consumer).inbox || self.broken {"),
    ]),
    Mutant("IN68", "the cursor stays above a clock that was set back", "ledger::inbox::cursor", [
        ("src/ledger/inbox/cursor.rs", "if clock < self.place.at {", "if clock < StoreTime(0) {"),
    ]),
    Mutant("IN69", "the cursor never returns to the start", "ledger::inbox::cursor", [
        ("src/ledger/inbox/cursor.rs", "self.returns_at.is_some_and(|at| now >= at)", "self.returns_at.is_some_and(|at| now >= at && false)"),
    ]),
    Mutant("IN70", "messages are handed out without a commit", "proof::live::conservation", [
        ("src/store/postgres/inbox.rs", "                self.connection.commit().await?;\n", "                self.connection.rollback().await?;\n"),
    ]),
    Mutant("IN71", "a Store whose outcome is unknown is acknowledged", "proof::live::conservation", [
        ("src/ledger/inbox/store.rs", "all.for_each(|one| one.answer(Err(lost())));",
         "all.for_each(|one| one.answer(Ok((StoreVerdict::Stored { state: crate::domain::State::Received }, None))));"),
    ]),
    Mutant("IN72", "a message that is kept already is stored as a new one", "proof::differential", [
        ("src/domain/inbox.rs", "state if entry.body == Some(Body::Kept) =>", "state if entry.body == Some(Body::Erased) =>"),
    ]),
    Mutant("IN73", "a completed message is kept as long as its entry", "proof::differential", [
        ("src/domain/retention.rs", "entry.closed_at.unwrap_or(entry.updated_at) + policy.message_retention", "entry.closed_at.unwrap_or(entry.updated_at) + policy.retention"),
    ]),
    Mutant("IN74", "a summary counts messages that are due as due later, too", "proof::counted", [
        ("src/store/postgres/inbox_statements.rs", "WHERE e.consumer = (SELECT no FROM one) AND e.next_at > (SELECT now FROM clock)",
         "WHERE e.consumer = (SELECT no FROM one) AND e.next_at > 0"),
    ]),
    Mutant("IN75", "a page token of a list of kept messages continues another list", "proof::fuzz", [
        ("src/rpc/admin/entries.rs", "let asked = proto::ListEntriesRequest { page_size: 0, page_token: String::new(), ..request.clone() };",
         "let shown = request.filter.clone().map(|filter| proto::EntryFilter { inbox: 0, ..filter });\n"
         "        let asked = proto::ListEntriesRequest { page_size: 0, page_token: String::new(), filter: shown, ..request.clone() };"),
    ]),
    Mutant("IN76", "a redrive does not say that only another delivery brings the message", "inbox::erased", [
        ("src/domain/entry.rs", "self.state == State::Received && self.body == Some(Body::Erased)", "self.state == State::Received && self.body == Some(Body::Kept)"),
    ]),
    Mutant("IN77", "a change of many entries says of none that its message is erased", "inbox::erased", [
        ("src/ledger/operators/bulk.rs", "carried.entry.is_some_and(|entry| entry.message_erased())", "false"),
    ]),
    Mutant("IN78", "a dry run says of no entry that its message is erased", "inbox::erased", [
        ("src/ledger/operators/bulk.rs", "matches!(&changed, Changed::Entry(next) if next.message_erased())", "false"),
    ]),
    Mutant("IN79", "a Release unpins the fingerprint of a message that is kept", "inbox::store_table", [
        ("src/domain/settle.rs", "\n        && entry.body != Some(Body::Kept);", ";"),
    ]),
    Mutant("IN98", "a repeat without a message is answered as an empty look", "ledger::inbox::look", [
        ("src/ledger/inbox/look.rs", "handed_out.choice.refused.get_or_insert_with(closed);", ""),
    ]),
    Mutant("IN101", "a look that fails ends the wait of a call for messages", "inbox::waits", [
        ("src/ledger/inbox/next.rs", "Err(refused) if !is_last && (!has_space || is_repeated(refused.reason)) => {", "Err(refused) if !is_last && !has_space => {"),
    ]),
    Mutant("IN102", "a wait whose handout is unknown ends as if nothing was changed", "interleavings", [
        ("src/domain/waiting.rs", "before.filter(|before| before.reason == Reason::OutcomeUnknown).unwrap_or(now)", "before.filter(|before| before.reason == Reason::Overloaded).unwrap_or(now)"),
    ]),
    Mutant("IN103", "a Store of a new key does not look at the window floor", "inbox::store_rules", [
        ("src/domain/inbox.rs", "(store(key, None, message, &context), inside", "(store(key, None, &Store { occurred_at: message.occurred_at.map(|_| StoreTime::MAX), ..message.clone() }, &context), inside"),
    ]),
    Mutant("WA1", "the purge shows the age of its oldest entry when nothing is due any more", "observe::moves", [
        ("src/ledger/upkeep/purge_report.rs", "        self.metrics.upkeep().purge_waits(0);\n", ""),
        ("src/ledger/upkeep/purge_report.rs", "        self.metrics.upkeep().purge_waits(waits.micros());\n",
         "        if waits > Span::ZERO {\n            self.metrics.upkeep().purge_waits(waits.micros());\n        }\n"),
    ]),
    Mutant("WA2", "a clock that was ahead once is shown as ahead for ever", "observe::moves", [
        ("src/metrics/upkeep.rs", "self.clock_ahead.set(micros.max(0) / 1_000_000);", "self.clock_ahead.set(self.clock_ahead.get().max(micros / 1_000_000));"),
    ]),
    Mutant("WA3", "the counts of entries never fall", "observe::moves", [
        ("src/metrics/entries.rs", "                gauge.set(value);", "                gauge.set(gauge.get().max(value));"),
    ]),
    Mutant("WA4", "a certificate that ends sooner is not shown", "observe::moves", [
        ("src/metrics/credentials.rs", "                gauge.set(value);", "                gauge.set(gauge.get().max(value));"),
    ]),
    Mutant("WA5", "the workers take batches of any size", "process::acts", [
        ("src/ledger/mod.rs", "claims::worker::supervise(shared.clone(), number, options.batch_max)", "claims::worker::supervise(shared.clone(), number, options.batch_max.max(1_000))"),
    ]),
    Mutant("WA6", "the purge takes batches of one size", "process::acts", [
        ("src/ledger/upkeep/purge.rs", "let batch = self.options.batch;", "let batch = self.options.batch.max(500);"),
    ]),
    Mutant("WA7", "max_wait bounds no wait", "process::acts", [
        ("src/rpc/waiting.rs", "wait.to_std().min(max_wait).min(left)", "wait.to_std().min(max_wait.max(wait.to_std())).min(left)"),
    ]),
    Mutant("WA8", "the longest owner is that of the consumer", "process::acts", [
        ("src/server/config/checked.rs", 'owner: number("owner_bytes_max", given.owner_bytes_max.as_ref(), usual.owner, 1..=1_024)',
         'owner: number("owner_bytes_max", given.consumer_bytes_max.as_ref(), usual.owner, 1..=1_024)'),
    ]),
    Mutant("WA9", "the retry-after of a full queue does not depend on how long claims waited", "ledger::claims::queue", [
        ("src/ledger/claims/queue/mod.rs", "taken_after(now.saturating_duration_since(last.since))", "taken_after(last.since.saturating_duration_since(now))"),
    ]),
    Mutant("WA10", "commands wait for a batch that hangs", "ledger::claims::queue", [
        ("src/ledger/claims/queue/in_flight.rs", "elapsed.map(|elapsed| WAIT_FOR_BATCH_MAX.saturating_sub(elapsed))", "elapsed.map(|_| WAIT_FOR_BATCH_MAX)"),
    ]),
    Mutant("WA11", "a point at which servers are killed is passed by no call", "proof::live::suites::killed", [
        ("src/ledger/claims/worker.rs", '        crash::point("after_seal");\n', ""),
    ]),
    Mutant("WA12", "no page follows the first one", "proof::fuzz::mangled_page_tokens", [
        ("src/rpc/admin/page_token.rs", "bytes.first() == Some(&VERSION))", "bytes.first() == Some(&0))"),
    ]),
    Mutant("RC1", "an effect is resolved while a holder may be at work", "reconcile::", [
        (RECONCILE, "    if at_work(entry, context.now) {", "    if at_work(entry, context.now) && entry.state == State::Completed {"),
    ]),
    Mutant("RC2", "an effect of a spool confirms what something else has completed", "reconcile::", [
        (RECONCILE, "(State::Completed, Evidence::Guard) =>", "(State::Completed, Evidence::Guard | Evidence::Spool) =>"),
        (RECONCILE, "(State::Completed, Evidence::Spool | Evidence::Unfinished) =>", "(State::Completed, Evidence::Unfinished) =>"),
    ]),
    Mutant("RC3", "the beginning of an effect without its end completes an absent key", "reconcile::", [
        (RECONCILE, "    if row.evidence == Evidence::Unfinished {", "    if row.evidence == Evidence::Unfinished && key.is_of_run() {"),
    ]),
    Mutant("RC4", "an effect with another fingerprint is resolved", "reconcile::", [
        (RECONCILE, "    if mismatch(entry, &row.fingerprint, context.policy) {",
         "    if entry.state == State::Completed && mismatch(entry, &row.fingerprint, context.policy) {"),
    ]),
    Mutant("RC5", "an entry that an effect has parked says nothing of it", DIFFERENTIAL, [
        (RECONCILE, "    next.effect_unknown = true;\n", ""),
    ]),
    Mutant("RC6", "an effect in a replay run is brought in", DIFFERENTIAL, [
        (RECONCILE, "    if key.is_of_run() {", "    if key.is_of_run() && audited != Audited::New {"),
    ]),
    Mutant("RC7", "by a wrong clock an effect is resolved under a lease that runs", "reconcile::faults", [
        (RECONCILE, "    if let Some(fault) = ClockFault::of_context(context) {",
         "    if let Some(fault) = ClockFault::of_context(context).filter(|_| entry.is_none()) {"),
        (RECONCILES, "        if let Some(rejection) = clock_refusal(&loaded.reading)\n",
         "        if let Some(rejection) = clock_refusal(&loaded.reading).filter(|_| keys.is_empty())\n"),
    ]),
    Mutant("RC8", "two effects of one message are one row", "reconcile::", [
        (RECONCILE, "self.at.micros().to_string().as_bytes()", "b\"\""),
    ]),
    Mutant("RC9", "a row with another result is taken for the one that was reconciled", "reconcile::", [
        (RECONCILES, "Some(digest) if *digest == Some(row.digest) => Audited::Same,", "Some(digest) if digest.is_some() => Audited::Same,"),
    ]),
    Mutant("RC10", "a dry run changes entries", "reconcile::", [
        (RECONCILES, "if order.dry_run || writes.events.is_empty() {", "if writes.events.is_empty() {"),
    ]),
    Mutant("RC11", "an effect that may have happened twice raises no alert", "reconcile::", [
        (RECONCILES, "            self.metrics.doubled(key.consumer(), self.policies.registered(key.consumer()));\n",
         "            let _ = (&self.metrics, self.policies.registered(key.consumer()));\n"),
    ]),
    Mutant("RC12", "a second try finds its own rows known, and its alerts are lost", "reconcile::faults", [
        (RECONCILES, "    if let Some(outcomes) = sent.applied(session).await? {",
         "    if let Some(outcomes) = sent.applied(session).await?.filter(Vec::is_empty) {"),
    ]),
    Mutant("RC13", "one locked row stops all rows of its request", "reconcile::faults", [
        (RECONCILES, "                locked.extend(held);\n", "                locked.extend(held.into_iter().take(0));\n"),
    ]),
    Mutant("RC14", "the event of a write that lost its race stays", "stores::written", [
        (PG_OPERATORS, "        let replaced = self.replace(&whole).await?;\n        Ok(if replaced.iter().all(|done| *done)",
         "        let replaced = self.replace(&whole).await?;\n        Ok(if replaced.iter().any(|done| *done)"),
        (LITE_OPERATORS, "    if found.len() != changed.len() || !changed.iter().all(expected) {", "    if found.len() != changed.len() || !changed.iter().any(expected) {"),
    ]),
    Mutant("RC15", "a row is reconciled for a consumer on which its caller has no right", "identity::matrix", [
        ("src/rpc/admin/reconcile.rs", "            caller.allowed(row.key.consumer())?;\n", ""),
    ]),
    Mutant("RC16", "a completion forgets that its effect may have happened twice", "stores::batches", [
        (PG_ENTRIES, "e.superseded_completes > 0 OR e.doubled THEN", "e.superseded_completes > 0 THEN"),
        (LITE_STATEMENTS, "superseded_completes > 0 OR doubled IS NOT NULL THEN", "superseded_completes > 0 THEN"),
    ]),
    Mutant("RC17", "the command leaves out what has no end", "cli::reconcile", [
        ("src/cli/reconcile/spool.rs", "                    self.unfinished = Some(open);", "                    self.unfinished = Some(open.into_iter().take(0).collect());"),
    ]),
    Mutant("RC18", "the command changes entries without having asked", "cli::reconcile", [
        ("src/cli/reconcile/mod.rs", "        if !self.yes && !self.dry_run {\n            can_ask()?;\n        }\n", ""),
        ("src/cli/reconcile/mod.rs", "            confirm(client, &question, false)?;", "            confirm(client, &question, true)?;"),
    ]),
    Mutant("DC1", "the discovery document of any issuer is believed", "server::jwks::fetch", [
        ("src/server/jwks/fetch/discovery.rs", "    if found.issuer != issuer {", "    if found.issuer.is_empty() {"),
    ]),
    Mutant("DC2", "the token for an issuer goes to the server that a document names", "server::jwks::fetch", [
        ("src/server/jwks/fetch/mod.rs", "        if (&keys.host, keys.port) == (&self.place.host, self.place.port) {", "        if !keys.host.is_empty() {"),
    ]),
    Mutant("TL1", "plain text on a listener with TLS is a connection that ended", "listener::handshake", [
        ("src/listener/handshake.rs", "Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {",
         "Some(Error::InvalidMessage(InvalidMessage::InvalidEmptyPayload)) => {"),
    ]),
    Mutant("TL2", "the command line names the same scheme again", "cli::tls", [
        ("src/cli/client.rs", "        } else if said.contains(NOT_TLS) {", "        } else if said.is_empty() {"),
    ]),
    Mutant("TL3", "the command line does not know the alert of a port with TLS", "cli::tls", [
        ("src/cli/problem.rs", "    if said.contains(TLS_ALERT) {", "    if said.is_empty() {"),
    ]),
    Mutant("NI1", "a list on a narrow terminal cuts an instant", "cli::table", [
        ("src/cli/table/fit.rs", "        Narrows::Never => natural,", "        Narrows::Never => natural.min(SHORT_MIN),"),
        ("src/cli/table/fit.rs", "            while least(columns, natural, &shown) > width {", "            while width == 0 {"),
    ]),
    Mutant("NI2", "a column that is left out is not named", "cli::table", [
        ("src/cli/table/mod.rs", "fitted.left_out.push(self.left_out(at));", "fitted.shortened |= at > self.columns.len();"),
    ]),
    Mutant("NI3", "entries get cuts a long error", "cli::entries::get", [
        ("src/cli/table/mod.rs", "        Table::of(&[Column::whole(\"\"), Column::text(\"\")]).without_headings().wrapping()", "        Table::of(&[Column::whole(\"\"), Column::text(\"\")]).without_headings()"),
    ]),
    Mutant("NI4", "a claim that was renewed looks as if its holder had never come back", "cli::entries::get", [
        ("src/cli/entries/get.rs", ".filter(|updated| *updated != granted)", ".filter(|updated| *updated == granted)"),
    ]),
    Mutant("NI5", "the forced redrive of a held claim is not suggested", "cli::entries::suggestions", [
        ("src/cli/entries/suggestions.rs", "matches!(entry.state(), EntryState::InProgress | EntryState::Parked)", "matches!(entry.state(), EntryState::Parked)"),
    ]),
    Mutant("NI6", "doubled effects do not come first", "cli::entries::summary::screen", [
        ("src/cli/entries/summary/needs.rs", "    if doubled > 0 {", "    if doubled > 100 {"),
    ]),
    Mutant("NI7", "a held consumer without entries is not shown", "cli::whole", [
        ("src/cli/entries/summary.rs", "Ok(Look { summary, holds,", "Ok(Look { summary, holds: Vec::new(),"),
    ]),
    Mutant("NI8", "an estimate is compared with the look before", "cli::entries::summary::screen", [
        ("src/cli/entries/summary/screen.rs", "let is_exact = !state.estimated && !state.at_least;", "let is_exact = !state.at_least;"),
    ]),
    Mutant("NI9", "a list of all consumers repeats a consumer from page to page", "queries::open", [
        ("src/ledger/operators/open_entries.rs", "    at.after = listed.next;", "    at.after = None;"),
    ]),
    Mutant("NI10", "a list of all consumers ends at its first consumer without room for more", "queries::everywhere", [
        ("src/ledger/operators/open_entries.rs", "        let Some(last) = found.last else { return Ok(Ok(page)) };\n        at = OpenPosition { consumer: last, after: None };\n    }\n    page.next = Some(at);", "        let Some(last) = found.last.filter(|last| last.is_empty()) else { return Ok(Ok(page)) };\n        at = OpenPosition { consumer: last, after: None };\n    }\n    page.next = Some(at);"),
    ]),
    Mutant("NI11", "a list of all consumers needs the right on some consumer only", "identity::matrix", [
        ("src/rpc/admin/mod.rs", "    if consumer.is_empty() { caller.allowed_everywhere() } else", "    if consumer.is_empty() { caller.allowed_somewhere() } else"),
    ]),
    Mutant("NI12", "an owner's prefix finds its entries on Postgres", "queries::open", [
        ("src/store/postgres/listing.rs", "e.owner = $13)", "starts_with(e.owner, $13))"),
    ]),
    Mutant("NI13", "a text in errors is a pattern on SQLite", "queries::open", [
        ("src/store/sqlite/listing.rs", "instr(e.last_error, ?14) > 0", "e.last_error LIKE '%' || ?14 || '%'"),
    ]),
    Mutant("NI14", "the next page means another instant of parking", "queries::open", [
        ("src/rpc/admin/entries.rs", "            filter.parked_from = place.parked;", "            filter.parked_from = None;"),
    ]),
    Mutant("NI15", "groups of a sample look complete", "queries::open", [
        ("src/ledger/operators/open_entries.rs", "            is_sample |= !rows.is_empty();", "            is_sample |= false;"),
    ]),
    Mutant("NI16", "a long range of one consumer takes the place of all others", "queries::open", [
        ("src/ledger/operators/open_entries.rs", "            ranges.push_back(range);", "            ranges.push_front(range);"),
        ("src/ledger/operators/open_entries.rs", "clamp(PART_MIN, PART_MAX)", "clamp(PART_MAX, PART_MAX)"),
    ]),
    Mutant("NI17", "the probe of consumers reads all names", "proof::rows::bounded", [
        ("src/store/postgres/open_entries.rs", "ORDER BY n.name LIMIT $3", "ORDER BY n.name LIMIT $3 * 100"),
    ]),
    Mutant("NI18", "servers that have ended are listed", "cli::retention", [
        ("src/cli/retention.rs", "const HEARD_WITHIN_SECONDS: i64 = 60;", "const HEARD_WITHIN_SECONDS: i64 = 61;"),
    ]),
    Mutant("NI19", "the events of an operation are mixed with those of an id that begins alike", "operators::audit_filters", [
        ("src/store/sqlite/audit.rs", "WHERE request_id > ?4 || '/' AND", "WHERE request_id > ?4 AND"),
        ("src/store/postgres/audit.rs", "WHERE request_id > $4 || '/' AND", "WHERE request_id > $4 AND"),
    ]),
    Mutant("NI20", "a page of the audit with a filter ends the list", "operators::audit_filters", [
        ("src/rpc/admin/audit.rs", "let mut more = events.len() == self.listing.limit;", "let mut more = events.len() == self.listing.limit && self.filter.excludes_nothing();"),
    ]),
    Mutant("NI21", "the first event after the end is listed", "operators::audit_filters", [
        ("src/rpc/admin/audit.rs", "self.until.is_none_or(|until| event.at < until)", "self.until.is_none_or(|until| event.at <= until)"),
        ("src/rpc/admin/audit.rs", "let first = filter.until.filter(|_| by_time(&of))", "let first = filter.until.filter(|_| false && by_time(&of))"),
    ]),
    Mutant("NI22", "the audit shows durations of policies as microseconds", "rpc::admin::audit::changed", [
        ("src/rpc/admin/audit/changed.rs", 'audit_action::SET_POLICY | audit_action::DELETE_POLICY => of_policy(event),', 'audit_action::READ_MESSAGE => of_policy(event),'),
    ]),
    Mutant("NI23", "an exported policy leaves out a field that is at its default", "cli::audit", [
        ("src/cli/policy/export.rs", "        if value.is_empty() {\n", "        if value.is_empty() || value == \"false\" || path == \"lease\" {\n"),
    ]),
    Mutant("NI24", "bulk park parks what another call of the operation has parked, again", "bulk::changes", [
        ("src/ledger/operators/bulk.rs", "            request_id: format!(\"{}/{}\", self.order.operation_id, entry.key.hash().simple()),", "            request_id: uuid::Uuid::new_v4().to_string(),"),
    ]),
    Mutant("NI25", "a resumed bulk change counts the events of another action", "bulk::", [
        ("src/ledger/operators/operation.rs", "action_word(&order.action))", "\"REDRIVE\")"),
    ]),
    Mutant("NI26", "bulk resolve is forced", "bulk::changes", [
        ("src/ledger/operators/bulk.rs", "action: self.order.action.clone(), force: false };", "action: self.order.action.clone(), force: true };"),
    ]),
    Mutant("NI27", "a dry run of a bulk park parks", "bulk::changes", [
        ("src/rpc/admin/bulk.rs", "        dry_run: common.dry_run,", "        dry_run: common.dry_run && !matches!(action, Action::Park),"),
    ]),
    Mutant("NI28", "the evidence of a bulk resolve is not kept", "bulk::changes", [
        ("src/ledger/operators/bulk.rs", "evidence: self.order.evidence.clone(),", "evidence: String::new(),"),
    ]),
    Mutant("NI29", "bash offers files in place of consumers", "cli::completions", [
        ("src/cli/completions.rs", "script.replace(\"idempotency__subcmd__ledger\", \"idempotency__ledger\") + BASH", "script.replace(\"idempotency__subcmd__ledger\", \"idempotency__ledger\")"),
    ]),
    Mutant("NI37", "a list of kept messages shows erased ones", "queries::stored", [
        ("src/store/postgres/listing.rs", "($16::smallint IS NULL OR e.body = $16)", "($16::smallint IS NULL OR e.body IS NOT NULL)"),
    ]),
    Mutant("NI38", "a page of a list of kept messages reads no further than its size", "queries::stored", [
        ("src/store/query.rs", "        || message_state.is_some()\n", "        || message_state.is_some_and(|_| false)\n"),
    ]),
    Mutant("RC19", "a doubled effect whose outcome is unknown raises no alert", "reconcile::faults", [
        ("src/ledger/operators/reconcile.rs", "            Err(unknown) => {\n                work.alert(&outcomes);\n", "            Err(unknown) => {\n"),
    ]),
    Mutant("IN80", "a summary fails whose messages cannot be counted", "queries::stored", [
        ("src/rpc/admin/summary.rs", "SUMMARY_MAX + 1).await.ok()?;", "SUMMARY_MAX + 1).await.expect(\"a count\");"),
    ]),
    Mutant("IN81", "a message that is stored again counts as a new one", "inbox::store_table", [
        ("src/ledger/inbox/mod.rs", "if let Ok((StoreVerdict::Stored { .. }, _)) = &answer {", "if answer.is_ok() {"),
    ]),
    Mutant("IN82", "forgotten series of stored messages stay", "metrics::tests::by_type", [
        ("src/metrics/event_type.rs", "            drop(families.stored.remove_label_values(&[consumer, name]));\n", ""),
    ]),
    Mutant("IN95", "a repeat of a handout is answered a message that was stored since", "stores::inbox", [
        ("src/store/postgres/inbox_statements.rs", "JOIN ledger.messages m ON m.key = ANY (ARRAY[r.key]) AND m.generation <= r.version", "JOIN ledger.messages m ON m.key = ANY (ARRAY[r.key])"),
    ]),
    Mutant("IN96", "a redriven message is never due", "proof::model::inbox", [
        ("src/domain/operate.rs", "    next.attempts = 0;\n    next.not_before = context.now;\n    next.effect_unknown |= entry.unsettled();", "    next.attempts = 0;\n    next.not_before = StoreTime::MAX;\n    next.effect_unknown |= entry.unsettled();"),
    ]),
    # Schedules of the inbox.
    Mutant("IN83", "a message that is attached wakes no waiting call", "interleavings", [
        (INBOX_STORE, "                        if done {\n                            self.stored(&entry.key);\n", "                        if done {\n"),
    ]),
    Mutant("IN84", "a leader that goes away before its look keeps the wake-up", "interleavings", [
        (INBOX_NEXT, "                poll.at = now;\n", ""),
    ]),
    Mutant("IN85", "a waiting call that goes away keeps its place", "interleavings", [
        (INBOX_NEXT, "        let mut timed = self.inner.metrics.waits().begin();\n",
         "        let entered = std::mem::ManuallyDrop::new(entered);\n        let mut timed = self.inner.metrics.waits().begin();\n"),
        (INBOX_NEXT, "        drop((entered, place));\n", "        drop((std::mem::ManuallyDrop::into_inner(entered), place));\n"),
    ]),
    Mutant("IN86", "a server that stops drops the Stores that wait", "interleavings", [
        (INBOX_JOBS, "        self.waiting().closed = true;\n", "        self.waiting().stores.clear();\n        self.waiting().closed = true;\n"),
    ]),
    Mutant("IN87", "Stores wait for all looks", "interleavings", [
        (INBOX_JOBS, "(self.stores.is_empty() || !self.looked_last)", "(self.stores.is_empty() || !self.looked_last || !self.looks.is_empty())"),
    ]),
    Mutant("IN88", "a drain leaves the leader of the waiting calls waiting", "interleavings", [
        (INBOX_NEXT, "                () = lines.drained() => {\n                    return (failed.map_or_else(|| Ok(repeated()), Err), WaitEnd::Draining);\n                }\n                () = sleep_until(ends.at) => true,\n",
         "                () = sleep_until(ends.at) => true,\n"),
    ]),
    Mutant("IN89", "a handout whose outcome is unknown is refused as if nothing was changed", "interleavings", [
        ("src/ledger/inbox/task.rs", "        StoreError::Unknown(_) => lost(),\n", "        StoreError::Unknown(_) => store_unavailable(),\n"),
    ]),
    Mutant("IN90", "a Store whose outcome is unknown is refused as if nothing was changed", "interleavings", [
        (INBOX_STORE, "all.for_each(|one| one.answer(Err(lost())));", "all.for_each(|one| one.answer(Err(read_failed(error))));"),
    ]),
    Mutant("IN91", "a session that broke during a look is used for the next job", "interleavings", [
        ("src/ledger/inbox/task.rs", "    !ends_session(error)\n", "    !matches!(error, StoreError::NotApplied(Fault::Stale(_)))\n"),
    ]),
    Mutant("IN92", "Stores of one batch are not sorted by key", "interleavings", [
        (INBOX_STORE, "    all.sort_by_key(|one| one.job.request.key.hash());\n", "    all.sort_by_key(|one| one.job.request.message.len());\n"),
    ]),
    Mutant("IN93", "Stores that lost a race are loaded behind the others", "interleavings", [
        (INBOX_STORE, "        known.sort_by_key(|one| one.job.request.key.hash());\n", ""),
    ]),
    Mutant("IN94", "an outdated server leaves the Stores that wait without an answer", "interleavings", [
        ("src/ledger/mod.rs", "                    refusing.outdated();\n", "                    let _waits = &refusing;\n"),
    ]),
    Mutant("IN99", "the second half of a batch is sent on a session that broke", "interleavings", [
        (INBOX_STORE, "            if part.is_empty() || self.broken {\n                known", "            if part.is_empty() {\n                known"),
    ]),
    Mutant("IN100", "a leader hands over to no other call", "interleavings", [
        (INBOX_NEXT, "        soonest(&mut poll, last.due_after);\n",
         "        let mut poll = std::mem::ManuallyDrop::new(poll);\n        soonest(&mut poll, last.due_after);\n"),
    ]),
    Mutant("IN97", "a call that goes away during its look keeps its turn", "interleavings", [
        (INBOX_NEXT, "        if call_clock() >= until {\n", "        let turn = std::mem::ManuallyDrop::new(turn);\n        if call_clock() >= until {\n"),
        (INBOX_NEXT, "        drop(turn);\n", "        drop(std::mem::ManuallyDrop::into_inner(turn));\n"),
    ]),
    Mutant("NI52", "claims that are held for long are not worth a look", "cli::entries::summary::screen", [
        ("src/cli/entries/summary/needs.rs", "if oldest(one, EntryState::InProgress) >= OPEN_LONG { held }", "if oldest(one, EntryState::InProgress) >= OPEN_LONG * 100 { held }"),
    ]),
    Mutant("NI53", "stored messages wait for a delivery", "cli::entries::summary::screen", [
        ("src/cli/entries/summary/needs.rs", "if one.inbox.is_some() { 0 } else {", "if one.inbox.is_none() && false { 0 } else {"),
    ]),
    Mutant("NI31", "an unknown action of the audit is answered with no event", "operators::audit_filters", [
        ("src/rpc/admin/audit.rs", "if !audit_action::ALL.contains(&action.as_str()) {", "if action.is_empty() {"),
    ]),
    Mutant("NI32", "a summary leaves out the messages of an inbox that was switched off", "queries::summaries", [
        ("src/rpc/admin/summary.rs", "|| !(has_inbox || named) {", "|| !has_inbox {"),
    ]),
    Mutant("NI33", "a summary shows a thousand stored messages as all of them", "queries::summaries", [
        ("src/rpc/admin/summary.rs", "at_least: due.max(later) > SUMMARY_MAX,", "at_least: later > SUMMARY_MAX,"),
    ]),
    Mutant("NI34", "a backlog that no worker takes needs no person", "cli::entries::summary", [
        ("src/cli/entries/summary/needs.rs", ".filter(|age| *age >= OVERDUE)", ".filter(|age| *age > OVERDUE)"),
    ]),
    Mutant("NI35", "a Store that a full backlog refuses counts as any refusal", "inbox::store_table", [
        ("src/metrics/inbox.rs", "Err(refusal) if refusal.reason == Reason::BacklogFull => 8,", "Err(refusal) if refusal.reason == Reason::BacklogFull => 6,"),
    ]),
    Mutant("NI36", "a deletion does not say that it takes the only copy of a message", "cli::messages", [
        ("src/cli/entries/change.rs", "loses = (erases && entry.message_state() == MessageState::Kept).then_some(ONLY_COPY);", "loses = (!erases).then_some(ONLY_COPY);"),
    ]),
    Mutant("NI39", "an error that a group is made by is not shown on a narrow terminal", "incidents", [
        ("src/cli/entries/list/groups.rs", "            table.below(error);", "            drop(error);"),
    ]),
    Mutant("NI40", "SQLite groups errors by all of their lines", "incidents", [
        ("src/store/sqlite/listing.rs", "substr(coalesce(substr(e.last_error, 1, instr(e.last_error || char(10), char(10)) - 1),", "substr(coalesce(substr(e.last_error, 1),"),
    ]),
    Mutant("NI41", "a claim that was never renewed seems to be renewed when it was granted", "incidents", [
        ("src/cli/entries/get.rs", ".filter(|updated| *updated != granted)", ".filter(|_| true)"),
    ]),
    Mutant("NI42", "no command takes a message from a holder that hangs", "incidents", [
        ("src/cli/entries/suggestions.rs", "let forced = at_work(entry).then(", "let forced = (at_work(entry) && entry.expired).then("),
    ]),
    Mutant("NI43", "a hold does not show who made it", "incidents", [
        ("src/cli/policy/hold.rs", "clean(&hold.actor).into()", "clean(\"-\").into()"),
    ]),
    Mutant("NI44", "a summary with holds does not name the command that shows them", "incidents", [
        ("src/cli/entries/summary/needs.rs", "(is_held || !self.holds.is_empty()).then(", "(is_held && self.holds.is_empty()).then("),
    ]),
    Mutant("NI45", "the history of a policy does not show who changed it", "incidents", [
        ("src/cli/policy/show.rs", "clean(&version.actor)", "clean(\"-\")"),
    ]),
    Mutant("NI46", "the audit shows no reason on a narrow terminal", "incidents", [
        ("src/cli/audit/screen.rs", "            table.below(format!(\"reason: {}\", clean(&event.reason)));\n", ""),
    ]),
    Mutant("NI47", "an attempt does not show that its effect was reported done later", "incidents", [
        ("src/cli/entries/get.rs", "if attempt.reported_done {", "if attempt.reported_done && attempt.owner.is_empty() {"),
    ]),
    Mutant("NI48", "a doubled effect has no next step", "incidents", [
        ("src/cli/entries/suggestions.rs", "entry.doubled.then_some(", "(entry.doubled && silent(entry)).then_some("),
    ]),
    Mutant("NI49", "the messages that are due are listed by their creation", "incidents", [
        ("src/cli/entries/next/found.rs", "self.entries.sort_by_key(|(due_at, _)| instant(due_at));", "self.entries.sort_by_key(|(_, entry)| entry.created_at.map(|at| instant(&at)));"),
    ]),
    Mutant("NI50", "a backlog of 20 minutes needs no person", "incidents", [
        ("src/cli/entries/summary/needs.rs", "if overdue(one) > 0 {", "if overdue(one) > 2 * OVERDUE {"),
    ]),
    Mutant("NI51", "an empty column takes the place of the holder's name", "incidents", [
        ("src/cli/table/fit.rs", "shown.retain(|at| !is_empty(*at));", "shown.retain(|at| !is_empty(*at) || natural[*at] > 0);"),
    ]),
    Mutant("NI30", "a documented filter has a bare word of an enum", "cli::jq", [
        ("docs/operations.md", 'select(.state == "ENTRY_STATE_PARKED") | .key.consumer', 'select(.state == "PARKED") | .key.consumer'),
    ]),
    Mutant("BT1", "a server that is older than its store does not exit with 8 where calls outlive the drain", "server::serve", [
        ("src/server/serve.rs", "        (Ok(_), Some(why)) => Err(Failure::Outdated(format!(\"database_url: {why}\"))),\n        (Ok(false), None) => {\n",
         "        (Ok(true), Some(why)) => Err(Failure::Outdated(format!(\"database_url: {why}\"))),\n        (Ok(false), _) => {\n"),
    ]),
    Mutant("BT2", "a file that stays broken is reported once", "server::trust::reloadable", [
        ("src/server/trust/reloadable.rs", "now - known.at < REPORT_AGAIN => (known, false)",
         "now - known.at < REPORT_AGAIN => (Reported { at: now, ..known }, false)"),
    ]),
    Mutant("BT3", "operators by HTTP take the places of consumers", "door::safety", [
        ("src/rpc/mod.rs", "by_http(listener, &admin_permits, Offered::Admin)",
         "by_http(listener, &permits, Offered::Admin)"),
    ]),
    Mutant("BT4", "a draining server serves again when its store is back", "rpc::edge::health", [
        ("src/rpc/edge/health.rs", "if !statuses.draining {",
         "if !statuses.draining || serving {"),
    ]),
    Mutant("BT5", "operators' HTTP may listen beyond loopback without credentials", "process::settings", [
        ("src/server/config/checked.rs", "        http.admin_listen.map(|address| (\"admin_http_listen\", address)),",
         "        admin_listen.map(|address| (\"admin_http_listen\", address)),"),
    ]),
    Mutant("BT6", "migrate is refused for an address at which it does not listen", "process::settings", [
        ("src/server/args.rs", "        self.settings.admin_http_listen = Some(Given::Value(AdminListen::default()));\n",
         ""),
    ]),
    Mutant("BT7", "a renewed lease of once is counted from the answer", "cli::once::lease::tests", [
        ("src/cli/once/lease.rs", "                lease = granted;\n                until = sent + lease;\n",
         "                lease = granted;\n                until = Instant::now() + lease;\n"),
    ]),
    Mutant("BT8", "a settlement of once is not repeated after a quota", "cli::retry", [
        ("src/cli/retry.rs", "let load = [ErrorReason::Overloaded, ErrorReason::QuotaExceeded];",
         "let load = [ErrorReason::Overloaded];"),
    ]),
    Mutant("BT9", "items of a BatchStore do not count as calls", "identity::items", [
        ("src/rpc/inbox.rs", "            caller.item(index)?;\n",
         ""),
    ]),
    Mutant("BT10", "a count of later messages above the maximum does not set at_least", "rpc::admin::summary", [
        ("src/rpc/admin/summary.rs", "at_least: due.max(later) > SUMMARY_MAX,",
         "at_least: due > SUMMARY_MAX,"),
    ]),
    Mutant("BT11", "a certificate without other credentials is never read again", "server::trust", [
        ("src/server/trust/mod.rs", "        self.all_settings().is_empty() && self",
         "        self.tokens.is_none() && self.rights.is_none() && self"),
    ]),
    Mutant("BT12", "the end of a token that is gone is still shown", "identity::seen", [
        ("src/server/trust/mod.rs", "    seen.token_ends(first.and_then(|at| i64::try_from(at).ok()));\n",
         "    if let Some(at) = first {\n        seen.token_ends(i64::try_from(at).ok());\n    }\n"),
    ]),
    Mutant("BT13", "items beyond the rate are not counted as refusals", "identity::items", [
        ("src/accounts/call.rs", "        self.rate().inspect_err(|refused| self.connection.refused(refused))\n",
         "        self.rate()\n"),
    ]),
    Mutant("BT14", "stalls of a connection are never forgotten", "accounts", [
        ("src/accounts/sweep.rs", "            sweep_state.stalls.store(0, Relaxed);\n",
         ""),
    ]),
    Mutant("BT15", "a file of policies that is applied in part exits as if nothing was changed", "cli::policies", [
        ("src/cli/policy/apply.rs", "let exit = if done.is_empty() { problem.exit } else { Exit::Partly };",
         "let exit = problem.exit;"),
    ]),
    Mutant("BT16", "audit list applies its limit to each page, not to all pages together", "cli::any_order", [
        ("src/cli/audit.rs", "            page.events.truncate(limit - printed);\n",
         "            page.events.truncate(limit);\n"),
    ]),
    Mutant("BT17", "a key that is given without a certificate is replaced by the pair of the context", "cli::contexts::choose", [
        ("src/cli/contexts/choose.rs", "    if cert.is_none() && key.is_none() {\n",
         "    if cert.is_none() {\n"),
    ]),
    Mutant("BT18", "a hold leaves out consumers without a policy that have a run or a window floor", "ledger::policies::table", [
        ("src/ledger/policies/table.rs", "        for (name, policy) in self.own.iter_mut().chain(&mut self.floors) {\n",
         "        for (name, policy) in &mut self.own {\n"),
    ]),
    Mutant("BT19", "policies whose epoch stays the same are never read again", "ledger::policies::in_force", [
        ("src/ledger/policies/in_force.rs", "InForce { as_of, ..self.clone() }",
         "InForce { as_of, read_at: now, ..self.clone() }"),
    ]),
    Mutant("BT20", "each new waiting call puts off the load of its key", "ledger::waiting::polls", [
        ("src/ledger/waiting/polls.rs", "            (plan.every, plan.load_at) = (FIRST, plan.load_at.min(load_at));\n",
         "            (plan.every, plan.load_at) = (FIRST, load_at);\n"),
    ]),
    Mutant("BT21", "waiting calls of replay runs keep their places", "ledger::waiting::tests", [
        ("src/ledger/waiting/room.rs", "        waiting.places.requeue(key.consumer(), principal);\n",
         "        waiting.places.requeue(key.namespace().name(), principal);\n"),
    ]),
    Mutant("BT22", "an unknown outcome is hidden behind an older verdict", "ledger::waiting::tests", [
        ("src/ledger/waiting/call.rs", "                return over(failed.map_or_else(|| later(last), Err));\n",
         "                return over(later(last));\n"),
    ]),
    Mutant("BT23", "a page of the audit on which no event fits is the last one", "rpc::admin::audit", [
        ("src/rpc/admin/audit.rs", "            page.next_page_token = self.pages.token(&place);\n            if self.filter.fits(&one) {\n",
         "            if self.filter.fits(&one) {\n                page.next_page_token = self.pages.token(&place);\n"),
    ]),
    Mutant("BT24", "the Stores of one key in a batch are carried out in any order", "inbox::batches", [
        ("src/ledger/inbox/store.rs", "    all.sort_by_key(|one| one.job.request.key.hash());\n",
         "    all.sort_unstable_by_key(|one| one.job.request.key.hash());\n"),
    ]),
    Mutant("BT25", "a look of ClaimNext that fails uses the consumer's quota", "inbox::waits", [
        ("src/ledger/inbox/next.rs", "        let used = looked.as_ref().map_or(0, |looked| looked.choice.chosen.len());\n",
         "        let used = looked.as_ref().map_or(admitted, |looked| looked.choice.chosen.len());\n"),
    ]),
    Mutant("BT26", "bytes of refused Stores stay counted", "ledger::inbox::jobs", [
        ("src/ledger/inbox/jobs.rs", "        let has_room = waiting.stores.is_empty()\n            || (waiting.stores.len() + jobs.len() <= self.stores_max\n                && waiting.bytes.saturating_add(bytes) <= self.bytes_max);\n        if !has_room {\n            return Err(full());\n        }\n        waiting.bytes += bytes;\n",
         "        let is_empty = waiting.stores.is_empty();\n        waiting.bytes = waiting.bytes.saturating_add(bytes);\n        let has_room = is_empty\n            || (waiting.stores.len() + jobs.len() <= self.stores_max && waiting.bytes <= self.bytes_max);\n        if !has_room {\n            return Err(full());\n        }\n"),
    ]),
    Mutant("BT27", "the backlog that was read of one consumer counts as read for all", "ledger::inbox::backlog", [
        ("src/ledger/inbox/backlog.rs", "        all.get(consumer).is_some_and(|seen| seen.again_at > now)\n",
         "        all.values().any(|seen| seen.again_at > now)\n"),
    ]),
    Mutant("BT28", "the oldest due entry behind the bound of the count is not found on SQLite", "upkeep::", [
        ("src/store/sqlite/operators.rs", "            .bind(i64::try_from(due_max.saturating_sub(due)).unwrap_or(i64::MAX).max(1));\n",
         "            .bind(i64::try_from(due_max.saturating_sub(due)).unwrap_or(i64::MAX));\n"),
    ]),
    Mutant("BT29", "causes of PARKED are bounded one by one on SQLite", "queries::summaries", [
        ("src/store/sqlite/counting.rs", "    \" AND e.attempts >= ?2) AS near, sum(count(*)) OVER () > ?5 AS more,\n",
         "    \" AND e.attempts >= ?2) AS near, count(*) > ?5 AS more,\n"),
    ]),
    Mutant("BT30", "a shorter default retention does not shorten runs of consumers without a policy on SQLite", "replays::runs", [
        ("src/store/sqlite/policies.rs", "    (SELECT n.retention FROM consumers n WHERE n.name = consumer),\n    (SELECT d.retention FROM consumers d WHERE d.name = ''), ends_at - created_at)))\n",
         "    (SELECT n.retention FROM consumers n WHERE n.name = consumer), ends_at - created_at)))\n"),
    ]),
    Mutant("BT31", "a run lowers the level of a hold on Postgres", "replays::runs", [
        ("src/store/postgres/replays.rs", "level = greatest(level, $2)\n",
         "level = $2\n"),
    ]),
    Mutant("BT32", "a broken import continues after rows that were held back", "cli::import::sending", [
        ("src/cli/import/sending.rs", "message.chunk().map(|chunk| chunk.after)",
         "message.chunk().and_then(|chunk| chunk.lines.iter().max().map(|line| line + 1))"),
    ]),
    Mutant("BT33", "the purge's last error has the instant of an earlier error", "ledger::upkeep::purge_report", [
        ("src/ledger/upkeep/purge_report.rs", "        self.error = Some((problem, now));\n        self.error_at = None;\n",
         "        self.error = Some((problem, now));\n"),
    ]),
    Mutant("BT34", "a bulk operation makes up for the time that it waited", "ledger::operators::pace", [
        ("src/ledger/operators/pace.rs", "self.next_at.max(now) + self.every",
         "self.next_at + self.every"),
    ]),
    Mutant("BT35", "a page of counted consumers ends where a run is on it", "ledger::operators::count_entries", [
        ("src/ledger/operators/count_entries.rs", "if names.len() < PAGE {",
         "if names.iter().filter(|name| Namespace::stored(name).replay_run().is_empty()).count() < PAGE {"),
    ]),
    Mutant("BT36", "a refused item of a BatchStore has no path", "inbox::batches", [
        ("src/wire/inbox.rs", "        let rejection = rejection.within(&format!(\"requests[{index}].\"));\n",
         ""),
    ]),
    Mutant("BT37", "a waiting call that finds no bytes keeps a place", "accounts", [
        ("src/accounts/call.rs", "        if taken.is_err() {\n            if self.counts {\n                self.state.owner.end_call();\n            }\n            return taken;\n        }\n",
         "        if taken.is_err() {\n            return taken;\n        }\n"),
    ]),
    Mutant("BT38", "a drain hides an unknown outcome behind an older verdict", "ledger::waiting::tests", [
        ("src/ledger/waiting/call.rs", "return (failed.map_or_else(|| repeated(later(last)), Err), WaitEnd::Draining);",
         "return (repeated(later(last)), WaitEnd::Draining);"),
    ]),
    Mutant("BT39", "a final error after an unknown outcome is repeated until the wait ends", "ledger::waiting::tests", [
        ("src/ledger/waiting/call.rs", "        match answer {\n", "        match answer.map_err(|refused| failed_again(failed.take(), refused)) {\n"),
    ]),
    Mutant("BT40", "messages that are due later are counted without a bound on Postgres", "proof::counted::alike", [
        ("src/store/postgres/inbox_statements.rs", "        ORDER BY e.next_at, e.key LIMIT $2) AS l) AS later", "        ORDER BY e.next_at, e.key) AS l) AS later"),
    ]),
    Mutant("BT41", "the oldest due message of an index is any of ten on SQLite", "proof::counted::alike", [
        ("src/store/sqlite/inbox_statements.rs", "AND e.next_at <= ?2\nORDER BY e.next_at, e.key LIMIT 10", "AND e.next_at <= ?2\nORDER BY e.next_at DESC, e.key LIMIT 10"),
    ]),
    Mutant("BT42", "events of a consumer at one instant are listed in the other order on SQLite", "proof::counted::alike", [
        ("src/store/sqlite/audit.rs", "FROM audit WHERE consumer = ?4 AND (at, request_id) < (?1, ?2)\nORDER BY at DESC, request_id DESC", "FROM audit WHERE consumer = ?4 AND (at, request_id) < (?1, ?2)\nORDER BY at DESC, request_id"),
    ]),
    Mutant("BT43", "the second daily sweep begins where the first one ended", "ledger::upkeep::erase", [
        ("src/ledger/upkeep/erase.rs", "(self.place, self.swept_at) = (MessagePlace::default(), Some(Instant::now()));",
         "self.swept_at = Some(Instant::now());"),
    ]),
    Mutant("BT44", "a count whose parts differ in being complete is shown as exact on Postgres", "queries::marks", [
        ("src/store/postgres/counting.rs", "bool_or(o.more) AS more",
         "bool_and(o.more) AS more"),
    ]),
    Mutant("BT45", "the age of a parked entry counts from its last change on SQLite", "queries::open", [
        ("src/store/sqlite/listing.rs", "coalesce(e.parked_at, e.updated_at, e.granted_at, e.created_at) >= ?15",
         "coalesce(e.updated_at, e.parked_at, e.granted_at, e.created_at) >= ?15"),
    ]),
    Mutant("BT46", "numbers that a rolled back hand-out assigned are kept on Postgres", "stores::inbox", [
        ("src/store/postgres/inbox.rs", "        if outcome.is_err() {\n            // Numbers",
         "        if matches!(outcome, Err(StoreError::Unknown(_))) {\n            // Numbers"),
    ]),
    Mutant("BT47", "a shorter retention brings no turn of the purge forward for replay runs on Postgres", "stores::turns", [
        ("src/store/postgres/policies.rs", "      AND ((c.name = '' AND n.retention IS NULL) OR starts_with(n.name, c.name || chr(31)))",
         "      AND c.name = '' AND n.retention IS NULL"),
    ]),
    Mutant("BT48", "each call of a connection puts off the check of its certificate", "identity::authenticator", [
        ("src/identity/authenticator.rs", "        if let Some((at, verified)) = &cache.certificate\n            && now.saturating_duration_since(*at) < CERTIFICATE_TRUSTED_FOR\n        {\n            return *verified;",
         "        if let Some((at, verified)) = &mut cache.certificate\n            && now.saturating_duration_since(*at) < CERTIFICATE_TRUSTED_FOR\n        {\n            *at = now;\n            return *verified;"),
    ]),
    Mutant("BT49", "a used-up rate is forgotten with the connection of its principal", "accounts::owner", [
        ("src/accounts/owner.rs", "let in_use = |owner: &Arc<Owner>| Arc::strong_count(owner) > 1 || owner.full_at.load(Relaxed) > now;",
         "let in_use = |owner: &Arc<Owner>| Arc::strong_count(owner) > 1;"),
    ]),
    Mutant("BT50", "of several waits of one call only the last is subtracted", "accounts::call", [
        ("src/accounts/call.rs", "        before + now.saturating_sub(self.resting.since.load(Relaxed))",
         "        now.saturating_sub(self.resting.since.load(Relaxed))"),
    ]),
    Mutant("BT51", "entries near exhaustion of the others are those of one consumer", "metrics::entries", [
        ("src/metrics/entries.rs", "        self.near_exhaustion += other.near_exhaustion;",
         "        self.near_exhaustion = self.near_exhaustion.max(other.near_exhaustion);"),
    ]),
    Mutant("BT52", "the wait for another verdict counts as time of the server", "rpc::edge::layer", [
        ("src/rpc/edge/layer.rs", "        this.counted.end(code, took);",
         "        let whole = this.counted.took();\n        this.counted.end(code, whole);"),
    ]),
    Mutant("BT53", "a connection is shown the certificate of the instant of its acceptance", "listener", [
        ("src/listener/mod.rs", "        let Some(Ok(permit)) = until(&closing, Arc::clone(&permits).acquire_owned()).await else { break };\n        let opening = handshake::perform(stream, address, guard.trust().tls, protocols);",
         "        let tls = guard.trust().tls;\n        let Some(Ok(permit)) = until(&closing, Arc::clone(&permits).acquire_owned()).await else { break };\n        let opening = handshake::perform(stream, address, tls, protocols);"),
    ]),
    Mutant("BT54", "a refusal by HTTP has no Retry-After", "rpc::door", [
        ("src/rpc/door/mod.rs", "    Advised::wait(wait).insert(&mut headers);",
         "    // The refusal's own trailers have it already.\n    if !headers.contains_key(\"idempotency-ledger-retry-after-ms\") {\n        Advised::wait(wait).insert(&mut headers);\n    }"),
    ]),
    Mutant("BT55", "a Complete that is alone is refused together with an item of a batch", "ledger::claims::locked_rows", [
        ("src/ledger/claims/locked_rows.rs", "                let (patient, items) = key_queue.split(|request| request.to.is_alone());\n                late.extend(items);\n                rows.waiting.extend(patient.map(|key_queue| Waiting { key_queue, until: None }));",
         "                late.push(key_queue);"),
    ]),
    Mutant("BT56", "a mixed batch has the share of its least urgent command", "ledger::claims::queue", [
        ("src/ledger/claims/queue/mod.rs", "            key_queues.iter().map(|key_queue| Lane::of(&key_queue.head.command)).min().unwrap_or(Lane::Close);",
         "            key_queues.iter().map(|key_queue| Lane::of(&key_queue.head.command)).max().unwrap_or(Lane::Close);"),
    ]),
    Mutant("BT57", "reconcile prints the shortest remaining lease", "cli::reconcile::counts", [
        ("src/cli/reconcile/counts.rs", "self.retry_after.is_none_or(|now| (now.seconds, now.nanos) < (one.seconds, one.nanos))",
         "self.retry_after.is_none_or(|now| (one.seconds, one.nanos) < (now.seconds, now.nanos))"),
    ]),
    Mutant("BT58", "a bulk change without a head of its answer says nothing of how to go on", "cli::bulk", [
        ("src/cli/entries/bulk.rs", "    // From here on entries may have been changed.\n    tally.begun = true;\n    let mut reports = request.begin(admin).await?;",
         "    let mut reports = request.begin(admin).await?;\n    // From here on entries may have been changed.\n    tally.begun = true;"),
    ]),
    Mutant("BT59", "a page that leaves out nothing silences the note of later pages", "cli::entries", [
        ("src/cli/table/mod.rs", "        if !note.is_empty() && !NAMED.swap(true, Ordering::Relaxed) {",
         "        if !NAMED.swap(true, Ordering::Relaxed) && !note.is_empty() {"),
    ]),
    Mutant("BT60", "an event type that is only stored loses its series", "metrics::tests::by_type", [
        ("src/metrics/consumers.rs", "        event_type.see(minute);\n        self.count_later(&consumer, &event_type, Later::Stored);",
         "        self.count_later(&consumer, &event_type, Later::Stored);"),
    ]),
    Mutant("BT61", "forgotten series of stored messages keep their charge", "metrics::tests::by_type", [
        ("src/metrics/event_type.rs", "            drop(families.stored.remove_label_values(&[consumer, name]));\n            needs = needs.and(self.stored_needs());",
         "            drop(families.stored.remove_label_values(&[consumer, name]));"),
    ]),
    Mutant("BT62", "only the first consumer of an import is checked for another reason", "bulk::imports", [
        ("src/ledger/operators/import.rs", "before.map_err(StoreError::nothing_sent)?.iter().any(|digest| *digest != Some(order.digest))",
         "before.map_err(StoreError::nothing_sent)?.first().is_some_and(|digest| *digest != Some(order.digest))"),
    ]),
    Mutant("BT63", "only the calls for the first changed key are woken", "waiting::without_claim", [
        ("src/ledger/changes.rs", "        for key in &self.keys {\n",
         "        for key in self.keys.iter().take(1) {\n"),
    ]),
    Mutant("BT64", "failures of counts are counted over the life of the server", "ledger::operators::count_entries", [
        ("src/ledger/operators/count_entries.rs", "has_policy);\n            0\n",
         "has_policy);\n            failures\n"),
    ]),
    Mutant("BT65", "used-up quotas are forgotten when there are many", "ledger::claims::admission", [
        ("src/ledger/claims/admission.rs", "            self.by_consumer.retain(|_, bucket| bucket.full_at > now);",
         "            self.by_consumer.retain(|_, bucket| bucket.full_at > now + SECOND);"),
    ]),
    Mutant("BT66", "the erase lag is that of the newest message on SQLite", "stores::inbox", [
        ("src/store/sqlite/inbox.rs", "    erased.oldest_due = rows.first().map(|row| StoreTime(row.get(\"erase_at\")));",
         "    erased.oldest_due = rows.last().map(|row| StoreTime(row.get(\"erase_at\")));"),
    ]),
    Mutant("BT67", "only the discovery document has to arrive in time", "server::jwks::fetch", [
        ("src/server/jwks/fetch/mod.rs", "        let late = || format!(\"{}: no whole answer within {:?}\", self.place.uri, self.within);\n        timeout(self.within, self.found()).await.unwrap_or_else(|_| Err(late()))\n    }\n\n    async fn found(&self) -> Result<Keys, String> {\n        let named = |place: &Place, why| format!(\"{}: {why}\", place.uri);\n        let text = self.place.text().await.map_err(|why| named(&self.place, why))?;",
         "        self.found().await\n    }\n\n    async fn found(&self) -> Result<Keys, String> {\n        let named = |place: &Place, why| format!(\"{}: {why}\", place.uri);\n        let late = || format!(\"no whole answer within {:?}\", self.within);\n        let got = timeout(self.within, self.place.text()).await.unwrap_or_else(|_| Err(late()));\n        let text = got.map_err(|why| named(&self.place, why))?;"),
    ]),
    Mutant("BT68", "streams that end since the server is full count as stalls", "accounts", [
        ("src/accounts/sweep.rs", "        if why != Ended::Full {\n            call.connection.sweep_state.stalls.fetch_add(1, Relaxed);\n        }",
         "        call.connection.sweep_state.stalls.fetch_add(1, Relaxed);"),
    ]),
    Mutant("BT69", "bad lines after the last request are neither shown nor counted", "cli::reconcile", [
        ("src/cli/reconcile/mod.rs", "        counts.bad(&mut parts.bad);\n        (counts.torn, counts.broken) = (parts.torn, parts.broken);",
         "        (counts.torn, counts.broken) = (parts.torn, parts.broken);"),
    ]),
    Mutant("BT70", "each byte of a head restarts its five seconds", "server::observe::head", [
        ("src/server/observe/head.rs", "            if stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {\n                if is_whole(&bytes, looked_at) {\n                    return true;\n                }\n                looked_at = bytes.len();\n            } else {\n                return false;\n            }\n        }\n    };\n    let decided = tokio::select! {\n        biased;\n        whole = timeout(HEAD_WITHIN, reading) => {\n            if whole != Ok(true) {",
         "            let read = timeout(HEAD_WITHIN, stream.read_buf(&mut bytes)).await;\n            if read.is_ok_and(|read| read.is_ok_and(|read| read > 0)) {\n                if is_whole(&bytes, looked_at) {\n                    return true;\n                }\n                looked_at = bytes.len();\n            } else {\n                return false;\n            }\n        }\n    };\n    let decided = tokio::select! {\n        biased;\n        whole = reading => {\n            if !whole {"),
    ]),
    Mutant("BT71", "a repeat of replay create has a new request id", "cli::replays", [
        ("src/cli/replay.rs", "            request_id: self.run.request_id.unwrap_or_else(retry::id),\n            reason: self.run.reason,\n        };\n        let call = || {\n            let (mut admin, request) = (admin.clone(), client.request(request.clone()));\n            async move { admin.create_replay_run(request).await }",
         "            request_id: self.run.request_id.clone().unwrap_or_else(retry::id),\n            reason: self.run.reason,\n        };\n        let call = || {\n            let request_id = self.run.request_id.clone().unwrap_or_else(retry::id);\n            let request = proto::CreateReplayRunRequest { request_id, ..request.clone() };\n            let (mut admin, request) = (admin.clone(), client.request(request));\n            async move { admin.create_replay_run(request).await }"),
    ]),
    Mutant("BT72", "a failed heartbeat does not end a row of good ones", "ledger::upkeep::probe", [
        ("src/ledger/upkeep/probe.rs", "        Beats { good: 0, ..self }",
         "        self"),
    ]),
    Mutant("BT73", "the calls that begin to wait during an import are not woken", "waiting::without_claim", [
        ("src/ledger/operators/handle.rs", "order.rows.iter().map(|(key, _)| key.clone()).collect();",
         "order.rows.iter().filter(|_| self.inner.changes.waiting() > 0).map(|(key, _)| key.clone()).collect();"),
    ]),
    Mutant("BT74", "exactly as many entries as are grouped count as a sample", "queries::open", [
        ("src/ledger/operators/open_entries.rs", "            is_sample |= !rows.is_empty();",
         "            is_sample = true;"),
    ]),
    Mutant("BT75", "a server that owes nothing counts as silent", "cli::import::sending::tests", [
        ("src/cli/import/sending.rs", "(self.ended || !self.sent.is_empty()).then_some(now);",
         "Some(now);"),
    ]),
    Mutant("BT76", "an empty result next to another one is refused", "cli::import::row::tests", [
        ("src/cli/import/row.rs", "match (self.result.filter(given), self.result_base64.filter(given)) {",
         "match (self.result, self.result_base64.filter(given)) {"),
    ]),
    Mutant("BT77", "a text from outside may change the direction of a terminal's text", "cli::text", [
        ("src/cli/text.rs", "        | '\\u{61c}'\n        | '\\u{200b}'",
         "        | '\\u{200b}'"),
    ]),
    Mutant("BT78", "the help of a metric leaves out values of its label", "metrics::tests", [
        ("src/metrics/catalogue.rs", "open_claims, waits, inbox, reads,",
         "open_claims, reads,"),
    ]),
    Mutant("BT79", "a call that read an older minute sets back when its series were last counted", "metrics::seen", [
        ("src/metrics/seen.rs", "if self.0.load(Ordering::Relaxed) < minute {\n            self.0.fetch_max(minute,",
         "if self.0.load(Ordering::Relaxed) != minute {\n            self.0.store(minute,"),
    ]),
    Mutant("BT80", "an import from a pipe that pauses for a minute is ended", "cli::import::send::tests", [
        ("src/cli/import/send.rs", "tokio::time::Instant::now() + keep_open_every;",
         "tokio::time::Instant::now() + 60 * keep_open_every.max(SILENCE_MAX);"),
    ]),
    Mutant("BT81", "a message without rows hides the line to continue from", "cli::import::sending::tests", [
        ("src/cli/import/sending.rs", "self.after = message.chunk().map(|chunk| chunk.after).or(self.after);",
         "self.after = message.chunk().map(|chunk| chunk.after);"),
    ]),
    Mutant("BT82", "a reconcile that outlives its call wakes no call", "waiting::without_claim", [
        ("src/ledger/operators/reconcile.rs", "let asked = (work, inner.changes.report_at_end(keys));",
         "let _report = inner.changes.report_at_end(keys);\n        let asked = (work, ());"),
    ]),
    Mutant("BT83", "each batch reads the policies again after a failure", "ledger::policies::in_force", [
        ("src/ledger/policies/in_force.rs", "if self.failed.are_recent(Instant::now()) {",
         "if self.failed.are_recent(Instant::now()) && self.window_required {"),
    ]),
    Mutant("BT84", "a reading that was dropped counts as read", "ledger::policies::failed_readings", [
        ("src/ledger/policies/failed_readings.rs", "Attempt { failed: self, failed_at: Some(now) }",
         "Attempt { failed: self, failed_at: Some(now).filter(|_| self.are_recent(now)) }"),
    ]),
    Mutant("BT85", "the log never reports policies that this version cannot read", "ledger::policies::in_force", [
        ("src/ledger/policies/in_force.rs", ".log(policies, Instant::now());",
         ".log(&self.file, policies.unreadable().fold(Instant::now(), |now, _| now));"),
    ]),
    Mutant("BT86", "unreadable policies are reported with each look", "ledger::policies::alerts", [
        ("src/ledger/policies/alerts.rs", "now.saturating_duration_since(at) >= EVERY",
         "now.saturating_duration_since(at) <= EVERY"),
    ]),
    Mutant("BT87", "a deleted policy whose floor is that of all takes memory", "ledger::policies::table", [
        ("src/ledger/policies/table.rs", "**floor > default_floor && !self.own",
         "**floor >= default_floor && !self.own"),
    ]),
    Mutant("BT88", "an id of a hold is one of all prefixes", "holds::", [
        ("src/ledger/policies/holds.rs", 'format!("{}*", self.prefix)', '"*".to_owned()'),
    ]),
    Mutant("BT89", "an unknown run is looked up again too early", "ledger::policies::run_lookups", [
        ("src/ledger/policies/run_lookups.rs", "now.saturating_duration_since(last.at) < EVERY;",
         "now.saturating_duration_since(last.at) < EVERY / 2;"),
    ]),
    Mutant("BT90", "at a terminal a command gets the signals of its keys twice", "cli::once::command", [
        ("src/cli/once/command.rs", "own_group || ![Signal::INT",
         "own_group || [Signal::INT"),
    ]),
    Mutant("BT91", "a bulk change without doubtful effects reports its counts twice", "cli::bulk", [
        ("src/cli/entries/bulk.rs", "tally.doubtful > 0 && output.json()",
         "tally.doubtful > 0 || output.json()"),
    ]),
    Mutant("BT92", "calls with headers that are too large are not counted", "edge::shape", [
        ("src/rpc/edge/layer.rs", "            account.refused(&refused);\n            return Err(refused);",
         "            return Err(refused);"),
    ]),
    Mutant("BT94", "a change of one entry that outlives its call wakes no call", "waiting::without_claim", [
        ("src/ledger/operators/handle.rs", "let report = self.inner.changes.report_at_end(vec![order.key.clone()]);",
         "let _report = self.inner.changes.report_at_end(vec![order.key.clone()]);"),
        ("src/ledger/operators/handle.rs", "policies), order, report);", "policies), order, ());"),
    ]),
    Mutant("BA6", "a call that has waited stays in the gauge", "waiting::bounds", [
        ("src/metrics/waits.rs", "        self.waits.waiters.dec();\n", ""),
    ]),
    Mutant("BA7", "a call that was taken back keeps its account", "edge::resets", [
        (CALL_ACCOUNT, "            self.connection.ended(number);\n", "            let _kept = number;\n"),
    ]),
    Mutant("EN1", "a stream that took more than its share counts as one that found the server full", "metrics::tests", [
        ("src/metrics/limits.rs", "            Ended::Share => share.inc(),\n            Ended::Full => full.inc(),\n",
         "            Ended::Share => full.inc(),\n            Ended::Full => share.inc(),\n"),
    ]),
    Mutant("EN2", "a message that is kept already counts as a new one", "metrics::tests", [
        ("src/metrics/inbox.rs", "Ok(StoreVerdict::AlreadyStored { .. }) => 1,", "Ok(StoreVerdict::AlreadyStored { .. }) => 0,"),
    ]),
    Mutant("WI4", "the bound of stored bytes is the default, whatever is set", "process::acts", [
        ("src/server/config/checked.rs", "bytes_max: u64::try_from(inbox_bytes_max).unwrap_or(u64::MAX),",
         "bytes_max: u64::try_from(inbox_bytes_max.max(10 << 30)).unwrap_or(u64::MAX),"),
    ]),
    Mutant("WI5", "sessions are never replaced, whatever is set", "process::acts", [
        ("src/server/config/mod.rs", "lifetime: self.max_connection_lifetime,", "lifetime: None,"),
    ]),
    Mutant("CP1", "a crash point is at none of the places that the proofs know", "proof::live::points", [
        ("src/ledger/inbox/store.rs", 'crash::point("after_stored");', 'crash::point("after_stored");\n        crash::point("after_kept");'),
    ]),
    Mutant("CL6", "on Postgres a list ignores the owner of its filter", "proof::counted", [
        ("src/store/postgres/listing.rs", ".bind(filter.owner.clone())", ".bind(String::new())"),
    ]),
    Mutant("CL7", "metrics count messages that are due as later, and those of later as due", "proof::counted", [
        ("src/ledger/operators/count_entries.rs", "(backlog.counts.due, backlog.counts.later)",
         "(backlog.counts.later, backlog.counts.due)"),
    ]),
    Mutant("CL8", "a group has the age of its newest entry", "proof::counted", [
        ("src/ledger/operators/open_entries.rs", "group.oldest.min(created)", "group.oldest.max(created)"),
    ]),
    Mutant("CL9", "on SQLite lists and groups ignore since when entries are parked", "proof::counted", [
        ("src/store/sqlite/listing.rs", ".bind(filter.parked_from.map(StoreTime::micros))", ".bind(None::<i64>)"),
    ]),
    Mutant("RF1", "a waiting call never returns its place on the connection", "refusals::", [
        ("src/accounts/connection.rs", "        self.waiting.fetch_sub(1, Relaxed);\n", "        let _kept = &self.waiting;\n"),
    ]),
    Mutant("RF2", "a command that is answered keeps its bytes in the queue", "refusals::", [
        ("src/ledger/claims/request.rs", "        self.of.fetch_sub(self.bytes, Ordering::SeqCst);\n", "        let _kept = (&self.of, self.bytes);\n"),
    ]),
    Mutant("RF3", "a request that finds no space keeps its bytes on the connection", "refusals::", [
        (CALL_ACCOUNT, "Err(_) => drop(connection.requests.put_back(bytes)),", "Err(_) => {}"),
    ]),
    Mutant("RW1", "a call that rests returns the bytes of its message twice", "accounts::tests::walk", [
        (CALL_ACCOUNT, "        self.state.message.store(0, Relaxed);\n        self.put_back(bytes);", "        self.put_back(bytes);"),
    ]),
    Mutant("RW2", "a call keeps the bytes of a message that has ended", "accounts::tests::walk", [
        (CALL_ACCOUNT, "        self.put_back(self.state.message.swap(0, Relaxed));", "        self.state.message.store(0, Relaxed);"),
    ]),
    Mutant("AS4", "a connection whose flush the socket cuts is not woken", "listener::io::any_split", [
        ("src/listener/io/write_buffer.rs", "(self.refused, self.poll_send_all(context));",
         "(self.refused, self.poll_send_all(&mut Context::from_waker(std::task::Waker::noop())));"),
    ]),
    Mutant("AS5", "a large write that the socket cuts is not woken", "listener::io::any_split", [
        ("src/listener/io/write_buffer.rs", "        ready!(shared.poll_send_all(context))?;\n        let sent",
         "        ready!(shared.poll_send_all(&mut Context::from_waker(std::task::Waker::noop())))?;\n        let sent"),
    ]),
    Mutant("WI6", "the bound of a connection's bytes is at least the default, whatever is set", "process::acts", [
        ("src/server/config/checked.rs", "        connection_bytes_max,\n        server_bytes_max,\n        stall_max",
         "        connection_bytes_max: connection_bytes_max.max(16 << 20),\n        server_bytes_max,\n        stall_max"),
    ]),
    Mutant("WI7", "the bound of the queue's bytes is at least the default, whatever is set", "process::acts", [
        ("src/server/config/checked.rs", "        queue_bytes_max,\n        batch_max,\n", "        queue_bytes_max: queue_bytes_max.max(64 << 20),\n        batch_max,\n"),
    ]),
    Mutant("WI8", "the keys of an issuer are kept for a day at least, whatever is set", "identity::web_tokens", [
        ("src/server/trust/issuers.rs", "keep: settings.jwks_keep }", "keep: settings.jwks_keep.max(std::time::Duration::from_hours(24)) }"),
    ]),
    Mutant("WI9", "the log names how long ago keys were fetched instead of how long they stay in force", "server::jwks", [
        ("src/server/jwks/plan.rs", "(good + self.times.keep).saturating_duration_since(now)", "now.saturating_duration_since(good)"),
    ]),
    Mutant("TK8", "the workers of all principals that wait count for each", "two_of_a_kind", [
        ("src/ledger/inbox/line.rs", "self.places().take(self.bounds, consumer, principal, 0)", 'self.places().take(self.bounds, consumer, principal.map(|_| "one"), 0)'),
        ("src/ledger/inbox/line.rs", "requeue(self.consumer, self.principal)", 'requeue(self.consumer, self.principal.map(|_| "one"))'),
    ]),
    Mutant("TK9", "the workers of all consumers that wait count for each", "two_of_a_kind", [
        ("src/ledger/inbox/line.rs", "self.places().take(self.bounds, consumer, principal, 0)", 'self.places().take(self.bounds, "one", principal, 0)'),
        ("src/ledger/inbox/line.rs", "requeue(self.consumer, self.principal)", 'requeue("one", self.principal)'),
    ]),
    Mutant("MP1", "the names of consumers for a shell end with the first page", "cli::many_pages", [
        ("src/cli/completions.rs", "        request.page_token = page.next_page_token;\n", "        break;\n"),
    ]),
    Mutant("MP2", "the durations of a consumer's handlers are those of the first page", "cli::many_pages", [
        ("src/cli/policy/observed.rs", "const PAGES_MAX: usize = 10;", "const PAGES_MAX: usize = 1;"),
    ]),
    Mutant("MP3", "entries next reads one page, and does not report the rest", "cli::many_pages", [
        ("src/cli/entries/next.rs", "            if found.is_whole() {", "            if true {"),
        ("src/cli/entries/next.rs", "if let (false, Some(until)) = (found.is_whole(), &found.read_until) {", "if let (true, Some(until)) = (found.is_whole(), &found.read_until) {"),
    ]),
    Mutant("TF1", "the last certificate of the file of clients' authorities does not count", "any_order::certificates", [
        ("src/identity/authority.rs", 'for certificate in certificates(authority).map_err(|text| ("client_ca", text))? {', 'let all = certificates(authority).map_err(|text| ("client_ca", text))?;\n        let most = (all.len() - 1).max(1);\n        for certificate in all.into_iter().take(most) {'),
    ]),
    Mutant("TF2", "of several revocation lists all but the first revoke nothing", "any_order::certificates", [
        ("src/identity/authority.rs", "builder = builder.with_crls(lists);", "builder = builder.with_crls(lists.into_iter().take(1)).allow_unknown_revocation_status();"),
    ]),
    Mutant("TF3", "the server sends its own certificate and the next one alone", "any_order::certificates", [
        ("src/identity/tls.rs", "CertifiedKey::from_der(chain, key, ", "CertifiedKey::from_der(chain.into_iter().take(2).collect(), key, "),
    ]),
    Mutant("SR1", "bytes that TLS has encrypted, and the socket has not taken, wait for the next write", "edge::slow_reader", [
        ("src/listener/io/write_buffer.rs", "        Pin::new(&mut self.socket).poll_flush(context)\n    }\n\n    /// Flushes", "        Poll::Ready(Ok(()))\n    }\n\n    /// Flushes"),
    ]),
    Mutant("PF1", "a run that was swept is unknown instead of over", "replays::", [
        ("src/ledger/policies/run_lookups.rs", "found.end() <= now", "found.end() > now"),
    ]),
    Mutant("PF2", "retentions of policies in the file are not put in force", "redelivery", [
        ("src/ledger/policies/in_force.rs", "policies.own().map(|(name, policy)| (name, true, policy))", "policies.own().take(0).map(|(name, policy)| (name, true, policy))"),
    ]),
    Mutant("PF3", "a server that another one overtakes at its start goes on with what it has read", "policies::races", [
        ("src/ledger/policies/in_force.rs", "put_in_force(news, Some(seen)).await? < news.len()", "put_in_force(news, Some(seen)).await? > news.len()"),
    ]),
    Mutant("PF4", "a replay run cannot be as long as its consumer's retention", "replays::", [
        ("src/ledger/policies/replays.rs", "ends_in > retention", "ends_in >= retention"),
    ]),
    Mutant("PF5", "the log reports policies that cannot be read when no report is due", "ledger::policies", [
        ("src/ledger/policies/alerts.rs", "if !self.are_due(count, now) {", "if self.are_due(count, now) {"),
    ]),
    Mutant("PF6", "a suppressing run acknowledges by policies that could not be read for too long", "replays::servers", [
        ("src/ledger/claims/round/replay_run.rs", "self.policies.fresh() && !self.shared.store.withholds_grants()", "!self.shared.store.withholds_grants()"),
    ]),
]
