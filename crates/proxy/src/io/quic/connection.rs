//! One connection: the packets that it receives and sends, and its timers.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use clock::Moment;
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, Dir, EcnCodepoint, EndpointEvent, Event, Transmit, VarInt,
};
use reactor::Timer;

use super::congestion;
use super::endpoint::Endpoint;
use super::send_window::{AllSendWindows, SendWindow};
use crate::io::wakers::remember;
use crate::limits::{
    QUIC_DATAGRAM_OVERHEAD, QUIC_DATAGRAMS_PER_SEND_MAX, QUIC_DATAGRAMS_SENT_PER_TURN_MAX, QUIC_MOVES_MAX,
    QUIC_MOVES_MEMORY, QUIC_SENDS_AHEAD, QUIC_SUSPECT_PACKETS_MAX, QUIC_SUSPECT_PACKETS_OF_ALL_MAX,
    QUIC_TIMER_LATE_MIN,
};

/// A connection. Its driver is the task that polls it; other tasks use its streams and wake the driver.
pub(crate) struct Connection {
    endpoint: Rc<Endpoint>,
    handle: ConnectionHandle,
    quinn: RefCell<quinn_proto::Connection>,
    driver: RefCell<Option<Waker>>,
    /// The timer that is set, and when it is due.
    timer: RefCell<Option<(Instant, Timer)>>,
    /// The timer is late, and packets that wait in the socket are read first.
    is_timer_put_off: Cell<bool>,
    /// Datagrams that the socket has not taken.
    unsent: RefCell<Option<(Transmit, Vec<u8>)>>,
    send_window: SendWindow,
    /// Bytes that were written since the driver has last sent all that may be sent.
    written: Cell<usize>,
    /// The client is suspected of a flood: packets wait for the driver's turn.
    is_suspect: Cell<bool>,
    /// The driver runs behind other work.
    is_late: Cell<bool>,
    /// Packets that wait for the driver then.
    held: RefCell<VecDeque<ConnectionEvent>>,
    moves: RefCell<Moves>,
    is_drained: Cell<bool>,
    /// The last packet of a connection that has ended, once it is sent.
    farewell: RefCell<Option<Rc<Farewell>>>,
}

/// A packet that ends the connection.
pub(super) struct Farewell {
    pub(super) bytes: Vec<u8>,
    ecn: Option<EcnCodepoint>,
    src_ip: Option<IpAddr>,
}

/// The address of the client, and how often it has changed of late.
struct Moves {
    address: SocketAddr,
    count: u32,
    since: Moment,
}

/// Least time for a goodbye: clocks of clients are coarse, and their threads may be busy.
const GOODBYE_TIME_MIN: Duration = Duration::from_millis(200);

impl Connection {
    pub(super) fn new(
        endpoint: Rc<Endpoint>,
        handle: ConnectionHandle,
        quinn: quinn_proto::Connection,
        windows: AllSendWindows,
    ) -> Rc<Self> {
        let moves = Moves { address: quinn.remote_address(), count: 0, since: Moment::BEGIN };
        Rc::new(Self {
            endpoint,
            handle,
            quinn: RefCell::new(quinn),
            driver: RefCell::default(),
            timer: RefCell::default(),
            is_timer_put_off: Cell::new(false),
            unsent: RefCell::default(),
            send_window: SendWindow::new(windows),
            written: Cell::new(0),
            is_suspect: Cell::new(false),
            is_late: Cell::new(false),
            held: RefCell::default(),
            moves: RefCell::new(moves),
            is_drained: Cell::new(false),
            farewell: RefCell::default(),
        })
    }

    /// The address that the client has connected to.
    pub(crate) fn local(&self) -> SocketAddr {
        let local = self.endpoint.local();
        let ip = self.quinn.borrow().local_ip().unwrap_or(local.ip());
        SocketAddr::new(ip.to_canonical(), local.port())
    }

    /// The time within which a client has read what it was sent last, unless it was lost.
    pub(crate) fn goodbye_time(&self) -> Duration {
        (3 * self.quinn.borrow().rtt()).max(GOODBYE_TIME_MIN)
    }

    /// The number of the packet that was sent last.
    pub(crate) fn last_sent(&self) -> u64 {
        congestion::last_sent(&self.quinn.borrow())
    }

    /// Whether the client has all that was sent since that packet.
    pub(crate) fn is_acknowledged_after(&self, number: u64) -> bool {
        congestion::is_acknowledged_after(&self.quinn.borrow(), number)
    }

    /// The packet that tells a client of the end, if the connection has ended and a packet of so many bytes
    /// comes from another address than the one that was told (RFC 9000 section 10.2.1: at most three times
    /// as many bytes).
    pub(super) fn farewell_to(&self, from: SocketAddr, received_bytes: usize) -> Option<Rc<Farewell>> {
        let farewell = self.farewell.borrow().clone()?;
        let is_elsewhere = self.quinn.borrow().remote_address() != from;
        (is_elsewhere && farewell.bytes.len() <= 3 * received_bytes).then_some(farewell)
    }

