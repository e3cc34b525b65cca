//! A connected socket that can be read and written at the same time from one task.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::buffer::Buffer;

/// Borrowed only while it is polled, so that a body can be sent while the answer to it is read.
pub(crate) struct Socket(RefCell<TcpStream>);

/// What is still to be written of a few slices.
pub(crate) struct Unwritten<'a>([&'a [u8]; SLICES_MAX]);

/// A head and a body, or a chunk: size, content, CRLF.
const SLICES_MAX: usize = 3;

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(RefCell::new(stream))
    }

    pub(crate) fn into_inner(self) -> TcpStream {
        self.0.into_inner()
    }

    /// Reads into the room that the buffer has, of which there must be some; 0 is the end.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut Buffer) -> Poll<io::Result<usize>> {
        debug_assert!(buffer.room() > 0, "a read into no room looks like the end");
        // Only `poll_read` knows that a short read has drained the socket, and saves the read that would say so.
        let mut space = ReadBuf::new(buffer.free());
        ready!(Pin::new(&mut *self.0.borrow_mut()).poll_read(cx, &mut space))?;
        let len = space.filled().len();
        buffer.filled(len);
        Poll::Ready(Ok(len))
    }

    /// Reads into the room of somebody else's buffer.
    pub(crate) fn poll_read_into(
        &self,
        cx: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_read(cx, space)
    }

    /// Writes as much as there is room for.
    pub(crate) fn poll_write_some(
        &self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_write_vectored(cx, slices)
    }

    /// Sends on what has been written.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_flush(cx)
    }

    /// Reads into a buffer that keeps its memory only if something came: to take it and give it back costs less than to
    /// ask for readiness first.
    pub(crate) fn poll_fill(&self, cx: &mut Context<'_>, buffer: &mut Buffer) -> Poll<io::Result<usize>> {
        buffer.reserve_large();
        self.poll_reserved(cx, buffer)
    }

    /// As [`poll_fill`](Self::poll_fill), for a request head.
    pub(crate) fn poll_fill_small(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut Buffer,
    ) -> Poll<io::Result<usize>> {
        buffer.reserve_small();
        self.poll_reserved(cx, buffer)
    }

    fn poll_reserved(&self, cx: &mut Context<'_>, buffer: &mut Buffer) -> Poll<io::Result<usize>> {
        let read = self.poll_read(cx, buffer);
        if read.is_pending() {
            buffer.release();
        }
        read
    }

    /// Whether the peer has closed or sent something, without taking it: 0 is the end. Where the event loop has noted
    /// nothing, the socket is not asked.
    pub(crate) fn poll_peek(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.0.borrow().poll_peek(cx, &mut ReadBuf::new(&mut [0]))
    }

    /// What is to be read at this moment, without taking it.
    pub(crate) fn peek_now(&self) -> io::Result<usize> {
        let (len, _) = recv(&*self.0.borrow(), &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
        Ok(len)
    }

    /// Writes all of it, in one system call where the socket has room.
    pub(crate) fn poll_write_all(
        &self,
        cx: &mut Context<'_>,
        unwritten: &mut Unwritten<'_>,
    ) -> Poll<io::Result<()>> {
        let mut stream = self.0.borrow_mut();
        while let Some(first) = unwritten.0.iter().position(|slice| !slice.is_empty()) {
            let stream = Pin::new(&mut *stream);
            let is_only = unwritten.0[first + 1..].iter().all(|slice| slice.is_empty());
            let len = if is_only {
                ready!(stream.poll_write(cx, unwritten.0[first]))?
            } else {
                ready!(stream.poll_write_vectored(cx, &unwritten.0.map(IoSlice::new)))?
            };
            if len == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            unwritten.advance(len);
        }
        Poll::Ready(Ok(()))
    }

    /// Says to the peer that no more will come.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_shutdown(cx)
    }

    /// Does something with the socket's descriptor when it is ready for it.
    pub(crate) fn poll_io<T>(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        mut act: impl FnMut(&TcpStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let stream = self.0.borrow();
        loop {
            ready!(if interest.is_readable() {
                stream.poll_read_ready(cx)
            } else {
                stream.poll_write_ready(cx)
            })?;
            match stream.try_io(interest, || act(&stream)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
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
