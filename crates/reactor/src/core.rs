//! The state of a thread's reactor. Never in here: polling, neither of tasks nor of sockets.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use crate::home::{Home, Order};
use crate::id::{ROOT, TaskId};
use crate::limits::{BUDGET, LATE_PER_POLL_MIN, TASKS_MAX};
use crate::ready::Ready;
use crate::slab::{Key, Slab};
use crate::wheel::Wheel;

/// A task's future.
pub(crate) type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;

/// The reactor of a thread. It is there before and after the thread has one, and then empty.
pub(crate) struct Core {
    /// The number in the wakers of its tasks; 0 where the thread has no reactor.
    number: Cell<u32>,
    /// The serial number of its home; 0 where the thread has no reactor.
    serial: Cell<u64>,
    /// Number of [`Reactor`](crate::Reactor)s that stand for it.
    users: Cell<u32>,
    pub(crate) is_running: Cell<bool>,
    home: RefCell<Option<Arc<Home>>>,
    tasks: RefCell<Slab<Task>>,
    /// The slots of the tasks that are to run.
    ready: RefCell<VecDeque<u32>>,
    /// The slots of late tasks that are to run.
    late: RefCell<VecDeque<u32>>,
    is_root_queued: Cell<bool>,
    /// Tasks that are to run when the sockets have been polled.
    deferred: RefCell<Vec<Waker>>,
    sources: RefCell<Slab<Watched>>,
    pub(crate) wheel: RefCell<Wheel>,
    begin: Cell<Option<Instant>>,
}

struct Task {
    /// None while it runs.
    future: Option<BoxedTask>,
    place: Place,
    is_aborted: bool,
}

/// Whether a task is to run, and whether it is late: then it waits for those that are not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Idle,
    Queued,
    IdleLate,
    QueuedLate,
}

impl Place {
    fn is_queued(self) -> bool {
        matches!(self, Self::Queued | Self::QueuedLate)
    }

    fn queued(self) -> Self {
        match self {
            Self::Idle | Self::Queued => Self::Queued,
            Self::IdleLate | Self::QueuedLate => Self::QueuedLate,
        }
    }
}

/// A watched socket.
struct Watched {
    bits: Arc<AtomicU8>,
    reader: Waiting,
    writer: Waiting,
}

/// A task that waits for a socket.
#[derive(Default)]
enum Waiting {
    #[default]
    Nobody,
    /// A task of this reactor.
    Task(TaskId),
    /// Whoever waits by a waker of another kind.
    Other(Waker),
}

/// The end of a wait for a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Reader,
    Writer,
}

thread_local! {
    static CORE: Core = const { Core::new() };
    /// Operations that are left to the task in its turn. It is looked at with each of them, and apart from
    /// the rest since it needs no destructor.
    static LEFT: Cell<u32> = const { Cell::new(BUDGET) };
}

/// Calls a function with the thread's reactor.
#[inline]
pub(crate) fn with<T>(act: impl FnOnce(&Core) -> T) -> T {
    CORE.with(act)
}

/// The same, unless the thread is about to end.
pub(crate) fn try_with<T>(act: impl FnOnce(&Core) -> T) -> Option<T> {
    CORE.try_with(act).ok()
}

/// Gives the next task its budget.
#[inline]
pub(crate) fn renew_budget() {
    LEFT.set(BUDGET);
}

/// Takes one operation off the budget of the running task. False where nothing is left: then the task is
/// woken after the poll.
#[inline]
pub(crate) fn spend(cx: &Context<'_>) -> bool {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(1));
    left > 0 || with(|core| core.goes_on(cx))
}

impl Core {
    const fn new() -> Self {
        Self {
            number: Cell::new(0),
            serial: Cell::new(0),
            users: Cell::new(0),
            is_running: Cell::new(false),
            home: RefCell::new(None),
            tasks: RefCell::new(Slab::new()),
            ready: RefCell::new(VecDeque::new()),
            late: RefCell::new(VecDeque::new()),
            is_root_queued: Cell::new(false),
            deferred: RefCell::new(Vec::new()),
            sources: RefCell::new(Slab::new()),
            wheel: RefCell::new(Wheel::new()),
            begin: Cell::new(None),
        }
    }

    // === begin and end ===

    pub(crate) fn open(&self) -> io::Result<()> {
        if self.users.get() == 0 {
            let home = Home::open()?;
            self.number.set(home.number);
            self.serial.set(home.serial);
            self.begin.set(Some(Instant::now()));
            *self.home.borrow_mut() = Some(home);
        }
        self.users.set(self.users.get() + 1);
        Ok(())
    }

