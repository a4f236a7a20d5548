package onboarding

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/copies"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

const (
	// maxHeartbeat is the largest body of a heartbeat, in bytes, and maxProcess the
	// longest name of a process.
	maxHeartbeat = 1 << 10
	maxProcess   = 100
)

// mountHeartbeat adds how a konnector says that it is live.
func (s *Service) mountHeartbeat(mux *http.ServeMux) {
	mux.Handle("PUT /v1/clusters/{id}/heartbeat", s.Konnectors.Handle(s.heartbeat))
}

func (s *Service) heartbeat(r *http.Request, who access.Caller) (any, error) {
	ctx := r.Context()
	var in restapi.Heartbeat
	if err := json.NewDecoder(io.LimitReader(r.Body, maxHeartbeat)).Decode(&in); err != nil {
		return nil, refusal.New(refusal.Invalid, "the heartbeat cannot be read: %s", err)
	}
	if n := len(in.Process); n == 0 || n > maxProcess {
		return nil, refusal.New(refusal.Invalid, "process: name it in 1 to %d bytes", maxProcess)
	}
	var cb v1alpha1.ClusterBinding
	if err := s.Client.Get(ctx, client.ObjectKey{Name: who.Cluster}, &cb); err != nil {
		return nil, trouble(fmt.Errorf("get ClusterBinding: %w", err))
	}
	before := s.isCopied(&cb)
	a := s.Copies.Beat(who.Cluster, copies.Beat{
		Process: in.Process, Credential: who.Hash, Heard: in.Heard, GoneAfter: in.GoneAfter.Duration, Ending: in.Ending,
	}, cb.IsCopied(), s.Now())
	if a.Copied && !before {
		s.Log.WarnContext(ctx, "Two live copies", "cluster", who.Cluster, "process", in.Process)
	}
	return &restapi.HeartbeatAnswer{Heard: a.Heard, Copied: a.Copied, Alone: a.Alone}, nil
}

// isCopied reports whether two live copies of a cluster are known.
func (s *Service) isCopied(cb *v1alpha1.ClusterBinding) bool {
	return s.Copies.Copied(cb.Name, cb.IsCopied())
}

// settle lets the cluster go on that has the only credential now, where two copies were
// live. It waits until that is written, as it must outlive this process.
func (s *Service) settle(ctx context.Context, cluster string) error {
	s.Copies.Settle(cluster)
	var cb v1alpha1.ClusterBinding
	err := wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKey{Name: cluster}, &cb)
		return err == nil && !cb.IsCopied(), client.IgnoreNotFound(err)
	})
	return trouble(err)
}
