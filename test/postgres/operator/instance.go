package operator

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	postgresql "gitbind.dev/test/postgres/api/postgresql/v1beta3"
	postgres "gitbind.dev/test/postgres/server"
)

// instances runs the servers of Postgresqls.
type instances struct {
	base
	// ended wakes the reconciler when a server has ended by itself.
	ended chan event.GenericEvent
}

// Reconcile makes the servers what a Postgresql says.
func (r *instances) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pg := &postgresql.Postgresql{}
	if err := r.Get(ctx, req.NamespacedName, pg); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !pg.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.delete(ctx, pg)
	}
	if controllerutil.AddFinalizer(pg, finalizer) {
		if err := r.Update(ctx, pg); err != nil {
			return ctrl.Result{}, err
		}
	}
	password, err := r.superuser(ctx, pg)
	if err != nil {
		return ctrl.Result{}, err
	}
	was := pg.Status
	state := r.serve(ctx, pg, password)
	pg.Status = statusOf(state)
	if !equality.Semantic.DeepEqual(was, pg.Status) {
		if err := r.Status().Update(ctx, pg); err != nil {
			return ctrl.Result{}, err
		}
	}
	if state.Err != nil {
		return ctrl.Result{RequeueAfter: troubleInterval}, nil
	}
	return ctrl.Result{RequeueAfter: lookInterval}, nil
}

func (r *instances) delete(ctx context.Context, pg *postgresql.Postgresql) error {
	if err := r.machine.Delete(string(pg.UID)); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(pg, finalizer)
	return client.IgnoreNotFound(r.Update(ctx, pg))
}

// serve has the servers run.
func (r *instances) serve(ctx context.Context, pg *postgresql.Postgresql, password string) postgres.State {
	key := pg.DeepCopy()
	i := r.machine.Instance(string(pg.UID), func() {
		select {
		case r.ended <- event.GenericEvent{Object: key}:
		default: // It is looked at again soon.
		}
	})
	plan := planOf(pg)
	plan.Password = password
	full := r.full(pg, i)
	plan.Full = full != nil
	state := i.Reconcile(ctx, plan)
	if state.Err == nil {
		state.Err = full
	}
	if state.Err == nil && pg.Spec.Expose == "LoadBalancer" {
		state.Err = r.connection(ctx, pg, i)
	}
	return state
}

// full is an error when there is more on a disk than fits on it.
func (r *instances) full(pg *postgresql.Postgresql, i *postgres.Instance) error {
	used, err := i.Used()
	if err != nil || pg.Spec.VolumeSize == nil || used <= pg.Spec.VolumeSize.Value() {
		return err
	}
	return fmt.Errorf("the volume is full, and transactions may only read: %d MiB of %s are used", used>>20, pg.Spec.VolumeSize)
}

func statusOf(s postgres.State) postgresql.Status {
	status := postgresql.Status{ReadyReplicas: int32(s.Ready), ClusterStatus: postgresql.NotRunning}
	if s.Running {
		status.ClusterStatus = postgresql.Running
	}
	if s.Err != nil {
		status.Error = s.Err.Error()
	}
	return status
}

// superuser is the password in the superuser's Secret, which is made if it is not there.
func (r *instances) superuser(ctx context.Context, pg *postgresql.Postgresql) (string, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: pg.Namespace, Name: "postgres.credentials." + pg.Name}
	err := r.live.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		secret.Namespace, secret.Name = key.Namespace, key.Name
		secret.Data = map[string][]byte{"username": []byte("postgres"), "password": []byte(rand.Text())}
		if err := controllerutil.SetControllerReference(pg, secret, r.Scheme()); err != nil {
			return "", err
		}
		err = r.Create(ctx, secret)
	case err == nil && !metav1.IsControlledBy(secret, pg):
		err = fmt.Errorf("the Secret %s belongs to somebody else", key)
	}
	return string(secret.Data["password"]), err
}

// connection makes the ConfigMap that says where an instance is reached from outside.
func (r *instances) connection(ctx context.Context, pg *postgresql.Postgresql, i *postgres.Instance) error {
	host, port, err := i.Address()
	if err != nil {
		return err
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pg.Namespace, Name: pg.Name + "-connection"}}
	_, err = controllerutil.CreateOrUpdate(ctx, r.Client, cm, func() error {
		cm.Data = map[string]string{"host": host, "port": strconv.Itoa(port)}
		return controllerutil.SetControllerReference(pg, cm, r.Scheme())
	})
	return err
}

// planOf is what a Postgresql's spec means for servers.
func planOf(pg *postgresql.Postgresql) postgres.Plan {
	c := pg.Spec.Parameters
	settings := map[string]string{}
	limits := pg.Spec.Resources.Limits
	if limits == nil {
		limits = pg.Spec.Resources.Requests
	}
	if memory := limits.Memory().Value() >> 10; memory > 0 {
		settings["shared_buffers"] = fmt.Sprintf("%dkB", memory/4)
		settings["effective_cache_size"] = fmt.Sprintf("%dkB", memory*3/4)
	}
	if cpu := limits.Cpu().Value(); cpu > 0 {
		settings["max_parallel_workers"] = strconv.FormatInt(cpu, 10)
	}
	for name, value := range map[string]*int32{
		"max_connections": c.MaxConnections, "shared_buffers": c.SharedBuffers,
		"max_replication_slots": c.MaxReplicationSlots, "max_wal_senders": c.MaxWALSenders, "work_mem": c.WorkMem,
		"statement_timeout": c.StatementTimeoutMillis, "temp_file_limit": c.TempFileLimitKiloBytes,
		"archive_timeout": c.ArchiveTimeoutSeconds, "default_statistics_target": c.DefaultStatisticsTarget,
		"wal_writer_delay": c.WALWriterDelayMillis, "max_locks_per_transaction": c.MaxLocksPerTransaction,
	} {
		if value != nil {
			settings[name] = strconv.Itoa(int(*value))
		}
	}
	for name, value := range map[string]*string{
		"log_statement": c.LogStatement, "synchronous_commit": c.SynchronousCommit, "track_io_timing": c.TrackIOTiming,
		"client_min_messages": c.ClientMinMessages, "log_min_messages": c.LogMinMessages,
		"log_min_error_statement": c.LogMinErrorStatement, "log_error_verbosity": c.LogErrorVerbosity,
		"ssl_ciphers": c.SSLCiphers, "ssl_min_protocol_version": c.SSLMinProtocolVersion,
	} {
		if value != nil {
			settings[name] = *value
		}
	}
	return postgres.Plan{Replicas: int(pg.Spec.Replicas), Settings: settings, Extensions: pg.Spec.Extensions}
}
