// Prints what `process` costs next to bare stubs that do Claim and Complete, and what a client takes at rest.
//
//     node --expose-gc tests/cost.mjs [MESSAGES]   against the server of LEDGER_ENDPOINT; 2000 messages of each, 16 concurrently
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';

const COUNT = Number(process.argv[2] ?? 2_000);
const CONCURRENT = 16;
const ROUNDS = 3;
const endpoint = process.env.LEDGER_ENDPOINT ?? '127.0.0.1:50051';
const mib = () => Math.round(process.memoryUsage().rss / 2 ** 20);
const threads = () => readdirSync('/proc/self/task').length;
const heap = () => Math.round(process.memoryUsage().heapUsed / 2 ** 20);
const atRest = (what) =>
  console.log(`${what}: ${threads()} threads, ${mib()} MiB resident, ${heap()} MiB of heap in use`);

atRest('Node.js alone');
const required = createRequire(import.meta.url);
const { Ledger, Key } = required('../dist/index.js');
const { create, fromBinary, toBinary } = required('@bufbuild/protobuf');
const { Client, credentials } = required('@grpc/grpc-js');
const pb = required('../dist/gen/idempotency/ledger/v1/ledger_pb.js');
atRest('with the package imported');

const client = new Client(endpoint, credentials.createInsecure());
const ledger = new Ledger({ consumer: 'cost', endpoint });
const body = Buffer.alloc(200, 'x');

function call(method, init) {
  const request = create(method.input, init);
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      `/${method.parent.typeName}/${method.name}`,
      (message) => Buffer.from(toBinary(method.input, message)),
      (bytes) => fromBinary(method.output, bytes),
      request,
      { deadline: Date.now() + 5_000 },
      (error, answer) => (error ? reject(error) : resolve(answer)),
    );
  });
}

async function bare(id) {
  const key = { consumer: 'cost', source: 'bare', id };
  const { claim, complete } = pb.LedgerService.method;
  const { verdict } = await call(claim, { key, claimId: crypto.randomUUID(), owner: 'cost' });
  const { advice } = await call(complete, { key, token: verdict.value.token, result: Buffer.from('done') });
  if (advice !== pb.Advice.ACK) throw new Error(`the advice is ${advice}`);
}

async function processed(id) {
  const outcome = await ledger.process(Key.of('process', id), () => 'done', { body });
  if (outcome.advice !== 'ACK') throw new Error(`the advice is ${outcome.advice}: ${outcome.reason}`);
}

/** The CPU time of this process for each message, in microseconds. */
async function measured(one, name) {
  let next = 0;
  const before = process.cpuUsage();
  const began = performance.now();
  const worker = async () => {
    while (next < COUNT) await one(`${name}-${process.pid}-${(next += 1)}-${began}`);
  };
  await Promise.all(Array.from({ length: CONCURRENT }, worker));
  const { user, system } = process.cpuUsage(before);
  return { cpu: (user + system) / COUNT, wall: (performance.now() - began) / COUNT };
}

await processed(`first-${process.pid}-${Date.now()}`);
atRest('connected, after one message');
for (let round = 0; round <= ROUNDS; round += 1) {
  const found = { bare: await measured(bare, 'bare'), process: await measured(processed, 'process') };
  if (round === 0) continue; // The first round warms the compiler up.
  for (const [name, { cpu, wall }] of Object.entries(found)) {
    console.log(`${name}: ${cpu.toFixed(0)} us of CPU and ${(wall * 1_000).toFixed(0)} us for each message`);
  }
}
await new Promise((resolve) => setTimeout(resolve, 1_000));
globalThis.gc?.();
atRest(`after ${(ROUNDS + 1) * COUNT * 2} messages`);
await ledger.close();
client.close();
