//! The upgrade of the binary without a lost connection, and sockets that systemd has opened.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Canned, Connection, Forebay, H3Call, H3Client, PATIENCE, Setup, TlsClient, Upstream};

use crate::http3_rolling::{H3Loop, await_again, await_more};
use crate::{GET, setup};

/// A client that sends one request after the other until it is told to stop. Any fault ends the test.
pub(crate) struct Client {
    is_over: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Client {
    /// A client that keeps its connection until the server announces the end of it, or opens one for each
    /// request.
    pub(crate) fn start(connect: impl Fn() -> Connection + Send + 'static, keeps_alive: bool) -> Self {
        let (is_over, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (over, count) = (Arc::clone(&is_over), Arc::clone(&asked));
        let thread = std::thread::spawn(move || {
            let mut connection = connect();
            while !over.load(Ordering::Relaxed) {
                let response = connection.ask(GET);
                assert_eq!(response.status, 200);
                count.fetch_add(1, Ordering::Relaxed);
                let is_closed = response.header("connection").is_some_and(|value| value == "close");
                if is_closed || !keeps_alive {
                    connection = connect();
                }
            }
        });
        Self { is_over, asked, thread }
    }

    /// Waits for some more requests.
    pub(crate) fn await_more(&self, forebay: &Forebay) {
        let before = self.asked.load(Ordering::Relaxed);
        forebay.await_that("more requests", || self.asked.load(Ordering::Relaxed) > before + 20);
    }

    pub(crate) fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("no request fails");
    }
}

/// A download over HTTP/3 whose endpoint sends piece by piece.
pub(crate) struct Download {
    client: H3Client,
    call: H3Call,
    peer: Connection,
}

impl Download {
    const PIECE: &[u8] = &[b'x'; 16 << 10];
    const PIECES: usize = 8;

    /// A download that has its response's head.
    pub(crate) fn begin(forebay: &Forebay, upstream: &Upstream) -> Self {
        let client = H3Client::connect(forebay.https_address(), &TlsClient::new("web.test"));
        let mut call = client.call("GET", "web.test", "/", &[]);
        call.finish();
        let (mut peer, _) = upstream.accept_request();
        let len = Self::PIECES * Self::PIECE.len();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n"));
        assert_eq!(call.read_head().status, 200);
        Self { client, call, peer }
    }

    /// Goes on with all of them in turn to their ends. Each client sends from another port before each piece.
    pub(crate) fn finish(all: &mut [Self]) {
        for _ in 0..Self::PIECES {
            for Self { client, call, peer } in &mut *all {
                client.quic().rebind();
                peer.send(Self::PIECE);
                let mut len = 0;
                while len < Self::PIECE.len() {
                    len += call.read().expect("the download goes on").len();
                }
                assert_eq!(len, Self::PIECE.len());
            }
        }
        for Self { call, .. } in all {
            assert_eq!(call.read(), None);
        }
    }
}

/// The successor of a process, once it serves.
pub(crate) fn successor_of(forebay: &Forebay, process: i32) -> i32 {
    let line = forebay
        .await_log(&format!("a successor is started, and gets the listening sockets process={process} "));
    forebay.await_log(&format!(
        "the successor serves: this process finishes its requests and ends process={process}"
    ));
    let (_, successor) = line.split_once("successor=").expect("it is named");
    successor.trim().parse().expect("a number")
}

pub(crate) fn send(process: i32, signal: Signal) {
    kill_process(Pid::from_raw(process).expect("a process"), signal).expect("it runs");
}

/// The TCP sockets at which a process listens, by the numbers of their inodes, once for each descriptor.
fn listening(process: i32) -> Vec<String> {
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/{process}/net/{name}")).unwrap_or_default();
    let tables = read("tcp") + &read("tcp6");
    let lines = tables.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // State, and inode (proc_pid_net(5)).
    let listens = lines.filter(|line| line.get(3) == Some(&"0A")).filter_map(|line| line.get(9).copied());
    let listens: Vec<_> = listens.map(|inode| format!("socket:[{inode}]")).collect();
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it runs");
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let links = links.map(|link| link.display().to_string());
    let mut of_process: Vec<_> = links.filter(|link| listens.contains(link)).collect();
    of_process.sort_unstable();
    of_process
}

/// The nice values of the workers of a process.
fn niceness(process: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    // The name is in brackets, and the nice value the 17th field after it (proc_pid_stat(5)).
    let of_workers = stats.filter_map(|stat| {
        let (_, rest) = stat.split_once("(worker ")?;
        rest.split_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
    });
    of_workers.collect()
}

#[test]
fn upgrades_lose_no_request() {
    let upstream = Canned::saying("ok");
    let forebay = setup()
        .endpoint(upstream.address())
        .setting("keep-alive-requests", "1000000")
        .arguments(["--shutdown-grace-period=1"])
        .start();
    let address = forebay.address();
    let clients = [true, true, false].map(|keeps| Client::start(move || Connection::to(address), keeps));
    let mut process = forebay.pid().as_raw_nonzero().get();
    let (sockets, priorities) = (listening(process), niceness(process));
    assert_eq!(priorities.len(), 1);
    for _ in 0..3 {
        for client in &clients {
            client.await_more(&forebay);
        }
        send(process, Signal::USR2);
        process = successor_of(&forebay, process);
        assert_eq!(listening(process), sockets, "each is handed over once");
        assert_eq!(niceness(process), priorities, "the successor's workers have the same priority");
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

/// Setup with HTTP/3, whose old processes take a second to end connections without a request.
fn http3() -> Setup {
    setup()
        .tls("web.test")
        .setting("forebay-http3", "on")
        .arguments(["--shutdown-grace-period=1", "--workers=2"])
}

/// Waits until the last process answers at the admin port, and ends it.
pub(crate) fn end(forebay: Forebay, process: i32) {
    forebay.await_that("the admin server of the last one", || forebay.admin("/readyz").status == 200);
    send(process, Signal::TERM);
    let ended = forebay.wait();
    assert!(ended.status.success(), "{}", ended.status);
}

#[test]
fn upgrades_lose_no_request_over_http3() {
    let upstream = Canned::saying("ok");
    let forebay = http3().endpoint(upstream.address()).setting("keep-alive-requests", "1000000").start();
    let address = forebay.https_address();
    let clients = [(); 4].map(|()| H3Loop::start(move || address));
    let mut process = forebay.pid().as_raw_nonzero().get();
    for _ in 0..3 {
        await_more(&clients, &forebay);
        send(process, Signal::USR2);
        process = successor_of(&forebay, process);
    }
    await_more(&clients, &forebay);
    await_again(&clients, &forebay);
    for client in clients {
        client.stop();
    }
    end(forebay, process);
}

/// Each of four processes has a download when it is replaced, whose client sends from another port then.
#[test]
fn downloads_over_http3_go_on_while_the_binary_is_replaced() {
    let upstream = Upstream::new();
    let forebay = http3().annotation("proxy-buffering", "off").endpoint(upstream.address()).start();
    let first = forebay.pid().as_raw_nonzero().get();
    let mut process = first;
    let mut downloads = Vec::new();
    for number in 0..4 {
        if number > 0 {
            send(process, Signal::USR2);
            process = successor_of(&forebay, process);
        }
        downloads.push(Download::begin(&forebay, &upstream));
    }
    Download::finish(&mut downloads);
    drop(downloads);
    forebay.await_that("the packets of the process before", || {
        forebay.metrics().sum("forebay_http3_forwarded_packets_total", &[("result", "process")]) > 0
    });
    end(forebay, process);
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
