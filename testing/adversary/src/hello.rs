//! A `ClientHello` (RFC 8446 section 4.1.2), the same each time.

/// Asks for a name, by TLS 1.3 or 1.2: a record with the whole message.
pub fn client_hello(name: &str) -> Vec<u8> {
    let server_name = length(&[&[0], &length(name.as_bytes())[..]].concat());
    let suites = [0x13, 0x01, 0x13, 0x02, 0xc0, 0x2b, 0xc0, 0x2f];
    let algorithms = [0x04, 0x03, 0x08, 0x04, 0x08, 0x05, 0x04, 0x01, 0x06, 0x01];
    // Any 32 bytes are a share of X25519.
    let share = [&[0, 0x1d, 0, 32], &[9; 32][..]].concat();
    let extensions = [
        extension(0, &server_name),
        extension(10, &length(&[0, 0x1d, 0, 0x17])),
        extension(13, &length(&algorithms)),
        extension(43, &[4, 3, 4, 3, 3]),
        extension(45, &[1, 1]),
        extension(51, &length(&share)),
    ];
    let body = [
        &[3, 3],
        // The client's random number, and the session that it would like to go on with.
        &[7; 32][..],
        &[32],
        &[8; 32],
        &length(&suites),
        &[1, 0],
        &length(&extensions.concat()),
    ];
    let body = body.concat();
    let message = [&[1, 0], &length(&body)[..]].concat();
    [&[22, 3, 1], &length(&message)[..]].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &length(content)].concat()
}

/// With its length before it, in two bytes.
fn length(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u16).to_be_bytes()[..], content].concat()
}
