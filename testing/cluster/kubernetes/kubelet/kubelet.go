// Package kubelet is a kubelet for tests. A container is a process of this machine in its Pod's network namespace and a
// mount namespace of its own; an image is the name of a program of this machine.
//
// Not in here: container runtimes, resource limits, exec, init containers, updates of mounted volumes, ClusterIPs.
package kubelet

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// The node controller calls a node unreachable 40 s after its last heartbeat.
const heartbeat = 10 * time.Second

// Options are the command line's flags.
type Options struct {
	kubeconfig, node, directory, images string
	network                             network
	apiPort                             int
}

type kubelet struct {
	Options
	client *kubernetes.Clientset
	images map[string][]string // a program and its default arguments, by image without tag

	mu      sync.Mutex // of what follows
	pods    map[types.UID]*pod
	closing bool
	running sync.WaitGroup
}

// NewCommand is the kubelet's command line.
func NewCommand() *cobra.Command {
	var o Options
	command := &cobra.Command{Use: "kubelet", SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer cancel()
		return run(ctx, o)
	}}
	flags := command.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server")
	flags.StringVar(&o.node, "node", "node-0", "the node's name")
	flags.StringVar(&o.directory, "directory", "pods", "folder for the Pods' files")
	flags.StringVar(&o.images, "images", "", `JSON file: {"image without tag": ["/program", "default argument", ...]}`)
	flags.StringVar(&o.network.subnet, "subnet", "10.244.0", "the first three octets of the Pods' addresses; .1 is the node's")
	flags.StringVar(&o.network.bridge, "bridge", "pods", "name of the bridge that joins the Pods, and prefix of their namespaces")
	flags.IntVar(&o.apiPort, "api-port", 443, "the API server's port at the node's address")
	return command
}

// run serves until ctx is done, and leaves neither process nor network interface behind.
func run(ctx context.Context, o Options) error {
	k, err := newKubelet(o)
	if err != nil {
		return err
	}
	if err := k.network.up(); err != nil {
		return err
	}
	port, err := k.serve()
	if err != nil {
		return err
	}
	go k.beat(ctx, port)
	if err := k.watch(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	k.mu.Lock()
	k.closing = true
	for _, p := range k.pods {
		p.stop()
	}
	k.mu.Unlock()
	k.running.Wait()
	return k.network.down()
}

func newKubelet(o Options) (*kubelet, error) {
	k := &kubelet{Options: o, pods: map[types.UID]*pod{}}
	table, err := os.ReadFile(o.images)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(table, &k.images); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit
	k.client, err = kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return k, os.MkdirAll(k.directory, 0o755)
}

// watch hands every change of this node's Pods to handle.
func (k *kubelet) watch(ctx context.Context) error {
	ours := informers.WithTweakListOptions(func(list *metav1.ListOptions) { list.FieldSelector = "spec.nodeName=" + k.node })
	factory := informers.NewSharedInformerFactoryWithOptions(k.client, 0, ours)
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.handle(o.(*v1.Pod), false) },
		UpdateFunc: func(_, o any) { k.handle(o.(*v1.Pod), false) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			k.handle(o.(*v1.Pod), true)
		},
	})
	factory.Start(ctx.Done())
	return err
}

// handle starts a new Pod, and stops one that is being deleted or is gone.
func (k *kubelet) handle(object *v1.Pod, gone bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, deleting := k.pods[object.UID], gone || object.DeletionTimestamp != nil
	switch {
	case p == nil && deleting:
		go k.remove(object)
	case p == nil && object.Status.Phase != v1.PodSucceeded && object.Status.Phase != v1.PodFailed && !k.closing:
		p = k.newPod(object)
		k.pods[object.UID] = p
		k.running.Go(p.run)
	case p != nil && deleting:
		if !gone && object.DeletionGracePeriodSeconds != nil && p.ctx.Err() == nil {
			p.grace = time.Duration(*object.DeletionGracePeriodSeconds) * time.Second
		}
		p.stop()
	}
}

// forget drops a Pod that has ended, also from the API unless this kubelet goes: the next one would restart it.
func (k *kubelet) forget(p *pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, p.object.UID)
	k.network.release(p.address)
	if !k.closing {
		go k.remove(p.object)
	}
}

func (k *kubelet) remove(object *v1.Pod) {
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &object.UID}}
	_ = k.client.CoreV1().Pods(object.Namespace).Delete(context.Background(), object.Name, now)
}

// beat says again and again that the node is ready.
func (k *kubelet) beat(ctx context.Context, port int) {
	for ctx.Err() == nil {
		if err := k.register(ctx, port); err != nil {
			klog.ErrorS(err, "cannot register the node")
			time.Sleep(time.Second / 10)
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(heartbeat):
		}
	}
}

// register makes the Node, marks it ready and clears the taints that new nodes are given.
func (k *kubelet) register(ctx context.Context, port int) error {
	nodes := k.client.CoreV1().Nodes()
	labels := map[string]string{
		v1.LabelHostname: k.node, v1.LabelTopologyZone: "zone-0", v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH,
	}
	_, _ = nodes.Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.node, Labels: labels}}, metav1.CreateOptions{})
	capacity := v1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("240")}
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}
	status, err := json.Marshal(map[string]any{"status": v1.NodeStatus{
		Capacity:        capacity,
		Allocatable:     capacity,
		Conditions:      []v1.NodeCondition{ready},
		Addresses:       []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: k.network.node()}},
		DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: int32(port)}},
		NodeInfo:        v1.NodeSystemInfo{KubeletVersion: "v1.37.0-processes"},
	}})
	if err != nil {
		return err
	}
	if _, err := nodes.Patch(ctx, k.node, types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	_, err = nodes.Patch(ctx, k.node, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	return err
}

func (k *kubelet) podDirectory(object *v1.Pod) string {
	return filepath.Join(k.directory, string(object.UID))
}
