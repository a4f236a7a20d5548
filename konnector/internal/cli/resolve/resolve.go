// Package resolve lets a person decide about a claim that is held: it shows what
// there is to decide, writes the decision on the claim, and waits until the
// konnector has acted on it.
//
// It decides nothing, and changes neither the claim's content nor Git: that is
// the konnector's, which does it only if the claim and main are still what the
// person was shown.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/choice"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	// Name is KIND/NAME.
	Name string
	// Take is the decision; empty to ask.
	Take        choice.Choice
	Yes, DryRun bool
	Format      output.Format
	// Timeout of the wait for the konnector; no wait when 0.
	Timeout time.Duration
}

// Do shows, asks, writes and waits.
func Do(ctx context.Context, in Input) error {
	name, err := in.Cluster.Name(in.Name)
	if err != nil {
		return err
	}
	u, err := in.Cluster.Claim(ctx, name)
	if err != nil {
		return err
	}
	status := appcluster.StatusOf(u)
	if status.Hold == nil || len(status.Hold.Choices) == 0 {
		return in.nothing(u, name, status)
	}
	keys, err := in.Cluster.MetadataKeys(ctx, name.Key.Binding)
	if err != nil {
		return err
	}
	r, err := newReport(name.Key, keys, u, status, time.Now())
	if err != nil {
		return err
	}
	if in.Format != output.Table {
		return output.Data(in.Terminal.Out, in.Format, r)
	}
	r.print(in.Terminal)
	take, err := in.choose(ctx, r)
	if err != nil || take == "" {
		return err
	}
	if in.DryRun {
		_, err := fmt.Fprintf(in.Terminal.Out, "Nothing was changed. It would be: %s, %s.\n", take, r.does(take))
		return err
	}
	if err := in.answer(ctx, u, take.Answer(r.Token)); err != nil {
		return err
	}
	if in.Timeout == 0 {
		_, err := fmt.Fprintln(in.Terminal.Out, "The konnector is told.")
		return err
	}
	return in.wait(ctx, name, u, decided{choice: take, token: r.Token})
}

// nothing says that there is nothing to decide, which a script that wanted to
// must know.
func (in Input) nothing(u *unstructured.Unstructured, name appcluster.ClaimName, s appcluster.ClaimStatus) error {
	if in.Format != output.Table {
		r := report{Claim: name.Key.Binding + "/" + name.Key.Name, Namespace: name.Key.Namespace, Name: name.Key.Name, Path: name.Key.Path(), Message: s.Message}
		if s.Hold != nil {
			r.Reason = s.Hold.Reason
		}
		return output.Data(in.Terminal.Out, in.Format, r)
	}
	text := "is not held"
	if len(s.Conditions) == 0 {
		text = "is not looked after by a konnector"
	}
	for _, kind := range []string{"Held", "Conflict"} {
		if c := appcluster.True(u, kind); c != nil {
			text = "leaves nothing to choose: " + appcluster.Say(*c)
			break
		}
	}
	if in.Take != "" {
		return fmt.Errorf("%s %s", name.Key, text)
	}
	_, err := fmt.Fprintf(in.Terminal.Out, "%s %s\n", name.Key, text)
	return err
}

// choose gives the decision; "" when the person took none.
func (in Input) choose(ctx context.Context, r report) (choice.Choice, error) {
	t := in.Terminal
	if in.Take != "" {
		if !slices.Contains(r.Choices, in.Take) {
			return "", fmt.Errorf("--take %s is not possible here: choose from %s", in.Take, strings.Join(names(r.Choices), ", "))
		}
		err := t.Agree(ctx, fmt.Sprintf("%s: %s. Go on?", in.Take, r.does(in.Take)), in.Yes || in.DryRun)
		if errors.Is(err, terminal.ErrDeclined) {
			err = errUndecided
		}
		if err != nil {
			return "", err
		}
		return in.Take, nil
	}
	fmt.Fprintln(t.Out, "You can:")
	for i, c := range r.Choices {
		fmt.Fprintf(t.Out, "  %d  %-8s %s\n", i+1, c, r.does(c))
	}
	switch {
	case in.DryRun:
		return "", nil
	case !t.Interactive:
		return "", usage.Errorf("nothing is decided: choose with --take %s, and --yes", strings.Join(names(r.Choices), "|"))
	}
	answer, err := t.Ask(ctx, "Which? (Enter leaves it as it is) ")
	if err != nil {
		return "", err
	}
	if i, err := strconv.Atoi(answer); err == nil && i >= 1 && i <= len(r.Choices) {
		return r.Choices[i-1], nil
	}
	if slices.Contains(r.Choices, choice.Choice(answer)) {
		return choice.Choice(answer), nil
	}
	return "", errUndecided
}

var errUndecided = errors.New("nothing was decided: the claim stays as it is")

// answer writes the decision on the claim. Another object of the same name, with
// another UID, is another claim; another version is not: the answer names what it is to.
func (in Input) answer(ctx context.Context, u *unstructured.Unstructured, value string) error {
	target := u.DeepCopy()
	target.SetResourceVersion("")
	if err := in.Cluster.Annotate(ctx, target, map[string]string{v1alpha1.ResolveAnnotation: value}); err != nil {
		return fmt.Errorf("tell the konnector: %w", err)
	}
	if target.GetAnnotations()[v1alpha1.ResolveAnnotation] != value {
		return fmt.Errorf("tell the konnector: the cluster's policies took the annotation %s off again: the attribution policy may be older than this plugin (kubectl gitbind connect brings it up to date)", v1alpha1.ResolveAnnotation)
	}
	return nil
}
