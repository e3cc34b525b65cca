// The cases of Autobahn's suite for servers of WebSocket, by its numbers, re-expressed from its description:
// the suite itself needs Python 2. They are what a client sends to a server that returns every message, and
// what has to come back.
//
// A case is {id, steps, events, or, codes}: frames to send, the messages and pongs that come back, other
// events that are as good, and the codes of the server's close frame. A case without codes ends with the
// client's close frame of code 1000, which the server returns. `deflate` and `messages` are of the cases
// about compression, `trips` of those about messages one after the other.
//
// Must not be in here: sockets; they are fuzzing.cjs's.
'use strict';

const CONTINUATION = 0;
const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;
const NORMAL = 1000;
const PROTOCOL_ERROR = 1002;
const INVALID_DATA = 1007;
const LENGTH_OF_CONTROL_FRAMES = 125;

const kib = 1024;
const mib = 1024 * kib;

const frame = (opcode, payload = '', more = {}) => ({ opcode, payload: Buffer.from(payload), ...more });
const message = (payload, isBinary = false) => ({ kind: 'message', payload: Buffer.from(payload), isBinary });
const pong = (payload) => ({ kind: 'pong', payload: Buffer.from(payload) });
const hex = (text) => Buffer.from(text.replaceAll(' ', ''), 'hex');
const stars = (length) => Buffer.alloc(length, '*');

function closeFrame(code, reason = '', more = {}) {
  const head = Buffer.alloc(2);
  head.writeUInt16BE(code);
  return frame(CLOSE, Buffer.concat([head, Buffer.from(reason)]), more);
}

// The payload in frames of `size` bytes.
function fragments(opcode, payload, size, more = {}) {
  const frames = [];
  for (let at = 0; at < payload.length || at === 0; at += size) {
    const isLast = at + size >= payload.length;
    frames.push(
      frame(at === 0 ? opcode : CONTINUATION, payload.subarray(at, at + size), { fin: isLast, ...more }),
    );
  }
  return frames;
}

// 1: messages of lengths at which the header of a frame changes.
function framing() {
  const cases = [];
  for (const [group, opcode] of [
    [1, TEXT],
    [2, BINARY],
  ]) {
    const lengths = [0, 125, 126, 127, 128, 65535, 65536, 65536];
    lengths.forEach((length, index) => {
      const payload = opcode === TEXT ? stars(length) : Buffer.alloc(length, 0xfe);
      const chop = index === 7 ? { chop: 997 } : {};
      const events = [message(payload, opcode === BINARY)];
      cases.push({ id: `1.${group}.${index + 1}`, steps: [frame(opcode, payload, chop)], events });
    });
  }
  return cases;
}

// 2: pings and pongs.
function pings() {
  const binary = Buffer.alloc(LENGTH_OF_CONTROL_FRAMES, 0xfe);
  const ten = Array.from({ length: 10 }, (_, index) => `payload-${index}`);
  const answered = (id, payload, more) => ({
    id,
    steps: [frame(PING, payload, more)],
    events: [pong(payload)],
  });
  return [
    answered('2.1', ''),
    answered('2.2', 'Hello, world!'),
    answered('2.3', hex('00 ff fe fd fc fb 00 ff')),
    answered('2.4', binary),
    { id: '2.5', steps: [frame(PING, Buffer.alloc(126, 0xfe))], events: [], codes: [PROTOCOL_ERROR] },
    answered('2.6', binary, { chop: 1 }),
    { id: '2.7', steps: [frame(PONG)], events: [] },
    { id: '2.8', steps: [frame(PONG, 'nobody asked')], events: [] },
    { id: '2.9', steps: [frame(PONG, 'nobody asked'), frame(PING, 'this one')], events: [pong('this one')] },
    { id: '2.10', steps: ten.map((one) => frame(PING, one)), events: ten.map(pong) },
    { id: '2.11', steps: ten.map((one) => frame(PING, one, { chop: 1 })), events: ten.map(pong) },
  ];
}

// Fails the connection, alone or behind a message that may have come back before.
function failing(id, bad, { before = false, more = {} } = {}) {
  const first = before ? [frame(TEXT, 'Hello, world!', more)] : [];
  const behind = before ? [frame(PING, '', more)] : [];
  const events = before ? [message('Hello, world!')] : [];
  return { id, steps: [...first, bad, ...behind], events, or: [[]], codes: [PROTOCOL_ERROR] };
}

