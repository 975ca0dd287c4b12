import { Metadata, Server, ServerCredentials, status } from '@grpc/grpc-js';
import type { MethodDefinition, UntypedServiceImplementation } from '@grpc/grpc-js';
import { LedgerService } from '../src/gen/idempotency/ledger/v1/ledger_pb.js';
import type { Scripted } from './world.js';
import { Failure } from '../src/core/world.js';

/** A call that has arrived: its method, the encoded request, and what was sent with it. */
export interface Arrived {
  method: string;
  request: Uint8Array;
  metadata: Record<string, unknown>;
  deadline: number;
}

/** A server of gRPC that answers each method by its script. */
export class ScriptedServer {
  readonly arrived: Arrived[] = [];
  /** By the name of the method; the last answer of each stays. */
  readonly answers: Record<string, Scripted[]> = {};
  readonly #server = new Server();

  async start(): Promise<string> {
    const definition: Record<string, MethodDefinition<Buffer, Buffer>> = {};
    const implementation: UntypedServiceImplementation = {};
    for (const method of LedgerService.methods) {
      const same = (bytes: Buffer) => bytes;
      definition[method.name] = {
        path: `/${LedgerService.typeName}/${method.name}`,
        requestStream: false,
        responseStream: false,
        requestSerialize: same,
        requestDeserialize: same,
        responseSerialize: same,
        responseDeserialize: same,
      };
      implementation[method.name] = (
        call: { request: Buffer; metadata: Metadata; getDeadline(): Date | number },
        done: (error: object | null, answer?: Buffer) => void,
      ) => {
        const deadline = Number(call.getDeadline()) - Date.now();
        this.arrived.push({ method: method.name, request: call.request, metadata: call.metadata.getMap(), deadline });
        const script = this.answers[method.name] ?? [];
        const answer = (script.length > 1 ? script.shift() : script[0])?.answer;
        if (answer instanceof Uint8Array) {
          done(null, Buffer.from(answer));
          return;
        }
        const trailers = new Metadata();
        if (answer?.reason) trailers.set('idempotency-ledger-reason', answer.reason);
        const code = status[(answer ?? new Failure('UNAVAILABLE')).code as keyof typeof status];
        done({ code, details: 'scripted', metadata: trailers });
      };
    }
    this.#server.addService(definition, implementation);
    const port = await new Promise<number>((resolve, reject) => {
      const bound = (error: Error | null, found: number) => (error ? reject(error) : resolve(found));
      this.#server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), bound);
    });
    return `127.0.0.1:${port}`;
  }

  stop(): void {
    this.#server.forceShutdown();
  }
}
