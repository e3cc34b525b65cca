//! QUIC that is passed through by name: the name is read in the client's first packets, and its datagrams go
//! to an endpoint unchanged, as those of a UDP session do.
//!
//! A packet belongs to a session by its connection id, as far as ids can be seen, or else by the client's
//! address; one that comes to another worker is handed over. Before a client has shown that it gets what the
//! endpoint sends, its address may be forged: there are few such sessions, and each lasts a moment.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use clients::ClientConnection;
use clock::Moment;
use model::{HostTls, ListenerId};
use observe::{Failure, Reason};
use reactor::{Interest, UdpSocket};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use wire::client_hello::{Peek as Name, server_name_in_message};
use wire::quic::{Hello, Initial, long_destination, long_source};

use super::record::{Outcome, Tracked};
use super::{Service, cluster};
use crate::admit::admission;
use crate::body::tunnel::{Side, TunnelObserver};
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::listening;
use crate::io::quic::{self, Packet, Peek};
use crate::io::tls::QuicConfigs;
use crate::limits::{
    DATAGRAM_BYTES_MAX, QUIC_HELLO_PACKETS_MAX, QUIC_HELLOS_MAX, QUIC_UNSEEN_CLIENTS_MAX, QUIC_UNSEEN_TIMEOUT,
};
use crate::request::conn::Peer;
use crate::upstream::Endpoint;
use crate::worker::{OpenSession, Worker};

/// The sessions of a socket, and the connections of which it is not known yet where they lead.
pub(crate) struct Passthrough {
    me: Weak<Self>,
    worker: Rc<Worker>,
    /// The hosts that are served and passed through in the configuration of this moment.
    crypto: RefCell<Arc<QuicConfigs>>,
    listener: ListenerId,
    /// A client may use one socket for several connections.
    sessions: RefCell<HashMap<SocketAddr, Vec<Rc<Session>>>>,
    beginnings: RefCell<HashMap<Beginner, Beginning>>,
    /// Sessions by age whose clients may not be at their addresses.
    unseen: RefCell<VecDeque<Weak<Session>>>,
    /// Buffer for endpoints' datagrams, empty between two of them.
    scratch: RefCell<Box<[u8]>>,
}

/// A connection that begins: the client's address, and the id that it has chosen for the server.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Beginner {
    client: SocketAddr,
    id: Box<[u8]>,
}

/// The first packets of a connection, up to the one that completes the hello.
struct Beginning {
    hello: Hello,
    packets: Vec<Packet>,
    since: Moment,
}

struct Session {
    client: SocketAddr,
    /// The address that the client sends to.
    local: Option<IpAddr>,
    to: Rc<quic::Endpoint>,
    endpoint: Rc<Endpoint>,
    upstream: UdpSocket,
    idle: Duration,
    /// The id in the client's first packets, and those that the endpoint has shown for itself.
    first_id: Box<[u8]>,
    ids: RefCell<Vec<Box<[u8]>>>,
    /// The client has used an id of the endpoint: it is at its address.
    is_seen: Cell<bool>,
    tracked: Option<Tracked>,
    received: Cell<u64>,
    sent: Cell<u64>,
    deadline: Deadline,
    is_over: Cell<bool>,
    _place: Option<ClientConnection>,
}

/// Where a connection leads.
enum Way {
    /// It is not known yet.
    Unknown,
    /// It ends at this proxy, or is none.
    Here,
    Elsewhere(Arc<HostTls>),
}

/// Ids of an endpoint that are remembered: those of Initial, Retry and Handshake packets.
const IDS_MAX: usize = 4;

