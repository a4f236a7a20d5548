package onboarding

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/backend/internal/requests"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// People completes the names of users and groups.
type People interface {
	// Name is a name as RBAC has it; the error is a refusal.
	Name(of login.Identity, group bool, name string) (string, error)
}

// maxShares is how often one cluster can be shared.
const maxShares = 500

func (s *Service) mountShares(mux *http.ServeMux) {
	const path = "/v1/clusters/{id}/shares"
	mux.Handle("GET "+path, s.Requests.Handle(requests.Timeout, func(_ http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		return s.Shares(r.Context(), who, r.PathValue("id"))
	}))
	mux.Handle("POST "+path, s.Requests.Handle(requests.Timeout, func(w http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		share, err := parseShare(w, r)
		if err != nil {
			return nil, err
		}
		return s.Share(r.Context(), who, r.PathValue("id"), share)
	}))
	mux.Handle("DELETE "+path+"/{share}", s.Requests.Handle(requests.Timeout, func(_ http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		return struct{}{}, s.Unshare(r.Context(), who, r.PathValue("id"), r.PathValue("share"))
	}))
}

func parseShare(w http.ResponseWriter, r *http.Request) (restapi.Share, error) {
	var share restapi.Share
	err := requests.Decode(w, r, &share)
	return share, err
}

func checkShare(share restapi.Share) error {
	switch {
	case !slices.Contains(restapi.RepositoryRoles(), share.Role):
		return refusal.New(refusal.Invalid, "role: it is one of %v", restapi.RepositoryRoles())
	case (share.User == "") == (share.Group == ""):
		return refusal.New(refusal.Invalid, "user, group: name one of them")
	case share.Binding != "" && len(validation.IsDNS1123Subdomain(share.Binding)) > 0:
		return refusal.New(refusal.Invalid, "binding: %.80q is no name of a binding", share.Binding)
	case share.Namespace != "" && len(validation.IsDNS1123Label(share.Namespace)) > 0:
		return refusal.New(refusal.Invalid, "namespace: %.80q is no name of a namespace", share.Namespace)
	case share.Role == restapi.RepositoryView && (share.Binding != "" || share.Namespace != ""):
		return refusal.New(refusal.Invalid, "view: a repository is read as a whole: leave out binding and namespace")
	}
	return nil
}

// Share lets somebody at a cluster's repository: by a Role and a RoleBinding in the
// cluster's tenant namespace, whose name follows from what they give.
func (s *Service) Share(ctx context.Context, who login.Identity, cluster string, share restapi.Share) (*restapi.Share, error) {
	cb, err := s.ownPresent(ctx, who, cluster)
	if err != nil {
		return nil, err
	}
	if s.Accounts != nil {
		return nil, refusal.New(refusal.Conflict, "who may see and change this repository is said where it is: %s", s.Accounts.Page(cluster))
	}
	share.ID, share.Offer = "", ""
	if err := checkShare(share); err != nil {
		return nil, err
	}
	if err := s.complete(ctx, cb, who, &share); err != nil {
		return nil, err
	}
	present, err := s.shareBindings(ctx, s.Live, client.InNamespace(cb.Status.TenantNamespace))
	if err != nil {
		return nil, err
	}
	if len(present) >= maxShares {
		return nil, refusal.New(refusal.Forbidden, "cluster %s is shared %d times, which is the most: share it with a group", cb.Name, maxShares)
	}
	role, binding, err := shareObjects(cb, &share)
	if err != nil {
		return nil, err
	}
	for _, o := range []client.Object{role, binding} {
		if err := s.Client.Create(ctx, o, fieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, trouble(fmt.Errorf("create %s: %w", o.GetName(), err))
		}
	}
	s.Log.InfoContext(ctx, "Shared", "cluster", cb.Name, "by", who.Username, "role", share.Role, "user", share.User, "group", share.Group, "binding", share.Binding, "namespace", share.Namespace)
	return &share, nil
}

