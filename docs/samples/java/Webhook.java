// Verifies the signature of a webhook with Java's own classes.
import static java.nio.charset.StandardCharsets.UTF_8;

import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Base64;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

final class Webhook {
    static boolean verify(String secret, String id, String timestamp, String signatures, byte[] body)
            throws GeneralSecurityException {
        byte[] key;
        long age;
        try {
            key = Base64.getDecoder().decode(secret.replaceFirst("^whsec_", ""));
            age = System.currentTimeMillis() / 1000 - Long.parseLong(timestamp);
        } catch (IllegalArgumentException e) { // the secret is not base64, or the timestamp is not a number
            return false;
        }
        if (key.length < 24 || age < -300 || age > 300) return false;
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        mac.update((id + "." + timestamp + ".").getBytes(UTF_8));
        byte[] expected = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(UTF_8);
        return Arrays.stream(signatures.split(" "))
                .anyMatch(given -> MessageDigest.isEqual(given.getBytes(UTF_8), expected));
    }
}
