#!/usr/bin/env python3
"""Speaks HTTP/3 with Forebay by aioquic, an implementation of others.

Usage: client.py PORT HOST CERTIFICATE

The endpoint behind Forebay answers /1k with 1 KiB and /1m with 1 MiB, and reads what it is sent. Each case is printed;
the exit status is 1 if one fails.
"""

import asyncio
import ssl
import sys
import time

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

LIMIT = 30


class Response:
    def __init__(self, done):
        self.status, self.headers, self.trailers, self.body, self.done = None, {}, None, bytearray(), done


class Client(QuicConnectionProtocol):
    """A connection with requests on it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.responses = {}

    def begin(self, method, path, headers=(), end=True):
        stream = self._quic.get_next_available_stream_id()
        self.responses[stream] = Response(asyncio.get_running_loop().create_future())
        head = [(b":method", method), (b":scheme", b"https"), (b":authority", HOST.encode()), (b":path", path)]
        self.http.send_headers(stream, head + list(headers), end_stream=end)
        self.transmit()
        return stream

    async def ending(self, stream):
        return await asyncio.wait_for(self.responses[stream].done, LIMIT)

    async def get(self, path):
        return await self.ending(self.begin(b"GET", path))

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            error = ConnectionError(f"closed: {event.error_code:#x} {event.reason_phrase}")
            for response in self.responses.values():
                if not response.done.done():
                    response.done.set_exception(error)
            return
        if isinstance(event, StreamReset) and event.stream_id in self.responses:
            response = self.responses[event.stream_id]
            if not response.done.done():
                response.done.set_exception(ConnectionError(f"reset: {event.error_code:#x}"))
        for one in self.http.handle_event(event):
            response = self.responses.get(getattr(one, "stream_id", None))
            if response is None:
                continue
            if isinstance(one, HeadersReceived):
                fields = dict(one.headers)
                if response.status is None:
                    response.status, response.headers = int(fields[b":status"]), fields
                else:
                    response.trailers = fields
            elif isinstance(one, DataReceived):
                response.body += one.data
            if one.stream_ended and not response.done.done():
                response.done.set_result(response)


def check(what, holds):
    if not holds:
        raise AssertionError(what)


async def get(client):
    response = await client.get(b"/1k")
    check("status", response.status == 200)
    check("length", len(response.body) == 1024)


async def post(client):
    stream = client.begin(b"POST", b"/1k", [(b"content-length", b"11")], end=False)
    client.http.send_data(stream, b"hello ", end_stream=False)
    client.transmit()
    client.http.send_data(stream, b"there", end_stream=True)
    client.transmit()
    response = await client.ending(stream)
    check("status", response.status == 200)


async def upload(client):
    size = 4 << 20
    stream = client.begin(b"POST", b"/1k", [(b"content-length", str(size).encode())], end=False)
    client.http.send_data(stream, bytes(size), end_stream=True)
    client.transmit()
    response = await client.ending(stream)
    # The default bound of bodies is 1 MiB.
    check("status", response.status == 413)


async def large(client):
    response = await client.get(b"/1m")
    check("status", response.status == 200)
    check("length", len(response.body) == 1 << 20)


async def streams(client):
    for _ in range(5):
        streams = [client.begin(b"GET", b"/1k") for _ in range(100)]
        for stream in streams:
            response = await client.ending(stream)
            check("status", response.status == 200)
            check("length", len(response.body) == 1024)


async def cancel(client):
    stream = client.begin(b"GET", b"/1m")
    client._quic.stop_stream(stream, 0x10C)
    client.transmit()
    await get(client)


async def key_update(client):
    for _ in range(3):
        client.request_key_update()
        await get(client)


async def ping(client):
    await asyncio.wait_for(client.ping(), LIMIT)


async def many_headers(client):
    fields = [(f"x-field-{number}".encode(), b"v" * 20) for number in range(50)]
    response = await client.ending(client.begin(b"GET", b"/1k", fields))
    check("status", response.status == 200)


async def change_of_id(client):
    client.change_connection_id()
    await get(client)


# There is no HEAD: aioquic takes the length in the response for that of content.
CASES = [get, post, upload, large, streams, cancel, key_update, ping, many_headers, change_of_id]


def configuration():
    settings = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name=HOST)
    settings.verify_mode = ssl.CERT_REQUIRED
    settings.load_verify_locations(CERTIFICATE)
    return settings


async def run():
    failed = []
    tickets = []
    for case in CASES:
        begin = time.monotonic()
        try:
            async with connect(
                "127.0.0.1",
                PORT,
                configuration=configuration(),
                create_protocol=Client,
                session_ticket_handler=tickets.append,
            ) as client:
                await case(client)
            print(f"{case.__name__}: passed in {time.monotonic() - begin:.2f} s")
        except Exception as error:  # noqa: BLE001: whatever fails is told
            failed.append(case.__name__)
            print(f"{case.__name__}: FAILED: {type(error).__name__}: {error}")
    if tickets:
        settings = configuration()
        settings.session_ticket = tickets[-1]
        async with connect("127.0.0.1", PORT, configuration=settings, create_protocol=Client) as client:
            await get(client)
            resumed = client._quic.tls.session_resumed
        print(f"resumption: {'passed' if resumed else 'not resumed'}")
        if not resumed:
            failed.append("resumption")
    return failed


PORT, HOST, CERTIFICATE = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if asyncio.run(run()):
    sys.exit(1)
