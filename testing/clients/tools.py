"""curl and Apache's ab through Forebay to the server in origin/: uploads, ranges, aborts, and 10,000 requests on
one connection.

Usage: tools.py HTTP_ADDRESS HTTPS_ADDRESS CERTIFICATE FOLDER. Prints `ok PROGRAM WAY CASE` or
`failed PROGRAM WAY CASE: why`, where PROGRAM has curl's version; FOLDER is for files.

Must not be in here: libraries of HTTP; they have files beside this one.
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import uuid

HTTP, HTTPS, CERTIFICATE = sys.argv[1:4]
FOLDER = pathlib.Path(sys.argv[4])
LARGE = 20_000_000
MANY = 10_000
LIMIT = 90
# How curl ends where its time was up.
TIMEOUT = 28
TEXT_END = "line 4999 of a text that compresses well, ä\n"
# The ways of curl: its flags and where it asks.
WAYS = {
    "http1": (["--http1.1"], f"http://{HTTP}"),
    "http1-tls": (["--http1.1", "--cacert", CERTIFICATE], f"https://{HTTPS}"),
    "h2c": (["--http2-prior-knowledge"], f"http://{HTTP}"),
    "h2": (["--cacert", CERTIFICATE], f"https://{HTTPS}"),
}


def content(length):
    """The bytes of /bytes/N."""
    block = bytes((at * 31 + at // 256) & 0xFF for at in range(65_536))
    return (block * (length // 65_536 + 1))[:length]


WHOLE = content(LARGE)
UPLOAD = FOLDER / "upload"
UPLOAD.write_bytes(WHOLE)


def run(command, ends=(0,), **options):
    """What a program has printed; it has to end with one of these codes."""
    done = subprocess.run(command, capture_output=True, timeout=LIMIT, **options)
    assert (
        done.returncode in ends
    ), f"{command[-1]}: ended with {done.returncode}: {done.stderr.decode()[-200:]}"
    return done.stdout


class Curl:
    """The cases of one way: every method whose name begins with `case_`."""

    def __init__(self, way):
        flags, self.base = WAYS[way]
        self.command = ["curl", "--silent", "--show-error", *flags]

    def ask(self, *arguments, path, **options):
        return run([*self.command, *arguments, self.base + path], **options)

    def arrived(self, *arguments, path="/hash", **options):
        return json.loads(self.ask(*arguments, path=path, **options))

    def is_whole(self, got, method, data=WHOLE):
        expected = (method, len(data), hashlib.sha256(data).hexdigest())
        assert (got["method"], got["length"], got["sha256"]) == expected, got

    def case_upload(self):
        self.is_whole(self.arrived("--upload-file", str(UPLOAD)), "PUT")

    def case_upload_without_length(self):
        # From a pipe, whose length curl does not know; over HTTP/1.1 it expects 100 Continue.
        self.is_whole(self.arrived("--upload-file", "-", input=WHOLE), "PUT")

    def case_post(self):
        self.is_whole(self.arrived("--data-binary", f"@{UPLOAD}"), "POST")

    def case_form(self):
        got = self.arrived("--form", f"file=@{UPLOAD}", "--form", "name=value")
        assert got["method"] == "POST" and got["length"] > LARGE, got

    def case_expect(self):
        self.is_whole(self.arrived("--header", "Expect: 100-continue", "--upload-file", str(UPLOAD)), "PUT")

    def case_refused(self):
        """An answer before the body has ended. Over HTTP/2 a reset without an error follows it (RFC 9113
        section 8.1).
        """
        flags = ["--upload-file", str(UPLOAD), "--output", "/dev/null", "--write-out", "%{http_code}"]
        status = self.ask(*flags, path="/refuse")
        assert status == b"403", status

    def case_ranges(self):
        for asked, expected in [("0-99", WHOLE[:100]), ("19999900-", WHOLE[-100:]), ("-500", WHOLE[-500:])]:
            assert self.ask("--range", asked, path=f"/bytes/{LARGE}") == expected, asked
        parts = self.ask("--range", "0-9,1000-1009", path=f"/bytes/{LARGE}")
        assert WHOLE[:10] in parts and WHOLE[1000:1010] in parts and len(parts) < 1000
        status = ["--output", "/dev/null", "--write-out", "%{http_code}"]
        assert self.ask("--range", "30000000-", *status, path=f"/bytes/{LARGE}") == b"416"
        # A range of another version is not asked for: the whole comes.
        for tag, length in [(f'"bytes-{LARGE}"', b"206 100"), ('"other"', b"200 %d" % LARGE)]:
            header = ["--header", f"If-Range: {tag}", "--range", "0-99", "--output", "/dev/null"]
            got = self.ask(*header, "--write-out", "%{http_code} %{size_download}", path=f"/bytes/{LARGE}")
            assert got == length, got

    def case_resume(self):
        file = FOLDER / f"resumed-{uuid.uuid4()}"
        file.write_bytes(WHOLE[:7_654_321])
        self.ask("--continue-at", "-", "--output", str(file), path=f"/bytes/{LARGE}")
        assert file.read_bytes() == WHOLE

    def case_conditional(self):
        status = ["--output", "/dev/null", "--write-out", "%{http_code}"]
        assert (
            self.ask("--header", f'If-None-Match: "bytes-{LARGE}"', *status, path=f"/bytes/{LARGE}") == b"304"
        )

    def case_head(self):
        head = self.ask("--head", path=f"/bytes/{LARGE}").decode().lower()
        assert f"content-length: {LARGE}\r\n" in head, head

    def case_compressed(self):
        for coding in ["gzip", "br"]:
            flags = ["--compressed", "--header", f"Accept-Encoding: {coding}", "--dump-header", "-"]
            answer = self.ask(*flags, path="/text").decode()
            assert f"content-encoding: {coding}" in answer.lower() and answer.endswith(TEXT_END)

    def case_redirects(self):
        for code, method in [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")]:
            got = self.arrived("--location", "--data", "body", path=f"/redirect/{code}")
            assert (got["method"], got["length"]) == (method, 4 if method == "POST" else 0), f"{code}: {got}"

    def case_abort_download(self):
        name = uuid.uuid4()
        self.ask("--max-time", "0.3", path=f"/slow?id={name}", ends=(TIMEOUT,))
        self.is_gone(name)

    def case_abort_upload(self):
        name = uuid.uuid4()
        flags = ["--upload-file", str(UPLOAD), "--limit-rate", "1M", "--max-time", "0.5"]
        self.ask(*flags, path=f"/swallow?id={name}", ends=(TIMEOUT,))
        self.is_gone(name)

    def is_gone(self, name):
        status = self.ask("--write-out", "%{http_code}", path=f"/gone?id={name}")
        assert status == b"204", f"the endpoint does not learn of it: {status}"

    def case_one_connection(self):
        """10,000 requests, one after the other."""
        self.count(1)

    def case_streams(self):
        """10,000 requests, 50 at once: over HTTP/2 on one connection, over HTTP/1.1 on 50."""
        self.count(50)

    def count(self, at_once):
        flags = ["--output", "/dev/null", "--write-out", "%{http_code} %{num_connects}\n"]
        if at_once > 1:
            flags += ["--parallel", "--parallel-max", str(at_once)]
        lines = self.ask(*flags, path=f"/status/204?[1-{MANY}]").decode().split("\n")[:-1]
        statuses = [line.split()[0] for line in lines]
        assert statuses == ["204"] * MANY, {status: statuses.count(status) for status in set(statuses)}
        connects = sum(int(line.split()[1]) for line in lines)
        expected = at_once if "--http1.1" in self.command else 1
        assert connects <= expected, f"{connects} connections, not {expected}"

    def case_mixed(self):
        """Several transfers in one run of curl, on one connection."""
        with_body = [
            "--data-binary",
            f"@{UPLOAD}",
            self.base + "/hash",
            "--next",
            "--silent",
            *self.command[3:],
        ]
        idle = ["--next", "--silent", *self.command[3:], self.base + "/hash"]
        output = run([*self.command, *with_body, "--upload-file", str(UPLOAD), self.base + "/hash", *idle])
        got = [json.loads(line) for line in output.decode().splitlines()]
        assert [one["method"] for one in got] == ["POST", "PUT", "GET"], got
        assert [one["length"] for one in got] == [LARGE, LARGE, 0], got


class Ab:
    """Apache's ab, which speaks HTTP/1.0 with keep-alive."""

    def __init__(self, way):
        self.base = {"http1": f"http://{HTTP}", "http1-tls": f"https://{HTTPS}"}[way]

    def run(self, *arguments, path, requests=MANY):
        report = run(["ab", "-q", "-n", str(requests), *arguments, self.base + path]).decode()

        def figure(name):
            found = re.search(rf"^{re.escape(name)}: +(\d+)", report, re.MULTILINE)
            return int(found[1]) if found else 0

        figures = [figure(name) for name in ["Complete requests", "Failed requests", "Non-2xx responses"]]
        assert figures == [requests, 0, 0], report
        return figure

    def case_one_connection(self):
        figure = self.run("-k", "-c", "1", path="/bytes/1000")
        assert figure("Keep-Alive requests") == MANY, figure("Keep-Alive requests")

    def case_many_connections(self):
        figure = self.run("-k", "-c", "100", path="/bytes/1000")
        assert figure("Keep-Alive requests") == MANY, figure("Keep-Alive requests")

    def case_close(self):
        self.run("-c", "20", path="/bytes/1000", requests=1000)

    def case_upload(self):
        figure = self.run(
            "-k", "-c", "4", "-p", str(UPLOAD), "-T", "application/octet-stream", path="/hash", requests=20
        )
        assert figure("Total body sent") > 20 * LARGE, figure("Total body sent")

    def case_head(self):
        self.run("-k", "-i", "-c", "10", path="/bytes/1000", requests=1000)


def play(name, cases, way):
    for method in [method for method in dir(cases) if method.startswith("case_")]:
        words = f"{name} {way} {method.removeprefix('case_').replace('_', '-')}"
        try:
            getattr(cases, method)()
            print(f"ok {words}", flush=True)
        except (AssertionError, subprocess.TimeoutExpired, ValueError, OSError) as error:
            print(f"failed {words}: {type(error).__name__}: {' '.join(str(error).split())[:400]}", flush=True)


# Versions of curl differ: an exception is one of a version.
VERSION = run(["curl", "--version"]).decode().split()[1]
for way in WAYS:
    play(f"curl-{VERSION}", Curl(way), way)
for way in ["http1", "http1-tls"]:
    play("ab", Ab(way), way)
