// A web application under a sub-path that behaves as Grafana does: its links and redirects begin with the path of its root URL, it is asked either
// below that path or without it (`serve_from_sub_path`), and a WebSocket is taken from pages of its own origin only.
'use strict';
const http = require('node:http');
const { WebSocketServer } = require('ws');

const [host, port, root, servesFromSubPath] = process.argv.slice(2);
const { origin, pathname } = new URL(root);
const base = pathname.replace(/\/$/, '');

// The path within the application; none if it is not the application's.
function within(path) {
  if (servesFromSubPath !== 'true') return path;
  return path.startsWith(`${base}/`) ? path.slice(base.length) : null;
}

const server = http.createServer((request, response) => {
  const { pathname: path, search } = new URL(request.url, root);
  const inner = within(path);
  const redirect = (location) => response.writeHead(302, { Location: location }).end();
  if (inner === '/') return redirect(`${base}/login`);
  if (inner === '/absolute') return redirect(new URL('login', root).href);
  if (inner === '/login') {
    response.writeHead(200, { 'Content-Type': 'text/html', 'Set-Cookie': `session=1; Path=${base}/; HttpOnly` });
    return response.end(`<base href="${base}/"><script src="public/app.js"></script>`);
  }
  if (inner === '/public/app.js' || inner?.startsWith('/api/')) {
    response.writeHead(200, { 'Content-Type': 'application/json' });
    return response.end(JSON.stringify({ path, search, headers: request.headers }));
  }
  response.writeHead(404).end(`nothing at ${request.url}`);
});

const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: true, maxPayload: 1 << 24 });
sockets.on('connection', require('../websocket/echo.cjs'));
server.on('upgrade', (request, socket, head) => {
  const isOurs = within(new URL(request.url, root).pathname) === '/api/live/ws';
  const isSameOrigin = request.headers.origin === origin && origin.endsWith(`//${request.headers.host}`);
  if (isOurs && isSameOrigin) return sockets.handleUpgrade(request, socket, head, (one) => sockets.emit('connection', one));
  socket.end(`HTTP/1.1 ${isOurs ? '403 Forbidden' : '404 Not Found'}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
});
server.listen(Number(port), host);
