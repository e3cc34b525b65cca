//! The thread of a worker: pinned to a CPU, with one event loop, and notified of new configurations and of
//! the shutdown.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::sync::{Notify, mpsc, watch};

use crate::admit::admission;
use crate::admit::guard::Relief;
use crate::io::event_loop::EventLoop;
use crate::io::ticker::Tick;
use crate::limits::{TICK, TICKS_PER_SWEEP};
use crate::listen::ended::{ReportsEnd, WorkerEnds};
use crate::listen::listener::{ClosedByWorker, FirstSockets, Listeners};
use crate::listen::parting::Stopping;
use crate::replicas::{Announcement, announce, report_checks, tell_stops};
use crate::worker::{Published, Worker, WorkerParts};

/// Channels to all workers.
pub(crate) struct Control {
    /// The configuration in force.
    pub(crate) published: watch::Receiver<Published>,
    /// Whether to stop, and when.
    pub(crate) stopping: watch::Receiver<Stopping>,
    /// Relief from shortages, as ordered by the guard.
    pub(crate) relief: watch::Receiver<Relief>,
}

impl Control {
    pub(crate) fn new(
        published: &watch::Receiver<Published>,
        stopping: &watch::Receiver<Stopping>,
        relief: watch::Receiver<Relief>,
    ) -> Self {
        Self { published: published.clone(), stopping: stopping.clone(), relief }
    }
}

/// The generation of the configuration that each worker serves.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    generations: Vec<AtomicU64>,
    told: Notify,
}

/// One worker's entry in [`Acknowledged`].
pub(crate) struct Acknowledgement {
    pub(crate) all: Arc<Acknowledged>,
    pub(crate) worker: usize,
}

impl Acknowledged {
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        let generations = (0..workers).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { generations, told: Notify::new() })
    }

    /// The generation that every worker serves, or a later one; 0 while a worker has not started.
    pub(crate) fn by_all(&self) -> u64 {
        self.generations.iter().map(|generation| generation.load(Ordering::Acquire)).min().unwrap_or(0)
    }

    /// Number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.generations.len()
    }

    /// Waits until every worker serves a generation or a later one.
    pub(crate) async fn reached(&self, generation: u64) {
        loop {
            // Registered before the check, so that no notification in between is missed.
            let told = self.told.notified();
            if self.by_all() >= generation {
                return;
            }
            told.await;
        }
    }
}

impl Acknowledgement {
    fn note(&self, generation: u64) {
        self.all.generations[self.worker].store(generation, Ordering::Release);
        self.all.told.notify_waiters();
    }
}

/// Inputs of a worker's thread.
pub(crate) struct WorkerThread {
    /// The CPU that the thread is pinned to; none if it is not pinned.
    pub(crate) cpu: Option<usize>,
    /// The sockets that the worker listens at from the start.
    pub(crate) sockets: FirstSockets,
    pub(crate) control: Control,
    /// Reports the generation that the worker serves.
    pub(crate) acknowledgement: Acknowledgement,
    /// Reports ports that cannot be bound.
    pub(crate) closed: ClosedByWorker,
    /// Notified once per tick.
    pub(crate) ticks: Arc<Tick>,
    /// Reports the end of the thread.
    pub(crate) ends: Arc<WorkerEnds>,
    /// Purges for the other replicas, which one of the workers sends.
    pub(crate) announcements: Option<mpsc::Receiver<Announcement>>,
}

/// Runs a worker to its end.
pub(crate) fn run(thread: WorkerThread, parts: WorkerParts) -> io::Result<()> {
    // Dropped last: the worker's sockets are closed by then.
    let _report = ReportsEnd { ends: Arc::clone(&thread.ends), worker: thread.acknowledgement.worker };
    if let Some(cpu) = thread.cpu {
        let mut set = CpuSet::new();
        set.set(cpu);
        if let Err(error) = sched_setaffinity(None, &set) {
            tracing::warn!(cpu, %error, "cannot pin a worker to its cpu");
        }
    }
    let clock = parts.clock.clone();
    let event_loop = EventLoop::new(move || clock.update())?;
    event_loop.run(serve(thread, parts))
}

