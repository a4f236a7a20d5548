// Package refusal is how the backend says no: a failure as a value, with words
// for the person who asked, and the one place where it becomes an HTTP status.
// It refuses to show anything else: an error that is no Refusal is answered as
// an internal error, and its text stays in the log.
package refusal

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"gitbind.dev/gitbridge/api/restapi"
)

// Kind says what sort of no it is.
type Kind int

const (
	// Invalid is a request that is wrong in itself.
	Invalid Kind = iota + 1
	// Unauthenticated is a credential that is missing or does not count.
	Unauthenticated
	// Forbidden is a request that this caller may not make.
	Forbidden
	// NotFound is a thing that is not there, or not for this caller: the
	// answer does not tell which.
	NotFound
	// Conflict is a request that something existing stands against.
	Conflict
	// TooLarge is a request beyond a size limit.
	TooLarge
	// TooMany is a request of who has made too many just now.
	TooMany
	// Unavailable is trouble that passes: the same request may be right later.
	Unavailable
)

var statuses = map[Kind]int{
	Invalid:         http.StatusBadRequest,
	Unauthenticated: http.StatusUnauthorized,
	Forbidden:       http.StatusForbidden,
	NotFound:        http.StatusNotFound,
	Conflict:        http.StatusConflict,
	TooLarge:        http.StatusRequestEntityTooLarge,
	TooMany:         http.StatusTooManyRequests,
	Unavailable:     http.StatusServiceUnavailable,
}

// Refusal is a failure that its caller may read.
type Refusal struct {
	Kind Kind
	// Words say what is wrong and what to do.
	Words string
	// Cause is for the log.
	Cause error
}

// New is a refusal with nothing behind it that a log would want.
func New(kind Kind, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Words: fmt.Sprintf(format, args...)}
}

// Because is a refusal that keeps its cause for the log.
func Because(cause error, kind Kind, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Words: fmt.Sprintf(format, args...), Cause: cause}
}

func (r *Refusal) Error() string {
	if r.Cause != nil {
		return r.Words + ": " + r.Cause.Error()
	}
	return r.Words
}

func (r *Refusal) Unwrap() error { return r.Cause }

// Is tells whether err is a refusal of this kind.
func Is(err error, kind Kind) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Kind == kind
}

// Answer is the HTTP status and the words for any error.
func Answer(err error) (status int, words string) {
	var r *Refusal
	if errors.As(err, &r) {
		return statuses[r.Kind], r.Words
	}
	return http.StatusInternalServerError, "internal error: the backend's log says more"
}

// Passes tells whether the same request may be right later, by the status of its answer.
func Passes(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

// WriteJSON answers a request with err as a restapi.Error. What the caller is
// not told goes to the log.
func WriteJSON(log *slog.Logger, w http.ResponseWriter, r *http.Request, err error) {
	status, words := Answer(err)
	Log(log, r, status, err)
	if Passes(status) {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client is gone if this fails; there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(restapi.Error{Message: words})
}

// Log notes an answer: trouble on this side as an error, a plain no as
// information. A client that has not said yet who it is, as git's first request
// never does, is nothing to note.
func Log(log *slog.Logger, r *http.Request, status int, err error) {
	level := slog.LevelInfo
	switch {
	case status >= http.StatusInternalServerError:
		level = slog.LevelError
	case status == http.StatusUnauthorized && r.Header.Get("Authorization") == "":
		level = slog.LevelDebug
	}
	log.Log(r.Context(), level, "Refused", "method", r.Method, "path", r.URL.Path, "status", status, "error", err.Error())
}
