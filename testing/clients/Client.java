// Java's client of HTTP (java.net.http) with its default settings, through Forebay to the server in origin/.
//
// Usage: java Client.java HTTP_ADDRESS HTTPS_ADDRESS CERTIFICATE IDLE_MS, where IDLE_MS is longer than
// Forebay keeps an idle connection. Prints `ok SCHEME CASE` or `failed SCHEME CASE: why`.
//
// Must not be in here: other clients; they have the same cases in files beside this one.

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.zip.GZIPInputStream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class Client {
    static final int LARGE = 20_000_000;
    static final int JOBS = 100;
    static final Duration LIMIT = Duration.ofSeconds(60);
    static final String TEXT_END = "line 4999 of a text that compresses well, ä\n";

    interface Case {
        void run() throws Exception;
    }

    final HttpClient client;
    final String scheme;
    final String base;
    final long idle;

    Client(HttpClient client, String scheme, String address, long idle) {
        this.client = client;
        this.scheme = scheme;
        this.base = scheme + "://" + address;
        this.idle = idle;
    }

    /** The bytes of /bytes/N. */
    static byte[] content(int length) {
        byte[] bytes = new byte[length];
        for (int at = 0; at < length; at++) {
            bytes[at] = (byte) (at * 31L + at / 256);
        }
        return bytes;
    }

    static String sha256(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }

    static void expect(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }

    HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create(base + path)).timeout(LIMIT);
    }

    HttpResponse<byte[]> send(HttpRequest.Builder request) throws Exception {
        return client.send(request.build(), BodyHandlers.ofByteArray());
    }

    static BodyPublisher chunked(byte[] body) {
        return BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(body));
    }

    static void compare(String got, String method, byte[] body, String scheme) throws Exception {
        for (String part : List.of(
                "\"method\":\"" + method + "\"",
                "\"length\":" + body.length + ",",
                "\"sha256\":\"" + sha256(body) + "\"",
                "\"forwarded_proto\":\"" + scheme + "\"")) {
            expect(got.contains(part), got + " without " + part);
        }
    }

    void echo(String method, byte[] body, BodyPublisher publisher, boolean expectContinue) throws Exception {
        HttpRequest.Builder request = request("/hash").method(method, publisher)
                .expectContinue(expectContinue);
        compare(new String(send(request).body(), StandardCharsets.UTF_8), method, body, scheme);
    }

    void get() throws Exception {
        HttpResponse<byte[]> response = send(request("/bytes/1000"));
        // In clear it asks for an upgrade to h2c, which Forebay does not take.
        String version = scheme.equals("https") ? "HTTP_2" : "HTTP_1_1";
        expect(response.version().name().equals(version), response.version() + " by default");
        expect(Arrays.equals(response.body(), content(1000)), response.body().length + " bytes");
    }

    void head() throws Exception {
        HttpResponse<byte[]> response = send(request("/bytes/1000").method("HEAD", BodyPublishers.noBody()));
        long length = response.headers().firstValueAsLong("content-length").orElse(-1);
        expect(response.body().length == 0 && length == 1000, "length " + length);
    }

    void download(String path) throws Exception {
        byte[] body = send(request(path)).body();
        expect(Arrays.equals(body, content(LARGE)), body.length + " bytes");
    }

    /** Its default is to follow none. */
    void redirects() throws Exception {
        HttpResponse<byte[]> response = send(request("/redirect/307").POST(BodyPublishers.ofString("body")));
        String location = response.headers().firstValue("location").orElse("");
        expect(response.statusCode() == 307 && location.endsWith("/hash"), response + " " + location);
    }

    void compression() throws Exception {
        HttpResponse<byte[]> response = send(request("/text").header("Accept-Encoding", "gzip"));
        InputStream body = new GZIPInputStream(new ByteArrayInputStream(response.body()));
        String text = new String(body.readAllBytes(), StandardCharsets.UTF_8);
        expect(text.endsWith(TEXT_END), text.length() + " characters");
    }

    void idle() throws Exception {
        byte[] body = "again".getBytes(StandardCharsets.UTF_8);
        echo("POST", body, BodyPublishers.ofByteArray(body), false);
        Thread.sleep(idle);
        echo("POST", body, BodyPublishers.ofByteArray(body), false);
    }

    void cancel() throws Exception {
        String id = UUID.randomUUID().toString();
        HttpResponse<InputStream> response =
                client.send(request("/slow?id=" + id).build(), BodyHandlers.ofInputStream());
        response.body().readNBytes(20);
        response.body().close();
        int status = send(request("/gone?id=" + id)).statusCode();
        expect(status == 204, "the endpoint does not learn of it: " + status);
    }

    void concurrent() throws Exception {
        List<CompletableFuture<HttpResponse<String>>> answers = new ArrayList<>();
        for (int job = 0; job < JOBS; job++) {
            BodyPublisher body = BodyPublishers.ofByteArray(content(job * 100));
            HttpRequest.Builder request = request("/hash").PUT(body);
            answers.add(client.sendAsync(request.build(), BodyHandlers.ofString()));
        }
        for (int job = 0; job < JOBS; job++) {
            compare(answers.get(job).get(60, TimeUnit.SECONDS).body(), "PUT", content(job * 100), scheme);
        }
    }

    Map<String, Case> cases() {
        byte[] small = "a body".getBytes(StandardCharsets.UTF_8);
        byte[] whole = content(LARGE);
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("get", this::get);
        cases.put("head", this::head);
        cases.put("post-length", () -> echo("POST", small, BodyPublishers.ofByteArray(small), false));
        cases.put("post-chunked", () -> echo("POST", small, chunked(small), false));
        cases.put("upload", () -> echo("PUT", whole, BodyPublishers.ofByteArray(whole), false));
        cases.put("upload-chunked", () -> echo("PUT", whole, chunked(whole), false));
        cases.put("continue", () -> echo("PUT", whole, BodyPublishers.ofByteArray(whole), true));
        cases.put("download", () -> download("/bytes/" + LARGE));
        cases.put("download-chunked", () -> download("/chunked/" + LARGE));
        cases.put("redirects", this::redirects);
        cases.put("compression", this::compression);
        cases.put("idle", this::idle);
        cases.put("cancel", this::cancel);
        cases.put("concurrent", this::concurrent);
        return cases;
    }

    static SSLContext trusting(String certificate) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        try (InputStream file = Files.newInputStream(Path.of(certificate))) {
            store.setCertificateEntry("it", factory.generateCertificate(file));
        }
        TrustManagerFactory managers =
                TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context;
    }

    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newBuilder().sslContext(trusting(arguments[2])).build();
        long idle = Long.parseLong(arguments[3]);
        for (String scheme : List.of("http", "https")) {
            String address = arguments[scheme.equals("http") ? 0 : 1];
            for (Map.Entry<String, Case> one : new Client(client, scheme, address, idle).cases().entrySet()) {
                try {
                    one.getValue().run();
                    System.out.println("ok " + scheme + " " + one.getKey());
                } catch (Exception error) {
                    String why = String.valueOf(error).replace('\n', ' ');
                    System.out.println("failed " + scheme + " " + one.getKey() + ": " + why);
                }
            }
        }
        System.exit(0);
    }
}
