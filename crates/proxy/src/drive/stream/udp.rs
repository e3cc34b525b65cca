//! UDP services: a client's datagrams go to one endpoint for as long as its session lasts, and the
//! endpoint's back to it.
//!
//! As with nginx, a session ends when the expected number of responses has arrived, or after an idle
//! timeout; the next datagram begins another. A datagram that cannot be sent at once is lost, as datagrams
//! are.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Poll;
use std::time::Duration;

use clock::Moment;
use model::ListenerId;
use observe::{Failure, Reason, StreamCounter};
use reactor::{Interest, JoinHandle, UdpSocket};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::Notify;

use super::Target;
use super::record::{Outcome, Tracked};
use crate::body::tunnel::{Side, TunnelObserver};
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::listening::bind_all;
use crate::io::sys::{self, Datagram};
use crate::limits::{ACCEPT_RETRY_DELAY, DATAGRAM_BYTES_MAX, ENDED_SESSIONS_MAX, UDP_FAILURE_MEMORY};
use crate::upstream::Endpoint;
use crate::worker::{OpenSession, Worker};

/// A socket that receives datagrams, and the task that reads them.
pub(crate) struct PortListener {
    port: Rc<Port>,
    receiving: JoinHandle<()>,
}

/// State shared by the sessions of a port.
struct Port {
    worker: Rc<Worker>,
    target: Rc<Target>,
    socket: UdpSocket,
    by_client: RefCell<HashMap<SocketAddr, Rc<Session>>>,
    ages: Rc<Ages>,
    /// Buffer for endpoints' datagrams, empty between two of them.
    scratch: RefCell<Box<[u8]>>,
    is_closing: Cell<bool>,
    /// Notified when the port closes or a session ends.
    changed: Notify,
}

/// The sessions of all ports of a worker by age: the one to evict is found without a search through all of
/// them. Sessions without a response are evicted first: a client with spoofed addresses has no others.
#[derive(Default)]
pub(crate) struct Ages {
    unanswered: RefCell<Queue>,
    answered: RefCell<Queue>,
}

/// Each session once, with a time since which it may have been active.
type Queue = VecDeque<(Moment, Weak<Session>)>;

struct Session {
    port: Weak<Port>,
    /// Address as the socket reports it: IPv4 clients of a socket for both families are mapped.
    client: SocketAddr,
    /// The address that the client sends to.
    local: Option<IpAddr>,
    endpoint: Rc<Endpoint>,
    upstream: UdpSocket,
    idle: Duration,
    /// Expected responses to each of the client's datagrams.
    responses: Option<u32>,
    tracked: Tracked,
    asked: Cell<u64>,
    answered: Cell<u64>,
    /// Bytes received from the client.
    received: Cell<u64>,
    /// Bytes sent to the client.
    sent: Cell<u64>,
    last: Cell<Moment>,
    deadline: Deadline,
    /// The endpoint refused a datagram.
    has_failed: Cell<bool>,
    /// The session has been recorded; it only remains so that its endpoint is avoided for a while.
    is_over: Cell<bool>,
    task: Cell<Option<JoinHandle<()>>>,
}

/// The endpoint has refused an earlier datagram.
struct Refused;

// === impl PortListener ===

impl PortListener {
    pub(crate) fn open(
        worker: &Rc<Worker>,
        listener: ListenerId,
        target: &Rc<Target>,
        ages: &Rc<Ages>,
    ) -> io::Result<Vec<Self>> {
        let receive_from = |socket| {
            let port = Rc::new(Port {
                worker: Rc::clone(worker),
                target: Rc::clone(target),
                socket: UdpSocket::from_std(socket)?,
                by_client: RefCell::default(),
                ages: Rc::clone(ages),
                scratch: RefCell::new(vec![0; DATAGRAM_BYTES_MAX].into()),
                is_closing: Cell::new(false),
                changed: Notify::new(),
            });
            let receiving = reactor::spawn(worker.vital.task(receive(Rc::clone(&port))));
            Ok(Self { port, receiving })
        };
        let sockets = bind_all(&worker.config().settings().listen, listener, bind)?;
        sockets.into_iter().map(receive_from).collect()
    }

