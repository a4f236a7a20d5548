package contract

import (
	"fmt"
	"strconv"
	"strings"
)

// Keys of commit trailers.
const (
	// TrailerObject names a changed object: see ObjectTrailer.
	TrailerObject = "Gitbind-Object"
	// TrailerCluster names the app cluster.
	TrailerCluster = "Gitbind-Cluster"
	// TrailerApproved says, in a commit that removes a claim's file, that a
	// person has approved the removal in the app cluster: its value is the path.
	// It counts only in a commit of the konnector, whose identity hosts refuse
	// from anybody else.
	TrailerApproved = "Gitbind-Approved"
	// TrailerEmergency says why a commit went to main without the review that is asked
	// for: its value is what the person wrote, on one line.
	TrailerEmergency = "Gitbind-Emergency"
)

// ObjectTrailer ties a change of a file to the object that it came from.
type ObjectTrailer struct {
	Key Key
	// UID and Generation of the object in the app cluster.
	UID        string
	Generation int64
	// Version is the object's resourceVersion, "" if it is not known.
	Version string
	// Blob is the Git hash of the file that the change made; "" for none. It
	// tells the one who made it, after a crash, that the file is still theirs.
	Blob string
	// Merged says that Blob holds others' changes, too: the object's own version
	// would be the blob Live.
	Merged bool
	Live   string
}

// ParseApproved takes from a commit message the paths of the claims whose removal
// was approved. Lines that name none are passed over.
func ParseApproved(message string) []string {
	var out []string
	for line := range strings.SplitSeq(message, "\n") {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), TrailerApproved+": ")
		if !ok {
			continue
		}
		if _, err := ParsePath(path); err == nil {
			out = append(out, path)
		}
	}
	return out
}

// String is the trailer's value.
func (t ObjectTrailer) String() string {
	s := fmt.Sprintf("%s/%s/%s uid=%s generation=%d", t.Key.Binding, t.Key.Namespace, t.Key.Name, t.UID, t.Generation)
	if t.Version != "" {
		s += " version=" + t.Version
	}
	switch {
	case t.Merged:
		s += " merged=" + t.Blob + " live=" + t.Live
	case t.Blob != "":
		s += " blob=" + t.Blob
	}
	return s
}

// ParseObjectTrailers takes the object trailers from a commit message. Lines
// that are none are passed over: people write messages too. So is what a trailer says
// more than is known here: a newer konnector may have written it.
func ParseObjectTrailers(message string) []ObjectTrailer {
	var out []ObjectTrailer
	for line := range strings.SplitSeq(message, "\n") {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), TrailerObject+": ")
		if !ok {
			continue
		}
		if t, ok := parseObjectTrailer(value); ok {
			out = append(out, t)
		}
	}
	return out
}

// maxTrailerField is how long each thing may be, in bytes, that a trailer says of an object: they
// are kept in memory, and answers repeat the UID.
const maxTrailerField = 128

func parseObjectTrailer(value string) (ObjectTrailer, bool) {
	fields := strings.Fields(value)
	if len(fields) < 3 {
		return ObjectTrailer{}, false
	}
	key := strings.Split(fields[0], "/")
	uid, okUID := strings.CutPrefix(fields[1], "uid=")
	gen, okGen := strings.CutPrefix(fields[2], "generation=")
	generation, err := strconv.ParseInt(gen, 10, 64)
	if len(key) != 3 || !okUID || len(uid) > maxTrailerField || !okGen || err != nil {
		return ObjectTrailer{}, false
	}
	more := map[string]string{}
	for _, field := range fields[3:] {
		name, value, ok := strings.Cut(field, "=")
		if _, twice := more[name]; twice || !ok {
			return ObjectTrailer{}, false
		}
		more[name] = value
	}
	blob, hasBlob := more["blob"]
	merged, isMerged := more["merged"]
	live, hasLive := more["live"]
	t := ObjectTrailer{
		Key: Key{Binding: key[0], Namespace: key[1], Name: key[2]}, UID: uid, Generation: generation,
		Version: more["version"], Blob: blob + merged, Merged: isMerged, Live: live,
	}
	if isMerged != hasLive || isMerged && hasBlob || max(len(t.Version), len(t.Blob), len(t.Live)) > maxTrailerField {
		return ObjectTrailer{}, false
	}
	return t, t.Key.Validate() == nil
}
