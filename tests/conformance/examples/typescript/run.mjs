// Runs an example of a README, as it stands there: run.mjs README 'first example'.
import { existsSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

// What a right consumer may take, its shutdown included.
const LINES = 20;
const [readme, name] = process.argv.slice(2);
const found = readFileSync(readme, 'utf8').split(`<!-- run: ${name} -->\n\`\`\`ts\n`)[1]?.split('```')[0];
if (!found) throw new Error(`${readme} has no ${name}`);
const code = found.split('\n').filter((line) => line.trim());
if (code.length > LINES) throw new Error(`the ${name} has ${code.length} lines; at most ${LINES} are right`);

// Below the package's folder the package is imported by its name.
const folder = join(dirname(readme), 'build/example');
const main = join(folder, `${name.replace(' ', '-')}.mjs`);
mkdirSync(folder, { recursive: true });
for (const file of ['broker', 'payments']) {
  const link = join(folder, `${file}.js`);
  try {
    symlinkSync(join(dirname(fileURLToPath(import.meta.url)), `${file}.mjs`), link);
  } catch (error) {
    if (!existsSync(link)) throw error; // Another process has made it.
  }
}
const ts = createRequire(join(dirname(readme), 'package.json'))('typescript');
const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
writeFileSync(`${main}.${process.pid}`, ts.transpileModule(found, { compilerOptions: options }).outputText);
renameSync(`${main}.${process.pid}`, main);
await import(pathToFileURL(main).href);
