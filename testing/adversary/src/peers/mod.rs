//! Other servers, which get the bytes that Forebay forwards: how do they split them into requests?
//!
//! Each answers with a field `X-Said: METHOD TARGET LENGTH`; nginx sends no length. A server that is not
//! installed is left out. Must not be in here: conclusions.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result, bail, ensure};
use testkit::{PATIENCE, left_out, needs, this_test};

use crate::http1::answer::{Answers, NoAnswer};

/// The last request, whose answer shows that everything before it was read.
const SENTINEL: &[u8] = b"GET /sentinel HTTP/1.1\r\nHost: sentinel\r\n\r\n";

/// A server to compare with.
#[derive(Debug)]
pub struct Peer {
    /// Name of its program.
    pub name: &'static str,
    child: Child,
    address: SocketAddr,
}

/// A request as a server saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Understood {
    /// Method of the request.
    pub method: String,
    /// Target of the request.
    pub target: String,
    /// Bytes of the body, if the server sends the number.
    pub length: Option<usize>,
}

/// A server's interpretation of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Requests that it answered.
    pub requests: Vec<Understood>,
    /// It refused what followed, with this status or by closing (0).
    pub refused: Option<u16>,
}

/// Starts one, with a folder of its own.
type Start = fn(&Path) -> Result<(Child, SocketAddr)>;

/// Starts all that are installed.
pub fn start(folder: &Path) -> Vec<Peer> {
    let starts: [(&'static str, Start); 4] =
        [("nginx", nginx), ("node", node), ("go", go), ("python3", python)];
    let installed = starts.into_iter().filter(|(name, _)| needs(name));
    let started = installed.map(|(name, start)| match start(folder) {
        Ok((child, address)) => Some(Peer { name, child, address }),
        Err(error) => {
            left_out(&this_test(), &format!("{name} does not start: {error:#}"));
            None
        }
    });
    started.flatten().collect()
}

// === impl Peer ===

impl Peer {
    /// Sends bytes on a connection of their own; `methods` are the intended ones.
    pub fn read(&self, bytes: &[u8], methods: &[&str]) -> Reading {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_nodelay(true).expect("a socket option");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        let mut sender = stream.try_clone().expect("a descriptor");
        // It may have closed already.
        let _ = std::io::Write::write_all(&mut sender, &[bytes, SENTINEL].concat());
        let mut answers = Answers::of(stream);
        let mut reading = Reading { requests: Vec::new(), refused: None };
        loop {
            let method = methods.get(reading.requests.len()).copied().unwrap_or("GET");
            match answers.next(method) {
                Ok(answer) if answer.status == 200 => {
                    let said = answer.field("x-said").unwrap_or_default();
                    let understood =
                        Understood::parse(said).unwrap_or_else(|| panic!("{}: {said:?}", self.name));
                    if understood.target == "/sentinel" {
                        return reading;
                    }
                    reading.requests.push(understood);
                }
                Ok(answer) => {
                    reading.refused = Some(answer.status);
                    return reading;
                }
                Err(NoAnswer::Ended(_)) => {
                    reading.refused = Some(0);
                    return reading;
                }
                Err(NoAnswer::Malformed(bytes)) => panic!("{} answers with {bytes}", self.name),
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

impl Understood {
    fn parse(said: &str) -> Option<Self> {
        let (rest, length) = said.trim_end().rsplit_once(' ')?;
        let (method, target) = rest.split_once(' ')?;
        let length = if length == "-" { None } else { Some(length.parse().ok()?) };
        Some(Self { method: method.to_owned(), target: target.to_owned(), length })
    }
}

// Commands of the servers. A server at port 0 prints its address in the first line.

fn node(_: &Path) -> Result<(Child, SocketAddr)> {
    telling(Command::new("node").arg(script("endpoint.js")))
}

fn python(_: &Path) -> Result<(Child, SocketAddr)> {
    telling(Command::new("python3").arg(script("endpoint.py")))
}

fn go(_: &Path) -> Result<(Child, SocketAddr)> {
    static BUILT: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build_go().map_err(|error| format!("{error:#}")));
    match built {
        Ok(program) => telling(&mut Command::new(program)),
        Err(error) => bail!("{error}"),
    }
}

/// Go's own cache makes this a matter of a moment where nothing has changed.
fn build_go() -> Result<PathBuf> {
    let of_home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(of_home)
        .context("no folder for the program")?;
    let program = cache.join("forebay/tools/bin/adversary-endpoint");
    let mut command = Command::new("go");
    command.current_dir(script("go")).env("GOFLAGS", "-mod=mod").env("GOPROXY", "off");
    let output = command.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg(".").output();
    let output = output.context("it does not run")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(program)
}

/// nginx does not print its port, so that it gets one. Another process may have taken the port meanwhile.
fn nginx(folder: &Path) -> Result<(Child, SocketAddr)> {
    let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr();
    nginx_at(folder, free()?).or_else(|_| nginx_at(folder, free()?))
}

fn nginx_at(folder: &Path, address: SocketAddr) -> Result<(Child, SocketAddr)> {
    let config = fs::read_to_string(script("nginx.conf"))?.replace("ADDRESS", &address.to_string());
    let path = folder.join("nginx.conf");
    fs::write(&path, config)?;
    let log = File::create(folder.join("nginx.log"))?;
    // The shell ends it when its standard input ends.
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"nginx "$@" & read -r _; kill $!; wait $!"#, "sh", "-p"])
        .arg(folder)
        .arg("-c")
        .arg(&path);
    command.args(["-g", "daemon off;"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
    let mut child = command.spawn()?;
    let patience = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        let said = fs::read_to_string(folder.join("nginx.log"))?;
        if !said.is_empty() || Instant::now() > patience {
            end(&mut child);
            bail!("{}", said.trim());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok((child, address))
}

/// Ends by itself when its standard input does, which is when this program has ended in whatever way.
fn telling(command: &mut Command) -> Result<(Child, SocketAddr)> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("it does not run")?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("it is piped")?).read_line(&mut line)?;
    if let Ok(port) = line.trim().parse::<u16>() {
        return Ok((child, (Ipv4Addr::LOCALHOST, port).into()));
    }
    end(&mut child);
    bail!("it does not tell where it listens: {line:?}")
}

fn script(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/endpoints")).join(name)
}

/// Each ends when its standard input does.
fn end(child: &mut Child) {
    drop(child.stdin.take());
    let _ = child.wait();
}