impl Passthrough {
    pub(crate) fn new(worker: &Rc<Worker>, listener: ListenerId, crypto: Arc<QuicConfigs>) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            worker: Rc::clone(worker),
            crypto: RefCell::new(crypto),
            listener,
            sessions: RefCell::default(),
            beginnings: RefCell::default(),
            unseen: RefCell::default(),
            scratch: RefCell::new(vec![0; DATAGRAM_BYTES_MAX].into()),
        })
    }

    /// The session that a packet belongs to by its id. The id of a short header may be one that could not be
    /// seen: then it is the client's last session.
    fn session_of(&self, packet: &Packet) -> Option<Rc<Session>> {
        let sessions = self.sessions.borrow();
        let of_client = sessions.get(&packet.remote)?;
        let id = long_destination(&packet.bytes);
        let known = of_client.iter().find(|session| session.knows(id, &packet.bytes));
        known.or_else(|| of_client.last().filter(|_| id.is_none())).cloned()
    }

    /// Reads a packet of a connection that begins.
    fn begin(&self, to: &Rc<quic::Endpoint>, packet: Packet) -> Option<Packet> {
        let Some(id) = long_destination(&packet.bytes) else { return Some(packet) };
        let beginner = Beginner { client: packet.remote, id: id.into() };
        let known = self.beginnings.borrow_mut().remove(&beginner);
        if known.is_none() && Initial::read(&packet.bytes).is_none() {
            return Some(packet);
        }
        let now = self.worker.clock.now();
        let mut beginning =
            known.unwrap_or_else(|| Beginning { hello: Hello::default(), packets: Vec::new(), since: now });
        let way = self.way(&mut beginning.hello, &packet.bytes);
        beginning.packets.push(packet);
        match way {
            Way::Unknown if beginning.packets.len() < QUIC_HELLO_PACKETS_MAX => {
                self.remember(beginner, beginning);
            }
            Way::Unknown | Way::Here => beginning.packets.into_iter().for_each(|packet| to.take_here(packet)),
            Way::Elsewhere(tls) => self.pass_on(to, beginner, &tls, &beginning.packets),
        }
        None
    }

    /// Where the connection leads of which this datagram is one of the first.
    fn way(&self, hello: &mut Hello, datagram: &[u8]) -> Way {
        let crypto = self.crypto.borrow();
        // A packet of another kind says nothing, and waits with the others.
        if let Some(initial) = Initial::read(datagram) {
            let Some(frames) = quic::frames(&**crypto, datagram, &initial) else { return Way::Here };
            if hello.add_frames(&frames).is_err() {
                return Way::Here;
            }
        }
        match server_name_in_message(hello.bytes()) {
            Name::Partial => Way::Unknown,
            Name::NotHello => Way::Here,
            Name::Hello { server_name } => {
                let passed = crypto.passthrough(server_name.as_deref());
                passed.map_or(Way::Here, |tls| Way::Elsewhere(Arc::clone(tls)))
            }
        }
    }

    /// Keeps a beginning. The oldest goes where there are too many: a hello is whole within a moment.
    fn remember(&self, beginner: Beginner, beginning: Beginning) {
        let mut beginnings = self.beginnings.borrow_mut();
        if beginnings.len() >= QUIC_HELLOS_MAX {
            let oldest = beginnings.iter().min_by_key(|(_, one)| one.since).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| beginnings.remove(&oldest));
        }
        beginnings.insert(beginner, beginning);
    }

    /// Begins a session, and forwards the first packets.
    fn pass_on(&self, to: &Rc<quic::Endpoint>, beginner: Beginner, tls: &HostTls, packets: &[Packet]) {
        let session = match self.connect(to, beginner, tls, packets) {
            Ok(session) => Rc::new(session),
            Err(reason) => return self.worker.recorder.borrow().reason(reason),
        };
        for packet in packets {
            session.ask(&packet.bytes);
        }
        self.end_oldest_unseen();
        self.unseen.borrow_mut().push_back(Rc::downgrade(&session));
        self.sessions.borrow_mut().entry(session.client).or_default().push(Rc::clone(&session));
        to.set_passing(session.client, true);
        if let Some(passthrough) = self.me.upgrade() {
            let open = OpenSession::count(&self.worker);
            reactor::spawn_detached(answer(passthrough, session, open));
        }
    }

    fn connect(
        &self,
        to: &Rc<quic::Endpoint>,
        beginner: Beginner,
        tls: &HostTls,
        packets: &[Packet],
    ) -> Result<Session, Reason> {
        let worker = &self.worker;
        let client = listening::client(worker, beginner.client).ok_or(Reason::ConnectionLimit)?;
        let place = admission::admit(worker, Peer { address: client.ip(), is_named: false })?;
        if !worker.has_room_for_session() {
            return Err(Reason::ConnectionLimit);
        }
        let config = worker.config();
        let id = match &tls.stream {
            Some(stream) => cluster(&stream.backends, &worker.random)?,
            None => tls.passthrough.ok_or(Reason::NoEndpoints)?,
        };
        let now = worker.clock.now();
        let cluster = worker.cluster(&config, id);
        let endpoint = cluster.pick(|_| false, &worker.random, now).ok_or(Reason::NoEndpoints)?;
        let upstream = worker.pool.open_datagrams(endpoint)?;
        let service = tls.stream.as_ref().map(|stream| Service::of_tls(self.listener, stream, worker));
        Ok(Session {
            client: beginner.client,
            local: packets.first().and_then(|packet| packet.local),
            to: Rc::clone(to),
            endpoint: Rc::clone(endpoint),
            upstream,
            idle: config.settings().stream.idle_timeout,
            first_id: beginner.id,
            ids: RefCell::default(),
            is_seen: Cell::new(false),
            tracked: service.map(|service| Tracked::begin(&service, worker)),
            received: Cell::new(0),
            sent: Cell::new(0),
            deadline: Deadline::new(&worker.deadlines),
            is_over: Cell::new(false),
            _place: place,
        })
    }

    /// Makes room for a session whose client has not been seen.
    fn end_oldest_unseen(&self) {
        let mut unseen = self.unseen.borrow_mut();
        while let Some(oldest) = unseen.front() {
            let oldest = oldest.upgrade().filter(|session| !session.is_seen.get() && !session.is_over.get());
            if oldest.is_some() && unseen.len() < QUIC_UNSEEN_CLIENTS_MAX {
                break;
            }
            if let Some(session) = oldest {
                session.deadline.start(Duration::ZERO);
            }
            unseen.pop_front();
        }
    }
}

