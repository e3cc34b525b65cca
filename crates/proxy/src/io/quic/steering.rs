//! The filter by which the kernel selects the worker that gets a packet: a program of classic BPF on the
//! sockets that share an address (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)), which needs no capability.
//!
//! A packet with a short header goes to the worker that its connection id names, whatever address it comes
//! from. All others are spread by the client's address, as without the filter. It only saves work: a packet
//! that comes to another worker is handed over, so that a kernel may refuse the filter.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use libc::{
    BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_B, BPF_IMM, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD,
    BPF_LDX, BPF_LEN, BPF_MEM, BPF_MOD, BPF_MUL, BPF_RET, BPF_RSH, BPF_ST, BPF_W, BPF_X, sock_filter,
};

use super::ids::{BLOCK_BYTES, HASH_SHIFT, ID_BYTES, Ids};
use super::packet::MARK;
use crate::io::sys;

/// The sockets of each address, in the order in which the kernel has them.
#[derive(Default)]
pub(super) struct Groups(HashMap<SocketAddr, Vec<Member>>);

/// The socket of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    worker: u32,
    /// Its descriptor, for as long as the member is here; none until the worker has taken it over from the
    /// process before.
    number: Option<RawFd>,
}

impl Groups {
    /// Notes that a worker's socket has joined those of its address, and has the kernel use a filter for all
    /// of them.
    pub(super) fn join(&mut self, socket: &UdpSocket, worker: u32, ids: &Ids) -> io::Result<()> {
        let members = self.0.entry(socket.local_addr()?).or_default();
        members.push(Member { worker, number: Some(socket.as_raw_fd()) });
        let order: Vec<_> = members.iter().map(|member| member.worker).collect();
        if order.len() > 1
            && let Err(error) = sys::attach_reuse_port_filter(socket, &program(ids, &order))
        {
            tracing::debug!(%error, "the kernel selects no workers for QUIC; packets are handed over");
        }
        Ok(())
    }

    /// Notes a socket that has joined the sockets of another process, whose filter stays in use.
    pub(super) fn join_others(&mut self, socket: &UdpSocket, worker: u32) -> io::Result<()> {
        let members = self.0.entry(socket.local_addr()?).or_default();
        members.push(Member { worker, number: Some(socket.as_raw_fd()) });
        Ok(())
    }

    /// Notes that a worker has taken its socket over from the process before, whose sockets belonged to
    /// these workers. The filter of that process has the same keys, and stays in use.
    pub(super) fn adopt(
        &mut self,
        socket: &UdpSocket,
        worker: u32,
        order: impl Iterator<Item = u32>,
    ) -> io::Result<()> {
        let members = self.0.entry(socket.local_addr()?).or_default();
        if members.is_empty() {
            members.extend(order.map(|worker| Member { worker, number: None }));
        }
        if let Some(member) = members.iter_mut().find(|member| member.worker == worker) {
            member.number = Some(socket.as_raw_fd());
        }
        Ok(())
    }

    /// Copies of the sockets of all addresses where each worker has one, with the workers' numbers.
    pub(super) fn copies(&self, workers: u32) -> io::Result<Vec<(u32, OwnedFd)>> {
        let mut all = Vec::new();
        for members in self.0.values().filter(|members| members.len() == workers as usize) {
            let numbers: Option<Vec<_>> = members.iter().map(|member| member.number).collect();
            for (member, number) in members.iter().zip(numbers.into_iter().flatten()) {
                all.push((member.worker, sys::copy_descriptor(number)?));
            }
        }
        Ok(all)
    }

    /// Notes that a worker's socket is closed. The kernel puts the last one in its place.
    pub(super) fn leave(&mut self, address: SocketAddr, worker: u32) {
        let Some(order) = self.0.get_mut(&address) else { return };
        if let Some(at) = order.iter().position(|one| one.worker == worker) {
            order.swap_remove(at);
        }
        if order.is_empty() {
            self.0.remove(&address);
        }
    }
}

/// Where the encrypted block of a short header begins.
const BLOCK_AT: usize = 2;
/// An index of no socket: the kernel selects one by the addresses.
const NO_SOCKET: u32 = u32::MAX;

fn step(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Skips instructions where the comparison holds.
fn skip_if(compare: u32, k: u32, skipped: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | compare | BPF_K) as u16, jt: skipped, jf: 0, k }
}

