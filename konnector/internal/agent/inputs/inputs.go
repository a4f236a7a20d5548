// Package inputs makes the file with which the Secrets and ConfigMaps that a claim refers
// to go to the control plane: it finds them, reads them, and seals them. It reads only in
// namespaces where somebody let the konnector, and only what the offer names. It keeps no
// value longer than it takes to encrypt it, takes nothing away on account of what it
// cannot read, and decides neither when nor for which claims.
package inputs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/objectwatch"
	"gitbind.dev/gitbridge/selection"
	"gitbind.dev/gitbridge/store"
)

const (
	// maxPlain is how many bytes the data of one claim's objects may have: its file is not
	// larger than contract.MaxFileSize.
	maxPlain = 512 << 10
	// maxNamespace is how many bytes the files of an API's claims in one namespace may have.
	maxNamespace = 16 << 20
)

// resources are what goes up.
var resources = []v1alpha1.Resource{v1alpha1.ResourceConfigMaps, v1alpha1.ResourceSecrets}

// Claim is one that may refer to objects.
type Claim struct {
	Key contract.Key
	// UID is the one by which the control plane knows the claim.
	UID  string
	Spec map[string]any
	// Offered are what the offer has go up.
	Offered []v1alpha1.PermissionClaim
	// Answered is what the control plane says that it has; nil for nothing.
	Answered *contract.Inputs
	// Main is the newest that is known.
	Main *store.Snapshot
}

// Trouble is why an object does not go up.
type Trouble struct {
	// Reason is one word for programs, Message a sentence for people, which repeats no
	// value.
	Reason, Message string
}

// Reasons of a Trouble.
const (
	Forbidden       = "Forbidden"
	Missing         = "Missing"
	NeverTravels    = "NeverTravels"
	NoKey           = "NoKey"
	SystemNamespace = "SystemNamespace"
	TooLarge        = "TooLarge"
	TooMany         = "TooMany"
	Unlisted        = "Unlisted"
)

// Outcome is what is to be on main for a claim.
type Outcome struct {
	// File, if not nil, is to take the place of the one that is there.
	File []byte
	// Sequence is that of the version which is to be there, 0 for none, and Objects are
	// what it has.
	Sequence int64
	Objects  []string
	Troubles []Trouble
	// Retry, if not 0, is how long until it is to be looked at again though nothing changed.
	Retry time.Duration

	// of names what it was made of, and sender is the one that it was made with.
	of     string
	sender *encryption.Sender
}

// Maker makes the files of one API's claims.
type Maker struct {
	live    client.Reader
	watches map[v1alpha1.Resource]*objectwatch.Watches

	mu sync.Mutex
	// known is what main has of a claim, and of what it was made.
	known map[contract.Key]known
	// sizes are those of files, by namespace and claim, for namespaces that were looked at;
	// "" has the sum.
	sizes map[string]map[string]int64
}

type known struct {
	outcome Outcome
	file    store.Hash
}

// New returns a Maker that works until ctx ends. Changed has a claim looked at again, by
// the path of its file.
func New(ctx context.Context, metadata metadata.Interface, live client.Reader, changed func(path string)) *Maker {
	m := &Maker{live: live, watches: map[v1alpha1.Resource]*objectwatch.Watches{}, known: map[contract.Key]known{}, sizes: map[string]map[string]int64{}}
	for _, r := range resources {
		m.watches[r] = objectwatch.New(ctx, metadata, corev1.SchemeGroupVersion.WithResource(string(r)), changed)
	}
	return m
}

// Make says what is to be on main for a claim. The error is objectwatch.ErrNotKnown as long
// as nobody knows: the claim is looked at again when somebody does.
func (m *Maker) Make(ctx context.Context, c Claim, sender *encryption.Sender) (Outcome, error) {
	if len(c.Offered) == 0 {
		m.Forget(c.Key)
		return Outcome{}, nil
	}
	if v1alpha1.IsSystemNamespace(c.Key.Namespace) {
		return Outcome{}.with(SystemNamespace, fmt.Sprintf("Nothing of namespace %s goes to the control plane: it has the cluster's own credentials.", c.Key.Namespace)), nil
	}
	entry, exists := c.Main.Entry(c.Key.InputsPath())
	m.mu.Lock()
	last, ok := m.known[c.Key]
	m.mu.Unlock()
	// What cannot be told now leaves what is there.
	kept := Outcome{Sequence: last.outcome.Sequence, Objects: last.outcome.Objects}
	if sender == nil || len(sender.Recipients) == 0 {
		return kept.with(NoKey, "Nothing goes to the control plane: this cluster does not know its key yet. Condition Encryption of the Connection says why."), nil
	}
	found, out, err := m.find(c)
	var forbidden *objectwatch.ForbiddenError
	if errors.As(err, &forbidden) {
		return kept.forbidden(forbidden), nil
	}
	var unlisted *objectwatch.UnlistedError
	if errors.As(err, &unlisted) {
		return kept.with(Unlisted, fmt.Sprintf("The konnector cannot list %s in namespace %s, to which this claim refers: the API server answers %s. Nothing new goes to the control plane until it can.",
			unlisted.Resource, unlisted.Namespace, cmp.Or(string(apierrors.ReasonForError(unlisted)), "nothing"))), nil
	}
	if err != nil {
		return kept, err
	}
	if len(found) == 0 && !exists && (c.Answered == nil || len(c.Answered.Objects) == 0) {
		return out, nil
	}
	out.of, out.sender = fmt.Sprint(c.UID, c.Offered), sender
	for _, f := range found {
		out.of += fmt.Sprint(" ", f.resource, f.taken.Version())
	}
	if ok && last.outcome.of == out.of && last.outcome.sender == sender && exists && entry.Hash == last.file && !c.isOlder(last.outcome.Sequence) {
		out.Sequence, out.Objects, out.Troubles = last.outcome.Sequence, last.outcome.Objects, slices.Concat(out.Troubles, last.outcome.Troubles)
		return out, nil
	}
	selected := len(out.Troubles)
	inputs, err := m.read(ctx, c, found, &out)
	if errors.As(err, &forbidden) {
		return kept.forbidden(forbidden), nil
	}
	if err != nil {
		return kept, err
	}
	made, err := m.seal(c, inputs, entry, exists, out)
	if err == nil && made.File == nil && made.Sequence > 0 {
		m.remember(c.Key, made, selected, entry.Hash)
	}
	return made, err
}

