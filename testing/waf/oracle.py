#!/usr/bin/env python3
"""Gives the exchanges that `cargo xtask waf --record FILE` has written to libmodsecurity, and compares the rules.

Usage: oracle.py LIBRARY RULES FILE [LEVEL]

LIBRARY is libmodsecurity.so.3, of Debian's libmodsecurity3 or of the wheel `libmodsecurity`. RULES is the folder `rules`
of the Go module that `cargo xtask waf` plays. Known differences are in differences.txt beside this file, with the side
that is right. Each other one is printed; the exit status is 1 if there is one, or if a known one is gone.

With a LEVEL of paranoia, for which `cargo xtask waf --level LEVEL` has written the exchanges, only blocks are compared:
the exit status is 1 if the firewall blocks what libmodsecurity lets pass.
"""

import base64
import collections
import ctypes
import json
import pathlib
import re
import sys
import tempfile

# Rules that add up what others have found.
SUMS = {f"{side}{rule}" for side in "+-" for rule in (949110, 949111, 959100, 959101)}
# Rules that refuse a request.
BLOCKS = {949110, 949111, 200002, 200003, 200004, 200007}
LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class Oracle:
    """A rule set of libmodsecurity, through its C interface."""

    def __init__(self, library, texts):
        self.library = ctypes.CDLL(library)
        for name in ["msc_init", "msc_create_rules_set", "msc_new_transaction"]:
            getattr(self.library, name).restype = ctypes.c_void_p
        self.lines = []
        self.callback = LOG(lambda _, line: self.lines.append(line or b""))
        self.instance = ctypes.c_void_p(self.library.msc_init())
        self.library.msc_set_log_cb(self.instance, self.callback)
        self.rules = ctypes.c_void_p(self.library.msc_create_rules_set())
        for path in texts:
            error = ctypes.c_char_p()
            self.library.msc_rules_add_file.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
            if self.library.msc_rules_add_file(self.rules, str(path).encode(), ctypes.byref(error)) < 0:
                sys.exit(f"{path}: {error.value.decode(errors='replace')}")

    def matched(self, exchange):
        """The ids of the rules that write a line in the log, once each."""
        self.lines.clear()
        library, decode = self.library, base64.b64decode
        transaction = ctypes.c_void_p(library.msc_new_transaction(self.instance, self.rules, None))
        library.msc_process_connection(transaction, b"127.0.0.1", 54321, b"127.0.0.1", 80)
        version = decode(exchange["version"]).removeprefix(b"HTTP/")
        library.msc_process_uri(transaction, decode(exchange["target"]), decode(exchange["method"]), version)
        for name, value in exchange["headers"]:
            self.header(library.msc_add_n_request_header, transaction, decode(name), decode(value))
        library.msc_process_request_headers(transaction)
        body = decode(exchange["body"])
        library.msc_append_request_body(transaction, body, ctypes.c_size_t(len(body)))
        library.msc_process_request_body(transaction)
        for name, value in exchange["response_headers"]:
            self.header(library.msc_add_n_response_header, transaction, decode(name), decode(value))
        library.msc_process_response_headers(transaction, exchange["status"], b"HTTP/1.1")
        body = decode(exchange["response_body"])
        library.msc_append_response_body(transaction, body, ctypes.c_size_t(len(body)))
        library.msc_process_response_body(transaction)
        library.msc_process_logging(transaction)
        library.msc_transaction_cleanup(transaction)
        return {int(id) for line in self.lines for id in re.findall(rb'\[id "(\d+)"\]', line)}

    @staticmethod
    def header(add, transaction, name, value):
        add(transaction, name, ctypes.c_size_t(len(name)), value, ctypes.c_size_t(len(value)))


def known(path):
    """Known differences: a rule of one side only, such as `-920100`, and an expression for names of exchanges."""
    entries = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            word, name, _, reason = re.fullmatch(r"(\S+) (\S+?)(:) (.+\.)", line).groups()
            entries.append((word, re.compile(name)))
    return entries


def names(exchange):
    """The name of an exchange, and the same with the type of its body."""
    decode = base64.b64decode
    types = [decode(value) for name, value in exchange["headers"] if decode(name).lower() == b"content-type"]
    kind = (types or [b""])[-1].decode(errors="replace").split(";")[0].strip().lower()
    return exchange["name"], f"{exchange['name']}@{kind}"


def readable(rules, folder, level):
    """Copies all rules into a folder, in the order in which they are read, as libmodsecurity can read them."""
    here = pathlib.Path(__file__).parent
    texts = [rules / "@coraza.conf-recommended", here / "setup.conf", rules / "@crs-setup.conf.example"]
    texts += sorted((rules / "@owasp_crs").glob("*.conf"))
    for data in (rules / "@owasp_crs").glob("*.data"):
        (folder / data.name).write_bytes(data.read_bytes())
    for number, path in enumerate(texts):
        # A rule without actions has to be followed by an empty line, and this directive is refused.
        text = re.sub(r"(?m)^(?=Sec)", "\n", path.read_text())
        text = re.sub(r"(?m)^SecRequestBodyInMemoryLimit.*$", "", text)
        text = text.replace("blocking_paranoia_level=4", f"blocking_paranoia_level={level}")
        texts[number] = folder / f"{number:02}.conf"
        texts[number].write_text(text)
    return texts


def compare_blocks(oracle, file):
    """Compares whether requests are refused."""
    count, both, ours_only, theirs_only = 0, 0, [], []
    for line in open(file, encoding="utf-8"):
        exchange = json.loads(line)
        ours, theirs = (not BLOCKS.isdisjoint(rules) for rules in (exchange["rules"], oracle.matched(exchange)))
        count += 1
        both += ours and theirs
        if ours and not theirs:
            ours_only.append(exchange["name"])
        elif theirs and not ours:
            theirs_only.append(exchange["name"])
    print("blocked by ours only:", " ".join(ours_only))
    print("blocked by libmodsecurity only:", " ".join(theirs_only))
    print(f"{count} exchanges, blocked by both {both}, by ours only {len(ours_only)}, by libmodsecurity only {len(theirs_only)}")
    return 1 if ours_only else 0


def main(library, rules, file, level=None):
    with tempfile.TemporaryDirectory() as folder:
        oracle = Oracle(library, readable(pathlib.Path(rules), pathlib.Path(folder), level or 4))
    if level:
        return compare_blocks(oracle, file)
    entries = known(pathlib.Path(__file__).with_name("differences.txt"))
    used = set()
    count, different, new, by_rule = 0, 0, 0, collections.Counter()
    for line in open(file, encoding="utf-8"):
        exchange = json.loads(line)
        ours, theirs = set(exchange["rules"]), oracle.matched(exchange)
        count += 1
        words = {f"-{rule}" for rule in theirs - ours} | {f"+{rule}" for rule in ours - theirs}
        causes = words - SUMS if words - SUMS else words
        by_rule.update(causes)
        for entry in entries:
            if entry[0] in causes and any(map(entry[1].fullmatch, names(exchange))):
                used.add(entry)
                causes.discard(entry[0])
        different += bool(words)
        if causes:
            new += 1
            print(f"{exchange['name']}: {' '.join(sorted(causes))}")
    for word, name in (entry for entry in entries if entry not in used):
        print(f"{word} {name.pattern}: there is no such difference any more")
    print(f"{count} exchanges, {different} with a difference, {new} of them new; - is libmodsecurity's only, + is ours only")
    print(", ".join(f"{word} {times}" for word, times in by_rule.most_common()))
    return 1 if new or len(used) < len(entries) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
