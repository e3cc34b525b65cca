// Forebay as a "server under test" of connectrpc's conformance suite: started by its runner for each
// configuration, this program starts the suite's reference server and a Forebay in front of it, and answers
// with the address of Forebay.
//
// Usage: server FOREBAY REFERENCE_SERVER [BEHIND], where BEHIND is the version of HTTP that the reference
// server speaks: 1 or 2. Without it, it is that of the client, or 2 behind a client of HTTP/3.
//
// Must not be in here: cases and what is expected of them; they are the suite's. What may fail is in
// exceptions.txt.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of ServerCompatRequest, ServerCompatResponse and TLSCreds (server_compat.proto of the suite).
const (
	requestHTTPVersion   = 2
	requestUseTLS        = 4
	requestClientTLSCert = 5
	requestServerCreds   = 7
	credsCert            = 1
	credsKey             = 2
	responseHost         = 1
	responsePort         = 2
	responsePemCert      = 3
)

const (
	version2   = 2
	version3   = 3
	messageMax = 1 << 20
	// The certificate that the runner makes is valid for it. A name, even localhost, gRPC's client would look
	// up in the DNS.
	host = "127.0.0.1"
)

// The ports in the line by which Forebay says that it serves.
var serving = regexp.MustCompile(`serving http=\S*:(\d+) https=\S*:(\d+)`)

// A field of a message: its number, its encoding, and the bytes or the number in it.
type field struct {
	number protowire.Number
	kind   protowire.Type
	bytes  []byte
	varint uint64
}

func parse(message []byte) ([]field, error) {
	var fields []field
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
		one := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			one.varint, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			one.bytes, n = protowire.ConsumeBytes(message)
		default:
			return nil, fmt.Errorf("field %d has encoding %d, which these messages do not use", number, kind)
		}
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		message = message[n:]
		fields = append(fields, one)
	}
	return fields, nil
}

func encode(fields []field) []byte {
	var message []byte
	for _, one := range fields {
		message = protowire.AppendTag(message, one.number, one.kind)
		if one.kind == protowire.VarintType {
			message = protowire.AppendVarint(message, one.varint)
		} else {
			message = protowire.AppendBytes(message, one.bytes)
		}
	}
	return message
}

// The field with a number; an empty one where the message has none, as Protobuf means it.
func find(fields []field, number protowire.Number) field {
	for _, one := range fields {
		if one.number == number {
			return one
		}
	}
	return field{number: number}
}

func readMessage(from io.Reader) ([]field, error) {
	var size uint32
	if err := binary.Read(from, binary.BigEndian, &size); err != nil {
		return nil, err
	}
	if size > messageMax {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	message := make([]byte, size)
	if _, err := io.ReadFull(from, message); err != nil {
		return nil, err
	}
	return parse(message)
}

func writeMessage(to io.Writer, fields []field) error {
	message := encode(fields)
	_, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...))
	return err
}

// The request for the reference server: another version of HTTP, and no certificate of the client, which
// Forebay asks for and verifies.
func behind(request []field, version uint64) []field {
	var fields []field
	for _, one := range request {
		switch one.number {
		case requestClientTLSCert:
			continue
		case requestHTTPVersion:
			one.varint = version
		}
		fields = append(fields, one)
	}
	return fields
}

// A child that ends with this process.
func start(command *exec.Cmd) error {
	if command.Stderr == nil {
		command.Stderr = os.Stderr
	}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command.Start()
}

func startReference(program string, request []field) (*exec.Cmd, []field, error) {
	command := exec.Command(program, "-port", "0")
	input, err := command.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := start(command); err != nil {
		return nil, nil, err
	}
	if err := writeMessage(input, request); err != nil {
		return nil, nil, err
	}
	response, err := readMessage(output)
	return command, response, err
}

// The objects that Forebay serves. Each value is base64 or a word of ours.
func manifests(request []field, version uint64) string {
	isTLS := find(request, requestUseTLS).varint != 0
	protocols := map[bool]string{false: "HTTP", true: "HTTPS"}
	if version == version2 {
		protocols = map[bool]string{false: "GRPC", true: "GRPCS"}
	}
	annotations := []string{
		"nginx.ingress.kubernetes.io/backend-protocol: " + protocols[isTLS],
		`nginx.ingress.kubernetes.io/proxy-body-size: "0"`,
	}
	client := find(request, requestClientTLSCert).bytes
	if len(client) > 0 {
		annotations = append(annotations, "nginx.ingress.kubernetes.io/auth-tls-secret: default/clients")
	}
	encoded := base64.StdEncoding.EncodeToString
	creds, _ := parse(find(request, requestServerCreds).bytes)
	objects := fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  namespace: default
  name: conformance
  annotations:
    %s
spec:
  ingressClassName: nginx
  rules:
  - http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: reference, port: {number: 80}}}}]}
