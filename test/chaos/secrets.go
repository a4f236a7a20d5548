package chaos

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"gitbind.dev/test/scan"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// credentialSuffix makes the name of a claim's Secret, as its offer says it.
const credentialSuffix = "-creds"

// credential is a Secret of a claim.
type credential struct {
	value string
	// owner is the UID of the claim that controls it.
	owner string
}

// rotate gives the Secret of a claim another value, and makes it when there is none.
// A value says whose it is: claim, object on the control plane, and a number that grows.
func (o *operator) rotate(ctx context.Context, u *unstructured.Unstructured) {
	if u.GetDeletionTimestamp() != nil {
		return
	}
	claim := o.api.binding() + " " + fromTenant(u.GetNamespace()) + "/" + u.GetName()
	whose := fmt.Sprintf("%s %s %d", claim, u.GetUID(), o.numbers.next())
	e := Entry{Sent: time.Now(), Side: Control, Op: Rotate, Claim: claim, Field: "password", Value: whose}
	value := base64.StdEncoding.EncodeToString([]byte(o.values.Value(whose)))
	s := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"password": value},
		"metadata": map[string]any{"namespace": u.GetNamespace(), "name": u.GetName() + credentialSuffix},
	}}
	yes := true
	s.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), Controller: &yes}})
	all := o.client.Resource(secrets).Namespace(u.GetNamespace())
	present, err := all.Get(ctx, s.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = all.Create(ctx, s, metav1.CreateOptions{})
	case err == nil && ownerOf(present) != string(u.GetUID()):
		return // Of an earlier claim of this name: Kubernetes removes it.
	case err == nil:
		// An update that is late changes nothing any more.
		s.SetResourceVersion(present.GetResourceVersion())
		_, err = all.Update(ctx, s, metav1.UpdateOptions{})
	}
	o.journal.write(e.answered(err))
}

func ownerOf(s *unstructured.Unstructured) string {
	if owner := metav1.GetControllerOf(s); owner != nil {
		return string(owner.UID)
	}
	return ""
}

// listSecrets are the Secrets of claims in a cluster, by claim.
func (s *sides) listSecrets(ctx context.Context, client dynamic.Interface) (map[string]credential, error) {
	list, err := client.Resource(secrets).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]credential{}
	for i := range list.Items {
		u := &list.Items[i]
		name, ok := strings.CutSuffix(u.GetName(), credentialSuffix)
		namespace := u.GetNamespace()
		if client == s.control {
			ok = ok && strings.HasPrefix(namespace, s.tenantPrefix())
			namespace = fromTenant(namespace)
		}
		if !ok {
			continue
		}
		text, _, _ := unstructured.NestedString(u.Object, "data", "password")
		value, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, err
		}
		out[s.apis[0].binding()+" "+namespace+"/"+name] = credential{value: string(value), owner: ownerOf(u)}
	}
	return out, nil
}

// secrets checks that each Secret of a claim is in the app cluster as it is on the control
// plane, belongs to the claim, and has a file on status; and that there are no others.
func (c *checker) secrets(st *state) {
	want := 0
	for key, issued := range st.issued {
		claim, there := st.app[key], st.control[key]
		if claim == nil || there == nil || string(there.GetUID()) != issued.owner {
			continue // The claim's own trouble is told of, and what its Secret belonged to is gone.
		}
		want++
		switch delivered, ok := st.delivered[key]; {
		case !ok:
			c.fail(key, "its Secret is not in the app cluster")
		case delivered.value != issued.value:
			c.fail(key, "its Secret is of %q in the app cluster, and of %q on the control plane", c.whose(delivered), c.whose(issued))
		case delivered.owner != string(claim.GetUID()):
			c.fail(key, "its Secret belongs to %q in the app cluster", delivered.owner)
		default:
			c.ok("Secrets that have the control plane's last value")
		}
	}
	for key, delivered := range st.delivered {
		if _, ok := st.issued[key]; !ok {
			c.fail(key, "a Secret of %q is in the app cluster, and none on the control plane", c.whose(delivered))
		}
	}
	if len(st.sealed) != want {
		c.fail("", "%d Secrets travel, and status has the files %q", want, st.sealed)
	}
}

func (c *checker) whose(s credential) string {
	whose, _ := c.values.Whose(s.value)
	return whose
}

// deliveries are the values that were seen in the app cluster while things failed.
type deliveries struct {
	values *scan.Scan

	mu sync.Mutex
	// last is the last number seen, by the claim's UID in the app cluster, and of is the
	// object of the control plane that the values are of; claims are the other way round.
	last   map[string]int
	of     map[string]string
	claims map[string]string
	seen   int
	found  []Violation
}

func newDeliveries(values *scan.Scan) *deliveries {
	return &deliveries{values: values, last: map[string]int{}, of: map[string]string{}, claims: map[string]string{}}
}

// look keeps looking until ctx ends.
func (d *deliveries) look(ctx context.Context, s *sides) {
	for ; ctx.Err() == nil; sleep(ctx, 200*time.Millisecond) {
		once, cancel := context.WithTimeout(ctx, answerTimeout)
		if all, err := s.listSecrets(once, s.app); err == nil {
			for key, secret := range all {
				d.add(key, secret)
			}
		}
		cancel()
	}
}

// add checks a Secret of the app cluster: its value is the claim's, of the one object that
// the control plane has for it, and none that was replaced before.
func (d *deliveries) add(key string, s credential) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fail := func(format string, args ...any) {
		d.found = append(d.found, Violation{key, fmt.Sprintf(format, args...)})
	}
	whose, ok := d.values.Whose(s.value)
	parts := strings.Fields(whose)
	if !ok || len(parts) != 4 {
		fail("a value that nobody made was in its Secret")
		return
	}
	number := 0
	if _, err := fmt.Sscan(parts[3], &number); err != nil {
		fail("%v", err)
		return
	}
	object := parts[2]
	switch {
	case parts[0]+" "+parts[1] != key:
		fail("the value of %q was delivered to it", whose)
	case cmp.Or(d.of[s.owner], object) != object, cmp.Or(d.claims[object], s.owner) != s.owner:
		fail("the value of %q was delivered to the claim with UID %s, which had one of object %s", whose, s.owner, d.of[s.owner])
	case number < d.last[s.owner]:
		fail("the value of %q was delivered after number %d", whose, d.last[s.owner])
	}
	if number != d.last[s.owner] {
		d.seen++
	}
	d.of[s.owner], d.claims[object], d.last[s.owner] = object, s.owner, number
}

// tell says what was found, each thing once.
func (d *deliveries) tell(c *checker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.counts["values that were seen in the app cluster, of the right claim"] = d.seen
	slices.SortFunc(d.found, func(a, b Violation) int { return strings.Compare(a.String(), b.String()) })
	c.found = append(c.found, slices.Compact(d.found)...)
}
