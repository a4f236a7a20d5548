package program

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// askEvery is how often an API server that does not answer is asked, and askTimeout how long it has to answer.
	askEvery   = time.Second
	askTimeout = 10 * time.Second
)

// AwaitKind is HasKind, and waits until the API server answers or ctx ends: a manager cannot be made before, and a
// process that ended would be started again ever more seldom. That it refuses is an answer, and the error. Meanwhile
// the process is alive, and not ready.
func (o Options) AwaitKind(ctx context.Context, config *rest.Config, kind schema.GroupVersionKind) (has bool, err error) {
	config = rest.CopyConfig(config)
	config.Timeout = askTimeout
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false, err
	}
	stop, err := o.ServeAlive(ctx)
	if err != nil {
		return false, err
	}
	defer stop()
	told := false
	err = wait.PollUntilContextCancel(ctx, askEvery, true, func(ctx context.Context) (bool, error) {
		var err error
		if has, err = HasKind(d, kind); err == nil || refuses(err) {
			return true, err
		}
		if !told {
			told = true
			ctrl.LoggerFrom(ctx).Info("The API server does not answer. It is asked until it does", "error", err.Error())
		}
		return false, nil
	})
	return has, err
}

// ServeAlive has HealthListen serve /healthz alone until stop is called: the process is alive, and not ready.
func (o Options) ServeAlive(ctx context.Context) (stop func(), err error) {
	if o.HealthListen == "" || o.HealthListen == "0" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.HealthListen)
	if err != nil {
		return nil, err
	}
	health := http.NewServeMux()
	health.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Handler: health, ReadHeaderTimeout: askTimeout}
	go func() { _ = server.Serve(listener) }()
	return func() {
		_ = server.Close()
		_ = listener.Close() // which the server does not know yet if it has just begun
	}, nil
}

// refuses reports whether an API server is there and will not answer: asking again changes nothing. One
// that has just begun forbids all for a moment.
func refuses(err error) bool {
	return apierrors.IsUnauthorized(err) || errors.As(err, new(*tls.CertificateVerificationError))
}
