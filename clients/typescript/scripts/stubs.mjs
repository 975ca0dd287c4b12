// Makes the committed stubs of src/gen from proto/, or reports that they are stale.
//
//     node scripts/stubs.mjs          with buf 1.75.0 (the PyPI package buf-bin) on the PATH, and node_modules
//     node scripts/stubs.mjs --check  needs no tool: compares what the stubs were made from with what is there
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = dirname(dirname(fileURLToPath(import.meta.url)));
const BUF = '1.75.0';
const PROTO = join(HERE, '../../proto/idempotency/ledger/v1/ledger.proto');
const STUB = join(HERE, 'src/gen/idempotency/ledger/v1/ledger_pb.ts');
const SUMS = join(HERE, 'src/gen/SUMS');

const digest = (path) => createHash('sha256').update(readFileSync(path)).digest('hex');

/** What the stubs are made from, what makes them, and the stubs. */
function sums() {
  const { devDependencies } = JSON.parse(readFileSync(join(HERE, 'package.json'), 'utf8'));
  const lines = [
    `buf ${BUF}, protoc-gen-es ${devDependencies['@bufbuild/protoc-gen-es']}`,
    `${digest(PROTO)}  proto/idempotency/ledger/v1/ledger.proto`,
    `${digest(STUB)}  idempotency/ledger/v1/ledger_pb.ts`,
  ];
  return `${lines.join('\n')}\n`;
}

function generate() {
  const found = execFileSync('buf', ['--version'], { encoding: 'utf8' }).trim();
  if (found !== BUF) throw new Error(`buf is ${found}; install ${BUF}: pip install buf-bin==${BUF}`);
  const wanted = createRequire(join(HERE, 'package.json'))('./package.json').devDependencies['@bufbuild/protoc-gen-es'];
  const installed = JSON.parse(readFileSync(join(HERE, 'node_modules/@bufbuild/protoc-gen-es/package.json'), 'utf8'));
  if (installed.version !== wanted) throw new Error(`protoc-gen-es is ${installed.version}; run: npm ci`);
  rmSync(join(HERE, 'src/gen'), { recursive: true, force: true });
  execFileSync('buf', ['generate', '--template', 'buf.gen.yaml'], { cwd: HERE, stdio: 'inherit' });
  writeFileSync(SUMS, sums());
}

if (process.argv.includes('--check')) {
  if (readFileSync(SUMS, 'utf8') !== sums()) {
    console.error('the stubs are stale, or were changed by hand: run node scripts/stubs.mjs in clients/typescript');
    process.exit(1);
  }
  console.log('the stubs of clients/typescript are those of proto/');
} else {
  generate();
}
