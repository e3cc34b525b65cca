//! A server of names that says what a tenant wants to be believed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::Random;

/// The addresses of a name, by how many questions came before.
type Answer = dyn Fn(&str, u64) -> Vec<IpAddr> + Send + Sync;

/// It answers until it is dropped.
#[derive(Debug)]
pub struct NameServer {
    address: IpAddr,
    shared: Arc<Shared>,
    answering: Option<JoinHandle<()>>,
}

struct Shared {
    socket: UdpSocket,
    answer: Box<Answer>,
    questions: AtomicU64,
    is_over: AtomicBool,
}

/// Resolvers ask nowhere else.
const PORT: u16 = 53;
const HEAD_BYTES: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("questions", &self.questions).finish_non_exhaustive()
    }
}

impl NameServer {
    /// Listens at a loopback address with random numbers, since the port is always the same. An error where
    /// this user may not have it.
    pub fn start(
        random: &mut Random,
        answer: impl Fn(&str, u64) -> Vec<IpAddr> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let [a, b, c, ..] = random.number().wrapping_add(u64::from(std::process::id())).to_be_bytes();
        let address = Ipv4Addr::new(127, 1 + a % 254, b, 1 + c % 254);
        let socket = UdpSocket::bind((address, PORT))?;
        let (questions, is_over) = Default::default();
        let shared = Arc::new(Shared { socket, answer: Box::new(answer), questions, is_over });
        let for_thread = Arc::clone(&shared);
        let answering = Some(std::thread::spawn(move || for_thread.answer()));
        Ok(Self { address: address.into(), shared, answering })
    }

    /// The contents of a `resolv.conf` that names this server.
    pub fn resolv_conf(&self) -> String {
        format!("nameserver {}\noptions ndots:1 timeout:1 attempts:2\n", self.address)
    }

    /// Questions so far.
    pub fn questions(&self) -> u64 {
        self.shared.questions.load(Ordering::SeqCst)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread.
        if let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) {
            let _ = socket.send_to(&[], SocketAddr::new(self.address, PORT));
        }
        if let Some(thread) = self.answering.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn answer(&self) {
        let mut datagram = [0; 512];
        while let Ok((len, peer)) = self.socket.recv_from(&mut datagram) {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            if let Some(reply) = self.reply(&datagram[..len]) {
                let _ = self.socket.send_to(&reply, peer);
            }
        }
    }

    /// RFC 1035 section 4.1, for one question.
    fn reply(&self, query: &[u8]) -> Option<Vec<u8>> {
        let (name, end) = question_name(query)?;
        let kind = u16::from_be_bytes([*query.get(end)?, *query.get(end + 1)?]);
        let before = self.questions.fetch_add(1, Ordering::SeqCst);
        let addresses = (self.answer)(&name, before).into_iter().filter_map(|address| match address {
            IpAddr::V4(address) if kind == TYPE_A => Some(address.octets().to_vec()),
            IpAddr::V6(address) if kind == TYPE_AAAA => Some(address.octets().to_vec()),
            _ => None,
        });
        let addresses: Vec<Vec<u8>> = addresses.collect();
        let question = query.get(HEAD_BYTES..end + 4)?;
        // A response, recursion available, no error; one question, so many answers.
        let mut reply =
            [&query[..2], &[0x81, 0x80, 0, 1, 0, addresses.len() as u8, 0, 0, 0, 0], question].concat();
        for address in addresses {
            // The name of the question, class IN, to be kept for a second.
            reply.extend(
                [
                    &[0xc0, HEAD_BYTES as u8],
                    &kind.to_be_bytes()[..],
                    &[0, 1, 0, 0, 0, 1, 0, address.len() as u8],
                    &address,
                ]
                .concat(),
            );
        }
        Some(reply)
    }
}

/// The name in lower case, and where it ends.
fn question_name(query: &[u8]) -> Option<(String, usize)> {
    let (mut labels, mut at) = (Vec::new(), HEAD_BYTES);
    loop {
        let len = usize::from(*query.get(at)?);
        let label = query.get(at + 1..at + 1 + len)?;
        at += 1 + len;
        if len == 0 {
            return Some((labels.join("."), at));
        }
        labels.push(String::from_utf8_lossy(label).to_lowercase());
    }
}
