package kubelet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// What a container sees of the machine: devices and processes, and what a dynamically linked program is linked with.
var (
	machine   = []string{"/dev", "/proc", "/sys"}
	libraries = []string{"/usr/lib", "/usr/lib64", "/lib", "/lib64"}
)

// container is what a process needs to begin.
type container struct {
	root      string // where its root directory is mounted
	program   string
	hosts     string
	mounts    []mount
	readOnly  bool   // the root directory
	namespace string // of the network; empty is the node's
	security
}

type mount struct {
	from, to string
	readOnly bool
}

// start starts a container's process. What is mounted for it is mounted in a namespace that ends with it.
func (p *pod) start(c *v1.Container) (command *exec.Cmd, reason string, err error) {
	program, err := p.program(c.Image)
	if err != nil {
		return nil, "ErrImagePull", err
	}
	arguments, environment, err := p.argumentsAndEnvironment(c, "/"+filepath.Base(program[0]), program[1:])
	if err != nil {
		return nil, "CreateContainerConfigError", err
	}
	mounts, err := p.mounts(c)
	if err != nil {
		return nil, "CreateContainerConfigError", err
	}
	security, err := p.security(c)
	if err != nil {
		return nil, "CreateContainerConfigError", err
	}
	description := container{
		root:      filepath.Join(p.directory, "roots", c.Name),
		program:   program[0],
		hosts:     fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", p.address.ip, p.object.Name),
		mounts:    mounts,
		readOnly:  security.readOnlyRoot,
		namespace: p.address.namespace,
		security:  security,
	}
	output, err := p.log(c.Name)
	if err != nil {
		return nil, "CreateContainerError", err
	}
	command = &exec.Cmd{
		Path: arguments[0], Args: arguments, Env: environment, Dir: "/" + c.WorkingDir,
		Stdout: output, Stderr: output, WaitDelay: time.Second,
		SysProcAttr: &syscall.SysProcAttr{
			Chroot: description.root, Credential: security.credential, Setpgid: true, Pdeathsig: syscall.SIGKILL,
		},
	}
	started := make(chan error)
	go func() {
		// Never unlocked: the thread ends with this function, and with it what it entered. It lives as long as the child,
		// since the signal for a parent's death is sent when the thread that started the child ends.
		runtime.LockOSThread()
		err := description.enter()
		if err == nil {
			err = command.Start()
		}
		if started <- err; err == nil {
			for unix.Waitid(unix.P_PID, command.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
			}
		}
	}()
	return command, "CreateContainerError", <-started
}

// enter puts the calling thread where the container's process is to begin.
func (c *container) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := c.buildRoot(); err != nil {
		return err
	}
	if c.namespace != "" {
		if err := enterNetwork(c.namespace); err != nil {
			return err
		}
	}
	return c.security.apply()
}

// buildRoot mounts the root directory and what is in it.
func (c *container) buildRoot() error {
	if err := os.MkdirAll(c.root, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", c.root, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("root directory: %w", err)
	}
	for _, folder := range []string{"etc", "tmp"} {
		if err := os.Mkdir(filepath.Join(c.root, folder), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(c.root, "tmp"), 0o1777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.root, "etc/hosts"), []byte(c.hosts), 0o644); err != nil {
		return err
	}
	mounts := []mount{{c.program, "/" + filepath.Base(c.program), true}}
	for _, folder := range machine {
		mounts = append(mounts, mount{folder, folder, false})
	}
	for _, folder := range libraries {
		// On merged systems /lib is a link to usr/lib.
		if target, err := os.Readlink(folder); err == nil {
			if err := os.Symlink(target, filepath.Join(c.root, folder)); err != nil {
				return err
			}
		} else if _, err := os.Stat(folder); err == nil {
			mounts = append(mounts, mount{folder, folder, true})
		}
	}
	for _, m := range append(mounts, c.mounts...) {
		if err := m.bind(c.root); err != nil {
			return fmt.Errorf("mount of %s: %w", m.to, err)
		}
	}
	if c.readOnly {
		return remountReadOnly(c.root)
	}
	return nil
}

// bind shows a file or folder of the machine below root.
func (m *mount) bind(root string) error {
	to := filepath.Join(root, m.to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	info, err := os.Stat(m.from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else {
		err = os.WriteFile(to, nil, 0o755)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(m.from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil || !m.readOnly {
		return err
	}
	return remountReadOnly(to)
}

// remountReadOnly keeps the mount's other flags: in a user namespace, those that came from outside cannot be taken away.
func remountReadOnly(path string) error {
	var info unix.Statfs_t
	if err := unix.Statfs(path, &info); err != nil {
		return err
	}
	keep := uintptr(info.Flags) & (unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC | unix.ST_NOATIME | unix.ST_NODIRATIME)
	if info.Flags&unix.ST_RELATIME != 0 {
		keep |= unix.MS_RELATIME
	}
	return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|keep, "")
}

func enterNetwork(namespace string) error {
	fd, err := unix.Open("/run/netns/"+namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Setns(fd, unix.CLONE_NEWNET)
}
