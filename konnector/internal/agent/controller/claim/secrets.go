package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/delivery"
)

const (
	// secretsInterval is how often Secrets that were delivered are looked at though
	// nothing changed in Git: nobody tells of those that somebody deleted or edited.
	// It is longer where that would be more than one a second.
	secretsInterval = 10 * time.Minute
	// secretsRetryInterval is how often a delivery is tried again that failed.
	secretsRetryInterval = 30 * time.Second
)

// secretDelivery brings the Secrets of one API's claims into their namespaces.
type secretDelivery struct {
	deliverer delivery.Deliverer
	known     secrets
}

func newSecretDelivery(c client.Client) secretDelivery {
	return secretDelivery{deliverer: delivery.Deliverer{Client: c, FieldOwner: fieldOwner}}
}

// saidBefore is what was said of the claim's Secrets last. It is errIncomplete where
// that is not known and has to be.
func (d *secretDelivery) saidBefore(l *look) (secretsSaid, error) {
	if known := d.known.get(l.key); known != nil && known.uid == l.object.GetUID() {
		return known.said, nil
	}
	if l.reduced == nil {
		return secretsIn(l.object), nil
	}
	s := secretsSaid{sequence: l.reduced.secretsSequence}
	for _, name := range l.reduced.secrets {
		s.delivered = append(s.delivered, deliveredSecret{name: name})
	}
	if _, keepsAll := l.delivers(); len(s.delivered) > 0 && (keepsAll || l.answer.Secrets == nil || l.acceptList(s.sequence, l.api.Repository.Opener()) != nil) {
		return s, errIncomplete
	}
	return s, nil
}

// delivers reports whether the claim's Secrets are to be as the control plane says. While
// it is going, or a person has paused it, they stay as they are; and what is not known to be
// true changes nothing. While a person is to decide on the claim, or on its delete, its
// service runs on: newer versions of the Secrets that are here go on, and keepsAll says that
// no other comes and none goes.
func (l *look) delivers() (delivers, keepsAll bool) {
	f, d := &l.facts, l.decision
	switch {
	case l.answer == nil, l.view.StatusReplaced != "", f.NamespaceMissing:
		return false, true
	case f.Terminating && (l.file == nil || f.Ending == decision.NamespaceEnds || f.Ending == decision.APIEnds):
		return false, true
	case d.Action == decision.Hold, f.Terminating && d.Action == decision.AwaitReview:
		return d.Reason != decision.Paused && !l.view.IsHeld(), true
	}
	return !f.Terminating, f.Terminating
}

// acceptList says why the control plane's list of Secrets is not taken.
func (l *look) acceptList(last int64, o *encryption.Opener) error {
	return l.claimOfSecrets().Accept(l.answer.Secrets, last, o)
}

// deliver brings the claim's Secrets here, if anything of them changed since it did
// last, and keeps with the look what there is to say of them.
func (d *secretDelivery) deliver(ctx context.Context, l *look) error {
	if l.object == nil {
		d.known.forget(l.key)
		return nil
	}
	before, err := d.saidBefore(l)
	if err != nil {
		return err
	}
	l.secrets = before
	defer l.addListed()
	delivers, keepsAll := l.delivers()
	if !delivers || keepsAll && len(before.delivered) == 0 {
		return nil
	}
	if l.answer.Secrets == nil && len(l.answer.Withheld) == 0 && len(before.delivered) == 0 {
		d.known.forget(l.key)
		l.secrets = secretsSaid{sequence: before.sequence}
		return nil
	}
	repo := l.api.Repository
	now := &delivered{
		uid: l.object.GetUID(), list: l.answer.Secrets, mayBeAnother: l.mayBeAnother(), opener: repo.Opener(), files: filesOf(l, l.view.Status), withheld: l.answer.Withheld,
		failed: map[string]bool{}, keepsAll: keepsAll,
	}
	known := d.known.get(l.key)
	if known.covers(now) {
		l.secretsDue, l.unopened = known.due, known.unopened
		return nil
	}
	// From here on a file that changes calls the claim.
	d.known.expect(l.key, l.answer.Secrets.Names())
	if err := d.deliverAll(ctx, l, now, known); err != nil {
		return err
	}
	if !maps.Equal(now.files, filesOf(l, repo.Remote.Status.Snapshot())) || now.opener != repo.Opener() {
		// It changed before that.
		now.due = time.Now()
	}
	d.known.set(l.key, now)
	l.secrets, l.secretsDue, l.unopened = now.said, now.due, now.unopened
	return nil
}

// addListed has the status of a claim that is being deleted name all Secrets that are
// listed: one may have been delivered by a process that ended before the status said so, and
// once the service is gone, nothing lists it.
func (l *look) addListed() {
	if !l.facts.Terminating || l.answer == nil || l.answer.Secrets == nil || l.acceptList(l.secrets.sequence, l.api.Repository.Opener()) != nil {
		return
	}
	all := slices.Clone(l.secrets.delivered)
	for _, name := range l.answer.Secrets.Names() {
		if l.secrets.find(name) == nil {
			all = append(all, deliveredSecret{name: name})
		}
	}
	l.secrets.delivered = all
}

// filesOf are the hashes of the files of the Secrets that the control plane lists, by
// the Secrets' names; "" where there is no file.
func filesOf(l *look, status *store.Snapshot) map[string]store.Hash {
	files := map[string]store.Hash{}
	for _, name := range l.answer.Secrets.Names() {
		files[name] = ""
		if e, ok := status.Entry(secretKey(l.key, name).Path()); ok {
			files[name] = e.Hash
		}
	}
	return files
}

