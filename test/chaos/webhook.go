package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"sync"

	"gitbind.dev/test/env"
	webhooks "gitbind.dev/test/webhook"
)

// hooked is a field that the webhook adds to each object that has none.
const hooked = "hooked"

// webhook is somebody else's admission webhook in the app cluster, for one API: it
// adds a field, and at random it refuses a write, or breaks.
type webhook struct {
	server *httptest.Server

	mu sync.Mutex
	// rng is nil as long as each write is let through.
	rng *rand.Rand
}

func (r *run) installWebhook(ctx context.Context, a *api) error {
	r.webhook = &webhook{}
	var err error
	r.webhook.server, err = webhooks.Install(ctx, r.Cluster(env.App).Config(), "chaos", a.resource.GroupResource(), r.webhook.answer)
	return err
}

// trouble has the webhook refuse and break, by chance, or let all through for nil.
func (w *webhook) trouble(rng *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rng = rng
}

// roll is from 0 to 99, and 99 when nothing is to go wrong.
func (w *webhook) roll() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rng == nil {
		return 99
	}
	return w.rng.IntN(100)
}

func (w *webhook) answer(object []byte) ([]byte, error) {
	switch roll := w.roll(); {
	case roll < 3:
		return nil, webhooks.ErrBroken
	case roll < 6:
		return nil, errors.New("not now")
	}
	return addHooked(object), nil
}

// addHooked is a JSON patch that adds the field to an object without it.
func addHooked(object []byte) []byte {
	var u struct {
		Spec struct {
			Cluster map[string]string `json:"cluster"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(object, &u); err != nil || u.Spec.Cluster[hooked] != "" {
		return []byte("[]")
	}
	if u.Spec.Cluster == nil {
		return fmt.Appendf(nil, `[{"op":"add","path":"/spec/cluster","value":{%q:"yes"}}]`, hooked)
	}
	return fmt.Appendf(nil, `[{"op":"add","path":"/spec/cluster/%s","value":"yes"}]`, hooked)
}
