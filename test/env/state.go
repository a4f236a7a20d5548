package env

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A State is what a cluster's etcd holds: values by key.
type State map[string][]byte

// State is what the cluster holds once it has come to rest: when nothing changes for
// a moment.
func (c *Cluster) State(ctx context.Context) (State, error) {
	const moment = 300 * time.Millisecond
	for last := State(nil); ; {
		now, err := c.read(ctx)
		if err != nil {
			return nil, fmt.Errorf("read what %s holds: %w", c.Name, err)
		}
		if last != nil && maps.EqualFunc(now.resting(), last.resting(), bytes.Equal) {
			return now, nil
		}
		last = now
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s does not come to rest: %w", c.Name, context.Cause(ctx))
		case <-time.After(moment):
		}
	}
}

// Reset puts the cluster back into a state while it runs, without a start of an API
// server: what was made since is gone, finalizers or not, and what was changed is as
// it was. To those who watch it is a change like others; versions of objects go on.
func (c *Cluster) Reset(ctx context.Context, to State) error {
	now, err := c.read(ctx)
	if err != nil {
		return fmt.Errorf("reset %s: %w", c.Name, err)
	}
	var changes []etcdChange
	// Backwards, so that the instances of a CustomResourceDefinition go before it.
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(now))) {
		if _, ok := to[key]; !ok {
			changes = append(changes, etcdChange{Delete: &etcdPair{Key: []byte(key)}})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(to)) {
		if value, ok := now[key]; !ok || !bytes.Equal(value, to[key]) {
			changes = append(changes, etcdChange{Put: &etcdPair{Key: []byte(key), Value: to[key]}})
		}
	}
	const most = 100 // in a transaction; etcd takes 128
	for some := range slices.Chunk(changes, most) {
		if err := c.askEtcd(ctx, "txn", map[string]any{"success": some}, &struct{}{}); err != nil {
			return fmt.Errorf("reset %s: %w", c.Name, err)
		}
	}
	return nil
}

// read leaves out what the API server writes about itself all the time.
func (c *Cluster) read(ctx context.Context) (State, error) {
	var answer struct {
		Pairs []etcdPair `json:"kvs"`
	}
	all := map[string]any{"key": []byte("/registry/"), "range_end": []byte("/registry0")}
	if err := c.askEtcd(ctx, "range", all, &answer); err != nil {
		return nil, err
	}
	state := State{}
	for _, p := range answer.Pairs {
		key := string(p.Key)
		if !strings.HasPrefix(key, "/registry/leases/kube-system/") && !strings.HasPrefix(key, "/registry/masterleases/") && !strings.HasPrefix(key, "/registry/peerserverleases/") {
			state[key] = p.Value
		}
	}
	return state, nil
}

// resting leaves out what is renewed all the time, also while all is at rest: between two
// looks of a busy machine each Lease may be.
func (s State) resting() State {
	rest := maps.Clone(s)
	maps.DeleteFunc(rest, func(key string, _ []byte) bool { return strings.HasPrefix(key, "/registry/leases/") })
	return rest
}

// etcdPair and etcdChange are of etcd's API in JSON, where bytes are in base64.
type etcdPair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

type etcdChange struct {
	Put    *etcdPair `json:"requestPut,omitempty"`
	Delete *etcdPair `json:"requestDeleteRange,omitempty"`
}

func (c *Cluster) askEtcd(ctx context.Context, method string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcdURL+"/v3/kv/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("etcd: %s: %s", resp.Status, text)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}
