package kubelet

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"

	authentication "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// files are a volume's, by path.
type files map[string][]byte

// mounts makes the volumes that a container mounts.
func (p *pod) mounts(c *v1.Container) ([]mount, error) {
	var mounts []mount
	for _, m := range c.VolumeMounts {
		for _, v := range p.object.Spec.Volumes {
			if v.Name != m.Name {
				continue
			}
			folder, readOnly, err := p.volume(&v)
			if err != nil {
				return nil, fmt.Errorf("volume %s: %w", v.Name, err)
			}
			mounts = append(mounts, mount{filepath.Join(folder, m.SubPath), m.MountPath, readOnly || m.ReadOnly})
		}
	}
	return mounts, nil
}

// volume makes a volume; its folder, and whether nobody may write to it.
func (p *pod) volume(v *v1.Volume) (folder string, readOnly bool, err error) {
	folder = filepath.Join(p.directory, "volumes", v.Name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", false, err
	}
	var content files
	switch {
	case v.EmptyDir != nil:
		return folder, false, os.Chmod(folder, 0o777)
	case v.HostPath != nil:
		return v.HostPath.Path, false, nil
	case v.Secret != nil:
		content, err = p.secret(v.Secret.SecretName, v.Secret.Items, first(v.Secret.Optional))
	case v.ConfigMap != nil:
		content, err = p.configMap(v.ConfigMap.Name, v.ConfigMap.Items, first(v.ConfigMap.Optional))
	case v.DownwardAPI != nil:
		content, err = p.fields(v.DownwardAPI.Items)
	case v.Projected != nil:
		content, err = p.projected(v.Projected.Sources)
	default:
		err = fmt.Errorf("this kubelet does not know its kind")
	}
	if err != nil {
		return "", false, err
	}
	return folder, true, content.write(folder)
}

// projected is what several sources have together: what a ServiceAccount's Pods are given is made this way.
func (p *pod) projected(sources []v1.VolumeProjection) (files, error) {
	all := files{}
	for _, source := range sources {
		var some files
		var err error
		switch {
		case source.ServiceAccountToken != nil:
			some, err = p.token(source.ServiceAccountToken)
		case source.Secret != nil:
			some, err = p.secret(source.Secret.Name, source.Secret.Items, first(source.Secret.Optional))
		case source.ConfigMap != nil:
			some, err = p.configMap(source.ConfigMap.Name, source.ConfigMap.Items, first(source.ConfigMap.Optional))
		case source.DownwardAPI != nil:
			some, err = p.fields(source.DownwardAPI.Items)
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

// token is a new one, which lives as long as the Pod but is not renewed when it expires.
func (p *pod) token(projection *v1.ServiceAccountTokenProjection) (files, error) {
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{
		ExpirationSeconds: projection.ExpirationSeconds,
		BoundObjectRef:    &authentication.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.object.Name, UID: p.object.UID},
	}}
	if projection.Audience != "" {
		request.Spec.Audiences = []string{projection.Audience}
	}
	accounts := p.client.CoreV1().ServiceAccounts(p.object.Namespace)
	made, err := accounts.CreateToken(p.ctx, p.object.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return files{projection.Path: []byte(made.Status.Token)}, nil
}

func (p *pod) secret(name string, items []v1.KeyToPath, optional bool) (files, error) {
	secret, err := p.client.CoreV1().Secrets(p.object.Namespace).Get(p.ctx, name, metav1.GetOptions{})
	if optional && apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return choose(secret.Data, items), nil
}

func (p *pod) configMap(name string, items []v1.KeyToPath, optional bool) (files, error) {
	configMap, err := p.client.CoreV1().ConfigMaps(p.object.Namespace).Get(p.ctx, name, metav1.GetOptions{})
	if optional && apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	data := maps.Clone(configMap.BinaryData)
	if data == nil {
		data = files{}
	}
	for key, text := range configMap.Data {
		data[key] = []byte(text)
	}
	return choose(data, items), nil
}

func (p *pod) fields(items []v1.DownwardAPIVolumeFile) (files, error) {
	all := files{}
	for _, item := range items {
		if item.FieldRef == nil {
			return nil, fmt.Errorf("%s: this kubelet knows no other source than fieldRef", item.Path)
		}
		value, err := p.field(item.FieldRef.FieldPath)
		if err != nil {
			return nil, err
		}
		all[item.Path] = []byte(value)
	}
	return all, nil
}

// choose takes the items, or everything when there are none.
func choose(data map[string][]byte, items []v1.KeyToPath) files {
	if len(items) == 0 {
		return data
	}
	chosen := files{}
	for _, item := range items {
		chosen[item.Path] = data[item.Key]
	}
	return chosen
}

func (f files) write(folder string) error {
	for path, content := range f {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
