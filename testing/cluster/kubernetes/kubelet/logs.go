package kubelet

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"

	certutil "k8s.io/client-go/util/cert"
)

// How often a log that is followed is looked at.
const followInterval = 200 * time.Millisecond

func (k *kubelet) logFile(namespace, pod, container string) string {
	return filepath.Join(k.directory, "logs", namespace+"_"+pod+"_"+container+".log")
}

// log is where a container's output goes: each line is written with its time.
func (p *pod) log(container string) (io.Writer, error) {
	name := p.logFile(p.object.Namespace, p.object.Name, container)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	reader, writer := io.Pipe()
	go func() {
		defer file.Close()
		for lines := bufio.NewReader(reader); ; {
			line, err := lines.ReadString('\n')
			if line != "" {
				fmt.Fprintf(file, "%s %s\n", time.Now().UTC().Format(time.RFC3339Nano), strings.TrimSuffix(line, "\n"))
			}
			if err != nil {
				return
			}
		}
	}()
	return writer, nil
}

// serve answers what the API server asks for `kubectl logs`, and for clients who forward ports; the port.
func (k *kubelet) serve() (int, error) {
	certificate, key, err := certutil.GenerateSelfSignedCertKey(k.network.node(), []net.IP{net.ParseIP(k.network.node())}, nil)
	if err != nil {
		return 0, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return 0, err
	}
	listener, err := tls.Listen("tcp", net.JoinHostPort(k.network.node(), "0"), &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		return 0, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		file, err := os.Open(k.logFile(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		defer file.Close()
		sendLog(w, r, bufio.NewReader(file))
	})
	mux.HandleFunc("GET /portForward/{namespace}/{pod}", k.forwardPorts)
	go func() { klog.ErrorS(http.Serve(listener, mux), "logs and ports are not served any more") }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// sendLog sends what is asked for, and goes on with what is written later when it is followed.
func sendLog(w http.ResponseWriter, r *http.Request, file *bufio.Reader) {
	query := r.URL.Query()
	for {
		lines := readLog(file, query)
		if tail, err := strconv.Atoi(query.Get("tailLines")); err == nil && tail < len(lines) {
			lines = lines[len(lines)-tail:]
		}
		_, err := io.WriteString(w, strings.Join(lines, ""))
		if err != nil || query.Get("follow") != "true" || r.Context().Err() != nil {
			return
		}
		w.(http.Flusher).Flush()
		query.Del("tailLines")
		time.Sleep(followInterval)
	}
}

// readLog is the lines up to the end that are not too old.
func readLog(file *bufio.Reader, query url.Values) (lines []string) {
	since, _ := time.Parse(time.RFC3339, query.Get("sinceTime"))
	if seconds, err := strconv.Atoi(query.Get("sinceSeconds")); err == nil {
		since = time.Now().Add(-time.Duration(seconds) * time.Second)
	}
	for {
		line, err := file.ReadString('\n')
		stamp, text, _ := strings.Cut(line, " ")
		if at, wrong := time.Parse(time.RFC3339Nano, stamp); wrong == nil && !at.Before(since) {
			if query.Get("timestamps") == "true" {
				text = line
			}
			lines = append(lines, text)
		}
		if err != nil {
			return lines
		}
	}
}