---
apiVersion: v1
kind: Service
metadata: {namespace: default, name: reference}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: default, name: forebay}
data: {forebay-http3: "on"}
`, strings.Join(annotations, "\n    "))
	if isTLS {
		objects += fmt.Sprintf(`---
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata: {namespace: default, name: certificate}
data: {tls.crt: %s, tls.key: %s}
`, encoded(find(creds, credsCert).bytes), encoded(find(creds, credsKey).bytes))
	}
	if len(client) > 0 {
		objects += fmt.Sprintf(`---
apiVersion: v1
kind: Secret
metadata: {namespace: default, name: clients}
data: {ca.crt: %s}
`, encoded(client))
	}
	return objects
}

// Starts a Forebay at ports that the kernel chooses, and reads them in its log.
func startForebay(program, folder, objects, endpoint string) (*exec.Cmd, int, int, error) {
	if err := os.WriteFile(filepath.Join(folder, "objects.yaml"), []byte(objects), 0o600); err != nil {
		return nil, 0, 0, err
	}
	arguments := []string{"serve", "--manifests", folder, "--workers", "2", "--configmap", "default/forebay",
		"--http-port", "0", "--https-port", "0", "--healthz-port", "0", "--endpoints", "default/reference=" + endpoint}
	if strings.Contains(objects, "name: certificate}") {
		// An address is no name in a handshake: the default certificate is for it.
		arguments = append(arguments, "--default-ssl-certificate", "default/certificate")
	}
	command := exec.Command(program, arguments...)
	log, err := command.StderrPipe()
	if err != nil {
		return nil, 0, 0, err
	}
	if err := start(command); err != nil {
		return nil, 0, 0, err
	}
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		fmt.Fprintln(os.Stderr, lines.Text())
		if ports := serving.FindStringSubmatch(lines.Text()); ports != nil {
			go io.Copy(os.Stderr, log)
			http, _ := strconv.Atoi(ports[1])
			https, _ := strconv.Atoi(ports[2])
			return command, http, https, nil
		}
	}
	command.Process.Kill()
	return nil, 0, 0, errors.New("Forebay does not serve")
}

func run(arguments []string) error {
	if len(arguments) < 2 || len(arguments) > 3 {
		return errors.New("usage: server FOREBAY REFERENCE_SERVER [BEHIND]")
	}
	request, err := readMessage(os.Stdin)
	if err != nil {
		return err
	}
	version := find(request, requestHTTPVersion).varint
	if version == version3 {
		version = version2
	}
	if len(arguments) == 3 {
		if version, err = strconv.ParseUint(arguments[2], 10, 8); err != nil {
			return err
		}
	}
	reference, response, err := startReference(arguments[1], behind(request, version))
	if reference != nil {
		defer reference.Process.Kill()
	}
	if err != nil {
		return fmt.Errorf("the reference server: %w", err)
	}
	port := strconv.FormatUint(find(response, responsePort).varint, 10)
	endpoint := net.JoinHostPort(host, port)
	folder, err := os.MkdirTemp("", "forebay-connectrpc")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	forebay, http, https, err := startForebay(arguments[0], folder, manifests(request, version), endpoint)
	if err != nil {
		return err
	}
	defer forebay.Process.Kill()
	answer := []field{
		{number: responseHost, kind: protowire.BytesType, bytes: []byte(host)},
		{number: responsePort, kind: protowire.VarintType, varint: uint64(http)},
	}
	if find(request, requestUseTLS).varint != 0 {
		answer[1].varint = uint64(https)
		creds, err := parse(find(request, requestServerCreds).bytes)
		if err != nil {
			return err
		}
		certificate := find(creds, credsCert).bytes
		answer = append(answer, field{number: responsePemCert, kind: protowire.BytesType, bytes: certificate})
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	if err := writeMessage(os.Stdout, answer); err != nil {
		return err
	}
	// The runner says by a signal that it has done.
	<-ended
	return nil
}

func main() {
	// The kernel ends children with the thread that started them.
	runtime.LockOSThread()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
