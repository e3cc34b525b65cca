//! A name server that knows a few IPv4 addresses (RFC 1035).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Type and class of an address, as a question and an answer have them: A, IN.
const ADDRESS: [u8; 4] = [0, 1, 0, 1];

/// Answers for as long as the process lives: these names have these addresses, no other name has any. `at`
/// must be an address of this network, and its port 53 must be free: for tests in a network of their own.
pub fn serve_names(at: IpAddr, names: BTreeMap<String, Vec<Ipv4Addr>>) {
    serve_names_while(at, names, Arc::new(AtomicBool::new(true)));
}

/// The same by a server that is silent while a flag is false.
pub fn serve_names_while(at: IpAddr, names: BTreeMap<String, Vec<Ipv4Addr>>, answers: Arc<AtomicBool>) {
    let socket = UdpSocket::bind((at, 53)).expect("port 53 of a network of one's own");
    std::thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((bytes, peer)) = socket.recv_from(&mut query) {
            if !answers.load(Ordering::Relaxed) {
                continue;
            }
            if let Some(answer) = answer(&query[..bytes], &names) {
                let _ = socket.send_to(&answer, peer);
            }
        }
    });
}

fn answer(query: &[u8], names: &BTreeMap<String, Vec<Ipv4Addr>>) -> Option<Vec<u8>> {
    let (name, end) = name(query)?;
    let question = query.get(12..end + 4)?;
    let known = names.get(&name);
    let addresses = known.filter(|_| question.ends_with(&ADDRESS)).map_or(&[][..], Vec::as_slice);
    // An answer of authority; 3 is "no such name".
    let code = if known.is_some() { 0 } else { 3 };
    let mut answer =
        vec![query[0], query[1], 0x84, code, 0, 1, 0, u8::try_from(addresses.len()).ok()?, 0, 0, 0, 0];
    answer.extend_from_slice(question);
    for address in addresses {
        // The name is that of the question, the answer holds for a minute and is four bytes long.
        answer.extend_from_slice(&[0xc0, 12]);
        answer.extend_from_slice(&ADDRESS);
        answer.extend_from_slice(&[0, 0, 0, 60, 0, 4]);
        answer.extend_from_slice(&address.octets());
    }
    Some(answer)
}

/// The queried name, and where it ends.
fn name(query: &[u8]) -> Option<(String, usize)> {
    let (mut labels, mut at) = (Vec::new(), 12);
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        let label = query.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += length;
    }
}
