// Plays cases.cjs to a server of WebSocket: over HTTP/1.1 in clear and over TLS, and over HTTP/2 (RFC 8441).
//
// Usage: node fuzzing.cjs WAY ADDRESS PATH COUNT [CERTIFICATE HOST], where WAY is http1, tls, h2c or h2, and
// COUNT is how many messages a case about compression has. Prints a line `ok ID` or `failed ID: why` for
// each case.
//
// Must not be in here: what the cases are; they are cases.cjs's.
'use strict';
const assert = require('node:assert');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http2 = require('node:http2');
const net = require('node:net');
const tls = require('node:tls');
const { once } = require('node:events');
const { PerMessageDeflate, extension } = require('ws');
const { all, closeFrame, message, opcodes, NORMAL } = require('./cases.cjs');

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const CASE_LIMIT_MS = 60_000;
// Beside it, for each compressed message: eight cases of them share the CPUs.
const MESSAGE_LIMIT_MS = 300;
const AT_ONCE = 8;
const MESSAGE_MAX = 1 << 25;

// Opens one stream of bytes for each case, with a handshake that offers `extensions`: {stream, extensions,
// rest}.
class Way {
  constructor([name, address, path, certificate, host]) {
    Object.assign(this, { name, path });
    [this.ip, this.port] = address.split(/:(?=\d+$)/);
    this.tls = certificate && { ca: fs.readFileSync(certificate), servername: host };
    this.authority = address;
  }

  async open(extensions) {
    return this.name.startsWith('h2') ? this.openStream(extensions) : this.openConnection(extensions);
  }

  async openConnection(extensions) {
    const socket = this.tls
      ? tls.connect({ host: this.ip, port: Number(this.port), ...this.tls })
      : net.connect(Number(this.port), this.ip);
    await once(socket, this.tls ? 'secureConnect' : 'connect');
    socket.setNoDelay(true);
    const key = crypto.randomBytes(16).toString('base64');
    const offer = extensions ? `Sec-WebSocket-Extensions: ${extensions}\r\n` : '';
    socket.write(
      `GET ${this.path} HTTP/1.1\r\nHost: ${this.authority}\r\nConnection: Upgrade\r\n` +
        `Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n${offer}\r\n`,
    );
    const [head, rest] = await readHead(socket);
    assert.match(head, /^HTTP\/1\.1 101 /, head);
    const accept = crypto
      .createHash('sha1')
      .update(key + GUID)
      .digest('base64');
    const field = (name) => new RegExp(`^${name}: *(.*)\r$`, 'im').exec(head)?.[1];
    assert.strictEqual(field('sec-websocket-accept'), accept);
    return { stream: socket, extensions: field('sec-websocket-extensions'), rest };
  }

  async openStream(extensions) {
    this.session ??= this.connect();
    const session = await this.session;
    const offer = extensions ? { 'sec-websocket-extensions': extensions } : {};
    const stream = session.request(
      {
        ':method': 'CONNECT',
        ':protocol': 'websocket',
        ':scheme': this.tls ? 'https' : 'http',
        ':authority': this.authority,
        ':path': this.path,
        'sec-websocket-version': '13',
        ...offer,
      },
      { endStream: false },
    );
    const [headers] = await once(stream, 'response');
    assert.strictEqual(headers[':status'], 200);
    return { stream, extensions: headers['sec-websocket-extensions'], rest: Buffer.alloc(0) };
  }

  // All cases are streams of one connection, which may have a CONNECT with a protocol once the server says
  // so.
  async connect() {
    const scheme = this.tls ? 'https' : 'http';
    // Windows for messages of many megabytes.
    const settings = { initialWindowSize: 1 << 20 };
    const session = http2.connect(`${scheme}://${this.ip}:${this.port}`, {
      ...this.tls,
      settings,
      maxSessionMemory: 1000,
    });
    await once(session, 'remoteSettings');
    assert.ok(session.remoteSettings.enableConnectProtocol, 'SETTINGS_ENABLE_CONNECT_PROTOCOL');
    session.setLocalWindowSize(1 << 24);
    return session;
  }

