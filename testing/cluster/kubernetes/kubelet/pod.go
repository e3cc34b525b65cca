package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// pod is one that runs here.
type pod struct {
	*kubelet
	object    *v1.Pod
	address   address
	directory string
	ctx       context.Context // done when it is to stop, within grace
	stop      context.CancelFunc
	grace     time.Duration

	mu         sync.Mutex // of what follows
	containers []v1.ContainerStatus
	ready      v1.PodCondition
	started    metav1.Time
}

func (k *kubelet) newPod(object *v1.Pod) *pod {
	p := &pod{kubelet: k, object: object, directory: k.podDirectory(object), started: metav1.Now()}
	if object.Spec.HostNetwork {
		p.address.ip = k.network.node()
	} else {
		p.address = k.network.take()
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// run is the Pod's whole life.
func (p *pod) run() {
	p.forgetAddress()
	err := error(nil)
	if p.address.namespace != "" {
		err = p.network.attach(p.address)
	}
	for _, c := range p.object.Spec.Containers {
		state := waiting("ContainerCreating", err)
		p.containers = append(p.containers, v1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image, State: state})
	}
	var containers sync.WaitGroup
	for i := range p.containers {
		if err == nil {
			containers.Go(func() { p.container(&p.object.Spec.Containers[i], &p.containers[i]) })
		}
	}
	containers.Wait()
	p.change(func() {})
	<-p.ctx.Done() // a finished Pod stays until it is deleted
	if p.address.namespace != "" {
		p.network.detach(p.address)
	}
	_ = os.RemoveAll(p.directory)
	p.forget(p)
}

// forgetAddress removes the addresses that an earlier kubelet reported: a strategic merge would keep them beside the new one.
func (p *pod) forgetAddress() {
	if p.object.Status.PodIP == "" {
		return
	}
	patch := []byte(`[{"op":"remove","path":"/status/podIP"},{"op":"remove","path":"/status/podIPs"}]`)
	pods := p.client.CoreV1().Pods(p.object.Namespace)
	_, _ = pods.Patch(context.Background(), p.object.Name, types.JSONPatchType, patch, metav1.PatchOptions{}, "status")
}

// change changes a container's status and reports the whole Pod's.
func (p *pod) change(status func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	status()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.object.UID}, "status": p.status()})
	if err == nil {
		pods := p.client.CoreV1().Pods(p.object.Namespace)
		_, err = pods.Patch(context.Background(), p.object.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		klog.ErrorS(err, "cannot report a status", "pod", klog.KObj(p.object))
	}
}

func (p *pod) status() v1.PodStatus {
	phase, ended, ready, failed := v1.PodRunning, true, v1.ConditionTrue, false
	for _, c := range p.containers {
		if c.State.Waiting != nil {
			phase = v1.PodPending
		}
		if !c.Ready {
			ready = v1.ConditionFalse
		}
		ended = ended && c.State.Terminated != nil
		failed = failed || c.State.Terminated != nil && c.State.Terminated.ExitCode != 0
	}
	if ended && (p.ctx.Err() != nil || !p.restarts(failed)) {
		phase = v1.PodSucceeded
		if failed {
			phase = v1.PodFailed
		}
	}
	if p.ready.Status != ready {
		p.ready = v1.PodCondition{Status: ready, LastTransitionTime: metav1.Now()}
	}
	condition := func(kind v1.PodConditionType) v1.PodCondition {
		c := p.ready
		c.Type = kind
		return c
	}
	initialized := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue, LastTransitionTime: p.started}
	return v1.PodStatus{
		Phase:             phase,
		PodIP:             p.address.ip,
		PodIPs:            []v1.PodIP{{IP: p.address.ip}},
		HostIP:            p.network.node(),
		HostIPs:           []v1.HostIP{{IP: p.network.node()}},
		StartTime:         &p.started,
		ContainerStatuses: p.containers,
		Conditions:        []v1.PodCondition{condition(v1.PodReady), condition(v1.ContainersReady), initialized},
	}
}

// restarts says whether a container that ended is started again.
func (p *pod) restarts(failed bool) bool {
	policy := p.object.Spec.RestartPolicy
	return policy == v1.RestartPolicyAlways || policy == v1.RestartPolicyOnFailure && failed
}

func waiting(reason string, err error) v1.ContainerState {
	message := ""
	if err != nil {
		message = fmt.Sprint(err)
	}
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}