    pub(crate) fn leave(&self) {
        self.users.set(self.users.get() - 1);
        if self.users.get() > 0 {
            return;
        }
        // A task may begin others when it is dropped.
        loop {
            let tasks = self.tasks.replace(Slab::new());
            if tasks.len() == 0 {
                break;
            }
            for task in tasks.into_values() {
                drop_quietly(task.future);
            }
        }
        drop(self.deferred.take());
        self.ready.borrow_mut().clear();
        self.late.borrow_mut().clear();
        self.is_root_queued.set(false);
        let sources = self.sources.replace(Slab::new());
        let wheel = self.wheel.replace(Wheel::new());
        let home = self.home.take();
        self.number.set(0);
        self.serial.set(0);
        drop((sources, wheel));
        if let Some(home) = home {
            home.close();
        }
    }

    /// # Panics
    ///
    /// If the thread has no reactor.
    pub(crate) fn home(&self) -> Arc<Home> {
        Arc::clone(self.home.borrow().as_ref().expect("the thread has a reactor"))
    }

    #[inline]
    pub(crate) fn is_number(&self, number: u32) -> bool {
        self.number.get() == number
    }

    /// The serial number of its home; 0 where the thread has no reactor.
    #[inline]
    pub(crate) fn serial(&self) -> u64 {
        self.serial.get()
    }

    #[inline]
    pub(crate) fn is_serial(&self, serial: u64) -> bool {
        self.serial.get() == serial
    }

    // === tasks ===

    /// # Panics
    ///
    /// If the thread has no reactor, or one with [`TASKS_MAX`] tasks.
    pub(crate) fn spawn(&self, future: BoxedTask) -> Key {
        assert!(self.number.get() != 0, "a task needs a thread with a reactor");
        let mut tasks = self.tasks.borrow_mut();
        assert!(tasks.len() < TASKS_MAX, "too many tasks");
        let key = tasks.insert(Task { future: Some(future), place: Place::Queued, is_aborted: false });
        self.ready.borrow_mut().push_back(key.slot);
        key
    }

    /// The number of a task in its wakers.
    #[inline]
    pub(crate) fn id(&self, key: Key) -> TaskId {
        TaskId { reactor: self.number.get(), slot: key.slot, generation: key.generation }
    }

    /// The number of the future that the reactor runs.
    #[inline]
    pub(crate) fn root(&self) -> TaskId {
        self.id(Key { slot: ROOT, generation: 0 })
    }

    #[inline]
    pub(crate) fn wake(&self, task: TaskId) {
        if task.slot == ROOT {
            if !self.is_root_queued.replace(true) {
                self.ready.borrow_mut().push_back(ROOT);
            }
            return;
        }
        let mut tasks = self.tasks.borrow_mut();
        let key = Key { slot: task.slot, generation: task.generation };
        let Some(task) = tasks.get_mut(key) else { return };
        if task.place == Place::Idle {
            task.place = Place::Queued;
            self.ready.borrow_mut().push_back(key.slot);
        } else if task.place == Place::IdleLate {
            task.place = Place::QueuedLate;
            self.late.borrow_mut().push_back(key.slot);
        }
    }

    /// Has a task wait for others from now on whenever it is woken, or wait no more.
    pub(crate) fn set_late(&self, task: TaskId, is_late: bool) {
        let mut tasks = self.tasks.borrow_mut();
        let key = Key { slot: task.slot, generation: task.generation };
        let Some(task) = tasks.get_mut(key) else { return };
        task.place = match (task.place.is_queued(), is_late) {
            (false, false) => Place::Idle,
            (true, false) => Place::Queued,
            (false, true) => Place::IdleLate,
            (true, true) => Place::QueuedLate,
        };
    }

    /// Lets some late tasks run behind those that are ready.
    #[cold]
    pub(crate) fn release_late(&self) {
        let (mut late, mut ready) = (self.late.borrow_mut(), self.ready.borrow_mut());
        let count = LATE_PER_POLL_MIN.max(ready.len() / 2).min(late.len());
        ready.extend(late.drain(..count));
    }

    #[inline]
    pub(crate) fn has_late(&self) -> bool {
        !self.late.borrow().is_empty()
    }

    /// Has a task dropped when it would run next.
    pub(crate) fn abort(&self, key: Key) {
        let mut tasks = self.tasks.borrow_mut();
        let Some(task) = tasks.get_mut(key) else { return };
        task.is_aborted = true;
        if !task.place.is_queued() {
            task.place = task.place.queued();
            self.ready.borrow_mut().push_back(key.slot);
        }
    }

