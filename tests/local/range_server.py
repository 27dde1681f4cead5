"""A web server that hangs up, knows no ranges or lies about them, when told to."""

import http.server
import socketserver
import threading


class Server:
    """Serves ``files``, {path: bytes}, on a port of its own.

    ``hang_up`` says after how many bytes each of the next answers breaks off, ``ranges`` whether Range is understood,
    ``shift`` by how much an answer's Content-Range is wrong.
    """

    def __init__(self, files):
        self.files, self.hang_up, self.ranges, self.shift = files, [], True, 0
        self.asked = []  # the Range of each request
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *arguments):
                pass

        # no HTTPServer, which asks for the name of the address: that takes seconds where nobody answers
        self.http = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def answer(self, request):
        wanted = request.headers.get("Range")
        self.asked.append(wanted)
        content = self.files.get(request.path)
        begin = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.ranges else 0
        if content is None or begin >= len(content):
            request.send_error(404 if content is None else 416)
            return
        body = content[begin:]
        request.send_response(206 if wanted and self.ranges else 200)
        if wanted and self.ranges:
            at = begin + self.shift
            request.send_header("Content-Range", f"bytes {at}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: self.hang_up.pop(0) if self.hang_up else None])
        request.close_connection = True
