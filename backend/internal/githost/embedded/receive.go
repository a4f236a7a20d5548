package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store/memory"
)

const (
	// receiveTimeout bounds the checks of one push, and git's own work on it.
	receiveTimeout = 5 * time.Minute
	// staleReason is what a program looks for: somebody pushed first.
	staleReason = "fetch first"
)

// receive serves a push.
func (h *Host) receive(w http.ResponseWriter, r *http.Request, repo *repository, caller access.Caller) error {
	who := h.holder(r.Context(), caller)
	leave, err := h.pushing.enter(r.Context(), who)
	if err != nil {
		return err
	}
	defer leave()
	// All of it, before anybody waits for this push: clients may be slow.
	body, err := h.newSpool(w, r, h.cfg.MaxPush, pushTooLarge)
	if err != nil {
		return err
	}
	defer body.close()

	ctx, cancel := context.WithTimeout(r.Context(), receiveTimeout)
	defer cancel()
	answer, err := h.push(ctx, repo, caller, who, body)
	if errors.Is(err, memory.ErrBusy) {
		return refusal.New(refusal.Unavailable, "the Git host is busy with other large pushes: try again in a minute")
	}
	if err != nil {
		return err
	}
	// A client that went away will find the outcome in the refs.
	_, _ = h.progressWriter(w).Write(answer)
	return nil
}

// push judges a push and, if nothing is against it, has git do it. The answer
// is in the protocol's own form.
func (h *Host) push(ctx context.Context, repo *repository, caller access.Caller, who holder, body *spool) ([]byte, error) {
	head := body.from(0)
	req, err := parsePushRequest(head)
	if err != nil {
		return nil, refusal.Because(err, refusal.Invalid, "this is no push that can be read: %v", err)
	}
	if len(req.Commands) == 0 {
		return nil, nil // git asks whether it would be let in
	}
	packAt, err := head.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	if no := refRules(caller.Role, req); no != nil {
		return h.refused(req, repo, caller, no), nil
	}

	worked, err := h.rates.begin(ctx, who, body.size)
	if err != nil {
		return nil, err
	}
	// The repository's turn first: one repository takes one place of all.
	if err := repo.lock(ctx); err != nil {
		return nil, err
	}
	defer repo.unlock()
	leave, err := h.receives.enter(ctx, who)
	if err != nil {
		return nil, err
	}
	defer leave()

	if err := h.room(ctx, repo, caller.Role, req, body.size-packAt); err != nil {
		return h.notTaken(req, repo, caller, err)
	}
	before, moved, err := repo.present(req)
	if err != nil {
		return nil, err
	}
	if moved != "" {
		return stalePush(req, moved), nil
	}
	ctx, claim := h.memory.Claim(ctx)
	defer claim.Release()
	c := newCheck(ctx, repo, caller, claim.Take)
	var byGit int64
	defer func() { worked(c.pack.Unpacked + c.pack.Bases + byGit) }()
	defer c.reader.close()
	if err := c.push(req, body.from(packAt), body.size-packAt); err != nil {
		return h.notTaken(req, repo, caller, err)
	}
	stored := body.size - packAt
	if c.pack.Bases > 0 {
		// Git stores what the deltas of a pack are on once more, with the pack.
		stored += c.pack.Bases
		if err := h.room(ctx, repo, caller.Role, &pushRequest{}, stored); err != nil {
			return h.notTaken(req, repo, caller, err)
		}
	}
	if err := repo.unlockKilled(); err != nil {
		return nil, err
	}
	if err := h.recordPushes(ctx, repo, caller, req); err != nil {
		return h.notTaken(req, repo, caller, err)
	}
	if err := c.stillAbsent(req); err != nil {
		return h.notTaken(req, repo, caller, err)
	}
	answer, size, ok := h.takeDirectly(ctx, repo, c, req, body.inMemory(packAt))
	h.served("receive", ok)
	if ok {
		stored = size
	} else {
		answer, byGit, err = repo.receivePack(ctx, caller, req, body.from(0))
	}
	// Whatever git answered, or whether it was stopped: the refs tell.
	if h.announce(repo, caller, req, before) == len(req.Commands) {
		c.remember()
		repo.size.Add(stored)
	}
	return answer, err
}

// diskReserve is what is left for git's own work and for repacks: a disk that is
// full to the last byte cannot even be tidied up.
const diskReserve = 32 << 20

// hasRoom says whether a pack may be taken, before git tries. It is a guess, and
// git's own error where it is wrong.
func (h *Host) hasRoom(pack int64) bool {
	free, err := h.Free()
	return err != nil || free >= pack+h.reserve
}

