//! A real redis-server, at an address of its own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::output::Output;
use crate::{Certificate, PATIENCE};

/// The program, from Debian's package of the same name.
const PROGRAM: &str = "redis-server";
/// The line that it logs once it takes commands.
const READY: &str = "Ready to accept connections";

/// A running redis-server without persistence. Killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    address: SocketAddr,
    tls_address: SocketAddr,
    folder: TempDir,
    arguments: Vec<String>,
    /// The log is read, so that the server never blocks on writing it.
    log: Output,
}

impl RedisServer {
    /// Starts one with further arguments, and waits until it takes commands; `None` where the test has to be
    /// left out ([`needs`](crate::needs)).
    pub fn start(arguments: &[&str]) -> Option<Self> {
        Self::start_with(None::<fn(&str) -> Certificate>, arguments)
    }

    /// One that takes connections over TLS too, with a certificate for its address.
    pub fn start_tls(sign: impl FnOnce(&str) -> Certificate, arguments: &[&str]) -> Option<Self> {
        Self::start_with(Some(sign), arguments)
    }

    fn start_with(sign: Option<impl FnOnce(&str) -> Certificate>, arguments: &[&str]) -> Option<Self> {
        if !crate::needs(PROGRAM) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (address, tls_address) = free_addresses();
        let mut all: Vec<String> = Vec::new();
        let mut say = |name: &str, value: String| all.extend([format!("--{name}"), value]);
        say("bind", address.ip().to_string());
        say("port", address.port().to_string());
        say("save", String::new());
        say("dir", folder.path().display().to_string());
        if let Some(sign) = sign {
            let certificate = sign(&tls_address.ip().to_string());
            let file = |name: &str, text: String| {
                let path = folder.path().join(name);
                std::fs::write(&path, text).expect("a file");
                path.display().to_string()
            };
            say("tls-port", tls_address.port().to_string());
            say("tls-cert-file", file("certificate.pem", certificate.chain_pem()));
            say("tls-ca-cert-file", file("authority.pem", certificate.chain_pem()));
            say("tls-key-file", file("key.pem", certificate.key_pem()));
            say("tls-auth-clients", "no".to_owned());
        }
        all.extend(arguments.iter().copied().map(str::to_owned));
        let (child, log) = launch(&all);
        Some(Self { child, address, tls_address, folder, arguments: all, log })
    }

    /// Its address in clear.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address for TLS.
    pub fn tls_address(&self) -> SocketAddr {
        self.tls_address
    }

    /// Writes a file into its folder.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    /// Kills the server, so that its data is lost.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Starts it again once it was killed.
    pub fn start_again(&mut self) {
        (self.child, self.log) = launch(&self.arguments);
    }

    /// Stops its process; connections stay open.
    pub fn halt(&self) {
        self.signal(Signal::STOP);
    }

    /// Has it go on.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Sends a command, and returns the lines of its answer that are strings and numbers.
    pub fn ask(&self, command: &str) -> Vec<String> {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // It closes the connection behind the second answer.
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).expect("a connection");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let lines = text.lines().filter(|line| !line.starts_with(['*', '$']) && *line != "+OK");
        lines.map(|line| line.trim_start_matches([':', '+']).to_owned()).collect()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(arguments: &[String]) -> (Child, Output) {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().expect("it runs");
    let log = Output::read(child.stdout.take().expect("it is piped"));
    let is_ready = log.find(|line| line.contains(READY)).is_some();
    assert!(is_ready, "{PROGRAM} does not begin: {}", log.so_far().join("\n"));
    (child, log)
}

/// Two ports of a loopback address that nobody else uses: a server that is restarted gets the same ones.
fn free_addresses() -> (SocketAddr, SocketAddr) {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    let [_, number] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let address = Ipv4Addr::new(127, 100 + number % 100, high, low.clamp(1, 254));
    let listeners = [(); 2].map(|()| TcpListener::bind((address, 0)).expect("a free port"));
    let [one, other] = listeners.map(|listener| listener.local_addr().expect("it listens"));
    (one, other)
}
