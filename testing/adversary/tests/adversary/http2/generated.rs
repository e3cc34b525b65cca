//! Generated heads and floods.

use adversary::http1::recorder::Recorder;
use adversary::{Case, Random, Run, binary};
use testkit::frames::{FrameClient, Outcome, flag, frame, head, header_block, kind, settings_payload};
use testkit::{Canned, Forebay};

use super::{ENHANCE_YOUR_CALM, INITIAL_WINDOW_SIZE};

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Fields that no request may have (RFC 9113 section 8.2 and 8.3), and similar ones.
const ODD: &[(&[u8], &[u8])] = &[
    (b"x", b"a\r\nb: c"),
    (b"x", b"a\nb"),
    (b"x", b"a\0b"),
    (b"x\r\ny", b"z"),
    (b"x: y\r\nz", b"a"),
    (b"X", b"upper case"),
    (b"", b"no name"),
    (b"x y", b"z"),
    (b"x:", b"z"),
    (b":x", b"z"),
    (b":path", b"/again"),
    (b":method", b"POST"),
    (b":authority", b"other.test"),
    (b":status", b"200"),
    (b":protocol", b"websocket"),
    (b"connection", b"close"),
    (b"transfer-encoding", b"chunked"),
    (b"keep-alive", b"1"),
    (b"proxy-connection", b"close"),
    (b"upgrade", b"h2c"),
    (b"te", b"chunked"),
    (b"te", b"trailers"),
    (b"host", b"other.test"),
    (b"host", b"web.test"),
    (b"host", b"web.test\r\nx: y"),
    (b"content-length", b"5"),
    (b"content-length", b"0"),
    (b"content-length", b"+5"),
    (b"content-length", b"5, 5"),
    (b"content-length", b"\t5"),
    (b"content-length", b"99999999999999999999"),
    (b"x", b" space "),
    (b"x", b"\t"),
    (b"x", b"\xff\x80"),
    (b"x", b"\x7f"),
    (b"cookie", b"a=b"),
    (b"cookie", b"c=d\r\n"),
    (b"expect", b"100-continue"),
    (b"x_y", b"z"),
    (b"trailer", b"content-length"),
];

/// Values of pseudo-headers.
const METHODS: &[&[u8]] =
    &[b"GET", b"POST", b"get", b"GET / HTTP/1.1\r\nx:", b"", b"CONNECT", b"G T", b"HEAD", b"OPTIONS"];
const SCHEMES: &[&[u8]] = &[b"http", b"https", b"", b"http://web.test/x?", b"ftp", b"HTTP"];
const HOSTS: &[&[u8]] = &[
    b"web.test",
    b"web.test:80",
    b"other.test",
    b"web.test\r\nx: y",
    b"",
    b"u@web.test",
    b"web.test/x",
    b"WEB.test",
    b"web.test web",
];
const PATHS: &[&[u8]] = &[
    b"/",
    b"/ HTTP/1.1\r\nx: y",
    b"",
    b"*",
    b"x",
    b"/a b",
    b"/\0",
    b"http://other.test/",
    b"/a#b",
    b"/../..",
    b"//",
    b"/\xff",
    b"/\t",
    b"/%0d%0a",
];

/// The requests at the endpoint are those that were answered, and are read strictly.
pub(super) fn heads(run: &Run) {
    let recorder = Recorder::default();
    let forebay = binary::setup().endpoint(recorder.address()).start();
    run.each(|case| {
        recorder.take();
        let answered = requests(case, &forebay);
        let record = recorder.take();
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let malformed: Vec<_> = record.malformed.iter().map(|(bytes, why)| (shown(bytes), why)).collect();
        assert!(malformed.is_empty(), "the endpoint got what is no request: {malformed:?}");
        let seen: Vec<_> = record.seen.iter().map(|seen| shown(&seen.raw)).collect();
        assert_eq!(seen.len(), answered, "requests that were answered; the endpoint got {seen:?}");
    });
    assert_eq!(forebay.get("/").status, 200);
}

