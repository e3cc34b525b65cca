// Answers one challenge of ACME as the Pod of cert-manager does: for its host and its token, and nothing else.
'use strict';
const http = require('node:http');

const [host, port, domain, token, key] = process.argv.slice(2);
http
  .createServer((request, response) => {
    const isAsked = request.headers.host?.split(':')[0] === domain && request.url === `/.well-known/acme-challenge/${token}`;
    response.writeHead(isAsked ? 200 : 404, { 'Content-Type': 'text/plain' }).end(isAsked ? key : 'not found');
  })
  .listen(Number(port), host);
