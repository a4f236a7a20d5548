// Package serviceinfo shows a person how to connect to a service: which Secrets have its
// credentials, what they say that is no secret, and how a shell or a Pod gets the rest.
//
// What the keys of a Secret mean, it takes from their names alone: it knows no kind of
// claim. It prints no password, and nothing of a key that it does not know.
package serviceinfo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	// Name is KIND/NAME.
	Name string
	// kubectl is how the person calls it, for a shell.
	kubectl []string
	// unseen is why nobody told what belongs to what.
	unseen error
}

// claim is one claim and what the control plane says of its API for people.
type claim struct {
	object  *unstructured.Unstructured
	binding string
	offer   *v1alpha1.Offer
}

// title is how people call it.
func (c claim) title() string {
	kind := c.object.GetKind()
	if c.offer != nil {
		kind = cmp.Or(c.offer.DisplayName, kind)
	}
	return output.Line(kind + " " + c.object.GetName())
}

// belongsTo tells whether it says that it belongs to another claim of its namespace.
func (c claim) belongsTo(other claim) bool {
	return slices.Contains(c.offer.NamesIn(c.object.Object), v1alpha1.ReferredClaim{API: other.binding, Name: other.object.GetName()})
}

// bringsSecrets tells whether Secrets are to come with it.
func (c claim) bringsSecrets() bool {
	_, asks, _ := unstructured.NestedMap(c.object.Object, "spec", "writeConnectionSecretToRef")
	return asks || c.offer != nil && c.offer.Secrets
}

// Do prints how to connect.
func Do(ctx context.Context, in Input) error {
	name, err := in.Cluster.Name(in.Name)
	if err != nil {
		return err
	}
	object, err := in.Cluster.Claim(ctx, name)
	if err != nil {
		return err
	}
	bindings, err := in.Cluster.Bindings(ctx)
	if err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	in.unseen = err
	this := claim{object: object, binding: name.Key.Binding}
	for _, b := range bindings {
		if b.Name == this.binding {
			this.offer = b.Status.Offer
		}
	}
	related, err := in.related(ctx, this, bindings)
	if err != nil {
		return err
	}
	return in.show(ctx, this, related, bindings)
}