    /// Accepts no more sessions. The socket is closed when the last one has ended.
    pub(crate) fn close(&self) {
        self.port.is_closing.set(true);
        self.port.changed.notify_one();
    }

    /// Accepts sessions again, before the socket was closed.
    pub(crate) fn open_again(&self) {
        self.port.is_closing.set(false);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.receiving.is_finished()
    }
}

fn bind(address: SocketAddr, only_v6: bool) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    sys::set_receive_destination(&socket, address.is_ipv6())?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Receives clients' datagrams for as long as the port is open.
async fn receive(port: Rc<Port>) {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX].into_boxed_slice();
    while !port.is_over() {
        tokio::select! {
            biased;
            () = port.changed.notified() => {}
            received = port.socket.io(Interest::READABLE, || {
                sys::receive_datagram(&port.socket, &mut buffer)
            }) => match received {
                Ok(datagram) => port.take(&datagram, &buffer[..datagram.len]),
                Err(error) => {
                    tracing::warn!(%error, "cannot receive datagrams for the moment");
                    let pause = Deadline::new(&port.worker.deadlines);
                    let _ = pause.within(ACCEPT_RETRY_DELAY, |_| Poll::<()>::Pending).await;
                }
            },
        }
    }
}

// === impl Port ===

impl Port {
    fn is_over(&self) -> bool {
        self.is_closing.get() && self.by_client.borrow().is_empty()
    }

    /// Forwards a client's datagram.
    fn take(self: &Rc<Self>, datagram: &Datagram, bytes: &[u8]) {
        let known = self.by_client.borrow().get(&datagram.from).cloned();
        if let Some(session) = known.as_ref().filter(|session| !session.has_failed.get()) {
            if session.ask(&self.worker, bytes).is_ok() {
                return self.end_if_answered(session);
            }
            self.end(session, Some(session.fail()));
        }
        let failed = known.map(|session| session.endpoint.address);
        // A socket that has just been opened reports no earlier error.
        if let Some(session) = self.begin(datagram, failed)
            && session.ask(&self.worker, bytes).is_ok()
        {
            self.end_if_answered(&session);
        }
    }

    /// Begins a session, with another endpoint than the failed one if there is another.
    fn begin(self: &Rc<Self>, datagram: &Datagram, failed: Option<SocketAddr>) -> Option<Rc<Session>> {
        let worker = &self.worker;
        if self.is_closing.get() || !self.ages.make_room(worker) {
            return None;
        }
        let now = worker.clock.now();
        let session = match self.connect(datagram, failed, now) {
            Ok(session) => Rc::new(session),
            Err(reason) => {
                worker.recorder.borrow().reason(reason);
                return None;
            }
        };
        self.by_client.borrow_mut().insert(session.client, Rc::clone(&session));
        let open = OpenSession::count(worker);
        self.ages.insert(&session, now, worker.sessions_open());
        let task = reactor::spawn(answer(Rc::clone(self), Rc::clone(&session), open));
        session.task.set(Some(task));
        Some(session)
    }

    fn connect(
        self: &Rc<Self>,
        datagram: &Datagram,
        failed: Option<SocketAddr>,
        now: Moment,
    ) -> Result<Session, Reason> {
        let worker = &self.worker;
        let (config, service) = (worker.config(), self.target.now());
        let cluster = worker.cluster(&config, service.cluster(&config, &worker.random)?);
        let has_failed = |endpoint: &Endpoint| failed == Some(endpoint.address);
        let endpoint = cluster
            .pick(has_failed, &worker.random, now)
            .or_else(|| cluster.pick(|_| false, &worker.random, now))
            .ok_or(Reason::NoEndpoints)?;
        let upstream = worker.pool.open_datagrams(endpoint)?;
        let settings = &config.settings().stream;
        Ok(Session {
            port: Rc::downgrade(self),
            client: datagram.from,
            local: datagram.to,
            endpoint: Rc::clone(endpoint),
            upstream,
            idle: settings.idle_timeout,
            responses: settings.responses.filter(|_| service.stream.counts_responses),
            tracked: Tracked::begin(&service, worker),
            asked: Cell::new(0),
            answered: Cell::new(0),
            received: Cell::new(0),
            sent: Cell::new(0),
            last: Cell::new(now),
            deadline: Deadline::new(&worker.deadlines),
            has_failed: Cell::new(false),
            is_over: Cell::new(false),
            task: Cell::default(),
        })
    }

