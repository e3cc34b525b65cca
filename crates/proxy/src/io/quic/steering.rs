//! The filter by which the kernel selects the worker that gets a packet: a program of classic BPF on the
//! sockets that share an address (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)), which needs no capability.
//!
//! A packet with a short header goes to the worker that its connection id names, whatever address it comes
//! from. All others are spread by the client's address, as without the filter. It only saves work: a packet
//! that comes to another worker is handed over, so that a kernel may refuse the filter.
//!
//! In an upgrade that changes the number of workers, the sockets stay as they are: a worker may read several
//! of them, and further ones join for further workers.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

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
        attach(socket, ids, members);
        Ok(())
    }

    /// Notes a socket that has joined the sockets of another process, whose filter stays in use.
    pub(super) fn join_others(&mut self, socket: &UdpSocket, worker: u32) -> io::Result<()> {
        let members = self.0.entry(socket.local_addr()?).or_default();
        members.push(Member { worker, number: Some(socket.as_raw_fd()) });
        Ok(())
    }

    /// Notes the sockets of an address that come from the process before, by the workers that take them over,
    /// and has the kernel use a filter for these; `any` is one of the sockets. Nothing happens if they are
    /// noted already.
    pub(super) fn inherit(
        &mut self,
        address: SocketAddr,
        any: &UdpSocket,
        workers: impl Iterator<Item = u32>,
        ids: &Ids,
    ) {
        let members = self.0.entry(address).or_default();
        if members.is_empty() {
            members.extend(workers.map(|worker| Member { worker, number: None }));
            attach(any, ids, members);
        }
    }

    /// Notes that a worker has taken over the socket at a place among those that were inherited.
    pub(super) fn adopt(&mut self, address: SocketAddr, place: usize, socket: &UdpSocket) {
        if let Some(member) = self.0.get_mut(&address).and_then(|members| members.get_mut(place)) {
            member.number = Some(socket.as_raw_fd());
        }
    }

    /// Has the kernel use the filters of this process again, after another one has used its own for the same
    /// sockets.
    pub(super) fn restore(&self, ids: &Ids) {
        for members in self.0.values() {
            let number = members.iter().find_map(|member| member.number);
            if let Some(Ok(socket)) = number.map(sys::copy_descriptor) {
                attach(&socket, ids, members);
            }
        }
    }

    /// Copies of the sockets of all addresses where each worker has one, with the workers' numbers.
    pub(super) fn copies(&self, workers: u32) -> io::Result<Vec<(u32, OwnedFd)>> {
        let mut all = Vec::new();
        let is_whole = |members: &&Vec<Member>| {
            let has_socket = |worker| members.iter().any(|member| member.worker == worker);
            members.iter().all(|member| member.number.is_some()) && (0..workers).all(has_socket)
        };
        for member in self.0.values().filter(is_whole).flatten() {
            if let Some(number) = member.number {
                all.push((member.worker, sys::copy_descriptor(number)?));
            }
        }
        Ok(all)
    }

    /// Notes that these sockets are closed, in this order. The kernel puts the last one in the place of each.
    pub(super) fn leave(&mut self, address: SocketAddr, sockets: impl Iterator<Item = RawFd>) {
        let Some(order) = self.0.get_mut(&address) else { return };
        for socket in sockets {
            if let Some(at) = order.iter().position(|one| one.number == Some(socket)) {
                order.swap_remove(at);
            }
        }
        if order.is_empty() {
            self.0.remove(&address);
        }
    }
}

/// Has the kernel use a filter for the sockets of an address, of which `socket` is one.
fn attach(socket: &impl AsFd, ids: &Ids, members: &[Member]) {
    let order: Vec<_> = members.iter().map(|member| member.worker).collect();
    if order.len() > 1
        && let Err(error) = sys::attach_reuse_port_filter(socket, &program(ids, &order))
    {
        tracing::debug!(%error, "the kernel selects no workers for QUIC; packets are handed over");
    }
}

