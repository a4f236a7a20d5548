package request

import "gitbind.dev/gitbridge/contract"

// The fields of an answer's status.
const (
	template       = "template"
	deletionPolicy = "deletionPolicy"
)

func answer(s *contract.Status) Decision { return Decision{Effect: Nothing, Answer: s} }

// applied is the answer when the API is bound. It keeps what the request says of
// its own end, which is asked for when the file is not there any more.
func (f Facts) applied(by string) *contract.Status {
	return f.counting(f.status(contract.Applied), by)
}

// counting notes in an answer what the request says, and the offer by which it
// was granted the API, if it was: "" for what is not its own.
func (f Facts) counting(s *contract.Status, by string) *contract.Status {
	s.Status = map[string]any{deletionPolicy: string(f.File.Request.DeletionPolicy)}
	if by != "" {
		s.Status[template] = by
	}
	return s
}

// granted reports whether the request that was answered last was granted what
// there is. What it was refused it does not take with it when it goes.
func (f Facts) granted() bool {
	return f.Export != nil && f.had() == f.Export.Template
}

// had is the offer by which the present answer says that the request has the API,
// "" for none.
func (f Facts) had() string {
	if f.Present == nil {
		return ""
	}
	text, _ := f.Present.Status[template].(string)
	return text
}

// own is the offer by which the request has the API: it asks for just that, or
// did before. Where the API was taken away, it is the one by which it had it.
func (f Facts) own() string {
	if f.Export == nil {
		return f.had()
	}
	if want := f.File.Request.Template; want == "" || want == f.Export.Template || f.granted() {
		return f.Export.Template
	}
	return ""
}

// policy is what the request said of its end, as it counted last.
func policy(s *contract.Status) contract.DeletionPolicy {
	text, _ := s.Status[deletionPolicy].(string)
	return contract.DeletionPolicy(text)
}

func (f Facts) refused(result contract.Result, p *contract.Problem) *contract.Status {
	s := f.status(result)
	s.Problem, s.Message = p, p.Reason
	return s
}

// Failed is the answer when what was decided cannot be done: it is tried again.
func (f Facts) Failed(words string) *contract.Status {
	s := f.status(contract.Failed)
	s.Message = words
	return s
}

// at is a problem of the offer that the request names.
func (f Facts) at(reason string) *contract.Problem {
	return &contract.Problem{File: f.Path, Line: f.File.Line, Reason: reason}
}

// status says of the request's end what the file says, where that can be read: also
// one that is refused is somebody's last word of it, and an app cluster whose API was
// taken away waits for it to count before it lets go of claims. Else it keeps what
// counted last.
func (f Facts) status(result contract.Result) *contract.Status {
	s := &contract.Status{Metadata: contract.StatusMeta{Name: f.Binding}, Result: result, Answers: f.answers()}
	switch {
	case f.File != nil && f.File.Problem == nil:
		f.counting(s, f.own())
	case f.Present != nil:
		s.Status = f.Present.Status
	}
	return s
}

// answers names the version that is answered.
func (f Facts) answers() contract.Answers {
	blob := ""
	if f.File != nil {
		blob = f.File.Blob
	}
	return f.Present.Answering(blob, f.Head)
}
