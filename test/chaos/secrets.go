package chaos

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
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

// credentialSuffix makes the name of a claim's Secret, inputSuffix that of the one that it
// refers to, as its offer says it.
const (
	credentialSuffix = "-creds"
	inputSuffix      = "-input"
)

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
	s := secret(u.GetNamespace(), u.GetName()+credentialSuffix, o.values.Value(whose))
	yes := true
	s.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), Controller: &yes}})
	if set, err := setSecret(ctx, o.client, s); set {
		o.journal.write(e.answered(err))
	}
}

// rotate gives the Secret that a claim refers to another value, and makes it when there is
// none. A value says which claim's it is, and has a number that grows.
func (d *developer) rotate(run context.Context, c *claim) {
	whose := fmt.Sprintf("%s %d", c.key(), d.numbers.next())
	e := Entry{Sent: time.Now(), Side: Cluster, Op: Rotate, Claim: c.key(), Life: c.life, Field: "password", Value: whose}
	ctx, cancel := context.WithTimeout(run, answerTimeout)
	defer cancel()
	_, err := setSecret(ctx, d.client, secret(c.namespace, c.name+inputSuffix, d.values.Value(whose)))
	d.journal.write(e.answered(err))
}

func secret(namespace, name, password string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": namespace, "name": name},
		"data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(password))},
	}}
}

// setSecret creates or updates a Secret. It leaves one alone that another object controls.
func setSecret(ctx context.Context, client dynamic.Interface, s *unstructured.Unstructured) (set bool, err error) {
	all := client.Resource(secrets).Namespace(s.GetNamespace())
	present, err := all.Get(ctx, s.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = all.Create(ctx, s, metav1.CreateOptions{})
	case err == nil && ownerOf(present) != ownerOf(s):
		return false, nil // Of an earlier claim of this name: Kubernetes removes it.
	case err == nil:
		// An update that is late changes nothing any more.
		s.SetResourceVersion(present.GetResourceVersion())
		_, err = all.Update(ctx, s, metav1.UpdateOptions{})
	}
	return true, err
}

func ownerOf(s *unstructured.Unstructured) string {
	if owner := metav1.GetControllerOf(s); owner != nil {
		return string(owner.UID)
	}
	return ""
}

// listSecrets are the Secrets of claims in a cluster whose names end in suffix, by claim.
func (s *sides) listSecrets(ctx context.Context, client dynamic.Interface, suffix string) (map[string]credential, error) {
	list, err := client.Resource(secrets).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]credential{}
	for i := range list.Items {
		u := &list.Items[i]
		name, ok := strings.CutSuffix(u.GetName(), suffix)
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

// inputs checks that what a claim refers to is on the control plane as it is in the app
// cluster, and that nothing else is there or on main.
func (c *checker) inputs(st *state) {
	for key, given := range st.given {
		switch taken, ok := st.taken[key]; {
		case st.app[key] == nil || st.control[key] == nil:
			// The claim's own trouble is told of.
		case !ok:
			c.fail(key, "the Secret that it refers to is not on the control plane")
		case taken.value != given.value:
			c.fail(key, "the Secret that it refers to is of %q on the control plane, and of %q in the app cluster", c.whose(taken), c.whose(given))
		default:
			c.ok("Secrets that have the app cluster's last value")
		}
	}
	for key, taken := range st.taken {
		if _, ok := st.given[key]; !ok || st.control[key] == nil {
			c.fail(key, "a Secret of %q is on the control plane, and no claim there refers to it", c.whose(taken))
		}
	}
	for _, key := range st.inputs {
		if st.main[key] == nil {
			c.fail(key, "what it refers to is on main, and it is not")
		}
	}
}

func (c *checker) whose(s credential) string {
	whose, _ := c.values.Whose(s.value)
	return whose
}

// deliveries are the values that were seen while things failed: claims' own in the app
// cluster, and what claims refer to on the control plane.
type deliveries struct {
	values *scan.Scan

	mu sync.Mutex
	// lastInput is the last number seen on the control plane, by claim.
	lastInput map[string]int
	seenInput int
	// last is the last number seen, by the claim's UID in the app cluster, and of is the
	// object of the control plane that the values are of; claims are the other way round.
	last   map[string]int
	of     map[string]string
	claims map[string]string
	// released are the claims' UIDs that a person let go: another one has their object then.
	released map[string]bool
	seen     int
	// inputsBefore are the last numbers seen on the control plane at the snapshot to which the
	// app cluster went back, nil if it did not; isLower are the claims with a lower one since.
	// replaced are the claims whose object may be another one since: it gets their service.
	inputsBefore map[string]int
	isLower      map[string]bool
	replaced     map[string]bool
	found        []Violation
}

func newDeliveries(values *scan.Scan) *deliveries {
	return &deliveries{values: values, lastInput: map[string]int{}, last: map[string]int{}, of: map[string]string{}, claims: map[string]string{}, released: map[string]bool{}}
}

// release says that a person lets the object of a claim go, and keeps its service.
func (d *deliveries) release(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.released[uid] = true
}

// look keeps looking until ctx ends.
func (d *deliveries) look(ctx context.Context, s *sides) {
	for ; ctx.Err() == nil; sleep(ctx, 200*time.Millisecond) {
		once, cancel := context.WithTimeout(ctx, answerTimeout)
		if all, err := s.listSecrets(once, s.app, credentialSuffix); err == nil {
			for key, secret := range all {
				d.add(key, secret)
			}
		}
		if all, err := s.listSecrets(once, s.control, inputSuffix); err == nil {
			for key, secret := range all {
				d.addInput(key, secret)
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
	if d.released[d.claims[object]] {
		delete(d.claims, object)
	}
	if d.replaced[key] && cmp.Or(d.of[s.owner], object) != object {
		delete(d.replaced, key)
		delete(d.of, s.owner)
		delete(d.last, s.owner)
	}
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

// addInput checks a Secret of the control plane: its value is what the claim refers to, and
// none that was replaced before.
func (d *deliveries) addInput(key string, s credential) {
	d.mu.Lock()
	defer d.mu.Unlock()
	whose, ok := d.values.Whose(s.value)
	at := max(0, strings.LastIndex(whose, " "))
	claim := whose[:at]
	number, err := strconv.Atoi(strings.TrimSpace(whose[at:]))
	switch last := d.lastInput[key]; {
	case !ok, err != nil:
		d.found = append(d.found, Violation{key, fmt.Sprintf("a value that nobody made was on the control plane: it is of %q", whose)})
	case claim != key:
		d.found = append(d.found, Violation{key, fmt.Sprintf("what %q refers to came to the control plane as this claim's", claim)})
	case number < last && d.inputsBefore != nil && !d.isLower[key] && number >= d.inputsBefore[key]:
		d.isLower[key] = true
		d.lastInput[key] = number
	case number < last:
		d.found = append(d.found, Violation{key, fmt.Sprintf("what it referred to before number %d came to the control plane again: %q", last, whose)})
	case number > last:
		d.lastInput[key] = number
		d.seenInput++
	}
}

// tell says what was found, each thing once.
func (d *deliveries) tell(c *checker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.counts["values that were seen in the app cluster, of the right claim"] = d.seen
	c.counts["values that were seen on the control plane, of the right claim"] = d.seenInput
	slices.SortFunc(d.found, func(a, b Violation) int { return strings.Compare(a.String(), b.String()) })
	c.found = append(c.found, slices.Compact(d.found)...)
}
