package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backup "gitbind.dev/test/postgres/api/backup/v1beta3"
	postgres "gitbind.dev/test/postgres/server"
)

// restores brings backups back into instances.
type restores struct {
	base
	dir string

	// begun are those that this operator has begun.
	mu    sync.Mutex
	begun map[types.UID]bool
}

// errUnknown is for a restore that was under way when the operator ended. To make it
// again would undo what was written since, if it had been made.
var errUnknown = errors.New("the operator ended during the restore, and whether it was made is not known: " +
	"look at the data, and make another Restore if they are not as they were")

// Reconcile makes a Restore, once.
func (r *restores) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o := &backup.Restore{}
	if err := r.Get(ctx, req.NamespacedName, o); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !o.DeletionTimestamp.IsZero() || finished(o.Status.Conditions) {
		return ctrl.Result{}, nil
	}
	was := o.Status.DeepCopy()
	again := r.restore(ctx, o)
	if equality.Semantic.DeepEqual(*was, o.Status) {
		return again, nil
	}
	o.Status.LastObservationTime = new(metav1.Now())
	return again, r.Status().Update(ctx, o)
}

// restore sets the status.
func (r *restores) restore(ctx context.Context, o *backup.Restore) ctrl.Result {
	conditions := &o.Status.Conditions
	if meta.IsStatusConditionTrue(*conditions, backup.InProgress) && !r.has(o.UID) {
		fail(conditions, backup.PermanentlyFailed, "Interrupted", errUnknown)
		return ctrl.Result{}
	}
	again := ctrl.Result{RequeueAfter: troubleInterval}
	i, from, err := r.possible(ctx, o)
	if err != nil {
		fail(conditions, backup.Failed, "NotPossible", err)
		return again
	}
	r.add(o.UID)
	o.Status.RestoreID = "restore-" + string(o.UID)
	if begin(conditions) {
		if err := r.Status().Update(ctx, o); err != nil {
			return again
		}
	}
	if err := i.Restore(ctx, file(r.dir, from)); err != nil {
		fail(conditions, backup.Failed, "RestoreFailed", err)
		return again
	}
	complete(conditions)
	return ctrl.Result{}
}

func (r *restores) has(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun[uid]
}

func (r *restores) add(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun == nil {
		r.begun = map[types.UID]bool{}
	}
	r.begun[uid] = true
}

// possible is the instance and the UID of the backup, if both are ready and there is
// room.
func (r *restores) possible(ctx context.Context, o *backup.Restore) (*postgres.Instance, types.UID, error) {
	b := &backup.Backup{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Spec.BackupName}, b); err != nil {
		if client.IgnoreNotFound(err) == nil {
			err = fmt.Errorf("there is no Backup %s in namespace %s", o.Spec.BackupName, o.Namespace)
		}
		return nil, "", err
	}
	if !meta.IsStatusConditionTrue(b.Status.Conditions, backup.Complete) {
		return nil, "", fmt.Errorf("the Backup %s is not complete", b.Name)
	}
	pg, i, err := r.instance(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Spec.ServiceInstance.Name})
	if err != nil {
		return nil, "", err
	}
	used, err := i.Used()
	if err == nil && pg.Spec.VolumeSize != nil && used+b.Status.Size > pg.Spec.VolumeSize.Value() {
		err = fmt.Errorf("the backup has %d MiB, and of the volume's %s %d MiB are used", b.Status.Size>>20, pg.Spec.VolumeSize, used>>20)
	}
	return i, b.UID, err
}