  async close() {
    (await this.session)?.close();
  }
}

// The head of a response, and what has come behind it.
async function readHead(socket) {
  let read = Buffer.alloc(0);
  for (;;) {
    const end = read.indexOf('\r\n\r\n');
    if (end >= 0) return [read.toString('latin1', 0, end + 2), read.subarray(end + 4)];
    const [chunk] = await once(socket, 'data');
    socket.pause();
    read = Buffer.concat([read, chunk]);
    socket.resume();
  }
}

// A frame of a client, masked.
function encode({ opcode, payload, fin = true, rsv = 0 }) {
  const length = payload.length;
  const extended = length < 126 ? 0 : length < 65536 ? 2 : 8;
  const head = Buffer.alloc(2 + extended + 4);
  head[0] = (fin ? 0x80 : 0) | (rsv << 4) | opcode;
  head[1] = 0x80 | (extended === 0 ? length : extended === 2 ? 126 : 127);
  if (extended === 2) head.writeUInt16BE(length, 2);
  if (extended === 8) head.writeBigUInt64BE(BigInt(length), 2);
  const mask = crypto.randomBytes(4);
  mask.copy(head, 2 + extended);
  const masked = Buffer.from(payload);
  for (let at = 0; at < length; at++) masked[at] ^= mask[at & 3];
  return Buffer.concat([head, masked]);
}

// Takes frames of a server apart, as strictly as a client has to.
class Frames {
  constructor(take) {
    Object.assign(this, { take, chunks: [], size: 0 });
  }

  push(chunk) {
    this.chunks.push(chunk);
    this.size += chunk.length;
    while (this.one());
  }

  // The first `length` bytes, in one buffer.
  peek(length) {
    if (this.chunks[0].length < length) this.chunks = [Buffer.concat(this.chunks)];
    return this.chunks[0];
  }

  one() {
    if (this.size < 2) return false;
    const second = this.peek(2)[1];
    assert.ok(second < 0x80, 'a frame of a server is masked');
    const head = second < 126 ? 2 : second === 126 ? 4 : 10;
    if (this.size < head) return false;
    let bytes = this.peek(head);
    const length =
      head === 2 ? second : head === 4 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
    if (this.size < head + length) return false;
    bytes = this.peek(head + length);
    this.chunks[0] = bytes.subarray(head + length);
    if (this.chunks[0].length === 0) this.chunks.shift();
    this.size -= head + length;
    const payload = bytes.subarray(head, head + length);
    this.take({ opcode: bytes[0] & 0xf, fin: bytes[0] >= 0x80, rsv: (bytes[0] >> 4) & 7, payload });
    return this.size > 0;
  }
}

// One connection of a case: what has come, and what is sent.
class Conversation {
  constructor(stream, rest, deflate) {
    Object.assign(this, { stream, deflate, events: [], parts: null, close: undefined, waiting: [] });
    this.failure = null;
    this.ended = new Promise((resolve) => {
      stream.once('end', resolve);
      stream.once('close', resolve);
      stream.on('error', (error) => resolve(error));
    });
    this.ended.then(() => this.wake());
    const frames = new Frames((one) => this.take(one));
    const push = (chunk) => {
      try {
        frames.push(chunk);
      } catch (error) {
        this.failure = error;
      }
      this.wake();
    };
    if (rest.length > 0) push(rest);
    stream.on('data', push);
  }

  take({ opcode, fin, rsv, payload }) {
    assert.strictEqual(this.close, undefined, 'a frame behind the close frame');
    if (opcode === opcodes.PONG) {
      this.events.push({ kind: 'pong', payload });
    } else if (opcode === opcodes.CLOSE) {
      this.close = payload.length < 2 ? null : payload.readUInt16BE(0);
    } else {
      if (opcode !== opcodes.CONTINUATION) {
        assert.strictEqual(this.parts, null, 'a message within another');
        this.parts = { isBinary: opcode === opcodes.BINARY, isDeflated: rsv === 4, payloads: [] };
      }
      this.parts.payloads.push(payload);
      if (!fin) return;
      const { isBinary, isDeflated, payloads } = this.parts;
      this.parts = null;
      this.events.push({ kind: 'message', payload: Buffer.concat(payloads), isBinary, isDeflated });
    }
  }