// 3: reserved bits, and 4: reserved opcodes.
function reserved() {
  const text = 'Hello, world!';
  return [
    failing('3.1', frame(TEXT, text, { rsv: 1 })),
    failing('3.2', frame(TEXT, text, { rsv: 2 }), { before: true }),
    failing('3.3', frame(TEXT, text, { rsv: 3, flush: true }), { before: true, more: { flush: true } }),
    failing('3.4', frame(TEXT, text, { rsv: 4, chop: 1 }), { before: true, more: { chop: 1 } }),
    failing('3.5', frame(BINARY, hex('00 ff fe fd'), { rsv: 5 })),
    failing('3.6', frame(PING, text, { rsv: 6 })),
    failing('3.7', closeFrame(NORMAL, '', { rsv: 7 })),
    failing('4.1.1', frame(3)),
    failing('4.1.2', frame(4, 'reserved')),
    failing('4.1.3', frame(5), { before: true }),
    failing('4.1.4', frame(6, text), { before: true }),
    failing('4.1.5', frame(7, text, { chop: 1 }), { before: true, more: { chop: 1 } }),
    failing('4.2.1', frame(11)),
    failing('4.2.2', frame(12, 'reserved')),
    failing('4.2.3', frame(13), { before: true }),
    failing('4.2.4', frame(14, text), { before: true }),
    failing('4.2.5', frame(15, text, { chop: 1 }), { before: true, more: { chop: 1 } }),
  ];
}

// 5: messages in fragments.
function fragmentation() {
  const cases = [];
  const two = (more = {}) => [frame(TEXT, 'one', { fin: false, ...more }), frame(CONTINUATION, 'two', more)];
  const bad = (id, steps, events = []) =>
    cases.push({ id, steps, events, or: [[]], codes: [PROTOCOL_ERROR] });
  bad('5.1', [frame(PING, 'one', { fin: false }), frame(CONTINUATION, 'two')]);
  bad('5.2', [frame(PONG, 'one', { fin: false }), frame(CONTINUATION, 'two')]);
  // In one piece, by frame, and by byte.
  const ways = [{}, { flush: true }, { chop: 1 }];
  ways.forEach((way, index) => {
    cases.push({ id: `5.${3 + index}`, steps: two(way), events: [message('onetwo')] });
    const [first, last] = two(way);
    const steps = [first, frame(PING, 'between', way), last];
    cases.push({ id: `5.${6 + index}`, steps, events: [pong('between'), message('onetwo')] });
  });
  for (const [from, fin] of [
    [9, true],
    [12, false],
  ]) {
    ways.forEach((way, index) => {
      bad(`5.${from + index}`, [frame(CONTINUATION, 'nothing', { fin, ...way }), frame(TEXT, 'text', way)]);
    });
  }
  const early = [frame(CONTINUATION, 'three', { fin: false }), frame(TEXT, 'four')];
  bad('5.15', [...two(), ...early], [message('onetwo')]);
  for (const [id, fin] of [
    ['5.16', false],
    ['5.17', true],
  ]) {
    const once = [frame(CONTINUATION, 'nothing', { fin }), ...two()];
    bad(id, [...once, ...once]);
  }
  bad('5.18', [frame(TEXT, 'one', { fin: false }), frame(TEXT, 'two')]);
  for (const [id, way] of [
    ['5.19', {}],
    ['5.20', { flush: true }],
  ]) {
    const part = (text, fin = false) => frame(CONTINUATION, text, { fin, ...way });
    const steps = [frame(TEXT, 'one', { fin: false, ...way }), part('two'), frame(PING, 'ping 1', way)];
    // The rest is sent when the first pong is there.
    const rest = [{ wait: 1 }, part('three'), part('four'), frame(PING, 'ping 2', way), part('five', true)];
    const events = [pong('ping 1'), pong('ping 2'), message('onetwothreefourfive')];
    cases.push({ id, steps: [...steps, ...rest], events });
  }
  return cases;
}

