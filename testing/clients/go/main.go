// Go's client of HTTP with its default settings, through Forebay to the server in ../origin.
//
// Usage: go-client HTTP_ADDRESS HTTPS_ADDRESS IDLE, where IDLE is a time that is longer than Forebay keeps
// an idle connection. The certificate is trusted by SSL_CERT_FILE. Prints `ok SCHEME CASE` or `failed SCHEME
// CASE: why`.
//
// Must not be in here: other clients; they have the same cases in files beside this folder.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	large    = 20_000_000
	manyJobs = 200
)

type arrived struct {
	Method    string `json:"method"`
	Length    int    `json:"length"`
	Hash      string `json:"sha256"`
	IsChunked bool   `json:"chunked"`
	Protocol  string `json:"forwarded_proto"`
}

type client struct {
	base   string
	scheme string
	idle   time.Duration
}

// The bytes of /bytes/N.
func content(length int) []byte {
	bytes := make([]byte, length)
	for at := range bytes {
		bytes[at] = byte(at*31 + at/256)
	}
	return bytes
}

func sum(bytes []byte) string {
	hash := sha256.Sum256(bytes)
	return hex.EncodeToString(hash[:])
}

func expect(holds bool, format string, values ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, values...)
}

func read(response *http.Response, err error) ([]byte, *http.Response, error) {
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return body, response, err
}

// Sends a body and compares what has arrived.
func (c *client) echo(method, path string, body []byte, isChunked bool) error {
	var reader io.Reader = bytes.NewReader(body)
	if isChunked {
		reader = io.MultiReader(reader)
	}
	request, err := http.NewRequest(method, c.base+path, reader)
	if err != nil {
		return err
	}
	answer, response, err := read(http.DefaultClient.Do(request))
	if err != nil {
		return err
	}
	var got arrived
	if err := json.Unmarshal(answer, &got); err != nil {
		return fmt.Errorf("%d: %w", response.StatusCode, err)
	}
	same := got.Method == method && got.Length == len(body) && got.Hash == sum(body) && got.Protocol == c.scheme
	return expect(same, "%s of %d bytes arrived as %+v", method, len(body), got)
}

func (c *client) get() error {
	body, response, err := read(http.Get(c.base + "/bytes/1000"))
	if err != nil {
		return err
	}
	protocol := map[string]int{"http": 1, "https": 2}[c.scheme]
	if response.ProtoMajor != protocol {
		return fmt.Errorf("HTTP/%d by default", response.ProtoMajor)
	}
	return expect(bytes.Equal(body, content(1000)) && response.ContentLength == 1000, "another content")
}

func (c *client) head() error {
	body, response, err := read(http.Head(c.base + "/bytes/1000"))
	if err != nil {
		return err
	}
	return expect(len(body) == 0 && response.ContentLength == 1000, "length %d", response.ContentLength)
}

func (c *client) download() error {
	body, _, err := read(http.Get(fmt.Sprintf("%s/bytes/%d", c.base, large)))
	if err != nil {
		return err
	}
	return expect(sum(body) == sum(content(large)), "%d bytes", len(body))
}

func (c *client) trailer() error {
	body, response, err := read(http.Get(fmt.Sprintf("%s/chunked/%d", c.base, large)))
	if err != nil {
		return err
	}
	got := response.Trailer.Get("X-Sha256")
	return expect(sum(body) == sum(content(large)) && got == sum(body), "%d bytes, trailer %q", len(body), got)
}

func (c *client) redirects() error {
	for code, method := range map[int]string{301: "GET", 302: "GET", 303: "GET", 307: "POST", 308: "POST"} {
		url := fmt.Sprintf("%s/redirect/%d", c.base, code)
		answer, _, err := read(http.Post(url, "text/plain", strings.NewReader("body")))
		if err != nil {
			return err
		}
		var got arrived
		if err := json.Unmarshal(answer, &got); err != nil {
			return err
		}
		if got.Method != method || got.Length != map[string]int{"GET": 0, "POST": 4}[method] {
			return fmt.Errorf("behind %d: %+v", code, got)
		}
	}
	return nil
}

