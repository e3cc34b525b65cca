"""Tells which requests Python's http.server sees. It leaves bodies to its user, so that they are read here."""
import http.server
import socketserver
import sys
import threading


class Endpoint(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.tell
        raise AttributeError(name)

    def tell(self):
        length = self.read_chunks() if self.headers.get("Transfer-Encoding") else self.read_length()
        self.send_response(200)
        self.send_header("X-Said", f"{self.command} {self.path} {length}")
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.wfile.flush()

    def read_length(self):
        return len(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

    def read_chunks(self):
        length = 0
        while size := int(self.rfile.readline().split(b";")[0], 16):
            length += len(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return length

    def log_message(self, *arguments):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


server = Server(("127.0.0.1", 0), Endpoint)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()  # Ends when whoever started this does.
