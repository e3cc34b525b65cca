//! A connected socket, in clear or under TLS, that can be read and written at the same time from one task.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustix::io::writev;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::buffer::Buffer;
use crate::deadline::{Deadline, Elapsed};
use crate::pace::Direction;
use crate::tls::Session;

/// Borrowed only while it is polled, so that a body can be sent while the answer to it is read.
pub(crate) struct Socket(RefCell<Transport>);

enum Transport {
    Clear(TcpStream),
    /// On the heap, so that it costs a connection in clear nothing.
    Tls(Box<Session>),
}

/// What is still to be written of a few slices.
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

    /// Whether its bytes are those that the peer means, so that the kernel can pass them on unseen.
    pub(crate) fn is_clear(&self) -> bool {
        matches!(&*self.0.borrow(), Transport::Clear(_))
    }

    /// Closes the connection without a word: what is in flight is lost, and no `TIME_WAIT` stays behind.
    pub(crate) fn reset(self) {
        let stream = match self.0.into_inner() {
            Transport::Clear(stream) => stream,
            Transport::Tls(session) => session.into_stream(),
        };
        // A socket that refuses is gone already.
        let _ = stream.set_zero_linger();
    }

    /// Tells a peer under TLS that all has been sent that was to be; one in clear sees the connection end.
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

    /// Reads into the room that the buffer has, of which there must be some; 0 is the end.
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
            Transport::Clear(stream) => {
                // Only `poll_read` knows that a short read has drained the socket, and saves the read that would say so.
                let mut space = ReadBuf::new(free);
                ready!(Pin::new(stream).poll_read(cx, &mut space))?;
                space.filled().len()
            }
            Transport::Tls(session) => ready!(session.poll_read(cx, free))?,
        };
        buffer.filled(len);
        Poll::Ready(Ok(len))
    }

    /// Reads into the room of somebody else's buffer.
    pub(crate) fn poll_read_into(
        &self,
        cx: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => Pin::new(stream).poll_read(cx, space),
            Transport::Tls(session) => {
                let len = ready!(session.poll_read(cx, space.initialize_unfilled()))?;
                space.advance(len);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Writes as much as there is room for.
    pub(crate) fn poll_write_some(
        &self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Transport::Tls(session) => session.poll_write(cx, slices),
        }
    }

    /// Sends on what has been written.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(session) => session.poll_flush(cx),
        }
    }

    /// Reads into a buffer that keeps its memory only if something came: to take it and give it back costs less than to
    /// ask for readiness first.
    pub(crate) fn poll_fill(&self, cx: &mut Context<'_>, buffer: &mut Buffer) -> Poll<io::Result<usize>> {
        self.poll_fill_up_to(cx, buffer, usize::MAX)
    }

    /// As [`poll_fill`](Self::poll_fill), of at most so many bytes.
    pub(crate) fn poll_fill_up_to(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut Buffer,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        buffer.reserve_large();
        self.poll_reserved(cx, buffer, bytes_max)
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

    /// Whether the peer has closed or sent something, without taking it: 0 is the end. Where the event loop has noted
    /// nothing, the socket is not asked.
    pub(crate) fn poll_peek(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => stream.poll_peek(cx, &mut ReadBuf::new(&mut [0])),
            Transport::Tls(session) => session.poll_peek(cx),
        }
    }

    /// As [`poll_peek`](Self::poll_peek), without a task and its budget: `WouldBlock` where nothing has come.
    pub(crate) fn peek_noted(&self) -> io::Result<usize> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => stream.try_io(Interest::READABLE, || peek(stream)),
            Transport::Tls(session) => session.peek_noted(),
        }
    }

    /// What is to be read at this moment, without taking it.
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
                // What is encrypted is not yet written.
                session.poll_flush(cx)
            }
        }
    }

    /// The same, with the time that the peer has between two of its reads. What it has not taken by then stays in `unwritten`.
    pub(crate) async fn write_all(
        &self,
        unwritten: &mut Unwritten<'_>,
        timeout: Duration,
        deadline: &Deadline,
    ) -> Result<io::Result<()>, Elapsed> {
        // Nearly always there is room, and the wait for it takes none in the futures of those who write.
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

    /// Says to the peer that no more will come.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.0.borrow_mut() {
            Transport::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(session) => session.poll_shutdown(cx),
        }
    }

    /// Does something with the descriptor of a socket in clear when it is ready for it.
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
        loop {
            ready!(if interest.is_readable() {
                stream.poll_read_ready(cx)
            } else {
                stream.poll_write_ready(cx)
            })?;
            match stream.try_io(interest, || act(stream)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

/// Looks at what has come, anew with each piece, until `look` has seen enough: `WouldBlock` says that it has not, and is returned
/// only where no more will come. The deadline has been set.
pub(crate) async fn look_until_enough<T>(
    stream: &TcpStream,
    deadline: &Deadline,
    mut look: impl FnMut() -> io::Result<T>,
) -> Result<io::Result<T>, Elapsed> {
    loop {
        let mut ready = pin!(stream.ready(Interest::READABLE));
        let ready = match deadline.guard(|cx| ready.as_mut().poll(cx)).await? {
            Ok(ready) => ready,
            Err(error) => return Ok(Err(error)),
        };
        match stream.try_io(Interest::READABLE, &mut look) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !ready.is_read_closed() => {}
            done => return Ok(done),
        }
    }
}

/// Whether the process, or the machine, has no more descriptors.
pub(crate) fn is_about_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn peek(stream: &TcpStream) -> io::Result<usize> {
    let (len, _) = recv(stream, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(len)
}

/// Writes at once where the socket has room, which it nearly always has: a task is brought into it only when it has none.
fn poll_write_clear(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    unwritten: &mut Unwritten<'_>,
) -> Poll<io::Result<()>> {
    while let Some(first) = unwritten.0.iter().position(|slice| !slice.is_empty()) {
        let is_only = unwritten.0[first + 1..].iter().all(|slice| slice.is_empty());
        let written = stream.try_io(Interest::WRITABLE, || {
            // Not by libc, each of whose calls can be a point at which a thread is cancelled.
            Ok(if is_only {
                send(stream, unwritten.0[first], SendFlags::NOSIGNAL)?
            } else {
                writev(stream, &unwritten.0.map(IoSlice::new))?
            })
        });
        let len = match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                ready!(stream.poll_write_ready(cx))?;
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
