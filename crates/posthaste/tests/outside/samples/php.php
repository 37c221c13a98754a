<?php
// Reads requests from stdin, one per line, and prints whether the sample of docs/samples/php accepts each.
require __DIR__ . '/verify.php';

while (($line = fgets(STDIN)) !== false) {
    [$secret, $id, $timestamp, $signatures, $body] = explode("\t", rtrim($line, "\n"));
    echo verify($secret, $id, $timestamp, $signatures, base64_decode($body)) ? "true\n" : "false\n";
}
