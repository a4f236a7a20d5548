package chaos

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// sides are the three places that are to agree, read from the outside.
type sides struct {
	app, control dynamic.Interface
	apis         []*api
	clusterID    string
	// host has the bare repository.
	host *host
}

// tenantPrefix is that of the namespaces on the control plane.
func (s *sides) tenantPrefix() string { return "gb-" + s.clusterID + "-" }

// fromTenant is the namespace in the app cluster.
func fromTenant(namespace string) string {
	f := strings.SplitN(namespace, "-", 3)
	if len(f) < 3 {
		return namespace
	}
	return f[2]
}

// state is what the three places say at a time, by claim.
type state struct {
	app, control, main map[string]*unstructured.Unstructured
	// answers are the files of the branch status.
	answers map[string]map[string]any
	// observed is the commit of main that status answers, head is main's.
	observed, head string
	conflicts      []string
	// changes are the branches on which something is proposed.
	changes []string
	// issued are the Secrets of claims on the control plane, delivered those in the app
	// cluster, by claim; sealed are the paths of their files on status.
	issued, delivered map[string]credential
	sealed            []string
	// given are the Secrets in the app cluster that claims refer to, taken those on the
	// control plane, by claim; inputs are the claims with a file of them on main.
	given, taken map[string]credential
	inputs       []string
}

// moves counts the claims that an agent holds because files of their kind were removed and
// added between two looks at main: people do both here, and mean both.
func (st *state) moves() (n int) {
	for _, u := range st.app {
		if held := condition(u, "Held"); held["reason"] == "Moved" {
			n++
		}
	}
	for _, answer := range st.answers {
		if answer["reason"] == "Moved" {
			n++
		}
	}
	return n
}

func (s *sides) read(ctx context.Context) (*state, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	st := &state{app: map[string]*unstructured.Unstructured{}, control: map[string]*unstructured.Unstructured{}, main: map[string]*unstructured.Unstructured{}, answers: map[string]map[string]any{}}
	for _, a := range s.apis {
		if err := s.list(ctx, s.app, a, st.app); err != nil {
			return nil, fmt.Errorf("list in the app cluster: %w", err)
		}
		if err := s.list(ctx, s.control, a, st.control); err != nil {
			return nil, fmt.Errorf("list on the control plane: %w", err)
		}
	}
	var err error
	for _, list := range []struct {
		of     dynamic.Interface
		suffix string
		into   *map[string]credential
	}{
		{s.control, credentialSuffix, &st.issued}, {s.app, credentialSuffix, &st.delivered},
		{s.app, inputSuffix, &st.given}, {s.control, inputSuffix, &st.taken},
	} {
		if *list.into, err = s.listSecrets(ctx, list.of, list.suffix); err != nil {
			return nil, fmt.Errorf("list Secrets: %w", err)
		}
	}
	return st, s.readGit(ctx, st)
}

func (s *sides) list(ctx context.Context, client dynamic.Interface, a *api, into map[string]*unstructured.Unstructured) error {
	list, err := client.Resource(a.resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		u := &list.Items[i]
		namespace := u.GetNamespace()
		if client == s.control {
			if !strings.HasPrefix(namespace, s.tenantPrefix()) {
				continue
			}
			namespace = fromTenant(namespace)
		}
		into[a.binding()+" "+namespace+"/"+u.GetName()] = u
	}
	return nil
}

