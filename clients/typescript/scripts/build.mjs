// Builds dist: CommonJS with its declarations, and wrappers by which it is imported as ES modules, so that a program
// that does both has one copy of each class.
//
//     node scripts/build.mjs [FOLDER]   FOLDER: another copy of the package, which is built with these node_modules,
//                                       and whose types are not checked
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = resolve(process.argv[2] ?? HERE);
const copy = folder !== HERE;

if (!existsSync(join(HERE, 'node_modules/typescript'))) {
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: HERE, stdio: 'inherit' });
}
if (copy && !existsSync(join(folder, 'node_modules'))) {
  symlinkSync(join(HERE, 'node_modules'), join(folder, 'node_modules'));
}
rmSync(join(folder, 'dist'), { recursive: true, force: true });
const tsc = join(HERE, 'node_modules/typescript/bin/tsc');
execFileSync(process.execPath, [tsc, '-p', folder, ...(copy ? ['--noCheck'] : [])], { stdio: 'inherit' });

const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
for (const entry of Object.values(exports)) {
  if (typeof entry === 'string') continue;
  const required = join(folder, entry.require.default);
  const names = Object.keys(createRequire(import.meta.url)(required)).filter((name) => name !== '__esModule');
  const from = `./${required.split('/').at(-1)}`;
  mkdirSync(dirname(required), { recursive: true });
  const lines = [`import all from '${from}';`, ...names.map((name) => `export const ${name} = all.${name};`)];
  writeFileSync(join(folder, entry.import.default), `${lines.join('\n')}\n`);
  writeFileSync(join(folder, entry.import.types), `export * from '${from}';\n`);
}
