package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/test/env"
)

// appKeys are an app cluster's.
type appKeys struct {
	recipient string
	signer    *encryption.Signer
}

func newKeys(t *testing.T) appKeys {
	t.Helper()
	_, recipient, err := encryption.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := encryption.NewSigner(encryption.GenerateSeed())
	if err != nil {
		t.Fatal(err)
	}
	return appKeys{recipient, signer}
}

func (k appKeys) registration() restapi.Registration {
	return restapi.Registration{EncryptionKeys: v1alpha1.EncryptionKeys{Recipients: []string{k.recipient}, SigningKeys: []string{k.signer.Public()}}}
}

// register registers keys as an agent, and gives what came of it.
func (f *fixture) register(t *testing.T, cluster, user, password string, in any) (out restapi.Encryption, status int, words string) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, f.url+"/v1/clusters/"+cluster+"/encryption", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(user, password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var e restapi.Error
		_ = json.NewDecoder(resp.Body).Decode(&e)
		return out, resp.StatusCode, e.Message
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out, resp.StatusCode, ""
}

// testKeys is who may say to whom a cluster's Secrets are encrypted.
func (f *fixture) testKeys(t *testing.T) {
	c := f.connect(t, env.Alice, "keys")
	other := f.connect(t, env.Bob, "keys")
	password := c.Credential.Password
	takes := func(what string, in restapi.Registration, want bool) {
		t.Helper()
		var out restapi.Encryption
		var status int
		var words string
		eventually(t, what+": it may be registered at this rate", func() error {
			if out, status, words = f.register(t, c.ID, "konnector", password, in); status == http.StatusServiceUnavailable {
				return errors.New(words)
			}
			return nil
		})
		if status != http.StatusOK || (out.Refused == "") != want {
			t.Fatalf("%s: %d %s %+v, want it taken: %t", what, status, words, out, want)
		}
		if !want && !strings.Contains(out.Refused, "kubectl gitbind connect") {
			t.Errorf("%s: it says %q", what, out.Refused)
		}
		if got := f.binding(t, c.ID).Spec.Encryption; got == nil || slices.Equal(got.Recipients, in.Recipients) != want {
			t.Fatalf("%s: registered are %+v", what, got)
		}
	}
	first, second, thief := newKeys(t), newKeys(t), newKeys(t)
	for name, who := range map[string][2]string{
		"another cluster's konnector": {"konnector", other.Credential.Password}, "the bridge": {"bridge", f.bridgeSecret(t, c.ID)},
		"the owner": {"alice", f.tokens[env.Alice]}, "nobody": {"konnector", "x"},
	} {
		if _, status, words := f.register(t, c.ID, who[0], who[1], thief.registration()); status < 400 || status >= 500 {
			t.Errorf("%s: %d %s", name, status, words)
		}
	}
	for words, in := range map[string]any{
		"there are 0 and 0":   restapi.Registration{},
		"is no recipient":     restapi.Registration{EncryptionKeys: v1alpha1.EncryptionKeys{Recipients: []string{"age1x"}, SigningKeys: []string{first.signer.Public()}}},
		"Ed25519":             restapi.Registration{EncryptionKeys: v1alpha1.EncryptionKeys{Recipients: []string{first.recipient}, SigningKeys: []string{"x"}}},
		"cannot be read":      "x",
		"there are 5 and 1":   restapi.Registration{EncryptionKeys: v1alpha1.EncryptionKeys{Recipients: slices.Repeat([]string{first.recipient}, 5), SigningKeys: []string{first.signer.Public()}}},
		"cannot be read: une": strings.Repeat("x", 1<<20),
	} {
		if _, status, got := f.register(t, c.ID, "konnector", password, in); status != http.StatusBadRequest || !strings.Contains(got, words) {
			t.Errorf("%q: %d %s", words, status, got)
		}
	}

	takes("the first", first.registration(), true)
	takes("the first again", first.registration(), true)
	takes("a thief's, with the stolen credential", thief.registration(), false)
	signed := func(by, k appKeys, cluster string) restapi.Registration {
		in := k.registration()
		in.Signature = by.signer.Sign(restapi.RegistrationPurpose, in.Message(cluster, *f.binding(t, c.ID).Spec.Encryption))
		return in
	}
	takes("a thief's, signed by the thief", signed(thief, thief, c.ID), false)
	takes("one that is signed for another cluster", signed(first, second, other.ID), false)
	forSecond := signed(first, second, c.ID)
	altered := forSecond
	altered.Recipients = []string{thief.recipient}
	takes("a signed one that was altered", altered, false)
	takes("one that is signed", forSecond, true)
	takes("one from before, again", signed(first, first, c.ID), false)
	takes("another one", signed(second, first, c.ID), true)

	// The owner connects the cluster again, as after it was rebuilt.
	password = f.connect(t, env.Alice, "keys").Credential.Password
	third := newKeys(t)
	takes("one after that", third.registration(), true)
	takes("and no more", thief.registration(), false)
}
