package v1alpha1

import (
	"strings"
	"testing"
)

func TestInputsThatHaveNoPlaceAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claim PermissionClaim
		ok    bool
	}{
		"by name":          {PermissionClaim{Direction: DirectionUp, Name: "$(name)-ca", Keys: []string{"ca.crt"}}, true},
		"by a field":       {PermissionClaim{Direction: DirectionUp, Field: "spec.caRef.name", Resource: ResourceSecrets}, true},
		"by labels":        {PermissionClaim{Direction: DirectionUp, MatchLabels: map[string]string{"a": "b"}, Resource: ResourceConfigMaps}, true},
		"down":             {PermissionClaim{Name: "x"}, false},
		"by nothing":       {PermissionClaim{Direction: DirectionUp}, false},
		"by two":           {PermissionClaim{Direction: DirectionUp, Name: "x", Field: "spec.x"}, false},
		"status":           {PermissionClaim{Direction: DirectionUp, Field: "status.x"}, false},
		"metadata":         {PermissionClaim{Direction: DirectionUp, Field: "metadata.name"}, false},
		"a path":           {PermissionClaim{Direction: DirectionUp, Name: "../x"}, false},
		"a longer name":    {PermissionClaim{Direction: DirectionUp, Name: strings.Repeat("x", 254)}, false},
		"another resource": {PermissionClaim{Direction: DirectionUp, Name: "x", Resource: "pods"}, false},
		"very many keys":   {PermissionClaim{Direction: DirectionUp, Name: "x", Keys: make([]string, 65)}, false},
	} {
		if err := ValidateInputs([]PermissionClaim{tc.claim}); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ValidateInputs(make([]PermissionClaim, 17)) == nil {
		t.Error("17 of them")
	}
}
