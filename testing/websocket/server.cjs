// Sends every message back as it came; `close CODE` closes with that code.
'use strict';
const { WebSocketServer } = require('ws');

const [host, port] = process.argv.slice(2);
const server = new WebSocketServer({ host, port: Number(port), perMessageDeflate: true, maxPayload: 1 << 24 });
server.on('connection', (socket) => {
  socket.on('message', (message, isBinary) => {
    const close = isBinary ? null : /^close (\d+)$/.exec(message.toString());
    if (close) socket.close(Number(close[1]), 'as asked');
    else socket.send(message, { binary: isBinary, compress: message.length < 1000 });
  });
});
