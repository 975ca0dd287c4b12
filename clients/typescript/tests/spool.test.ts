import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import files from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { InvalidField } from '../src/errors.js';
import { Fingerprint, Key } from '../src/key.js';
import { Advice, outcome } from '../src/outcome.js';
import { Spool, SpoolFailed } from '../src/spool.js';
import { type SpoolEvent, render } from '../src/spool/writer.js';
import { AWAY, KEY, never } from './spooled.js';

interface Line {
  v: number;
  event: SpoolEvent;
  row: string;
  at: string;
  consumer: string;
  source: string;
  id: string;
  fingerprint_hex?: string;
  result_base64?: string;
}

const REPOSITORY = resolve(__dirname, '../../../../..');
let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ledger-spool-'));
  path = join(folder, 'spool.jsonl');
});

afterEach(() => rmSync(folder, { recursive: true }));

function lines(): Line[] {
  const texts = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return texts.map((text) => JSON.parse(text) as Line);
}

const events = () => lines().map((line) => line.event);

/** Runs a program that has the module as `spool`, the path, and what the tests process. */
const program = (code: string) => [
  '-e',
  `const { Spool } = require(${JSON.stringify(join(__dirname, '../src/spool.js'))});
   const { AWAY, KEY } = require(${JSON.stringify(join(__dirname, 'spooled.js'))});
   (async () => { const path = process.argv[1]; ${code} })().catch((error) => { console.error(error.message); process.exit(3); });`,
  path,
];

