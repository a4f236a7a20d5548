package approve

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/konnector/internal/cli/signin"
)

// Reasons of the condition Synced for which main waits for an approval, and those
// of removals and of many services that are missing.
var mainReasons = map[string]bool{"MainRewritten": true, "MainEmptied": true, "MainUnsigned": true, "StatusLost": true}

const (
	removalsReason = "RemovalsHeld"
	lostReason     = "ControlPlaneLost"
)

// clusterBindings are those of a control plane with what waits there; ok is
// false when the cluster is none.
func (in Input) clusterBindings(ctx context.Context) (all []*holder, ok bool, err error) {
	var list v1alpha1.ClusterBindingList
	switch err := in.Cluster.List(ctx, &list); {
	case meta.IsNoMatchError(err), apierrors.IsForbidden(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("list ClusterBindings: %w", err)
	}
	for i := range list.Items {
		cb := &list.Items[i]
		if in.ClusterBinding != "" && cb.Name != in.ClusterBinding {
			continue
		}
		h := ofClusterBinding(cb)
		if status, main, err := in.fetch(ctx, cb); err != nil {
			h.Note = "the repository cannot be read, so claims are not listed by name: " + err.Error()
		} else {
			h.answered(status, main)
		}
		all = append(all, h)
	}
	return all, true, nil
}

// ofClusterBinding is what a ClusterBinding says.
func ofClusterBinding(cb *v1alpha1.ClusterBinding) *holder {
	h := &holder{kind: "ClusterBinding", Name: cb.Name, Holder: fmt.Sprintf("Cluster %s (%s)", cb.Name, cb.Spec.DisplayName)}
	synced := meta.FindStatusCondition(cb.Status.Conditions, v1alpha1.ConditionSynced)
	switch {
	case synced == nil:
	case mainReasons[synced.Reason]:
		h.Main = synced.Message
	case synced.Reason == removalsReason:
		h.RemovalsHeld, h.Message = true, synced.Message
	case synced.Reason == lostReason:
		h.AllLost = synced.Message
	}
	return h
}

// fetchTimeout bounds how long one repository may take to be read.
const fetchTimeout = 20 * time.Second

// fetch reads a cluster's repository with the bridge's credential, which anybody
// who may approve on a control plane can read, too.
func (in Input) fetch(ctx context.Context, cb *v1alpha1.ClusterBinding) (status, main *store.Snapshot, err error) {
	if cb.Status.Repository == nil {
		return nil, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cb.Name), Name: v1alpha1.BridgeSecret}
	if err := in.Cluster.Get(ctx, key, &secret); err != nil {
		return nil, nil, fmt.Errorf("read the Secret %s: %w", key, err)
	}
	status, main, err = in.read(ctx, cb.Status.Repository.URL, secret.Data)
	return status, main, withAdvice(err)
}

// withAdvice says what to do where the Git host's certificate is not trusted.
func withAdvice(err error) error {
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return fmt.Errorf("%w: if the authority is one of your own, give its certificate as --ca-file FILE", err)
	}
	return err
}

// read reads a repository with what a Secret has.
func (in Input) read(ctx context.Context, url string, secret map[string][]byte) (status, main *store.Snapshot, err error) {
	roots, err := signin.Pool(in.CABundle)
	if err != nil {
		return nil, nil, err
	}
	repo, err := gitstore.Open(gitstore.Options{
		URL:     url,
		RootCAs: roots,
		Credentials: func(context.Context) (string, string, error) {
			user, password := v1alpha1.GitCredentialFor(url, secret)
			return user, password, nil
		},
		SSH: func(context.Context) ([]byte, []byte, error) {
			privateKey, knownHosts := v1alpha1.SSHCredential(secret)
			return privateKey, knownHosts, nil
		},
	})
	if err != nil {
		return nil, nil, err
	}
	if status, err = repo.Branch("status").Fetch(ctx); err != nil {
		return nil, nil, err
	}
	main, err = repo.Branch("main").Fetch(ctx)
	return status, main, err
}

// answered lists what the bridge has answered as lost, and the removals that it
// holds.
func (h *holder) answered(status, main *store.Snapshot) {
	for e := range status.List(contract.Root) {
		key, err := contract.ParsePath(e.Path)
		if err != nil {
			continue
		}
		data, err := status.Read(e.Path)
		if err != nil {
			continue
		}
		s, err := contract.DecodeStatus(data)
		if err != nil {
			continue
		}
		item := Item{Claim: key.String(), Path: e.Path, Reason: string(s.Reason), Commit: s.Answers.Commit, Message: s.Message}
		_, there := main.Entry(e.Path)
		if there && s.Object != "" {
			h.applied = append(h.applied, e.Path)
		}
		switch {
		case s.Result == contract.Lost:
			h.Lost = append(h.Lost, item)
		case s.Result == contract.Held && s.Reason != "" && !there:
			h.RemovalsHeld = true
			h.Removals = append(h.Removals, item)
		}
	}
}

// withEarlier has an approval name what an earlier one waits for, too: the bridge keeps that in
// the annotation alone. The ClusterBinding becomes the one that was read: where another approval
// comes meanwhile, that is to be named, too.
func (in Input) withEarlier(ctx context.Context, c chosen, now *unstructured.Unstructured) error {
	if len(c.recreate) == 0 {
		return nil
	}
	if err := in.Cluster.Get(ctx, client.ObjectKey{Name: c.Name}, now); err != nil {
		return fmt.Errorf("read ClusterBinding %s: %w", c.Name, err)
	}
	c.annotations[recreateAnnotation] = joined(now.GetAnnotations()[recreateAnnotation], c.recreate)
	return nil
}

// joined is the annotation for paths beside those that it names.
func joined(annotation string, paths []string) string {
	all := slices.Concat(v1alpha1.RecreateEmptyPaths(annotation), paths)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// doneOn reports whether the bridge has acted on all of the approval: it takes the
// annotations away then, and of an earlier approval's paths those that are done.
func (c chosen) doneOn(u *unstructured.Unstructured) bool {
	for annotation := range c.annotations {
		left := u.GetAnnotations()[annotation]
		if annotation == recreateAnnotation {
			if slices.ContainsFunc(v1alpha1.RecreateEmptyPaths(left), c.recreates) {
				return false
			}
		} else if left != "" {
			return false
		}
	}
	return true
}

// recreates reports whether a path that is left is one that was approved.
func (c chosen) recreates(left string) bool {
	return slices.ContainsFunc(c.recreate, func(path string) bool { return includes(path, left) })
}
