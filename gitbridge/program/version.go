package program

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"gitbind.dev/gitbridge/version"
)

// tellVersion has /healthz?verbose and the metrics say which version the program is.
func tellVersion(mgr ctrl.Manager, program string) error {
	return errors.Join(registerBuildInfo(ctrlmetrics.Registry, program), mgr.AddHealthzCheck("version-"+version.String(), healthz.Ping))
}

// registerBuildInfo registers gitbind_build_info, if it is not there yet: the registry is
// the process', and tests run several programs in one.
func registerBuildInfo(r prometheus.Registerer, program string) error {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "gitbind_build_info", Help: "1; its labels say which program of which version runs.",
		ConstLabels: prometheus.Labels{"program": program, "version": version.String(), "goversion": runtime.Version()},
	})
	info.Set(1)
	err := r.Register(info)
	if errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("register gitbind_build_info: %w", err)
	}
	return nil
}
