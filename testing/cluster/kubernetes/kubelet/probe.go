package kubelet

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The first look at a container. Later ones follow in the probe's period, whose unit is the second.
const firstProbe = 50 * time.Millisecond

// probe reports each change of what a probe says, which at the beginning is ok, until done.
func (p *pod) probe(c *v1.Container, probe *v1.Probe, ok bool, done <-chan struct{}, report func(ok bool)) {
	prober := newProber(p, c, probe)
	wait := max(firstProbe, time.Duration(probe.InitialDelaySeconds)*time.Second)
	for failures := int32(0); ; wait = seconds(probe.PeriodSeconds) {
		select {
		case <-done:
			return
		case <-time.After(wait):
		}
		found := prober.ask() == nil
		if failures++; found {
			failures = 0
		}
		if found != ok && (found || failures >= probe.FailureThreshold) {
			ok = found
			report(ok)
		}
	}
}

// prober asks a container how it is, by httpGet or tcpSocket.
type prober struct {
	probe  *v1.Probe
	ip     string
	ports  []v1.ContainerPort
	client http.Client
}

func newProber(p *pod, c *v1.Container, probe *v1.Probe) *prober {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	client := http.Client{Timeout: seconds(probe.TimeoutSeconds), Transport: transport}
	return &prober{probe, p.address.ip, c.Ports, client}
}

func (p *prober) ask() error {
	switch {
	case p.probe.HTTPGet != nil:
		return p.get(p.probe.HTTPGet)
	case p.probe.TCPSocket != nil:
		connection, err := net.DialTimeout("tcp", p.address(p.probe.TCPSocket.Port), p.client.Timeout)
		if err == nil {
			err = connection.Close()
		}
		return err
	default:
		return fmt.Errorf("this kubelet knows neither exec nor gRPC probes")
	}
}

func (p *prober) get(action *v1.HTTPGetAction) error {
	scheme, path := strings.ToLower(string(action.Scheme)), strings.TrimPrefix(action.Path, "/")
	response, err := p.client.Get(fmt.Sprintf("%s://%s/%s", scheme, p.address(action.Port), path))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

// address finds a port by number or by the container's name for it.
func (p *prober) address(port intstr.IntOrString) string {
	number := port.IntValue()
	for _, named := range p.ports {
		if port.Type == intstr.String && named.Name == port.StrVal {
			number = int(named.ContainerPort)
		}
	}
	return net.JoinHostPort(p.ip, strconv.Itoa(number))
}

func seconds(n int32) time.Duration {
	return time.Duration(max(n, 1)) * time.Second
}