/// The workers that take over the sockets of another process, whose workers had these numbers, in their
/// order. As many as possible keep their worker; the others go to the workers that have the fewest.
pub(super) fn shared_out(before: &[u32], workers: u32) -> Vec<u32> {
    let mut counts = vec![0_usize; workers.max(1) as usize];
    let mut take = |worker: u32| {
        counts[worker as usize] += 1;
        worker
    };
    let mut is_kept = vec![false; workers.max(1) as usize];
    let keep = |worker: u32| {
        let is_free = is_kept.get_mut(worker as usize).is_some_and(|kept| !std::mem::replace(kept, true));
        is_free.then(|| take(worker))
    };
    let kept: Vec<_> = before.iter().copied().map(keep).collect();
    let give = |kept: Option<u32>| {
        kept.unwrap_or_else(|| {
            let fewest = (0..).zip(&counts).min_by_key(|(_, count)| **count).map_or(0, |(worker, _)| worker);
            counts[fewest as usize] += 1;
            fewest
        })
    };
    kept.into_iter().map(give).collect()
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
        sockets_in(&mut Groups::default(), ids, order, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// The same at an address, beside the sockets that are there.
    fn sockets_in(groups: &mut Groups, ids: &Ids, order: &[u32], mut address: SocketAddr) -> Vec<UdpSocket> {
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
        let member = |worker: u32| Member { worker, number: Some(worker.cast_signed()) };
        groups.0.insert(address, [3, 0, 2, 1].map(member).to_vec());
        groups.leave(address, [3, 9].into_iter());
        assert_eq!(groups.0[&address], [1, 0, 2].map(member));
        groups.leave(address, 0..3);
        assert!(groups.0.is_empty());
    }

    #[test]
    fn sockets_of_another_number_of_workers_are_shared_out() {
        for (before, workers, after) in [
            (&[0, 1, 2, 3][..], 4, &[0, 1, 2, 3][..]),
            (&[2, 0, 1], 3, &[2, 0, 1]),
            (&[0, 1, 2, 3], 2, &[0, 1, 0, 1]),
            (&[3, 2, 1, 0], 1, &[0, 0, 0, 0]),
            (&[0, 1, 0, 1], 4, &[0, 1, 2, 3]),
            (&[1, 0], 3, &[1, 0]),
            (&[], 2, &[]),
        ] {
            assert_eq!(shared_out(before, workers), after, "{before:?} for {workers}");
        }
    }

    /// A process with two workers hands its sockets to one with `workers`, whose filter selects them, and
    /// gets its own filter back.
    fn hand_over(workers: u32) {
        let (before, after) = (ids(2), ids(workers));
        let mut of_before = Groups::default();
        let mut all = sockets_in(&mut of_before, &before, &[1, 0], SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = all[0].local_addr().unwrap();
        let order = shared_out(&[1, 0], workers);
        let mut of_after = Groups::default();
        of_after.inherit(address, &all[0], order.iter().copied(), &after);
        let further: Vec<_> = (order.len() as u32..workers).collect();
        all.extend(sockets_in(&mut of_after, &after, &further, address));
        let order: Vec<_> = order.into_iter().chain(further).collect();
        let read = |ids: &Arc<Ids>, worker: u32, order: &[u32]| {
            let mut generator = WorkerIds { ids: Arc::clone(ids), worker, others: Arc::default() };
            let packet = [&[0x40][..], &generator.generate_cid(), &[7; 30]].concat();
            let client = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
            client.send_to(&packet, address).unwrap();
            // On loopback a datagram has come when it has been sent.
            let mut receivers = all.iter().zip(order).filter(|(socket, _)| {
                socket.set_nonblocking(true).unwrap();
                socket.recv(&mut [0; 100]).is_ok()
            });
            receivers.next().map(|(_, worker)| *worker)
        };
        for worker in (0..workers).cycle().take(16) {
            assert_eq!(read(&after, worker, &order), Some(worker), "of {workers}");
        }
        of_before.restore(&before);
        for worker in (0..2).cycle().take(16) {
            assert_eq!(read(&before, worker, &[1, 0]), Some(worker), "after {workers}");
        }
    }

    #[test]
    fn the_filter_follows_the_number_of_workers() {
        for workers in [1, 2, 3, 5] {
            hand_over(workers);
        }
    }
}
