// Package inputs brings to the control plane the Secrets and ConfigMaps that an app
// cluster sends with a claim, and takes them away again. It takes nothing that the
// cluster's konnector did not sign for this very claim, no older version than was taken
// before, and nothing that the offer does not name. It writes as the tenant's
// ServiceAccount, and touches no object that is not this cluster's. It decides neither
// when nor for which claims.
package inputs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/selection"
)

// Options are the parts of a Writer.
type Options struct {
	Cluster tenant.Cluster
	// Tenant has the rights of the tenant's ServiceAccount.
	Tenant dynamic.Interface
	// Rights sees to it that the tenant may write inputs in a namespace of the control
	// plane. NoRight is told when it may not all the same: Rights is to give it again.
	Rights  func(ctx context.Context, namespace string) error
	NoRight func(namespace string)
	// MayWrite asks whether it may: an API server gives the same answer to who has no right
	// as to who is over a quota, or against a policy.
	MayWrite func(ctx context.Context, namespace string) (bool, error)
	// Opener opens what the app cluster sends; nil before it has registered a key.
	Opener func(context.Context) (*encryption.Opener, error)
	// Answered are all claims of the cluster that have inputs, as far as status says, and those
	// on main of which status says nothing yet, with what they refer to.
	Answered func() iter.Seq2[contract.Key, *contract.Inputs]
	Log      logr.Logger
	Now      func() time.Time
}

// Writer writes the inputs of one cluster's claims.
type Writer struct {
	Options

	mu sync.Mutex
	// known is what was done last for a claim, by its path.
	known map[string]known
	// users are the claims that have an object, by where it is in the app cluster. Until
	// asked is set, they lack those that this process has not looked at.
	users map[place]map[string]bool
	asked bool
	// unreleased are claims that went, by their path, of which Release failed.
	unreleased map[string]bool
	// forbidden are namespaces where the tenant may not write.
	forbidden map[string]forbidden
	// unlisted are namespaces where it may write and not list, and until when nobody asks
	// whether that is so.
	unlisted map[string]time.Time

	// removing is held by who removes an object, and shared by those who write.
	removing sync.RWMutex
}

// New returns a Writer that has written nothing.
func New(o Options) *Writer {
	return &Writer{Options: o, known: map[string]known{}, users: map[place]map[string]bool{}, unreleased: map[string]bool{}, forbidden: map[string]forbidden{}, unlisted: map[string]time.Time{}}
}

type known struct {
	// of names what went into it.
	of  string
	out Outcome
	due time.Time
}

// forbidden is how often in a row the tenant was not let write, and until when nobody tries.
type forbidden struct {
	times int
	until time.Time
}

// place is an object of a namespace of the app cluster.
type place struct{ namespace, object string }

const (
	// CheckInterval is how often what was written is looked at though nothing changed:
	// nobody tells of what somebody deleted or edited. retryInterval is the same where
	// something is in the way.
	CheckInterval, retryInterval = 10 * time.Minute, 30 * time.Second
	// Where the tenant may not write, one claim of the namespace tries again after
	// forbiddenFirst, then after twice that, and so on up to forbiddenMost.
	forbiddenFirst, forbiddenMost = 2 * time.Second, 5 * time.Minute
)

// Claim is one that may have inputs.
type Claim struct {
	Key contract.Key
	// UID is that of the claim in the app cluster, "" as long as it is not known.
	UID string
	// Offered are what the template has go up.
	Offered []v1alpha1.PermissionClaim
	// Present is what status says of its inputs. StatusSetBack is how often status was set back
	// since this process began, or before: then there may be objects that it does not name.
	Present       *contract.Inputs
	StatusSetBack int64
	// Version tells one version of the claim and of its file of inputs from another. Read
	// gives that file, and Says the claim.
	Version string
	Read    func() ([]byte, error)
	Says    func() (*contract.Claim, error)
}

// Outcome says what the control plane has of a claim's inputs.
type Outcome struct {
	Inputs *contract.Inputs
	// Later is how long until it is to be looked at again though nothing changed; 0 for
	// never.
	Later time.Duration
	// Coming says that nothing was written, as the tenant has no right to it yet: what was
	// granted takes a moment to reach the API server.
	Coming bool
}