    /// Number of entries in the queue of tasks to run.
    #[inline]
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.borrow().len()
    }

    #[inline]
    pub(crate) fn next_ready(&self) -> Option<u32> {
        self.ready.borrow_mut().pop_front()
    }

    /// Whether the future that the reactor runs is to be polled: its slot has come up.
    #[inline]
    pub(crate) fn begin_root(&self) {
        self.is_root_queued.set(false);
    }

    /// Takes a task to run it; none where the entry in the queue was that of an earlier one in its slot.
    #[inline]
    pub(crate) fn begin(&self, slot: u32) -> Option<(Key, BoxedTask)> {
        let mut tasks = self.tasks.borrow_mut();
        let (key, task) = tasks.at(slot)?;
        if task.place == Place::Queued {
            task.place = Place::Idle;
        } else if task.place == Place::QueuedLate {
            task.place = Place::IdleLate;
        } else {
            return None;
        }
        if task.is_aborted {
            let task = tasks.remove(key);
            drop(tasks);
            drop_quietly(task.and_then(|task| task.future));
            return None;
        }
        task.future.take().map(|future| (key, future))
    }

    /// Takes back a task that has not ended.
    #[inline]
    pub(crate) fn put_back(&self, key: Key, future: BoxedTask) {
        if let Some(task) = self.tasks.borrow_mut().get_mut(key) {
            // One that was aborted meanwhile is queued, and dropped in its turn.
            task.future = Some(future);
        }
    }

    pub(crate) fn end(&self, key: Key, future: BoxedTask) {
        drop(self.tasks.borrow_mut().remove(key));
        drop_quietly(Some(future));
    }

    pub(crate) fn defer(&self, waker: &Waker) {
        self.deferred.borrow_mut().push(waker.clone());
    }

    #[inline]
    pub(crate) fn has_deferred(&self) -> bool {
        !self.deferred.borrow().is_empty()
    }

    /// Wakes the tasks that have waited for the poll.
    pub(crate) fn resume_deferred(&self) {
        let mut deferred = self.deferred.take();
        for waker in deferred.drain(..) {
            waker.wake();
        }
        // The memory is kept.
        let mut more = self.deferred.borrow_mut();
        if more.is_empty() {
            *more = deferred;
        }
    }

    /// Whether a task without a budget goes on: only what no reactor runs.
    #[cold]
    fn goes_on(&self, cx: &Context<'_>) -> bool {
        let is_running = self.is_running.get();
        if is_running {
            self.defer(cx.waker());
        }
        !is_running
    }

    // === sockets ===

    pub(crate) fn watch(&self, fd: impl AsFd, bits: &Arc<AtomicU8>) -> io::Result<(Arc<Home>, Key)> {
        let home = self.home();
        let watched = Watched { bits: Arc::clone(bits), reader: Waiting::Nobody, writer: Waiting::Nobody };
        let key = self.sources.borrow_mut().insert(watched);
        if let Err(error) = home.add(fd, key) {
            self.forget(key);
            return Err(error);
        }
        Ok((home, key))
    }

    pub(crate) fn forget(&self, key: Key) {
        let watched = self.sources.borrow_mut().remove(key);
        // Another's waker may own a task.
        drop(watched);
    }

    /// Has the next change of a socket wake this task.
    #[inline]
    pub(crate) fn wait_for(&self, key: Key, side: Side, waker: &Waker, task: Option<TaskId>) {
        let mut sources = self.sources.borrow_mut();
        let Some(watched) = sources.get_mut(key) else { return };
        let waiting = match side {
            Side::Reader => &mut watched.reader,
            Side::Writer => &mut watched.writer,
        };
        let next = match task {
            Some(task) if task.reactor == self.number.get() => Waiting::Task(task),
            _ => Waiting::Other(waker.clone()),
        };
        let former = std::mem::replace(waiting, next);
        drop(sources);
        drop(former);
    }

    /// Notes what the kernel has said about a socket, and wakes whoever waits for it.
    #[inline]
    pub(crate) fn note(&self, key: Key, more: Ready) {
        let mut sources = self.sources.borrow_mut();
        let Some(watched) = sources.get_mut(key) else { return };
        let known = Ready::from_bits(watched.bits.load(Ordering::Relaxed));
        watched.bits.store(known.with(more).to_bits(), Ordering::Relaxed);
        if more.wakes_reader() {
            self.wake_waiting(&mut watched.reader);
        }
        if more.wakes_writer() {
            self.wake_waiting(&mut watched.writer);
        }
    }

    #[inline]
    fn wake_waiting(&self, waiting: &mut Waiting) {
        match std::mem::take(waiting) {
            Waiting::Nobody => {}
            Waiting::Task(task) => self.wake(task),
            // A waker only queues its task.
            Waiting::Other(waker) => waker.wake(),
        }
    }

    // === time and orders ===

    /// Milliseconds since the reactor began, and the part of the next one.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begin.get().map_or(Duration::ZERO, |begin| begin.elapsed())
    }

    pub(crate) fn obey(&self, order: Order) {
        match order {
            Order::Wake(task) => self.wake(task),
            Order::Forget(key) => self.forget(key),
        }
    }
}

/// Drops a task. A panic in there has been reported, and concerns no other task.
fn drop_quietly(future: Option<BoxedTask>) {
    let dropped: Result<(), Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(|| drop(future)));
    drop(dropped);
}
