package ui

import (
	"context"
	"slices"
	"strings"
	"time"

	"gitbind.dev/gitbridge/contract"
)

// maxSecrets bounds how many Secrets of a claim, and in all, a page names.
const maxSecrets = 10

// secretRow is a Secret that the control plane sends to the app cluster. Only the
// cluster can read its values: the page has none.
type secretRow struct {
	Name string
	// Since is when the control plane made it as it is, in words.
	Since, Keys string
	// Of is the claim that it comes with, nil for the page's own.
	Of *relatedRow
}

// secrets are those of a claim and of what belongs to it: nothing that cannot be read.
func (h *handler) secrets(ctx context.Context, cluster string, k contract.Key, v *claimView) []secretRow {
	var out []secretRow
	add := func(of *relatedRow, key contract.Key, names []string) {
		for _, name := range names[:min(len(names), maxSecrets-len(out))] {
			row := secretRow{Name: visible(name), Of: of}
			if s := h.encryptedSecret(ctx, cluster, contract.SecretKey{Binding: key.Binding, Namespace: key.Namespace, Name: name}); s != nil {
				row.Since, row.Keys = h.since(time.UnixMilli(s.Sequence)), short(strings.Join(s.Keys, ", "), longest)
			}
			out = append(out, row)
		}
	}
	add(nil, k, v.secrets)
	this := slices.IndexFunc(v.Related, func(r relatedRow) bool { return r.This })
	for i := this + 1; this >= 0 && i < len(v.Related) && v.Related[i].Depth > v.Related[this].Depth; i++ {
		add(&v.Related[i], v.Related[i].key, v.Related[i].secrets)
	}
	return out
}

// encryptedSecret is what a Secret's file says in clear, nil when that cannot be read.
func (h *handler) encryptedSecret(ctx context.Context, cluster string, k contract.SecretKey) *contract.EncryptedSecret {
	if _, err := contract.ParseSecretPath(k.Path()); err != nil {
		return nil
	}
	data, _, err := h.Git.Read(ctx, cluster, "status", k.Path())
	if err != nil {
		return nil
	}
	body, _, ok := contract.CutSignature(data)
	if !ok {
		return nil
	}
	s, err := contract.DecodeEncryptedSecret(body)
	if err != nil {
		return nil
	}
	return s
}

// withheld says which Secrets are not sent, and why.
func withheld(s *contract.Status) []Note {
	var out []Note
	for name, why := range s.Withheld {
		out = append(out, Note{Tone: Warn, Title: short(name, longest) + " is not sent", Text: short(why, longest)})
	}
	slices.SortFunc(out, func(a, b Note) int { return strings.Compare(a.Title, b.Title) })
	return out[:min(len(out), maxSecrets)]
}
