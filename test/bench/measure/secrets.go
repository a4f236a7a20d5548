package measure

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/bench/relay"
	"gitbind.dev/test/bench/stage"
	"gitbind.dev/test/env"
)

// suffix is what the name of a claim's Secret ends with.
const suffix = "-creds"

// secretsRun measures how Secrets travel from the control plane to the app cluster.
type secretsRun struct {
	*run
	control, app kubernetes.Interface

	mu   sync.Mutex
	seen map[string]arrival
	more chan struct{}
}

// arrival is a value of a Secret, and when it was there.
type arrival struct {
	value string
	at    time.Time
}

// secretWay is one of the two.
type secretWay struct {
	names []string
	// in is where the i-th Secret lies on the control plane.
	in     func(i int) string
	label  map[string]string
	change figure.Samples
}

// secrets measures one changed value at a time, and many Secrets at once.
func (r *run) secrets(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &secretsRun{run: r, seen: map[string]arrival{}, more: make(chan struct{})}
	var err error
	if s.control, err = kubernetes.NewForConfig(r.Cluster(env.Control).Config()); err != nil {
		return err
	}
	if s.app, err = kubernetes.NewForConfig(r.Cluster(env.App).Config()); err != nil {
		return err
	}
	if err := s.watch(ctx); err != nil {
		return err
	}
	if err := (&relay.Secrets{Selector: "bench=floor", From: s.control, To: s.app}).Run(ctx); err != nil {
		return err
	}
	templates := r.Control.Resource(schema.GroupVersionResource{Group: "gitbind.dev", Version: "v1alpha1", Resource: "apiserviceexporttemplates"})
	offer := []byte(`{"spec":{"permissionClaims":[{"name":"$(name)` + suffix + `"}]}}`)
	if _, err := templates.Patch(ctx, "postgresql", types.MergePatchType, offer, metav1.PatchOptions{}); err != nil {
		return err
	}
	n := min(r.size, 1000)
	claims := r.newNames("k", n)
	if err := r.create(ctx, stage.Subject, claims); err != nil {
		return err
	}
	if _, err := r.SeenApp.UntilAll(ctx, stage.Subject, claims, returned(stage.Subject)); err != nil {
		return err
	}
	floor := &secretWay{label: map[string]string{"bench": "floor"}, in: func(i int) string { return stage.Namespace(i % namespaces) }}
	subject := &secretWay{in: func(i int) string { return r.Far(stage.Subject, stage.Namespace(i%namespaces)) }}
	for _, name := range claims {
		floor.names, subject.names = append(floor.names, "floor-"+name), append(subject.names, name+suffix)
	}
	var all, allFloor figure.Samples
	for _, w := range []struct {
		way *secretWay
		all *figure.Samples
	}{{floor, &allFloor}, {subject, &all}} {
		if err := r.Quiet(ctx, still); err != nil {
			return err
		}
		took, err := s.burst(ctx, w.way)
		if err != nil {
			return err
		}
		w.all.Seconds(took)
	}
	if err := r.Quiet(ctx, still); err != nil {
		return err
	}
	few := 50
	if r.Quick {
		few = 10
	}
	for i := range few {
		for _, w := range []*secretWay{floor, subject} {
			if err := s.rotate(ctx, w, i); err != nil {
				return err
			}
		}
	}
	r.add(figure.Of("a changed value of a Secret on the control plane → in the app cluster", r.size, "ms", subject.change, floor.change).Judged(figure.RatioAtMost(4, "≤ 4 × the floor")))
	r.add(figure.Of(fmt.Sprintf("%d Secrets at once: first one made → last one in the app cluster", n), r.size, "s", all, allFloor))
	return nil
}

// watch sees Secrets arrive in the app cluster.
func (s *secretsRun) watch(ctx context.Context) error {
	stream, err := s.app.CoreV1().Secrets("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	go func() {
		for e := range stream.ResultChan() {
			secret, ok := e.Object.(*corev1.Secret)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			s.mu.Lock()
			if value := string(secret.Data["value"]); s.seen[secret.Name].value != value {
				s.seen[secret.Name] = arrival{value, time.Now()}
				close(s.more)
				s.more = make(chan struct{})
			}
			s.mu.Unlock()
		}
	}()
	return nil
}

func (s *secretsRun) until(ctx context.Context, name, value string) (time.Time, error) {
	for {
		s.mu.Lock()
		a, more := s.seen[name], s.more
		s.mu.Unlock()
		if a.value == value {
			return a.at, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait for Secret %s: %w", name, context.Cause(ctx))
		}
	}
}

// burst makes all Secrets of a way, and waits for all.
func (s *secretsRun) burst(ctx context.Context, w *secretWay) (time.Duration, error) {
	ctx, cancel := deadline(ctx, 5*time.Minute, "a burst of Secrets")
	defer cancel()
	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i, name := range w.names {
		group.Go(func() error {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: w.in(i), Name: name, Labels: w.label},
				StringData: map[string]string{"value": "0", "host": "db.example.org", "username": "orders"},
			}
			_, err := s.control.CoreV1().Secrets(secret.Namespace).Create(groupCtx, secret, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	var last time.Time
	for _, name := range w.names {
		at, err := s.until(ctx, name, "0")
		if err != nil {
			return 0, err
		}
		if at.After(last) {
			last = at
		}
	}
	return last.Sub(began), nil
}

// rotate changes the value of one Secret.
func (s *secretsRun) rotate(ctx context.Context, w *secretWay, i int) error {
	ctx, cancel := deadline(ctx, shortTime, "one Secret")
	defer cancel()
	value := strconv.Itoa(i + 1)
	began := time.Now()
	patch := []byte(`{"stringData":{"value":"` + value + `"}}`)
	if _, err := s.control.CoreV1().Secrets(w.in(i)).Patch(ctx, w.names[i], types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	at, err := s.until(ctx, w.names[i], value)
	if err != nil {
		return err
	}
	w.change.Milliseconds(at.Sub(began))
	return nil
}
