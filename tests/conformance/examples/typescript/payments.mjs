// Stands for a provider in the first example of clients/typescript/README.md: it knows idempotency keys.
import { say, until } from './broker.mjs';

export async function charge(body, { idempotencyKey }) {
  const id = body.toString();
  // The provider knows no token; the sink counts the effects by their key.
  say('effect', { call: `charge-${id}`, id, token: '0', idempotency_key: idempotencyKey });
  await until(`charge-${id}`);
  return 'paid';
}
