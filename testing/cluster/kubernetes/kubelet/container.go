package kubelet

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How long after its end a container is started again, and how long after a failure to start it is tried again.
const restartDelay = time.Second / 2

// container runs one container, again and again as the Pod's policy says, until the Pod stops.
func (p *pod) container(c *v1.Container, status *v1.ContainerStatus) {
	for p.ctx.Err() == nil {
		command, reason, err := p.start(c)
		if err != nil {
			p.change(func() { status.State = waiting(reason, err) })
		} else {
			p.attend(c, command, status)
			if !p.restarts(status.State.Terminated.ExitCode != 0) {
				return
			}
		}
		select {
		case <-p.ctx.Done():
		case <-time.After(restartDelay):
			if status.State.Terminated != nil {
				p.change(func() { status.RestartCount++ })
			}
		}
	}
}

// attend looks after a container's process until it has ended.
func (p *pod) attend(c *v1.Container, command *exec.Cmd, status *v1.ContainerStatus) {
	done, begun := make(chan struct{}), metav1.Now()
	go func() {
		_ = command.Wait()
		close(done)
	}()
	p.change(func() {
		status.State = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: begun}}
		status.Ready, status.Started = c.ReadinessProbe == nil, new(true)
	})
	if c.ReadinessProbe != nil {
		go p.probe(c, c.ReadinessProbe, false, done, func(ok bool) {
			p.change(func() { status.Ready = ok && status.State.Running != nil })
		})
	}
	if c.LivenessProbe != nil {
		go p.probe(c, c.LivenessProbe, true, done, func(ok bool) {
			if !ok && p.ctx.Err() == nil {
				_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
			}
		})
	}
	select {
	case <-done:
	case <-p.ctx.Done():
		p.end(c, command, done)
	}
	p.change(func() {
		status.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			Reason: "Exited", ExitCode: exitCode(command), StartedAt: begun, FinishedAt: metav1.Now(),
		}}
		status.Ready, status.LastTerminationState = false, status.State
	})
}

// end stops a process: the preStop hook's sleep, SIGTERM, and SIGKILL when the grace period is over.
func (p *pod) end(c *v1.Container, command *exec.Cmd, done <-chan struct{}) {
	timeout := time.After(p.grace)
	if hook := c.Lifecycle; hook != nil && hook.PreStop != nil && hook.PreStop.Sleep != nil {
		select {
		case <-time.After(min(time.Duration(hook.PreStop.Sleep.Seconds)*time.Second, p.grace)):
		case <-done:
		}
	}
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM)
	select {
	case <-done:
	case <-timeout:
	}
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // whoever is left of the group
	<-done
}

// exitCode is 128 and the signal's number for a process that a signal ended, as container runtimes report it.
func exitCode(command *exec.Cmd) int32 {
	if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(command.ProcessState.ExitCode())
}

// program is the program that stands for an image, with its default arguments.
func (k *kubelet) program(image string) ([]string, error) {
	name := image
	if end := strings.LastIndexAny(name, ":@"); end > strings.LastIndex(name, "/") {
		name, _, _ = strings.Cut(name[:end], ":")
	}
	if program := k.images[name]; len(program) > 0 {
		return program, nil
	}
	return nil, fmt.Errorf("no program stands for image %s", name)
}
