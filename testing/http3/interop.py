#!/usr/bin/env python3
"""The cases of the QUIC interop runner, by their names, against Forebay, with two clients that are not ours.

Usage: interop.py PORT HOST CERTIFICATE QUIC-GO [CASE...]

Clients are aioquic, and the program QUIC-GO, which is built from testing/http3/quic-go. Between client and Forebay is
a link in user space (relay.py) with the delay, rate, loss or corruption that the case asks for. Behind Forebay,
/1k answers with 1 KiB and /bytes/N/x with N bytes. Each case is printed; those that are known to fail are in
exceptions.txt. The exit status is 1 if another one fails, or one of those passes.
"""

import asyncio
import functools
import json
import os
import pathlib
import socket
import ssl
import sys
import tempfile
import time

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, StreamReset
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite

from relay import VERSION_2, Link, Relay

LIMIT = 240
# Longer than any pause in a handshake of which several packets are lost: aioquic waits twice as long each time, up
# to half a minute.
IDLE_TIMEOUT = 90
# Requests at a time on a connection; the server allows 128.
PARALLEL = 100
# The link of the runner's simulator.
SIMULATED = {"delay": 0.015, "rate_mbit": 10}
MEGABYTE = 1_000_000
ECT_0 = 2


def check(what, holds):
    if not holds:
        raise AssertionError(what)


class Told:
    """What a client has to say of a case."""

    def __init__(self, length, seconds=0.0, version=None, resumed=False, early=False, ecn=None):
        self.length, self.seconds, self.version = length, seconds, version
        self.resumed, self.early, self.ecn = resumed, early, ecn


# === aioquic ===


class Client(QuicConnectionProtocol):
    def __init__(self, ends, *args, **kwargs):
        super().__init__(*args, **kwargs)
        # Why connections have ended; aioquic says it to nobody who waits for a handshake.
        self.ends = ends
        self.http = H3Connection(self._quic)
        self.bodies, self.done = {}, {}
        self.first = asyncio.get_running_loop().create_future()

    async def get(self, path):
        stream = self._quic.get_next_available_stream_id()
        self.bodies[stream] = 0
        done = self.done[stream] = asyncio.get_running_loop().create_future()
        names = {b":method": b"GET", b":scheme": b"https", b":authority": HOST.encode(), b":path": path.encode()}
        self.http.send_headers(stream, list(names.items()), end_stream=True)
        self.transmit()
        await asyncio.wait_for(done, LIMIT)
        return self.bodies[stream]

    async def get_all(self, paths):
        places = asyncio.Semaphore(PARALLEL)

        async def one(path):
            async with places:
                return await self.get(path)

        return sum(await asyncio.gather(*map(one, paths)))

    def _fail(self, futures, error):
        for future in futures:
            if not future.done():
                future.set_exception(error)

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.ends.append(f"closed: {event.error_code:#x} {event.reason_phrase}")
            error = ConnectionError(self.ends[-1])
            return self._fail(self.done.values(), error)
        if isinstance(event, StreamReset) and event.stream_id in self.done:
            self._fail([self.done[event.stream_id]], ConnectionError(f"reset: {event.error_code:#x}"))
        for one in self.http.handle_event(event):
            done = self.done.get(getattr(one, "stream_id", None))
            if done is None or done.done():
                continue
            if isinstance(one, HeadersReceived):
                status = dict(one.headers).get(b":status", b"200")
                if status != b"200":
                    self._fail([done], ConnectionError(f"status {status}"))
            elif isinstance(one, DataReceived):
                self.bodies[one.stream_id] += len(one.data)
                if not self.first.done():
                    self.first.set_result(None)
            if one.stream_ended and not done.done():
                done.set_result(None)


def configuration(**settings):
    made = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name=HOST, **settings)
    made.idle_timeout = IDLE_TIMEOUT
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(CERTIFICATE)
    return made


