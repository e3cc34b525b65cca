package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// The capabilities that container runtimes give by default, which are all that this kubelet knows.
var capabilities = map[v1.Capability]uintptr{
	"AUDIT_WRITE":      unix.CAP_AUDIT_WRITE,
	"CHOWN":            unix.CAP_CHOWN,
	"DAC_OVERRIDE":     unix.CAP_DAC_OVERRIDE,
	"FOWNER":           unix.CAP_FOWNER,
	"FSETID":           unix.CAP_FSETID,
	"KILL":             unix.CAP_KILL,
	"MKNOD":            unix.CAP_MKNOD,
	"NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
	"NET_RAW":          unix.CAP_NET_RAW,
	"SETFCAP":          unix.CAP_SETFCAP,
	"SETGID":           unix.CAP_SETGID,
	"SETPCAP":          unix.CAP_SETPCAP,
	"SETUID":           unix.CAP_SETUID,
	"SYS_CHROOT":       unix.CAP_SYS_CHROOT,
}

// security is what the security contexts of a Pod and its container come to.
type security struct {
	credential      *syscall.Credential
	readOnlyRoot    bool
	noNewPrivileges bool
	bounding        map[uintptr]bool
	sysctls         map[string]string
}

func (p *pod) security(c *v1.Container) (security, error) {
	ours, pods := c.SecurityContext, p.object.Spec.SecurityContext
	if ours == nil {
		ours = &v1.SecurityContext{}
	}
	if pods == nil {
		pods = &v1.PodSecurityContext{}
	}
	user, group := first(ours.RunAsUser, pods.RunAsUser), first(ours.RunAsGroup, pods.RunAsGroup)
	if nonRoot := first(ours.RunAsNonRoot, pods.RunAsNonRoot); nonRoot && user == 0 {
		return security{}, fmt.Errorf("container has runAsNonRoot and image will run as root")
	}
	bounding, err := bounding(ours.Capabilities)
	s := security{
		credential:      &syscall.Credential{Uid: uint32(user), Gid: uint32(group), NoSetGroups: user == 0},
		readOnlyRoot:    first(ours.ReadOnlyRootFilesystem),
		noNewPrivileges: ours.AllowPrivilegeEscalation != nil && !*ours.AllowPrivilegeEscalation,
		bounding:        bounding,
		// Container runtimes set it in each Pod's network namespace, so that port 80 needs no capability.
		sysctls: map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"},
	}
	if p.address.namespace == "" {
		s.sysctls = nil
	}
	for _, set := range pods.Sysctls {
		s.sysctls[set.Name] = set.Value
	}
	return s, err
}

// bounding is what a process can have at most: the default capabilities without those dropped, and those added.
func bounding(change *v1.Capabilities) (map[uintptr]bool, error) {
	set := map[uintptr]bool{}
	for _, number := range capabilities {
		set[number] = true
	}
	if change == nil {
		return set, nil
	}
	for _, name := range change.Drop {
		if name == "ALL" {
			clear(set)
		}
		delete(set, capabilities[name])
	}
	for _, name := range change.Add {
		number, known := capabilities[name]
		if !known {
			return nil, fmt.Errorf("capability %s is not one that this kubelet can add", name)
		}
		set[number] = true
	}
	return set, nil
}

// apply takes effect for what the calling thread starts. As with container runtimes, a user other than root has none of the
// capabilities unless the program's file has them: they are not ambient.
func (s *security) apply() error {
	for name, value := range s.sysctls {
		file := filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
		if err := os.WriteFile(file, []byte(value), 0); err != nil {
			return err
		}
	}
	for number := uintptr(0); number <= unix.CAP_LAST_CAP; number++ {
		if s.bounding[number] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, number, 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("capability %d: %w", number, err)
		}
	}
	if s.noNewPrivileges {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	return nil
}

// first is the first value that is set, or else zero.
func first[T any](values ...*T) (value T) {
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	return value
}