// Bring makes the control plane have what a claim's file of inputs holds. What cannot be
// taken is in the outcome, and takes nothing away. The error is trouble that passes.
func (w *Writer) Bring(ctx context.Context, c Claim) (Outcome, error) {
	opener, err := w.Opener(ctx)
	if err != nil {
		return Outcome{Inputs: c.Present}, err
	}
	of := fmt.Sprint(c.Version, " ", c.UID, c.Offered, c.StatusSetBack)
	if opener != nil {
		of += fmt.Sprint(opener.Keys, opener.Identities.Recipients())
	}
	w.mu.Lock()
	last, ok := w.known[c.Key.Path()]
	w.mu.Unlock()
	if rest := last.due.Sub(w.Now()); ok && last.of == of && rest > 0 {
		last.out.Later = rest
		return last.out, nil
	}
	out, err := w.bring(ctx, c, opener)
	if err != nil {
		w.remember(c.Key, known{})
		return out, err
	}
	if out.Later == 0 {
		out.Later = CheckInterval
	}
	w.remember(c.Key, known{of, out, w.Now().Add(out.Later)})
	return out, nil
}

// remember keeps what was done for a claim.
func (w *Writer) remember(key contract.Key, k known) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known[key.Path()] = k; k.of == "" {
		delete(w.known, key.Path())
	}
}

// use notes that a claim has an object. The caller holds mu.
func (w *Writer) use(key contract.Key, object string) {
	at := place{key.Namespace, object}
	if w.users[at] == nil {
		w.users[at] = map[string]bool{}
	}
	w.users[at][key.Path()] = true
}

// isShared reports whether another claim has an object.
func (w *Writer) isShared(key contract.Key, object string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.asked {
		w.asked = true
		for other, in := range w.Answered() {
			for _, o := range in.Objects {
				w.use(other, o)
			}
		}
	}
	users := w.users[place{key.Namespace, object}]
	return len(users) > 1 || len(users) == 1 && !users[key.Path()]
}

// refused is the outcome where no version is taken: what was there stays.
func (c Claim) refused(why string) Outcome {
	now := contract.Inputs{Refused: map[string]string{contract.AllInputs: why}}
	if c.Present != nil {
		now.Sequence, now.Objects = c.Present.Sequence, c.Present.Objects
	}
	return Outcome{Inputs: &now}
}

func (w *Writer) bring(ctx context.Context, c Claim, opener *encryption.Opener) (Outcome, error) {
	present := Outcome{Inputs: c.Present}
	if opener == nil {
		return c.refused("the app cluster has registered no key to check signatures with yet"), nil
	}
	namespace := w.Cluster.ClaimNamespace(c.Key.Namespace)
	at := w.Now()
	w.mu.Lock()
	f := w.forbidden[namespace]
	w.mu.Unlock()
	if f.until.After(at) {
		return w.mayNot(c, f, at), nil
	}
	file, err := c.Read()
	if err != nil {
		return present, err
	}
	e, objects, err := opener.OpenInputs(c.Key, file)
	if err == nil {
		err = c.accept(e)
	}
	if err != nil {
		return c.refused(words(err)), nil
	}
	says, err := c.Says()
	if err != nil {
		return present, err
	}
	if err := w.Rights(ctx, namespace); err != nil {
		return w.failed(c, err)
	}
	now := contract.Inputs{Sequence: e.Sequence}
	var trouble error
	for _, in := range objects {
		why, err := w.asAllowed(ctx, namespace, func() (string, error) { return w.one(ctx, c, in, says, e.Sequence) })
		if isForbidden(err) {
			return w.failed(c.having(now.Objects), err)
		}
		name := in.Object().String()
		if why == "" && err == nil || c.has(name) {
			now.Objects = append(now.Objects, name)
		}
		if why != "" {
			if now.Refused == nil {
				now.Refused = map[string]string{}
			}
			now.Refused[name] = why
		}
		trouble = errors.Join(trouble, err)
	}
	left, err := w.written(ctx, c)
	if err != nil {
		return present, err
	}
	for _, name := range left {
		if sent := slices.ContainsFunc(objects, func(in encryption.Input) bool { return in.Object().String() == name }); sent {
			continue
		}
		if err := w.remove(ctx, c.Key, name); err != nil {
			now.Objects, trouble = append(now.Objects, name), errors.Join(trouble, err)
		}
	}
	slices.Sort(now.Objects)
	out := Outcome{Inputs: &now}
	if len(now.Refused) > 0 {
		out.Later = retryInterval
	}
	w.mu.Lock()
	delete(w.forbidden, namespace)
	w.mu.Unlock()
	return out, trouble
}