func (c *client) compression() error {
	body, response, err := read(http.Get(c.base + "/text"))
	if err != nil {
		return err
	}
	isWhole := strings.HasSuffix(string(body), "line 4999 of a text that compresses well, ä\n")
	return expect(response.Uncompressed && isWhole, "compressed: %t, %d bytes", response.Uncompressed, len(body))
}

func (c *client) expectContinue() error {
	for path, status := range map[string]int{"/hash": 200, "/refuse": 403} {
		request, err := http.NewRequest("POST", c.base+path, bytes.NewReader(content(large)))
		if err != nil {
			return err
		}
		request.Header.Set("Expect", "100-continue")
		_, response, err := read(http.DefaultClient.Do(request))
		if err != nil {
			return err
		}
		if response.StatusCode != status {
			return fmt.Errorf("%s: %d", path, response.StatusCode)
		}
	}
	return nil
}

// The proxy closes idle connections: the next request must not be what finds it out.
func (c *client) idleConnection() error {
	if err := c.echo("POST", "/hash", []byte("first"), false); err != nil {
		return err
	}
	time.Sleep(c.idle)
	return c.echo("POST", "/hash", []byte("second"), false)
}

func (c *client) cancel() error {
	id := fmt.Sprint(rand.Uint64())
	context, cancel := context.WithCancel(context.Background())
	defer cancel()
	request, err := http.NewRequestWithContext(context, "GET", c.base+"/slow?id="+id, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.ReadFull(response.Body, make([]byte, 20)); err != nil {
		return err
	}
	cancel()
	return c.isGone(id)
}

func (c *client) isGone(id string) error {
	_, response, err := read(http.Get(c.base + "/gone?id=" + id))
	if err != nil {
		return err
	}
	return expect(response.StatusCode == 204, "the endpoint does not learn of it: %d", response.StatusCode)
}

// A body that breaks off is no request.
func (c *client) abortUpload() error {
	id := fmt.Sprint(rand.Uint64())
	reader, writer := io.Pipe()
	go func() {
		writer.Write(content(1_000_000))
		writer.CloseWithError(errors.New("given up"))
	}()
	_, _, err := read(http.Post(c.base+"/swallow?id="+id, "application/octet-stream", reader))
	if err == nil {
		return errors.New("an upload that breaks off was answered")
	}
	return c.isGone(id)
}

func (c *client) concurrent() error {
	errs := make([]error, manyJobs)
	var jobs sync.WaitGroup
	for job := range errs {
		jobs.Go(func() { errs[job] = c.echo("PUT", "/hash", content(job*100), job%2 == 0) })
	}
	jobs.Wait()
	return errors.Join(errs...)
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: go-client HTTP_ADDRESS HTTPS_ADDRESS IDLE")
		os.Exit(2)
	}
	idle, err := time.ParseDuration(os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for scheme, address := range map[string]string{"http": os.Args[1], "https": os.Args[2]} {
		c := &client{base: scheme + "://" + address, scheme: scheme, idle: idle}
		body := content(large)
		cases := []struct {
			name string
			run  func() error
		}{
			{"get", c.get},
			{"head", c.head},
			{"post-length", func() error { return c.echo("POST", "/hash", []byte("a body"), false) }},
			{"post-chunked", func() error { return c.echo("POST", "/hash", []byte("a body"), true) }},
			{"upload", func() error { return c.echo("PUT", "/hash", body, false) }},
			{"upload-chunked", func() error { return c.echo("PUT", "/hash", body, true) }},
			{"download", c.download},
			{"download-chunked", c.trailer},
			{"redirects", c.redirects},
			{"compression", c.compression},
			{"continue", c.expectContinue},
			{"idle", c.idleConnection},
			{"cancel", c.cancel},
			{"abort-upload", c.abortUpload},
			{"concurrent", c.concurrent},
		}
		for _, one := range cases {
			if err := one.run(); err != nil {
				fmt.Printf("failed %s %s: %s\n", scheme, one.name, strings.ReplaceAll(err.Error(), "\n", " "))
			} else {
				fmt.Printf("ok %s %s\n", scheme, one.name)
			}
		}
	}
}
