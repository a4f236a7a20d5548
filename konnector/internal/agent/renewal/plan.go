package renewal

import (
	"hash/fnv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/restapi"
)

// kept is the credential as the Secret has it.
type kept struct {
	user, password string
	expires        time.Time
	// previous is the password before a renewal, until the new one was taken.
	previous string
	// git opens the repository, and previousGit did before a renewal; without a password if that
	// is what opens the backend.
	git, previousGit restapi.GitCredential
}

// known is what the backend said of a password last.
type known struct {
	password            string
	expires, renewAfter time.Time
	// dead says that it does not count.
	dead bool
	at   time.Time
}

// counts is until when the kept password counts; nil if the backend did not say so of it.
func (n known) counts(k kept) *metav1.Time {
	if n.password != k.password || n.dead || n.expires.IsZero() {
		return nil
	}
	return &metav1.Time{Time: n.expires.Truncate(time.Second)}
}

// step is what to do next.
type step int

const (
	// wait until the time that comes with it.
	wait step = iota
	// look asks the backend about the password.
	look
	// confirm shows a renewed password to the backend, and takes the one before
	// it back when that is refused.
	confirm
	// renew asks for the next one.
	renew
	// renewGit asks for another one of the Git host only.
	renewGit
)

const (
	// again is how often a password is asked about that the repository refuses,
	// or that counts no longer.
	again = time.Minute
	// unsupported is how often a backend is asked that renews nothing.
	unsupported = time.Hour
	// pollInterval is how often to see whether the repository uses a new password yet.
	pollInterval = 50 * time.Millisecond
)

// facts are what is decided on.
type facts struct {
	now   time.Time
	kept  kept
	known known
	// inUse is the password that the repository is asked with.
	inUse string
	// refused is since when the repository, or the events, refuse it; zero when
	// they do not.
	refused time.Time
	// renewed is when this process renewed it last, and renewedGit what opens the Git host.
	renewed, renewedGit time.Time
	// failed is the step that was done last, if it failed, and wait otherwise.
	failed step
	// seed spreads the renewals of many clusters.
	seed string
}

// next decides. It is pure.
func next(f facts) (step, time.Time) {
	at, gitAt := f.due(), f.gitDue()
	isDue, isGitDue := !f.now.Before(at), !gitAt.IsZero() && !f.now.Before(gitAt)
	switch {
	case f.kept.previous != "" && f.inUse == "":
		return wait, f.now.Add(again) // the repository cannot be opened
	case f.kept.previous != "" && f.inUse != f.kept.password:
		// Its first use ends the one before, which is still at work.
		return wait, f.now.Add(pollInterval)
	case f.kept.previous != "":
		return confirm, f.now
	case f.known.password != f.kept.password:
		return look, f.now
	case !f.refused.IsZero() && !f.known.dead && f.known.at.Before(f.refused.Add(time.Second)):
		// It counted when it was asked about last.
		return look, f.now
	case !f.refused.IsZero() && !f.known.dead && !f.kept.git.Expires.IsZero() && f.renewed.Before(f.refused) && f.renewedGit.Before(f.refused):
		// The Git host let go of the one that it gave, or it has expired.
		return f.unlessFailed(renewGit, renew, isDue), f.now
	case !f.refused.IsZero() && !f.known.dead && f.kept.git.Password != "" && f.kept.git.Expires.IsZero() && f.renewed.Before(f.refused):
		// The Git host let go of the one that it gave: another one comes with a renewal.
		return renew, f.now
	}
	lookAt := f.known.at.Add(again)
	looks := f.known.dead || !f.refused.IsZero()
	switch {
	case looks && !f.now.Before(lookAt):
		return look, f.now
	case f.known.dead:
		return wait, lookAt
	}
	// What counts is renewed, though the Git host may refuse it: that may pass, and later.
	switch {
	case isDue:
		return f.unlessFailed(renew, renewGit, isGitDue), f.now
	case isGitDue:
		return renewGit, f.now
	case !gitAt.IsZero() && gitAt.Before(at):
		at = gitAt
	}
	if looks && lookAt.Before(at) {
		at = lookAt
	}
	return wait, at
}

// unlessFailed is a renewal, or the other one if that is due as well and the first failed last:
// no renewal is tried on and on until the other's credential has expired.
func (f facts) unlessFailed(renewal, other step, isOtherDue bool) step {
	if f.failed == renewal && isOtherDue {
		return other
	}
	return renewal
}

// due is when to renew what the backend knows, and gitDue what opens the Git host; zero if that
// does not expire.
func (f facts) due() time.Time { return due(f.known.expires, f.known.renewAfter, f.renewed, f.seed) }

func (f facts) gitDue() time.Time {
	if f.kept.git.Expires.IsZero() {
		return time.Time{}
	}
	return due(f.kept.git.Expires, f.kept.git.RenewAfter, f.renewedGit, f.seed)
}

// due is when to renew: a little later than the backend says, for each cluster
// at another time. A clock that is wrong makes it no more often than ten times
// within what is left then.
func due(expires, renewAfter, renewed time.Time, seed string) time.Time {
	left := expires.Sub(renewAfter)
	if left <= 0 {
		return expires
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(seed + expires.String()))
	at := renewAfter.Add(time.Duration(float64(left) / 10 * float64(h.Sum32()%1000) / 1000))
	if least := renewed.Add(left / 10); at.Before(least) {
		return least
	}
	return at
}

// left is how long the shorter of the backend's and the Git host's credentials counts still. Of
// the latter it is never so little that it is asked for more often than once per again.
func left(k kept, n known, now time.Time) time.Duration {
	left := n.expires.Sub(now)
	if k.git.Expires.IsZero() {
		return left
	}
	gitLeft := max(k.git.Expires.Sub(now), 10*again)
	if n.expires.IsZero() {
		return gitLeft
	}
	return min(left, gitLeft)
}

// backOff is how long to wait after a failure, the first one being 1.
func backOff(failures int, left time.Duration) time.Duration {
	d := 5 * time.Second << min(failures-1, 7)
	if left > 0 && d > left/10 {
		d = max(left/10, time.Second)
	}
	return d
}
