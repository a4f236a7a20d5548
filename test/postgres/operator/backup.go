package operator

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	backup "gitbind.dev/test/postgres/api/backup/v1beta3"
)

// backupReconciler dumps databases into files below a folder. They stay when their
// instance goes, and go with their Backup.
type backupReconciler struct {
	base
	dir string
}

func file(dir string, uid types.UID) string { return filepath.Join(dir, string(uid)+".dump") }

// Reconcile makes the file of a Backup, once.
func (r *backupReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := &backup.Backup{}
	if err := r.Get(ctx, req.NamespacedName, b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !b.DeletionTimestamp.IsZero() {
		if err := os.Remove(file(r.dir, b.UID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(b, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, b))
	}
	if finished(b.Status.Conditions) {
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(b, finalizer) {
		if err := r.Update(ctx, b); err != nil {
			return ctrl.Result{}, err
		}
	}
	b.Status.BackupID = "backup-" + string(b.UID)
	if begin(&b.Status.Conditions) {
		if err := r.Status().Update(ctx, b); err != nil {
			return ctrl.Result{}, err
		}
	}
	size, err := r.dump(ctx, b)
	b.Status.LastObservationTime = new(metav1.Now())
	if err == nil {
		b.Status.Size = size
		complete(&b.Status.Conditions)
		return ctrl.Result{}, r.Status().Update(ctx, b)
	}
	wait := backOff(b.Status.Retries)
	if again := retries(b.Spec.MaxRetries); again >= 0 && int(b.Status.Retries) >= again {
		fail(&b.Status.Conditions, backup.PermanentlyFailed, "DumpFailed", err)
		wait = 0
	} else {
		b.Status.Retries++
		fail(&b.Status.Conditions, backup.Failed, "DumpFailed", err)
	}
	return ctrl.Result{RequeueAfter: wait}, r.Status().Update(ctx, b)
}

func (r *backupReconciler) dump(ctx context.Context, b *backup.Backup) (int64, error) {
	_, i, err := r.instance(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.ServiceInstance.Name})
	if err != nil {
		return 0, err
	}
	return i.Dump(ctx, file(r.dir, b.UID))
}

// retries is how often a backup is tried again, -1 without an end.
func retries(max *intstr.IntOrString) int {
	if max == nil {
		return 10
	}
	if max.Type == intstr.Int {
		return max.IntValue()
	}
	n, err := strconv.Atoi(max.StrVal)
	if err != nil {
		return -1
	}
	return n
}

// backOff is how long after a try that failed the next one begins.
func backOff(retries int32) time.Duration {
	return min(time.Second<<min(retries, 5), 30*time.Second)
}