// isOlder reports whether the control plane has taken a later version than one: it does not take
// that any more.
func (c Claim) isOlder(sequence int64) bool {
	return c.Answered != nil && sequence < c.Answered.Sequence
}

// seal makes the file of a claim's objects, unless the one that is there says the same.
func (m *Maker) seal(c Claim, inputs []encryption.Input, entry store.Entry, exists bool, out Outcome) (Outcome, error) {
	sender := out.sender
	for _, in := range inputs {
		out.Objects = append(out.Objects, in.Object().String())
	}
	var present contract.File
	if exists {
		var err error
		if present, err = facts.File(c.Main, entry); err != nil {
			return out, fmt.Errorf("read %s: %w", entry.Path, err)
		}
	}
	binding := encryption.Binding{Cluster: sender.Cluster, Claim: c.Key, UID: c.UID}
	sequence, same := sender.Signer.CompareInputs(present.Data, binding, inputs, sender.Recipients)
	if out.Sequence = sequence; same && !c.isOlder(sequence) {
		return out, nil
	}
	if len(inputs) == 0 && sequence == 0 && c.Answered == nil {
		// What is there is not of this konnector, and nothing is to be.
		return out, nil
	}
	next := max(sequence+1, time.Now().UnixMilli())
	if c.Answered != nil {
		next = max(next, c.Answered.Sequence+1)
	}
	file, err := sender.Signer.SealInputs(binding, inputs, sender.Recipients, next)
	switch {
	case errors.Is(err, encryption.ErrTooLarge):
		return out.with(TooLarge, "What this claim refers to is too large to travel together."), nil
	case err != nil:
		return out, err
	case !m.fits(c, int64(len(file))):
		return out.with(TooLarge, fmt.Sprintf("What the claims of this API in namespace %s refer to is more than %d MiB: nothing more goes up until there is less.", c.Key.Namespace, maxNamespace>>20)), nil
	}
	out.File, out.Sequence = file, next
	return out, nil
}

// Pushed notes that the file of an outcome is on main.
func (m *Maker) Pushed(key contract.Key, o Outcome) {
	m.remember(key, o, 0, store.BlobHash(o.File))
}

// remember keeps what main has, without the troubles that each look finds by itself.
func (m *Maker) remember(key contract.Key, o Outcome, selected int, file store.Hash) {
	o.File = nil
	o.Troubles = slices.DeleteFunc(slices.Clone(o.Troubles[selected:]), func(t Trouble) bool { return t.Reason == Missing || t.Reason == TooMany })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[key] = known{o, file}
}

// Forget says that a claim is gone, or refers to nothing any more.
func (m *Maker) Forget(key contract.Key) {
	for _, w := range m.watches {
		w.Forget(key.Namespace, key.Path())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, key)
	if sizes := m.sizes[key.Namespace]; sizes != nil {
		sizes[""] -= sizes[key.Name]
		delete(sizes, key.Name)
	}
}

// Stale are claims whose files were sealed by another sender.
func (m *Maker) Stale(sender *encryption.Sender) []contract.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []contract.Key
	for key, k := range m.known {
		if k.outcome.sender != sender {
			out = append(out, key)
		}
	}
	return out
}

// fits reports whether a claim's file of this size leaves those of its namespace within
// their bound. The others are counted once, and followed from then on.
func (m *Maker) fits(c Claim, size int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	sizes := m.sizes[c.Key.Namespace]
	if sizes == nil {
		sizes = map[string]int64{}
		m.sizes[c.Key.Namespace] = sizes
		for e := range c.Main.List(contract.InputsPath(c.Key.Binding, c.Key.Namespace)) {
			if key, ok := contract.ParseInputsPath(e.Path); ok {
				sizes[key.Name] = e.Size
				sizes[""] += e.Size
			}
		}
	}
	total := sizes[""] - sizes[c.Key.Name] + size
	if total > maxNamespace {
		return false
	}
	sizes[""], sizes[c.Key.Name] = total, size
	return true
}

