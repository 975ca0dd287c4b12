# shellcheck shell=bash
# The suites: name | what one unit of size is | small | large | cargo's arguments | what it shows.
# `tests/run` uses the small size, which is also the default in the suite's own code.
# shellcheck disable=SC2034 # for tests/prove
SUITES=(
    "model|unique states|all of a small bound|10000000|--features crash-points --test it proof::model|every interleaving of three deliveries, races, losses, expiry, redrive and purge keeps the invariants (T1)"
    "differential|steps|200000|10000000|--features crash-points --test it proof::differential|the core and an independent specification agree on answers, rows and purges (T16)"
    "lockstep|sequences of 50 calls a store|320|5000|--features crash-points --test it proof::lockstep|a whole server agrees with the specification, through the wire, on both stores (T3)"
    "interleavings|schedules|1000|100000|--lib --features shuttle interleavings|the batcher answers each call once, under any schedule of its tasks (T5)"
    "live-history|calls|10000|1000000|--features crash-points --test it proof::live::suites::histories|three replicas over one Postgres: every key's history is linearizable (T6)"
    "live-operators|calls of consumers|5000|100000|--features crash-points --test it proof::live::suites::operators|redrives, parks, resolves, deletes and changes of policies amid claims: every key's history is linearizable, under policies that may have been in force"
    "audit|operators' changes|60|2000|--features crash-points --test it proof::live::suites::every_change|an audit event for each change of entries and policies, one by one or in bulk, and for no refusal, though servers and Postgres are killed amid them"
    "kill|kills|20|500|--features crash-points --test it proof::live::suites::killed|servers killed at random and at named points lose nothing (T7)"
    "postgres-crash|crashes, 100 ended backends each|5|100|--features crash-points --test it proof::live::suites::a_crashing|Postgres crashing, its backends ended, loses nothing (T8)"
    "pooler|crashes in each mode, 100 ended connections and a killed PgBouncer each|1|50|--features crash-points --test it proof::live::pooled|behind PgBouncer, in session and in transaction mode, its connections and Postgres' ended, Postgres and PgBouncer killed, nothing is lost"
    "pause|pauses|5|50|--features crash-points --test it proof::live::suites::pauses|servers and Postgres stopped beyond the lease are fenced (T10)"
    "cut|cuts|100|1000|--features crash-points --test it proof::live::suites::cut|connections cut, half-closed, silenced on both sides lose nothing (T11)"
    "conservation|messages|1000|100000|--features crash-points --test it proof::live::conservation|messages are stored and acknowledged while servers are killed at named points of the inbox, Postgres crashes and connections are cut: every one ends, and none is handed to two live claims"
    "clocks|jumps of the store's clock|5|100|--features crash-points --test it proof::live::clocks|the store's clock jumps forward and back by up to an hour under load: no token is given twice or shrinks, nothing is granted while the clock is behind, and metrics and log report it (T12)"
    "failover|failovers, two fifths of them to an asynchronous standby besides, and a restore|2|50|--features crash-points --test it proof::live::failover|failovers to a synchronous standby lose nothing; what an asynchronous one and a restore from a backup lose is announced, and explains every history (T9)"
    "versions|restarts into another version|3|24|--features crash-points --test it proof::live::versions|servers and clients of this version and the one before, the next schema coming: every history is linearizable (T20)"
    "overload|seconds|10|1800|--features crash-points --test it proof::live::overload|one to ten times what the store can do: at least nine tenths of that are done, the rest is refused within 5 ms, memory is bounded, and all is well within 10 s (T17)"
    "cancel|cancelled calls a store|10000|100000|--features crash-points --test it cancel::|cancelled calls poison no connection and strand no key (T14)"
    "soak|seconds|60|1800|--features crash-points --test it proof::live::suites::all_harms|kills, restarts, pauses, cuts, silent networks, held rows, logs that are not read and a crashing Postgres, all at the same time, operators and policies at work: every history is linearizable, and memory does not grow (T21)"
    "mesh|restarts, and as many kills|3|100|--features crash-points --test it proof::live::mesh|three replicas behind a real Envoy with the shipped file: rolling restarts and a replica without the store fail no call, a kill at most one of 100,000; what fails has its reason, and every history is linearizable"
    "direct|restarts, and as many kills|3|100|--features crash-points --test it proof::direct|three replicas that clients of grpcio and of grpc-go reach themselves, by the shipped service config alone: rolling restarts fail no call, a kill at most one of 100,000, and every message has one effect"
    "availability|seconds that each fault lasts|3|60|--features crash-points --test it availability|lost sessions, a held row, a silent failover, an absent standby and a log that is not read cost the others little"
    "rows|entries in the table|20000|20000000|--features crash-points --test it proof::rows|a look-up, a page, a summary and a purge touch a bounded number of buffers, with statistics and without, however large the table"
    "guard|messages in each database, three deliveries each|24|10000|--features crash-points --test it proof::guard|consumers of Postgres, SQLite and MariaDB are killed and stopped, entries redriven by force and purged: with the guard each message has one effect, whose result the ledger has; without it there are doubles"
    "counted|steps|64|5000|--features crash-points --test it proof::counted|after each step of a random walk (claims, settlements, operators' changes, expiry, clocks set back) summaries, groups, metrics and lists by each filter report the rows that the store holds, on both stores, and both answer each read of a session alike"
    "waiters|calls that wait while a server drains|1000|10000|--features crash-points --test it waiting::crowd|a thousand calls wait for one key and one is granted it at each failure; a server that drains lets its waiting calls go within a second; polls send few statements"
    "poison|batches|all cases|all cases|--features crash-points --test it proof::poison|rows that the database refuses fail alone, within 2 log2 n + 1 statements (T15)"
    "floods|clients of each flood|300|10000|--features crash-points --test it -- edge::floods observe::flood|idle connections, slow handshakes and bodies, messages that never arrive, answers that are never read, heads without an end, frames whose answers are never read, bombs and principals beyond their limits take bounded memory, and a healthy client is answered meanwhile; so it is by HTTP/1.1 at the HTTP port, and so are probes next to half requests and idle connections to the plain HTTP port"
    "fuzz|seconds a target|10|600|--features crash-points --test it proof::fuzz|mangled requests, page tokens, configurations, keys, credentials and files of rights are refused with a reason, and no caller is known by another name than a naive reading gives (T16)"
)

