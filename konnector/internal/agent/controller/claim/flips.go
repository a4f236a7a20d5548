package claim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/flipflop"
	"gitbind.dev/konnector/internal/agent/merge"
	"gitbind.dev/konnector/internal/choice"
)

// writeOfGit remembers that the file's version is written to the object.
func (l *look) writeOfGit() []flipflop.Write {
	if l.base == nil || l.decision.Chosen != "" {
		return nil
	}
	t := flipflop.New(time.Now(), merge.Changes(l.api.spec, l.facts.Live, l.facts.File))
	t.Git, t.Since = true, l.base.Commit
	return flipflop.Add(l.base.Writes, t)
}

// writeOfCluster remembers that the object's version is committed.
func (l *look) writeOfCluster() []flipflop.Write {
	if l.base == nil || len(l.base.Writes) == 0 || l.decision.Chosen != "" {
		return nil
	}
	return flipflop.Add(l.base.Writes, flipflop.New(time.Now(), merge.Changes(l.api.spec, l.facts.Base, l.facts.Live)))
}

// flips finds out whether a field goes to and fro between cluster and Git. Once
// that is said, it holds until something else changes.
func (l *look) flips(ctx context.Context) error {
	l.facts.Flips = decision.No
	if l.base == nil || len(l.base.Writes) == 0 {
		return nil
	}
	now := time.Now()
	if h := choice.HoldOf(l.object); h != nil && h.Reason == string(decision.FlipFlop) && h.Token == l.facts.Token(decision.FlipFlop) {
		now = time.Unix(l.base.Writes[len(l.base.Writes)-1].At, 0)
	}
	fields := flipflop.Third(l.base.Writes, now, merge.Changes(l.api.spec, l.facts.Base, l.facts.Live))
	if len(fields) == 0 {
		return nil
	}
	inGit, err := l.api.Repository.Pushes.Authors(ctx, store.Hash(l.base.Writes[0].Since), store.Hash(l.base.Commit))
	if err != nil {
		return err
	}
	l.facts.Flips = decision.Yes
	l.facts.FlipWords = fmt.Sprintf("%s goes to and fro: %s in this cluster and %s in Git each write another value.",
		strings.Join(fields, ", "), names(ChangedBy(l.object)), names(inGit))
	return nil
}

func names(users []string) string {
	if len(users) == 0 {
		return "somebody"
	}
	return strings.Join(users, ", ")
}