// A Greek word that pages about UTF-8 use.
const greek = hex('ceba e1bdb9 cf83 cebc ceb5');

// 6.1 to 6.4: text that is cut anywhere, and text that is invalid from some byte on.
function textInFragments() {
  const empty = (text) => [
    frame(TEXT, '', { fin: false }),
    frame(CONTINUATION, text, { fin: false }),
    frame(CONTINUATION),
  ];
  const text = 'Hello-µ@ßöäüàá-UTF-8!!';
  const bytes = Buffer.from(text);
  const at = bytes.indexOf('ä');
  const edited = Buffer.from('edited');
  const broken = Buffer.concat([greek, hex('eda080'), edited]);
  const invalid = (id, steps) => ({ id, steps, events: [], codes: [INVALID_DATA] });
  const three = (second, third) => [
    frame(TEXT, greek, { fin: false, flush: true }),
    frame(CONTINUATION, second, { fin: false, flush: true }),
    frame(CONTINUATION, third),
  ];
  return [
    { id: '6.1.1', steps: [frame(TEXT)], events: [message('')] },
    { id: '6.1.2', steps: empty(''), events: [message('')] },
    { id: '6.1.3', steps: empty('middle'), events: [message('middle')] },
    { id: '6.2.1', steps: [frame(TEXT, text)], events: [message(text)] },
    {
      id: '6.2.2',
      steps: [frame(TEXT, bytes.subarray(0, at), { fin: false }), frame(CONTINUATION, bytes.subarray(at))],
      events: [message(text)],
    },
    { id: '6.2.3', steps: fragments(TEXT, bytes, 1), events: [message(text)] },
    { id: '6.2.4', steps: fragments(TEXT, greek, 1), events: [message(greek)] },
    invalid('6.3.1', [frame(TEXT, broken)]),
    invalid('6.3.2', fragments(TEXT, broken, 1)),
    invalid('6.4.1', three(hex('f4908080'), edited)),
    invalid('6.4.2', three(hex('f490'), Buffer.concat([hex('8080'), edited]))),
    // In pieces of one frame, where 6.4.1 and 6.4.2 have frames.
    invalid('6.4.3', [
      frame(TEXT, Buffer.concat([greek, hex('f4908080'), edited]), { chop: greek.length + 6 }),
    ]),
    invalid('6.4.4', [
      frame(TEXT, Buffer.concat([greek, hex('f4908080'), edited]), { chop: greek.length + 8 }),
    ]),
  ];
}

// The numbers from `first` to `last`, each as a byte and a space.
const spaced = (first, last) => {
  const bytes = [];
  for (let byte = first; byte <= last; byte++) bytes.push(byte, 0x20);
  return Buffer.from(bytes);
};