# The last large run of each suite: name, date, size, output.
RESULTS=tests/lib/results.tsv

# suite_field NAME NUMBER: prints a field of a suite, counted from 1; prints nothing if the suite does not exist.
suite_field() {
    local suite fields
    for suite in "${SUITES[@]}"; do
        [[ ${suite%%|*} == "$1" ]] || continue
        IFS='|' read -ra fields <<<"$suite"
        printf '%s' "${fields[$2 - 1]}"
    done
}

suites_list() {
    local suite name unit small large proves result
    for suite in "${SUITES[@]}"; do
        IFS='|' read -r name unit small large _ proves <<<"$suite"
        printf '%-16s %s\n%16s size: %s; small: %s, large: %s\n' "$name" "$proves" '' "$unit" "$small" "$large"
        result=$(suite_results "$name")
        printf '%16s last large run: %s\n' '' "${result//<br>/, }"
        awk -F '\t' -v name="$name " 'index($1, name) == 1 { printf "%16s with %s: %s: %s\n", "", substr($1, length(name) + 1), $2, $4 }' "$RESULTS"
    done
}

# Prints the large runs as the table of docs/proofs.md, from the file RESULTS.
suites_table() {
    local suite name unit small large proves
    printf '| suite | one unit of its size | small | large | last large run | what it found |\n'
    printf '| --- | --- | --- | --- | --- | --- |\n'
    for suite in "${SUITES[@]}"; do
        IFS='|' read -r name unit small large _ proves <<<"$suite"
        # shellcheck disable=SC2016 # the table's own quotes
        printf '| `%s`: %s | %s | %s | %s | %s |\n' "$name" "$proves" "$unit" "$small" "$large" "$(suite_found "$name")"
    done
    # shellcheck disable=SC2016 # the table's own quotes
    printf '| `mutants`: seeded bugs are seen by the suites that claim to cover them (T2) | bugs | 3 | all | %s |\n' \
        "$(suite_found mutants)"
}

