package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// tlsOptions are the flags about who can read along.
type tlsOptions struct {
	certFile, keyFile string
	insecure          bool
}

func (o *tlsOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.certFile, "tls-cert-file", "", "certificate of --listen, with its chain; read again when it changes")
	f.StringVar(&o.keyFile, "tls-key-file", "", "private key of --tls-cert-file")
	f.BoolVar(&o.insecure, "insecure-listen", false, "allow plain HTTP beyond this machine: for --listen behind a proxy that ends TLS")
}

// check refuses to send credentials in clear to other machines, unless it was
// said that a proxy stands before this one.
func (o *tlsOptions) check(listen string, publicURL *url.URL) error {
	var errs []error
	if (o.certFile == "") != (o.keyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-key-file go together"))
	}
	if o.insecure {
		return errors.Join(errs...)
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		errs = append(errs, fmt.Errorf("--listen: %w", err))
	} else if o.certFile == "" && !loopback(host) {
		errs = append(errs, fmt.Errorf("--listen %s would speak plain HTTP to other machines: give --tls-cert-file and --tls-key-file, or --insecure-listen if a proxy before it ends TLS", listen))
	}
	if publicURL != nil && publicURL.Scheme == "http" && !loopback(publicURL.Hostname()) {
		errs = append(errs, fmt.Errorf("--public-url %s would have credentials sent in clear: use https, or --insecure-listen for a trial", publicURL))
	}
	return errors.Join(errs...)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// load reads the certificate; nil without one. What is returned must run, so
// that it is read again.
func (o *tlsOptions) load() (*certwatcher.CertWatcher, error) {
	if o.certFile == "" {
		return nil, nil
	}
	w, err := certwatcher.New(o.certFile, o.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-file: %w", err)
	}
	return w, nil
}

// secure makes a server speak TLS.
func secure(s *http.Server, certificate *certwatcher.CertWatcher) {
	s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate.GetCertificate}
}

// watch reads the certificate again and again until ctx ends.
func watch(ctx context.Context, certificate *certwatcher.CertWatcher) error {
	if err := certificate.Start(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("watch --tls-cert-file: %w", err)
	}
	return nil
}