// Free is how many bytes the disk of the repositories has left.
func (h *Host) Free() (int64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(h.git.dir, &disk); err != nil {
		return 0, fmt.Errorf("ask for the free space of %s: %w", h.git.dir, err)
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil //nolint:unconvert // It has another type elsewhere.
}

// present gives the values of a push's refs, or the first ref that does not
// have the value that the push starts from.
func (r *repository) present(req *pushRequest) (before []plumbing.Hash, moved string, err error) {
	for _, c := range req.Commands {
		now, err := readRef(r.dir, c.Ref)
		if err != nil {
			return nil, "", err
		}
		if now != c.Old {
			return nil, c.Ref, nil
		}
		before = append(before, now)
	}
	return before, "", nil
}

// refused is the answer to a push that the rules are against.
func (h *Host) refused(req *pushRequest, repo *repository, caller access.Caller, no *ruling) []byte {
	h.cfg.Log.Info("Push refused", "cluster", repo.id, "by", accessName(caller), "ref", no.Ref, "reason", no.Words)
	reasons := make([]string, len(req.Commands))
	for i, c := range req.Commands {
		reasons[i] = "gitbind: " + no.Words
		if c.Ref != no.Ref {
			reasons[i] = "gitbind: not done, because " + no.Ref + " was refused"
		}
	}
	return refusedPush(req, "gitbind: "+strings.TrimPrefix(no.Ref, contract.HeadsPrefix)+": "+no.Words, reasons)
}

// notTaken is the answer to a push that the rules are against, or that there is no room for;
// any other error stays one.
func (h *Host) notTaken(req *pushRequest, repo *repository, caller access.Caller, err error) ([]byte, error) {
	var rule *ruling
	var full *noRoom
	switch {
	case errors.As(err, &rule):
		return h.refused(req, repo, caller, rule), nil
	case errors.As(err, &full):
		return h.noRoomFor(req, repo, caller, full), nil
	}
	return nil, err
}

// noRoomFor is the answer to a push that there is no room for.
func (h *Host) noRoomFor(req *pushRequest, repo *repository, caller access.Caller, no *noRoom) []byte {
	log := h.cfg.Log.Warn
	if no.what == diskFull {
		log = h.cfg.Log.Error
	}
	log("Push refused", "cluster", repo.id, "by", accessName(caller), "reason", no.what)
	return fullPush(req, no.push)
}

// stalePush is the answer to a push whose ref has moved meanwhile.
func stalePush(req *pushRequest, ref string) []byte {
	reasons := make([]string, len(req.Commands))
	for i := range reasons {
		reasons[i] = staleReason
	}
	return refusedPush(req, "gitbind: "+strings.TrimPrefix(ref, contract.HeadsPrefix)+" has moved since you fetched: fetch, then push again", reasons)
}

// receivePack has git do the push. It keeps the objects apart until it has seen
// that they are whole, and sets a ref only from the value that was judged. Worked is what that
// counts as, in bytes.
func (r *repository) receivePack(ctx context.Context, caller access.Caller, req *pushRequest, stdin io.Reader) (answer []byte, worked int64, err error) {
	// The rules have said as much already; git looks once more.
	args := []string{"-c", "receive.denyDeletes=true"}
	for _, c := range req.Commands {
		if c.remove() {
			args = nil
		}
	}
	if caller.Role != access.Bridge {
		args = append(args, "-c", "receive.denyNonFastForwards=true")
	}
	// All of the push is here. A client that goes away must not end git while it
	// holds the lock of a ref: nobody would take that away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), receiveTimeout)
	defer cancel()
	cmd := r.git.command(ctx, r.dir, append(args, "receive-pack", "--stateless-rpc", ".")...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	err = r.git.run(cmd)
	worked = gitWork + gitWorked(cmd.ProcessState)
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && !ended.Exited() {
		r.killed.Store(true)
	}
	if err != nil && stdout.Len() == 0 {
		return nil, worked, fmt.Errorf("git receive-pack: %w: %s", err, abbreviate(strings.TrimSpace(stderr.String())))
	}
	if err := r.syncNames("pack", refsOf(req.Commands)...); err != nil {
		return nil, worked, err
	}
	return stdout.Bytes(), worked, nil
}

// announce tells of the branches that a push has moved, and how many.
func (h *Host) announce(repo *repository, caller access.Caller, req *pushRequest, before []plumbing.Hash) (moved int) {
	for i, c := range req.Commands {
		now, err := readRef(repo.dir, c.Ref)
		if err != nil {
			h.cfg.Log.Error("Ref not readable after a push", "cluster", repo.id, "ref", c.Ref, "error", err)
			continue
		}
		if now == before[i] {
			continue
		}
		moved++
		e := restapi.RefEvent{Ref: c.Ref}
		if !now.IsZero() {
			e.Hash = now.String()
		}
		if h.cfg.Moved != nil {
			h.cfg.Moved(repo.id, e)
		}
		h.cfg.Log.Debug("Push", "cluster", repo.id, "by", accessName(caller), "ref", c.Ref, "hash", e.Hash)
	}
	if moved > 0 {
		h.countPush(repo)
	}
	return moved
}
