package connect

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/install"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/fakeapi"
)

func TestAMoveToAnotherURLTrustsWhatTheConnectionDoes(t *testing.T) {
	t.Parallel()
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"issuer":"https://dex.example.com","clientID":"gitbind-cli"}`)
	}))
	backend.Config.ErrorLog = log.New(io.Discard, "", 0)
	backend.StartTLS()
	defer backend.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: backend.Certificate().Raw})
	api := fakeapi.New(fakeapi.Builder().WithObjects(&v1alpha1.Connection{
		ObjectMeta: metav1.ObjectMeta{Name: "prod"},
		Spec:       v1alpha1.ConnectionSpec{BackendURL: "https://old.example.com", ClusterID: "k3x9d2abqwzr4t6m", CABundle: ca},
	}))
	in := inputOf(&appcluster.Cluster{WithWatch: api})
	in.BackendURL, in.Name, in.DryRun, in.Install = backend.URL, "prod", true, install.Options{NoDeployment: true}
	in.SignIn = &signin.SignIn{Sessions: session.Store{Dir: t.TempDir()}, HTTP: http.DefaultClient, Out: io.Discard, Now: time.Now}
	in.Terminal, in.Notes = terminal.Open(nil, io.Discard), io.Discard
	if err := Do(t.Context(), in); err != nil {
		t.Error(err)
	}
}