  wake() {
    this.waiting.splice(0).forEach((resolve) => resolve());
  }

  // Waits until something holds or the server has closed.
  async until(holds) {
    let isOver = false;
    this.ended.then(() => (isOver = true));
    while (!holds() && !this.failure && !isOver && this.close === undefined) {
      await new Promise((resolve) => this.waiting.push(resolve));
    }
    if (this.failure) throw this.failure;
  }

  // Sends frames: together, unless one is to be written by itself or in pieces.
  async send(steps) {
    let together = [];
    const write = (bytes) =>
      new Promise((resolve) => {
        // A server that has closed takes no more, which is what a case may want.
        if (!this.stream.writable) return resolve();
        this.stream.write(bytes, () => resolve());
      });
    const flush = async () => {
      if (together.length > 0) await write(Buffer.concat(together));
      together = [];
    };
    for (const step of steps) {
      if (step.wait) {
        await flush();
        await this.until(() => this.events.length >= step.wait);
        continue;
      }
      const bytes = encode(step);
      if (!step.chop) {
        together.push(bytes);
        if (step.flush) await flush();
        continue;
      }
      await flush();
      for (let at = 0; at < bytes.length; at += step.chop) await write(bytes.subarray(at, at + step.chop));
    }
    await flush();
  }

  // Closes as a client does, and expects the same of the server.
  async finish(codes = [NORMAL]) {
    await this.send([closeFrame(NORMAL)]);
    await this.expectClose(codes);
  }

  async expectClose(codes) {
    await this.until(() => false);
    assert.ok(codes.includes(this.close), `closed with ${this.close}, which is none of ${codes}`);
    // The server closes the connection first (RFC 6455 section 7.1.1).
    const error = await this.ended;
    assert.ok(!(error instanceof Error) || error.code === 'ECONNRESET', `ends with ${error}`);
    this.stream.end();
  }
}

function assertEvents(events, expected) {
  const words = (list) => list.map(({ kind, payload }) => `${kind} of ${payload.length}`).join(', ');
  const isSame = (one, other) =>
    one.kind === other.kind && one.isBinary === other.isBinary && one.payload.equals(other.payload);
  const matches = (list) => list.length === events.length && list.every((one, at) => isSame(one, events[at]));
  assert.ok(expected.some(matches), `came: [${words(events)}], expected: [${words(expected[0])}]`);
}

// Frames in, events out.
async function ordinary(way, { steps, events, or = [], codes }) {
  const { stream, rest } = await way.open();
  const conversation = new Conversation(stream, rest);
  await conversation.send(steps);
  if (codes) {
    await conversation.expectClose(codes);
  } else {
    await conversation.until(() => conversation.events.length >= events.length);
    await conversation.finish();
  }
  assertEvents(conversation.events, [events, ...or]);
}

// One message after the other.
async function roundTrips(way, { trips: { count, opcode, payload } }) {
  const { stream, rest } = await way.open();
  const conversation = new Conversation(stream, rest);
  for (let trip = 1; trip <= count; trip++) {
    await conversation.send([{ opcode, payload }]);
    await conversation.until(() => conversation.events.length >= trip);
    assertEvents(conversation.events.slice(trip - 1), [[message(payload, opcode === opcodes.BINARY)]]);
  }
  await conversation.finish();
}

// Data of a kind that compresses as well as such files do.
const sources = {
  json: (n) => JSON.stringify({ id: n, name: `entry ${n * 7919}`, tags: ['a', 'b', n % 13], value: n / 3 }),
  prose: (n) =>
    ['Habe nun, ach', 'Philosophie', 'Juristerei', 'und Medizin', 'mit heißem Bemühn'][n % 5] + `, ${n}. `,
  html: (n) =>
    `<tr class="row-${n % 4}"><td><a href="/page/${n}">ätom ${n}</a></td><td>${n * 31}</td></tr>\n`,
  image: (n) =>
    Buffer.from([128 + 60 * Math.sin(n / 40), 128 + 60 * Math.cos(n / 90), n * 31]).toString('latin1'),
  pdf: (n) =>
    n % 40 ? String.fromCharCode((n * 2654435761) % 251) : `\n${n} 0 obj << /Length ${n} >> stream\n`,
};

