// Package gateway runs the official conformance suite of the Gateway API as it is, for the five profiles of Gateways with every feature
// that Forebay has.
//
// The profiles MESH-HTTP and MESH-GRPC are left out: they are about Services that Pods reach through sidecars or node agents, and Forebay
// is a proxy at the edge, where Gateways are.
package gateway

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// Who runs the suite says here which addresses a Gateway may ask for, and which it may not, with commas between them.
const (
	usableAddresses   = "USABLE_ADDRESSES"
	unusableAddresses = "UNUSABLE_ADDRESSES"
)

func TestConformance(t *testing.T) {
	options := conformance.DefaultOptions(t)
	options.ConformanceProfiles = []suite.ConformanceProfileName{
		suite.GatewayHTTPConformanceProfileName,
		suite.GatewayGRPCConformanceProfileName,
		suite.GatewayTLSConformanceProfileName,
		suite.GatewayTCPConformanceProfileName,
		suite.GatewayUDPConformanceProfileName,
	}
	options.SupportedFeatures = gatewayFeatures()
	options.UsableNetworkAddresses = addresses(t, usableAddresses)
	options.UnusableNetworkAddresses = addresses(t, unusableAddresses)
	conformance.RunConformanceWithOptions(t, options)
}

// Forebay does not have these features: what asks for them is refused, as docs/gateway-api.md says. The suite has no test that they alone need.
var missing = []features.FeatureName{
	features.SupportClusterTrustBundle,
	features.SupportGatewayAddressRoutability,
	features.SupportGatewayAddressRoutabilityCluster,
	features.SupportGatewayListenerFilters,
}

// gatewayFeatures are all that are not of the profiles for meshes, but for those that Forebay does not have.
func gatewayFeatures() []features.FeatureName {
	var names []features.FeatureName
	for feature := range features.AllFeatures {
		isOfMesh := strings.HasPrefix(string(feature.Name), string(features.SupportMesh))
		if !isOfMesh && !slices.Contains(missing, feature.Name) {
			names = append(names, feature.Name)
		}
	}
	slices.Sort(names)
	return names
}

func addresses(t *testing.T, variable string) []v1.GatewaySpecAddress {
	values := os.Getenv(variable)
	require.NotEmpty(t, values, "%s is not set", variable)
	kind := v1.IPAddressType
	var all []v1.GatewaySpecAddress
	for value := range strings.SplitSeq(values, ",") {
		all = append(all, v1.GatewaySpecAddress{Type: &kind, Value: value})
	}
	return all
}
