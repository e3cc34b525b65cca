"""A link for UDP between a client and a server, in user space: delay, rate, loss, reordering, corruption, outages,
and changes of the client's address. Chance comes from a seed, so that a run can be repeated.
"""

import asyncio
import random
import socket
import struct

# Datagrams that wait for their turn where the link has a rate; others are dropped.
QUEUE = 64
# Datagrams in a row that chance may drop or corrupt in one direction, as in the runner's simulator: without it a
# handshake that backs off would fail now and then.
BURST = 3
IP_TOS, IPV6_TCLASS, IP_RECVTOS, IPV6_RECVTCLASS = 1, 67, 13, 66
ECN_MASK = 3
VERSION_2 = 0x6B3343CF


class Link:
    """The properties of the link, the same in both directions where there is no other word."""

    def __init__(
        self,
        delay=0.0,
        jitter=0.0,
        rate_mbit=None,
        loss=0.0,
        corruption=0.0,
        reordering=0.0,
        on_off=None,
        hold_client_after=None,
        rebind_every=None,
        rebind_address=False,
        seed=1,
    ):
        self.delay = delay
        self.jitter = jitter
        self.rate_mbit = rate_mbit
        self.loss = loss
        self.corruption = corruption
        self.reordering = reordering
        # Seconds during which it works, and during which it does not.
        self.on_off = on_off
        # (number, seconds): datagrams of the client after so many are dropped for so long.
        self.hold_client_after = hold_client_after
        # Seconds after which the server sees the client at another port, and at another address.
        self.rebind_every = rebind_every
        self.rebind_address = rebind_address
        self.random = random.Random(seed)


class Seen:
    """What passed, as far as it can be told without keys."""

    def __init__(self):
        self.to_server, self.to_client = 0, 0
        self.bytes_to_server, self.bytes_to_client = 0, 0
        self.retries, self.dropped, self.corrupted, self.rebinds = 0, 0, 0, 0
        self.ecn_to_server, self.ecn_to_client = set(), set()
        self.versions_to_client = set()
        # Bytes in both directions when the client's datagrams were held back for the last time.
        self.held = None


class Direction:
    """One direction of the link; datagrams leave in order unless they are reordered."""

    def __init__(self, link):
        self.link, self.free_at, self.waiting = link, 0.0, 0
        self.lost, self.corrupted = 0, 0

    def corrupt(self, datagram):
        """The datagram, with one bit changed by chance."""
        chance = self.link.random
        if chance.random() >= self.link.corruption or self.corrupted == BURST:
            self.corrupted = 0
            return datagram
        self.corrupted += 1
        at = chance.randrange(len(datagram))
        return datagram[:at] + bytes([datagram[at] ^ (1 << chance.randrange(8))]) + datagram[at + 1 :]

    def send(self, now, deliver, datagram):
        """Delivers a datagram later. False where it is dropped."""
        link, loop = self.link, asyncio.get_running_loop()
        if link.random.random() < link.loss and self.lost < BURST:
            self.lost += 1
            return False
        self.lost = 0
        leaves = now
        if link.rate_mbit:
            if self.waiting >= QUEUE:
                return False
            self.free_at = max(self.free_at, now) + len(datagram) * 8 / (link.rate_mbit * 1e6)
            leaves = self.free_at
        delay = link.delay + link.random.random() * link.jitter
        if link.random.random() < link.reordering:
            delay += 2 * link.delay + 0.02
        self.waiting += 1

        def arrive():
            self.waiting -= 1
            deliver()

        if leaves + delay <= now:
            arrive()
        else:
            loop.call_at(leaves + delay, arrive)
        return True


