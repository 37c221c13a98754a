"""Connects with libpq to each URL on standard input. Prints one line per URL: tls, plain, or refused with the error."""

import sys

import psycopg

if psycopg.pq.version() < 180000:
    sys.exit(f"libpq 18 is needed, this is {psycopg.pq.version()}")
for url in sys.stdin.read().split():
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            print("tls" if connection.pgconn.ssl_in_use else "plain", flush=True)
    except psycopg.OperationalError as error:
        print("refused", " ".join(str(error).split()), flush=True)
