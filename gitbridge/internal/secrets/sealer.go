package secrets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/internal/crossplane"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/objectwatch"
	"gitbind.dev/gitbridge/selection"
	"gitbind.dev/gitbridge/store"
)

// Options are the parts of a Sealer.
type Options struct {
	// Cluster is the app cluster's id.
	Cluster string
	// Metadata and Secrets have the rights of the tenant's ServiceAccount.
	Metadata metadata.Interface
	Secrets  kubernetes.Interface
	// Rights sees to it that the tenant may read Secrets in a namespace of the
	// control plane.
	Rights func(ctx context.Context, namespace string) error
	// NoRight is told when the tenant may not read Secrets in a namespace all the same, as
	// somebody took the right away: Rights is to give it again.
	NoRight func(namespace string)
	// Signer signs, and Recipients are whom Secrets are encrypted to; none before the
	// app cluster has registered a key.
	Signer     func(context.Context) (*encryption.Signer, error)
	Recipients func(context.Context) ([]string, error)
	// Changed has a claim looked at again.
	Changed func(path string)
	Now     func() time.Time
}

// Sealer makes the files of the Secrets of one cluster's claims.
type Sealer struct {
	options Options
	watches *objectwatch.Watches

	mu sync.Mutex
	// sealed is of what a file was made, by its path: what is that still needs not be
	// read again.
	sealed map[string]sealed
}

type sealed struct {
	// of names what went into it; file, with its sequence, is what came out.
	of       string
	file     store.Hash
	sequence int64
}

// NewSealer makes a Sealer that works until ctx ends.
func NewSealer(ctx context.Context, o Options) *Sealer {
	return &Sealer{
		options: o, sealed: map[string]sealed{},
		watches: objectwatch.New(ctx, o.Metadata, resource, o.Changed),
	}
}

// Wait returns when all that works in the background has ended, after its context.
func (s *Sealer) Wait() { s.watches.Wait() }

// Claim is one whose Secrets travel.
type Claim struct {
	Key contract.Key
	// UID is that of the claim in the app cluster, "" as long as it is not known.
	UID string
	// Object is the claim's on the control plane.
	Object *unstructured.Unstructured
	Shape  crossplane.Shape
	// Offered are what the template names.
	Offered []v1alpha1.PermissionClaim
	// Present is what status says of its Secrets, and Withheld of those that do not
	// travel.
	Present  *contract.SecretList
	Withheld map[string]string
}

// Result says which Secrets of a claim travel.
type Result struct {
	// Secrets are those that do, and Withheld says why others do not.
	Secrets  *contract.SecretList
	Withheld map[string]string
	// Files are those to change on status.
	Files []statusbranch.File
	// Again says that it is to be looked at again after a while: nobody tells when
	// another claim has a Secret no more, or who may read one.
	Again bool
}

// Status is the tree of the branch status.
type Status interface {
	Read(path string) ([]byte, error)
	Entry(path string) (store.Entry, bool)
}

// Seal says which Secrets of a claim travel, with the files that do not say so yet.
func (s *Sealer) Seal(ctx context.Context, c Claim, status Status) (Result, error) {
	selections := selectionsOf(c.Shape, c.Offered, c.Object)
	if len(selections) == 0 {
		return s.None(ctx, c, c.Object.GetNamespace(), status)
	}
	unchanged := Result{Secrets: c.Present, Withheld: c.Withheld}
	keep := func(why string) (Result, error) {
		return Result{Secrets: c.Present, Withheld: map[string]string{contract.AllSecrets: why}}, nil
	}
	recipients, err := s.options.Recipients(ctx)
	if err != nil {
		return unchanged, err
	}
	if len(recipients) == 0 {
		return keep("the app cluster has registered no key to encrypt to yet")
	}
	for _, r := range recipients {
		// The API server does not check the checksum.
		if !encryption.IsRecipient(r) {
			return keep(fmt.Sprintf("%q in spec.encryption.recipients of the app cluster's ClusterBinding is no recipient: a platform operator must put the one there "+
				"that the condition Encryption of the Connection names", r))
		}
	}
	signer, err := s.options.Signer(ctx)
	if err != nil {
		return unchanged, err
	}
	err = s.options.Rights(ctx, c.Object.GetNamespace())
	if apierrors.IsForbidden(err) {
		return keep(noRight(c.Object.GetNamespace()))
	}
	if err != nil {
		return unchanged, err
	}
	found, err := s.watches.Find(c.Object.GetNamespace(), c.Key.Path(), selections)
	var unlisted *objectwatch.UnlistedError
	switch {
	case errors.Is(err, objectwatch.ErrNotKnown):
		return unchanged, nil
	case errors.As(err, &unlisted):
		return keep("the Secrets of its namespace on the control plane cannot be listed: that is tried again")
	case err != nil:
		s.options.NoRight(c.Object.GetNamespace())
		return keep(noRight(c.Object.GetNamespace()))
	}
	out, versions, err := s.sealAll(ctx, c, found, selections, to{signer, recipients}, status)
	s.finish(&out, c, signer, versions, status)
	if len(out.Withheld) == 0 {
		// As it is read back: an answer that says the same is the same.
		out.Withheld = nil
	}
	return out, err
}

