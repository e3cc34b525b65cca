//! Tasks, their results and their wakers. Never in here: sockets.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use super::on_reactor;
use crate::limits::LATE_PER_POLL_MIN;
use crate::{JoinError, Reactor, late, spawn, spawn_detached, yield_now};

/// Says when it is dropped.
struct Guard(Rc<Cell<bool>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

fn guard() -> (Guard, Rc<Cell<bool>>) {
    let is_dropped = Rc::new(Cell::new(false));
    (Guard(Rc::clone(&is_dropped)), is_dropped)
}

#[test]
fn tasks_take_turns() {
    let told = Rc::new(RefCell::new(Vec::new()));
    on_reactor(async {
        let speaker = |name: &'static str| {
            let told = Rc::clone(&told);
            spawn(async move {
                for _ in 0..3 {
                    told.borrow_mut().push(name);
                    yield_now().await;
                }
            })
        };
        for task in [speaker("a"), speaker("b")] {
            task.await.unwrap();
        }
    });
    assert_eq!(told.borrow().concat(), "ababab");
}

#[test]
fn a_task_has_a_result_or_the_reason_for_none() {
    on_reactor(async {
        assert_eq!(spawn(async { 7 }).await.unwrap(), 7);
        let task = spawn(pending::<()>());
        yield_now().await;
        task.abort();
        assert!(!task.is_finished(), "it is dropped in its turn");
        assert!(matches!(task.await, Err(JoinError::Aborted)));
        let task = spawn(async { panic!("as it should") });
        assert!(task.await.unwrap_err().is_panic());
    });
}

#[test]
fn a_panic_is_about_one_task() {
    on_reactor(async {
        let (guard, is_dropped) = guard();
        spawn_detached(async move {
            let _guard = guard;
            yield_now().await;
            panic!("as it should");
        });
        let other = spawn(async {
            for _ in 0..5 {
                yield_now().await;
            }
            "goes on"
        });
        assert_eq!(other.await.unwrap(), "goes on");
        assert!(is_dropped.get());
    });
}

#[test]
fn a_task_that_is_queued_or_waits_or_runs_can_be_aborted() {
    on_reactor(async {
        let (guard, is_dropped) = guard();
        let queued = spawn(async move {
            let _guard = guard;
            unreachable!("it never runs");
        });
        queued.abort();
        queued.abort();
        assert!(queued.await.is_err() && is_dropped.get());
        let own = Rc::new(RefCell::new(None::<crate::JoinHandle<()>>));
        let taken = Rc::clone(&own);
        let (guard, is_dropped) = self::guard();
        *own.borrow_mut() = Some(spawn(async move {
            let _guard = guard;
            if let Some(task) = &*taken.borrow() {
                task.abort();
            }
            pending::<()>().await;
        }));
        yield_now().await;
        yield_now().await;
        assert!(is_dropped.get(), "it has aborted itself");
        let done = spawn(async {});
        yield_now().await;
        done.abort();
        assert!(done.is_finished() && done.await.is_ok());
    });
}

/// The waker of a task that ends at once.
async fn stale_waker() -> Waker {
    spawn(poll_fn(|cx| Poll::Ready(cx.waker().clone()))).await.unwrap()
}

#[test]
fn a_waker_may_outlive_its_task_and_its_reactor() {
    let waker = on_reactor(async {
        let waker = stale_waker().await;
        waker.wake_by_ref();
        // The next task has the slot, and is not the one that is meant.
        let polls = Rc::new(Cell::new(0));
        let counted = Rc::clone(&polls);
        let next = spawn(poll_fn(move |_| {
            counted.set(counted.get() + 1);
            Poll::<()>::Pending
        }));
        yield_now().await;
        waker.wake_by_ref();
        thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join()).unwrap();
        yield_now().await;
        yield_now().await;
        assert_eq!(polls.get(), 1);
        next.abort();
        waker
    });
    waker.wake_by_ref();
    thread::spawn(move || waker.wake()).join().unwrap();
}

#[test]
fn a_task_that_wakes_itself_runs_again_once() {
    let polls = Rc::new(Cell::new(0));
    let counted = Rc::clone(&polls);
    on_reactor(async move {
        spawn(poll_fn(move |cx| {
            counted.set(counted.get() + 1);
            cx.waker().wake_by_ref();
            let twice = cx.waker().clone();
            twice.wake();
            if counted.get() == 3 { Poll::Ready(()) } else { Poll::Pending }
        }))
        .await
        .unwrap();
        yield_now().await;
    });
    assert_eq!(polls.get(), 3);
}

#[test]
fn another_thread_wakes_a_reactor_that_sleeps() {
    for _ in 0..100 {
        on_reactor(async {
            let mut waking = None;
            let is_woken = Arc::new(AtomicBool::new(false));
            poll_fn(|cx| {
                if is_woken.load(Ordering::Acquire) {
                    return Poll::Ready(());
                }
                let (waker, is_woken) = (cx.waker().clone(), Arc::clone(&is_woken));
                waking.get_or_insert_with(|| {
                    thread::spawn(move || {
                        is_woken.store(true, Ordering::Release);
                        waker.wake();
                    })
                });
                Poll::Pending
            })
            .await;
            waking.expect("it has waited").join().unwrap();
        });
    }
}

