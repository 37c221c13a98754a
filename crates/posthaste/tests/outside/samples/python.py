"""Reads requests from stdin, one per line, and prints whether the sample in docs/samples/python accepts each."""

import base64
import sys

from verify import verify

for line in sys.stdin:
    *headers, body = line.rstrip("\n").split("\t")
    print(str(verify(*headers, base64.b64decode(body))).lower())
