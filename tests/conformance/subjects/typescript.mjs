// The subject of clients/typescript: PROTOCOL.md says what it reads and writes.
import { writeSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const entry = (name) => import(pathToFileURL(join(process.env.LEDGER_PACKAGE, 'dist', name)).href);
const il = await entry('index.mjs');

export const say = (event, fields = {}) => writeSync(1, `${JSON.stringify({ event, ...fields })}\n`);

/** Lets steps that wait go on; one that arrives early is kept. */
class Going {
  #calls = new Map();

  #of(call) {
    if (!this.#calls.has(call)) this.#calls.set(call, { early: 0, waiting: [] });
    return this.#calls.get(call);
  }

  go(call) {
    const known = this.#of(call);
    const waits = known.waiting.shift();
    if (waits) waits();
    else known.early += 1;
  }

  /** Waits for `go`; rejects where the signal is aborted before. */
  wait(call, signal) {
    const known = this.#of(call);
    if (known.early > 0) {
      known.early -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      known.waiting.push(resolve);
      signal?.addEventListener('abort', () => {
        known.waiting = known.waiting.filter((other) => other !== resolve);
        reject(signal.reason);
      });
    });
  }
}

const going = new Going();
const ledgers = new Map();
const cancels = new Map();
const running = new Set();

const content = (step, name) => ('bytes' in step ? 'x'.repeat(step.bytes) : (step[name] ?? ''));
const text = (bytes) => Buffer.from(bytes).toString();
const ms = (seconds) => (seconds === undefined ? undefined : seconds * 1000);

/** The error that a step throws. */
function thrown(step) {
  if (step.error === 'Retry') return new il.Retry(step.text, { afterMs: ms(step.after) });
  if (step.error === 'GiveBack') return new il.GiveBack(undefined, { unpinFingerprint: step.unpin ?? false });
  return step.error === 'Other' ? new TypeError(step.text) : new il[step.error](step.text);
}

function handler({ call, id, steps }) {
  return async (claim, signal) => {
    const { token, attempt, idempotencyKey, effectUnknown, checkpoint } = claim;
    const named = { call, token: String(token), idempotency_key: idempotencyKey };
    say('started', { ...named, attempt, effect_unknown: effectUnknown, checkpoint: text(checkpoint) });
    for (const step of steps) {
      if (step.do === 'effect') {
        say('effect', { ...named, id });
        await going.wait(call);
      } else if (step.do === 'pause') {
        say('paused', { call });
        try {
          await going.wait(call, signal);
        } catch (error) {
          say('lost', { call, reason: error.reason });
          throw error;
        }
      } else if (step.do === 'announce') {
        await claim.announce();
      } else if (step.do === 'save') {
        try {
          await claim.save(Buffer.from(content(step, 'checkpoint')));
        } catch (error) {
          if (!(error instanceof il.CheckpointDropped)) throw error;
          say('dropped', { call });
        }
      } else if (step.do === 'complete') {
        await claim.complete(content(step, 'result'));
      } else if (step.do === 'die') {
        process.kill(process.pid, 'SIGKILL');
      } else if (step.do === 'raise') {
        throw thrown(step);
      } else if (step.do === 'return') {
        return content(step, 'result');
      }
    }
    return undefined;
  };
}

function failed(call, error) {
  say('error', { call, error: error.name, field: error.field ?? '', text: error.message });
}

function finished(call, outcome) {
  const { advice, delayMs, result, replayed, resultDropped, effectUnknown, reason = null } = outcome;
  const said = { call, advice, delay: delayMs / 1000, result: result ? text(result) : null, reason, replayed };
  say('outcome', { ...said, result_dropped: resultDropped, effect_unknown: effectUnknown });
}

async function store({ ledger, call, source, id, headers = {}, ...command }) {
  const pairs = Object.entries(headers).map(([name, value]) => [name, Buffer.from(value)]);
  const message = { payload: Buffer.from(content(command, 'payload')), headers: pairs };
  try {
    finished(call, await ledgers.get(ledger).store(il.Key.of(source, id), message));
  } catch (error) {
    failed(call, error);
  }
}

async function work({ ledger, concurrency, steps, steps_of }) {
  const handle = (claim, { key: { id }, payload, headers }, signal) => {
    const pairs = Object.fromEntries(headers.map(([name, value]) => [name, text(value)]));
    say('handed', { call: id, payload: text(payload), headers: pairs });
    return handler({ call: id, id, steps: steps_of[id] ?? steps })(claim, signal);
  };
  say('worked', { ended: await ledgers.get(ledger).work(handle, { concurrency }) });
}

async function process_(command) {
  const { call, source, id, ledger, body, wait } = command;
  const cancel = new AbortController();
  cancels.set(call, cancel);
  try {
    const outcome = await ledgers.get(ledger).process(il.Key.of(source, id), handler(command), {
      body: body === undefined ? undefined : Buffer.from(body),
      waitMs: ms(wait),
      signal: cancel.signal,
    });
    finished(call, outcome);
  } catch (error) {
    if (cancel.signal.aborted) say('cancelled', { call });
    else failed(call, error);
  }
}

function open(command) {
  try {
    const { ledger, consumer, endpoint, lease, repeat_announced, client_cert_file, client_key_file } = command;
    const options = { consumer, endpoint: endpoint ?? undefined, leaseMs: ms(lease), repeatAnnounced: repeat_announced };
    const files = { clientCertFile: client_cert_file, clientKeyFile: client_key_file };
    ledgers.set(ledger, new il.Ledger({ ...options, ...files }));
    say('opened');
  } catch (error) {
    failed('open', error);
  }
}

async function shutdown(stop) {
  if (!stop.requested) await new Promise((resolve) => stop.signal.addEventListener('abort', resolve));
  say('stopping');
  for (const ledger of ledgers.values()) await ledger.close();
  await Promise.all(running);
  process.exit(0);
}

async function obey(command) {
  if (command.do === 'open') {
    open(command);
  } else if (command.do === 'process') {
    const delivery = process_(command);
    running.add(delivery);
    delivery.finally(() => running.delete(delivery));
  } else if (command.do === 'store') {
    await store(command);
  } else if (command.do === 'work') {
    await work(command);
  } else if (command.do === 'go') {
    going.go(command.call);
  } else if (command.do === 'cancel') {
    cancels.get(command.call).abort();
  } else if (command.do === 'close') {
    const closed = ledgers.get(command.ledger).close(command.grace * 1000);
    say('closing');
    say('closed', { ended: await closed });
  } else if (command.do === 'shutdown') {
    void shutdown(new il.Shutdown({ graceMs: command.grace * 1000 }));
  } else if (command.do === 'serve') {
    const { serve } = await import('./typescript_http.mjs');
    await serve(command, { il, http: await entry('http/index.mjs'), say, going });
  }
}

say('ready', { forks: false, forks_after_use: false, cancels: true, inbox: true });
const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => void obey(JSON.parse(line)));
lines.on('close', () => process.exit(0));
