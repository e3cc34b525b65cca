//! HTTP/2 to clients, and gRPC.
//!
//! Must not be in here: goals.

use std::fs;
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use bench::h2c;

use super::{Bench, CLOSED_LOOP, KILOBYTE, Stage};
use crate::backend::Backend;
use crate::load::{Drive, H2load, Seen};
use crate::peers::certificate::Key;
use crate::peers::feature::HOST;
use crate::peers::figures::{self, Figure, Figures};
use crate::peers::proxy::{Clients, Peer, Setup, Upstream};
use crate::peers::workload::Protocol;

/// The fixed rate at which CPU is compared, and which part of a second's requests is to warm up.
const RATE_PER_SECOND: u64 = 16_000;
const WARM_UP_SHARE: u64 = 4;

/// Calls a second that are answered by streams.
const STREAMS_PER_SECOND: u64 = 16;

/// A unary method and one that streams, and what they are called with.
const METHOD: &str = "/bench.Echo/Unary";
const STREAM_METHOD: &str = "/bench.Echo/Stream";
const MESSAGE: [u8; 100] = [b'x'; 100];

impl Bench<'_> {
    /// Many streams on few connections: CPU at a fixed rate, then the highest rate.
    pub(super) fn h2(&self, peer: Peer, protocol: Protocol) -> Result<Figures> {
        let backend = match protocol {
            Protocol::Clear | Protocol::Tls => self.backend("payload")?,
            Protocol::BothClear | Protocol::Grpc | Protocol::GrpcStream => {
                Backend::start_h2c(&self.cpus.load, self.folder, &self.interrupt)?
            }
        };
        let setup = self.setup_for((protocol == Protocol::Tls).then_some(Key::EcdsaP256));
        let setup = Setup {
            clients: if protocol == Protocol::Tls { Clients::Tls } else { Clients::ClearH2 },
            upstream: match protocol {
                Protocol::Clear | Protocol::Tls => Upstream::Http1,
                Protocol::BothClear => Upstream::H2c,
                Protocol::Grpc | Protocol::GrpcStream => Upstream::Grpc,
            },
            ..setup
        };
        let stage = self.start_with(peer, setup, vec![backend])?;
        let mut figures = self.at_rate(&stage, protocol)?;
        // None of hundreds of long streams at once would end within the time.
        if protocol != Protocol::GrpcStream {
            figures.extend(self.closed_loop(&stage, protocol)?);
        }
        Ok(figures)
    }

    /// The same requests with HTTP/1 upstreams, and with h2c.
    pub(super) fn h2_upstreams(&self, peer: Peer) -> Result<Figures> {
        let (http1, h2c) = (self.h2(peer, Protocol::Clear)?, self.h2(peer, Protocol::BothClear)?);
        Ok(Figures::from([
            (Figure::CpuHttp1, http1[&Figure::Cpu]),
            (Figure::CpuH2c, h2c[&Figure::Cpu]),
            (Figure::CpuHttp1Closed, http1[&Figure::CpuClosed]),
            (Figure::CpuH2cClosed, h2c[&Figure::CpuClosed]),
        ]))
    }

    /// CPU at a fixed rate.
    fn at_rate(&self, stage: &Stage, protocol: Protocol) -> Result<Figures> {
        if protocol == Protocol::Grpc {
            check_call(stage.target())?;
        }
        let per_second = if protocol == Protocol::GrpcStream { STREAMS_PER_SECOND } else { RATE_PER_SECOND };
        let drive = |requests| Drive::Rate { per_second, requests };
        self.h2load(stage, protocol, drive((per_second / WARM_UP_SHARE).max(STREAMS_PER_SECOND)))?;
        let (seen, mut figures) = self.h2load(stage, protocol, drive(per_second * self.seconds.as_secs()))?;
        figures.insert(Figure::Rate, seen.rate);
        Ok(figures)
    }

    /// All streams in use all the time.
    fn closed_loop(&self, stage: &Stage, protocol: Protocol) -> Result<Figures> {
        let (seen, figures) = self.h2load(stage, protocol, Drive::Closed { duration: CLOSED_LOOP })?;
        Ok(Figures::from([(Figure::RateClosed, seen.rate), (Figure::CpuClosed, figures[&Figure::Cpu])]))
    }

    fn h2load(&self, stage: &Stage, protocol: Protocol, drive: Drive) -> Result<(Seen, Figures)> {
        let call_file = self.folder.join("call");
        fs::write(&call_file, h2c::grpc_frame(&MESSAGE))?;
        let message_bytes = h2c::grpc_frame(&MESSAGE).len() as u64;
        let (path, body_bytes) = match protocol {
            Protocol::Grpc => (METHOD, message_bytes),
            Protocol::GrpcStream => (STREAM_METHOD, message_bytes * h2c::STREAMED_MESSAGES as u64),
            Protocol::Clear | Protocol::Tls | Protocol::BothClear => ("/1k", KILOBYTE),
        };
        let is_grpc = matches!(protocol, Protocol::Grpc | Protocol::GrpcStream);
        let load = H2load {
            target: stage.target(),
            host: HOST,
            path,
            tls: protocol == Protocol::Tls,
            call: is_grpc.then_some(call_file.as_path()),
            body_bytes,
            drive,
        };
        let program = stage.program()?;
        let before = program.cpu_time()?;
        let seen = load.run(&self.cpus.load, self.folder, &self.interrupt)?;
        let figures = figures::of_cpu(program.cpu_time()? - before, seen.requests);
        Ok((seen, figures))
    }
}

/// h2load looks at no trailers, in which gRPC has its verdict: one call shows that they pass.
fn check_call(target: SocketAddr) -> Result<()> {
    let answer = h2c::ask(target, HOST, METHOD, Some(&MESSAGE))?;
    let expected =
        h2c::Answer { status: 200, body: h2c::grpc_frame(&MESSAGE), grpc_status: Some("0".into()) };
    ensure!(answer == expected, "a gRPC call was answered with {answer:?}");
    Ok(())
}
