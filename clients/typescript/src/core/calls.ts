import type { DescMethodUnary, MessageShape } from '@bufbuild/protobuf';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import type { Answered, World } from './world.js';
import { CallFailed, Failure } from './world.js';

const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 1_000;
const SHORTEST_TRY = 50;

/**
 * Sends the identical request until an answer decides, for `budget` milliseconds; each try has `timeout` of them.
 *
 * Throws {@link CallFailed} for an error that no repeat changes, where the budget does not leave time for one more try,
 * and where `stop` is aborted.
 */
export async function repeated<M extends DescMethodUnary>(
  world: World,
  method: M,
  request: MessageShape<M['input']>,
  budget: number,
  timeout: number,
  stop?: AbortSignal,
): Promise<Answered<M>> {
  // Encoded once: a repeat is the same request, byte for byte.
  const encoded = toBinary<M['input']>(method.input, request);
  const until = world.now() + budget;
  for (let pause = FIRST_PAUSE, repeat = false; ; pause = Math.min(pause * 2, LONGEST_PAUSE), repeat = true) {
    const end = Math.min(until, world.now() + timeout);
    // A lease counts from the instant below. The first call of a process would lose the time to connect from its lease.
    if (!repeat) await world.connected(end - world.now());
    const sent = world.now();
    const limit = Math.max(SHORTEST_TRY, end - sent);
    const answer = decoded(method, await world.send({ method, request: encoded, timeout: limit, repeat, stop }));
    if (!(answer instanceof Failure)) return { answer, sent };
    // With jitter: clients that were refused together, and repeated together, would only be refused again.
    const wait = Math.max(answer.retryAfter ?? 0, pause * (0.5 + world.random() / 2));
    if (!answer.repeatable || world.now() + wait >= until) throw new CallFailed(answer);
    await world.sleep(wait, stop);
    if (stop?.aborted) throw new CallFailed(answer);
  }
}

/** The answer; one that cannot be decoded was made or damaged by a hop, and is an unknown outcome. */
function decoded<M extends DescMethodUnary>(
  method: M,
  answer: Uint8Array | Failure,
): MessageShape<M['output']> | Failure {
  if (answer instanceof Failure) return answer;
  try {
    return fromBinary<M['output']>(method.output, answer);
  } catch {
    return new Failure('INTERNAL', undefined, undefined, undefined, 'the answer cannot be decoded');
  }
}
