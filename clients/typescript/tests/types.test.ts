// That the types fit those of the frameworks and drivers is checked where this is compiled: nothing of it runs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import express, { type Request as ExpressRequest } from 'express';
import fastify, { type FastifyRequest } from 'fastify';
import type { Connection } from 'mysql2/promise';
import type { Client, PoolClient } from 'pg';
import { type Claim, Key, type Ledger, makeIdempotent } from '../src/index.js';
import { once, mysql, postgres } from '../src/guard/index.js';
import { claimOf, expressIdempotency, fastifyIdempotency, fetchIdempotency } from '../src/http/index.js';

export function frameworks(ledger: Ledger) {
  express().use(expressIdempotency(ledger, { tenant: (req: ExpressRequest) => req.get('x-tenant') ?? '' }));
  express().post('/orders/:id', expressIdempotency(ledger), (req, res) => res.json(claimOf(req)?.attempt));
  const route = (request: FastifyRequest) => request.routeOptions.url ?? '';
  fastify().addHook('onRequest', fastifyIdempotency(ledger, { route }));
  return fetchIdempotency(ledger, (request, context: { params: string }) =>
    Response.json([request.url, context.params]),
  );
}

export async function drivers(claim: Claim, one: Client, pooled: PoolClient, connection: Connection) {
  await once(postgres(one), claim, async (db) => String((await db.query('SELECT 1')).rows.length));
  await once(postgres(pooled), claim, () => 'r');
  return once(mysql(connection), claim, async (db) => JSON.stringify(await db.query('SELECT 1')));
}

export function functions(ledger: Ledger): (order: string, amount: number) => Promise<{ receipt: string }> {
  const charge = (order: string, amount: number) => Promise.resolve({ receipt: `${order} ${amount}` });
  return makeIdempotent(charge, { ledger, key: (order) => Key.of('orders', order) });
}

test('types_of_frameworks_and_drivers_fit', () => {
  assert.ok([frameworks, drivers, functions].every((each) => typeof each === 'function'));
});
