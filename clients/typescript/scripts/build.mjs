// Builds dist: CommonJS with its declarations, and wrappers by which it is imported as ES modules, so that a program
// that does both has one copy of each class. Does nothing where dist is of the same sources.
//
//     node scripts/build.mjs [FOLDER]   FOLDER: another copy of the package, which is built with these node_modules,
//                                       and whose types are not checked
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = resolve(process.argv[2] ?? HERE);
const copy = folder !== HERE;
const stamp = join(folder, 'build/stamp');

/** The digest of what dist is made of. */
function digest() {
  const hash = createHash('sha256');
  const sources = readdirSync(join(folder, 'src'), { recursive: true }).filter((name) => name.endsWith('.ts'));
  const files = [
    ...sources.map((name) => join('src', name)),
    'package.json',
    'package-lock.json',
    'tsconfig.json',
    'tsconfig.build.json',
  ];
  for (const file of [...files.sort(), 'scripts/build.mjs']) hash.update(file).update(readFileSync(join(folder, file)));
  return hash.digest('hex');
}

/** Installs what package-lock.json names, where it is not there. */
function install() {
  const installed = join(HERE, 'node_modules/.installed');
  const wanted = readFileSync(join(HERE, 'package-lock.json'), 'utf8');
  if (existsSync(installed) && readFileSync(installed, 'utf8') === wanted) return;
  // No package needs its install scripts.
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: HERE, stdio: 'inherit' });
  writeFileSync(installed, wanted);
}

/** Writes the wrappers of each entry: all names of the CommonJS module, and its declarations. */
function wrap() {
  const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  for (const entry of Object.values(exports)) {
    if (typeof entry === 'string') continue;
    const required = join(folder, entry.require.default);
    const names = Object.keys(createRequire(import.meta.url)(required));
    const from = `./${basename(required)}`;
    const lines = [`import all from '${from}';`, ...names.map((name) => `export const ${name} = all.${name};`)];
    writeFileSync(join(folder, entry.import.default), `${lines.join('\n')}\n`);
    writeFileSync(join(folder, entry.import.types), `export * from '${from}';\n`);
  }
}

install();
if (copy && !existsSync(join(folder, 'node_modules'))) {
  symlinkSync(join(HERE, 'node_modules'), join(folder, 'node_modules'));
}
const made = digest();
if (!existsSync(join(folder, 'dist')) || !existsSync(stamp) || readFileSync(stamp, 'utf8') !== made) {
  rmSync(join(folder, 'dist'), { recursive: true, force: true });
  const tsc = join(HERE, 'node_modules/typescript/bin/tsc');
  execFileSync(process.execPath, [tsc, '-p', join(folder, 'tsconfig.build.json'), ...(copy ? ['--noCheck'] : [])], {
    stdio: 'inherit',
  });
  wrap();
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, made);
}
