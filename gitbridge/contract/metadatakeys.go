package contract

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Keys are labels and annotations that travel with the claims of one API, beside those
// that always do: keys without a prefix, and those of app.kubernetes.io/. An element
// is "<prefix>/" for all keys of a prefix, or "<prefix>/<name>" for one.
type Keys []string

// Travels reports whether a label or annotation is a part of the claim. What others
// keep on an object steers machines that are not the claim's (a sidecar, a role, an
// exception of a policy), so it stays where it was written.
func (k Keys) Travels(key string) bool {
	prefix, _, prefixed := strings.Cut(key, "/")
	switch {
	case !MayTravel(key):
		return false
	case !prefixed, prefix == appPrefix:
		return true
	}
	return slices.Contains(k, key) || slices.Contains(k, prefix+"/")
}

const appPrefix = "app.kubernetes.io"

// MayTravel reports whether a label or annotation is one of people's, which a list may
// let travel. What tools and servers keep for themselves is in no claim: kubectl's and
// other last-applied records, trackers of GitOps tools, whatever steers Crossplane, and
// our own.
func MayTravel(key string) bool {
	prefix, name, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	if prefix == appPrefix {
		return name != "instance" && name != "managed-by"
	}
	for _, domain := range machineDomains {
		if prefix == domain || strings.HasSuffix(prefix, "."+domain) {
			return false
		}
	}
	return true
}

var machineDomains = []string{
	"gitbind.dev", "kubernetes.io", "k8s.io", "crossplane.io", "helm.sh",
	"argoproj.io", "fluxcd.io", "cattle.io", "tilt.dev", "skaffold.dev", "velero.io",
}

// maxKeys is what a template may list; its CRD says the same.
const maxKeys = 64

var listedKey = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`)

// Validate refuses a list that a template cannot have.
func (k Keys) Validate() error {
	if len(k) > maxKeys {
		return fmt.Errorf("it lists %d keys, the most is %d", len(k), maxKeys)
	}
	for _, key := range k {
		if !listedKey.MatchString(key) || len(key) > 253+1+63 {
			return fmt.Errorf("%q is no key with a prefix, and no prefix with a slash", key)
		}
		if !MayTravel(key) {
			return fmt.Errorf("%q belongs to a tool or a server and never travels", key)
		}
	}
	return nil
}

// Of is a claim without what does not travel. It shares the rest.
func (k Keys) Of(c *Claim) *Claim {
	out := *c
	out.Labels, out.Annotations = filter(c.Labels, k.Travels), filter(c.Annotations, k.Travels)
	return &out
}

// Stray names, sorted, the labels and annotations of a claim that do not travel.
func (k Keys) Stray(c *Claim) []string {
	var out []string
	for field, m := range map[string]map[string]string{"metadata.labels": c.Labels, "metadata.annotations": c.Annotations} {
		for key := range m {
			if !k.Travels(key) {
				out = append(out, field+"["+key+"]")
			}
		}
	}
	slices.Sort(out)
	return out
}

// With is a version of a claim as its file: what the file has of labels and annotations
// that do not travel stays there, where its author wrote it.
func (k Keys) With(version, file *Claim) *Claim {
	out := *version
	out.Labels, out.Annotations = k.overlay(file.Labels, version.Labels), k.overlay(file.Annotations, version.Annotations)
	return &out
}

// overlay replaces in m the keys that travel by those of want.
func (k Keys) overlay(m, want map[string]string) map[string]string {
	out := filter(m, func(key string) bool { return !k.Travels(key) })
	if out == nil && len(want) > 0 {
		out = map[string]string{}
	}
	maps.Copy(out, want)
	return out
}

// filter gives the keys that are wanted; nil for none.
func filter(m map[string]string, wanted func(key string) bool) map[string]string {
	var out map[string]string
	for key, value := range m {
		if wanted(key) {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}
