package store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/go-logr/logr"
)

// LogTrouble logs why a part of a repository, such as "main", does not work, and with nil that it
// works again. It is to be called when people are told something else of it than before.
func LogTrouble(log logr.Logger, part string, err error) {
	if err == nil {
		log.Info("repository works again", "part", part)
		return
	}
	log.Info("repository trouble", "part", part, "error", err.Error())
}

// Cause is the part of a network error that does not change from one try to the next, as
// addresses do; "" where there is none.
func Cause(err error) string {
	var errno syscall.Errno
	var dns *net.DNSError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &dns):
		return dns.Err
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired, or is not valid yet"
	case IsUntrusted(err):
		return "its certificate is not trusted"
	case errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		return "no answer in time"
	}
	return ""
}

// IsUntrusted reports whether an error is about the certificate that a host has shown.
func IsUntrusted(err error) bool { return errors.As(err, new(*tls.CertificateVerificationError)) }

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}
