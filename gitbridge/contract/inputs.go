package contract

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// EncryptedInputsKind is the kind of an EncryptedInputs file.
const EncryptedInputsKind = "EncryptedInputs"

// AllInputs stands for all that travels with a claim in Inputs.Refused.
const AllInputs = "*"

// EncryptedInputs are the Secrets and ConfigMaps that a claim refers to, on their way to
// the control plane. They are one file, so that none can be left off or put back by
// itself. All but Encrypted is in clear. The file ends with a line that signs all lines
// before it, as that of an EncryptedSecret does; package encryption writes and checks it.
type EncryptedInputs struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Metadata names the claim.
	Metadata StatusMeta `json:"metadata"`
	// Cluster is the id of the app cluster that it is from.
	Cluster string `json:"cluster"`
	Binding string `json:"binding"`
	// UID is that of the claim in the app cluster, as the control plane knows it.
	UID string `json:"uid,omitempty"`
	// Sequence grows with each version. It is the time of the konnector's clock, in
	// milliseconds, unless that went back.
	Sequence int64 `json:"sequence"`
	// Objects are all that travel, sorted; none where the claim refers to nothing any more.
	Objects []InputObject `json:"objects,omitempty"`
	// Recipients are whom it is encrypted to, sorted: age's public keys.
	Recipients []string `json:"recipients"`
	// Digest tells the konnector, and nobody else, whether anything but the sequence
	// changed.
	Digest string `json:"digest"`
	// Encrypted is a List of manifests as an armored age file.
	Encrypted string `json:"encrypted"`
}

// InputObject names an object, and what its data has.
type InputObject struct {
	Kind string   `json:"kind"`
	Name string   `json:"name"`
	Keys []string `json:"keys,omitempty"`
}

// String is "Secret orders-ca", as people read it.
func (o InputObject) String() string { return o.Kind + " " + o.Name }

// Compare sorts by kind and name, and does not look at keys.
func (o InputObject) Compare(other InputObject) int {
	return cmp.Or(cmp.Compare(o.Kind, other.Kind), cmp.Compare(o.Name, other.Name))
}

// Claim names the claim.
func (e *EncryptedInputs) Claim() Key {
	return Key{Binding: e.Binding, Namespace: e.Metadata.Namespace, Name: e.Metadata.Name}
}

// EncodeEncryptedInputs writes an EncryptedInputs without its last line: what is to be
// signed.
func EncodeEncryptedInputs(e *EncryptedInputs) ([]byte, error) {
	o := object{
		{"apiVersion", APIVersion},
		{"kind", EncryptedInputsKind},
		{"metadata", object{{"name", e.Metadata.Name}, {"namespace", e.Metadata.Namespace}}},
		{"cluster", e.Cluster},
		{"binding", e.Binding},
	}
	o = append(o.with("uid", e.UID), field{"sequence", e.Sequence})
	if len(e.Objects) > 0 {
		all := make([]any, len(e.Objects))
		for i, in := range slices.SortedFunc(slices.Values(e.Objects), InputObject.Compare) {
			fields := object{{"kind", in.Kind}, {"name", in.Name}}
			if len(in.Keys) > 0 {
				fields = append(fields, field{"keys", list(in.Keys)})
			}
			all[i] = fields
		}
		o = append(o, field{"objects", all})
	}
	o = append(o, field{"recipients", list(e.Recipients)}, field{"digest", e.Digest}, field{"encrypted", e.Encrypted})
	b, err := marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode EncryptedInputs: %w", err)
	}
	return b, nil
}

// DecodeEncryptedInputs reads an EncryptedInputs without its last line. Nothing of it is to
// be trusted unless its signature was checked.
func DecodeEncryptedInputs(body []byte) (*EncryptedInputs, error) {
	var e EncryptedInputs
	if err := Unmarshal(body, &e); err != nil {
		return nil, fmt.Errorf("decode EncryptedInputs: %w", err)
	}
	if e.APIVersion != APIVersion || e.Kind != EncryptedInputsKind {
		return nil, fmt.Errorf("decode EncryptedInputs: is a %s %s", e.APIVersion, e.Kind)
	}
	return &e, nil
}

// Inputs says in a ClaimStatus what the control plane has of what a claim refers to.
type Inputs struct {
	// Sequence is that of the version which was taken last, 0 for none.
	Sequence int64 `json:"sequence,omitempty"`
	// Objects are there for the claim, as "Secret orders-ca", sorted.
	Objects []string `json:"objects,omitempty"`
	// Refused says why an object is not, by the same, or AllInputs why no version was taken.
	Refused map[string]string `json:"refused,omitempty"`
}

func (i *Inputs) object() object {
	var o object
	if i.Sequence > 0 {
		o = append(o, field{"sequence", i.Sequence})
	}
	if len(i.Objects) > 0 {
		o = append(o, field{"objects", list(i.Objects)})
	}
	if len(i.Refused) > 0 {
		o = append(o, field{"refused", maps.Clone(i.Refused)})
	}
	return o
}
