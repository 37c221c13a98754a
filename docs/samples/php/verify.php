<?php
// Verifies the signature of a webhook with PHP's own functions.
function verify(string $secret, string $id, string $timestamp, string $signatures, string $body): bool
{
    $key = (string) base64_decode(preg_replace('/^whsec_/', '', $secret), true);
    if (strlen($key) < 24 || abs(time() - (int) $timestamp) > 300) {
        return false;
    }
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    foreach (explode(' ', $signatures) as $given) {
        if (hash_equals($expected, $given)) {
            return true;
        }
    }
    return false;
}
