package requests

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gitbind.dev/backend/internal/login"
)

// subject verifies tokens that are a subject.
type subject struct{}

func (subject) Verify(_ context.Context, raw string) (login.Identity, error) {
	return login.Identity{Issuer: "i", Subject: raw}, nil
}

// unread is an answer that its client does not read until it ends.
type unread struct {
	http.ResponseWriter
	refused *atomic.Int64
	end     chan struct{}
}

func (u unread) WriteHeader(status int) {
	if status == http.StatusTooManyRequests {
		u.refused.Add(1)
	}
}

func (u unread) Write(b []byte) (int, error) {
	<-u.end
	return len(b), nil
}

func TestH4_AnswersThatOnePersonDoesNotReadAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Login: subject{}, Log: slog.New(slog.DiscardHandler)}
		flows := 0
		h := s.Handle(time.Second, func(http.ResponseWriter, *http.Request, login.Identity) (any, error) {
			flows++
			return "much", nil
		})
		var refused atomic.Int64
		end := make(chan struct{})
		ask := func(who string) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel() // as net/http does
			r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
			r.Header.Set("Authorization", "Bearer "+who)
			h.ServeHTTP(unread{httptest.NewRecorder(), &refused, end}, r)
		}
		for range 100 {
			go ask("mallory")
			synctest.Wait()
			time.Sleep(time.Second) // longer than a request may take that is not answered yet
		}
		if flows != 16 || refused.Load() != 84 {
			t.Errorf("%d answers of one person wait, %d are refused", flows, refused.Load())
		}
		go ask("alice")
		synctest.Wait()
		if flows != 17 {
			t.Error("somebody else is kept out")
		}
		close(end)
		synctest.Wait()
		ask("mallory")
		if flows != 18 {
			t.Error("what has been read still counts")
		}
	})
}
