// What a server does with a WebSocket: every message goes back as it came; `close CODE` closes with that
// code.
'use strict';
module.exports = (socket) => {
  // A client that breaks the protocol: `ws` has sent the close frame that says so.
  socket.on('error', () => {});
  socket.on('message', (message, isBinary) => {
    const close = isBinary ? null : /^close (\d+)$/.exec(message.toString());
    if (close) socket.close(Number(close[1]), 'as asked');
    else socket.send(message, { binary: isBinary, compress: message.length < 1000 });
  });
};