// complete puts the names in full into a request.
func (s *Service) complete(ctx context.Context, cb *v1alpha1.ClusterBinding, who login.Identity, share *restapi.Share) error {
	name, err := s.People.Name(who, share.Group != "", share.User+share.Group)
	if err != nil {
		return err
	}
	if share.Group != "" {
		share.Group = name
	} else {
		share.User = name
	}
	if share.Binding == "" {
		return nil
	}
	offers, err := s.offers(ctx, cb)
	if err != nil {
		return err
	}
	var found, all []string
	for binding, offer := range offers {
		all = append(all, binding)
		if restapi.MeansBinding(share.Binding, binding, offer) {
			found = append(found, binding)
		}
	}
	slices.Sort(found)
	slices.Sort(all)
	switch {
	case slices.Contains(found, share.Binding):
	case len(found) == 1:
		share.Binding = found[0]
	case len(found) > 1:
		return refusal.New(refusal.Conflict, "several bindings of cluster %s are called %s: give the whole name, %s", cb.Name, share.Binding, strings.Join(found, " or "))
	case len(all) == 0:
		return refusal.New(refusal.NotFound, "cluster %s has no binding %s, and no other", cb.Name, share.Binding)
	default:
		return refusal.New(refusal.NotFound, "cluster %s has no binding %s; it has %s", cb.Name, share.Binding, strings.Join(all, ", "))
	}
	share.Offer = offers[share.Binding]
	return nil
}

// offers are those that a cluster's APIs are of, by binding.
func (s *Service) offers(ctx context.Context, cb *v1alpha1.ClusterBinding) (map[string]string, error) {
	exports, err := s.Exports(ctx, cb)
	offers := map[string]string{}
	for _, e := range exports {
		offers[e.Name] = e.Spec.Template
	}
	return offers, err
}

// shareRules are a share's rights. Anybody who may do more may do less, and read all.
func shareRules(share restapi.Share) []rbacv1.PolicyRule {
	rule := func(names []string, roles ...restapi.RepositoryRole) rbacv1.PolicyRule {
		r := rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{access.Exports}, ResourceNames: names}
		for _, role := range roles {
			r.Verbs = append(r.Verbs, string(role))
		}
		return r
	}
	roles := restapi.RepositoryRoles()
	roles = roles[:slices.Index(roles, share.Role)+1]
	part := access.Part{Binding: share.Binding, Namespace: share.Namespace}
	if part == (access.Part{}) {
		return []rbacv1.PolicyRule{rule(nil, roles...)}
	}
	return []rbacv1.PolicyRule{rule(nil, restapi.RepositoryView), rule([]string{part.Name()}, roles[1:]...)}
}

// shareObjects are those that stand for a share, to which it adds the id.
func shareObjects(cb *v1alpha1.ClusterBinding, share *restapi.Share) (*rbacv1.Role, *rbacv1.RoleBinding, error) {
	given := *share
	given.Offer = "" // it is the binding's, and may be another one later
	text, err := json.Marshal(given)
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(text)
	share.ID = strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:shareIDLength]
	meta := metav1.ObjectMeta{
		Namespace: cb.Status.TenantNamespace, Name: shareName(share.ID),
		Labels:          map[string]string{v1alpha1.LabelCluster: cb.Name, v1alpha1.LabelShare: share.ID},
		Annotations:     map[string]string{v1alpha1.ShareAnnotation: string(text)},
		OwnerReferences: v1alpha1.ClusterOwners(cb.Name, cb.UID, nil),
	}
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: share.User}
	if share.Group != "" {
		subject.Kind, subject.Name = rbacv1.GroupKind, share.Group
	}
	return &rbacv1.Role{ObjectMeta: meta, Rules: shareRules(*share)}, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{subject},
	}, nil
}

const shareIDLength = 12

var shareID = regexp.MustCompile(fmt.Sprintf(`^[a-z2-7]{%d}$`, shareIDLength))

func shareName(id string) string { return "gitbind:share:" + id }

// Unshare takes a share back. It counts from then on: rights are asked about at each
// request.
func (s *Service) Unshare(ctx context.Context, who login.Identity, cluster, id string) error {
	cb, err := access.OwnCluster(ctx, s.Client, s.Live, who, cluster)
	if err != nil {
		return err
	}
	gone := refusal.New(refusal.NotFound, "cluster %s has no share %.40q", cb.Name, id)
	if !shareID.MatchString(id) || cb.Status.TenantNamespace == "" {
		return gone
	}
	meta := metav1.ObjectMeta{Namespace: cb.Status.TenantNamespace, Name: shareName(id)}
	// The binding first: without it, the Role means nothing.
	err = s.Client.Delete(ctx, &rbacv1.RoleBinding{ObjectMeta: meta})
	if apierrors.IsNotFound(err) {
		return gone
	}
	if err == nil {
		err = client.IgnoreNotFound(s.Client.Delete(ctx, &rbacv1.Role{ObjectMeta: meta}))
	}
	if err != nil {
		return trouble(fmt.Errorf("delete %s: %w", meta.Name, err))
	}
	s.Log.InfoContext(ctx, "Share taken back", "cluster", cb.Name, "by", who.Username, "share", id)
	return nil
}

