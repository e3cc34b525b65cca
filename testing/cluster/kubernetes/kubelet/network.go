package kubelet

import (
	"fmt"
	"os/exec"
)

// The last octets that Pods get.
const firstOctet, lastOctet = 10, 249

// network is a bridge with one network namespace per Pod. There is no route to elsewhere: Pods reach the node and each other.
type network struct {
	subnet, bridge string
	used           [lastOctet + 1]bool
	last           int
}

// address is a Pod's place in the network.
type address struct {
	octet         int
	ip, namespace string
}

func (n *network) node() string {
	return n.subnet + ".1"
}

// up removes what a kubelet that was killed left behind, and makes the bridge.
func (n *network) up() error {
	return shell(`for name in $(ls /run/netns 2>/dev/null | grep '^%[1]s-'); do ip link del $name || :; ip netns del $name; done
		ip link del %[1]s 2>/dev/null || :
		ip link add %[1]s type bridge; ip addr add %[2]s/24 dev %[1]s; ip link set %[1]s up`, n.bridge, n.node())
}

func (n *network) down() error {
	return shell("ip link del %s", n.bridge)
}

// take gives an address that has been free for as long as possible.
func (n *network) take() address {
	for {
		if n.last++; n.last < firstOctet || n.last > lastOctet {
			n.last = firstOctet
		}
		if !n.used[n.last] {
			n.used[n.last] = true
			return address{octet: n.last, ip: fmt.Sprintf("%s.%d", n.subnet, n.last), namespace: fmt.Sprintf("%s-%d", n.bridge, n.last)}
		}
	}
}

func (n *network) release(a address) {
	n.used[a.octet] = false
}

// attach makes a Pod's namespace.
func (n *network) attach(a address) error {
	return shell(`ip netns add %[1]s; ip link add %[1]s type veth peer name eth0 netns %[1]s; ip link set %[1]s master %[2]s up
		ip -n %[1]s addr add %[3]s/24 dev eth0; ip -n %[1]s link set eth0 up; ip -n %[1]s link set lo up`, a.namespace, n.bridge, a.ip)
}

// detach removes it: the link first, since the namespace goes some time later and the name must be free at once.
func (n *network) detach(a address) {
	_ = shell("ip link del %[1]s || :; ip netns del %[1]s", a.namespace)
}

func shell(format string, arguments ...any) error {
	if output, err := exec.Command("sh", "-ec", fmt.Sprintf(format, arguments...)).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}
