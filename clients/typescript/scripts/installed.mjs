// Packs the package, installs what was packed into an empty folder, and uses it there: as an ES module, by require, and
// by a type check of the README's examples. Then it runs the first example, which a broker without messages stops.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = mkdtempSync(join(tmpdir(), 'ledger-installed-'));
const run = (program, ...given) =>
  execFileSync(program, given, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
const write = (name, text) => writeFileSync(join(folder, name), text);

// Stand for the application's own modules: the broker has one message, then asks the process to stop.
const BROKER = `let left = 1;
export async function receive(options: { timeoutMs: number }) {
  if (left === 0) process.kill(process.pid, 'SIGTERM');
  if (left === 0) await new Promise((resolve) => setTimeout(resolve, options.timeoutMs));
  left -= 1;
  const done = (advice: string) => async (_more?: { afterMs: number }) => console.log(advice);
  return left < 0 ? undefined : { id: process.argv[2] ?? '', body: Buffer.from('{}'), ack: done('ack'), deadLetter: done('dead-letter'), retry: done('retry') };
}
`;
const PAYMENTS = `export async function charge(_body: Uint8Array, options: { idempotencyKey: string }) {
  return options.idempotencyKey;
}
`;

try {
  execFileSync(process.execPath, [join(HERE, 'scripts/build.mjs')], { stdio: 'inherit' });
  run('npm', 'pack', '--silent', '--ignore-scripts', '--pack-destination', folder, HERE);
  const packed = readdirSync(folder).find((name) => name.endsWith('.tgz'));
  write('package.json', JSON.stringify({ name: 'application', private: true, type: 'module' }));
  const { typescript, '@types/node': types } = JSON.parse(
    readFileSync(join(HERE, 'package.json'), 'utf8'),
  ).devDependencies;
  const wanted = [`./${packed}`, `typescript@${typescript}`, `@types/node@${types}`];
  run('npm', 'install', '--silent', '--no-audit', '--no-fund', '--ignore-scripts', ...wanted);

  const readme = readFileSync(join(HERE, 'README.md'), 'utf8');
  for (const [file, name] of Object.entries({ 'example.ts': 'first example', 'inbox.ts': 'inbox example' })) {
    write(file, readme.split(`<!-- run: ${name} -->\n\`\`\`ts\n`)[1].split('```')[0]);
  }
  write('broker.ts', BROKER);
  write('payments.ts', PAYMENTS);
  write(
    'entries.ts',
    `import { Ledger } from '@idempotency-ledger/client';
import { postgres } from '@idempotency-ledger/client/guard';
import { claimOf } from '@idempotency-ledger/client/http';
import { createRequire } from 'node:module';
const required = createRequire(import.meta.url);
for (const [name, imported] of [['', { Ledger }], ['/guard', { postgres }], ['/http', { claimOf }]] as const) {
  const found = required(\`@idempotency-ledger/client\${name}\`);
  for (const [each, value] of Object.entries(imported)) {
    if (found[each] !== value) throw new Error(\`\${each} is another one by require\`);
  }
}
`,
  );
  // Without skipLibCheck: the declarations of the package must stand by themselves.
  const compilerOptions = {
    module: 'node16',
    target: 'es2022',
    strict: true,
    types: ['node'],
    lib: ['es2022', 'dom', 'dom.iterable', 'esnext.disposable'],
  };
  write('tsconfig.json', JSON.stringify({ compilerOptions }));
  run('npx', '--no', 'tsc');
  run(process.execPath, 'entries.js');
  const id = `installed-${process.pid}-${Date.now()}`;
  const server = process.env.LEDGER_ENDPOINT;
  const said = server ? run(process.execPath, 'example.js', id).trim() : '';
  if (server && said !== 'ack') throw new Error(`the first example has said ${said}, and not ack`);
  console.log(
    `${packed} is installed; ${server ? 'its first example ran' : 'without LEDGER_ENDPOINT its first example was compiled alone'}`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