/// The program; it reads the datagram from its first byte on. `order` has the worker of each socket.
fn program(ids: &Ids, order: &[u32]) -> Vec<sock_filter> {
    const LONG_HEADER: u32 = 0x80;
    let by_addresses = || step(BPF_RET | BPF_K, NO_SOCKET);
    let mut all = vec![
        step(BPF_LD | BPF_W | BPF_LEN, 0),
        skip_if(BPF_JGE, 1 + ID_BYTES as u32, 1),
        by_addresses(),
        step(BPF_LD | BPF_B | BPF_ABS, 0),
        sock_filter { code: (BPF_JMP | BPF_JSET | BPF_K) as u16, jt: 0, jf: 1, k: LONG_HEADER },
        by_addresses(),
        // A packet that another replica has forwarded.
        step(BPF_LD | BPF_B | BPF_ABS, 1),
        sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 0, jf: 1, k: MARK[1].into() },
        by_addresses(),
        step(BPF_LD | BPF_IMM, 0),
        step(BPF_ST, 0),
    ];
    for (at, by) in (BLOCK_AT..BLOCK_AT + BLOCK_BYTES).step_by(4).zip(ids.spread()) {
        all.extend([
            step(BPF_LD | BPF_W | BPF_ABS, at as u32),
            step(BPF_ALU | BPF_MUL | BPF_K, by),
            step(BPF_LDX | BPF_MEM, 0),
            step(BPF_ALU | BPF_ADD | BPF_X, 0),
            step(BPF_ST, 0),
        ]);
    }
    all.extend([step(BPF_ALU | BPF_RSH | BPF_K, HASH_SHIFT), step(BPF_ALU | BPF_MOD | BPF_K, ids.workers())]);
    let is_sorted = order.iter().zip(0..).all(|(worker, at)| *worker == at);
    if is_sorted && order.len() == ids.workers() as usize {
        all.push(step(BPF_RET | BPF_A, 0));
        return all;
    }
    // Of two sockets of one worker the later one counts.
    for (at, worker) in order.iter().enumerate().rev() {
        all.extend([
            sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 0, jf: 1, k: *worker },
            step(BPF_RET | BPF_K, at as u32),
        ]);
    }
    all.push(by_addresses());
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use quinn_proto::ConnectionIdGenerator;

    use super::super::ids::WorkerIds;
    use super::super::socket::bind;
    use super::*;

    fn ids(workers: u32) -> Arc<Ids> {
        Arc::new(Ids::new(&[7; 32], [9; BLOCK_BYTES], [1; 8], workers).unwrap())
    }

    /// Binds a socket for each of these workers, in this order.
    fn sockets(ids: &Ids, order: &[u32]) -> Vec<UdpSocket> {
        let mut address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut groups = Groups::default();
        let bound = order.iter().map(|worker| {
            let socket = bind(address, false).unwrap();
            address = socket.local_addr().unwrap();
            groups.join(&socket, *worker, ids).unwrap();
            socket.set_nonblocking(false).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket
        });
        bound.collect()
    }

    #[test]
    fn the_kernel_gives_a_packet_to_the_worker_that_its_id_names() {
        for order in [&[0, 1, 2, 3][..], &[2, 0, 3, 1], &[3, 2, 1, 0]] {
            let ids = ids(4);
            let sockets = sockets(&ids, order);
            let address = sockets[0].local_addr().unwrap();
            for (socket, worker) in sockets.iter().zip(order) {
                let mut ids = WorkerIds { ids: Arc::clone(&ids), worker: *worker, others: Arc::default() };
                for first in [0x40, 0x5f, 0x00] {
                    for _ in 0..8 {
                        let packet = [&[first][..], &ids.generate_cid(), &[7; 30]].concat();
                        // Each comes from another port.
                        let client = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
                        client.send_to(&packet, address).unwrap();
                        let mut received = [0; 100];
                        let len = socket.recv(&mut received).expect("the packet comes to its worker");
                        assert_eq!(received[..len], packet);
                    }
                }
            }
        }
    }

    #[test]
    fn other_packets_are_spread_by_their_addresses() {
        let ids = ids(2);
        let sockets = sockets(&ids, &[0, 1]);
        let address = sockets[0].local_addr().unwrap();
        let id = WorkerIds { ids, worker: 1, others: Arc::default() }.generate_cid();
        let long = [&[0xc0, 0, 0, 0, 1, ID_BYTES as u8][..], &id, &[0; 30]].concat();
        let forwarded = [&MARK[..], &[0; 100]].concat();
        for packet in [&long[..], &[0x40; 10], &forwarded] {
            let clients: Vec<_> = (0..32).map(|_| UdpSocket::bind(("127.0.0.1", 0)).unwrap()).collect();
            for client in &clients {
                client.send_to(packet, address).unwrap();
            }
            let mut counts = [0, 0];
            for (socket, count) in sockets.iter().zip(&mut counts) {
                socket.set_nonblocking(true).unwrap();
                while socket.recv(&mut [0; 200]).is_ok() {
                    *count += 1;
                }
            }
            // On loopback a datagram has come when it has been sent.
            assert_eq!(counts[0] + counts[1], 32);
            assert!(counts[0] > 2 && counts[1] > 2, "{counts:?}");
        }
    }

    #[test]
    fn a_group_follows_the_kernels_order() {
        let mut groups = Groups::default();
        let address = SocketAddr::from(([127, 0, 0, 1], 443));
        let member = |worker| Member { worker, number: None };
        groups.0.insert(address, [3, 0, 2, 1].map(member).to_vec());
        groups.leave(address, 3);
        assert_eq!(groups.0[&address], [1, 0, 2].map(member));
        (0..3).for_each(|worker| groups.leave(address, worker));
        assert!(groups.0.is_empty());
    }
}
