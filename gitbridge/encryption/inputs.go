package encryption

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/contract"
)

// Input is a Secret or ConfigMap that travels to the control plane.
type Input struct {
	// Kind is "Secret" or "ConfigMap".
	Kind string
	Name string
	// Type is a Secret's.
	Type   corev1.SecretType
	Labels map[string]string
	Data   map[string][]byte
	// Text is a ConfigMap's data, whose binaryData are in Data.
	Text map[string]string
}

// Object names it.
func (i Input) Object() contract.InputObject {
	keys := append(slices.Collect(maps.Keys(i.Data)), slices.Collect(maps.Keys(i.Text))...)
	return contract.InputObject{Kind: i.Kind, Name: i.Name, Keys: slices.Sorted(slices.Values(keys))}
}

// Sender seals what a konnector sends.
type Sender struct {
	// Cluster is the app cluster's id.
	Cluster string
	Signer  *Signer
	// Recipients are the bridge's.
	Recipients []string
}

// Equal reports whether both seal the same; either may be nil.
func (s *Sender) Equal(other *Sender) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.Cluster == other.Cluster && s.Signer.Public() == other.Signer.Public() && slices.Equal(s.Recipients, other.Recipients)
}

// SealInputs writes what travels with a claim, as its version of this sequence.
func (s *Signer) SealInputs(b Binding, inputs []Input, recipients []string, sequence int64) ([]byte, error) {
	plain, err := manifests(b, inputs)
	if err != nil {
		return nil, err
	}
	encrypted, err := encrypt(plain, recipients)
	if err != nil {
		return nil, err
	}
	e := contract.EncryptedInputs{
		Metadata: contract.StatusMeta{Name: b.Claim.Name, Namespace: b.Claim.Namespace},
		Cluster:  b.Cluster, Binding: b.Claim.Binding, UID: b.UID, Sequence: sequence, Recipients: recipients,
		Digest: s.digestOf(append(bound(b), plain...), recipients), Encrypted: encrypted,
	}
	for _, i := range inputs {
		e.Objects = append(e.Objects, i.Object())
	}
	body, err := contract.EncodeEncryptedInputs(&e)
	if err != nil {
		return nil, err
	}
	return s.file(contract.EncryptedInputsKind, body)
}

// CompareInputs gives the sequence of a file that this signer wrote, 0 of any other, and
// reports whether it says what SealInputs would write now, whatever the sequence.
func (s *Signer) CompareInputs(file []byte, b Binding, inputs []Input, recipients []string) (sequence int64, same bool) {
	e, err := readInputs(file, []string{s.Public()})
	if err != nil {
		return 0, false
	}
	plain, err := manifests(b, inputs)
	return e.Sequence, err == nil && e.Digest == s.digestOf(append(bound(b), plain...), recipients)
}

// bound says what a file is bound to: one without objects has nothing else that does.
func bound(b Binding) []byte {
	// Nothing of it is what JSON cannot say.
	data, _ := json.Marshal(b)
	return data
}

// manifests are the inputs as kubectl takes them. Equal ones give equal bytes.
func manifests(b Binding, inputs []Input) ([]byte, error) {
	all := metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	inputs = slices.SortedFunc(slices.Values(inputs), func(a, b Input) int {
		return a.Object().Compare(b.Object())
	})
	for _, in := range inputs {
		data, err := json.Marshal(in.manifest(b))
		if err != nil {
			return nil, fmt.Errorf("%s cannot be written as JSON", in.Object())
		}
		all.Items = append(all.Items, runtime.RawExtension{Raw: data})
	}
	data, err := contract.MarshalYAML(all)
	if err != nil {
		return nil, errors.New("the objects cannot be written as YAML")
	}
	return data, nil
}

func (i Input) manifest(b Binding) any {
	meta := metav1.ObjectMeta{
		Name: i.Name, Namespace: b.Claim.Namespace, Labels: i.Labels,
		Annotations: map[string]string{annotationCluster: b.Cluster, annotationClaim: b.Claim.String()},
	}
	kind := metav1.TypeMeta{APIVersion: "v1", Kind: i.Kind}
	if i.Kind == "Secret" {
		return corev1.Secret{TypeMeta: kind, ObjectMeta: meta, Type: i.Type, Data: i.Data}
	}
	return corev1.ConfigMap{TypeMeta: kind, ObjectMeta: meta, Data: i.Text, BinaryData: i.Data}
}

func readInputs(file []byte, keys []string) (*contract.EncryptedInputs, error) {
	body, err := signedBody(file, keys, contract.EncryptedInputsKind)
	if err != nil {
		return nil, err
	}
	return contract.DecodeEncryptedInputs(body)
}

// OpenInputs checks and decrypts what travels with a claim. Errors are as those of Open.
func (o *Opener) OpenInputs(claim contract.Key, file []byte) (*contract.EncryptedInputs, []Input, error) {
	e, err := readInputs(file, o.Keys)
	switch {
	case err != nil:
		return nil, nil, err
	case e.Cluster != o.Cluster:
		return nil, nil, fmt.Errorf("it is from another app cluster, %s", strconv.QuoteToASCII(e.Cluster))
	case e.Claim() != claim:
		return nil, nil, fmt.Errorf("it is of another claim, %s", strconv.QuoteToASCII(e.Claim().String()))
	}
	plain, err := o.decrypt(e.Encrypted)
	if err != nil {
		return nil, nil, err
	}
	var all metav1.List
	if contract.UnmarshalStrict(plain, &all) != nil {
		return nil, nil, errors.New("what it holds is no list of objects")
	}
	inputs := make([]Input, 0, len(all.Items))
	for _, item := range all.Items {
		in, err := o.input(claim, item.Raw)
		if err != nil {
			return nil, nil, err
		}
		inputs = append(inputs, in)
	}
	if !slices.EqualFunc(inputs, e.Objects, func(in Input, o contract.InputObject) bool { return in.Object().Compare(o) == 0 }) {
		return nil, nil, errors.New("it holds other objects than it says")
	}
	return e, inputs, nil
}

// input reads one manifest. The error repeats nothing of it.
func (o *Opener) input(claim contract.Key, data []byte) (Input, error) {
	// A Secret and a ConfigMap differ in what text is; binaryData are a ConfigMap's only.
	var m struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Type              corev1.SecretType `json:"type"`
		Data              json.RawMessage   `json:"data"`
		BinaryData        map[string][]byte `json:"binaryData"`
	}
	if json.Unmarshal(data, &m) != nil {
		return Input{}, errors.New("an object in it cannot be read")
	}
	in := Input{Kind: m.Kind, Name: m.Name, Type: m.Type, Labels: m.Labels, Data: m.BinaryData}
	var err error
	switch {
	case m.Namespace != claim.Namespace, m.Annotations[annotationCluster] != o.Cluster, m.Annotations[annotationClaim] != claim.String():
		return Input{}, errors.New("an object in it has another namespace, cluster or claim")
	case m.APIVersion != "v1" || m.Kind != "Secret" && m.Kind != "ConfigMap":
		return Input{}, errors.New("an object in it is neither a Secret nor a ConfigMap")
	case len(m.Data) == 0:
	case m.Kind == "Secret":
		err = json.Unmarshal(m.Data, &in.Data)
	default:
		err = json.Unmarshal(m.Data, &in.Text)
	}
	if err != nil {
		return Input{}, errors.New("an object in it cannot be read")
	}
	return in, nil
}