    pub(super) fn receive(&self, event: ConnectionEvent) {
        if !self.is_suspect.get() {
            return self.with(|quinn| quinn.handle_event(event));
        }
        let mut held = self.held.borrow_mut();
        // Packets for which there is no room are lost, as on a network that has too much to carry.
        let of_all = self.endpoint.suspect_packets();
        if held.len() < QUIC_SUSPECT_PACKETS_MAX && of_all.get() < QUIC_SUSPECT_PACKETS_OF_ALL_MAX {
            of_all.set(of_all.get() + 1);
            held.push_back(event);
        }
        self.wake_driver();
    }

    /// Has the driver run behind all other work of the worker while its client is suspected of a flood, or
    /// changes its address often: packets are then decrypted in the driver's turn too. A driver that sends
    /// much beside many others runs behind other work as well.
    pub(crate) fn set_suspect(&self, cx: &Context<'_>, is_suspect: bool, now: Moment) {
        let address = self.quinn.borrow().remote_address();
        let is_suspect = self.moves.borrow_mut().are_many(address, now) || is_suspect;
        self.is_suspect.set(is_suspect);
        let is_late = is_suspect || self.send_window.is_short();
        if self.is_late.replace(is_late) != is_late {
            reactor::set_late(cx, is_late);
        }
    }

    /// Whether the driver runs behind other work, as those who write to the connection should.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late.get()
    }

    /// Bytes that may be written before the driver has sent what was written before.
    pub(crate) fn room_ahead(&self) -> usize {
        let content = usize::from(self.quinn.borrow().current_mtu()).saturating_sub(QUIC_DATAGRAM_OVERHEAD);
        let ahead_max = content * self.datagrams_per_send() * QUIC_SENDS_AHEAD;
        ahead_max.saturating_sub(self.written.get())
    }

    pub(crate) fn note_written(&self, len: usize) {
        self.written.set(self.written.get() + len);
    }

    fn datagrams_per_send(&self) -> usize {
        self.endpoint.datagrams_per_send().min(QUIC_DATAGRAMS_PER_SEND_MAX)
    }

    /// Gives the connection the packets that have waited.
    fn take_held(&self) {
        let held = std::mem::take(&mut *self.held.borrow_mut());
        self.note_released(held.len());
        let mut quinn = self.quinn.borrow_mut();
        for event in held {
            quinn.handle_event(event);
        }
    }

    fn note_released(&self, count: usize) {
        let of_all = self.endpoint.suspect_packets();
        of_all.set(of_all.get() - count);
    }

    /// Calls a function with the connection's state. The driver then sends what is to be sent.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut quinn_proto::Connection) -> R) -> R {
        let result = act(&mut self.quinn.borrow_mut());
        self.wake_driver();
        result
    }

    /// The same for what changes nothing that has to be sent.
    pub(crate) fn look<R>(&self, act: impl FnOnce(&mut quinn_proto::Connection) -> R) -> R {
        act(&mut self.quinn.borrow_mut())
    }

    /// Lets the client have so many request streams open from now on.
    pub(crate) fn allow_streams(&self, count: u32) {
        self.with(|quinn| quinn.set_max_concurrent_streams(Dir::Bi, VarInt::from_u32(count)));
    }

    /// Has the driver polled.
    pub(crate) fn wake_driver(&self) {
        if let Some(driver) = &*self.driver.borrow() {
            driver.wake_by_ref();
        }
    }

    /// Whether nothing more will be said on either side.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_drained.get()
    }

    /// Receives, sends and keeps the timers, until there is an event. It never ends by itself: an event says
    /// that the connection is lost. `own_streams` is the number of streams that stay open for sending.
    pub(crate) fn poll_event(&self, cx: &mut Context<'_>, own_streams: usize) -> Poll<Event> {
        remember(&mut self.driver.borrow_mut(), cx);
        self.take_held();
        self.follow_window(own_streams);
        loop {
            self.exchange();
            let event = self.quinn.borrow_mut().poll();
            if let Some(event) = event {
                return Poll::Ready(event);
            }
            self.send(cx);
            self.exchange();
            if self.is_drained.get() || !self.fire_timer(cx) {
                return Poll::Pending;
            }
        }
    }

    fn follow_window(&self, own_streams: usize) {
        let mut quinn = self.quinn.borrow_mut();
        let is_sending = quinn.streams().send_streams() > own_streams;
        let congestion_window = quinn.congestion_state().window();
        if let Some(window) = self.send_window.follow(congestion_window, is_sending) {
            quinn.set_send_window(window);
        }
    }

    /// Tells the endpoint what it has to know.
    fn exchange(&self) {
        let mut quinn = self.quinn.borrow_mut();
        while let Some(event) = quinn.poll_endpoint_events() {
            if event.is_drained() {
                self.is_drained.set(true);
            }
            if let Some(answer) = self.endpoint.note(self.handle, event) {
                quinn.handle_event(answer);
            }
        }
    }

    fn send(&self, cx: &Context<'_>) {
        if let Some((transmit, bytes)) = self.unsent.take()
            && !self.endpoint.send(&transmit, &bytes, cx.waker())
        {
            *self.unsent.borrow_mut() = Some((transmit, bytes));
            return;
        }
        let now = clock::instant();
        let datagrams_max = self.datagrams_per_send();
        let mut scratch = self.endpoint.scratch().borrow_mut();
        let mut quinn = self.quinn.borrow_mut();
        let mut sent = 0;
        while sent < QUIC_DATAGRAMS_SENT_PER_TURN_MAX {
            scratch.clear();
            let Some(transmit) = quinn.poll_transmit(now, datagrams_max, &mut scratch) else {
                self.written.set(0);
                return;
            };
            if !self.endpoint.send(&transmit, &scratch, cx.waker()) {
                *self.unsent.borrow_mut() = Some((transmit, scratch.clone()));
                return;
            }
            if quinn.is_closed() {
                let Transmit { ecn, src_ip, .. } = transmit;
                let bytes = scratch[..transmit.size].to_vec();
                *self.farewell.borrow_mut() = Some(Rc::new(Farewell { bytes, ecn, src_ip }));
            }
            sent += transmit.size.div_ceil(transmit.segment_size.unwrap_or(transmit.size).max(1));
        }
        // Other connections are served before there is more, and the sockets are polled.
        reactor::wake_after_poll(cx);
    }

    /// Sets the timer. True if it was due, and there may be more to do.
    fn fire_timer(&self, cx: &mut Context<'_>) -> bool {
        let due = self.quinn.borrow_mut().poll_timeout();
        let mut timer = self.timer.borrow_mut();
        let Some(due) = due else {
            *timer = None;
            return false;
        };
        let now = clock::instant();
        if due > now {
            self.is_timer_put_off.set(false);
            // One that ends too soon is set again then: most are put off by each packet.
            let is_late = timer.as_ref().is_none_or(|(set, _)| *set > due);
            if is_late {
                *timer = Some((due, Timer::after(due - now)));
            }
            let is_over = timer.as_mut().is_some_and(|(_, sleep)| Pin::new(sleep).poll(cx).is_ready());
            if is_over {
                *timer = None;
            }
            return is_over;
        }
        // A worker that got no CPU sees its timers first, and then the packets that have come meanwhile: the
        // client would be taken for gone whose packet is there.
        if now - due > QUIC_TIMER_LATE_MIN && !self.is_timer_put_off.replace(true) {
            reactor::wake_after_poll(cx);
            return false;
        }
        self.is_timer_put_off.set(false);
        *timer = None;
        self.quinn.borrow_mut().handle_timeout(now);
        true
    }
}

