package secrets

import (
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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/internal/crossplane"
	"gitbind.dev/gitbridge/internal/statusbranch"
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
	watches watches

	mu sync.Mutex
	// sealed is of what a file was made, by its path: what is that still needs not be
	// read again.
	sealed map[string]sealed
}

type sealed struct {
	// of names what went into it, and file what came out.
	of   string
	file store.Hash
}

// NewSealer makes a Sealer that works until ctx ends.
func NewSealer(ctx context.Context, o Options) *Sealer {
	return &Sealer{
		options: o, sealed: map[string]sealed{},
		watches: watches{client: o.Metadata, changed: o.Changed, ctx: ctx, namespaces: map[string]*namespace{}},
	}
}

// Wait returns when all that works in the background has ended, after its context.
func (s *Sealer) Wait() { s.watches.end() }

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
	// Present are the names of its Secrets that are on status.
	Present []string
}

// Result says which Secrets of a claim travel.
type Result struct {
	// Names are sorted, and Withheld says why others do not.
	Names    []string
	Withheld map[string]string
	// Files are those to change on status.
	Files []statusbranch.File
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
		return s.None(c.Key, c.Object.GetNamespace(), c.Present, status), nil
	}
	out := Result{Withheld: map[string]string{}}
	keep := func(why string) (Result, error) {
		out.Names, out.Withheld[everything] = c.Present, why
		return out, nil
	}
	recipients, err := s.options.Recipients(ctx)
	if err != nil {
		return out, err
	}
	if len(recipients) == 0 {
		return keep("the app cluster has registered no key to encrypt to yet")
	}
	signer, err := s.options.Signer(ctx)
	if err != nil {
		return keep(err.Error())
	}
	if err := s.options.Rights(ctx, c.Object.GetNamespace()); err != nil {
		return keep(err.Error())
	}
	found, err := s.watches.find(c.Object.GetNamespace(), c.Key.Path(), selections)
	switch {
	case errors.Is(err, errNotKnown):
		return Result{Names: c.Present}, nil
	case err != nil:
		return keep(err.Error())
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		file, why, err := s.seal(ctx, c, found[name], to{signer, recipients}, status)
		switch {
		case err != nil:
			return out, err
		case why != "":
			out.Withheld[name] = why
			continue
		}
		out.Names = append(out.Names, name)
		if file.Data != nil {
			out.Files = append(out.Files, file)
		}
	}
	s.remove(&out, c.Key, c.Present, status)
	if len(out.Withheld) == 0 {
		// As it is read back: an answer that says the same is the same.
		out.Withheld = nil
	}
	return out, nil
}

// everything stands for all Secrets of a claim.
const everything = "*"

// None is the Result for a claim that has no Secrets any more.
func (s *Sealer) None(key contract.Key, namespace string, present []string, status Status) Result {
	s.watches.forget(namespace, key.Path())
	var out Result
	s.remove(&out, key, present, status)
	return out
}

// remove has the files of Secrets go that do not travel any more.
func (s *Sealer) remove(r *Result, key contract.Key, present []string, status Status) {
	for _, name := range present {
		at := contract.SecretKey{Binding: key.Binding, Namespace: key.Namespace, Name: name}
		if !slices.Contains(r.Names, name) && ownerAt(at, status) == key.Name {
			r.Files = append(r.Files, statusbranch.File{Path: at.Path()})
			s.remember(at.Path(), sealed{})
		}
	}
}

// ownerAt is the name of the claim that a file on status belongs to, "" if there is no
// file that can be read.
func ownerAt(at contract.SecretKey, status Status) string {
	data, err := status.Read(at.Path())
	if err != nil {
		return ""
	}
	body, _, _ := contract.CutSignature(data)
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

// seal makes one file. It is without data where what is on status will do, and why is
// set where the Secret must not travel.
func (s *Sealer) seal(ctx context.Context, c Claim, t taken, to to, status Status) (file statusbranch.File, why string, err error) {
	if !t.isOwned() {
		return file, "a Secret of this name is not the claim's: its object does not control it", nil
	}
	at := contract.SecretKey{Binding: c.Key.Binding, Namespace: c.Key.Namespace, Name: t.metadata.Name}
	file.Path = at.Path()
	entry, exists := status.Entry(file.Path)
	of := strings.Join(append([]string{t.version(), c.UID, c.Key.Name}, to.recipients...), " ")
	if exists && s.isSealed(file.Path, sealed{of, entry.Hash}) {
		return file, "", nil
	}
	secret, err := s.options.Secrets.CoreV1().Secrets(t.metadata.Namespace).Get(ctx, t.metadata.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return file, "it was deleted a moment ago", nil
	case apierrors.IsForbidden(err):
		return file, "the tenant may not read it", nil
	case err != nil:
		return file, "", fmt.Errorf("get Secret %s/%s: %w", t.metadata.Namespace, t.metadata.Name, err)
	case secret.UID != t.metadata.UID || secret.ResourceVersion != t.metadata.ResourceVersion:
		// What it is now was not judged. Watching shows it in a moment.
		return file, "", errStale
	}
	if why := never(secret); why != "" {
		return file, why, nil
	}
	binding := encryption.Binding{Cluster: s.options.Cluster, Claim: c.Key, UID: c.UID}
	travels := encryption.Secret{Name: secret.Name, Type: secret.Type, Data: only(secret.Data, t.keys)}
	var last int64
	if exists {
		present, err := status.Read(file.Path)
		if err != nil {
			return file, "", err
		}
		if to.signer.Same(present, binding, travels, to.recipients) {
			s.remember(file.Path, sealed{of, entry.Hash})
			return file, "", nil
		}
		body, _, _ := contract.CutSignature(present)
		if e, err := contract.DecodeEncryptedSecret(body); err == nil {
			if e.Claim.Name != c.Key.Name && s.lists(e, status) {
				return file, fmt.Sprintf("it travels with the claim %s already", e.Claim.Name), nil
			}
			last = e.Sequence
		}
	}
	file.Data, err = to.signer.Seal(binding, travels, to.recipients, max(last+1, s.options.Now().UnixMilli()))
	if errors.Is(err, encryption.ErrTooLarge) {
		return file, err.Error(), nil
	}
	return file, "", err
}

// errStale says that a Secret is not as watching shows it.
var errStale = errors.New("the Secret changed a moment ago")

// never says why a Secret must not travel, whoever names it.
func never(secret *corev1.Secret) string {
	switch secret.Type {
	case corev1.SecretTypeServiceAccountToken, corev1.SecretTypeBootstrapToken:
		return fmt.Sprintf("a Secret of type %s is a credential of the control plane itself", secret.Type)
	}
	return ""
}

// lists reports whether the claim that a file names has it still.
func (s *Sealer) lists(e *contract.EncryptedSecret, status Status) bool {
	other := contract.Key{Binding: e.Claim.Binding, Namespace: e.Metadata.Namespace, Name: e.Claim.Name}
	data, err := status.Read(other.Path())
	if err != nil {
		return false
	}
	answer, err := contract.DecodeStatus(data)
	return err == nil && slices.Contains(answer.Secrets, e.Metadata.Name)
}

func (s *Sealer) isSealed(path string, as sealed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sealed[path] == as
}

func (s *Sealer) remember(path string, as sealed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed[path] = as; as == (sealed{}) {
		delete(s.sealed, path)
	}
}
