"""Clients of HTTP in Python with their default settings, through Forebay to the server in origin/: urllib3,
requests, httpx and aiohttp.

Usage: client.py HTTP_ADDRESS HTTPS_ADDRESS CERTIFICATE IDLE_SECONDS, where IDLE_SECONDS is longer than
Forebay keeps an idle connection. Prints `ok LIBRARY SCHEME CASE` or `failed LIBRARY SCHEME CASE: why`.

Must not be in here: other clients; they have the same cases in files beside this one.
"""

import asyncio
import hashlib
import json
import os
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

HTTP, HTTPS, CERTIFICATE, IDLE = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
# What each library's default context of TLS, or requests, reads.
os.environ["SSL_CERT_FILE"] = os.environ["REQUESTS_CA_BUNDLE"] = CERTIFICATE

import aiohttp  # noqa: E402
import httpx  # noqa: E402
import requests  # noqa: E402
import urllib3  # noqa: E402

LARGE = 20_000_000
PIECE = 65_536
# How long a client waits for an answer: aiohttp's and requests' own default is much longer.
LIMIT = 60


def content(length):
    """The bytes of /bytes/N."""
    block = bytes((at * 31 + at // 256) & 0xFF for at in range(PIECE))
    return (block * (length // PIECE + 1))[:length]


WHOLE = content(LARGE)
TEXT_END = "line 4999 of a text that compresses well, ä\n"


def pieces(data):
    """The data as a body without a length."""
    for at in range(0, len(data), PIECE):
        yield data[at : at + PIECE]


async def pieces_later(data):
    for piece in pieces(data):
        yield piece


class Answer:
    """What all libraries say of a response: status, headers, body."""

    def __init__(self, status, headers, body, version=None):
        self.status, self.headers, self.body, self.version = status, headers, body, version

    def json(self):
        return json.loads(self.body)


class Urllib3:
    """urllib3's PoolManager. It has no certificates of its own."""

    def __init__(self):
        self.pool = urllib3.PoolManager(ca_certs=CERTIFICATE)

    def ask(self, method, url, body=None, chunked=False, headers=None):
        body = pieces(body) if chunked else body
        response = self.pool.request(method, url, body=body, headers=headers, timeout=LIMIT, redirect=True)
        return Answer(response.status, response.headers, response.data)

    def cancel(self, url):
        response = self.pool.request("GET", url, preload_content=False, timeout=LIMIT)
        response.read(20)
        response.close()


class Requests:
    """A Session of requests."""

    def __init__(self):
        self.session = requests.Session()

    def ask(self, method, url, body=None, chunked=False, headers=None):
        body = pieces(body) if chunked else body
        response = self.session.request(method, url, data=body, headers=headers, timeout=LIMIT)
        return Answer(response.status_code, response.headers, response.content)

    def cancel(self, url):
        response = self.session.get(url, stream=True, timeout=LIMIT)
        next(response.iter_content(20))
        response.close()


class Httpx:
    """httpx's Client, which follows redirects only where it is asked to."""

    def __init__(self):
        self.client = httpx.Client(timeout=LIMIT, follow_redirects=True)

    def ask(self, method, url, body=None, chunked=False, headers=None):
        body = pieces(body) if chunked else body
        response = self.client.request(method, url, content=body, headers=headers)
        return Answer(response.status_code, response.headers, response.content)

    def cancel(self, url):
        with self.client.stream("GET", url) as response:
            next(response.iter_bytes(20))


class Aiohttp:
    """aiohttp's ClientSession, with a loop of its own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()

        async def session():
            return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LIMIT))

        self.session = self.loop.run_until_complete(session())

    async def later(self, method, url, body=None, chunked=False, headers=None, expect=None):
        body = pieces_later(body) if chunked else body
        options = {"expect100": True} if expect else {}
        async with self.session.request(method, url, data=body, headers=headers, **options) as response:
            return Answer(response.status, response.headers, await response.read())

    def ask(self, *arguments, **options):
        return self.loop.run_until_complete(self.later(*arguments, **options))

    def cancel(self, url):
        async def cancel():
            async with self.session.get(url) as response:
                await response.content.read(20)
                response.close()

        self.loop.run_until_complete(cancel())

    def sleep(self, seconds):
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def close(self):
        self.loop.run_until_complete(self.session.close())

    def concurrently(self, jobs):
        async def all_of_them():
            return await asyncio.gather(*(self.later(*job[:2], body=job[2]) for job in jobs))

        return self.loop.run_until_complete(all_of_them())


LIBRARIES = [Urllib3, Requests, Httpx, Aiohttp]


class Cases:
    """The cases of one library and one scheme: every method whose name begins with `case_`."""

    def __init__(self, library, scheme):
        self.library, self.scheme = library, scheme
        self.base = f"{scheme}://{HTTP if scheme == 'http' else HTTPS}"

    def echo(self, method, body, **options):
        got = self.library.ask(method, f"{self.base}/hash", body=body, **options).json()
        expected = (method, len(body), hashlib.sha256(body).hexdigest(), self.scheme)
        arrived = tuple(got[name] for name in ["method", "length", "sha256", "forwarded_proto"])
        assert arrived == expected, f"{arrived}, not {expected}"
        return got

    def case_get(self):
        answer = self.library.ask("GET", f"{self.base}/bytes/1000")
        assert answer.body == content(1000) and answer.headers["content-length"] == "1000"

    def case_head(self):
        answer = self.library.ask("HEAD", f"{self.base}/bytes/1000")
        assert answer.body == b"" and answer.headers["content-length"] == "1000"

    def case_post_length(self):
        assert self.echo("POST", b"a body")["content_length"] == 6

    def case_post_chunked(self):
        self.echo("POST", b"a body", chunked=True)

    def case_upload(self):
        self.echo("PUT", WHOLE)

    def case_upload_chunked(self):
        self.echo("PUT", WHOLE, chunked=True)

    def case_download(self):
        assert self.library.ask("GET", f"{self.base}/bytes/{LARGE}").body == WHOLE

    def case_download_chunked(self):
        assert self.library.ask("GET", f"{self.base}/chunked/{LARGE}").body == WHOLE

    def case_redirects(self):
        for code, method in [(303, "GET"), (307, "POST"), (308, "POST")]:
            got = self.library.ask("POST", f"{self.base}/redirect/{code}", body=b"body").json()
            assert (got["method"], got["length"]) == (method, 4 if method == "POST" else 0), f"{code}: {got}"

    def case_compression(self):
        # urllib3 asks for no coding of its own accord.
        headers = {"Accept-Encoding": "gzip"} if isinstance(self.library, Urllib3) else None
        answer = self.library.ask("GET", f"{self.base}/text", headers=headers)
        assert answer.headers.get("content-encoding") in ["gzip", "br", "zstd", "deflate"], dict(
            answer.headers
        )
        assert answer.body.decode().endswith(TEXT_END)

    def case_continue(self):
        if isinstance(self.library, Aiohttp):
            assert self.echo("PUT", WHOLE, expect=True)["length"] == LARGE
            return
        # The others send the body at once; the interim answer comes in the midst of it.
        self.echo("PUT", WHOLE, headers={"Expect": "100-continue"})

    def case_idle(self):
        self.echo("POST", b"first")
        # A library with a loop notices the end of a connection only while its loop runs.
        getattr(self.library, "sleep", time.sleep)(IDLE)
        self.echo("POST", b"second")

    def case_cancel(self):
        name = uuid.uuid4()
        self.library.cancel(f"{self.base}/slow?id={name}")
        answer = self.library.ask("GET", f"{self.base}/gone?id={name}")
        assert answer.status == 204, f"the endpoint does not learn of it: {answer.status}"

    def case_concurrent(self):
        url = f"{self.base}/hash"
        jobs = [("PUT", url, content(job * 100)) for job in range(100)]
        if isinstance(self.library, Aiohttp):
            answers = self.library.concurrently(jobs)
        else:
            with ThreadPoolExecutor(20) as threads:
                answers = list(threads.map(lambda job: self.library.ask(job[0], job[1], body=job[2]), jobs))
        for job, answer in zip(jobs, answers):
            assert answer.json()["sha256"] == hashlib.sha256(job[2]).hexdigest()


def main():
    for make in LIBRARIES:
        library = make()
        for scheme in ["http", "https"]:
            cases = Cases(library, scheme)
            for name in [name for name in dir(cases) if name.startswith("case_")]:
                words = f"{make.__name__.lower()} {scheme} {name.removeprefix('case_').replace('_', '-')}"
                try:
                    getattr(cases, name)()
                    print(f"ok {words}", flush=True)
                except Exception as error:  # Whatever a library raises is a failure of its case.
                    print(
                        f"failed {words}: {type(error).__name__}: {' '.join(str(error).split())[:300]}",
                        flush=True,
                    )
        getattr(library, "close", lambda: None)()


main()
