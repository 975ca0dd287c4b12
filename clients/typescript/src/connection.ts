import { readFileSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { isIP } from 'node:net';
import type { ChannelCredentials, ChannelOptions } from '@grpc/grpc-js';
import { Metadata, credentials } from '@grpc/grpc-js';
import { InvalidField } from './errors.js';

/** How the servers are reached. An option that is not given is taken from its variable of the environment. */
export interface ConnectionOptions {
  /**
   * `HOST:PORT`, `http://HOST:PORT`, `https://HOST:PORT` or a gRPC target such as `dns:///HOST:PORT`, also of several
   * servers. Variable: `LEDGER_ENDPOINT`; default: `127.0.0.1:50051`.
   */
  endpoint?: string | undefined;
  /** A file with a bearer token, read again when it changes. It is sent by TLS alone. Variable: `LEDGER_TOKEN_FILE`. */
  tokenFile?: string | undefined;
  /** A PEM file with the authorities of the servers' certificates; it asks for TLS. Variable: `LEDGER_CA_FILE`. */
  caFile?: string | undefined;
  /** A PEM file with the client's certificate, and those between it and its authority's. */
  clientCertFile?: string | undefined;
  /** A PEM file with the private key of that certificate. */
  clientKeyFile?: string | undefined;
}

// Of deploy/clients/service-config.json what spreads the calls. Its retries are left out, since this package repeats by
// itself what gRPC does not; and so is its timeout, which would end a Claim that waits.
const SERVICE_CONFIG = JSON.stringify({
  loadBalancingConfig: [{ round_robin: {} }],
  healthCheckConfig: { serviceName: 'accepting' },
});
const CHANNEL: ChannelOptions = {
  'grpc.service_config': SERVICE_CONFIG,
  // The service config is the package's: it is not asked of DNS.
  'grpc.service_config_disable_resolution': 1,
  // A server that was replaced is found again within the budget of a call; the defaults are 1 s to 120 s.
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 2_000,
  // A connection that is gone without a sign is noticed after 25 s rather than by TCP after a quarter of an hour.
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 5_000,
  // Two clients of one process have separate connections: their credentials may differ.
  'grpc.use_local_subchannel_pool': 1,
};
const LIST = /^ipv[46]:/;
const SCHEMES = /^(unix|unix-abstract|ipv4|ipv6|dns):/;

/** What a channel is made of. */
export interface Channel {
  /** As it was given, for people. */
  readonly endpoint: string;
  readonly target: string;
  readonly credentials: ChannelCredentials;
  readonly options: ChannelOptions;
}

/** The channel of these options and of what the environment adds. Throws {@link InvalidField} where they contradict. */
export function channelOf(options: ConnectionOptions, environment: NodeJS.ProcessEnv = process.env): Channel {
  const endpoint = options.endpoint || environment['LEDGER_ENDPOINT'] || '127.0.0.1:50051';
  const tokenFile = options.tokenFile || environment['LEDGER_TOKEN_FILE'];
  const caFile = options.caFile || environment['LEDGER_CA_FILE'];
  const { clientCertFile, clientKeyFile } = options;
  const { target, tls } = targetOf(endpoint, Boolean(caFile));
  if (tls && LIST.test(target)) {
    throw new InvalidField(
      'endpoint',
      `no certificate is for the list ${target}; use https://NAME:PORT of all servers`,
    );
  }
  if (tokenFile && !tls) {
    throw new InvalidField('tokenFile', `the token would be sent in the clear to ${endpoint}; use https://`);
  }
  if (Boolean(clientCertFile) !== Boolean(clientKeyFile)) {
    throw new InvalidField('clientCertFile', 'a certificate and its key are given together');
  }
  if (clientCertFile && !tls) {
    throw new InvalidField('clientCertFile', `${endpoint} is reached without TLS; use https://`);
  }
  // The addresses of a list are no name of a server.
  const named = LIST.test(target) ? { 'grpc.default_authority': 'ledger' } : {};
  const channel = { endpoint, target, options: { ...CHANNEL, ...named } };
  if (!tls) return { ...channel, credentials: credentials.createInsecure() };
  const read = (path: string | undefined) => (path ? readFileSync(path) : null);
  const secure = credentials.createSsl(read(caFile), read(clientKeyFile), read(clientCertFile));
  if (!tokenFile) return { ...channel, credentials: secure };
  const token = new TokenFile(tokenFile);
  const bearer = credentials.createFromMetadataGenerator((_call, callback) => {
    token.read().then(
      (text) => {
        const metadata = new Metadata();
        metadata.set('authorization', `Bearer ${text}`);
        callback(null, metadata);
      },
      (error: unknown) => callback(error instanceof Error ? error : new Error('the token cannot be read')),
    );
  });
  return { ...channel, credentials: credentials.combineChannelCredentials(secure, bearer) };
}

/** The target as gRPC takes it, and whether it is reached by TLS. */
export function targetOf(endpoint: string, secured: boolean): { target: string; tls: boolean } {
  const web = /^(https?):\/\/(.*?)\/*$/.exec(endpoint);
  if (!web) return { target: dnsTarget(endpoint), tls: secured };
  if (web[1] === 'http' && secured) {
    throw new InvalidField('endpoint', `${endpoint} is reached without TLS, but a caFile is given`);
  }
  return { target: dnsTarget(web[2] ?? ''), tls: web[1] === 'https' };
}

/** A bare HOST:PORT as a target that finds every server behind the name; others as they are. */
function dnsTarget(target: string): string {
  if (target.includes('/') || SCHEMES.test(target)) return target;
  const found = /^(\[[^\]]+\]|[^:]+):\d+$/.exec(target);
  if (!found?.[1]) {
    throw new InvalidField('endpoint', `'${target}' is not HOST:PORT, http(s)://HOST:PORT or a gRPC target`);
  }
  return isIP(found[1].replace(/^\[|\]$/g, '')) ? target : `dns:///${target}`;
}

/** The bearer token of a file, which is read again when the file changes. */
export class TokenFile {
  #seen = '';
  #token = '';

  constructor(private readonly path: string) {}

  /** The token as the file has it now. */
  async read(): Promise<string> {
    const { mtimeNs, size, ino } = await stat(this.path, { bigint: true });
    const seen = `${mtimeNs} ${size} ${ino}`;
    if (this.#seen !== seen) {
      // The text first: where it cannot be read, the next call tries again.
      this.#token = (await readFile(this.path, 'utf8')).trim();
      this.#seen = seen;
    }
    return this.#token;
  }
}
