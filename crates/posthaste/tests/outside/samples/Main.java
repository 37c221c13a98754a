// Reads requests from stdin, one per line, and prints whether the sample in docs/samples/java accepts each request.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;

final class Main {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            byte[] body = Base64.getDecoder().decode(fields[4]);
            System.out.println(Webhook.verify(fields[0], fields[1], fields[2], fields[3], body));
        }
    }
}
