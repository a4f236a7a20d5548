package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

const (
	// announceTimeout bounds how long the backend may take to hear of a push.
	announceTimeout = 10 * time.Second
	// notAskedPause is how long a backend that does not want to hear of pushes is left
	// alone. It may be replaced by one that does.
	notAskedPause = 10 * time.Minute
)

// errNotAsked says that the backend hears of pushes otherwise, is too old to be told, or does
// not know the cluster.
var errNotAsked = errors.New("the backend does not take announcements of pushes")

// Announcements are the pushes of which the backend is still to be told: of each branch
// the newest.
type Announcements struct {
	wake  chan struct{}
	mu    sync.Mutex
	heads map[string]store.Hash
}

// AnnouncementsFor are for the pushes to a repository: nil, which takes and tells nothing,
// where there is no backend, or the backend itself takes the pushes.
func AnnouncementsFor(backendURL, repositoryURL string) *Announcements {
	if backendURL == "" || FromHost(backendURL, repositoryURL) {
		return nil
	}
	return &Announcements{wake: make(chan struct{}, 1), heads: map[string]store.Hash{}}
}

// Add has the backend told that a branch ("main") was pushed, and where it is now: "" if it
// was removed. It does not block.
func (a *Announcements) Add(branch string, head store.Hash) {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.heads[contract.HeadsPrefix+branch] = head
	a.mu.Unlock()
	a.wakeUp()
}

func (a *Announcements) wakeUp() {
	select {
	case a.wake <- struct{}{}:
	default: // who is awake takes this one, too
	}
}

// take gives as many as are told at once, first those on which most depends: branches of one
// name. Who takes is woken for the rest.
func (a *Announcements) take() (refs []restapi.RefEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := slices.SortedFunc(maps.Keys(a.heads), func(x, y string) int {
		return cmp.Or(cmp.Compare(strings.Count(x, "/"), strings.Count(y, "/")), cmp.Compare(x, y))
	})
	for _, ref := range waiting[:min(len(waiting), restapi.MaxPushedRefs)] {
		refs = append(refs, restapi.RefEvent{Ref: ref, Hash: string(a.heads[ref])})
		delete(a.heads, ref)
	}
	if len(a.heads) > 0 {
		a.wakeUp()
	}
	return refs
}

type credential struct{ user, password string }

// announce tells the backend of pushes until ctx ends. One that it cannot be told of now is
// left out: the host tells of it, too, only later.
func (o Options) announce(ctx context.Context) {
	wait := newBackoff()
	var known *credential
	if ask := o.Credentials; ask != nil {
		o.Credentials = func(ctx context.Context) (string, string, error) {
			if known == nil {
				user, password, err := ask(ctx)
				if err != nil {
					return "", "", err
				}
				known = &credential{user, password}
			}
			return known.user, known.password, nil
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.Announcements.wake:
		}
		refs := o.Announcements.take()
		if len(refs) == 0 {
			continue // those that woke it were taken before
		}
		err := o.tell(ctx, refs)
		if err == nil {
			wait.Reset()
			continue
		}
		known = nil
		pause := wait.NextBackOff()
		if errors.Is(err, errNotAsked) {
			pause = notAskedPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (o Options) tell(ctx context.Context, refs []restapi.RefEvent) error {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	body, err := json.Marshal(restapi.Pushed{Refs: refs})
	if err != nil {
		return err
	}
	req, err := o.request(ctx, http.MethodPost, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := o.Client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxLine))
	switch {
	case res.StatusCode == http.StatusNoContent:
		return nil
	case res.StatusCode == http.StatusNotFound && restapi.IsError(res.Header.Get("Content-Type"), text):
		return errNotAsked
	}
	return fmt.Errorf("the backend answered %s", res.Status)
}
