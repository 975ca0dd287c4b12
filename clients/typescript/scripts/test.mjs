// Builds the unit tests and the package, and runs the tests: node scripts/test.mjs [NAME of a file]
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = dirname(dirname(fileURLToPath(import.meta.url)));
const wanted = process.argv[2] ?? '';
execFileSync(process.execPath, [join(HERE, 'scripts/build.mjs')], { stdio: 'inherit' });
rmSync(join(HERE, 'build/tests'), { recursive: true, force: true });
const tsc = join(HERE, 'node_modules/typescript/bin/tsc');
execFileSync(process.execPath, [tsc, '-p', HERE], { stdio: 'inherit' });
const folder = join(HERE, 'build/tests/tests');
const files = readdirSync(folder).filter((name) => name.endsWith('.test.js') && name.includes(wanted));
const done = spawnSync(process.execPath, ['--test', ...files.map((name) => join(folder, name))], {
  cwd: HERE,
  stdio: 'inherit',
});
process.exit(done.status ?? 1);
