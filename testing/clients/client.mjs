// Clients of HTTP in Node with their default settings, through Forebay to the server in origin/: fetch, the
// modules http and https, and the package undici.
//
// Usage: node client.mjs HTTP_ADDRESS HTTPS_ADDRESS IDLE_MS MODULES, with NODE_EXTRA_CA_CERTS for the
// certificate; IDLE_MS is longer than Forebay keeps an idle connection. Prints `ok LIBRARY SCHEME CASE` or
// `failed LIBRARY SCHEME CASE: why`.
//
// Must not be in here: other clients; they have the same cases in files beside this one.
import assert from 'node:assert';
import { createHash, randomUUID } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import { createRequire } from 'node:module';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import zlib from 'node:zlib';

const [httpAddress, httpsAddress, idle, modules] = process.argv.slice(2);
const undici = createRequire(`${modules}/`)('undici');
const LARGE = 20_000_000;
const PIECE = 65_536;
const TEXT_END = 'line 4999 of a text that compresses well, ä\n';

// The bytes of /bytes/N.
function content(length) {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; at++) bytes[at] = (at * 31 + Math.floor(at / 256)) & 0xff;
  return bytes;
}

const whole = content(LARGE);
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

// The data as a body without a length.
function* pieces(data) {
  for (let at = 0; at < data.length; at += PIECE) yield data.subarray(at, at + PIECE);
}

// Of each library: `ask` gives {status, headers, body}, `cancel` reads a little and gives up.
const fetchOf = (fetch) => ({
  followsRedirects: true,
  async ask(method, url, { body, chunked, headers } = {}) {
    const options = chunked
      ? { body: Readable.toWeb(Readable.from(pieces(body))), duplex: 'half' }
      : { body };
    const response = await fetch(url, { method, headers, ...options });
    const got = Buffer.from(await response.arrayBuffer());
    return { status: response.status, headers: Object.fromEntries(response.headers), body: got };
  },
  async cancel(url) {
    const controller = new AbortController();
    const response = await fetch(url, { signal: controller.signal });
    await response.body.getReader().read();
    controller.abort();
  },
});

const modulesOfNode = {
  request(method, url, headers) {
    return (url.startsWith('https:') ? https : http).request(url, { method, headers });
  },
  async ask(method, url, { body, chunked, headers } = {}) {
    const length = body && !chunked ? { 'Content-Length': body.length } : {};
    const request = this.request(method, url, { ...length, ...headers });
    return new Promise((resolve, reject) => {
      request.on('error', reject);
      request.on('response', (response) => {
        const chunks = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) });
        });
      });
      if (headers?.Expect) request.on('continue', () => request.end(body));
      else if (chunked) Readable.from(pieces(body)).pipe(request);
      else request.end(body);
      if (headers?.Expect) request.flushHeaders();
    });
  },
  async cancel(url) {
    const request = this.request('GET', url);
    await new Promise((resolve, reject) => {
      request.on('error', reject);
      request.on('response', (response) => response.once('data', resolve).on('error', () => {}));
      request.end();
    });
    request.destroy();
  },
};

const undiciRequest = {
  async ask(method, url, { body, chunked, headers } = {}) {
    const sent = chunked ? Readable.from(pieces(body)) : body;
    const response = await undici.request(url, { method, headers, body: sent });
    return {
      status: response.statusCode,
      headers: response.headers,
      body: Buffer.from(await response.body.arrayBuffer()),
    };
  },
  async cancel(url) {
    const controller = new AbortController();
    const response = await undici.request(url, { signal: controller.signal });
    response.body.on('error', () => {});
    await new Promise((resolve) => response.body.once('data', resolve));
    controller.abort();
  },
};

const libraries = {
  fetch: fetchOf(fetch),
  http: modulesOfNode,
  undici: undiciRequest,
  'undici-fetch': fetchOf(undici.fetch),
};

// The cases of a library and a base URL. Those of fetch are skipped by the others, which follow no redirects
// and undo no coding.
function casesOf(library, base, scheme) {
  const echo = async (method, body, options = {}) => {
    const answer = await library.ask(method, `${base}/hash`, { body, ...options });
    const got = JSON.parse(answer.body);
    const arrived = [got.method, got.length, got.sha256, got.forwarded_proto];
    assert.deepStrictEqual(arrived, [method, body.length, sha256(body), scheme]);
  };
  const isSame = (got, expected) =>
    assert.ok(got.equals(expected), `${got.length} bytes, not ${expected.length}`);
  const cases = {
    async get() {
      const { body, headers } = await library.ask('GET', `${base}/bytes/1000`);
      isSame(body, content(1000));
      assert.strictEqual(headers['content-length'], '1000');
    },
    async head() {
      const { body, headers } = await library.ask('HEAD', `${base}/bytes/1000`);
      assert.deepStrictEqual([body.length, headers['content-length']], [0, '1000']);
    },
    'post-length': () => echo('POST', Buffer.from('a body')),
    'post-chunked': () => echo('POST', Buffer.from('a body'), { chunked: true }),
    upload: () => echo('PUT', whole),
    'upload-chunked': () => echo('PUT', whole, { chunked: true }),
    download: async () => isSame((await library.ask('GET', `${base}/bytes/${LARGE}`)).body, whole),
    'download-chunked': async () =>
      isSame((await library.ask('GET', `${base}/chunked/${LARGE}`)).body, whole),
    async compression() {
      const own = library.followsRedirects ? undefined : { 'Accept-Encoding': 'gzip' };
      const { body, headers } = await library.ask('GET', `${base}/text`, { headers: own });
      assert.match(headers['content-encoding'] ?? 'none', /gzip|br|deflate|zstd/);
      const text = library.followsRedirects ? body : zlib.gunzipSync(body);
      assert.ok(text.toString().endsWith(TEXT_END), `${text.length} bytes`);
    },
    async idle() {
      await echo('POST', Buffer.from('first'));
      await sleep(Number(idle));
      await echo('POST', Buffer.from('second'));
    },
    async cancel() {
      const id = randomUUID();
      await library.cancel(`${base}/slow?id=${id}`);
      const { status } = await library.ask('GET', `${base}/gone?id=${id}`);
      assert.strictEqual(status, 204, 'the endpoint does not learn of it');
    },
    async concurrent() {
      await Promise.all(Array.from({ length: 100 }, (_, job) => echo('PUT', content(job * 100))));
    },
  };
  if (library.followsRedirects) {
    cases.redirects = async () => {
      for (const [code, method, length] of [
        [301, 'GET', 0],
        [303, 'GET', 0],
        [307, 'POST', 4],
        [308, 'POST', 4],
      ]) {
        const { body } = await library.ask('POST', `${base}/redirect/${code}`, { body: 'body' });
        const got = JSON.parse(body);
        assert.deepStrictEqual([got.method, got.length], [method, length]);
      }
    };
  }
  if (library === modulesOfNode) {
    cases.continue = () => echo('PUT', whole, { headers: { Expect: '100-continue' } });
  }
  return cases;
}

for (const [name, library] of Object.entries(libraries)) {
  for (const [scheme, address] of [
    ['http', httpAddress],
    ['https', httpsAddress],
  ]) {
    for (const [title, run] of Object.entries(casesOf(library, `${scheme}://${address}`, scheme))) {
      try {
        await run();
        console.log(`ok ${name} ${scheme} ${title}`);
      } catch (error) {
        const why = [error.message, error.cause?.message].filter(Boolean).join(': ').replaceAll('\n', ' ');
        console.log(`failed ${name} ${scheme} ${title}: ${why}`);
      }
    }
  }
}
process.exit(0);
