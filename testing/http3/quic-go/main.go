// Speaks HTTP/3 with Forebay by quic-go, an implementation of others, in one case of the QUIC interop runner.
//
// Usage: client ADDRESS HOST CERTIFICATE CASE PATH...
//
// Every PATH is requested; the body has to have the length that the head says. It prints what the case has to be
// judged by, as JSON, and ends with status 1 if a request fails.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
)

// Longest time of a case.
const limit = 90 * time.Second

// Requests of the case `multiplexing` at a time; the server allows 128.
const parallel = 100

type result struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Version string  `json:"version"`
	Resumed bool    `json:"resumed"`
	Early   bool    `json:"early"`
}

type client struct {
	address *net.UDPAddr
	host    string
	tls     *tls.Config
	quic    *quic.Config
}

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, host, certificate, name string, paths []string) error {
	target, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(certificate)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s has no certificate", certificate)
	}
	one := &client{
		address: target,
		host:    host,
		tls: &tls.Config{
			RootCAs:            roots,
			ServerName:         host,
			NextProtos:         []string{http3.NextProtoH3},
			ClientSessionCache: tls.NewLRUClientSessionCache(8),
		},
		quic: &quic.Config{
			HandshakeIdleTimeout: 30 * time.Second,
			MaxIdleTimeout:       30 * time.Second,
			Tracer:               qlog.DefaultConnectionTracer,
		},
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	begin := time.Now()
	told, err := one.play(ctx, name, paths)
	if err != nil {
		return err
	}
	told.Seconds = time.Since(begin).Seconds()
	return json.NewEncoder(os.Stdout).Encode(told)
}

// Plays the case with this name.
func (c *client) play(ctx context.Context, name string, paths []string) (result, error) {
	switch name {
	case "handshakeloss", "handshakecorruption":
		// A connection for each path.
		var sum result
		for _, path := range paths {
			told, err := c.connection(ctx, false, []string{path}, nil)
			if err != nil {
				return sum, err
			}
			sum.Bytes += told.Bytes
		}
		return sum, nil
	case "resumption", "zerortt":
		if _, err := c.connection(ctx, false, paths[:1], nil); err != nil {
			return result{}, err
		}
		return c.connection(ctx, name == "zerortt", paths[1:], nil)
	case "connectionmigration":
		return c.connection(ctx, false, paths, migrate)
	case "v2":
		c.quic.Versions = []quic.Version{quic.Version2}
	}
	return c.connection(ctx, false, paths, nil)
}

// Opens a connection and requests all paths on it. `meanwhile` is called when the first response has begun.
func (c *client) connection(
	ctx context.Context, early bool, paths []string, meanwhile func(context.Context, *quic.Conn) error,
) (result, error) {
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return result{}, err
	}
	transport := &quic.Transport{Conn: socket}
	defer socket.Close()
	defer transport.Close()
	var conn *quic.Conn
	if early {
		conn, err = transport.DialEarly(ctx, c.address, c.tls, c.quic)
	} else {
		conn, err = transport.Dial(ctx, c.address, c.tls, c.quic)
	}
	if err != nil {
		return result{}, err
	}
	defer conn.CloseWithError(0x100, "")
	web := (&http3.Transport{}).NewClientConn(conn)
	var told result
	var lock sync.Mutex
	var running sync.WaitGroup
	places := make(chan struct{}, parallel)
	failures := make(chan error, len(paths)+1)
	for number, path := range paths {
		places <- struct{}{}
		running.Add(1)
		begun := make(chan struct{})
		go func() {
			defer running.Done()
			defer func() { <-places }()
			bytes, err := c.get(ctx, web, path, early, begun)
			if err != nil {
				failures <- fmt.Errorf("%s: %w", path, err)
			}
			lock.Lock()
			told.Bytes += bytes
			lock.Unlock()
		}()
		if number == 0 && meanwhile != nil {
			<-begun
			if err := meanwhile(ctx, conn); err != nil {
				failures <- err
			}
		}
	}
	running.Wait()
	state := conn.ConnectionState()
	told.Version = state.Version.String()
	told.Resumed = state.TLS.DidResume
	told.Early = state.Used0RTT
	select {
	case err := <-failures:
		return told, err
	default:
		return told, nil
	}
}

// One request; the number of bytes of its body.
func (c *client) get(
	ctx context.Context, web *http3.ClientConn, path string, early bool, begun chan struct{},
) (int64, error) {
	method := http.MethodGet
	if early {
		method = http3.MethodGet0RTT
	}
	signal := sync.OnceFunc(func() { close(begun) })
	defer signal()
	request, err := http.NewRequestWithContext(ctx, method, "https://"+c.host+path, nil)
	if err != nil {
		return 0, err
	}
	response, err := web.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	signal()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %d", response.StatusCode)
	}
	bytes, err := io.Copy(io.Discard, response.Body)
	if err == nil && response.ContentLength >= 0 && bytes != response.ContentLength {
		err = fmt.Errorf("%d bytes of %d", bytes, response.ContentLength)
	}
	return bytes, err
}

// Moves the connection to another socket, as a client does that changes its network.
func migrate(ctx context.Context, conn *quic.Conn) error {
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	path, err := conn.AddPath(&quic.Transport{Conn: socket})
	if err != nil {
		return err
	}
	if err := path.Probe(ctx); err != nil {
		return fmt.Errorf("the new path: %w", err)
	}
	return path.Switch()
}