const isText = (kind) => kind === 'json' || kind === 'html';
const data = {};
function textOf(kind) {
  if (!data[kind]) {
    let text = '';
    for (let n = 0; text.length < 400_000; n++) text += sources[kind](n);
    data[kind] = text;
  }
  return data[kind];
}

// The number-th message of a case: `length` characters of its data, from where the one before ended.
function piece(kind, length, number) {
  const text = textOf(kind);
  const from = (number * length) % text.length;
  const characters = (text + text).slice(from, from + length);
  return Buffer.from(characters, isText(kind) ? 'utf8' : 'latin1');
}

const later = (run) =>
  new Promise((resolve, reject) => run((error, result) => (error ? reject(error) : resolve(result))));

// Compressed messages, in frames of `size` bytes if there is one.
async function compressed(way, { deflate: { offers, kind, length, size, count } }) {
  const options = (one) => ({ threshold: 0, ...one });
  const own = offers.map((one) => new PerMessageDeflate(options(one), false, MESSAGE_MAX));
  const offer = own.map((one) => extension.format({ 'permessage-deflate': one.offer() })).join(', ');
  const { stream, extensions, rest } = await way.open(offer);
  const accepted = extension.parse(extensions ?? '')['permessage-deflate'];
  assert.ok(accepted, 'the server does not compress');
  // The one of ours that the answer is for.
  const deflate = own.find((one) => {
    try {
      one.accept(accepted.map((parameters) => ({ ...parameters })));
      return true;
    } catch {
      return false;
    }
  });
  assert.ok(deflate, `nobody has offered ${extensions}`);
  const conversation = new Conversation(stream, rest, deflate);
  const opcode = isText(kind) ? opcodes.TEXT : opcodes.BINARY;
  for (let number = 0; number < count; number++) {
    const payload = piece(kind, length, number);
    const small = await later((done) => deflate.compress(payload, true, done));
    const frames = [];
    for (let at = 0; at < small.length; at += size || small.length) {
      const end = size ? Math.min(at + size, small.length) : small.length;
      const isFirst = at === 0;
      frames.push({
        opcode: isFirst ? opcode : opcodes.CONTINUATION,
        rsv: isFirst ? 4 : 0,
        fin: end === small.length,
        payload: small.subarray(at, end),
      });
    }
    await conversation.send(frames);
    await conversation.until(() => conversation.events.length > number);
    const event = conversation.events[number];
    assert.ok(event, 'no message came back');
    if (event.isDeflated) {
      event.payload = await later((done) => deflate.decompress(event.payload, true, done));
    }
    assertEvents([event], [[message(payload, !isText(kind))]]);
    // A thousand messages of a case are more than memory should hold.
    event.payload = null;
  }
  await conversation.finish();
  assert.strictEqual(conversation.events.length, count);
  deflate.cleanup();
}

async function play(way, one) {
  const run = one.trips ? roundTrips : one.deflate ? compressed : ordinary;
  let timer;
  const limit = new Promise((_, reject) => {
    const time = CASE_LIMIT_MS + (one.deflate?.count ?? 0) * MESSAGE_LIMIT_MS;
    timer = setTimeout(() => reject(new Error('it does not end')), time);
  });
  try {
    await Promise.race([run(way, one), limit]);
    console.log(`ok ${one.id}`);
  } catch (error) {
    console.log(`failed ${one.id}: ${String(error.message).replaceAll('\n', ' ')}`);
  } finally {
    clearTimeout(timer);
  }
}

async function main([name, address, path, count, certificate, host]) {
  const way = new Way([name, address, path, certificate, host]);
  const cases = all(Number(count));
  const next = cases.values();
  const worker = async () => {
    for (const one of next) await play(way, one);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  await way.close();
  process.exit(0);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
