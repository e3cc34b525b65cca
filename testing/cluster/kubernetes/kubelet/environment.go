package kubelet

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// argumentsAndEnvironment makes both of a container's. The image says which program runs, whatever the command's first word is.
func (p *pod) argumentsAndEnvironment(c *v1.Container, program string, defaults []string) (arguments, environment []string, err error) {
	variables := map[string]string{
		"PATH":                    "/",
		"HOSTNAME":                p.object.Name,
		"KUBERNETES_SERVICE_HOST": p.network.node(),
		"KUBERNETES_SERVICE_PORT": strconv.Itoa(p.apiPort),
	}
	for _, variable := range c.Env {
		if variable.ValueFrom == nil {
			variables[variable.Name] = expansion.Expand(variable.Value, expansion.MappingFuncFor(variables))
		} else if variable.ValueFrom.FieldRef == nil {
			return nil, nil, fmt.Errorf("variable %s: this kubelet knows no other source than fieldRef", variable.Name)
		} else if variables[variable.Name], err = p.field(variable.ValueFrom.FieldRef.FieldPath); err != nil {
			return nil, nil, err
		}
	}
	arguments = append([]string{program}, defaults...)
	if len(c.Command)+len(c.Args) > 0 {
		arguments = append(append([]string{program}, c.Command[min(1, len(c.Command)):]...), c.Args...)
	}
	for i := range arguments {
		arguments[i] = expansion.Expand(arguments[i], expansion.MappingFuncFor(variables))
	}
	for name, value := range variables {
		environment = append(environment, name+"="+value)
	}
	return arguments, environment, nil
}

// field is the value of a Pod's field, as the downward API names it.
func (p *pod) field(path string) (string, error) {
	switch path {
	case "status.podIP", "status.podIPs":
		return p.address.ip, nil
	case "status.hostIP", "status.hostIPs":
		return p.network.node(), nil
	case "spec.nodeName":
		return p.node, nil
	case "spec.serviceAccountName":
		return p.object.Spec.ServiceAccountName, nil
	default:
		return fieldpath.ExtractFieldPathAsString(p.object, path)
	}
}
