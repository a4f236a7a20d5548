package contract

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	secretsDir = "secrets"
	// EncryptedSecretKind is the kind of an EncryptedSecret's file.
	EncryptedSecretKind = "EncryptedSecret"
)

// AllSecrets stands for all Secrets of a claim in Status.Withheld.
const AllSecrets = "*"

// ErrNotSecretPath says that a path is not that of an EncryptedSecret.
var ErrNotSecretPath = errors.New("not the path of an encrypted Secret: want bindings/<plural>.<group>/secrets/<namespace>/<name>.yaml")

// SecretKey names one Secret that travels with claims of a binding.
type SecretKey struct {
	// Binding is the bound API, "<plural>.<group>".
	Binding   string
	Namespace string
	Name      string
}

// Path is where the EncryptedSecret lies on status.
func (k SecretKey) Path() string {
	return BindingPath(k.Binding) + "/" + secretsDir + "/" + k.Namespace + "/" + k.Name + suffix
}

// ParseSecretPath is the inverse of SecretKey.Path.
func ParseSecretPath(path string) (SecretKey, error) {
	parts := strings.Split(path, "/")
	if len(parts) != 5 || parts[0] != root || parts[2] != secretsDir {
		return SecretKey{}, ErrNotSecretPath
	}
	name, ok := strings.CutSuffix(parts[4], suffix)
	k := SecretKey{Binding: parts[1], Namespace: parts[3], Name: name}
	if !ok || ValidateBinding(k.Binding) != nil || len(validation.IsDNS1123Label(k.Namespace)) > 0 || !isName(k.Name) {
		return SecretKey{}, ErrNotSecretPath
	}
	return k, nil
}

// EncryptedSecret is a Secret of a claim on its way to the app cluster. All but
// Encrypted is in clear. Its file ends with a line that signs all lines before it;
// package encryption writes and checks that.
type EncryptedSecret struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   StatusMeta `json:"metadata"`
	// Cluster is the id of the app cluster that it is for.
	Cluster string      `json:"cluster"`
	Claim   SecretClaim `json:"claim"`
	// Sequence grows with each version of the Secret. It is the time of the
	// bridge's clock, in milliseconds, unless that went back.
	Sequence int64 `json:"sequence"`
	// Keys are those of the Secret's data, sorted.
	Keys []string `json:"keys,omitempty"`
	// Recipients are whom it is encrypted to, sorted: age's public keys.
	Recipients []string `json:"recipients"`
	// Digest tells the bridge, and nobody else, whether anything but the sequence
	// changed.
	Digest string `json:"digest"`
	// Encrypted is a Secret's manifest as an armored age file.
	Encrypted string `json:"encrypted"`
}

// SecretClaim names the claim that a Secret belongs to. Its namespace is the
// Secret's.
type SecretClaim struct {
	Binding string `json:"binding"`
	Name    string `json:"name"`
	// UID is that of the claim in the app cluster, as ClaimStatus has it; empty as
	// long as the bridge does not know it.
	UID string `json:"uid,omitempty"`
}

// SecretKey names the Secret.
func (s *EncryptedSecret) SecretKey() SecretKey {
	return SecretKey{Binding: s.Claim.Binding, Namespace: s.Metadata.Namespace, Name: s.Metadata.Name}
}

// SecretListKind is what the signature of a SecretList is for.
const SecretListKind = "SecretList"

// SecretList says which Secrets travel with a claim. The bridge signs it, together with
// which cluster and which claim it is of; package encryption writes and checks that.
type SecretList struct {
	// UID is that of the claim in the app cluster; empty as long as the bridge does not
	// know it.
	UID string `json:"uid,omitempty"`
	// Sequence grows with each list of a claim. It is of the same clock as an
	// EncryptedSecret's.
	Sequence int64 `json:"sequence"`
	// Versions are the sequences of the Secrets that travel, by name. Each is a file
	// of the branch status; see SecretKey.
	Versions map[string]int64 `json:"versions,omitempty"`
	// Signature is letters, digits and "+/=.:".
	Signature string `json:"signature"`
}

// Names are those of the Secrets, sorted; none of a list that is nil.
func (l *SecretList) Names() []string {
	if l == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(l.Versions))
}

// Same reports whether both say the same; either may be nil.
func (l *SecretList) Same(other *SecretList) bool {
	if l == nil || other == nil {
		return l == other
	}
	return l.Signature == other.Signature && l.UID == other.UID && l.Sequence == other.Sequence && maps.Equal(l.Versions, other.Versions)
}

func (l *SecretList) object() object {
	o := append(object{}.with("uid", l.UID), field{"sequence", l.Sequence})
	if len(l.Versions) > 0 {
		versions := make(map[string]any, len(l.Versions))
		for name, sequence := range l.Versions {
			versions[name] = sequence
		}
		o = append(o, field{"versions", versions})
	}
	return append(o, field{"signature", l.Signature})
}

// signature begins the last line of an EncryptedSecret's file.
const signature = "signature: "

// EncodeEncryptedSecret writes an EncryptedSecret without its last line: what is to be
// signed.
func EncodeEncryptedSecret(s *EncryptedSecret) ([]byte, error) {
	o := object{
		{"apiVersion", APIVersion},
		{"kind", EncryptedSecretKind},
		{"metadata", object{{"name", s.Metadata.Name}, {"namespace", s.Metadata.Namespace}}},
		{"cluster", s.Cluster},
		{"claim", object{{"binding", s.Claim.Binding}, {"name", s.Claim.Name}}.with("uid", s.Claim.UID)},
		{"sequence", s.Sequence},
	}
	if len(s.Keys) > 0 {
		o = append(o, field{"keys", list(s.Keys)})
	}
	o = append(o, field{"recipients", list(s.Recipients)}, field{"digest", s.Digest}, field{"encrypted", s.Encrypted})
	b, err := marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode EncryptedSecret: %w", err)
	}
	return b, nil
}

func list(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range slices.Sorted(slices.Values(texts)) {
		out[i] = t
	}
	return out
}

// AppendSignature ends an EncryptedSecret's file with its last line. The signature is
// letters, digits and "+/=.:".
func AppendSignature(body []byte, s string) []byte {
	return append(slices.Clip(body), signature+s+"\n"...)
}

// CutSignature splits an EncryptedSecret's file into what is signed and the
// signature. It is false where there is none.
func CutSignature(file []byte) (body []byte, s string, ok bool) {
	lines, ok := bytes.CutSuffix(file, []byte("\n"))
	if !ok {
		return nil, "", false
	}
	at := bytes.LastIndexByte(lines, '\n') + 1
	s, ok = strings.CutPrefix(string(lines[at:]), signature)
	return file[:at], s, ok && at > 0
}

// DecodeEncryptedSecret reads an EncryptedSecret without its last line. Nothing of it
// is to be trusted unless its signature was checked.
func DecodeEncryptedSecret(body []byte) (*EncryptedSecret, error) {
	var s EncryptedSecret
	if err := Unmarshal(body, &s); err != nil {
		return nil, fmt.Errorf("decode EncryptedSecret: %w", err)
	}
	if s.APIVersion != APIVersion || s.Kind != EncryptedSecretKind {
		return nil, fmt.Errorf("decode EncryptedSecret: is a %s %s", s.APIVersion, s.Kind)
	}
	return &s, nil
}
