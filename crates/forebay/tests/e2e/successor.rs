//! The upgrade of the binary without a lost connection, and sockets that systemd has opened.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Canned, Connection, Forebay, PATIENCE};

use crate::{GET, setup};

/// A client that sends one request after the other until it is told to stop. Any fault ends the test.
struct Client {
    is_over: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Client {
    /// A client that keeps its connection until the server announces the end of it, or opens one for each
    /// request.
    fn start(address: SocketAddr, keeps_alive: bool) -> Self {
        let (is_over, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (over, count) = (Arc::clone(&is_over), Arc::clone(&asked));
        let thread = std::thread::spawn(move || {
            let mut connection = Connection::to(address);
            while !over.load(Ordering::Relaxed) {
                let response = connection.ask(GET);
                assert_eq!(response.status, 200);
                count.fetch_add(1, Ordering::Relaxed);
                let is_closed = response.header("connection").is_some_and(|value| value == "close");
                if is_closed || !keeps_alive {
                    connection = Connection::to(address);
                }
            }
        });
        Self { is_over, asked, thread }
    }

    /// Waits for some more requests.
    fn await_more(&self, forebay: &Forebay) {
        let before = self.asked.load(Ordering::Relaxed);
        forebay.await_that("more requests", || self.asked.load(Ordering::Relaxed) > before + 20);
    }

    fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("no request fails");
    }
}

/// The successor of a process, once it serves.
fn successor_of(forebay: &Forebay, process: i32) -> i32 {
    let line = forebay
        .await_log(&format!("a successor is started, and gets the listening sockets process={process} "));
    forebay.await_log(&format!(
        "the successor serves: this process finishes its requests and ends process={process}"
    ));
    let (_, successor) = line.split_once("successor=").expect("it is named");
    successor.trim().parse().expect("a number")
}

fn send(process: i32, signal: Signal) {
    kill_process(Pid::from_raw(process).expect("a process"), signal).expect("it runs");
}

#[test]
fn upgrades_lose_no_request() {
    let upstream = Canned::saying("ok");
    let forebay = setup()
        .endpoint(upstream.address())
        .setting("keep-alive-requests", "1000000")
        .arguments(["--shutdown-grace-period=1"])
        .start();
    let clients = [true, true, false].map(|keeps_alive| Client::start(forebay.address(), keeps_alive));
    let first = forebay.pid().as_raw_nonzero().get();
    let mut process = first;
    for _ in 0..3 {
        for client in &clients {
            client.await_more(&forebay);
        }
        send(process, Signal::USR2);
        process = successor_of(&forebay, process);
    }
    for client in &clients {
        client.await_more(&forebay);
    }
    forebay.await_that("the admin server of the last one", || {
        let answer = forebay.admin("/readyz");
        answer.status == 200
    });
    clients.into_iter().for_each(Client::stop);
    // The last one holds the ends of the pipes that the test reads.
    send(process, Signal::TERM);
    let ended = forebay.wait();
    assert!(ended.status.success(), "{}", ended.status);
}

#[test]
fn without_a_successor_that_serves_nothing_changes() {
    let (upstream, folder) = (Canned::saying("ok"), tempfile::tempdir().unwrap());
    let state = folder.path().join("canaries.json");
    let forebay = setup()
        .endpoint(upstream.address())
        .arguments([format!("--canary-state={}", state.display())])
        .start();
    let mut client = forebay.client();
    assert_eq!(client.ask(GET).status, 200);
    // A successor cannot read this, and ends.
    std::fs::write(&state, "{").unwrap();
    forebay.signal(Signal::USR2);
    let line = forebay.await_log("there is no successor: this process goes on");
    assert!(line.contains("it has ended before it served"), "{line}");
    assert_eq!((client.ask(GET).status, forebay.get("/").status), (200, 200));
    assert_eq!(forebay.admin("/readyz").status, 200);
}

#[test]
fn sockets_of_systemd_are_taken_over_and_it_is_told() {
    let (upstream, folder) = (Canned::saying("ok"), tempfile::tempdir().unwrap());
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port()));
    // A connection that comes before the process does waits for it.
    let mut early = Connection::to(address);
    let inherited = rustix::io::dup(&listener).unwrap();
    drop(listener);
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let script = format!(
        "exec 3<&{number} {number}<&-; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=http exec \"$@\"",
        number = inherited.as_raw_fd()
    );
    let forebay = setup()
        .endpoint(upstream.address())
        .variable("NOTIFY_SOCKET", path.display().to_string())
        .under(["bash", "-c", &script, "bash"])
        .start();
    assert_eq!(early.ask(GET).status, 200);
    assert_eq!(forebay.address().port(), address.port());
    let mut told = [0; 100];
    let len = manager.recv(&mut told).unwrap();
    let expected = format!("READY=1\nMAINPID={}", forebay.pid().as_raw_nonzero());
    assert_eq!(std::str::from_utf8(&told[..len]).unwrap(), expected);
    forebay.signal(Signal::TERM);
    let len = manager.recv(&mut told).unwrap();
    assert_eq!(&told[..len], b"STOPPING=1");
    assert!(forebay.wait().status.success());
    // The manager has the socket still, and connections wait there for the next process.
    Connection::to(address);
    drop(inherited);
}