async fn serve(thread: WorkerThread, parts: WorkerParts) -> io::Result<()> {
    let Control { mut published, mut stopping, mut relief } = thread.control;
    let first = published.borrow_and_update().clone();
    let generation = first.snapshot.generation;
    let worker = Worker::new(parts, first);
    let listeners = Rc::new(Listeners::with(&worker, thread.sockets, thread.closed)?);
    let vital = &worker.vital;
    let ticking = tick(Rc::clone(&worker), Rc::clone(&listeners), thread.ticks);
    let ticking = reactor::spawn(vital.task(ticking));
    let attending = reactor::spawn(vital.task(attend(Rc::clone(&worker))));
    let announcing = reactor::spawn(vital.task(announce(Rc::clone(&worker), thread.announcements)));
    let reporting = reactor::spawn(vital.task(report_checks(Rc::clone(&worker))));
    listeners.install(&worker);
    let mut checks = worker.pool.board().changes();
    worker.follow_checks();
    thread.acknowledgement.note(generation);
    loop {
        tokio::select! {
            changed = published.changed() => {
                if changed.is_err() {
                    break;
                }
                let next = published.borrow_and_update().clone();
                let generation = next.snapshot.generation;
                worker.install(next);
                listeners.install(&worker);
                worker.follow_checks();
                thread.acknowledgement.note(generation);
            }
            () = vital.has_panicked() => panic!("a task that this worker cannot do without has panicked"),
            Ok(()) = checks.changed() => worker.apply_checks(),
            Ok(()) = relief.changed() => worker.relieve(*relief.borrow_and_update()),
            changed = stopping.changed() => match *stopping.borrow_and_update() {
                Stopping::After(time) if changed.is_ok() => worker.part_over(time),
                Stopping::HandedOver(time) if changed.is_ok() => {
                    listeners.let_go();
                    worker.part_over(time);
                }
                #[cfg(debug_assertions)]
                Stopping::Panic(of) if of == worker.index() => panic!("a worker panics, as a test wants it"),
                #[cfg(debug_assertions)]
                Stopping::Panic(_) if changed.is_ok() => {}
                _ => break,
            },
        }
    }
    listeners.close();
    worker.drain().await;
    worker.checkers.stop(&worker);
    attending.abort();
    announcing.abort();
    reporting.abort();
    ticking.abort();
    worker.tick();
    Ok(())
}

async fn tick(worker: Rc<Worker>, listeners: Rc<Listeners>, ticks: Arc<Tick>) {
    let mut silence = None;
    for count in 1_u64.. {
        if let Some(silence) = silence {
            // An endpoint becomes silent before the next tick.
            tokio::select! {
                () = ticks.wait() => {}
                () = reactor::sleep(silence) => {
                    worker.clock.update();
                    worker.attend_checks();
                    ticks.wait().await;
                }
            }
        } else {
            ticks.wait().await;
        }
        silence = tick_once(&worker, &listeners, &ticks, count);
    }
}

/// Returns the time after which a checked endpoint is silent, if that is before the next tick. It has a name
/// of its own in a profile: `cargo xtask instructions` leaves it out.
#[inline(never)]
fn tick_once(worker: &Rc<Worker>, listeners: &Listeners, ticks: &Tick, count: u64) -> Option<Duration> {
    worker.tick();
    let silence = worker.attend_checks();
    ticks.seen(worker.clock.now());
    admission::close_wanted(worker);
    tell_stops(worker);
    if ticks.is_quiet() || count.is_multiple_of(TICKS_PER_SWEEP) {
        worker.pool.sweep();
        listeners.retry(worker);
    }
    ticks.note_idle(worker.is_idle());
    silence.filter(|silence| *silence < TICK)
}

async fn attend(worker: Rc<Worker>) {
    worker.handshakes.attend(&worker.clock).await;
}
