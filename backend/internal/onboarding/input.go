package onboarding

import (
	"net/http"
	"regexp"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/backend/internal/requests"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// connectInput is a connect that can be carried out.
type connectInput struct {
	displayName string
	clusterUID  string
	// connectedAs is the id that the cluster has already; "" for none.
	connectedAs string
	// reclaim is the id or name of the cluster whose place this one takes; ""
	// for none.
	reclaim string
	force   bool
}

// uid is what the UID of a namespace may look like: more than Kubernetes makes.
var uid = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

func parseConnect(w http.ResponseWriter, r *http.Request) (connectInput, error) {
	var body restapi.ConnectRequest
	if err := requests.Decode(w, r, &body); err != nil {
		return connectInput{}, err
	}
	if n := utf8.RuneCountInString(body.Name); n == 0 || n > 63 || !printable(body.Name) {
		return connectInput{}, refusal.New(refusal.Invalid, "name: give the cluster a name of 1 to 63 printable characters")
	}
	if !uid.MatchString(body.ClusterUID) {
		return connectInput{}, refusal.New(refusal.Invalid, "clusterUID: give the UID of the cluster's namespace kube-system")
	}
	if body.ConnectedAs != "" && !v1alpha1.ValidClusterID(body.ConnectedAs) {
		return connectInput{}, refusal.New(refusal.Invalid, "connectedAs: give the id of the cluster's Connection")
	}
	if body.Force && body.Reclaim == "" {
		return connectInput{}, refusal.New(refusal.Invalid, "force: it is for reclaim")
	}
	return connectInput{displayName: body.Name, clusterUID: body.ClusterUID, connectedAs: body.ConnectedAs, reclaim: body.Reclaim, force: body.Force}, nil
}

func printable(s string) bool {
	for _, c := range s {
		if !unicode.IsPrint(c) || c == utf8.RuneError {
			return false
		}
	}
	return true
}

// bindInput is a bind that can be carried out. The cluster is not yet known to
// be the caller's.
type bindInput struct {
	cluster  string
	template string
}

func parseBind(w http.ResponseWriter, r *http.Request) (bindInput, error) {
	var body restapi.BindRequest
	if err := requests.Decode(w, r, &body); err != nil {
		return bindInput{}, err
	}
	if len(validation.IsDNS1123Subdomain(body.Offer)) > 0 {
		return bindInput{}, refusal.New(refusal.Invalid, "offer: give the name of an offer in the catalogue")
	}
	return bindInput{cluster: r.PathValue("id"), template: body.Offer}, nil
}