func secretKey(claim contract.Key, name string) contract.SecretKey {
	return contract.SecretKey{Binding: claim.Binding, Namespace: claim.Namespace, Name: name}
}

// deliverAll brings each Secret that is listed, and takes away what was delivered and
// is listed no more. What it did is in now.
func (d *secretDelivery) deliverAll(ctx context.Context, l *look, now, known *delivered) error {
	var troubles []*delivery.Trouble
	note := func(err error) error {
		var t *delivery.Trouble
		if err != nil && !errors.As(err, &t) {
			return err
		}
		if t != nil {
			troubles = append(troubles, t)
			now.retry = now.retry || t.Retry
			now.unopened = now.unopened || t.Reason == delivery.NoKey || t.Reason == delivery.UnknownSigner
		}
		return nil
	}
	for name, why := range now.withheld {
		troubles = append(troubles, delivery.NotSent(name, why))
	}
	now.said.sequence = l.secrets.sequence
	var refused error
	if now.list != nil {
		refused = l.told(l.acceptList(l.secrets.sequence, now.opener))
	}
	if now.list == nil || refused != nil {
		// Nothing says that anything is another one than it was.
		for name := range now.files {
			now.failed[name] = true
		}
		now.said.delivered = slices.Clone(l.secrets.delivered)
		err := note(refused)
		now.said.sum(troubles)
		return err
	}
	now.said.sequence = now.list.Sequence
	if err := d.deliverListed(ctx, l, now, known, note); err != nil {
		return err
	}
	for _, old := range l.secrets.delivered {
		if _, listed := now.files[old.name]; listed {
			continue
		}
		if now.keepsAll {
			now.said.delivered = append(now.said.delivered, old)
			continue
		}
		err := d.deliverer.Remove(ctx, l.claimOfSecrets(), old.name)
		if err := note(err); err != nil {
			return err
		}
		if err != nil {
			now.said.delivered = append(now.said.delivered, old)
		}
	}
	now.said.sum(troubles)
	return nil
}

// removeAll deletes what was delivered of a service that is gone. Kubernetes collects
// what an object controls, but not always: where a claim of the same name is there before
// its collector has looked again, as after an outage of the API server, it takes that for
// the object and keeps what is left of the one before.
func (d *secretDelivery) removeAll(ctx context.Context, l *look) error {
	said, err := d.saidBefore(l)
	if err != nil {
		return err
	}
	for _, one := range said.delivered {
		err := d.deliverer.Remove(ctx, l.claimOfSecrets(), one.name)
		// What people would have to mend does not keep the object: it is collected.
		if err != nil && !errors.As(err, new(*delivery.Trouble)) {
			return err
		}
	}
	return nil
}

func (d *secretDelivery) deliverListed(ctx context.Context, l *look, now, known *delivered, note func(error) error) error {
	for name := range now.files {
		there := l.secrets.find(name)
		if there == nil && now.keepsAll {
			continue
		}
		// One of which it is not said since when is only listed: see addListed.
		if there != nil && (known.has(now, name) || now.keepsAll && there.since == "") {
			now.said.delivered = append(now.said.delivered, *there)
			continue
		}
		sequence, err := d.deliverOne(ctx, l, now.opener, delivery.Secret{Name: name, Sequence: now.list.Versions[name], Known: there != nil})
		if err := note(err); err != nil {
			return err
		}
		switch {
		case sequence > 0:
			now.said.delivered = append(now.said.delivered, deliveredSecret{name, since(sequence)})
		case there != nil && !isForeign(err):
			now.said.delivered = append(now.said.delivered, *there)
		}
		now.failed[name] = err != nil
	}
	return nil
}

// told has the backend asked whether there is another signing key, where one is not known.
func (l *look) told(err error) error {
	var t *delivery.Trouble
	if errors.As(err, &t) && t.Reason == delivery.UnknownSigner {
		l.api.Repository.UnknownSigner()
	}
	return err
}

func isForeign(err error) bool {
	var t *delivery.Trouble
	return errors.As(err, &t) && t.Reason == delivery.SecretExists
}

func (l *look) claimOfSecrets() delivery.Claim {
	c := delivery.Claim{
		Key: l.key, APIVersion: l.object.GetAPIVersion(), Kind: l.object.GetKind(), UID: l.object.GetUID(),
		MayBeAnother: l.mayBeAnother(),
	}
	if l.answer != nil && l.answer.Secrets != nil {
		c.AnsweredUID = l.answer.Secrets.UID
	}
	return c
}

// deliverOne reads a file and delivers it.
func (d *secretDelivery) deliverOne(ctx context.Context, l *look, o *encryption.Opener, s delivery.Secret) (int64, error) {
	var err error
	s.File, err = l.view.Status.Read(secretKey(l.key, s.Name).Path())
	switch {
	case errors.Is(err, store.ErrTooLarge):
		return 0, &delivery.Trouble{Reason: delivery.TooLarge, Message: fmt.Sprintf("Secret %s is not taken: its file on branch status is too large.", s.Name)}
	case err != nil && !errors.Is(err, store.ErrNotExist):
		return 0, fmt.Errorf("read the file of Secret %s: %w", s.Name, err)
	case err != nil:
		return 0, &delivery.Trouble{Reason: delivery.Missing, Message: fmt.Sprintf("Secret %s is not on branch status, and the control plane says that it is.", s.Name)}
	}
	sequence, err := d.deliverer.Deliver(ctx, l.claimOfSecrets(), s, o)
	return sequence, l.told(err)
}
