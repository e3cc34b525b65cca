//! The part of a reactor that other threads may touch: its set of sockets, and orders to it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

use crate::id::TaskId;
use crate::limits::REACTORS_MAX;
use crate::slab::Key;

/// A reactor as other threads know it.
pub(crate) struct Home {
    /// Differs between all reactors that have ever been.
    pub(crate) serial: u64,
    /// The number in wakers, from one on, which a later reactor may have again.
    pub(crate) number: u32,
    pub(crate) epoll: OwnedFd,
    bell: OwnedFd,
    inbox: Mutex<Inbox>,
    /// There may be orders in the inbox.
    has_orders: AtomicBool,
}

#[derive(Default)]
struct Inbox {
    orders: Vec<Order>,
    /// The reactor has been told of orders that it has not taken yet.
    is_told: bool,
}

/// An order of another thread.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    /// Wake a task.
    Wake(TaskId),
    /// Forget a socket, which is closed or has moved to another reactor.
    Forget(Key),
}

/// The data of the event that says that there are orders.
pub(crate) const BELL: u64 = u64::MAX;

/// The reactors, each at its number less one.
static HOMES: RwLock<Vec<Option<Arc<Home>>>> = RwLock::new(Vec::new());
static SERIAL: AtomicU64 = AtomicU64::new(1);

impl Home {
    pub(crate) fn open() -> io::Result<Arc<Self>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Each write is an edge, so that the count need not be read.
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN | EventFlags::ET)?;
        let mut homes = HOMES.write();
        let at = homes.iter().position(Option::is_none).unwrap_or(homes.len());
        if at == REACTORS_MAX {
            return Err(io::Error::other("too many reactors"));
        }
        let home = Arc::new(Self {
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            number: at as u32 + 1,
            epoll,
            bell,
            inbox: Mutex::default(),
            has_orders: AtomicBool::new(false),
        });
        if at == homes.len() {
            homes.push(None);
        }
        homes[at] = Some(Arc::clone(&home));
        Ok(home)
    }

    /// Takes the reactor's number back: what its wakers wake is gone.
    pub(crate) fn close(&self) {
        HOMES.write()[self.number as usize - 1] = None;
    }

    /// Watches a descriptor for both directions, until it is closed or removed.
    pub(crate) fn add(&self, fd: impl AsFd, key: Key) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(data_of(key)), flags)?)
    }

    pub(crate) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Gives an order. The reactor is woken only for one to wake: the others have time.
    pub(crate) fn order(&self, order: Order) {
        let mut inbox = self.inbox.lock();
        inbox.orders.push(order);
        self.has_orders.store(true, Ordering::Relaxed);
        let is_urgent = matches!(order, Order::Wake(_));
        if is_urgent && !std::mem::replace(&mut inbox.is_told, true) {
            drop(inbox);
            // An eventfd whose count is at its maximum wakes the reactor as well.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Whether there may be orders. Whoever has given one to wake rings afterwards, so that none is missed
    /// for long.
    #[inline]
    pub(crate) fn has_orders(&self) -> bool {
        self.has_orders.load(Ordering::Relaxed)
    }

    /// Takes the orders into an empty list.
    pub(crate) fn take_orders(&self, taken: &mut Vec<Order>) {
        let mut inbox = self.inbox.lock();
        self.has_orders.store(false, Ordering::Relaxed);
        inbox.is_told = false;
        std::mem::swap(&mut inbox.orders, taken);
    }
}

/// Wakes a task of another thread's reactor, if that is still there.
pub(crate) fn wake_elsewhere(task: TaskId) {
    let homes = HOMES.read();
    let Some(at) = (task.reactor as usize).checked_sub(1) else { return };
    if let Some(Some(home)) = homes.get(at) {
        home.order(Order::Wake(task));
    }
}

/// A key as an event carries it.
pub(crate) fn data_of(key: Key) -> u64 {
    (u64::from(key.generation) << 32) | u64::from(key.slot)
}

/// The key that an event carries.
pub(crate) fn key_of(data: u64) -> Key {
    Key { slot: data as u32, generation: (data >> 32) as u32 }
}
