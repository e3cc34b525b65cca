// Talks to server.cjs by a URL; ends with an error where something comes back otherwise than it was sent.
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const fs = require('node:fs');
const { WebSocket } = require('ws');

async function main(url, authority, servername, host) {
  const tls = authority ? { ca: fs.readFileSync(authority), servername } : {};
  // A page of a host, wherever that is connected to.
  const page = host ? { headers: { Host: host }, origin: `http://${host}` } : {};
  for (const perMessageDeflate of [false, true]) {
    const socket = new WebSocket(url, { ...tls, ...page, perMessageDeflate });
    await once(socket, 'open');
    assert.strictEqual(socket.extensions !== '', perMessageDeflate, 'extensions are agreed upon from end to end');
    const large = Buffer.alloc(3_000_000, 'some text that compresses well, ');
    const noise = require('node:crypto').randomBytes(1_000_000);
    for (const message of ['hello', '', 'ä'.repeat(70_000), Buffer.from([0, 255, 13, 10]), large, noise]) {
      socket.send(message);
      const [answer, isBinary] = await once(socket, 'message');
      assert.strictEqual(isBinary, typeof message !== 'string');
      assert.ok(Buffer.from(message).equals(answer), `a message of ${message.length}`);
    }
    // In pieces, with a ping between them.
    socket.send('one ', { fin: false });
    socket.ping('are you there?');
    const [pong] = await once(socket, 'pong');
    assert.strictEqual(pong.toString(), 'are you there?');
    socket.send('whole', { fin: true });
    const [whole] = await once(socket, 'message');
    assert.strictEqual(whole.toString(), 'one whole');
    // Many at once.
    const answers = [];
    const all = new Promise((resolve) => {
      socket.on('message', (answer) => answers.push(answer.toString()) === 1000 && resolve());
    });
    for (let number = 0; number < 1000; number++) socket.send(`message ${number}`);
    await all;
    assert.ok(answers.every((answer, number) => answer === `message ${number}`), 'in order');
    socket.removeAllListeners('message');
    socket.send('close 4001');
    const [code, reason] = await once(socket, 'close');
    assert.deepStrictEqual([code, reason.toString()], [4001, 'as asked']);
  }
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
