#!/usr/bin/env python3
"""Measures a page of 100 objects over HTTP/3 and over HTTP/2, over the same link that loses packets.

Usage: page.py FOREBAY [--pages N] [--loss SHARE] [--rtt SECONDS] [--rate MBIT] [--tcp ALGORITHM]

Server and client are in network namespaces of their own. The link between them is two TUN devices and this process,
which passes IP packets on after the delay, at the rate, and without those that are lost: TCP and UDP alike. A page is
one new connection with 100 requests of 4 KB at once, by `forebay bench`, from the first packet to the last response.
Pages of both protocols alternate. It needs root, or a kernel that lets users make namespaces.
"""

import argparse
import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SERVER, CLIENT = "10.91.7.1", "10.91.7.2"
HOST = "page.test"
OBJECTS = 100
BYTES = 4000
# Packets that wait for their turn; a router of this rate has about as many.
QUEUE = 100

MANIFESTS = """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {namespace: default, name: page}
spec:
  ingressClassName: nginx
  tls: [{hosts: [page.test]}]
  rules:
  - host: page.test
    http:
      paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: default, name: forebay}
data: {forebay-http3: "on", disable-access-log: "true"}
"""


def enter_namespace(address, peer, congestion):
    """A network namespace for this process and its children; the file of its TUN device."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    flags = CLONE_NEWNET if user == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "cannot make a network namespace")
    if user != 0:
        for name, line in [("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")]:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(line)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"wire0", IFF_TUN | IFF_NO_PI))
    for command in [
        f"ip address add {address} peer {peer} dev wire0",
        "ip link set wire0 txqueuelen 10000 up",
        "ip link set lo up",
        # The route's word counts for this namespace alone; not every kernel lets one change its default there.
        f"ip route replace {peer}/32 dev wire0 src {address} congctl {congestion}",
    ]:
        subprocess.run(command.split(), check=True)
    # What a connection has learned is not for the next one.
    with open("/proc/sys/net/ipv4/tcp_no_metrics_save", "w") as file:
        file.write("1")
    return device


def fork(address, peer, congestion, act):
    """A child in a namespace of its own, which calls `act` with a socket; its process, the socket, its device."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ours.close()
            device = enter_namespace(address, peer, congestion)
            socket.send_fds(theirs, [b"device"], [device])
            os.close(device)
            act(theirs)
            status = 0
        except BaseException as error:  # noqa: BLE001: the child has no other way to say it
            print(f"{address}: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(status)
    theirs.close()
    _, devices, _, _ = socket.recv_fds(ours, 16, 1)
    if not devices:
        raise SystemExit("a namespace cannot be made")
    return child, ours, devices[0]


class Link(threading.Thread):
    """Passes packets on between two devices."""

    def __init__(self, devices, options):
        super().__init__(daemon=True)
        self.devices, self.loss, self.delay = devices, options.loss, options.rtt / 2
        self.rate = options.rate * 1e6
        self.random = random.Random(1)
        self.passed, self.lost, self.full = 0, 0, 0

    def run(self):
        waiting, number = [], 0
        free_at = [0.0, 0.0]
        poll = select.epoll()
        for device in self.devices:
            poll.register(device, select.EPOLLIN)
        while True:
            timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
            ready = poll.poll(timeout)
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, side, packet = heapq.heappop(waiting)
                try:
                    os.write(self.devices[1 - side], packet)
                except OSError:
                    self.lost += 1
            for device, _ in ready:
                side = self.devices.index(device)
                while True:
                    try:
                        packet = os.read(device, 1 << 16)
                    except BlockingIOError:
                        break
                    if self.random.random() < self.loss:
                        self.lost += 1
                        continue
                    # What is under way does not wait in the queue.
                    backlog = max(0.0, free_at[side] - now) * self.rate / 8
                    if backlog > QUEUE * 1500:
                        self.full += 1
                        continue
                    free_at[side] = max(free_at[side], now) + len(packet) * 8 / self.rate
                    number += 1
                    self.passed += 1
                    heapq.heappush(waiting, (free_at[side] + self.delay, number, side, packet))


def serve(forebay):
    """Starts Forebay and what is behind it, and stops them when the other end of the socket is closed."""

    def act(channel):
        with tempfile.TemporaryDirectory() as folder:
            manifests = os.path.join(folder, "manifests.yaml")
            with open(manifests, "w") as file:
                file.write(MANIFESTS)
            log = open(os.path.join(folder, "log"), "w")
            payload = subprocess.Popen([forebay, "payload", "--port", "8080"], stdout=log, stderr=log)
            serve = [forebay, "serve", "--manifests", manifests, "--configmap", "default/forebay", "--workers", "1"]
            serve += ["--endpoints", "default/web=127.0.0.1:8080", "--http-port", "8081", "--https-port", "8443"]
            serve += ["--healthz-port", "8082"]
            proxy = subprocess.Popen(serve, stdout=log, stderr=log)
            try:
                for _ in range(200):
                    try:
                        socket.create_connection(("127.0.0.1", 8443)).close()
                        break
                    except ConnectionRefusedError:
                        time.sleep(0.05)
                channel.send(b"ready")
                channel.recv(1)
            finally:
                proxy.terminate()
                payload.terminate()
                proxy.wait()
                payload.wait()

    return act


def measure(forebay, pages):
    """Loads pages over both protocols; the milliseconds of each go through the socket."""

    def act(channel):
        channel.recv(5)
        times = {"http2": [], "http3": []}
        for _ in range(pages):
            for protocol, seconds in times.items():
                url = f"https://{HOST}:8443/bytes/{BYTES}/x"
                command = [forebay, "bench", "rps", url, "--insecure", "--output", "json"]
                command += ["--resolve", f"{HOST}:8443:{SERVER}", "--connections", "1", "--threads", "1"]
                command += [f"--{protocol}", "--streams", str(OBJECTS), "--requests", str(OBJECTS), "--duration", "1m"]
                output = subprocess.run(command, capture_output=True, text=True)
                if output.returncode != 0:
                    raise SystemExit(f"{protocol}: {output.stderr}{output.stdout}")
                seconds.append(json.loads(output.stdout)["duration_seconds"] * 1000)
        channel.sendall(json.dumps(times).encode())

    return act


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("forebay")
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--loss", type=float, default=0.02)
    parser.add_argument("--rtt", type=float, default=0.05)
    parser.add_argument("--rate", type=float, default=20.0)
    # QUIC has this one, and so have most kernels for TCP.
    parser.add_argument("--tcp", default="cubic")
    options = parser.parse_args()
    forebay = os.path.abspath(options.forebay)
    server, to_server, server_device = fork(SERVER, CLIENT, options.tcp, serve(forebay))
    client, to_client, client_device = fork(CLIENT, SERVER, options.tcp, measure(forebay, options.pages))
    link = Link([server_device, client_device], options)
    link.start()
    to_server.recv(5)
    to_client.send(b"ready")
    told = b""
    while piece := to_client.recv(1 << 16):
        told += piece
    to_server.close()
    os.waitpid(client, 0)
    os.waitpid(server, 0)
    if not told:
        return 1
    times = json.loads(told)
    tail = {}
    for protocol, milliseconds in times.items():
        percentiles = statistics.quantiles(milliseconds, n=100, method="inclusive")
        tail[protocol] = percentiles[94]
        print(f"{protocol}: p50 {percentiles[49]:.0f} ms, p95 {percentiles[94]:.0f} ms of {len(milliseconds)} pages")
    print(f"p95 of HTTP/3: {tail['http3'] / tail['http2']:.2f} of HTTP/2's")
    lost = link.lost / max(1, link.lost + link.passed)
    print(f"link: {options.loss:.1%} loss, {options.rtt * 1000:.0f} ms, {options.rate:.0f} Mbit/s, TCP's {options.tcp}")
    print(f"{link.passed} packets passed, {lost:.1%} lost, {link.full} found the queue full")
    return 0


if __name__ == "__main__":
    sys.exit(main())
