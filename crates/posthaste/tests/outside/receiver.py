"""A webhook receiver that verifies signatures with the package standardwebhooks.

Prints the port on which it listens, then one line of JSON for each request. Each line of its input is a JSON list
of secrets, which replaces the previous secrets. It responds with 200 if the signature matches one of them and with
401 otherwise, and echoes challenges."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

secrets = []


def is_genuine(secret, body, headers):
    try:
        Webhook(secret).verify(body, headers)
        return True
    except WebhookVerificationError:
        return False


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        genuine = [is_genuine(secret, body, headers) for secret in secrets]
        other_id = {**headers, "webhook-id": headers["webhook-id"] + "1"}
        tell(
            {
                "webhook_id": headers["webhook-id"],
                "event_type": headers["posthaste-event-type"],
                "signatures": len(headers["webhook-signature"].split(" ")),
                "genuine": genuine,
                # Whether verification accepts a request that was changed after signing.
                "tampered_body": [is_genuine(secret, body + b" ", headers) for secret in secrets],
                "tampered_id": [is_genuine(secret, body, other_id) for secret in secrets],
                "body": body.decode(),
            }
        )
        answer = json.loads(body)["challenge"].encode() if b"challenge" in body else b""
        self.send_response(200 if any(genuine) else 401)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def tell(what):
    print(json.dumps(what), flush=True)


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
tell({"port": server.server_address[1]})
for line in sys.stdin:
    secrets[:] = json.loads(line)
    tell({"secrets": len(secrets)})
