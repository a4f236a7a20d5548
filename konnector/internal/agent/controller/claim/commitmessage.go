package claim

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
)

// edit is a change as a commit of those who made it.
func (l *look) edit(c change) store.Edit {
	cluster := l.api.Repository.ClusterID
	authors := Authors(c.users, cluster)
	trailers := []store.Trailer{{Key: contract.TrailerCluster, Value: cluster}}
	if !c.kept {
		trailers = append(trailers, store.Trailer{Key: contract.TrailerObject, Value: trailerOf(l, c).String()})
	}
	if f := l.facts; f.Review && f.Emergency != "" && l.decision.Action != decision.Propose {
		trailers = append(trailers, store.Trailer{Key: contract.TrailerEmergency, Value: f.Emergency})
	}
	if c.approved {
		trailers = append(trailers, store.Trailer{Key: contract.TrailerApproved, Value: l.key.Path()})
	}
	return store.Edit{
		Author: authors[0], CoAuthors: authors[1:],
		Subject: fmt.Sprintf("claim: %s %s", c.verb, l.key), Trailers: trailers, Apply: c.apply,
	}
}

// trailerOf tells which version of the object a change was made from, and what it makes of the file.
func trailerOf(l *look, c change) contract.ObjectTrailer {
	return contract.ObjectTrailer{
		Key: l.key, UID: string(l.object.GetUID()), Generation: l.object.GetGeneration(), Version: l.object.GetResourceVersion(),
		Blob: c.blob, Merged: c.merged != "", Live: c.merged,
	}
}

// Authors are users as they sign a commit, at least one.
func Authors(users []string, cluster string) []store.Signature {
	if len(users) == 0 {
		users = []string{""} // who is not known
	}
	authors := make([]store.Signature, 0, len(users))
	for _, user := range users {
		authors = append(authors, identity(user, cluster))
	}
	return authors
}

func identity(user, cluster string) store.Signature {
	name, email := contract.Identity(user, cluster)
	return store.Signature{Name: name, Email: email}
}

// ChangedBy are the users who changed an object since its last commit, as the
// attribution policies wrote them down.
func ChangedBy(u metav1.Object) []string {
	var users []string
	for user := range strings.SplitSeq(u.GetAnnotations()[v1alpha1.ChangedByAnnotation], "\n") {
		if user = strings.TrimSpace(user); user != "" && !slices.Contains(users, user) {
			users = append(users, user)
		}
	}
	return users
}
