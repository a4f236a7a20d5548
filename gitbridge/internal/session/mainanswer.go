package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// answerRetry is when an answer is written again that was not taken.
const answerRetry = 3 * time.Second

// mainAnswer is the answer to main as a whole: what is wrong with it. It is written
// beside all else, and as soon as anything may be written.
type mainAnswer struct {
	status *statusbranch.Branch
	stops  *Stops
	// news wakes write.
	news chan struct{}

	mu     sync.Mutex
	wanted struct {
		result contract.Result
		head   store.Hash
		words  string
	}
}

// set says what is wrong with main, "" for nothing.
func (a *mainAnswer) set(result contract.Result, head store.Hash, words string) {
	a.mu.Lock()
	a.wanted.result, a.wanted.head, a.wanted.words = result, head, words
	a.mu.Unlock()
	a.wake()
}

func (a *mainAnswer) wake() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// keep writes what was set, until ctx ends. What is in the way is told with other
// answers, which are written likewise.
func (a *mainAnswer) keep(ctx context.Context) {
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.news:
		case <-timer.C:
		}
		if err := a.write(ctx); err != nil {
			timer.Reset(answerRetry)
		}
	}
}

func (a *mainAnswer) write(ctx context.Context) error {
	a.mu.Lock()
	wanted := a.wanted
	a.mu.Unlock()
	change := statusbranch.Change{Path: contract.MainAnswerPath, Subject: "status: main can be read"}
	_, there := a.status.Snapshot().Entry(change.Path)
	mayBeThere := there || a.status.IsDoubtful(change.Path)
	if a.stops.Why() != nil || wanted.words == "" && !mayBeThere {
		return nil
	}
	if wanted.words != "" {
		data, err := contract.EncodeStatus(&contract.Status{
			Result: wanted.result, Answers: contract.Answers{Commit: string(wanted.head)}, Message: wanted.words,
			Problem: &contract.Problem{File: "main", Reason: wanted.words},
		})
		if err != nil {
			return err
		}
		change.Data, change.Subject = data, fmt.Sprintf("status: %s main", wanted.result)
	}
	return a.status.Write(ctx, change)
}