#[test]
fn tasks_are_dropped_with_the_last_reactor_of_a_thread() {
    let (first, second) = (Reactor::new().unwrap(), Reactor::new().unwrap());
    let (guard, is_dropped) = guard();
    let handle = spawn(async move {
        let _guard = guard;
        pending::<()>().await;
    });
    first.run(yield_now());
    drop(first);
    second.run(yield_now());
    assert!(!is_dropped.get() && !handle.is_finished());
    drop(second);
    assert!(is_dropped.get() && handle.is_finished());
    handle.abort();
}

/// Begins a task when it is dropped.
struct Spawner;

impl Drop for Spawner {
    fn drop(&mut self) {
        spawn_detached(pending());
    }
}

#[test]
fn a_task_may_begin_another_when_it_is_dropped() {
    let reactor = Reactor::new().unwrap();
    reactor.run(async {
        let spawner = Spawner;
        spawn_detached(async move {
            let _spawner = spawner;
            pending::<()>().await;
        });
    });
}

#[test]
fn tasks_go_on_in_the_next_run() {
    let reactor = Reactor::new().unwrap();
    let task = spawn(async {
        yield_now().await;
        5
    });
    reactor.run(async {});
    assert_eq!(reactor.run(task).unwrap(), 5);
}

#[test]
#[should_panic(expected = "a reactor is not run by its own tasks")]
fn a_run_within_a_run_is_a_mistake() {
    let reactor = Reactor::new().unwrap();
    reactor.run(async { reactor.run(async {}) });
}

#[test]
fn a_function_is_called_after_each_poll() {
    let polls = Rc::new(Cell::new(0));
    let counted = Rc::clone(&polls);
    let mut reactor = Reactor::new().unwrap();
    reactor.set_after_poll(move || counted.set(counted.get() + 1));
    reactor.run(async {
        yield_now().await;
        yield_now().await;
    });
    assert_eq!(polls.get(), 2);
}

/// A flag of a task that another thread sets.
#[derive(Default)]
struct Flag {
    is_set: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Flag {
    fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waker.lock().unwrap().take() {
            waker.wake();
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        *self.waker.lock().unwrap() = Some(cx.waker().clone());
        if self.is_set.swap(false, Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[test]
fn no_wake_of_other_threads_is_lost() {
    const ROUNDS: usize = 200;
    let pairs: Vec<_> = (0..50).map(|_| Arc::new((Flag::default(), Flag::default()))).collect();
    let there = pairs.clone();
    // One reactor answers the other, as often as each of the tasks asks.
    let answering = thread::spawn(move || {
        on_reactor(async {
            let tasks: Vec<_> = there
                .into_iter()
                .map(|pair| {
                    spawn(async move {
                        for _ in 0..ROUNDS {
                            poll_fn(|cx| pair.0.poll(cx)).await;
                            pair.1.set();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
    on_reactor(async {
        let tasks: Vec<_> = pairs
            .into_iter()
            .map(|pair| {
                spawn(async move {
                    for _ in 0..ROUNDS {
                        pair.0.set();
                        poll_fn(|cx| pair.1.poll(cx)).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    answering.join().unwrap();
}

#[test]
fn late_tasks_run_behind_others_and_few_at_a_time() {
    const LATE: usize = 3 * LATE_PER_POLL_MIN;
    let told = Rc::new(RefCell::new(Vec::new()));
    on_reactor(async {
        let wakers = Rc::new(RefCell::new(Vec::new()));
        let waiting = |is_late: bool, number: usize| {
            let (told, wakers) = (Rc::clone(&told), Rc::clone(&wakers));
            let mut has_waited = false;
            let wait = poll_fn(move |cx| {
                if std::mem::replace(&mut has_waited, true) {
                    return Poll::Ready(());
                }
                wakers.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            });
            spawn(async move {
                if is_late {
                    late(wait).await;
                } else {
                    wait.await;
                }
                told.borrow_mut().push(number);
                // A task that was late is so no more.
                yield_now().await;
                told.borrow_mut().push(1000 + number);
            })
        };
        let tasks: Vec<_> = (0..LATE).map(|number| waiting(true, number)).collect();
        let other = waiting(false, 999);
        yield_now().await;
        wakers.take().into_iter().for_each(Waker::wake);
        other.await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let told = told.take();
    assert_eq!(told[0], 999, "one that is not late comes first");
    let place = |number: usize| told.iter().position(|one| *one == number).unwrap();
    assert!(place(1999) < place(LATE - 1), "it goes on before the last late ones");
    assert!(place(1000) < place(LATE - 1), "and so does one that was late");
    assert!((1..LATE).all(|number| place(number - 1) < place(number)), "in order");
}
