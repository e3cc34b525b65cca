//! Random conversations that both ends can have without a fault.

use proptest::collection::vec;
use proptest::prelude::*;

/// Names and values.
pub(crate) type Fields = Vec<(String, String)>;

/// A conversation, and the limits of both ends.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) our_window: u32,
    pub(crate) their_window: u32,
    pub(crate) our_table: u32,
    pub(crate) their_table: u32,
    pub(crate) their_frame: u32,
    pub(crate) streams_max: u32,
    pub(crate) unwritten_bytes_max: usize,
    /// Memory is scarce at our end.
    pub(crate) is_pressed: bool,
    /// Bytes on the way in one direction, at most.
    pub(crate) pipe_bytes: usize,
    /// Bytes that our end reads or writes at once, at most.
    pub(crate) cut: usize,
}

/// A request and its response.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Message,
    pub(crate) response: Message,
    pub(crate) status: u16,
    /// Number of interim responses.
    pub(crate) interim: usize,
    /// The response does not wait for the end of the request.
    pub(crate) is_early: bool,
    pub(crate) breaks: Break,
}

/// The early end of an exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Break {
    Never,
    /// The client resets it once the head and so many bytes of the response have come, or all of it.
    ByClient(usize),
    /// The server resets it once so many bytes of the request have come, or all of it.
    ByServer(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) fields: Fields,
    /// Lengths of the pieces that are sent.
    pub(crate) pieces: Vec<usize>,
    pub(crate) trailers: Option<Fields>,
    /// The head has a `Content-Length`.
    pub(crate) has_length: bool,
}

/// A message as it came out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) interim: usize,
    pub(crate) fields: Fields,
    pub(crate) content: Vec<u8>,
    pub(crate) trailers: Option<Fields>,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    #[default]
    None,
    Whole,
    Reset(u32),
}

impl Message {
    /// The content, which tells exchanges apart.
    pub(crate) fn bytes(&self, index: usize) -> Vec<u8> {
        let len = self.pieces.iter().sum::<usize>();
        (0..len).map(|at| (at / 7 + 31 * index) as u8).collect()
    }

    /// Whether the head is all.
    pub(crate) fn is_head_alone(&self) -> bool {
        self.pieces.is_empty() && self.trailers.is_none()
    }

    pub(crate) fn sorted_fields(&self) -> Fields {
        sorted(self.fields.clone())
    }

    /// The fields that are sent, the length among them.
    pub(crate) fn all_fields(&self) -> Fields {
        let len = self.pieces.iter().sum::<usize>();
        let length = self.has_length.then(|| ("content-length".to_owned(), len.to_string()));
        self.fields.iter().cloned().chain(length).collect()
    }
}

/// Fields by name; those of one name stay in their order.
pub(crate) fn sorted(mut fields: Fields) -> Fields {
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields
}

/// The fields of random messages among those that came.
pub(crate) fn own<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Fields {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let all = fields.map(|(name, value)| (text(name), text(value)));
    sorted(all.filter(|(name, _)| NAMES.contains(&name.as_str())).collect())
}

const NAMES: [&str; 6] = ["x-a", "x-b", "x-long-name-of-a-field", "accept", "user-agent", "set-cookie"];

fn fields(least: usize) -> impl Strategy<Value = Fields> {
    let value = prop_oneof![
        4 => "[!-~]{0,12}",
        2 => Just("always the same".to_owned()),
        1 => "[a-z]{300}",
    ];
    vec((0..NAMES.len(), value), least..6)
        .prop_map(|all| sorted(all.into_iter().map(|(at, value)| (NAMES[at].to_owned(), value)).collect()))
}

fn message() -> impl Strategy<Value = Message> {
    let piece = prop_oneof![3 => 1_usize..50, 2 => 1_usize..10_000, 1 => Just(30_000_usize)];
    let trailers = prop_oneof![2 => Just(None), 1 => fields(1).prop_map(Some)];
    (fields(0), vec(piece, 0..4), trailers, any::<bool>())
        .prop_map(|(fields, pieces, trailers, has_length)| Message { fields, pieces, trailers, has_length })
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let breaks = prop_oneof![
        6 => Just(Break::Never),
        1 => (0_usize..20_000).prop_map(Break::ByClient),
        1 => (0_usize..20_000).prop_map(Break::ByServer),
    ];
    let status = prop_oneof![Just(200_u16), Just(206), Just(404), Just(418), Just(599)];
    (message(), message(), status, 0_usize..3, any::<bool>(), breaks).prop_map(
        |(request, response, status, interim, is_early, breaks)| {
            let is_early = is_early && matches!(breaks, Break::Never);
            Exchange { request, response, status, interim, is_early, breaks }
        },
    )
}

pub(crate) fn plan() -> impl Strategy<Value = Plan> {
    let window = || prop_oneof![Just(500_u32), Just(16_384), Just(65_535), Just(200_000)];
    let table = || prop_oneof![Just(0_u32), Just(100), Just(4096), Just(20_000)];
    let limits = (window(), window(), table(), table(), 16_384_u32..70_000, 1_u32..6);
    let pipes = (prop_oneof![Just(300_usize), 1_000..70_000_usize], prop_oneof![7_usize..200, Just(1 << 16)]);
    let writing = (prop_oneof![Just(500_usize), Just(1 << 16)], any::<bool>());
    (vec(exchange(), 1..7), limits, pipes, writing).prop_map(|(exchanges, limits, pipes, writing)| {
        let (our_window, their_window, our_table, their_table, their_frame, streams_max) = limits;
        let (pipe_bytes, cut) = pipes;
        let (unwritten_bytes_max, is_pressed) = writing;
        Plan {
            exchanges,
            our_window,
            their_window,
            our_table,
            their_table,
            their_frame,
            streams_max,
            unwritten_bytes_max,
            is_pressed,
            pipe_bytes,
            cut,
        }
    })
}
