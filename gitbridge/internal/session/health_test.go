package session

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/gitbridge/store"
)

// One trouble may take the place of another: what people are told follows.
func TestAnotherTroubleIsTold(t *testing.T) {
	t.Parallel()
	var told atomic.Int32
	h := &health{now: time.Now, changed: func() { told.Add(1) }}
	h.set(pushing, errors.New("connection refused"))
	before := told.Load()
	h.set(pushing, errors.New("connection reset"))
	if told.Load() != before {
		t.Error("the same is told again")
	}
	h.set(pushing, &store.NotTakenError{Reason: "the disk is full", Words: "tmp_objdir-incoming-1"})
	h.set(pushing, &store.NotTakenError{Reason: "the disk is full", Words: "tmp_objdir-incoming-2"})
	if got := told.Load() - before; got != 1 {
		t.Errorf("told %d times that the trouble is another, want once", got)
	}
	if c := explain(&store.NotTakenError{Reason: "the disk is full"}); c.Reason != "PushNotTaken" || !strings.HasSuffix(c.Message, "pushes: the disk is full") {
		t.Errorf("%+v", c)
	}
}

func TestACertificateThatIsNotTrustedIsNamed(t *testing.T) {
	t.Parallel()
	for words, why := range map[string]error{
		"its certificate is not trusted": x509.UnknownAuthorityError{},
		"its certificate has expired":    x509.CertificateInvalidError{Reason: x509.Expired},
	} {
		c := explain(fmt.Errorf("fetch: %w", &tls.CertificateVerificationError{Err: why}))
		if c.Reason != "RepositoryUnreachable" || !strings.Contains(c.Message, words) || !strings.Contains(c.Message, "--ca-file") {
			t.Errorf("%v: %+v", why, c)
		}
	}
	if c := explain(errors.New("502 Bad Gateway")); strings.Contains(c.Message, "--ca-file") {
		t.Errorf("another trouble: %+v", c)
	}
}