func (s *sides) readGit(ctx context.Context, st *state) error {
	main, err := s.tree(ctx, "main")
	if err != nil {
		return err
	}
	for path, data := range main {
		if key, ok := keyOf(path, "inputs"); ok {
			st.inputs = append(st.inputs, key)
		}
		if key, ok := keyOf(path, "claims"); ok {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(data, &u.Object); err != nil {
				return fmt.Errorf("read %s: %w", path, err)
			}
			st.main[key] = u
		}
	}
	status, err := s.tree(ctx, "status")
	if err != nil {
		return err
	}
	for path, data := range status {
		if key, ok := keyOf(path, "claims"); ok {
			var answer map[string]any
			if err := yaml.Unmarshal(data, &answer); err != nil {
				return fmt.Errorf("read %s: %w", path, err)
			}
			st.answers[key] = answer
		}
		if strings.Contains(path, "/secrets/") {
			st.sealed = append(st.sealed, path)
		}
	}
	var observed struct {
		Commit string `json:"commit"`
	}
	if err := yaml.Unmarshal(status["observed.yaml"], &observed); err != nil {
		return err
	}
	st.observed = observed.Commit
	head, err := s.git(ctx, "rev-parse", "main")
	if err != nil {
		return err
	}
	st.head = strings.TrimSpace(string(head))
	refs, err := s.git(ctx, "for-each-ref", "--format=%(refname)", "refs/heads/conflicts/")
	if err != nil {
		return err
	}
	st.conflicts = strings.Fields(string(refs))
	refs, err = s.git(ctx, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/"+contract.ChangesPrefix)
	st.changes = strings.Fields(string(refs))
	return err
}

// haveSavedAfter reports whether both agents have saved that they accepted a commit of main that
// comes after one.
func (s *sides) haveSavedAfter(ctx context.Context, commit string) (bool, error) {
	for _, agent := range []struct {
		cluster  dynamic.Interface
		resource string
		accepted []string
	}{
		{s.app, "connections", []string{"status", "acceptedCommit"}},
		{s.control, "clusterbindings", []string{"status", "bridge", "acceptedCommit"}},
	} {
		list, err := agent.cluster.Resource(v1alpha1.GroupVersion.WithResource(agent.resource)).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, u := range list.Items {
			accepted, _, _ := unstructured.NestedString(u.Object, agent.accepted...)
			if accepted == "" || accepted == commit {
				return false, nil
			}
			if _, err := s.git(ctx, "merge-base", "--is-ancestor", commit, accepted); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// keyOf is the claim of a path in a binding's folder on main or status.
func keyOf(path, folder string) (string, bool) {
	f := strings.Split(path, "/")
	if len(f) != 5 || f[0] != "bindings" || f[2] != folder {
		return "", false
	}
	return f[1] + " " + f[3] + "/" + strings.TrimSuffix(f[4], ".yaml"), true
}

func (s *sides) git(ctx context.Context, args ...string) ([]byte, error) {
	s.host.RLock()
	defer s.host.RUnlock()
	return git(ctx, s.host.repository, args...)
}

// tree is each file of a branch.
func (s *sides) tree(ctx context.Context, branch string) (map[string][]byte, error) {
	out, err := s.git(ctx, "archive", "--format=tar", branch)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(out)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg {
			if files[h.Name], err = io.ReadAll(r); err != nil {
				return nil, err
			}
		}
	}
}

// machinery are fields of Crossplane's, which the app cluster does not know.
var machinery = []string{"compositionRef", "compositionSelector", "compositionRevisionRef", "compositionRevisionSelector", "compositionUpdatePolicy", "compositeDeletePolicy", "resourceRef", "writeConnectionSecretToRef"}

// spec is an object's, normalized, as JSON.
func spec(a *api, u *unstructured.Unstructured) string {
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	for k, v := range a.defaults {
		if _, ok := spec[k]; !ok {
			spec[k] = v
		}
	}
	unstructured.RemoveNestedField(spec, "cluster", hooked)
	if cluster, ok := spec["cluster"].(map[string]any); ok && len(cluster) == 0 {
		delete(spec, "cluster")
	}
	if a.delivered {
		for _, field := range machinery {
			delete(spec, field)
		}
	}
	data, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// field is the value of a field of spec, "" if there is none.
func field(u *unstructured.Unstructured, name string) string {
	v, ok, _ := unstructured.NestedFieldNoCopy(u.Object, append([]string{"spec"}, strings.Split(name, ".")...)...)
	if !ok {
		return ""
	}
	return fmt.Sprint(v)
}

// lives is which objects were seen at a claim, in both clusters: an object that
// was replaced has another UID.
type lives struct {
	mu   sync.Mutex
	seen map[string][]string
}

// look keeps looking until ctx ends.
func (l *lives) look(ctx context.Context, s *sides) {
	for ctx.Err() == nil {
		for side, client := range map[string]dynamic.Interface{"app": s.app, "control": s.control} {
			for _, a := range s.apis {
				objects := map[string]*unstructured.Unstructured{}
				once, cancel := context.WithTimeout(ctx, answerTimeout)
				if err := s.list(once, client, a, objects); err == nil {
					l.add(side, objects)
				}
				cancel()
			}
		}
		sleep(ctx, 300*time.Millisecond)
	}
}

func (l *lives) add(side string, objects map[string]*unstructured.Unstructured) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, u := range objects {
		if uid := string(u.GetUID()); !slices.Contains(l.seen[side+" "+key], uid) {
			l.seen[side+" "+key] = append(l.seen[side+" "+key], uid)
		}
	}
}

func (l *lives) of(side, key string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen[side+" "+key])
}

// keys are all claims of any of the maps.
func keys(all ...map[string]*unstructured.Unstructured) []string {
	set := map[string]bool{}
	for _, m := range all {
		for k := range m {
			set[k] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}