// written are the objects that a claim may have: those that status names, and those that were
// written before it did. The error is not for those that may not be listed.
func (w *Writer) written(ctx context.Context, c Claim) ([]string, error) {
	objects := slices.Concat(c.objects(), w.used(c.Key))
	if c.StatusSetBack > 0 {
		labelled, err := w.labelled(ctx, c.Key)
		if err != nil && !errors.Is(err, ErrMayNotList) {
			return nil, err
		}
		objects = append(objects, labelled...)
	}
	slices.Sort(objects)
	return slices.Compact(objects), nil
}

// accept says why a version is not taken. Its signature was checked.
func (c Claim) accept(e *contract.EncryptedInputs) error {
	switch {
	case e.UID != c.UID:
		return errors.New("it is of another claim of this name, with another UID. The konnector sends another one when it knows of this one")
	case c.Present != nil && e.Sequence < c.Present.Sequence:
		return errors.New("it is older than the one that was taken last: somebody put an old version back. The konnector replaces it")
	case len(e.Objects) > 2*selection.Max:
		return fmt.Errorf("it has %d objects: at most %d of each kind travel with a claim", len(e.Objects), selection.Max)
	}
	for _, o := range e.Objects {
		if len(validation.IsDNS1123Subdomain(o.Name)) > 0 {
			return errors.New("it has an object with a name that none can have")
		}
	}
	return nil
}

// words are for people, in the answer to a claim.
func words(err error) string {
	switch {
	case errors.Is(err, encryption.ErrUnknownSigner):
		return "it is signed with a key that the app cluster has not registered: somebody else wrote it, or the konnector has a new key, and sends it again"
	case errors.Is(err, encryption.ErrSignature):
		return "it is not as the konnector signed it: somebody else wrote to it. The konnector replaces it"
	case errors.Is(err, age.ErrIncorrectIdentity):
		return "it is not encrypted to the bridge's key. The konnector sends it again when it knows that key"
	}
	return err.Error()
}

func (c Claim) objects() []string {
	if c.Present == nil {
		return nil
	}
	return c.Present.Objects
}

// having is the claim with what was written of it, so that it is known when the claim goes.
func (c Claim) having(objects []string) Claim {
	present := contract.Inputs{Objects: slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.objects(), objects))))}
	if c.Present != nil {
		present.Sequence = c.Present.Sequence
	}
	c.Present = &present
	return c
}

func (c Claim) has(object string) bool { return slices.Contains(c.objects(), object) }

// asAllowed does what an API server may forbid. The error is forbidden where the tenant
// has no right to it.
func (w *Writer) asAllowed(ctx context.Context, namespace string, write func() (why string, err error)) (why string, err error) {
	if why, err = write(); !isForbidden(err) {
		return why, err
	}
	allowed, asked := w.MayWrite(ctx, namespace)
	if asked != nil {
		return "", fmt.Errorf("ask whether the tenant may write in %s: %w", namespace, bare(asked))
	}
	if !allowed {
		return "", err
	}
	// Rights take a moment to reach the API server after they were granted.
	if why, err = write(); isForbidden(err) {
		return "a quota or an admission policy of the control plane says no", nil
	}
	return why, err
}

// one writes an object, if the offer names it. Why says in words that it is not there as
// it should be.
func (w *Writer) one(ctx context.Context, c Claim, in encryption.Input, says *contract.Claim, sequence int64) (why string, err error) {
	resource := v1alpha1.ResourceSecrets
	if in.Kind == v1alpha1.ResourceConfigMaps.Kind() {
		resource = v1alpha1.ResourceConfigMaps
	}
	selections := selection.Of(c.Offered, resource, c.Key.Name, map[string]any{"spec": says.Spec})
	t, ok := selection.Judge(selections, metav1.ObjectMeta{Name: in.Name, Labels: in.Labels})
	switch {
	case !ok:
		return "the offer does not name it, or the claim does not refer to it on main", nil
	case encryption.NeverTravels(in.Type):
		return fmt.Sprintf("a Secret of type %s is a cluster's own", in.Type), nil
	}
	in.Labels, in.Data, in.Text = t.Labels, selection.Only(in.Data, t.Keys), selection.Only(in.Text, t.Keys)
	return w.write(ctx, c.Key, version{in, t.Keys, sequence, c.has(in.Object().String())})
}

