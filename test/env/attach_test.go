package env

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testAttach(t *testing.T, e *Env) {
	other, err := Attach(e.Dir)
	fatal(t, err)
	if !Runs(e.Dir) || other.Kubectl != e.Kubectl || other.Root != e.Root {
		t.Errorf("attached to %+v; want %+v", other, e)
	}
	kubeconfig, err := other.Cluster(App).UserKubeconfig("attached", "system:masters")
	fatal(t, err)
	_, err = clientFor(t, kubeconfig).CoreV1().Namespaces().Get(testContext(t), metav1.NamespaceDefault, metav1.GetOptions{})
	fatal(t, err)
	_, err = other.Cluster(Control).KubeconfigFor(testContext(t), metav1.NamespaceDefault, "default")
	fatal(t, err)
}

func TestAttachToWhatDoesNotRun(t *testing.T) {
	dir := t.TempDir()
	if _, err := Attach(dir); err == nil || !strings.Contains(err.Error(), "no environment runs there") {
		t.Errorf("got %v, want a refusal", err)
	}
	if Runs(dir) {
		t.Error("an environment is said to run where there is none")
	}
}
