// The server that clients of HTTP in many languages ask through Forebay.
//
// Usage: origin ADDRESS
//
//	/hash            any method: what has arrived, as JSON: method, length and SHA-256 of the body, its framing
//	/bytes/N         N bytes with a length, a strong ETag and ranges; byte I is I*31 + I/256
//	/chunked/N       the same bytes without a length, with a trailer that has their hash
//	/text            text that compresses well
//	/redirect/CODE   to /hash
//	/status/CODE     an empty answer
//	/refuse          403, without reading the body
//	/slow?id=ID      bytes without an end, slowly
//	/swallow?id=ID   reads the body to its end, as /hash does; it counts as gone if it breaks off
//	/gone?id=ID      answers once the request with that ID has been given up by its client
//
// Must not be in here: what clients expect of Forebay.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	pause     = 20 * time.Millisecond
	goneLimit = 10 * time.Second
	piece     = 64 << 10
)

// The content of /bytes: any part of it, in constant memory.
type content struct{ at, length int64 }

func (c *content) Read(into []byte) (int, error) {
	if c.at >= c.length {
		return 0, io.EOF
	}
	n := int(min(int64(len(into)), c.length-c.at))
	for index := range into[:n] {
		position := c.at + int64(index)
		into[index] = byte(position*31 + position/256)
	}
	c.at += int64(n)
	return n, nil
}

func (c *content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.length
	}
	if offset < 0 {
		return 0, fmt.Errorf("position %d", offset)
	}
	c.at = offset
	return offset, nil
}

// Requests that their clients have given up, by ID.
type gone struct {
	lock sync.Mutex
	ids  map[string]chan struct{}
}

func (g *gone) of(id string) chan struct{} {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.ids[id] == nil {
		g.ids[id] = make(chan struct{}, 1)
	}
	return g.ids[id]
}

func (g *gone) note(id string) {
	select {
	case g.of(id) <- struct{}{}:
	default:
	}
}

// A request as it has arrived.
type arrived struct {
	Method    string `json:"method"`
	Length    int64  `json:"length"`
	Hash      string `json:"sha256"`
	IsChunked bool   `json:"chunked"`
	Declared  int64  `json:"content_length"`
	Protocol  string `json:"forwarded_proto"`
}

func hash(response http.ResponseWriter, request *http.Request) {
	sum := sha256.New()
	length, err := io.Copy(sum, request.Body)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(response).Encode(arrived{
		Method:    request.Method,
		Length:    length,
		Hash:      hex.EncodeToString(sum.Sum(nil)),
		IsChunked: slices.Contains(request.TransferEncoding, "chunked"),
		Declared:  request.ContentLength,
		Protocol:  request.Header.Get("X-Forwarded-Proto"),
	})
}

func number(request *http.Request) int64 {
	last := request.URL.Path[strings.LastIndexByte(request.URL.Path, '/')+1:]
	value, err := strconv.ParseInt(last, 10, 64)
	if err != nil || value < 0 || value > 1<<32 {
		return 0
	}
	return value
}

func bytes(response http.ResponseWriter, request *http.Request) {
	length := number(request)
	response.Header().Set("Content-Type", "application/octet-stream")
	response.Header().Set("ETag", fmt.Sprintf(`"bytes-%d"`, length))
	http.ServeContent(response, request, "", time.Unix(1_700_000_000, 0), &content{length: length})
}

func chunked(response http.ResponseWriter, request *http.Request) {
	response.Header().Set("Content-Type", "application/octet-stream")
	response.Header().Set("Trailer", "X-Sha256")
	sum := sha256.New()
	part := make([]byte, piece)
	source := &content{length: number(request)}
	for {
		n, err := source.Read(part)
		if err != nil {
			break
		}
		sum.Write(part[:n])
		if _, err := response.Write(part[:n]); err != nil {
			return
		}
		response.(http.Flusher).Flush()
	}
	response.Header().Set("X-Sha256", hex.EncodeToString(sum.Sum(nil)))
}

func text(response http.ResponseWriter, _ *http.Request) {
	response.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for line := range 5000 {
		fmt.Fprintf(response, "line %d of a text that compresses well, ä\n", line)
	}
}

func (g *gone) slow(response http.ResponseWriter, request *http.Request) {
	response.Header().Set("Content-Type", "application/octet-stream")
	for {
		_, err := response.Write([]byte("some bytes"))
		if err == nil {
			response.(http.Flusher).Flush()
			select {
			case <-request.Context().Done():
			case <-time.After(pause):
				continue
			}
		}
		g.note(request.URL.Query().Get("id"))
		return
	}
}

func (g *gone) swallow(response http.ResponseWriter, request *http.Request) {
	if _, err := io.Copy(io.Discard, request.Body); err != nil {
		g.note(request.URL.Query().Get("id"))
		return
	}
	response.WriteHeader(http.StatusNoContent)
}

func (g *gone) wait(response http.ResponseWriter, request *http.Request) {
	limit, cancel := context.WithTimeout(request.Context(), goneLimit)
	defer cancel()
	select {
	case <-g.of(request.URL.Query().Get("id")):
		response.WriteHeader(http.StatusNoContent)
	case <-limit.Done():
		http.Error(response, "nobody has given it up", http.StatusGatewayTimeout)
	}
}

func main() {
	gone := &gone{ids: map[string]chan struct{}{}}
	http.HandleFunc("/hash", hash)
	http.HandleFunc("/bytes/", bytes)
	http.HandleFunc("/chunked/", chunked)
	http.HandleFunc("/text", text)
	http.HandleFunc("/redirect/", func(response http.ResponseWriter, request *http.Request) {
		http.Redirect(response, request, "/hash", int(number(request)))
	})
	http.HandleFunc("/status/", func(response http.ResponseWriter, request *http.Request) {
		response.WriteHeader(int(max(number(request), 200)))
	})
	http.HandleFunc("/refuse", func(response http.ResponseWriter, _ *http.Request) {
		http.Error(response, "not that one", http.StatusForbidden)
	})
	http.HandleFunc("/slow", gone.slow)
	http.HandleFunc("/swallow", gone.swallow)
	http.HandleFunc("/gone", gone.wait)
	if len(os.Args) != 2 {
		log.Fatal("usage: origin ADDRESS")
	}
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