// 6.5 to 6.23: sequences of UTF-8, by Markus Kuhn's list.
function sequences() {
  const incomplete = 'c0, e080, f08080, f8808080, fc80808080, df, efbf, f7bfbf, fbbfbfbf, fdbfbfbfbf'.split(
    ', ',
  );
  const continuation = Array.from({ length: 64 }, (_, index) => (0x80 + index).toString(16)).join('');
  const surrogates = ['eda080', 'edadbf', 'edae80', 'edafbf', 'edb080', 'edbe80', 'edbfbf'];
  const pairs = surrogates.slice(0, 4).flatMap((high) => [`${high}edb080`, `${high}edbfbf`]);
  const groups = [
    [
      true,
      [
        '68656c6c6f24776f726c64',
        '68656c6c6fc2a2776f726c64',
        '68656c6c6fe282ac776f726c64',
        '68656c6c6ff0a4ada2776f726c64',
        greek.toString('hex'),
      ],
    ],
    [null, Array.from(greek, (_, index) => greek.subarray(0, index + 1).toString('hex'))],
    [true, ['00', 'c280', 'e0a080', 'f0908080']],
    [false, ['f888808080', 'fc8480808080']],
    [true, ['7f', 'dfbf', 'efbfbf', 'f48fbfbf']],
    [false, ['f7bfbfbf', 'fbbfbfbfbf', 'fdbfbfbfbfbf']],
    [null, ['ed9fbf', 'ee8080', 'efbfbd', 'f48fbfbf', 'f4908080']],
    [false, ['80', 'bf', '80bf', '80bf80', '80bf80bf', '80bf80bf80', '80bf80bf80bf', continuation]],
    [
      false,
      [
        [0xc0, 0xdf],
        [0xe0, 0xef],
        [0xf0, 0xf7],
        [0xf8, 0xfb],
        [0xfc, 0xfd],
      ].map(([first, last]) => spaced(first, last).toString('hex')),
    ],
    [false, incomplete],
    [false, [incomplete.join('')]],
    [false, ['fe', 'ff', 'fefeffff']],
    [false, ['c0af', 'e080af', 'f08080af', 'f8808080af', 'fc80808080af']],
    [false, ['c1bf', 'e09fbf', 'f08fbfbf', 'f887bfbfbf', 'fc83bfbfbfbf']],
    [false, ['c080', 'e08080', 'f0808080', 'f880808080', 'fc8080808080']],
    [false, surrogates],
    [false, pairs],
    [true, noncharacters()],
    [true, ['efbfb9', 'efbfba', 'efbfbb', 'efbfbc', 'efbfbd', 'efbfbe', 'efbfbf']],
  ];
  return groups.flatMap(([isValid, list], group) =>
    list.map((text, index) => {
      const payload = hex(text);
      const id = `6.${group + 5}.${index + 1}`;
      // Where a group has both, a decoder that is strict says it.
      if (isValid ?? isUtf8(payload))
        return { id, steps: [frame(TEXT, payload)], events: [message(payload)] };
      return { id, steps: [frame(TEXT, payload)], events: [], codes: [INVALID_DATA] };
    }),
  );
}

function isUtf8(bytes) {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}

// The last two code points of each plane, which are no characters but can be sent.
function noncharacters() {
  const texts = [];
  for (let plane = 0; plane <= 16; plane++) {
    for (const last of [0xfffe, 0xffff]) texts.push(String.fromCodePoint(plane * 0x10000 + last));
  }
  return texts.map((text) => Buffer.from(text).toString('hex'));
}

// 7: how connections are closed.
function closing() {
  const after = (id, ...frames) => ({
    id,
    steps: [closeFrame(NORMAL), ...frames],
    events: [],
    codes: [NORMAL],
  });
  const cases = [
    { id: '7.1.1', steps: [frame(TEXT, 'Hello World!')], events: [message('Hello World!')] },
    after('7.1.2', closeFrame(NORMAL)),
    after('7.1.3', frame(PING, 'late')),
    after('7.1.4', frame(TEXT, 'late')),
    {
      id: '7.1.5',
      steps: [frame(TEXT, 'one', { fin: false }), closeFrame(NORMAL), frame(CONTINUATION, 'two')],
      events: [],
      codes: [NORMAL],
    },
    {
      id: '7.1.6',
      steps: [frame(TEXT, stars(256 * kib)), closeFrame(NORMAL), frame(PING)],
      events: [message(stars(256 * kib))],
      or: [[]],
      codes: [NORMAL],
    },
    // A close frame without a code may be answered by one without, which is 1005 to a program.
    { id: '7.3.1', steps: [frame(CLOSE)], events: [], codes: [NORMAL, null] },
    { id: '7.3.2', steps: [frame(CLOSE, 'a')], events: [], codes: [PROTOCOL_ERROR] },
    { id: '7.3.3', steps: [closeFrame(NORMAL)], events: [], codes: [NORMAL] },
    { id: '7.3.4', steps: [closeFrame(NORMAL, 'Hello World!')], events: [], codes: [NORMAL] },
    { id: '7.3.5', steps: [closeFrame(NORMAL, stars(123))], events: [], codes: [NORMAL] },
    { id: '7.3.6', steps: [closeFrame(NORMAL, stars(124))], events: [], codes: [PROTOCOL_ERROR] },
    {
      id: '7.5.1',
      steps: [closeFrame(NORMAL, hex('cebae1bdb9cf83cebcceb5eda080656469746564'))],
      events: [],
      codes: [PROTOCOL_ERROR, INVALID_DATA],
    },
  ];
  const valid = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999];
  valid.forEach((code, index) => {
    cases.push({ id: `7.7.${index + 1}`, steps: [closeFrame(code)], events: [], codes: [NORMAL, code] });
  });
  [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999].forEach((code, index) => {
    cases.push({ id: `7.9.${index + 1}`, steps: [closeFrame(code)], events: [], codes: [PROTOCOL_ERROR] });
  });
  // The specification does not say what happens: the connection has to end, by a close frame.
  [5000, 65535].forEach((code, index) => {
    cases.push({
      id: `7.13.${index + 1}`,
      steps: [closeFrame(code)],
      events: [],
      codes: [NORMAL, code, PROTOCOL_ERROR],
    });
  });
  return cases;
}

