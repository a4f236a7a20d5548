package app_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/app"
	"gitbind.dev/test/env"
)

// asBridge is the variable by which the program of the tests is gitbridge.
const asBridge = "GITBIND_TEST_AS_BRIDGE"

func TestMain(m *testing.M) {
	if os.Getenv(asBridge) == "" {
		os.Exit(runTests(m))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := app.NewCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gitbridge:", err)
		os.Exit(1)
	}
}

func runTests(m *testing.M) (code int) {
	code = m.Run()
	if err := controlPlanes.Stop(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// startBridgeProcess starts a bridge whose memory is its own, and collected as it is deployed,
// however seldom the tests are to collect theirs.
func (w *world) startBridgeProcess() {
	w.Helper()
	kubeconfig, err := w.control().KubeconfigFor(w.Context(), v1alpha1.SystemNamespace, v1alpha1.BridgeServiceAccount)
	w.must(err)
	binary, err := os.Executable()
	w.must(err)
	address := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	process, ports, err := w.env.Run(w.Context(), env.Program{
		Name: "gitbridge", Path: binary, Env: []string{asBridge + "=yes", "GOGC=100"}, Ports: 2,
		Args: func(ports []int) []string {
			return []string{
				"--kubeconfig=" + kubeconfig, "--backend-url=" + w.host.Server.URL, "--leader-elect=false", "--workers=8",
				"--health-listen=" + address(ports[0]), "--metrics-listen=" + address(ports[1]),
			}
		},
		Ready: func(ports []int) string { return "http://" + address(ports[0]) + "/healthz" },
	})
	w.must(err)
	*w.bridge = bridge{health: "http://" + address(ports[0]), metrics: address(ports[1]), began: time.Now(), stop: sync.OnceFunc(func() {
		if err := process.Stop(context.Background()); err != nil || process.ExitCode() != 0 {
			w.root.Errorf("the bridge ended with code %d: %v", process.ExitCode(), err)
		}
	})}
	w.root.Cleanup(w.bridge.stop)
}

// peakMemory measures how large the bridge's heap becomes until it is asked.
func (w *world) peakMemory() (peak func() uint64) {
	var most float64
	var errs error
	end, ended := make(chan struct{}), make(chan struct{})
	address := w.bridge.metrics
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			got, err := scrape(address)
			if err != nil && errs == nil {
				errs = err
			}
			most = max(most, got["go_memstats_heap_alloc_bytes"])
			select {
			case <-tick.C:
			case <-end:
				return
			case <-w.Context().Done():
				return
			}
		}
	}()
	return func() uint64 {
		w.Helper()
		close(end)
		<-ended
		if errs != nil || most == 0 {
			w.Errorf("the memory of the bridge is not known: %v", errs)
		}
		return uint64(most)
	}
}
