<?php
// Reads requests from stdin, one per line, and prints whether the sample in docs/samples/php accepts each request.
require __DIR__ . '/verify.php';

while (($line = fgets(STDIN)) !== false) {
    [$secret, $id, $timestamp, $signatures, $body] = explode("\t", rtrim($line, "\n"));
    echo verify($secret, $id, $timestamp, $signatures, base64_decode($body)) ? "true\n" : "false\n";
}