// 9: large messages, in one frame, in many frames and in many writes, and many messages; 10: frames of a
// size that libraries choose.
function limits() {
  const cases = [];
  const echoed = (id, steps, payload, isBinary) =>
    cases.push({ id, steps, events: [message(payload, isBinary)] });
  for (const [isBinary, whole, cut, chopped, trips] of [
    [false, 1, 3, 5, 7],
    [true, 2, 4, 6, 8],
  ]) {
    const opcode = isBinary ? BINARY : TEXT;
    const of = (length) =>
      isBinary ? Buffer.alloc(length, 'noise \x00\xff', 'latin1') : Buffer.alloc(length, 'BAsd7&jh23');
    [64 * kib, 256 * kib, mib, 4 * mib, 8 * mib, 16 * mib].forEach((length, index) => {
      echoed(`9.${whole}.${index + 1}`, [frame(opcode, of(length))], of(length), isBinary);
    });
    [64, 256, kib, 4 * kib, 16 * kib, 64 * kib, 256 * kib, mib, 4 * mib].forEach((size, index) => {
      echoed(`9.${cut}.${index + 1}`, fragments(opcode, of(4 * mib), size), of(4 * mib), isBinary);
    });
    [64, 128, 256, 512, 1024, 2048].forEach((chop, index) => {
      echoed(`9.${chopped}.${index + 1}`, [frame(opcode, of(mib), { chop })], of(mib), isBinary);
    });
    [0, 16, 64, 256, 1024, 4096].forEach((length, index) => {
      cases.push({ id: `9.${trips}.${index + 1}`, trips: { count: 1000, opcode, payload: of(length) } });
    });
  }
  echoed('10.1.1', fragments(TEXT, stars(65536), 1300), stars(65536), false);
  return cases;
}

// Length of messages, and of their frames; 0 for one frame each.
const SIZES = [
  ...[16, 64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072].map((length) => [length, 0]),
  ...[8192, 16384, 32768, 65536, 131072].map((length) => [length, 256]),
  ...[1024, 4096, 32768].map((size) => [131072, size]),
];

// What clients offer, in the order of the groups of 13. Of several offers the server takes one.
const OFFERS = [
  [{}],
  [{ serverNoContextTakeover: true }],
  [{ serverMaxWindowBits: 9 }],
  [{ serverMaxWindowBits: 15 }],
  [{ serverNoContextTakeover: true, serverMaxWindowBits: 9 }],
  [{ serverNoContextTakeover: true, serverMaxWindowBits: 15 }],
  [{ serverNoContextTakeover: true, serverMaxWindowBits: 9 }, { serverNoContextTakeover: true }, {}],
];

// 12: data of several kinds, and 13: parameters; `count` messages of each size.
function compression(count) {
  const cases = [];
  const add = (id, offers, kind, [length, size]) => {
    cases.push({ id, deflate: { offers, kind, length, size, count } });
  };
  ['json', 'image', 'prose', 'html', 'pdf'].forEach((kind, group) => {
    SIZES.forEach((sizes, index) => add(`12.${group + 1}.${index + 1}`, [{}], kind, sizes));
  });
  OFFERS.forEach((offers, group) => {
    SIZES.forEach((sizes, index) => add(`13.${group + 1}.${index + 1}`, offers, 'json', sizes));
  });
  return cases;
}

module.exports = {
  all: (count) => [
    ...framing(),
    ...pings(),
    ...reserved(),
    ...fragmentation(),
    ...textInFragments(),
    ...sequences(),
    ...closing(),
    ...limits(),
    ...compression(count),
  ],
  closeFrame,
  message,
  opcodes: { CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG },
  NORMAL,
};