class Relay:
    """Listens at `address`, and passes on to `server`."""

    def __init__(self, server, link):
        self.server, self.link, self.seen = server, link, Seen()
        self.is_ipv6 = ":" in server[0]
        self.family = socket.AF_INET6 if self.is_ipv6 else socket.AF_INET
        self.loop = asyncio.get_running_loop()
        self.begun = self.loop.time()
        self.front = self._socket("::1" if self.is_ipv6 else "127.0.0.1")
        self.address = self.front.getsockname()[:2]
        self.up, self.down = Direction(link), Direction(link)
        # The socket towards the server of each client.
        self.clients = {}
        self.hosts = 1
        self.held_from = None
        self.timers = []
        self.loop.add_reader(self.front, self._from_clients)
        if link.rebind_every:
            self.timers.append(self.loop.call_later(link.rebind_every, self._rebind))

    def close(self):
        for timer in self.timers:
            timer.cancel()
        for one in [self.front, *self.clients.values()]:
            self.loop.remove_reader(one)
            one.close()

    def _socket(self, host):
        one = socket.socket(self.family, socket.SOCK_DGRAM)
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        if self.is_ipv6:
            one.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVTCLASS, 1)
        else:
            one.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, 1)
        one.bind((host, 0))
        return one

    def _receive(self, one):
        """All that has arrived, each with its sender and the bits of ECN."""
        while True:
            try:
                datagram, ancillary, _, sender = one.recvmsg(1 << 16, 64)
            except (BlockingIOError, ConnectionRefusedError):
                return
            ecn = 0
            for level, kind, data in ancillary:
                if (level, kind) in [(socket.IPPROTO_IP, IP_TOS), (socket.IPPROTO_IPV6, IPV6_TCLASS)]:
                    ecn = data[0] & ECN_MASK
            yield datagram, sender[:2], ecn

    def _send(self, one, datagram, ecn, to):
        level, kind = (socket.IPPROTO_IPV6, IPV6_TCLASS) if self.is_ipv6 else (socket.IPPROTO_IP, IP_TOS)
        try:
            one.sendmsg([datagram], [(level, kind, struct.pack("i", ecn))], 0, to)
        except OSError:
            # The socket was replaced, or nobody listens: the datagram is lost.
            self.seen.dropped += 1

    def _is_off(self, now):
        if self.link.on_off is None:
            return False
        on, off = self.link.on_off
        return (now - self.begun) % (on + off) >= on

    def _corrupt(self, direction, datagram):
        passed = direction.corrupt(datagram)
        self.seen.corrupted += passed != datagram
        return passed

    def _is_held(self, now):
        """Whether the client's datagrams do not pass at this time."""
        if self.link.hold_client_after is None:
            return False
        number, seconds = self.link.hold_client_after
        if self.seen.to_server < number:
            return False
        if self.held_from is None:
            self.held_from = now
        if now - self.held_from < seconds:
            self.seen.held = (self.seen.bytes_to_server, self.seen.bytes_to_client)
            return True
        return False

    def _from_clients(self):
        for datagram, sender, ecn in self._receive(self.front):
            now = self.loop.time()
            if self._is_off(now) or self._is_held(now):
                self.seen.dropped += 1
                continue
            if sender not in self.clients:
                self._open(sender)
            self.seen.to_server += 1
            self.seen.bytes_to_server += len(datagram)
            self.seen.ecn_to_server.add(ecn)
            datagram = self._corrupt(self.up, datagram)

            def deliver(datagram=datagram, sender=sender, ecn=ecn):
                self._send(self.clients[sender], datagram, ecn, self.server)

            self.seen.dropped += not self.up.send(now, deliver, datagram)

    def _open(self, client):
        host = "::1" if self.is_ipv6 else f"127.0.0.{self.hosts}"
        one = self._socket(host)
        self.clients[client] = one
        self.loop.add_reader(one, self._from_server, one, client)

    def _from_server(self, one, client):
        for datagram, _, ecn in self._receive(one):
            now = self.loop.time()
            if self._is_off(now):
                self.seen.dropped += 1
                continue
            self.seen.to_client += 1
            self.seen.bytes_to_client += len(datagram)
            self.seen.ecn_to_client.add(ecn)
            self._note_long_header(datagram)
            datagram = self._corrupt(self.down, datagram)

            def deliver(datagram=datagram, ecn=ecn):
                self._send(self.front, datagram, ecn, client)

            self.seen.dropped += not self.down.send(now, deliver, datagram)

    def _note_long_header(self, datagram):
        if len(datagram) < 5 or not datagram[0] & 0x80:
            return
        (version,) = struct.unpack(">I", datagram[1:5])
        self.seen.versions_to_client.add(version)
        # RFC 9000 section 17.2.5, RFC 9369 section 3.2.
        retry = 0 if version == VERSION_2 else 3
        self.seen.retries += version != 0 and (datagram[0] >> 4) & 3 == retry

    def _rebind(self):
        """The server sees the clients elsewhere from now on. The old sockets are gone, as with a NAT."""
        self.seen.rebinds += 1
        if self.link.rebind_address:
            self.hosts = self.hosts % 200 + 1
        for client, one in list(self.clients.items()):
            self.loop.remove_reader(one)
            one.close()
            self._open(client)
        self.timers.append(self.loop.call_later(self.link.rebind_every, self._rebind))
