"""Reads requests from stdin, one per line, and prints whether the Python sample with standardwebhooks accepts each."""

import base64
import sys

from library import verify

for line in sys.stdin:
    secret, webhook_id, timestamp, signatures, body = line.rstrip("\n").split("\t")
    headers = {"webhook-id": webhook_id, "webhook-timestamp": timestamp, "webhook-signature": signatures}
    print(str(verify(secret, headers, base64.b64decode(body))).lower())
