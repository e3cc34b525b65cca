//! A client and a server that talk to each other, however their bytes are cut.

use super::*;

type Fields<'a> = &'a [(&'a str, &'a str)];

struct Pair {
    client: Party,
    server: Party,
    /// Bytes that are carried at once.
    piece: usize,
}

impl Pair {
    fn new(client: Limits, server: Limits, piece: usize) -> Self {
        Self {
            client: Party::new(Connection::client(client, Duration::ZERO)),
            server: Party::new(Connection::server(server, Duration::ZERO)),
            piece,
        }
    }

    /// Carries bytes both ways until there are none. Returns what was said on the way: by the client of what
    /// the server has sent, and by the server.
    fn carry(&mut self) -> (String, String) {
        let (mut of_client, mut of_server) = (Vec::new(), Vec::new());
        while !(self.client.connection.unwritten().is_empty()
            && self.server.connection.unwritten().is_empty())
        {
            of_server.push(carry(&mut self.client, &mut self.server, self.piece));
            of_client.push(carry(&mut self.server, &mut self.client, self.piece));
        }
        (joined(&of_client), joined(&of_server))
    }

    fn key(&self) -> Key {
        self.client.keys.last().unwrap().1
    }
}

fn joined(said: &[String]) -> String {
    said.iter().filter(|said| !said.is_empty()).map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn carry(from: &mut Party, to: &mut Party, piece: usize) -> String {
    let bytes = from.connection.unwritten();
    let bytes = bytes[..bytes.len().min(piece)].to_vec();
    from.connection.note_written(bytes.len());
    to.take(&bytes)
}

fn fields(fields: Fields<'_>) -> impl Iterator<Item = (crate::Known, &[u8], &[u8])> {
    fields.iter().map(|(name, value)| (crate::Known::of(name.as_bytes()), name.as_bytes(), value.as_bytes()))
}

const PIECES: [usize; 6] = [1, 2, 9, 100, 5000, usize::MAX];

/// Sends content as there is room, and carries it over.
fn send_all(pair: &mut Pair, by_client: bool, content: &[u8], is_end: bool) {
    let mut left = content;
    loop {
        let party = if by_client { &mut pair.client } else { &mut pair.server };
        let key = party.keys.last().unwrap().1;
        let len = party.connection.send(key, left, is_end).unwrap();
        left = &left[len..];
        if left.is_empty() {
            break;
        }
        pair.carry();
    }
    pair.carry();
}

#[test]
fn content_arrives_in_order_however_bytes_are_cut_and_windows_are() {
    let content: Vec<u8> = (0..150_000_u32).map(|at| (at / 251) as u8).collect();
    let small = Limits {
        stream_window_bytes: 1000,
        stream_window_bytes_max: 3000,
        unwritten_bytes_max: 2000,
        ..LIMITS
    };
    for piece in PIECES {
        for limits in [LIMITS, small] {
            let mut pair = Pair::new(limits, limits, piece);
            pair.client.open(false).unwrap();
            let (_, server) = pair.carry();
            assert!(server.ends_with("request 1"), "{server}");
            send_all(&mut pair, true, &content, true);
            pair.server.respond(1, 200, false);
            send_all(&mut pair, false, &content, false);
            let key = pair.server.key(1);
            pair.server.connection.send_trailers(key, fields(TRAILERS)).unwrap();
            assert_eq!(pair.carry(), ("trailers 1".to_owned(), String::new()), "{piece}");
            assert!(pair.server.content(1) == content && pair.client.content(1) == content, "{piece}");
            assert_eq!(
                (pair.client.connection.open_streams(), pair.server.connection.open_streams()),
                (0, 0)
            );
        }
    }
}

#[test]
fn heads_of_any_length_arrive_as_they_were() {
    let limits = Limits { head_bytes_max: 1 << 20, ..LIMITS };
    for len in [0, 100, 16_300, 16_384, 40_000, 100_000] {
        let long = "y".repeat(len);
        let more = [("x-first", "1"), ("x-long", long.as_str()), ("x-last", "2")];
        for piece in [100, usize::MAX] {
            let mut pair = Pair::new(limits, limits, piece);
            pair.client.open(true).unwrap();
            pair.carry();
            let key = pair.server.key(1);
            pair.server.connection.respond(key, 200, fields(&more), false).unwrap();
            pair.server.connection.send_trailers(key, fields(&more)).unwrap();
            assert_eq!(pair.carry().0, "response 1 200, trailers 1");
            assert_eq!(pair.client.lines, format!("x-first: 1\r\nx-long: {long}\r\nx-last: 2\r\n"));
        }
    }
}

#[test]
fn tables_of_any_size_stay_in_step() {
    for ours in [0, 50, 200, 4096, 10_000] {
        for theirs in [0, 50, 200, 4096, 10_000] {
            let (one, other) =
                (Limits { table_bytes_max: ours, ..LIMITS }, Limits { table_bytes_max: theirs, ..LIMITS });
            let mut pair = Pair::new(one, other, 64);
            for round in 0..30 {
                // The first blocks come before the settings.
                let value = format!("value-{}", round % 7);
                let head = RequestHead { method: b"GET", is_https: true, authority: b"a", path: b"/" };
                let more = [("x-a", value.as_str()), ("x-b", "always")];
                let key = pair.client.connection.open(head, fields(&more), true, true, ()).unwrap();
                pair.client.keys.push((2 * round + 1, key));
                let (_, server) = pair.carry();
                assert!(server.ends_with(&format!("request {} end", 2 * round + 1)), "{server}");
                let text = format!("x-a: {value}\r\nx-b: always\r\nte: trailers\r\n");
                assert!(pair.server.lines.contains(&text), "{ours} {theirs}: {}", pair.server.lines);
                let key = pair.server.keys.last().unwrap().1;
                pair.server.connection.respond(key, 200, fields(&more), true).unwrap();
                let (client, _) = pair.carry();
                assert!(client.ends_with("200 end"), "{client}");
                pair.server.connection.release(key);
                pair.client.connection.release(pair.key());
            }
        }
    }
}

#[test]
fn a_goodbye_lets_open_streams_end() {
    let mut pair = Pair::new(LIMITS, LIMITS, 7);
    pair.client.open(true).unwrap();
    pair.carry();
    pair.server.connection.shut_down();
    // It crosses the goodbye.
    pair.client.open(true).unwrap();
    let (client, server) = pair.carry();
    assert_eq!(client, "goaway, goaway");
    assert!(server.starts_with("request 3 end"), "{server}");
    for id in [1, 3] {
        pair.server.respond(id, 200, true);
        pair.server.connection.release(pair.server.key(id));
    }
    assert_eq!(pair.carry().0, "response 1 200 end, response 3 200 end");
    assert!(pair.server.connection.is_finished());
}