    fn end_if_answered(&self, session: &Rc<Session>) {
        if session.is_answered() {
            self.end(session, None);
        }
    }

    /// Ends a session at once.
    fn end(&self, session: &Rc<Session>, fault: Option<Reason>) {
        self.forget(session);
        if let Some(task) = session.task.take() {
            task.abort();
        }
        if !session.is_over.replace(true) {
            session.record(&self.worker, fault);
        }
        self.changed.notify_one();
    }

    fn knows(&self, session: &Rc<Session>) -> bool {
        self.by_client.borrow().get(&session.client).is_some_and(|known| Rc::ptr_eq(known, session))
    }

    /// Removes a session, unless its client has begun another.
    fn forget(&self, session: &Rc<Session>) {
        if self.knows(session) {
            self.by_client.borrow_mut().remove(&session.client);
        }
    }
}

/// Forwards an endpoint's datagrams until the session ends.
async fn answer(port: Rc<Port>, session: Rc<Session>, open: OpenSession) {
    session.deadline.start(session.idle);
    let fault = loop {
        // An error does not make the socket readable.
        let interest = Interest::READABLE | Interest::ERROR;
        let mut answered = pin!(session.upstream.io(interest, || session.answer(&port)));
        match session.deadline.guard(|cx| answered.as_mut().poll(cx)).await {
            Ok(Ok(())) if session.is_answered() => break None,
            Ok(Ok(())) => {}
            Ok(Err(_)) => break Some(session.fail()),
            Err(Elapsed) => break None,
        }
    };
    session.is_over.set(true);
    session.record(&port.worker, fault);
    if fault.is_some() {
        // Until then the client's next datagram goes to another endpoint.
        let _ = session.deadline.within(UDP_FAILURE_MEMORY, |_| Poll::<()>::Pending).await;
    }
    port.forget(&session);
    port.changed.notify_one();
    drop(open);
}

// === impl Session ===

impl Session {
    /// Sends a client's datagram to the endpoint, unless the endpoint has refused an earlier one.
    fn ask(&self, worker: &Worker, bytes: &[u8]) -> Result<(), Refused> {
        match send(&self.upstream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(Refused);
            }
            Err(_) => return Ok(()),
        }
        self.tracked.received(Side::Client, bytes.len());
        self.asked.set(self.asked.get() + 1);
        self.received.set(self.received.get() + bytes.len() as u64);
        self.last.set(worker.clock.now());
        self.deadline.start(self.idle);
        Ok(())
    }

    /// Sends an endpoint's next datagram to the client.
    fn answer(&self, port: &Port) -> io::Result<()> {
        let mut scratch = port.scratch.borrow_mut();
        let (len, _) = recv(&self.upstream, &mut scratch[..], RecvFlags::DONTWAIT)?;
        let bytes = &scratch[..len];
        self.tracked.received(Side::Upstream, bytes.len());
        self.answered.set(self.answered.get() + 1);
        self.sent.set(self.sent.get() + bytes.len() as u64);
        self.last.set(port.worker.clock.now());
        self.deadline.start(self.idle);
        // A datagram that cannot be sent to the client is lost.
        let _ = sys::send_datagram(&port.socket, bytes, self.client, self.local);
        Ok(())
    }

    /// Whether the expected number of responses has arrived (nginx: `proxy_responses` for each of the
    /// client's datagrams).
    fn is_answered(&self) -> bool {
        self.responses.is_some_and(|responses| self.answered.get() >= u64::from(responses) * self.asked.get())
    }

    fn fail(&self) -> Reason {
        if !self.has_failed.replace(true) {
            self.endpoint.cells.fail(Failure::ConnectError);
        }
        Reason::ConnectRefused
    }

    fn record(&self, worker: &Worker, fault: Option<Reason>) {
        let client = self.client.ip().to_canonical();
        let (received, sent) = (self.received.get(), self.sent.get());
        self.tracked.end(worker, &Outcome { client, fault, received, sent }, Some(self.endpoint.address));
    }
}