// related are the claims that belong to one.
func (in Input) related(ctx context.Context, to claim, bindings []v1alpha1.APIServiceBinding) ([]claim, error) {
	var out []claim
	for _, b := range bindings {
		if reference(b.Status.Offer, to.binding) == nil {
			continue
		}
		items, err := in.Cluster.Claims(ctx, b.Name, client.InNamespace(to.object.GetNamespace()))
		if apierrors.IsForbidden(err) {
			fmt.Fprintf(in.Notes, "You may not list %s in namespace %s.\n", b.Name, to.object.GetNamespace())
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range items {
			if c := (claim{&items[i], b.Name, b.Status.Offer}); c.belongsTo(to) {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// reference is how claims of an offer name those of an API; nil if they do not.
func reference(o *v1alpha1.Offer, api string) *v1alpha1.Reference {
	if o == nil {
		return nil
	}
	for i := range o.References {
		if o.References[i].API == api {
			return &o.References[i]
		}
	}
	return nil
}

// show prints each Secret of a claim and of what belongs to it.
func (in Input) show(ctx context.Context, this claim, related []claim, bindings []v1alpha1.APIServiceBinding) error {
	var troubles []error
	shown := 0
	for _, c := range append([]claim{this}, related...) {
		for _, d := range appcluster.StatusOf(c.object).Secrets {
			s, err := in.read(ctx, c, d)
			if err != nil {
				troubles = append(troubles, err)
			}
			if s.words = c.words(this, bindings); shown == 0 {
				fmt.Fprintf(in.Terminal.Out, "%s in namespace %s\n", this.title(), this.object.GetNamespace())
			}
			in.print(s)
			shown++
		}
	}
	if shown == 0 {
		return in.none(this, related, bindings)
	}
	return errors.Join(troubles...)
}

// words are by what one may tell what kind of service it is.
func (c claim) words(this claim, bindings []v1alpha1.APIServiceBinding) []string {
	words := []string{this.title(), this.binding}
	spec, _, _ := unstructured.NestedMap(c.object.Object, "spec")
	for field, value := range spec {
		// It says so itself, as by serviceInstanceType. The names of others say nothing.
		if text, ok := value.(string); ok && !strings.HasSuffix(field, "Ref") {
			words = append(words, text)
		}
	}
	for _, named := range c.offer.NamesIn(c.object.Object) {
		words = append(words, named.API)
		for _, b := range bindings {
			if b.Name == named.API && b.Status.Offer != nil {
				words = append(words, b.Status.Offer.DisplayName)
			}
		}
	}
	return words
}

// read reads a Secret with the person's rights.
func (in Input) read(ctx context.Context, of claim, d appcluster.DeliveredSecret) (secret, error) {
	key := client.ObjectKey{Namespace: of.object.GetNamespace(), Name: d.Name}
	s := secret{key: key, of: of.title(), since: d.Since, kubectl: strings.Join(in.kubectl, " ")}
	var found corev1.Secret
	switch err := in.Cluster.Get(ctx, key, &found); {
	case apierrors.IsForbidden(err):
		return s, fmt.Errorf("you may not read it, so what it says is not shown: %w. This right is enough: kubectl create role NAME -n %s --verb=get --resource=secrets --resource-name=%s", err, key.Namespace, key.Name)
	case apierrors.IsNotFound(err):
		return s, fmt.Errorf("the Secret %s was delivered to namespace %s and is not there: somebody deleted it. The konnector brings it again within ten minutes", key.Name, key.Namespace)
	case err != nil:
		return s, fmt.Errorf("read the Secret %s: %w", key.Name, err)
	}
	s.data = found.Data
	return s, nil
}

// none says why there is no Secret, and what to do.
func (in Input) none(this claim, related []claim, bindings []v1alpha1.APIServiceBinding) error {
	var waiting []string
	for _, c := range append([]claim{this}, related...) {
		if c.bringsSecrets() {
			waiting = append(waiting, fmt.Sprintf("%s has no Secret yet: %s", c.title(), waitsFor(c.object)))
		}
	}
	if len(waiting) > 0 {
		return errors.New(strings.Join(waiting, "\n"))
	}
	if in.unseen != nil {
		return fmt.Errorf("%s has no Secret of its own: name the claim that has its credentials, as a ServiceBinding. Which claims belong to it is not known: %w", this.title(), in.unseen)
	}
	for _, b := range bindings {
		r := reference(b.Status.Offer, this.binding)
		if r == nil || !b.Status.Offer.Secrets {
			continue
		}
		kind, err := in.Cluster.KindOf(b.Name)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return err
		}
		manifest, err := order(this, *r, kind.GroupVersion().String(), kind.Kind)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s has no credentials. Order some:\n\nkubectl apply -f - <<'EOF'\n%sEOF", this.title(), manifest)
	}
	return fmt.Errorf("%s has no Secret, and no API that is bound here brings one for it: kubectl gitbind catalog lists what you may bind", this.title())
}

// waitsFor is what a claim without Secrets waits for.
func waitsFor(u *unstructured.Unstructured) string {
	s := appcluster.StatusOf(u)
	status, _ := u.Object["status"].(map[string]any)
	words := cmp.Or(s.Message, contract.WaitsFor(status, contract.DefaultReadyCondition))
	if c := meta.FindStatusCondition(s.Conditions, "Secrets"); c != nil && c.Status != metav1.ConditionTrue {
		words = c.Message
	}
	switch {
	case words != "":
		return output.Line(words)
	case len(s.Conditions) == 0:
		return "the konnector has not looked at the claim (kubectl gitbind doctor says whether one is at work)"
	}
	return "the control plane has not sent one"
}

// order is a manifest of the smallest claim that refers to another one.
func order(of claim, r v1alpha1.Reference, apiVersion, kind string) (string, error) {
	content := map[string]any{}
	set := func(path, value string) error {
		return unstructured.SetNestedField(content, value, strings.Split(path, ".")...)
	}
	err := set(r.Field, of.object.GetName())
	if err == nil && r.When != nil {
		err = set(r.When.Field, r.When.Value)
	}
	if err != nil {
		return "", fmt.Errorf("make an example of %s: %w", kind, err)
	}
	text, err := yaml.Marshal(content)
	// Line by line, because a person reads it: apiVersion first.
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  name: %q\n  namespace: %q\n%s", apiVersion, kind, of.object.GetName(), of.object.GetNamespace(), text), err
}