func (o Outcome) with(reason, message string) Outcome {
	o.Troubles = append(slices.Clone(o.Troubles), Trouble{reason, message})
	return o
}

func (o Outcome) forbidden(err *objectwatch.ForbiddenError) Outcome {
	o.Retry = err.Retry
	return o.with(Forbidden, fmt.Sprintf(
		"The konnector may not read %s in namespace %s, to which this claim refers: nothing new goes to the control plane. Who administers the namespace can let it: kubectl create rolebinding %[3]s -n %[2]s --clusterrole=%[3]s --serviceaccount=%[4]s:konnector",
		err.Resource, err.Namespace, v1alpha1.KonnectorInputs, v1alpha1.SystemNamespace))
}

// object is one that a claim refers to.
type object struct {
	resource   v1alpha1.Resource
	selections []selection.Selection
	taken      selection.Taken
}

// find are the objects that a claim refers to, sorted. What it names and is not there, is
// in the outcome.
func (m *Maker) find(c Claim) (found []object, out Outcome, err error) {
	for _, r := range resources {
		selections := selection.Of(c.Offered, r, c.Key.Name, map[string]any{"spec": c.Spec})
		if len(selections) == 0 {
			m.watches[r].Forget(c.Key.Namespace, c.Key.Path())
			continue
		}
		all, err := m.watches[r].Find(c.Key.Namespace, c.Key.Path(), selections)
		if err != nil {
			return nil, out, err
		}
		for _, s := range selections {
			if _, ok := all[s.Name]; !ok && s.Labels == nil {
				out = out.with(Missing, fmt.Sprintf("%s %s, to which this claim refers, is not in this namespace: create it, and it goes to the control plane.", r.Kind(), s.Name))
			}
		}
		names := slices.Sorted(maps.Keys(all))
		if len(names) > selection.Max {
			out = out.with(TooMany, fmt.Sprintf("This claim refers to %d %s: the first %d go to the control plane.", len(names), r, selection.Max))
			names = names[:selection.Max]
		}
		for _, name := range names {
			found = append(found, object{r, selections, all[name]})
		}
	}
	return found, out, nil
}

// read are the objects as they are now: watching may be behind. The error is a
// *objectwatch.ForbiddenError where one may not be read.
func (m *Maker) read(ctx context.Context, c Claim, found []object, out *Outcome) ([]encryption.Input, error) {
	var inputs []encryption.Input
	size := 0
	for _, f := range found {
		in, meta, err := m.get(ctx, f.resource, client.ObjectKey{Namespace: c.Key.Namespace, Name: f.taken.Metadata.Name})
		err = m.watches[f.resource].Read(c.Key.Namespace, err)
		if apierrors.IsNotFound(err) {
			// Watching shows that, too.
			continue
		}
		if err != nil {
			return nil, err
		}
		taken, ok := selection.Judge(f.selections, meta)
		name := in.Object().String()
		switch {
		case !ok:
			continue
		case encryption.NeverTravels(in.Type):
			*out = out.with(NeverTravels, fmt.Sprintf("%s does not go to the control plane: its type is %s, which is for this cluster alone.", name, in.Type))
			continue
		case len(in.Name) > contract.MaxNameLength:
			*out = out.with(TooLarge, fmt.Sprintf("%s does not go to the control plane: its name has more than %d characters.", name, contract.MaxNameLength))
			continue
		}
		in.Labels, in.Data, in.Text = taken.Labels, selection.Only(in.Data, taken.Keys), selection.Only(in.Text, taken.Keys)
		if size+sizeOf(in) > maxPlain {
			*out = out.with(TooLarge, fmt.Sprintf("%s does not go to the control plane: what this claim refers to has more than %d KiB together.", name, maxPlain>>10))
			continue
		}
		size += sizeOf(in)
		inputs = append(inputs, in)
	}
	return inputs, nil
}

func sizeOf(in encryption.Input) (n int) {
	for k, v := range in.Data {
		n += len(k) + len(v)
	}
	for k, v := range in.Text {
		n += len(k) + len(v)
	}
	return n
}

func (m *Maker) get(ctx context.Context, r v1alpha1.Resource, at client.ObjectKey) (encryption.Input, metav1.ObjectMeta, error) {
	if r == v1alpha1.ResourceConfigMaps {
		var o corev1.ConfigMap
		err := m.live.Get(ctx, at, &o)
		return encryption.Input{Kind: r.Kind(), Name: o.Name, Data: o.BinaryData, Text: o.Data}, o.ObjectMeta, err
	}
	var o corev1.Secret
	err := m.live.Get(ctx, at, &o)
	return encryption.Input{Kind: r.Kind(), Name: o.Name, Type: o.Type, Data: o.Data}, o.ObjectMeta, err
}