// === impl Ages ===

impl Ages {
    /// Queues a session that begins. `open` are the sessions that the worker has.
    fn insert(&self, session: &Rc<Session>, now: Moment, open: usize) {
        self.unanswered.borrow_mut().push_back((now, Rc::downgrade(session)));
        for queue in [&self.unanswered, &self.answered] {
            drop_ended(&mut queue.borrow_mut(), open);
        }
    }

    /// Evicts a session to make room. False where there is none to evict.
    fn make_room(&self, worker: &Worker) -> bool {
        while !worker.has_room_for_session() {
            let Some((port, session)) = self.next_to_go() else { return false };
            port.target.now().cells.inc(StreamCounter::Evicted);
            port.end(&session, None);
        }
        true
    }

    fn next_to_go(&self) -> Option<(Rc<Port>, Rc<Session>)> {
        let mut answered = self.answered.borrow_mut();
        let promote = |session: &Rc<Session>| {
            let has_answer = session.answered.get() > 0;
            if has_answer {
                answered.push_back((session.last.get(), Rc::downgrade(session)));
            }
            has_answer
        };
        let first = oldest(&mut self.unanswered.borrow_mut(), promote);
        first.or_else(|| oldest(&mut answered, |_| false))
    }
}

/// Removes the sessions that have ended, once they outnumber those that are open: the memory of a session is
/// freed only when nothing refers to it any more, not even weakly.
fn drop_ended<T>(queue: &mut VecDeque<(Moment, Weak<T>)>, open: usize) {
    let most = 2 * open + ENDED_SESSIONS_MAX;
    if queue.len() > most {
        queue.retain(|(_, session)| session.strong_count() > 0);
        queue.shrink_to(most);
    }
}

/// The session of a queue that has been idle for longest and that `takes` accepts. One that was active since
/// it was queued goes to the end.
fn oldest(queue: &mut Queue, mut takes: impl FnMut(&Rc<Session>) -> bool) -> Option<(Rc<Port>, Rc<Session>)> {
    while let Some((since, session)) = queue.pop_front() {
        let Some(session) = session.upgrade() else { continue };
        let Some(port) = session.port.upgrade().filter(|port| port.knows(&session)) else { continue };
        if takes(&session) {
            continue;
        }
        if session.last.get() > since {
            queue.push_back((session.last.get(), Rc::downgrade(&session)));
            continue;
        }
        return Some((port, session));
    }
    None
}

#[cfg(test)]
mod tests {
    use clock::Clock;

    use super::*;

    #[test]
    fn sessions_that_have_ended_do_not_pile_up() {
        let mut queue = VecDeque::new();
        let now = Clock::new(Clock::begin()).now();
        let open: Vec<Rc<u64>> = (0..10).map(Rc::new).collect();
        queue.extend(open.iter().map(|session| (now, Rc::downgrade(session))));
        for number in 0..10_000 {
            queue.push_back((now, Rc::downgrade(&Rc::new(number))));
            drop_ended(&mut queue, open.len());
            assert!(queue.len() <= 2 * open.len() + ENDED_SESSIONS_MAX, "after {number} sessions");
        }
        let left: Vec<u64> =
            queue.iter().filter_map(|(_, session)| session.upgrade()).map(|one| *one).collect();
        assert_eq!(left, (0..10).collect::<Vec<_>>(), "those that are open stay, in their order");
    }
}