// ErrMayNotList says that some of a claim's inputs may be left, as the tenant may write such
// objects and not list them: the verb came to the ClusterRole after the others.
var ErrMayNotList = fmt.Errorf("the tenant may write inputs and not list them: the ClusterRole %s is of an older version", v1alpha1.ClaimInputs)

// Release takes away what a claim has that is gone, or whose offer takes nothing any more:
// what status says, which may be nil, and what was written before status said so. What
// another claim has, too, stays. The error is ErrMayNotList if nothing else is in the way;
// what is returned then says so.
func (w *Writer) Release(ctx context.Context, key contract.Key, present *contract.Inputs) (*contract.Inputs, error) {
	left, err := w.release(ctx, key, present)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unreleased[key.Path()] = true; err == nil {
		delete(w.unreleased, key.Path())
	}
	return left, err
}

// IsUnreleased reports whether the last Release of a claim failed.
func (w *Writer) IsUnreleased(key contract.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unreleased[key.Path()]
}

func (w *Writer) release(ctx context.Context, key contract.Key, present *contract.Inputs) (*contract.Inputs, error) {
	c := Claim{Key: key, Present: present}
	if len(c.objects()) > 0 {
		if err := w.Rights(ctx, w.Cluster.ClaimNamespace(key.Namespace)); err != nil {
			return present, err
		}
	}
	written, err := w.labelled(ctx, key)
	unlisted := errors.Is(err, ErrMayNotList)
	if err != nil && !unlisted {
		return present, err
	}
	// One that came with another claim first has that one's label.
	written = append(written, w.used(key)...)
	if present == nil && len(written) == 0 && !unlisted {
		return nil, nil
	}
	all := c.having(written).Present
	now := contract.Inputs{Sequence: all.Sequence}
	var trouble error
	for _, name := range all.Objects {
		if err := w.remove(ctx, key, name); err != nil {
			now.Objects, trouble = append(now.Objects, name), errors.Join(trouble, err)
		}
	}
	w.remember(key, known{})
	if unlisted {
		now.Refused = map[string]string{contract.AllInputs: ErrMayNotList.Error()}
		trouble = cmp.Or(trouble, ErrMayNotList)
	}
	return &now, trouble
}

// failed is the outcome of what the tenant may not do.
func (w *Writer) failed(c Claim, err error) (Outcome, error) {
	if !isForbidden(err) {
		return Outcome{Inputs: c.Present}, err
	}
	namespace := w.Cluster.ClaimNamespace(c.Key.Namespace)
	w.NoRight(namespace)
	now := w.Now()
	w.mu.Lock()
	f := w.forbidden[namespace]
	if !f.until.After(now) {
		// Claims that were on their way together are refused once.
		f = forbidden{f.times + 1, now.Add(min(forbiddenFirst<<min(f.times, 10), forbiddenMost))}
		w.forbidden[namespace] = f
	}
	w.mu.Unlock()
	return w.mayNot(c, f, now), nil
}

// mayNot is the outcome where the tenant may not write, to be tried again after a while.
func (w *Writer) mayNot(c Claim, f forbidden, now time.Time) Outcome {
	out := c.refused(fmt.Sprintf("the tenant may not write Secrets and ConfigMaps in %s: it gets that by the ClusterRole %s, if the control plane has it",
		w.Cluster.ClaimNamespace(c.Key.Namespace), v1alpha1.ClaimInputs))
	out.Later, out.Coming = f.until.Sub(now), f.times == 1
	return out
}

// kindAndName is of an object as it is listed.
func kindAndName(object string) (kind, name string) {
	kind, name, _ = strings.Cut(object, " ")
	return kind, name
}
