//! A connected socket, cleartext or TLS, that can be read and written at the same time from one task.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use reactor::{Interest, TcpStream};
use rustix::io::writev;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::io::buffer::Buffer;
use crate::io::deadline::{Deadline, Elapsed};
use crate::io::pace::Direction;
use crate::io::tls::Session;

/// Borrowed only during a poll, so that a body can be sent while the response is read.
pub(crate) struct Socket(RefCell<Transport>);

enum Transport {
    Clear(TcpStream),
    /// On the heap, so that a cleartext connection does not pay for its size.
    Tls(Box<Session>),
}

/// The rest of a few slices that is still to be written.
pub(crate) struct Unwritten<'a>([&'a [u8]; SLICES_MAX]);

/// A head and a body, or a chunk: size, content, CRLF.
const SLICES_MAX: usize = 3;

impl Socket {
    pub(crate) fn clear(stream: TcpStream) -> Self {
        Self(RefCell::new(Transport::Clear(stream)))
    }

    pub(crate) fn tls(session: Box<Session>) -> Self {
        Self(RefCell::new(Transport::Tls(session)))
    }

    /// Whether the socket's bytes are the plaintext, so that the kernel can splice them.
    pub(crate) fn is_clear(&self) -> bool {
        matches!(&*self.0.borrow(), Transport::Clear(_))
    }

    /// Resets the connection: data in flight is lost, and no `TIME_WAIT` remains.
    pub(crate) fn reset(self) {
        let stream = match self.0.into_inner() {
            Transport::Clear(stream) => stream,
            Transport::Tls(session) => session.into_stream(),
        };
        // A socket that fails here is closed already.
        let _ = stream.set_zero_linger();
    }

    /// Sends `close_notify` to a peer under TLS; a cleartext peer sees the connection end.
    pub(crate) fn notify_close(&self) {
        if let Transport::Tls(session) = &mut *self.0.borrow_mut() {
            session.notify_close();
        }
    }

    /// Moves the connection to the event loop of the calling worker.
    pub(crate) fn adopt(self) -> io::Result<Self> {
        Ok(match self.0.into_inner() {
            Transport::Clear(stream) => Self::clear(TcpStream::from_std(stream.into_std()?)?),
            Transport::Tls(session) => Self::tls(Box::new(session.adopt()?)),
        })
    }

    /// Reads into the room of the buffer, which must not be empty; 0 is the end.
    fn poll_read_up_to(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut Buffer,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        let room = buffer.room().min(bytes_max);
        debug_assert!(room > 0, "a read into no room looks like the end");
        let free = &mut buffer.free()[..room];
        let len = match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => ready!(stream.poll_read(cx, free))?,
            Transport::Tls(session) => ready!(session.poll_read(cx, free))?,
        };
        buffer.filled(len);
        Poll::Ready(Ok(len))
    }

    /// Writes as much as there is room for.
    pub(crate) fn poll_write_some(
        &self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => stream.poll_write_vectored(cx, slices),
            Transport::Tls(session) => session.poll_write(cx, slices),
        }
    }

    /// Flushes data that has been encrypted.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(_) => Poll::Ready(Ok(())),
            Transport::Tls(session) => session.poll_flush(cx),
        }
    }

    /// Reads into a buffer that keeps its memory only if bytes arrived: taking and returning it costs less
    /// than checking readiness first.
    pub(crate) fn poll_fill(&self, cx: &mut Context<'_>, buffer: &mut Buffer) -> Poll<io::Result<usize>> {
        self.poll_fill_up_to(cx, buffer, usize::MAX)
    }

    /// As [`poll_fill`](Self::poll_fill), with at most `max` bytes.
    pub(crate) fn poll_fill_up_to(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut Buffer,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        buffer.reserve_large();
        self.poll_reserved(cx, buffer, bytes_max)
    }

    /// As [`poll_fill`](Self::poll_fill), for the rest of a long body.
    pub(crate) fn poll_fill_bulk(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut Buffer,
    ) -> Poll<io::Result<usize>> {
        buffer.reserve_bulk();
        self.poll_reserved(cx, buffer, usize::MAX)
    }

    /// As [`poll_fill`](Self::poll_fill), for a request head.
    pub(crate) fn poll_fill_small(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut Buffer,
    ) -> Poll<io::Result<usize>> {
        buffer.reserve_small();
        self.poll_reserved(cx, buffer, usize::MAX)
    }

    fn poll_reserved(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut Buffer,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        let read = self.poll_read_up_to(cx, buffer, bytes_max);
        if read.is_pending() {
            buffer.release();
        }
        read
    }

    /// Whether the peer has closed or sent something, without reading it: 0 is the end. Unless the event
    /// loop has marked the socket as ready, there is no system call.
    pub(crate) fn poll_peek(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => stream.poll_peek(cx, &mut [0]),
            Transport::Tls(session) => session.poll_peek(cx),
        }
    }

    /// As [`poll_peek`](Self::poll_peek), without a task and its budget: `WouldBlock` where nothing has
    /// arrived.
    pub(crate) fn peek_noted(&self) -> io::Result<usize> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => stream.try_io(Interest::READABLE, || peek(stream)),
            Transport::Tls(session) => session.peek_noted(),
        }
    }

    /// Number of bytes that can be read at this moment, without reading them.
    pub(crate) fn peek_now(&self) -> io::Result<usize> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => peek(stream),
            Transport::Tls(session) => session.peek_now(),
        }
    }

    /// Writes all of it, in one system call where the socket has room.
    pub(crate) fn poll_write_all(
        &self,
        cx: &mut Context<'_>,
        unwritten: &mut Unwritten<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => poll_write_clear(stream, cx, unwritten),
            Transport::Tls(session) => {
                while unwritten.len() > 0 {
                    let len = ready!(session.poll_write(cx, &unwritten.0.map(IoSlice::new)))?;
                    unwritten.advance(len);
                }
                // Encrypted bytes may still be buffered.
                session.poll_flush(cx)
            }
        }
    }

    /// The same, within the timeout between two reads of the peer. Bytes that the peer has not taken by then
    /// stay in `unwritten`.
    pub(crate) async fn write_all(
        &self,
        unwritten: &mut Unwritten<'_>,
        timeout: Duration,
        deadline: &Deadline,
    ) -> Result<io::Result<()>, Elapsed> {
        // The socket nearly always has room; the wait is kept out of the callers' futures.
        match self.poll_write_all(&mut Context::from_waker(Waker::noop()), unwritten) {
            Poll::Ready(written) => Ok(written),
            Poll::Pending => Box::pin(self.write_rest(unwritten, timeout, deadline)).await,
        }
    }

    async fn write_rest(
        &self,
        unwritten: &mut Unwritten<'_>,
        timeout: Duration,
        deadline: &Deadline,
    ) -> Result<io::Result<()>, Elapsed> {
        let mut left = unwritten.len();
        let poll = |cx: &mut Context<'_>| {
            let written = self.poll_write_all(cx, unwritten);
            if unwritten.len() < left {
                deadline.note_passed(Direction::Write, left - unwritten.len());
                left = unwritten.len();
                if written.is_pending() {
                    deadline.start_paced(Direction::Write, timeout);
                }
            }
            written
        };
        deadline.within_paced(Direction::Write, timeout, poll, |_| 0).await
    }

    /// Closes the sending side.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => Poll::Ready(stream.shutdown_write()),
            Transport::Tls(session) => session.poll_shutdown(cx),
        }
    }

    /// Calls a function with the descriptor of a cleartext socket when it is ready.
    pub(crate) fn poll_io<T>(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        mut act: impl FnMut(&TcpStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let transport = self.0.borrow();
        let Transport::Clear(stream) = &*transport else {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        };
        stream.poll_io(interest, cx, || act(stream))
    }
}

