//! A TLS session over a blocking socket that one thread may read while another writes.
//!
//! Only the holder of `sending` writes to the socket, so that records leave in the order in which they were
//! made; no thread waits for the socket while it holds `state`.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::Connection;

use crate::TlsInfo;
use crate::socket::set_patience;

/// One end of a session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stream: TcpStream,
    state: Arc<Mutex<State>>,
    sending: Arc<Mutex<()>>,
}

#[derive(Debug)]
struct State {
    tls: Connection,
    /// Decrypted bytes that were not read yet.
    plain: VecDeque<u8>,
}

const RECORDS_BYTES: usize = 16 * 1024;

impl Session {
    /// Performs the handshake.
    pub(crate) fn begin(stream: TcpStream, connection: Connection) -> io::Result<Self> {
        set_patience(&stream);
        let state = State { tls: connection, plain: VecDeque::new() };
        let session = Self { stream, state: Arc::new(Mutex::new(state)), sending: Arc::default() };
        session.flush()?;
        while session.state().tls.is_handshaking() {
            session.receive()?;
            session.flush()?;
        }
        Ok(session)
    }

    pub(crate) fn info(&self) -> TlsInfo {
        TlsInfo::of(&self.state().tls)
    }

    /// Another handle to it.
    pub(crate) fn again(&self) -> Self {
        Self {
            stream: self.stream.try_clone().expect("a descriptor"),
            state: Arc::clone(&self.state),
            sending: Arc::clone(&self.sending),
        }
    }

    /// Sends the `close_notify` of this direction.
    pub(crate) fn close(&self) -> io::Result<()> {
        self.state().tls.send_close_notify();
        self.flush()
    }

    /// Whether all received data has been read.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut state = self.state();
        let processed = state.tls.process_new_packets().expect("what was read was in order");
        state.plain.is_empty() && !processed.peer_has_closed()
    }

    pub(crate) fn read(&self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.state().read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            self.receive()?;
            self.flush()?;
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let _turn = self.sending.lock().expect("no thread panics with it");
        let len = self.state().tls.writer().write(bytes)?;
        self.send_records()?;
        Ok(len)
    }

    /// Waits for the other end to send something.
    fn receive(&self) -> io::Result<()> {
        let mut bytes = [0; RECORDS_BYTES];
        let len = (&self.stream).read(&mut bytes)?;
        let taken = self.state().take_in(&bytes[..len]);
        if taken.is_err() {
            // The alert that this end answers with; the other may be gone.
            let _ = self.flush();
        }
        taken
    }

    fn flush(&self) -> io::Result<()> {
        let _turn = self.sending.lock().expect("no thread panics with it");
        self.send_records()
    }

    fn send_records(&self) -> io::Result<()> {
        let mut records = Vec::new();
        {
            let mut state = self.state();
            while state.tls.wants_write() {
                state.tls.write_tls(&mut records)?;
            }
        }
        (&self.stream).write_all(&records)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with it")
    }
}

impl State {
    /// Processes received records; none mean that the stream has ended.
    fn take_in(&mut self, mut records: &[u8]) -> io::Result<()> {
        let is_end = records.is_empty();
        loop {
            let len = self.tls.read_tls(&mut records)?;
            let processed = self
                .tls
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let mut plain = vec![0; processed.plaintext_bytes_to_read()];
            self.tls.reader().read_exact(&mut plain)?;
            self.plain.extend(plain);
            if is_end && self.tls.is_handshaking() {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed instead of a handshake"));
            }
            // After a `close_notify` no more is taken.
            if records.is_empty() || len == 0 {
                return Ok(());
            }
        }
    }

    /// `WouldBlock` if more has to come first; `UnexpectedEof` if the stream ended without a `close_notify`.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.plain.is_empty() { self.tls.reader().read(out) } else { self.plain.read(out) }
    }
}