impl Peek for Passthrough {
    fn peek(&self, to: &Rc<quic::Endpoint>, packet: Packet) -> Option<Packet> {
        if let Some(session) = self.session_of(&packet) {
            session.note_seen(&packet.bytes);
            session.ask(&packet.bytes);
            return None;
        }
        if long_destination(&packet.bytes).is_none() {
            return to.give_to_passing(packet);
        }
        self.begin(to, packet)
    }

    fn configure(&self, crypto: Arc<QuicConfigs>) {
        *self.crypto.borrow_mut() = crypto;
    }

    fn is_idle(&self) -> bool {
        self.sessions.borrow().is_empty()
    }
}

/// Forwards an endpoint's datagrams until the session ends.
async fn answer(passthrough: Rc<Passthrough>, session: Rc<Session>, open: OpenSession) {
    let worker = &passthrough.worker;
    session.deadline.start(QUIC_UNSEEN_TIMEOUT);
    let fault = loop {
        // An error does not make the socket readable.
        let interest = Interest::READABLE | Interest::ERROR;
        let mut answered = pin!(session.upstream.io(interest, || session.answer(&passthrough)));
        match session.deadline.guard(|cx| answered.as_mut().poll(cx)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => {
                session.endpoint.cells.fail(Failure::ConnectError);
                break Some(Reason::ConnectRefused);
            }
            Err(Elapsed) => break None,
        }
    };
    session.is_over.set(true);
    session.record(worker, fault);
    passthrough.forget(&session);
    drop(open);
}

impl Passthrough {
    fn forget(&self, session: &Rc<Session>) {
        let mut sessions = self.sessions.borrow_mut();
        if let Some(of_client) = sessions.get_mut(&session.client) {
            of_client.retain(|other| !Rc::ptr_eq(other, session));
            if of_client.is_empty() {
                sessions.remove(&session.client);
                session.to.set_passing(session.client, false);
            }
        }
        session.to.wake_receiver();
    }
}

impl Session {
    /// Whether a packet has an id of this connection: `long` is that of a long header.
    fn knows(&self, long: Option<&[u8]>, packet: &[u8]) -> bool {
        long.is_some_and(|id| *id == *self.first_id) || self.has_shown(long, packet)
    }

    /// Whether a packet has an id that the endpoint has shown for itself.
    fn has_shown(&self, long: Option<&[u8]>, packet: &[u8]) -> bool {
        self.ids.borrow().iter().any(|id| match long {
            Some(long) => *long == **id,
            None => !id.is_empty() && packet.get(1..).is_some_and(|rest| rest.starts_with(id)),
        })
    }

    /// Notes that the client has an id that only the endpoint has told it.
    fn note_seen(&self, packet: &[u8]) {
        if !self.is_seen.get() && self.has_shown(long_destination(packet), packet) {
            self.is_seen.set(true);
            self.deadline.start(self.idle);
        }
    }

    /// Sends a client's datagram to the endpoint. One that cannot be sent at once is lost.
    fn ask(&self, bytes: &[u8]) {
        if self.is_over.get()
            || send(&self.upstream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_err()
        {
            return;
        }
        if let Some(tracked) = &self.tracked {
            tracked.received(Side::Client, bytes.len());
        }
        self.received.set(self.received.get() + bytes.len() as u64);
        self.go_on();
    }

    /// Sends an endpoint's next datagram to the client.
    fn answer(&self, passthrough: &Passthrough) -> io::Result<()> {
        let mut scratch = passthrough.scratch.borrow_mut();
        let (len, _) = recv(&self.upstream, &mut scratch[..], RecvFlags::DONTWAIT)?;
        let bytes = &scratch[..len];
        if !self.is_seen.get() {
            self.note_id(bytes);
        }
        if let Some(tracked) = &self.tracked {
            tracked.received(Side::Upstream, len);
        }
        self.sent.set(self.sent.get() + len as u64);
        self.to.send_to_client(self.client, self.local, bytes);
        self.go_on();
        Ok(())
    }

    /// Remembers the id that the endpoint has for itself, as long as it can be seen.
    fn note_id(&self, datagram: &[u8]) {
        let mut ids = self.ids.borrow_mut();
        if let Some(id) = long_source(datagram)
            && ids.len() < IDS_MAX
            && !ids.iter().any(|known| **known == *id)
        {
            ids.push(id.into());
        }
    }

    fn go_on(&self) {
        if self.is_seen.get() {
            self.deadline.start(self.idle);
        }
    }

    fn record(&self, worker: &Worker, fault: Option<Reason>) {
        let client = self.client.ip().to_canonical();
        let outcome = Outcome { client, fault, received: self.received.get(), sent: self.sent.get() };
        match &self.tracked {
            Some(tracked) => tracked.end(worker, &outcome, Some(self.endpoint.address)),
            None => fault.into_iter().for_each(|reason| worker.recorder.borrow().reason(reason)),
        }
    }
}
