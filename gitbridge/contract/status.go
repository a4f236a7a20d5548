package contract

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// APIVersion is that of the kinds in this package.
const APIVersion = "gitbind.dev/v1alpha1"

// Result says what became of a file on main.
type Result string

const (
	// Applied says that the control plane has what the file says.
	Applied Result = "Applied"
	// Invalid says that the file cannot be a claim; Problem says why.
	Invalid Result = "Invalid"
	// Denied says that the control plane or a policy refuses it.
	Denied Result = "Denied"
	// Held says that nothing is done until a person decides.
	Held Result = "Held"
	// Failed says that it could not be done for now, and is tried again.
	Failed Result = "Failed"
	// Deleting says that the file is gone and the service is not yet.
	Deleting Result = "Deleting"
	// Gone is the tombstone: the service is gone.
	Gone Result = "Gone"
	// Lost says that it was applied once and is missing on the control plane.
	Lost Result = "Lost"
)

// Reason says in one word why something is held, or what is the matter with a
// claim that is applied.
type Reason string

const (
	// NotRemoved says that main lacks the file, and no commit that was followed
	// removed it; or one did while the API was not bound.
	NotRemoved Reason = "NotRemoved"
	// ManyRemovals says that it was removed together with too many others.
	ManyRemovals Reason = "ManyRemovals"
	// Moved says that the claim seems to be in another file now.
	Moved Reason = "Moved"
	// Contested says, of a claim that is applied, that somebody on the control
	// plane keeps changing it.
	Contested Reason = "Contested"
	// Foreign says that the control plane has an object in the claim's place that
	// somebody else made.
	Foreign Reason = "Foreign"
	// NotPermitted says that the app cluster may not bind the API any more: what
	// it ordered before stays, and nothing new is ordered.
	NotPermitted Reason = "NotPermitted"
	// Reverted says, of a claim that is lost, that its file came back while the service
	// was being deleted.
	Reverted Reason = "Reverted"
	// OverQuota says, of a claim that is denied, that there is no room for it in its API's
	// quota: it is applied by itself when there is.
	OverQuota Reason = "OverQuota"
	// ClaimsExist says, of a request, that its removal waits for claims.
	ClaimsExist Reason = "ClaimsExist"
)

// Status is a ClaimStatus: the bridge's answer to one path of main, on the
// branch status. It holds no time and nothing that changes by itself.
type Status struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   StatusMeta `json:"metadata"`
	// Answers names the version of the file that this is about.
	Answers Answers `json:"answers"`
	Result  Result  `json:"result"`
	// Reason is set when a removal, or something new, is held, when a claim is
	// contested or waits for room in a quota, and when it is lost because its removal was
	// reverted.
	Reason Reason `json:"reason,omitempty"`
	// Message is for people; empty when there is nothing to say.
	Message string `json:"message,omitempty"`
	// Problem is set when Result is Invalid or Denied.
	Problem *Problem `json:"problem,omitempty"`
	// UID is that of the claim in the app cluster, as the konnector's commits
	// named it last.
	UID string `json:"uid,omitempty"`
	// Since is of a tombstone: the time when it was set, by the bridge's clock, as RFC
	// 3339 in UTC. It is kept for 30 days from then.
	Since string `json:"since,omitempty"`
	// Object is "<namespace>/<name>" of the object on the control plane, from
	// when it was applied until it is known to be gone as it should.
	Object string `json:"object,omitempty"`
	// Secrets are those that travel with the claim; nil as long as none ever did.
	Secrets *SecretList `json:"secrets,omitempty"`
	// Withheld says why a Secret that should travel does not, by its name, or AllSecrets.
	Withheld map[string]string `json:"withheld,omitempty"`
	// Inputs are those that came with the claim; nil as long as none ever did.
	Inputs *Inputs `json:"inputs,omitempty"`
	// Effective are the fields of spec that the platform's template changed, as
	// they are applied; null for one that it took away.
	Effective map[string]any `json:"effective,omitempty"`
	// ReadyCondition is the type of the condition in Status that says whether the
	// service can be used, where it is not "Ready".
	ReadyCondition string `json:"readyCondition,omitempty"`
	// Status is the status of the object on the control plane, as it is; of a
	// request, template and deletionPolicy as they counted last.
	Status map[string]any `json:"status,omitempty"`
}

// StatusMeta names the claim, or the binding of a request, which has no
// namespace; it is empty for a file that is neither.
type StatusMeta struct {
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// Answers is the version of a file: the Git hash of its content, and the
// commit of main in which the bridge saw it first. For a removed file Blob is
// empty and Commit is the first one without it.
type Answers struct {
	Blob   string `json:"blob,omitempty"`
	Commit string `json:"commit"`
}

// Answering names the version of a file that an answer after s, which may be
// nil, is about: blob is on main since head, or since the commit that s names if
// s is about the same.
func (s *Status) Answering(blob, head string) Answers {
	if s != nil && s.Answers.Blob == blob && s.Answers.Commit != "" {
		return s.Answers
	}
	return Answers{Blob: blob, Commit: head}
}

// DefaultReadyCondition says whether a service can be used, where its offer names no other
// condition.
const DefaultReadyCondition = "Ready"

// ReadyType is the type of the condition in Status that says whether the service can be
// used.
func (s *Status) ReadyType() string {
	if s == nil || s.ReadyCondition == "" {
		return DefaultReadyCondition
	}
	return s.ReadyCondition
}

// EncodeStatus writes a ClaimStatus. Equal ones give equal bytes.
func EncodeStatus(s *Status) ([]byte, error) {
	o := object{{"apiVersion", APIVersion}, {"kind", "ClaimStatus"}}
	if s.Metadata != (StatusMeta{}) {
		o = append(o, field{"metadata", object{}.with("name", s.Metadata.Name).with("namespace", s.Metadata.Namespace)})
	}
	answers := object{}.with("blob", s.Answers.Blob).with("commit", s.Answers.Commit)
	o = append(o, field{"answers", answers}, field{"result", string(s.Result)})
	o = o.with("reason", string(s.Reason)).with("message", s.Message)
	if p := s.Problem; p != nil {
		at := object{{"file", p.File}}
		if p.Line > 0 {
			at = append(at, field{"line", p.Line})
		}
		o = append(o, field{"problem", append(at, field{"reason", p.Reason})})
	}
	o = o.with("uid", s.UID).with("since", s.Since).with("object", s.Object)
	if s.Secrets != nil {
		o = append(o, field{"secrets", s.Secrets.object()})
	}
	if len(s.Withheld) > 0 {
		o = append(o, field{"withheld", s.Withheld})
	}
	if s.Inputs != nil {
		o = append(o, field{"inputs", s.Inputs.object()})
	}
	if len(s.Effective) > 0 {
		o = append(o, field{"effective", s.Effective})
	}
	o = o.with("readyCondition", s.ReadyCondition)
	if len(s.Status) > 0 {
		o = append(o, field{"status", s.Status})
	}
	b, err := marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode ClaimStatus: %w", err)
	}
	return b, nil
}

