package kubelet

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"

	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// The subprotocol of the clients that are served, those of kube. Not in here: SPDY, which kubectl port-forward speaks.
const forwardProtocol = "v4." + wsstream.ChannelWebSocketProtocol

// forwardPorts passes ports of a Pod on, as they are seen in the Pod, over a WebSocket with two channels for each: one for its
// bytes, one for why it cannot be used. Each begins with the port's number.
func (k *kubelet) forwardPorts(w http.ResponseWriter, r *http.Request) {
	namespace, found := k.networkOf(r.PathValue("namespace"), r.PathValue("pod"))
	if !found {
		http.Error(w, "no such Pod", http.StatusNotFound)
		return
	}
	var channels []wsstream.ChannelType
	ports := r.URL.Query()["port"]
	for range ports {
		channels = append(channels, wsstream.ReadWriteChannel, wsstream.WriteChannel)
	}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{forwardProtocol: {Binary: true, Channels: channels}})
	_, streams, err := conn.Open(w, r)
	if err != nil {
		klog.ErrorS(err, "a port is not forwarded")
		return
	}
	defer conn.Close()
	done := make(chan error)
	for i, port := range ports {
		go func() { done <- forward(namespace, port, streams[2*i], streams[2*i+1]) }()
	}
	for range ports {
		if err := <-done; err != nil {
			klog.ErrorS(err, "a port is not forwarded any more")
		}
	}
}

// networkOf is the network namespace of a Pod that runs here.
func (k *kubelet) networkOf(namespace, name string) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		if p.object.Namespace == namespace && p.object.Name == name {
			return p.address.namespace, true
		}
	}
	return "", false
}

// forward joins a port of a Pod and a client, until one of them has no more to say.
func forward(namespace, text string, data, failure io.ReadWriteCloser) error {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return err
	}
	begin := binary.LittleEndian.AppendUint16(nil, uint16(port))
	for _, stream := range []io.Writer{data, failure} {
		if _, err := stream.Write(begin); err != nil {
			return err
		}
	}
	server, err := dialIn(namespace, net.JoinHostPort("127.0.0.1", text))
	if err != nil {
		fmt.Fprintf(failure, "an error occurred forwarding %s -> %s: %v", text, text, err)
		return err
	}
	defer server.Close()
	done := make(chan error, 2)
	copy := func(to io.Writer, from io.Reader) {
		_, err := io.Copy(to, from)
		done <- err
	}
	go copy(server, data)
	go copy(data, server)
	return <-done
}

// dialIn connects from within a network namespace; an empty one is the node's.
func dialIn(namespace, address string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if namespace != "" {
			// Never unlocked: the thread ends with this function, and with it what it entered.
			runtime.LockOSThread()
			if err = enterNetwork(namespace); err != nil {
				return
			}
		}
		conn, err = net.Dial("tcp", address)
	}()
	<-done
	return conn, err
}
