import type * as OpenTelemetry from '@opentelemetry/api';
import type { Outcome } from './outcome.js';

const NAME = '@idempotency-ledger/client';
const api = found();

/** OpenTelemetry's API where the application has it. */
function found(): typeof OpenTelemetry | undefined {
  try {
    // eslint-disable-next-line @typescript-eslint/no-require-imports -- an import cannot be optional and synchronous
    return require('@opentelemetry/api') as typeof OpenTelemetry;
  } catch {
    return undefined;
  }
}

/** The spans and the metric of one consumer. None of them has a payload, a key or a token. */
export class Telemetry {
  readonly #tracer = api?.trace.getTracer(NAME);
  readonly #duration = api?.metrics.getMeter(NAME).createHistogram('idempotency_ledger.client.process.duration', {
    unit: 's',
    description: "Time from a delivery's Claim to its outcome, the handler included.",
  });

  constructor(private readonly consumer: string) {}

  /** Runs one delivery in a span. */
  async delivery(run: () => Promise<Outcome>): Promise<Outcome> {
    if (!this.#tracer) return run();
    const attributes: OpenTelemetry.Attributes = { 'idempotency_ledger.consumer': this.consumer };
    const began = performance.now();
    return this.#tracer.startActiveSpan(`process ${this.consumer}`, { attributes }, async (span) => {
      try {
        const outcome = await run();
        attributes['idempotency_ledger.advice'] = outcome.advice;
        attributes['idempotency_ledger.replayed'] = outcome.replayed;
        span.setAttributes(attributes);
        return outcome;
      } finally {
        this.#duration?.record((performance.now() - began) / 1_000, attributes);
        span.end();
      }
    });
  }
}

/** `traceparent` and what else the application propagates, for a call. What gRPC refuses is left out. */
export function propagated(): [string, string][] {
  if (!api) return [];
  const carrier: Record<string, string> = {};
  api.propagation.inject(api.context.active(), carrier);
  const pairs = Object.entries(carrier).map(([name, value]): [string, string] => [name.toLowerCase(), value]);
  return pairs.filter(([name, value]) => /^[0-9a-z_.-]+$/.test(name) && /^[ -~]*$/.test(value));
}
