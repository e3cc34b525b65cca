//! GOAWAY (RFC 9113 section 6.8).

use super::*;

#[test]
fn a_server_announces_its_end_and_names_the_last_stream_after_the_answer() {
    let mut server = Party::server(LIMITS);
    server.play("HEADERS 1 end");
    server.connection.shut_down();
    server.connection.shut_down();
    assert_eq!(server.written(), "GOAWAY 2147483647 NO_ERROR, PING");
    assert!(!server.connection.is_finished());
    // Requests on the way are served.
    assert_eq!(server.play("HEADERS 3 end; PING ack"), "request 3 end, pong");
    assert_eq!(server.written(), "GOAWAY 3 NO_ERROR");
    assert_eq!(server.play("HEADERS 5; DATA 5 10; TRAILERS 5; HEADERS 7 end; RST_STREAM 7"), "");
    assert_eq!(server.written(), "", "streams after the last are ignored");
    for id in [1, 3] {
        assert!(!server.connection.is_finished());
        server.respond(id, 200, true);
        server.connection.release(server.key(id));
    }
    assert!(server.connection.is_finished());
}

#[test]
fn a_ping_that_others_answer_is_no_goodbye() {
    let mut server = Party::server(LIMITS);
    assert_eq!(server.play("PING ack"), "pong");
    server.connection.ping(*b"measured");
    server.connection.shut_down();
    let mut answer = Vec::new();
    frame::write(kind::PING, flag::ACK, 0, b"measured", &mut answer);
    assert_eq!(server.take(&answer), "pong");
    assert_eq!(server.written(), "PING, GOAWAY 2147483647 NO_ERROR, PING");
}

#[test]
fn content_of_streams_after_the_last_is_granted_again() {
    let mut server = Party::server(LIMITS);
    server.connection.shut_down();
    server.play("PING ack");
    server.written();
    for id in (1..200).step_by(2) {
        assert_eq!(server.play(&format!("HEADERS {id}; DATA {id} 16000 pad=9")), "");
    }
    assert!(server.written().starts_with("WINDOW_UPDATE 0 "));
}

#[test]
fn streams_above_the_peers_last_are_unprocessed() {
    for (last, code_number, unprocessed) in
        [(5, 0, &[][..]), (3, 0, &[5]), (1, 11, &[3, 5]), (0, 0, &[1, 3, 5])]
    {
        let mut client = Party::client(LIMITS);
        for _ in 0..3 {
            client.open(false).unwrap();
        }
        assert_eq!(client.play(&format!("GOAWAY {last} {code_number}")), "goaway");
        for id in [1, 3, 5] {
            let key = client.key(id);
            let reset = client.connection.reset_of(key);
            assert_eq!(
                reset.is_some_and(|reset| reset.is_unprocessed),
                unprocessed.contains(&id),
                "{last} {id}"
            );
            assert_eq!(client.connection.may_send(key), !unprocessed.contains(&id));
            if let Some(reset) = reset {
                assert_eq!((reset.by, reset.code), (Side::Peer, Code(code_number)));
            }
        }
        client.written();
        // They are let go without a word to the peer.
        for id in unprocessed {
            client.connection.release(client.key(*id));
        }
        assert_eq!(client.written(), "");
    }
}

#[test]
fn no_stream_is_opened_after_a_goodbye_of_either_side() {
    let mut client = Party::client(LIMITS);
    client.open(true).unwrap();
    assert_eq!(client.play("GOAWAY 2147483647 0"), "goaway");
    assert_eq!(client.open(true), Err(Gone));
    // Responses to requests before it still come, and a second GOAWAY.
    assert_eq!(client.play("HEADERS 1 end; GOAWAY 1 0"), "response 1 200 end, goaway");

    let mut client = Party::client(LIMITS);
    client.connection.shut_down();
    assert_eq!(client.open(true), Err(Gone));
    assert_eq!(Party::server(LIMITS).open(true), Err(Gone));
}

#[test]
fn an_abort_names_the_last_stream_and_the_reason() {
    let mut server = Party::server(LIMITS);
    server.play("HEADERS 1 end; HEADERS 7 end");
    server.connection.abort(Code::ENHANCE_YOUR_CALM);
    assert_eq!(server.written(), "GOAWAY 7 ENHANCE_YOUR_CALM");
    assert_eq!(server.play("HEADERS 9 end"), "");
}

#[test]
fn a_client_may_say_goodbye_and_get_the_rest() {
    let mut server = Party::server(LIMITS);
    assert_eq!(server.play("HEADERS 1; GOAWAY 0 0; DATA 1 5 end"), "request 1, goaway, data 1 5 end");
    server.respond(1, 200, true);
    assert_eq!(server.written(), "HEADERS 1 end");
}