impl Farewell {
    pub(super) fn transmit(&self, destination: SocketAddr) -> Transmit {
        let Self { bytes, ecn, src_ip } = self;
        Transmit { destination, ecn: *ecn, size: bytes.len(), segment_size: None, src_ip: *src_ip }
    }
}

impl Moves {
    /// Notes the address. Returns whether it has changed often of late.
    fn are_many(&mut self, address: SocketAddr, now: Moment) -> bool {
        if address != self.address {
            self.address = address;
            if now.since(self.since) > QUIC_MOVES_MEMORY {
                self.since = now;
                self.count = 0;
            }
            self.count += 1;
        }
        self.count > QUIC_MOVES_MAX && now.since(self.since) <= QUIC_MOVES_MEMORY
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.note_released(self.held.borrow().len());
        if !self.is_drained.get() {
            self.endpoint.note(self.handle, EndpointEvent::drained());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_changes_its_address_often_is_suspected_for_a_while() {
        let address = |number: u32| SocketAddr::from(([10, 0, 0, 1], number as u16));
        let begin = Moment::BEGIN.after(Duration::from_secs(100));
        let mut moves = Moves { address: address(0), count: 0, since: Moment::BEGIN };
        assert!((1..=QUIC_MOVES_MAX).all(|number| !moves.are_many(address(number), begin)));
        assert!(!moves.are_many(address(QUIC_MOVES_MAX), begin), "it has not changed");
        assert!(moves.are_many(address(0), begin) && moves.are_many(address(0), begin));
        let later = begin.after(QUIC_MOVES_MEMORY + Duration::from_millis(1));
        assert!(!moves.are_many(address(0), later) && !moves.are_many(address(1), later));
        assert_eq!(moves.count, 1);
    }
}
