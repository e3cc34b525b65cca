// Tells which requests Node sees.
'use strict';
const server = require('http').createServer((request, response) => {
  let length = 0;
  request.on('data', (data) => { length += data.length; });
  request.on('end', () => {
    response.writeHead(200, { 'X-Said': `${request.method} ${request.url} ${length}`, 'Content-Length': 0 });
    response.end();
  });
});
server.keepAliveTimeout = 60000;
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
// Whoever started this has ended.
process.stdin.resume().on('end', () => process.exit());