// sealAll judges each Secret that was found, and gives the versions that travel. The error is of some:
// the others are judged all the same.
func (s *Sealer) sealAll(ctx context.Context, c Claim, found map[string]selection.Taken, selections []selection.Selection, to to, status Status) (out Result, versions map[string]int64, trouble error) {
	out, versions = Result{Withheld: map[string]string{}}, map[string]int64{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if len(versions) == selection.Max {
			out.Withheld[contract.AllSecrets] = fmt.Sprintf("no more than %d Secrets travel with a claim, and there are %d", selection.Max, len(found))
			break
		}
		v, err := s.seal(ctx, c, found[name], selections, to, status)
		if err != nil {
			// The others go on, and this one stays as it is.
			trouble = errors.Join(trouble, err)
			v.stays = true
		}
		if v.why != "" {
			out.Withheld[name] = v.why
		}
		before, present := c.version(name)
		switch {
		case v.travels:
			versions[name] = v.sequence
		case v.stays && present:
			versions[name] = before
		}
		if v.file.Data != nil {
			out.Files = append(out.Files, v.file)
		}
		out.Again = out.Again || v.later
	}
	return out, versions, trouble
}

// None is the Result for a claim that has no Secrets any more.
func (s *Sealer) None(ctx context.Context, c Claim, namespace string, status Status) (Result, error) {
	s.watches.Forget(namespace, c.Key.Path())
	var out Result
	if c.Present == nil {
		return out, nil
	}
	signer, err := s.options.Signer(ctx)
	if err != nil {
		return Result{Secrets: c.Present}, err
	}
	s.finish(&out, c, signer, nil, status)
	return out, nil
}

// finish signs which versions travel, and has the files of other Secrets go.
func (s *Sealer) finish(r *Result, c Claim, signer *encryption.Signer, versions map[string]int64, status Status) {
	r.Secrets = signer.List(s.binding(c), versions, c.Present, s.options.Now().UnixMilli())
	for _, name := range c.Present.Names() {
		at := contract.SecretKey{Binding: c.Key.Binding, Namespace: c.Key.Namespace, Name: name}
		if _, travels := versions[name]; travels {
			continue
		}
		if file, err := status.Read(at.Path()); err == nil && ownerOf(file) == c.Key.Name {
			entry, _ := status.Entry(at.Path())
			r.Files = append(r.Files, statusbranch.File{Path: at.Path(), Was: &entry.Hash})
			s.remember(at.Path(), sealed{})
		}
	}
}

func (s *Sealer) binding(c Claim) encryption.Binding {
	return encryption.Binding{Cluster: s.options.Cluster, Claim: c.Key, UID: c.UID}
}

// version is that of a Secret which travels as far as status says.
func (c Claim) version(name string) (sequence int64, ok bool) {
	if c.Present != nil {
		sequence, ok = c.Present.Versions[name]
	}
	return sequence, ok
}

// ownerOf is the name of the claim that a file belongs to, "" if there is no file that
// can be read.
func ownerOf(file []byte) string {
	body, _, _ := contract.CutSignature(file)
	e, err := contract.DecodeEncryptedSecret(body)
	if err != nil {
		return ""
	}
	return e.Claim.Name
}

// to is by whom and to whom Secrets are written.
type to struct {
	signer     *encryption.Signer
	recipients []string
}

// verdict is what is to be done with one Secret.
type verdict struct {
	// travels says that it does, and in which version; file has data where the one on
	// status will not do.
	travels  bool
	sequence int64
	file     statusbranch.File
	// why it does not travel now, and whether the version that travelled stays: nobody
	// took it away.
	why   string
	stays bool
	// later says that nobody tells when it may travel.
	later bool
}

// maxName is the longest name of a Secret that travels: with ".yaml", a file's in Git has at
// most 255 bytes.
const maxName = 250

func withheld(why string) verdict { return verdict{why: why} }