test('effect_without_a_claim_is_written_down_before_and_after', async () => {
  const spool = await Spool.open(path);
  let during: string[] = [];
  const effect = () => {
    during = events();
    return 'paid';
  };
  const found = await spool.process(AWAY, 'payments', KEY, effect, { body: Buffer.from('body') });
  assert.deepEqual(found, outcome(Advice.ACK, { result: Buffer.from('paid'), away: true }));
  assert.deepEqual(during, ['begin']);
  const [first, last] = lines();
  assert.ok(first && last);
  assert.deepEqual([first.v, first.consumer, first.source, first.id], [1, 'payments', 'shop', 'order-1']);
  assert.deepEqual([last.event, last.result_base64, last.row], ['end', 'cGFpZA==', first.row]);
  assert.match(first.row, /^[0-9a-f]{32}$/);
  assert.match(first.at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  assert.ok(first.at < last.at);
  assert.equal(first.fingerprint_hex?.length, 64);
  await spool.close();
});

test('spool_file_is_readable_for_its_owner_alone', async () => {
  const spool = await Spool.open(path);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  await spool.close();
  assert.deepEqual(readdirSync(folder), ['spool.jsonl']);
});

test('lines_have_the_form_of_the_documented_example', () => {
  const page = readFileSync(join(REPOSITORY, 'docs/away.md'), 'utf8');
  const example = page.split('```json\n')[1]?.split('```')[0] ?? '';
  const written = example
    .split('\n')
    .filter(Boolean)
    .map((text) => {
      const { v, event, at, ...effect } = JSON.parse(text) as Line;
      assert.equal(v, 1);
      return render(event, Date.parse(at.slice(0, 23) + 'Z') * 1_000 + Number(at.slice(23, 26)), effect);
    });
  assert.equal(written.length, 3);
  assert.equal(written.join(''), example);
});

test('a_line_that_was_cut_off_is_not_continued', async () => {
  writeFileSync(path, '{"v":1,"ev');
  const spool = await Spool.open(path);
  await spool.process(AWAY, 'payments', KEY, () => undefined);
  await spool.close();
  const [cut, ...whole] = readFileSync(path, 'utf8').trimEnd().split('\n');
  assert.equal(cut, '{"v":1,"ev');
  assert.deepEqual(
    whole.map((text) => (JSON.parse(text) as Line).event),
    ['begin', 'end'],
  );
});

test('a_second_opener_of_this_process_is_refused', async () => {
  const spool = await Spool.open(path);
  await assert.rejects(Spool.open(path), (error: Error) => {
    assert.ok(error instanceof SpoolFailed);
    assert.match(error.message, /has the file/);
    return true;
  });
  await spool.process(AWAY, 'payments', KEY, () => undefined);
  await spool.close();
  await (await Spool.open(path)).close();
});

test('a_second_opener_of_another_process_is_refused', async () => {
  const spool = await Spool.open(path);
  const other = spawnSync(process.execPath, program('await Spool.open(path);'), { encoding: 'utf8' });
  assert.equal(other.status, 3);
  assert.match(other.stderr, /has the file \(process \d+ runs/);
  await spool.close();
});

test('a_process_killed_amid_the_effect_leaves_the_beginning_and_its_lock_is_taken_over', async () => {
  const code =
    "await (await Spool.open(path)).process(AWAY, 'payments', KEY, () => { console.log('runs'); setInterval(() => {}, 1000); return new Promise(() => {}); });";
  const child = spawn(process.execPath, program(code), { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.deepEqual(events(), ['begin']);
  const spool = await Spool.open(path);
  assert.equal((await spool.process(AWAY, 'payments', KEY, () => undefined)).advice, Advice.ACK);
  await spool.close();
  assert.deepEqual(events(), ['begin', 'begin', 'end']);
  assert.deepEqual(readdirSync(folder), ['spool.jsonl']);
});

test('a_lock_is_not_taken_over_where_its_process_may_run', async () => {
  const self = { pid: process.pid, host: hostname() };
  for (const [lock, why] of [
    [JSON.stringify({ ...self, host: 'another' }), /of the host another/],
    [JSON.stringify(self), /runs/],
    ['', /does not name a process/],
    ['{"pid":0}', /does not name a process/],
  ] as const) {
    writeFileSync(`${path}.lock`, lock);
    await assert.rejects(Spool.open(path), why);
    assert.equal(readFileSync(`${path}.lock`, 'utf8'), lock);
  }
  // The same pid, of an earlier boot or an earlier container.
  writeFileSync(`${path}.lock`, JSON.stringify({ ...self, started: 'earlier/1' }));
  if (process.platform === 'linux') await (await Spool.open(path)).close();
});

test('of_many_openers_after_a_crash_one_has_the_file', async () => {
  const gone = spawnSync(process.execPath, ['-e', '']).pid;
  const dead = JSON.stringify({ pid: gone, host: hostname() });
  writeFileSync(`${path}.lock`, dead);
  const opened = await Promise.allSettled(Array.from({ length: 20 }, () => Spool.open(path)));
  const spools = opened.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  assert.equal(spools.length, 1);
  await spools[0]?.close();
  // While another process takes it over, the dead process's lock is not touched.
  writeFileSync(`${path}.lock`, dead);
  writeFileSync(`${path}.lock.takeover`, '');
  await assert.rejects(Spool.open(path), /another process takes it over.*remove .*lock\.takeover/);
  assert.equal(readFileSync(`${path}.lock`, 'utf8'), dead);
});

test('a_file_that_cannot_be_opened_is_refused', async () => {
  await assert.rejects(Spool.open(join(folder, 'missing', 'spool.jsonl')), SpoolFailed);
  appendFileSync(path, '');
  await assert.rejects(Spool.open(join(path, 'below')), SpoolFailed);
});

test('a_spool_whose_file_or_folder_cannot_be_synced_is_not_opened', async (context) => {
  const open = files.open;
  for (const unsynced of [path, folder]) {
    let synced = 0;
    context.mock.method(files, 'open', async (name: string, flags: string, mode?: number) => {
      const handle = await open(name, flags, mode);
      if (name !== unsynced) return handle;
      handle.sync = () => {
        synced += 1;
        return Promise.reject(new Error('input/output error'));
      };
      return handle;
    });
    await assert.rejects(Spool.open(path), /input\/output error/);
    assert.equal(synced, 1);
    context.mock.restoreAll();
    assert.deepEqual(readdirSync(folder), ['spool.jsonl']);
  }
});

test('a_closed_spool_runs_nothing', async () => {
  const spool = await Spool.open(path);
  await spool.close();
  await spool.close();
  assert.equal((await spool.process(AWAY, 'payments', KEY, never)).reason, 'SPOOL_FAILED');
});

test('a_mistake_of_the_program_is_refused', async () => {
  const spool = await Spool.open(path);
  const fingerprint = new Fingerprint(Buffer.from('x'));
  const refused = (field: string) => (error: Error) => error instanceof InvalidField && error.field === field;
  const run = (consumer: string, options: object) => spool.process(AWAY, consumer, KEY, never, options);
  await assert.rejects(run('', {}), refused('consumer'));
  await assert.rejects(run('c'.repeat(129), {}), refused('consumer'));
  await assert.rejects(run('c', { body: 'text' }), refused('fingerprint'));
  await assert.rejects(run('c', { body: Buffer.from('body'), fingerprint }), refused('fingerprint'));
  await assert.rejects(run('c', { wait: 1 }), refused('wait'));
  await assert.rejects(spool.process(AWAY, 'c', 'shop' as unknown as Key, never), refused('key'));
  await assert.rejects(spool.process(AWAY, 'c', KEY, 7 as unknown as () => undefined), refused('effect'));
  assert.deepEqual(lines(), []);
  await spool.close();
});
