package onboarding

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// maxCandidates is how many ids are tried for one cluster.
const maxCandidates = 8

// clusterID is the n-th candidate for the id of a cluster.
//
// It follows from who connects which cluster, so that two connects at the same
// time ask the API server for the same name and make one ClusterBinding
// between them, and so that a cluster keeps its id, and with it its repository,
// when the control plane is rebuilt, unless it was handed over. It is a plain hash: an id is no secret,
// and knowing one opens nothing. Somebody who searches for an owner and a UID
// that give another's id (about 2^79 tries) would gain nothing while that cluster
// is there, as the owner is compared, but its repository once it is deleted, on a Git
// host that does not keep whose that is (githost.Owned).
func clusterID(issuer, subject, clusterUID string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "gitbind cluster %q %q %q %d", issuer, subject, clusterUID, n))
	const letters = "abcdefghijklmnopqrstuvwxyz"
	rest := strings.ToLower(base32.StdEncoding.EncodeToString(sum[1:]))
	return string(letters[int(sum[0])%len(letters)]) + rest[:15]
}