// seal judges one Secret, and makes its file.
func (s *Sealer) seal(ctx context.Context, c Claim, t selection.Taken, selections []selection.Selection, to to, status Status) (verdict, error) {
	if why := whyForeign(t, c.Object); why != "" {
		return withheld(why), nil
	}
	if len(t.Metadata.Name) > maxName {
		return withheld(fmt.Sprintf("its name has %d characters: at most %d can travel", len(t.Metadata.Name), maxName)), nil
	}
	at := contract.SecretKey{Binding: c.Key.Binding, Namespace: c.Key.Namespace, Name: t.Metadata.Name}
	entry, exists := status.Entry(at.Path())
	of := strings.Join(append([]string{t.Version(), c.UID, c.Key.Name}, to.recipients...), " ")
	if sequence := s.sequenceOf(at.Path(), of, entry.Hash); exists && sequence > 0 {
		return verdict{travels: true, sequence: sequence}, nil
	}
	present, err := status.Read(at.Path())
	if err != nil && !errors.Is(err, store.ErrNotExist) {
		return verdict{}, err
	}
	if other := ownerOf(present); other != "" && other != c.Key.Name && lists(contract.Key{Binding: at.Binding, Namespace: at.Namespace, Name: other}, at.Name, status) {
		return verdict{why: fmt.Sprintf("it travels with the claim %s already", other), later: true}, nil
	}
	secret, err := s.options.Secrets.CoreV1().Secrets(t.Metadata.Namespace).Get(ctx, t.Metadata.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		// It may be made again. Watching shows it if not.
		return verdict{stays: true}, nil
	case apierrors.IsForbidden(err):
		s.options.NoRight(t.Metadata.Namespace)
		return verdict{why: "the tenant may not read it", stays: true, later: true}, nil
	case err != nil:
		return verdict{}, fmt.Errorf("get Secret %s/%s: %w", t.Metadata.Namespace, t.Metadata.Name, err)
	}
	// What it is now is judged: watching may be behind.
	t, selected := selection.Judge(selections, secret.ObjectMeta)
	if !selected {
		return verdict{}, nil
	}
	if why := cmp.Or(whyForeign(t, c.Object), never(secret)); why != "" {
		return withheld(why), nil
	}
	of = strings.Join(append([]string{t.Version(), c.UID, c.Key.Name}, to.recipients...), " ")
	binding := s.binding(c)
	travels := encryption.Secret{Name: secret.Name, Type: secret.Type, Data: selection.Only(secret.Data, t.Keys)}
	sequence, same := to.signer.Compare(present, binding, travels, to.recipients)
	if exists && same {
		s.remember(at.Path(), sealed{of, entry.Hash, sequence})
		return verdict{travels: true, sequence: sequence}, nil
	}
	// There may have been a file of this name, of a clock that was ahead.
	sequence = to.signer.Next(binding, c.Present, max(sequence+1, s.options.Now().UnixMilli()))
	data, err := to.signer.Seal(binding, travels, to.recipients, sequence)
	switch {
	case errors.Is(err, encryption.ErrTooLarge):
		return verdict{why: err.Error(), stays: true}, nil
	case err != nil:
		return verdict{}, fmt.Errorf("seal Secret %s/%s: %w", t.Metadata.Namespace, t.Metadata.Name, err)
	}
	return verdict{travels: true, sequence: sequence, file: statusbranch.File{Path: at.Path(), Data: data, Was: &entry.Hash}}, nil
}

const (
	notOwned = "a Secret of this name is not the claim's: its object does not control it"
	former   = "a Secret of this name is that of an object which the claim had before: garbage collection has not removed it yet"
)

// whyForeign says why a Secret is not that of a claim's object, "" if it may be.
func whyForeign(t selection.Taken, object *unstructured.Unstructured) string {
	if !t.IsOwned() {
		return notOwned
	}
	kind := object.GroupVersionKind().GroupKind()
	why := ""
	for _, owner := range t.Metadata.OwnerReferences {
		version, err := schema.ParseGroupVersion(owner.APIVersion)
		switch {
		case owner.UID == object.GetUID():
			return ""
		case err == nil && version.Group == kind.Group && owner.Kind == kind.Kind && owner.Name == object.GetName():
			why = former
		}
	}
	return why
}

// never says why a Secret must not travel, no matter who names it.
func never(secret *corev1.Secret) string {
	switch {
	case encryption.NeverTravels(secret.Type):
		return fmt.Sprintf("a Secret of type %s is the control plane's own", secret.Type)
	case secret.Labels[v1alpha1.ManagedByLabel] == v1alpha1.ManagedByBridge:
		return "it came from the app cluster"
	}
	return ""
}

// lists reports whether a claim's answer has a Secret.
func lists(claim contract.Key, name string, status Status) bool {
	data, err := status.Read(claim.Path())
	if err != nil {
		return false
	}
	answer, err := contract.DecodeStatus(data)
	return err == nil && slices.Contains(answer.Secrets.Names(), name)
}

// sequenceOf is that of a file which is known to be made of this; 0 of any other.
func (s *Sealer) sequenceOf(path, of string, file store.Hash) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.sealed[path]; known.of == of && known.file == file {
		return known.sequence
	}
	return 0
}

func (s *Sealer) remember(path string, as sealed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed[path] = as; as == (sealed{}) {
		delete(s.sealed, path)
	}
}