/// Peeks at the received bytes, again with each new piece, until `look` has seen enough: it returns
/// `WouldBlock` for more, which is returned only where no more will arrive. The deadline must be set.
pub(crate) async fn look_until_enough<T>(
    stream: &TcpStream,
    deadline: &Deadline,
    mut look: impl FnMut() -> io::Result<T>,
) -> Result<io::Result<T>, Elapsed> {
    loop {
        let mut ready = pin!(stream.ready(Interest::READABLE));
        let ready = deadline.guard(|cx| ready.as_mut().poll(cx)).await?;
        match stream.try_io(Interest::READABLE, &mut look) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !ready.is_read_closed() => {}
            done => return Ok(done),
        }
    }
}

/// Whether the process or the machine has run out of descriptors.
pub(crate) fn is_about_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn peek(stream: &TcpStream) -> io::Result<usize> {
    let (len, _) = recv(stream, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(len)
}

/// Writes at once where the socket has room, which it nearly always has: the task is registered only when
/// there is none.
fn poll_write_clear(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    unwritten: &mut Unwritten<'_>,
) -> Poll<io::Result<()>> {
    while let Some(first) = unwritten.0.iter().position(|slice| !slice.is_empty()) {
        let is_only = unwritten.0[first + 1..].iter().all(|slice| slice.is_empty());
        let written = stream.try_io(Interest::WRITABLE, || {
            // Libc's calls are avoided, as each can be a cancellation point of a thread.
            Ok(if is_only {
                send(stream, unwritten.0[first], SendFlags::NOSIGNAL)?
            } else {
                writev(stream, &unwritten.0.map(IoSlice::new))?
            })
        });
        let len = match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                ready!(stream.poll_write_ready(cx));
                continue;
            }
            written => written?,
        };
        if len == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        unwritten.advance(len);
    }
    Poll::Ready(Ok(()))
}

impl<'a> Unwritten<'a> {
    pub(crate) fn new(slices: &[&'a [u8]]) -> Self {
        let mut all: [&[u8]; SLICES_MAX] = [&[]; SLICES_MAX];
        all[..slices.len()].copy_from_slice(slices);
        Self(all)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|slice| slice.len()).sum()
    }

    fn advance(&mut self, mut written: usize) {
        for slice in &mut self.0 {
            let taken = written.min(slice.len());
            *slice = &slice[taken..];
            written -= taken;
        }
    }
}
