# A receiver that verifies every request, returns the challenge and processes each event once.
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from verify import verify

processed = set()  # in a real receiver a table, written in the transaction that processes the event


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        names = ["webhook-id", "webhook-timestamp", "webhook-signature"]
        webhook_id, timestamp, signatures = (self.headers.get(name, "") for name in names)
        if not verify(os.environ["WEBHOOK_SECRET"], webhook_id, timestamp, signatures, body):
            return self.respond(401)
        event_type = self.headers.get("posthaste-event-type")
        if event_type == "posthaste.verification":
            return self.respond(200, {"challenge": json.loads(body)["challenge"]})
        if webhook_id not in processed:
            processed.add(webhook_id)
            print(event_type, body.decode(), flush=True)
        self.respond(200)

    def respond(self, status, content=None):
        text = json.dumps(content).encode() if content else b""
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8081))), Receiver).serve_forever()