// DecodeStatus reads a ClaimStatus.
func DecodeStatus(data []byte) (*Status, error) {
	var s Status
	if err := Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("decode ClaimStatus: %w", err)
	}
	if s.APIVersion != APIVersion || s.Kind != "ClaimStatus" {
		return nil, fmt.Errorf("decode ClaimStatus: is a %s %s", s.APIVersion, s.Kind)
	}
	if s.Effective != nil {
		s.Effective = canonical(s.Effective).(map[string]any)
	}
	if s.Status != nil {
		s.Status = canonical(s.Status).(map[string]any)
	}
	return &s, nil
}

// ObservedPath is where the Observed of the branch status lies.
const ObservedPath = "observed.yaml"

// Observed says how far the branch status has come.
type Observed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Commit is the commit of main that the tree answers: all effects of it
	// were issued.
	Commit string `json:"commit"`
	// Sequence grows with each commit of an epoch.
	Sequence int64 `json:"sequence"`
	// Epoch names this life of the branch.
	Epoch string `json:"epoch"`
	// Cut is the sequence at which the branch's history begins, 0 for the first one of the
	// epoch. Those that were passed over since, and are no commits, are added to it.
	Cut int64 `json:"cut,omitempty"`
	// Writer names the process that wrote it, so that one that takes over
	// notices what the last one did after it looked.
	Writer string `json:"writer,omitempty"`
}

// EncodeObserved writes an Observed.
func EncodeObserved(o Observed) ([]byte, error) {
	if data := o.plain(); data != nil {
		return data, nil
	}
	out := object{
		{"apiVersion", APIVersion},
		{"kind", "Observed"},
		{"commit", o.Commit},
		{"sequence", o.Sequence},
		{"epoch", o.Epoch},
	}
	if o.Cut > 0 {
		out = append(out, field{"cut", o.Cut})
	}
	out = out.with("writer", o.Writer)
	b, err := marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode Observed: %w", err)
	}
	return b, nil
}

// plain writes an Observed of letters and digits, as all are that were written
// here. One goes with every answer, and to go through YAML would cost as much as
// the answer itself. It is nil for all else.
func (o Observed) plain() []byte {
	commit, epoch, writer := word(o.Commit), word(o.Epoch), word(o.Writer)
	if commit == "" || epoch == "" || writer == "" && o.Writer != "" {
		return nil
	}
	b := fmt.Appendf(nil, "apiVersion: %s\nkind: Observed\ncommit: %s\nsequence: %d\nepoch: %s\n", APIVersion, commit, o.Sequence, epoch)
	if o.Cut > 0 {
		b = fmt.Appendf(b, "cut: %d\n", o.Cut)
	}
	if writer != "" {
		b = fmt.Appendf(b, "writer: %s\n", writer)
	}
	return b
}

// readPlain reads exactly what plain writes. Commit is "" for all else.
func readPlain(data []byte) Observed {
	o := Observed{APIVersion: APIVersion, Kind: "Observed"}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		number, err := strconv.ParseInt(value, 10, 64)
		unquoted := strings.Trim(value, `"`)
		switch {
		case name == "commit":
			o.Commit = unquoted
		case name == "epoch":
			o.Epoch = unquoted
		case name == "writer":
			o.Writer = unquoted
		case name == "sequence" && err == nil:
			o.Sequence = number
		case name == "cut" && err == nil:
			o.Cut = number
		}
	}
	if !bytes.Equal(o.plain(), data) {
		return Observed{}
	}
	return o
}

// word is what text makes of letters and digits, "" for all else.
func word(s string) string {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return ""
		}
	}
	if s == "" || plain.MatchString(s) && !words[strings.ToLower(s)] {
		return s
	}
	return `"` + s + `"`
}

// DecodeObserved reads an Observed.
func DecodeObserved(data []byte) (Observed, error) {
	if o := readPlain(data); o.Commit != "" {
		return o, nil
	}
	var o Observed
	if err := Unmarshal(data, &o); err != nil {
		return Observed{}, fmt.Errorf("decode Observed: %w", err)
	}
	switch {
	case o.APIVersion != APIVersion || o.Kind != "Observed":
		return Observed{}, fmt.Errorf("decode Observed: is a %s %s", o.APIVersion, o.Kind)
	case o.Epoch == "":
		return Observed{}, errors.New("decode Observed: epoch is missing")
	}
	return o, nil
}
