// Tells which requests Go's net/http sees.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	log.SetOutput(io.Discard)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	tell := func(response http.ResponseWriter, request *http.Request) {
		length, err := io.Copy(io.Discard, request.Body)
		if err != nil {
			http.Error(response, err.Error(), http.StatusBadRequest)
			return
		}
		response.Header().Set("X-Said", fmt.Sprintf("%s %s %d", request.Method, request.RequestURI, length))
	}
	// What is asked of the server as a whole is to be told too.
	server := http.Server{Handler: http.HandlerFunc(tell), DisableGeneralOptionsHandler: true}
	go func() { _ = server.Serve(listener) }()
	// Ends when whoever started this does.
	_, _ = io.Copy(io.Discard, os.Stdin)
}