/// Sends some requests one after the other; how many the endpoint has answered.
fn requests(case: &mut Case, forebay: &Forebay) -> usize {
    let mut client = FrameClient::begin(forebay.client());
    let mut answered = 0;
    for number in 0..=case.random.below(3) {
        let stream = 2 * number as u32 + 1;
        let fields = fields(&mut case.random);
        let data = data(&mut case.random, stream);
        let pairs: Vec<(&[u8], &[u8])> =
            fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect();
        let end = if data.is_empty() { flag::END_STREAM } else { 0 };
        let head = frame(kind::HEADERS, flag::END_HEADERS | end, stream, &header_block(&pairs));
        case.sends(&[head.clone(), data.concat()].concat());
        if !client.try_send_all(&[vec![head], data.clone()].concat()) {
            return answered;
        }
        match client.outcome(stream) {
            Outcome::Status(200) => {
                must_fit(&fields, &data);
                answered += 1;
            }
            Outcome::Status(100..200) => panic!("an interim answer that nobody sent"),
            Outcome::Status(_) | Outcome::Reset(_) => {}
            Outcome::GoAway(_) | Outcome::Closed => return answered,
        }
    }
    answered
}

/// "A request or response that includes message content can include a Content-Length header field. ...
/// malformed if the value ... does not equal the sum of the DATA frame payload lengths" (RFC 9113 section
/// 8.1.1).
fn must_fit(fields: &Fields, data: &[Vec<u8>]) {
    let sent: usize = data.iter().map(|frame| frame.len() - 9).sum();
    for (_, value) in fields.iter().filter(|(name, _)| name == b"content-length") {
        let told = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse::<usize>().ok());
        assert_eq!(
            told,
            Some(sent),
            "an answer to {sent} bytes with content-length {:?}",
            value.escape_ascii().to_string()
        );
    }
}

fn fields(random: &mut Random) -> Fields {
    let mut value =
        |values: &'static [&'static [u8]]| if random.once_in(5) { *random.pick(values) } else { values[0] };
    let names: [&[u8]; 4] = [b":method", b":scheme", b":authority", b":path"];
    let values = [value(METHODS), value(SCHEMES), value(HOSTS), value(PATHS)];
    let mut fields: Fields =
        names.iter().zip(values).map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    while random.once_in(2) {
        let (name, value) = random.pick(ODD);
        let at = if random.once_in(3) { random.below(fields.len() + 1) } else { fields.len() };
        fields.insert(at, (name.to_vec(), value.to_vec()));
    }
    if random.once_in(8) {
        fields.remove(random.below(fields.len()));
    }
    fields
}

fn data(random: &mut Random, stream: u32) -> Vec<Vec<u8>> {
    let texts: [&[u8]; 4] =
        [b"hello", b"", b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: web.test\r\n\r\n", b"hell"];
    let count = if random.once_in(2) { 0 } else { 1 + random.below(2) };
    (0..count)
        .map(|index| {
            let flags = if index + 1 == count { flag::END_STREAM } else { flag::NONE };
            frame(kind::DATA, flags, stream, texts[random.below(texts.len())])
        })
        .collect()
}

/// Frames that cost the sender nothing end the connection, in whatever mixture.
pub(super) fn floods(run: &Run) {
    const MANY: usize = 20_000;
    let endpoint = Canned::saying("hello");
    let forebay = binary::setup().endpoint(endpoint.address()).start();
    run.each(|case| {
        let get = head("GET", "web.test", "/").map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let settings = settings_payload(&[(INITIAL_WINDOW_SIZE, 65_535)]);
        let kinds = [
            frame(kind::PING, flag::NONE, 0, &[0; 8]),
            frame(kind::SETTINGS, flag::NONE, 0, &settings),
            frame(kind::SETTINGS, flag::NONE, 0, &[]),
            frame(kind::PRIORITY, flag::NONE, 1, &[0, 0, 0, 0, 16]),
            frame(kind::WINDOW_UPDATE, flag::NONE, 0, &[0, 0, 0, 1]),
            frame(kind::PING, flag::ACK, 0, &[0; 8]),
            frame(kind::SETTINGS, flag::ACK, 0, &[]),
            frame(0xfa, flag::NONE, 0, b"?"),
        ];
        let mixture: Vec<_> = (0..=case.random.below(3)).map(|_| case.random.pick(&kinds).clone()).collect();
        let mut frames: Vec<Vec<u8>> = (0..MANY).map(|_| case.random.pick(&mixture).clone()).collect();
        if case.random.once_in(2) {
            frames.insert(
                0,
                frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &header_block(&get)),
            );
        }
        case.sends(&mixture.concat());
        let mut client = FrameClient::begin(forebay.client());
        client.try_send_all(&frames);
        let code = client.ending();
        // 1 is PROTOCOL_ERROR: an acknowledgement of nothing.
        assert!(matches!(code, Some(1 | ENHANCE_YOUR_CALM) | None), "GOAWAY with {code:?}");
    });
    assert_eq!(forebay.get("/").status, 200);
}
