package claim

import (
	"context"
	"errors"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/inputs"
	"gitbind.dev/gitbridge/store"
)

func (c *Controller) beginInputs() {
	o := c.Inputs
	o.Cluster, o.Log, o.Now, o.Answered = c.Session.Cluster, c.Log, c.Now, c.allInputs
	o.Rights, o.NoRight, o.MayWrite = c.namespaces.letWriteInputs, c.namespaces.mayNotWriteInputs, c.mayWriteInputs
	c.inputs = inputs.New(o)
}

// mayWriteInputs asks whether the tenant has the rights that the bridge gives it for
// inputs.
func (c *Controller) mayWriteInputs(ctx context.Context, namespace string) (bool, error) {
	for _, resource := range inputs.Resources {
		may, err := c.may(ctx, corev1.SchemeGroupVersion.WithResource(string(resource)), types.NamespacedName{Namespace: namespace}, "get", "create", "update", "delete")
		if err != nil || !may {
			return false, err
		}
	}
	return true, nil
}

// allInputs are those of all claims, as far as status says. Where it says nothing, what a
// claim on main refers to may be there: a bridge may end before status says so.
func (c *Controller) allInputs() iter.Seq2[contract.Key, *contract.Inputs] {
	return func(yield func(contract.Key, *contract.Inputs) bool) {
		said := map[contract.Key]bool{}
		for e := range c.Session.Status.Snapshot().List(contract.Root) {
			key, err := contract.ParsePath(e.Path)
			if err != nil {
				continue
			}
			answer := c.Session.Answers.Of(e.Path)
			if answer == nil || answer.Inputs == nil {
				continue
			}
			if said[key] = true; !yield(key, answer.Inputs) {
				return
			}
		}
		main := c.Session.View().Main
		for e := range main.List(contract.Root) {
			key, ok := contract.ParseInputsPath(e.Path)
			if !ok || said[key] {
				continue
			}
			if in := sentInputs(main, e); in != nil && !yield(key, in) {
				return
			}
		}
	}
}

// sentInputs is what a file of inputs names, nil if it cannot be read. Nothing of it was
// checked: it is good for keeping what is there.
func sentInputs(main *store.Snapshot, entry store.Entry) *contract.Inputs {
	f, err := facts.File(main, entry)
	body, _, signed := contract.CutSignature(f.Data)
	if err != nil || !signed {
		return nil
	}
	e, err := contract.DecodeEncryptedInputs(body)
	if err != nil {
		return nil
	}
	var in contract.Inputs
	for _, o := range e.Objects {
		in.Objects = append(in.Objects, o.String())
	}
	return &in
}

// broughtInputs is what bringing a claim's inputs came to.
type broughtInputs struct {
	inputs.Outcome
	err error
}

// inputsTries is how often a new claim waits for what it refers to where that fails: for
// some ten seconds at most, with retryFirst doubled each time.
const inputsTries = 10

// bringInputs brings what the app cluster sends with a claim, once in a step. What lasts, and
// is in the way, does not keep the claim from being applied.
func (c *Controller) bringInputs(ctx context.Context, s *step) *broughtInputs {
	if s.inputs != nil {
		return s.inputs
	}
	s.inputs = &broughtInputs{}
	if s.Present != nil {
		s.inputs.Inputs = s.Present.Inputs
	}
	present := s.inputs.Inputs
	if s.api.Unusable != nil {
		// What the template takes is not known.
		return s.inputs
	}
	offered := v1alpha1.DirectionUp.Of(s.api.PermissionClaims)
	if len(offered) == 0 {
		if present == nil {
			return s.inputs
		}
		s.inputs.Inputs, s.inputs.err = c.inputs.Release(ctx, s.Key, present)
		return s.inputs
	}
	file, exists := s.view.Main.Entry(s.Key.InputsPath())
	entry, _ := s.view.Main.Entry(s.Path)
	if !exists {
		return s.inputs
	}
	s.inputs.Outcome, s.inputs.err = c.inputs.Bring(ctx, inputs.Claim{
		Key: s.Key, UID: s.ClaimUID(), Offered: offered, Present: present, StatusSetBack: c.Session.StatusSetBack(), Version: fmt.Sprint(entry.Hash, " ", file.Hash),
		Read: func() ([]byte, error) {
			f, err := facts.File(s.view.Main, file)
			return f.Data, err
		},
		Says: func() (*contract.Claim, error) {
			f, err := facts.File(s.view.Main, entry)
			if err != nil {
				return nil, err
			}
			return contract.Decode(f, s.api.Kind.Kind)
		},
	})
	return s.inputs
}

// addInputs says in an answer what the control plane has of a claim's inputs, once it has
// that. As long as a claim is not applied as its file says, what is there stays, and goes
// when the claim is gone.
func (c *Controller) addInputs(ctx context.Context, s *step, answer *contract.Status) error {
	if !s.IsClaim {
		return nil
	}
	var b broughtInputs
	if s.Present != nil {
		b.Inputs = s.Present.Inputs
	}
	switch {
	case answer == nil, answer.Result == contract.Gone:
		if b.Inputs != nil && len(b.Inputs.Objects) > 0 || c.mayHaveUnsaid(s, answer) {
			b.Inputs, b.err = c.inputs.Release(ctx, s.Key, b.Inputs)
		}
	case s.inputs != nil, answer.Result == contract.Applied && !s.Held && s.found != nil:
		b = *c.bringInputs(ctx, s)
	}
	if answer != nil {
		answer.Inputs = b.Inputs
	}
	if errors.Is(b.err, inputs.ErrMayNotList) {
		b.Later, b.err = inputs.CheckInterval, nil
	}
	if b.Later > 0 {
		c.queue.AddAfter(Request{Path: s.Path}, b.Later)
	}
	if b.err != nil {
		return errors.Join(fmt.Errorf("bring the inputs of %s", s.Key), b.err)
	}
	return nil
}

// mayHaveUnsaid reports whether a claim that is gone may have inputs of which status says
// nothing. To look costs requests, and tombstones are many: it is done before one is written.
// Where it is not known what the control plane has of the claim, they may be in use.
func (c *Controller) mayHaveUnsaid(s *step, answer *contract.Status) bool {
	if s.Access != decision.Granted || len(v1alpha1.DirectionUp.Of(s.api.PermissionClaims)) == 0 {
		return false
	}
	p := s.Present
	return p == nil || answer == nil || p.Result != contract.Gone || p.UID != answer.UID ||
		p.Inputs != nil && len(p.Inputs.Refused) > 0 || c.inputs.IsUnreleased(s.Key)
}
