// Package admission tells what admission control of an API server says.
package admission

import (
	"errors"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// denial is how an API server begins the words of an admission webhook, and, after the
// object's kind and name, those of a ValidatingAdmissionPolicy.
var denial = regexp.MustCompile(`^(admission webhook "[^"]+" denied the request\b|\S+( "[^"]*")? is forbidden: ValidatingAdmissionPolicy '[^']+' with binding '[^']+' denied request\b)`)

// Denied reports whether an API server's error is the no of an admission webhook or of a
// policy. The code and the reason of such an error are theirs to choose: "conflict" does not
// mean that the object has changed then, nor "unauthorized" that a token is not taken.
func Denied(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && denial.MatchString(status.Status().Message)
}

// Stale reports whether a write was refused because of the object that it was made for:
// there is another version of it by now, or none.
func Stale(err error) bool {
	return (apierrors.IsConflict(err) || apierrors.IsNotFound(err)) && !Denied(err)
}
