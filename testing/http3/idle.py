"""Memory of an idle connection of HTTP/3 that has had a request.

    python3 testing/http3/idle.py target/release/forebay

needs what requirements.txt names (aioquic). Connections are opened in steps of 500 by one client, and Forebay's resident
memory is read a second after each step: the first one fills tables and pools that every process has.
"""

import argparse
import asyncio
import os
import ssl
import subprocess
import tempfile

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.quic.configuration import QuicConfiguration

STEP = 500
AT_ONCE = 50

MANIFESTS = """
apiVersion: v1
kind: ConfigMap
metadata: {namespace: default, name: forebay}
data: {forebay-http3: "on", keep-alive: "600", disable-access-log: "true"}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {namespace: default, name: web}
spec:
  ingressClassName: nginx
  tls: [{hosts: [web.test]}]
  rules: [{host: web.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
"""
HEAD = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"web.test"), (b":path", b"/")]


class Client(QuicConnectionProtocol):
    """A connection that asks once: the Service has no endpoint, so that the response is Forebay's own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.answered = asyncio.get_running_loop().create_future()

    def quic_event_received(self, event):
        for part in self.http.handle_event(event):
            if getattr(part, "stream_ended", False) and not self.answered.done():
                self.answered.set_result(None)

    async def ask(self):
        self.http.send_headers(self._quic.get_next_available_stream_id(), HEAD, end_stream=True)
        self.transmit()
        await self.answered


def resident_kib(process):
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


async def opened(port):
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=["h3"], server_name="web.test", verify_mode=ssl.CERT_NONE, idle_timeout=300
    )
    connection = connect("127.0.0.1", port, configuration=configuration, create_protocol=Client)
    client = await connection.__aenter__()
    await client.ask()
    return connection


async def measure(process, port, steps):
    held, before = [], None
    for step in range(steps):
        for _ in range(STEP // AT_ONCE):
            held += await asyncio.gather(*[opened(port) for _ in range(AT_ONCE)])
        await asyncio.sleep(1)
        now = resident_kib(process)
        if before is not None:
            print(f"{len(held)} connections: {(now - before) / STEP:.1f} KiB for each of the last {STEP}", flush=True)
        before = now


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forebay")
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "all.yaml"), "w") as manifests:
            manifests.write(MANIFESTS)
        command = [options.forebay, "serve", "--manifests", folder, "--configmap", "default/forebay", "--workers", "1"]
        command += ["--http-port=0", "--https-port=0", "--healthz-port=0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            line = next(line for line in process.stderr if " https=" in line)
            port = int(line.split(" https=")[1].split()[0].rsplit(":", 1)[1])
            asyncio.run(measure(process, port, options.steps))
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