# Prints two cells: the date of the last large run of a suite, and the sum of the counts at the ends of its lines.
suite_found() {
    awk -F '\t' -v name="$1" '
        $1 == name && match($4, /[0-9]+ violations$/) { date = $2; sum += substr($4, RSTART) + 0; found = sum " violations" }
        $1 == name && match($4, /[0-9]+ of [0-9]+ killed$/) { date = $2; found = substr($4, RSTART) }
        END { print (date == "" ? "none yet" : date) " | " found }' "$RESULTS"
}

# Fails unless docs/proofs.md has the table that suites_table prints.
suites_table_is_current() {
    diff <(suites_table) <(sed -n '/^## The suites/,/^## What/s/^|/|/p' docs/proofs.md) || die "docs/proofs.md has another table: tests/prove --table prints it"
}

# Prints the output of the last large run of a suite, its lines joined.
suite_results() {
    awk -F '\t' -v name="$1" '
        $1 == name { all = all (all == "" ? $2 ": " : "<br>") $4 } END { print (all == "" ? "none yet" : all) }' "$RESULTS"
}

# suite_run NAME [--size N|small|large] [--seed N] [--batch-max N] [--sessions N]
# The last two are settings of the suite's servers. The output of such a run is recorded next to that of the usual ones.
suite_run() {
    local name=$1 size=large seed='' batch_max='' sessions='' kept=$1 large arguments log code=0
    shift
    while (($#)); do
        case $1 in
            --size) size=${2:?--size needs a number, small or large} ;;
            --seed) seed=${2:?--seed needs a number} ;;
            --batch-max) batch_max=${2:?--batch-max needs a number} ;;
            --sessions) sessions=${2:?--sessions needs a number} ;;
            *) die "$1 is not an option of $name: there are --size, --seed, --batch-max and --sessions" ;;
        esac
        shift 2
    done
    large=$(suite_field "$name" 4)
    [[ $size == large ]] && size=$large
    # Without a number the suite uses its own default size.
    [[ $size =~ ^[0-9]+$ ]] || size=''
    read -ra arguments <<<"$(suite_field "$name" 5)"
    # Several test filters follow after `--`.
    [[ " ${arguments[*]} " == *" -- "* ]] || arguments+=(--)
    kept+=${batch_max:+ --batch-max $batch_max}${sessions:+ --sessions $sessions}
    log=$(mktemp)
    env ${batch_max:+IDEMPOTENCY_LEDGER_BATCH_MAX="$batch_max"} ${sessions:+IDEMPOTENCY_LEDGER_SESSIONS="$sessions"} \
        LEDGER_PROOF_PROGRESS=1 ${size:+LEDGER_PROOF_SIZE="$size"} ${seed:+LEDGER_PROOF_SEED="$seed"} \
        cargo test --locked "${arguments[@]}" --nocapture --include-ignored 2>&1 | tee "$log" || code=$?
    if ((code == 0)) && ! grep -q '^SUMMARY ' "$log"; then
        rm -f "$log"
        die "$name has tested nothing: no test matches ${arguments[*]}"
    fi
    if ((code == 0)) && [[ $size == "$large" || ! $large =~ ^[0-9]+$ ]]; then
        sed -i "/^$kept\t/d" "$RESULTS"
        grep -o 'SUMMARY .*' "$log" | while IFS= read -r line; do
            line=${line#SUMMARY }
            line=${line#"$name: "}
            printf '%s\t%s\t%s\t%s\n' "$kept" "$(date -u +%F)" "$size" "${line#"$name "}"
        done >>"$RESULTS"
    fi
    rm -f "$log"
    return "$code"
}
