package clusterbinding

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

func cluster() *v1alpha1.ClusterBinding {
	return &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "k3x9d2abqw", UID: "u1"}}
}

func TestTheBridgeMayActAsThisTenantOnly(t *testing.T) {
	b, err := json.Marshal(impersonationBinding(cluster()))
	if err != nil {
		t.Fatal(err)
	}
	const want = `"subjects":[{"kind":"ServiceAccount","name":"gitbind-gitbridge","namespace":"gitbind-system"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"gitbind-bridge-impersonate"}`
	if !strings.Contains(string(b), want) || !strings.Contains(string(b), `"namespace":"gb-k3x9d2abqw"`) {
		t.Errorf("got %s, want %s", b, want)
	}
}

func TestMayUse(t *testing.T) {
	now, yes := metav1.Now(), true
	for _, c := range []struct {
		name string
		ns   metav1.ObjectMeta
		ok   bool
	}{
		{"its own", metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: "u1", Controller: &yes}}}, true},
		{"without an owner", metav1.ObjectMeta{}, false},
		{"an earlier ClusterBinding's of the same name", metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Name: "k3x9d2abqw", UID: "u0", Controller: &yes}}}, false},
		{"its own, on its way out", metav1.ObjectMeta{DeletionTimestamp: &now, OwnerReferences: []metav1.OwnerReference{{UID: "u1", Controller: &yes}}}, false},
	} {
		err := mayUse(&corev1.Namespace{ObjectMeta: c.ns}, cluster())
		if (err == nil) != c.ok || err != nil && !errors.Is(err, errTaken) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestReadinessShowsPeopleNoInternals(t *testing.T) {
	for _, c := range []struct {
		err    error
		status metav1.ConditionStatus
		reason string
	}{
		{nil, metav1.ConditionTrue, "Ready"},
		{fmt.Errorf("tenant namespace: %w", errTaken), metav1.ConditionFalse, "InTheWay"},
		{fmt.Errorf("repository: %w", errRepositoryGone), metav1.ConditionFalse, "RepositoryGone"},
		{fmt.Errorf("repository: %w (10.0.0.1)", githost.ErrCredential), metav1.ConditionFalse, "GitHostRefuses"},
		{fmt.Errorf("repository: %w", &githost.RateLimitError{Until: time.Now()}), metav1.ConditionFalse, "GitHostRateLimit"},
		{fmt.Errorf("repository: %w", githost.ErrRenamed), metav1.ConditionFalse, "RepositoryRenamed"},
		{fmt.Errorf("repository: %w", githost.ErrArchived), metav1.ConditionFalse, "RepositoryArchived"},
		{fmt.Errorf("repository: %w (10.0.0.1)", githost.ErrMarkedForDeletion), metav1.ConditionFalse, "RepositoryMarkedForDeletion"},
		{fmt.Errorf("repository: 10.0.0.1: %w", &githost.MoveRefusedError{Words: `"refs/heads/main": "declined"`}), metav1.ConditionFalse, "GitHostRefusesBranches"},
		{fmt.Errorf("repository: %w (10.0.0.1)", githost.ErrWebhook), metav1.ConditionFalse, "GitHostRefusesWebhook"},
		{fmt.Errorf("repository: 10.0.0.1: %w", &githost.AccountTakenError{Name: "gitbind-bridge-k3x9d2abqw"}), metav1.ConditionFalse, "InTheWay"},
		{errors.New("dial tcp 10.0.0.1:443: connection refused"), metav1.ConditionFalse, "Failed"},
	} {
		got := readiness(c.err)
		if got.Status != c.status || got.Reason != c.reason || strings.Contains(got.Message, "10.0.0.1") {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
}

func TestOfTenantTakesTheTenantNamespaceAndNotThoseOfClaims(t *testing.T) {
	labels := map[string]string{v1alpha1.LabelCluster: "k3x9d2abqw"}
	for name, c := range map[string]struct {
		meta metav1.ObjectMeta
		want int
	}{
		"the namespace":                {metav1.ObjectMeta{Name: "gb-k3x9d2abqw", Labels: labels}, 1},
		"an object in it":              {metav1.ObjectMeta{Namespace: "gb-k3x9d2abqw", Name: "x", Labels: labels}, 1},
		"a claim namespace":            {metav1.ObjectMeta{Name: "gb-k3x9d2abqw-team-a", Labels: labels}, 0},
		"an object without a label":    {metav1.ObjectMeta{Namespace: "gb-k3x9d2abqw", Name: "x"}, 0},
		"an object with a false label": {metav1.ObjectMeta{Namespace: "default", Name: "x", Labels: labels}, 0},
	} {
		if got := ofTenant(t.Context(), &corev1.Namespace{ObjectMeta: c.meta}); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
