// Takes WebSockets at an address.
'use strict';
const { WebSocketServer } = require('ws');

const [host, port] = process.argv.slice(2);
const server = new WebSocketServer({
  host,
  port: Number(port),
  perMessageDeflate: true,
  maxPayload: 1 << 24,
  maxFragments: 1 << 17,
});
server.on('connection', require('./echo.cjs'));