async def aioquic(case, address):
    """Plays a case by aioquic."""
    settings, tickets, ends = configuration(), [], []
    if case.name == "chacha20":
        settings.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    if case.name == "v2":
        settings.original_version = QuicProtocolVersion.VERSION_1
        settings.supported_versions = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
    begin = time.monotonic()

    async def connection(paths, settings):
        async with connect(
            *address,
            configuration=settings,
            create_protocol=functools.partial(Client, ends),
            session_ticket_handler=tickets.append,
            wait_connected=case.name != "zerortt",
        ) as client:
            running = asyncio.ensure_future(client.get_all(paths))
            if case.name == "keyupdate":
                await client.wait_connected()
                client.request_key_update()
            if case.name == "connectionmigration":
                await asyncio.wait([running, client.first], return_when=asyncio.FIRST_COMPLETED)
                migrate(client)
            length = await running
            tls = client._quic.tls
            return Told(
                length,
                version=int(client._quic._version),
                resumed=tls.session_resumed,
                early=tls.early_data_accepted,
            )

    if case.is_connection_for_each:
        told = Told(0)
        for number, path in enumerate(case.paths):
            try:
                told.length += (await connection([path], settings)).length
            except ConnectionError as error:
                seconds = time.monotonic() - begin
                raise ConnectionError(f"connection {number} after {seconds:.1f} s: {ends[-1:]}") from error
    elif case.name in ("resumption", "zerortt"):
        await connection(case.paths[:1], settings)
        check("a session ticket", tickets)
        settings.session_ticket = tickets[-1]
        told = await connection(case.paths[1:], settings)
    else:
        told = await connection(case.paths, settings)
    told.seconds = time.monotonic() - begin
    return told


def migrate(client):
    """Moves the connection to another socket, with another connection id."""
    loop, old = asyncio.get_running_loop(), client._transport
    peer = client._quic._network_paths[0].addr
    one = socket.socket(old.get_extra_info("socket").family, socket.SOCK_DGRAM)
    one.setblocking(False)
    one.bind(("", 0))

    def read():
        while True:
            try:
                datagram, sender = one.recvfrom(1 << 16)
            except BlockingIOError:
                return
            client.datagram_received(datagram, sender if len(peer) == 2 else peer)

    class Moved(asyncio.DatagramTransport):
        def sendto(self, datagram, _to=None):
            one.sendto(datagram, peer)

        def close(self):
            loop.remove_reader(one)
            one.close()
            old.close()

        def get_extra_info(self, name, default=None):
            return one if name == "socket" else default

    loop.add_reader(one, read)
    client._transport = Moved()
    client.change_connection_id()


# === quic-go ===


