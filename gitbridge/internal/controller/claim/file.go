package claim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/transform"
	"gitbind.dev/gitbridge/schema"
	"gitbind.dev/gitbridge/store"
)

// readFile reads a claim file, unless what it says was applied before.
func (c *Controller) readFile(s *step, entry store.Entry) error {
	s.File = &decision.File{Blob: string(entry.Hash)}
	if s.Access != decision.Granted {
		return nil
	}
	p := s.Present
	answered := p != nil && p.Result == contract.Applied && p.Reason == "" && p.Answers.Blob == s.File.Blob && s.Live != nil
	if s.api.Unusable != nil {
		if answered {
			// It stays as it was applied.
			s.File.Applied, s.Live.Drifted = s.Live.Applied, false
			s.File.Note, s.File.Effective = p.Message, p.Effective
			return nil
		}
		s.File.Refusal = &decision.Refusal{Result: contract.Failed, Message: s.api.Unusable.Error() + ". Its operator must mend it"}
		return nil
	}
	s.File.Applied = transform.Applied(s.File.Blob, s.api.Shape, s.api.Kind.GroupVersion().String(), s.api.Template, s.api.Keys)
	s.File.Contest, _ = c.fights.Words(s.Path, c.Now())
	if answered && s.File.Contest == "" && s.Live.Applied == s.File.Applied && !s.Live.Drifted {
		s.File.Note, s.File.Effective = p.Message, p.Effective
		return nil
	}
	return c.decode(s, entry)
}

func (c *Controller) decode(s *step, entry store.Entry) error {
	file, err := facts.File(s.view.Main, entry)
	if err != nil {
		return err
	}
	return c.decodeFile(s, file)
}

func (c *Controller) decodeFile(s *step, file contract.File) error {
	s.data = file.Data
	decoded, err := contract.Decode(file, s.api.Kind.Kind)
	if s.File.Problem = problem(err); err != nil {
		return nil
	}
	bound := s.api.Kind.GroupVersion().String()
	// The files of an API that is bound again, in another version, are of the one before.
	if _, version, _ := strings.Cut(decoded.APIVersion, "/"); decoded.APIVersion != bound && !slices.Contains(s.api.Versions, version) {
		s.File.Problem = s.at("apiVersion", fmt.Sprintf("apiVersion is %q, but the API is bound as %q", decoded.APIVersion, bound))
		return nil
	}
	made, err := transform.Object(transform.Input{
		Claim: decoded, Cluster: c.Session.Cluster, Binding: s.Key.Binding, Shape: s.api.Shape, Template: s.api.Template, Keys: s.api.Keys,
		APIVersion: bound, Kind: decoded.Kind, Blob: s.File.Blob, Commit: s.Head,
	})
	var bad *transform.TemplateError
	switch {
	case errors.As(err, &bad):
		s.File.Refusal = &decision.Refusal{Result: contract.Failed, Message: bad.Error() + ". Its operator must mend it"}
		return nil
	case errors.Is(err, transform.ErrAnother):
		s.File.Refusal = &decision.Refusal{Result: contract.Denied, Message: fmt.Sprintf("the platform's template %s makes of this claim another object (%s), "+
			"and nothing but the claim's own is applied. Its operator must mend it", s.api.Template.Name(), err)}
		return nil
	case err != nil:
		return err
	}
	if s.checkSchema(decoded, made); s.File.Problem != nil || s.File.Refusal != nil {
		return nil
	}
	switch err := s.api.Fields.Mark(made.Object); {
	case err != nil && s.api.Template != nil:
		// What the template set in fields that app clusters do not know, an API
		// server refuses with no more than a code.
		s.File.Refusal = &decision.Refusal{Result: contract.Failed, Message: fmt.Sprintf("the platform's template %s makes of this claim one that is not valid: %s. "+
			"Its operator must mend it", s.api.Template.Name(), err)}
		return nil
	case err != nil:
		// The API server will say better what is wrong with it.
		c.Log.V(1).Info("The fields of a claim are not marked", "cluster", c.Session.Cluster.ID, "path", s.Path, "reason", err.Error())
	}
	s.object, s.patched, s.File.Effective = made.Object, made.Effective, made.Effective
	var notes []string
	if len(made.Left) > 0 {
		notes = append(notes, "left out, as it is the control plane's to set: spec."+strings.Join(made.Left, ", spec."))
	}
	if len(made.Overruled) > 0 {
		notes = append(notes, "set by the platform, whatever the claim says: "+strings.Join(made.Overruled, ", "))
	}
	if len(made.Stray) > 0 && !s.answeredWithoutStray() {
		notes = append(notes, strayNote(made.Stray))
	}
	s.File.Note = strings.Join(notes, "; ")
	return nil
}

// answeredWithoutStray tells whether this version of a file was applied and its author
// told nothing of what does not travel: all of it did then. They are told with the next
// version. An upgrade, or a shorter list, would otherwise be a new answer to each claim.
func (s *step) answeredWithoutStray() bool {
	p := s.Present
	return p != nil && p.Result == contract.Applied && p.Answers.Blob == s.File.Blob && !strings.Contains(p.Message, strayWords)
}

const strayWords = "stays in the file, as it does not travel: "

// maxStray is how many labels and annotations of one file are named.
const maxStray = 5

// strayNote tells a file's author what of it does nothing.
func strayNote(stray []string) string {
	return strayWords + brief.List(stray, maxStray, ", ") + " (spec.metadataKeys of the platform's template lists what does)"
}

// checkSchema says what is wrong with what becomes of a file: the file, where it says
// so itself, and otherwise the template.
func (s *step) checkSchema(decoded *contract.Claim, made transform.Result) {
	problems := s.problems(decoded, made.Object.Object["spec"])
	if len(problems) == 0 {
		return
	}
	if s.api.Template != nil {
		own := s.problems(decoded, decoded.Spec)
		theirs := slices.DeleteFunc(slices.Clone(problems), func(p schema.Problem) bool { return slices.Contains(own, p) })
		if len(theirs) == len(problems) {
			s.File.Refusal = &decision.Refusal{Result: contract.Failed, Message: fmt.Sprintf("the platform's template %s makes of this claim one that is not valid: %s. "+
				"Its operator must mend it", s.api.Template.Name(), told(theirs))}
			return
		}
		problems = slices.DeleteFunc(problems, func(p schema.Problem) bool { return !slices.Contains(own, p) })
	}
	s.File.Problem = s.at(problems[0].Field, told(problems))
}

// problems judges a spec without what is not an app cluster's to set: that is no
// fault of the file.
func (s *step) problems(decoded *contract.Claim, spec any) []schema.Problem {
	judged := *decoded
	fields, _ := spec.(map[string]any)
	judged.Spec = maps.Clone(fields)
	s.api.Shape.Strip(judged.Spec)
	return s.api.Schema.Problems(&judged)
}

// maxProblems is how many problems of one file are told at once.
const maxProblems = 5

func told(problems []schema.Problem) string {
	messages := make([]string, 0, maxProblems)
	for _, p := range problems[:min(len(problems), maxProblems)] {
		messages = append(messages, p.Message)
	}
	return strings.Join(messages, "; ")
}

// at is a problem at a field of the file.
func (s *step) at(field, reason string) *contract.Problem {
	return &contract.Problem{File: s.Path, Line: contract.LineOf(s.data, field), Reason: reason}
}
