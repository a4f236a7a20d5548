package claim

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/contract"
)

// refusals are what this cluster did not take a moment ago, mostly in the API server's
// words, for its author; "" for what was not tried, or was taken.
type refusals struct {
	// file is what the file says, merge what a merge makes of both sides, and
	// lost the version that lost a conflict.
	file, merge, lost string
	noNamespace       bool
}

// refusedError is the answer to what this cluster was to take, and what was answered
// before.
type refusedError struct{ refusals }

func (e *refusedError) Error() string { return "refused: " + e.file + e.merge + e.lost }

// deniedError is the no of this cluster's admission control to a delete, or to what the konnector
// notes on an object, or that the object is not valid then, in the API server's words. It is for
// the claim's owner to know: without the note, nothing goes on.
type deniedError struct{ words string }

func (e *deniedError) Error() string { return e.words }

// denied turns an API server's no to what it was sent into a deniedError.
func denied(err error) error {
	if admission.Denied(err) || isInvalid(err) {
		return &deniedError{err.Error()}
	}
	return err
}

// isInvalid reports whether an API server finds what it was sent invalid, or too large.
func isInvalid(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return true
	}
	return false
}

// refusedFile is a no to what a file says, also where its base is too large.
func (l *look) refusedFile(err error) error {
	if errors.Is(err, errTooLarge) {
		all := l.refusals
		all.file = err.Error()
		return &refusedError{all}
	}
	return l.refused(err, func(all *refusals, s metav1.Status) { all.file = l.words(s) })
}

// refused turns the API server's no into a refusedError, and what was changed
// meanwhile into errMoved.
func (l *look) refused(err error, note func(*refusals, metav1.Status)) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	s := status.Status()
	if s.Code != http.StatusForbidden && !isInvalid(err) && !admission.Denied(err) {
		return moved(err)
	}
	all := l.refusals
	note(&all, s)
	return &refusedError{all}
}

// words are the API server's, with the lines of the file where these can be found.
func (l *look) words(s metav1.Status) string {
	if s.Details == nil || len(s.Details.Causes) == 0 {
		return s.Message
	}
	data, err := l.view.Main.Read(l.key.Path())
	if err != nil {
		return s.Message
	}
	var all []string
	for _, c := range s.Details.Causes {
		words := c.Message
		if c.Field != "" {
			words = c.Field + ": " + words
		}
		if line := contract.LineOf(data, c.Field); line > 0 {
			words = fmt.Sprintf("line %d: %s", line, words)
		}
		all = append(all, words)
	}
	return strings.Join(all, "; ")
}