async def quic_go(case, address):
    """Plays a case by the program with quic-go."""
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    with tempfile.TemporaryDirectory() as logs:
        process = await asyncio.create_subprocess_exec(
            QUIC_GO,
            f"{host}:{address[1]}",
            HOST,
            CERTIFICATE,
            case.name,
            *case.paths,
            env={**os.environ, "QLOGDIR": logs, "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING": "true"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await asyncio.wait_for(process.communicate(), LIMIT)
        check(error.decode().strip() or f"status {process.returncode}", process.returncode == 0)
        log = "".join(path.read_text(errors="replace") for path in pathlib.Path(logs).iterdir())
    said = json.loads(out)
    is_capable = '"new":"capable"' in log if "ecn_state_updated" in log else None
    version = {"v1": 1, "v2": VERSION_2}.get(said["version"])
    return Told(said["bytes"], said["seconds"], version, said["resumed"], said["early"], is_capable)


CLIENTS = {"aioquic": aioquic, "quic-go": quic_go}

# === The cases ===


class Case:
    def __init__(self, name, link, paths, judge=None, clients=CLIENTS, server="127.0.0.1"):
        self.name, self.link, self.paths, self.judge = name, link, paths, judge
        self.clients, self.server = clients, server
        self.is_connection_for_each = name in ("handshakeloss", "handshakecorruption")

    def length(self):
        """Bytes that a client has to receive; that of the first connection is not counted where there are two."""
        paths = self.paths[1:] if self.name in ("resumption", "zerortt") else self.paths
        return sum(1024 if path == "/1k" else int(path.split("/")[2]) for path in paths)


def file(size):
    return f"/bytes/{size}/x"


def judge_handshake(told, seen):
    check("no Retry", seen.retries == 0)
    check(f"version 1 only, not {seen.versions_to_client}", seen.versions_to_client == {1})


def judge_retry(told, seen):
    check("a Retry packet", seen.retries > 0)


def judge_resumption(told, seen):
    check("a resumed session", told.resumed)


def judge_zerortt(told, seen):
    check("a resumed session", told.resumed)
    check("early data that is accepted", told.early)


def judge_version_2(told, seen):
    check(f"version 2, not {told.version}", told.version == VERSION_2)


def judge_ecn(told, seen):
    check(f"marks of the server: {seen.ecn_to_client}", ECT_0 in seen.ecn_to_client)
    if told.ecn is not None or ECT_0 in seen.ecn_to_server:
        check("counts of marks in the server's acknowledgements", told.ecn)


def judge_amplification(told, seen):
    check("the client was held back", seen.held)
    to_server, to_client = seen.held
    check(f"{to_client} bytes for {to_server} of an address without validation", to_client <= 3 * to_server)


def judge_loss(told, seen):
    check("datagrams that were lost", seen.dropped > 0)


def judge_corruption(told, seen):
    check("datagrams that were corrupted", seen.corrupted > 0)


def judge_rebinding(told, seen):
    check(f"{seen.rebinds} changes of the address", seen.rebinds >= 3)


def judge_goodput(told, seen):
    mbit = told.length * 8 / told.seconds / 1e6
    print(f"    {mbit:.2f} Mbit/s of 10")
    check(f"{mbit:.2f} Mbit/s", mbit >= 7)


def judge_cross_traffic(told, seen):
    mbit = told.length * 8 / told.seconds / 1e6
    print(f"    {mbit:.2f} Mbit/s of 10, beside another download")
    check(f"{mbit:.2f} Mbit/s", mbit >= 3)


HANDSHAKES = 10
CASES = [
    Case("handshake", SIMULATED, ["/1k"], judge_handshake),
    Case("transfer", SIMULATED, [file(2 * MEGABYTE), file(3 * MEGABYTE), file(MEGABYTE)]),
    Case("longrtt", {"delay": 0.75}, ["/1k"]),
    # Neither Go's TLS nor quic-go lets its users choose a suite of TLS 1.3.
    Case("chacha20", SIMULATED, [file(MEGABYTE)], clients=["aioquic"]),
    Case("multiplexing", SIMULATED, ["/1k"] * 1999),
    Case("resumption", SIMULATED, ["/1k", file(5000)], judge_resumption),
    Case("zerortt", SIMULATED, ["/1k", file(5000)], judge_zerortt),
    Case("http3", SIMULATED, [file(10_000), file(500_000), file(MEGABYTE)]),
    Case("blackhole", {**SIMULATED, "on_off": (3, 2)}, [file(8 * MEGABYTE)], judge_loss),
    # quic-go updates keys by itself after so many packets that no case has them.
    Case("keyupdate", SIMULATED, [file(3 * MEGABYTE)], clients=["aioquic"]),
    # aioquic neither marks what it sends nor counts marks.
    Case("ecn", SIMULATED, [file(MEGABYTE)], judge_ecn, clients=["quic-go"]),
    Case("amplificationlimit", {"delay": 0.015, "hold_client_after": (1, 2)}, ["/1k"], judge_amplification),
    Case("handshakeloss", {**SIMULATED, "loss": 0.3}, ["/1k"] * HANDSHAKES, judge_loss),
    Case("transferloss", {**SIMULATED, "loss": 0.02}, [file(2 * MEGABYTE)], judge_loss),
    Case("handshakecorruption", {**SIMULATED, "corruption": 0.3}, ["/1k"] * HANDSHAKES, judge_corruption),
    Case("transfercorruption", {**SIMULATED, "corruption": 0.02}, [file(2 * MEGABYTE)], judge_corruption),
    Case("reordering", {**SIMULATED, "reordering": 0.05, "jitter": 0.002}, [file(2 * MEGABYTE)]),
    Case("ipv6", SIMULATED, [file(MEGABYTE)], server="::1"),
    Case("v2", SIMULATED, ["/1k"], judge_version_2),
    Case("rebind-port", {**SIMULATED, "rebind_every": 1}, [file(6 * MEGABYTE)], judge_rebinding),
    Case(
        "rebind-addr",
        {**SIMULATED, "rebind_every": 1, "rebind_address": True},
        [file(6 * MEGABYTE)],
        judge_rebinding,
    ),
    Case("connectionmigration", SIMULATED, [file(3 * MEGABYTE)]),
    Case("goodput", SIMULATED, [file(8 * MEGABYTE)], judge_goodput),
    Case("crosstraffic", SIMULATED, [file(5 * MEGABYTE)], judge_cross_traffic),
    # The last one: its crowd of unfinished handshakes has others answered with Retry for minutes.
    Case("retry", SIMULATED, ["/1k"], judge_retry),
]

# Handshakes in progress from which Forebay asks for addresses to be validated, on each worker.
HALF_OPEN_PER_WORKER = 256
WORKERS_MAX = 4


class Crowd:
    """Clients that begin handshakes and say no more."""

    def __init__(self, server):
        self.sockets = []
        family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
        for _ in range(2 * HALF_OPEN_PER_WORKER * WORKERS_MAX):
            quic = QuicConnection(configuration=configuration())
            quic.connect(server, now=time.monotonic())
            one = socket.socket(family, socket.SOCK_DGRAM)
            for datagram, to in quic.datagrams_to_send(now=time.monotonic()):
                one.sendto(datagram, to)
            self.sockets.append(one)

    def close(self):
        for one in self.sockets:
            one.close()


async def play(case, client):
    """Plays a case; an error says what is wrong."""
    server = (case.server, PORT)
    crowd = Crowd(server) if case.name == "retry" else None
    link = Relay(server, Link(**case.link))
    beside = None
    try:
        if case.name == "crosstraffic":
            other = Case("transfer", case.link, [file(9 * MEGABYTE)])
            beside = asyncio.ensure_future(CLIENTS["quic-go"](other, link.address))
        told = await asyncio.wait_for(CLIENTS[client](case, link.address), LIMIT)
        check(f"{told.length} bytes of {case.length()}", told.length == case.length())
        if case.judge:
            case.judge(told, link.seen)
    finally:
        if beside:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)
        if crowd:
            crowd.close()
        link.close()


def exceptions():
    """The cases that are known to fail, each with the reason."""
    lines = pathlib.Path(__file__).with_name("exceptions.txt").read_text().splitlines()
    known = [line.split(": ", 1) for line in lines if line and not line.startswith("#")]
    return {tuple(name.split()): reason for name, reason in known}


async def run(names):
    known, failures = exceptions(), 0
    for case in CASES:
        for client in case.clients:
            if names and case.name not in names:
                continue
            begin = time.monotonic()
            reason = known.get((case.name, client))
            try:
                await play(case, client)
                seconds = time.monotonic() - begin
                failures += reason is not None
                end = "passed, and is listed as one that fails" if reason else "passed"
                print(f"{case.name} {client}: {end} in {seconds:.2f} s", flush=True)
            except Exception as error:  # noqa: BLE001: whatever fails is told
                failures += reason is None
                end = f"known to fail ({reason})" if reason else "FAILED"
                print(f"{case.name} {client}: {end}: {type(error).__name__}: {error}", flush=True)
    return failures


PORT, HOST, CERTIFICATE, QUIC_GO = int(sys.argv[1]), *sys.argv[2:5]
if __name__ == "__main__" and asyncio.run(run(sys.argv[5:])):
    sys.exit(1)
