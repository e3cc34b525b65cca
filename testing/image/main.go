// Prints the filter of system calls that containerd gives a container whose seccompProfile is RuntimeDefault, as the `seccomp` of an OCI
// runtime's configuration. Arguments are the capabilities that the container may have: some calls are allowed with them only.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	capabilities := &specs.LinuxCapabilities{Bounding: os.Args[1:]}
	container := &specs.Spec{Process: &specs.Process{Capabilities: capabilities}}
	if err := json.NewEncoder(os.Stdout).Encode(seccomp.DefaultProfile(container)); err != nil {
		fmt.Fprintln(os.Stderr, "cannot write the filter:", err)
		os.Exit(1)
	}
}