// Shares are those of one cluster of a person.
func (s *Service) Shares(ctx context.Context, who login.Identity, cluster string) ([]restapi.Share, error) {
	cb, err := s.ownPresent(ctx, who, cluster)
	if err != nil {
		return nil, err
	}
	bindings, err := s.shareBindings(ctx, s.Live, client.InNamespace(cb.Status.TenantNamespace))
	if err != nil {
		return nil, err
	}
	offers, err := s.offers(ctx, cb)
	if err != nil {
		return nil, err
	}
	all := []restapi.Share{}
	for _, b := range bindings {
		share := restapi.Share{}
		if err := json.Unmarshal([]byte(b.Annotations[v1alpha1.ShareAnnotation]), &share); err != nil {
			return nil, fmt.Errorf("RoleBinding %s: annotation %s: %w", b.Name, v1alpha1.ShareAnnotation, err)
		}
		share.ID, share.Offer = b.Labels[v1alpha1.LabelShare], offers[share.Binding]
		all = append(all, share)
	}
	slices.SortFunc(all, func(a, b restapi.Share) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.User, b.User), cmp.Compare(a.Binding, b.Binding), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Role, b.Role))
	})
	return all, nil
}

func (s *Service) shareBindings(ctx context.Context, c client.Reader, options ...client.ListOption) ([]rbacv1.RoleBinding, error) {
	var list rbacv1.RoleBindingList
	if err := c.List(ctx, &list, append(options, client.HasLabels{v1alpha1.LabelShare})...); err != nil {
		return nil, trouble(fmt.Errorf("list RoleBindings: %w", err))
	}
	return list.Items, nil
}

// ownPresent is a cluster of this person's that is set up.
func (s *Service) ownPresent(ctx context.Context, who login.Identity, id string) (*v1alpha1.ClusterBinding, error) {
	cb, err := access.OwnCluster(ctx, s.Client, s.Live, who, id)
	if err != nil {
		return nil, err
	}
	if cb.DeletionTimestamp != nil || cb.Status.TenantNamespace == "" {
		return nil, refusal.New(refusal.Conflict, "cluster %s is not set up (or no longer): connect it again", cb.Name)
	}
	return cb, nil
}

// sharedWith are the clusters of others that are shared with a person, of all those that
// there are. A cluster on which somebody has rights by other means than a share is not
// among them.
func (s *Service) sharedWith(ctx context.Context, who login.Identity, all []v1alpha1.ClusterBinding) ([]v1alpha1.ClusterBinding, error) {
	bindings, err := s.shareBindings(ctx, s.Client)
	if err != nil {
		return nil, err
	}
	meant := func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.UserKind && s.Name == who.Username || s.Kind == rbacv1.GroupKind && slices.Contains(who.Groups, s.Name)
	}
	candidates := map[string]bool{}
	for _, b := range bindings {
		if slices.ContainsFunc(b.Subjects, meant) {
			candidates[b.Labels[v1alpha1.LabelCluster]] = true
		}
	}
	var shared []v1alpha1.ClusterBinding
	for _, cb := range all {
		if !candidates[cb.Name] || access.Owns(who, &cb) {
			continue
		}
		ok, err := s.mayView(ctx, who, cb.Name)
		if err != nil {
			return nil, err
		}
		if ok {
			shared = append(shared, cb)
		}
	}
	return shared, nil
}

func (s *Service) mayView(ctx context.Context, who login.Identity, cluster string) (bool, error) {
	ok, err := access.Review(ctx, s.Client, who, authorizationv1.ResourceAttributes{
		Namespace: v1alpha1.TenantNamespace(cluster), Resource: access.Exports, Verb: string(restapi.RepositoryView),
	})
	return ok, trouble(err)
}
