// kubernetes is one program that is all of a Kubernetes cluster's: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubectl, and the tests' own kubelet. The first argument says which.
//
// They share one link because they share nearly all of their packages: separate programs would be three times as large.
package main

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
	_ "time/tzdata" // time zones of CronJobs

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"forebay.test/kubernetes/kubelet"
)

// endWithInput is the variable that makes a component end when its standard input does: when whoever started it is gone.
const endWithInput = "END_WITH_INPUT"

// After SIGTERM, which cleans up.
const endLimit = 5 * time.Second

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	if os.Getenv(endWithInput) != "" {
		go waitForEndOfInput()
	}
	os.Args = os.Args[1:]
	// Only the chosen component's command is made: their global flags and metrics would clash.
	switch os.Args[0] {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(controllers.NewControllerManagerCommand())
	case "kube-scheduler":
		run(scheduler.NewSchedulerCommand())
	case "kubelet":
		run(kubelet.NewCommand())
	case "kubectl":
		kubectl()
	default:
		usage()
	}
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

func kubectl() {
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}

func waitForEndOfInput() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	time.Sleep(endLimit)
	os.Exit(1)
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: kubernetes etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kubectl ...")
	os.Exit(2)
}
