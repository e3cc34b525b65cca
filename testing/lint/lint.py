"""REDbot, the lint for resources of HTTP, over what Forebay serves and answers.

Usage: lint.py ADDRESS PATHS, where PATHS is a file of lines `PATH STATUS`. Prints a line for each path that is
as it should be, `ok PATH`, and for each note of one that is not: `failed PATH NOTE: summary`, where NOTE is the
name of a note of level bad of REDbot, or `status` or `fetch`.

Must not be in here: what may be bad; it is in exceptions.txt.
"""

import sys
from configparser import ConfigParser

import thor
from httplint.note import levels
from redbot.resource import HttpResource

LIMIT = 30
# Paths that are asked about together: each has several requests of its own.
AT_ONCE = 4


def notes_of(resource):
    """The notes about a resource, with those of the requests that examine it."""
    for one in [resource, *resource.subreqs.values()]:
        yield from one.response.notes


class Lint:
    """Examines all paths, a few at once."""

    def __init__(self, address, paths):
        parser = ConfigParser()
        parser.read_dict({"redbot": {"enable_local_access": "True"}})
        self.config = parser["redbot"]
        self.base = f"http://{address}"
        self.waiting = list(paths)
        self.running = 0
        self.resources = []

    def more(self):
        while self.waiting and self.running < AT_ONCE:
            path, status = self.waiting.pop(0).split()
            resource = HttpResource(self.config)
            self.resources.append((path, status, resource))
            self.running += 1
            resource.set_request(self.base + path)
            resource.once("check_done", self.done)
            resource.check()

    def done(self):
        self.running -= 1
        if self.waiting:
            self.more()
        elif self.running == 0:
            thor.stop()

    def report(self):
        for path, status, resource in self.resources:
            bad = {}
            if resource.fetch_error is not None or not resource.has_response:
                bad["fetch"] = str(resource.fetch_error)
            elif str(resource.response.status_code_str) != status:
                bad["status"] = f"{resource.response.status_code_str}, not {status}"
            notes = list(notes_of(resource))
            for note in notes:
                if note.level == levels.BAD:
                    bad[type(note).__name__] = note.summary
            for name, why in bad.items():
                print(f"failed {path} {name}: {' '.join(str(why).split())}")
            if not bad:
                print(f"ok {path}")


def main():
    address, paths = sys.argv[1:]
    with open(paths, encoding="utf-8") as lines:
        lint = Lint(address, [line for line in lines.read().splitlines() if line and line[0] != "#"])
    thor.schedule(LIMIT, thor.stop)
    lint.more()
    thor.run()
    if lint.waiting or lint.running:
        sys.exit(f"not examined within {LIMIT} s: {lint.waiting}, and {lint.running} others")
    lint.report()


main()
