package claim

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/test/fakeapi"
)

// loseReplies has pushes of status land, and nothing be known of them until the func returned
// is called.
func (f *fixture) loseReplies() (end func()) {
	f.remote.SetFault(func(c memstore.Call) error {
		if c.Branch == "status" && (c.Op == memstore.Push && c.After || c.Op == memstore.Head) {
			return errors.New("connection reset")
		}
		return nil
	})
	return func() { f.remote.SetFault(nil) }
}

// answered is what the remote has.
func (f *fixture) answered() *contract.Status {
	f.Helper()
	snap, err := f.remote.Branch("status").Fetch(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	data, err := snap.Read(contract.StatusPath(f.path))
	if err != nil {
		f.Fatal(err)
	}
	s, err := contract.DecodeStatus(data)
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// isReady sets what the service says of itself, a while later.
func (f *fixture) isReady(ready string) {
	f.now = f.now.Add(time.Minute)
	f.live = f.live.DeepCopy()
	_ = unstructured.SetNestedField(f.live.Object, ready, "status", "ready")
	f.live.SetResourceVersion(fakeapi.NewVersion())
}

// The status that is known is the one before, and says already what is to be said.
func TestAnAnswerWhoseReplyWasLostIsTakenBack(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.step()
	f.isReady("yes")
	f.step()
	f.isReady("no")
	end := f.loseReplies()
	if _, _, wait := f.step(); wait == 0 {
		t.Error("it is not looked at again")
	}
	end()
	if got := f.answered().Status["ready"]; got != "no" {
		t.Fatalf("the answer did not land: ready %v", got)
	}
	f.isReady("yes")
	if _, _, wait := f.step(); wait == 0 {
		t.Error("it is not looked at again")
	}
	f.now = f.now.Add(time.Minute)
	f.step()
	if got := f.answered().Status["ready"]; got != "yes" {
		t.Errorf("answered ready %v", got)
	}
	pushes := f.remote.Pushes()
	f.step()
	if got := f.remote.Pushes(); got != pushes {
		t.Error("it is written once more")
	}
}

// The file comes back after a tombstone of which nobody here knows.
func TestATombstoneWhoseReplyWasLostStays(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.step()
	f.push("")
	f.follow()
	f.step()
	f.live = nil
	end := f.loseReplies()
	if _, _, wait := f.step(); wait == 0 {
		t.Error("it is not looked at again")
	}
	end()
	if got := f.answered(); got.Result != contract.Gone {
		t.Fatalf("the tombstone did not land: %+v", got)
	}
	f.push(good)
	f.follow()
	if _, _, wait := f.step(); wait == 0 {
		t.Error("it is not looked at again")
	}
	if got := f.answered(); got.Result != contract.Gone {
		t.Errorf("in the place of the tombstone: %+v", got)
	}
	if c := f.Session.Condition(); c.Status == "False" {
		t.Errorf("it is told as trouble of the host: %+v", c)
	}
	if answer, _, _ := f.step(); answer.Result != contract.Applied {
		t.Errorf("answer %+v", answer)
	}
}
