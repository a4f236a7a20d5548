package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/test/env"
	backup "gitbind.dev/test/postgres/api/backup/v1beta3"
	postgresql "gitbind.dev/test/postgres/api/postgresql/v1beta3"
	servicebinding "gitbind.dev/test/postgres/api/servicebinding/v1beta3"
	postgres "gitbind.dev/test/postgres/server"
)

// TestOperator has one API server and, in each of its tests, an operator and servers of
// its own.
func TestOperator(t *testing.T) {
	e := env.StartForTest(t, env.Options{Clusters: []string{clusterName}, NoControllerManager: true})
	if _, err := postgres.Find(); err != nil {
		t.Fatal(err)
	}
	if err := e.Cluster(clusterName).Apply(t.Context(), "test/postgres/crds"); err != nil {
		t.Fatal(err)
	}
	if err := AwaitKinds(t.Context(), e.Cluster(clusterName).Config()); err != nil {
		t.Fatal(err)
	}
	t.Run("all", func(t *testing.T) {
		t.Run("the life of a database", func(t *testing.T) { life(newWorld(t, e, "life")) })
		t.Run("standbys follow", func(t *testing.T) { standbys(newWorld(t, e, "standbys")) })
		t.Run("data outlive operator and servers", func(t *testing.T) { killed(newWorld(t, e, "killed")) })
		t.Run("what goes wrong is said", func(t *testing.T) { trouble(newWorld(t, e, "trouble")) })
		t.Run("a full volume", func(t *testing.T) { fullVolume(newWorld(t, e, "full")) })
		t.Run("users are kept apart", func(t *testing.T) { users(newWorld(t, e, "users")) })
		t.Run("what cannot be ordered is refused", func(t *testing.T) { refused(newWorld(t, e, "refused")) })
	})
}

func life(w *world) {
	w.start()
	w.order(func(s *postgresql.Spec) {
		s.Parameters = postgresql.Configuration{MaxConnections: new(int32(30)), LogStatement: new("all")}
		s.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
		s.Extensions = []string{"pg_trgm"}
		s.Expose = "LoadBalancer"
	})
	pg := w.await(postgresql.Running, 1, "")
	secret := w.bind("app")
	for key, want := range map[string]string{"database": "a9s_apps_default_db", "instance_service": "db-master.life", "host": "127.0.0.1"} {
		if got := string(secret.Data[key]); got != want {
			w.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	conn := w.mustConnect(secret)
	w.exec(conn, "CREATE TABLE orders (id int PRIMARY KEY, what text)")
	w.exec(conn, "INSERT INTO orders SELECT n, 'order ' || n FROM generate_series(1, 1000) n")
	w.wantSetting(conn, "max_connections", "30")
	w.wantSetting(conn, "shared_buffers", "16MB")
	if got := w.answer(conn, "SELECT similarity('gitbind', 'gitbind')::text"); got != "1" {
		w.Errorf("the extension answers %s", got)
	}
	outside := &corev1.ConfigMap{}
	w.must(w.get(outside, "db-connection"))
	if outside.Data["port"] != string(secret.Data["port"]) {
		w.Errorf("the connection says %v", outside.Data)
	}

	w.change(func(s *postgresql.Spec) { s.Parameters.MaxConnections = new(int32(40)) })
	w.awaitAnswer(w.fresh(secret), "SHOW max_connections", "40")
	w.await(postgresql.Running, 1, "")
	w.must(w.Create(w.Context(), w.backUp("monday")))
	saved := &backup.Backup{}
	w.awaitCondition(saved, "monday", backup.Complete)
	if saved.Status.Size == 0 || saved.Status.BackupID == "" {
		w.Errorf("the status of the backup is %+v", saved.Status)
	}
	conn = w.mustConnect(secret)
	w.exec(conn, "DROP TABLE orders")
	w.must(w.Create(w.Context(), w.restore("back", "monday")))
	w.awaitCondition(&backup.Restore{}, "back", backup.Complete)
	if got := w.answer(conn, "SELECT count(*)::text FROM orders"); got != "1000" {
		w.Errorf("%s rows are back, want 1000", got)
	}
	// As before, the user of the secret may change the table.
	w.exec(conn, "ALTER TABLE orders ADD COLUMN note text")

	w.wantNowhere(pg, secret)

	file := filepath.Join(w.dir, "backups", string(saved.UID)+".dump")
	if _, err := os.Stat(file); err != nil {
		w.Error(err)
	}
	w.remove(w.backUp("monday"))
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		w.Errorf("the backup's file is still there: %v", err)
	}
	data := filepath.Join(w.dir, "instances", string(pg.UID))
	if len(serversBelow(data)) == 0 {
		w.Error("there are no servers: this test cannot see that they end")
	}
	w.remove(pg)
	if left := serversBelow(data); len(left) > 0 {
		w.Errorf("processes %v are left", left)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		w.Errorf("the data are still there: %v", err)
	}
	// It must not wait for the instance that has gone.
	w.remove(&servicebinding.ServiceBinding{ObjectMeta: w.meta("app")})
}

// wantNowhere fails if a password can be read in logs, arguments or environments of
// processes, statuses or Events.
func (w *world) wantNowhere(pg *postgresql.Postgresql, binding *corev1.Secret) {
	w.Helper()
	superuser := &corev1.Secret{}
	w.must(w.get(superuser, "postgres.credentials.db"))
	var places []string
	logs, _ := filepath.Glob(filepath.Join(w.dir, "instances", string(pg.UID), "*", "log"))
	places = append(places, logs...)
	for _, pid := range serversBelow(w.dir) {
		places = append(places, "/proc/"+pid+"/cmdline", "/proc/"+pid+"/environ")
	}
	said := map[string]string{}
	for _, path := range places {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			w.Error(err)
		}
		said[path] = string(text)
	}
	if len(logs) == 0 || !strings.Contains(said[logs[0]], "CREATE TABLE orders") {
		w.Errorf("no statement is in the logs %v: this test cannot see that some are left out", logs)
	}
	for _, list := range []client.ObjectList{
		&postgresql.PostgresqlList{}, &servicebinding.ServiceBindingList{}, &backup.BackupList{}, &backup.RestoreList{}, &corev1.EventList{},
	} {
		w.must(w.List(w.Context(), list, client.InNamespace(w.namespace)))
		text, err := json.Marshal(list)
		w.must(err)
		said[fmt.Sprintf("%T", list)] = string(text)
	}
	for where, text := range said {
		for _, secret := range []*corev1.Secret{superuser, binding} {
			if password := string(secret.Data["password"]); len(password) < 20 || strings.Contains(text, password) {
				w.Errorf("the password of %s is in %s", secret.Name, where)
			}
		}
	}
}

func (w *world) wantSetting(conn *pgx.Conn, name, want string) {
	w.Helper()
	if got := w.answer(conn, "SHOW "+name); got != want {
		w.Errorf("%s is %s, want %s", name, got, want)
	}
}

func standbys(w *world) {
	w.start()
	w.order(func(s *postgresql.Spec) {
		s.Replicas, s.Parameters.MaxConnections = 3, new(int32(50))
	})
	pg := w.await(postgresql.Running, 3, "")
	secret := w.bind("app")
	conn := w.mustConnect(secret)
	w.exec(conn, "CREATE TABLE orders (id int)")
	w.exec(conn, "INSERT INTO orders VALUES (1)")
	w.wantRows(pg, secret, "1")

	for _, limit := range []int32{80, 20} {
		w.change(func(s *postgresql.Spec) { s.Parameters.MaxConnections = &limit })
		for n := range 3 {
			w.awaitAnswer(w.at(pg, secret, n), "SHOW max_connections", fmt.Sprint(limit))
		}
		w.await(postgresql.Running, 3, "")
		w.must(w.get(secret, secret.Name))
		w.exec(w.mustConnect(secret), "INSERT INTO orders VALUES (1)")
	}
	w.wantRows(pg, secret, "3")

	// A standby that ends follows again.
	w.kill(pg, 2)
	w.exec(w.mustConnect(secret), "INSERT INTO orders VALUES (1)")
	w.wantRows(pg, secret, "4")
	w.remove(pg)
}

// at is how to connect to a server of an instance.
func (w *world) at(pg *postgresql.Postgresql, secret *corev1.Secret, n int) func() (*corev1.Secret, error) {
	return func() (*corev1.Secret, error) {
		port, err := os.ReadFile(filepath.Join(w.server(pg, n), "port"))
		other := secret.DeepCopy()
		other.Data["port"] = port
		return other, err
	}
}

func (w *world) server(pg *postgresql.Postgresql, n int) string {
	return filepath.Join(w.dir, "instances", string(pg.UID), strconv.Itoa(n))
}

// wantRows waits until all servers have so many orders, and sees that two of them only
// read.
func (w *world) wantRows(pg *postgresql.Postgresql, secret *corev1.Secret, want string) {
	w.Helper()
	for n := range 3 {
		w.awaitAnswer(w.at(pg, secret, n), "SELECT pg_is_in_recovery()::text", strconv.FormatBool(n > 0))
		w.awaitAnswer(w.at(pg, secret, n), "SELECT count(*)::text FROM orders", want)
	}
}

// pid is that of a server.
func (w *world) pid(pg *postgresql.Postgresql, n int) int {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.server(pg, n), "data", "postmaster.pid"))
	w.must(err)
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	w.must(err)
	return pid
}

func (w *world) kill(pg *postgresql.Postgresql, n int) {
	w.Helper()
	w.must(syscall.Kill(w.pid(pg, n), syscall.SIGKILL))
}

func killed(w *world) {
	process := w.startProcess()
	w.order(nil)
	pg := w.await(postgresql.Running, 1, "")
	secret := w.bind("app")
	w.exec(w.mustConnect(secret), "CREATE TABLE orders AS SELECT 1 AS id")

	rows := func() {
		w.Helper()
		w.awaitAnswer(w.fresh(secret), "SELECT count(*)::text FROM orders", "1")
	}
	w.kill(pg, 0)
	rows()

	w.must(process.Kill())
	w.eventually("the servers of an operator that was killed end", func() error {
		if left := serversBelow(w.dir); len(left) > 0 {
			return fmt.Errorf("processes %v are left", left)
		}
		return nil
	})
	w.must(process.Start(w.Context()))
	rows()

	w.must(process.Stop(w.Context()))
	if left := serversBelow(w.dir); len(left) > 0 {
		w.Errorf("processes %v are left", left)
	}
	w.must(process.Start(w.Context()))
	rows()
}

func trouble(w *world) {
	w.start()
	early := w.backUp("early")
	early.Spec.MaxRetries = new(intstr.FromInt32(0))
	w.must(w.Create(w.Context(), early))
	if got := w.awaitCondition(&backup.Backup{}, "early", backup.PermanentlyFailed); !strings.Contains(got, "no Postgresql db in namespace trouble") {
		w.Errorf("got %q", got)
	}
	w.order(func(s *postgresql.Spec) { s.Parameters.LogStatement = new("nonsense'") })
	w.await(postgresql.NotRunning, 0, `invalid value for parameter "log_statement": "nonsense'"`)
	w.must(w.Create(w.Context(), w.restore("nothing", "nowhere")))
	if got := w.awaitCondition(&backup.Restore{}, "nothing", backup.Failed); !strings.Contains(got, "no Backup nowhere") {
		w.Errorf("got %q", got)
	}

	w.change(func(s *postgresql.Spec) { s.Parameters.LogStatement = new("ddl") })
	pg := w.await(postgresql.Running, 1, "")
	w.change(func(s *postgresql.Spec) { s.Parameters.MaxConnections = new(int32(2)) })
	w.await(postgresql.NotRunning, 0, "max_connections")
	w.change(func(s *postgresql.Spec) { s.Parameters.MaxConnections = nil })
	w.await(postgresql.Running, 1, "")

	pid := w.pid(pg, 0)
	w.must(syscall.Kill(pid, syscall.SIGSTOP))
	w.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	w.await(postgresql.NotRunning, 0, "does not answer")
	w.must(syscall.Kill(pid, syscall.SIGCONT))
	w.await(postgresql.Running, 1, "")
}

func fullVolume(w *world) {
	w.start()
	w.order(func(s *postgresql.Spec) { s.VolumeSize = new(resource.MustParse("48Mi")) })
	w.await(postgresql.Running, 1, "")
	secret := w.bind("app")
	conn := w.mustConnect(secret)
	w.exec(conn, "CREATE TABLE orders AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
	w.await(postgresql.Running, 1, "the volume is full")
	w.eventually("nothing more can be written", func() error {
		_, err := conn.Exec(w.Context(), "INSERT INTO orders VALUES ('y')")
		if err == nil {
			return errors.New("a row was inserted")
		}
		if !strings.Contains(err.Error(), "read-only transaction") {
			return err
		}
		return nil
	})
	w.change(func(s *postgresql.Spec) { s.VolumeSize = new(resource.MustParse("3Gi")) })
	w.await(postgresql.Running, 1, "")
	w.eventually("it can again", func() error {
		_, err := conn.Exec(w.Context(), "INSERT INTO orders VALUES ('y')")
		return err
	})
}

func users(w *world) {
	w.start()
	w.order(nil)
	w.await(postgresql.Running, 1, "")
	one, other := w.bind("one"), w.bind("other")
	w.exec(w.mustConnect(one), "CREATE TABLE shared AS SELECT 1 AS id")
	// What one application makes another one uses.
	w.exec(w.mustConnect(other), "INSERT INTO shared VALUES (2)")

	stranger := one.DeepCopy()
	stranger.Data["password"] = []byte("guessed")
	if _, err := w.connect(stranger); err == nil || !strings.Contains(err.Error(), "password authentication failed") {
		w.Errorf("a wrong password: got %v", err)
	}

	// A Secret that is deleted comes back with another password.
	w.must(w.Delete(w.Context(), one))
	rotated := &corev1.Secret{}
	w.eventually("the Secret is back", func() error { return w.get(rotated, one.Name) })
	if string(rotated.Data["password"]) == string(one.Data["password"]) || string(rotated.Data["username"]) != string(one.Data["username"]) {
		w.Error("the Secret has the old password, or another user")
	}
	w.mustConnect(rotated)
	if _, err := w.connect(one); err == nil {
		w.Error("the old password still works")
	}

	open := w.mustConnect(rotated)
	w.remove(&servicebinding.ServiceBinding{ObjectMeta: w.meta("one")})
	if _, err := w.connect(rotated); err == nil {
		w.Error("the user of a deleted binding still exists")
	}
	w.eventually("its connections end", func() error {
		if open.Ping(w.Context()) == nil {
			return errors.New("one is open")
		}
		return nil
	})
	if err := w.get(&corev1.Secret{}, one.Name); !apierrors.IsNotFound(err) {
		w.Errorf("the Secret of a deleted binding: got %v, want it gone", err)
	}
	if got := w.answer(w.mustConnect(other), "SELECT count(*)::text FROM shared"); got != "2" {
		w.Errorf("%s rows are left of what it has made, want 2", got)
	}

	// A Secret of somebody else is not touched.
	foreign := &corev1.Secret{ObjectMeta: w.meta("third-service-binding"), StringData: map[string]string{"password": "mine"}}
	w.must(w.Create(w.Context(), foreign))
	third := &servicebinding.ServiceBinding{ObjectMeta: w.meta("third"), Spec: servicebinding.Spec{Instance: servicebinding.Instance{
		Kind: "Postgresql", NamespacedName: servicebinding.NamespacedName{Namespace: w.namespace, Name: "db"},
	}}}
	w.must(w.Create(w.Context(), third))
	w.eventually("that is said", func() error {
		w.must(w.get(third, "third"))
		if third.Status.Implemented || !strings.Contains(third.Status.Error, "belongs to somebody else") {
			return fmt.Errorf("its status is %+v", third.Status)
		}
		return nil
	})
	w.must(w.get(foreign, foreign.Name))
	if string(foreign.Data["password"]) != "mine" {
		w.Error("it was overwritten")
	}
}

// refused needs no operator.
func refused(w *world) {
	w.order(func(s *postgresql.Spec) { s.Replicas = 3 })
	for want, change := range map[string]func(*postgresql.Spec){
		"replicas cannot be scaled down": func(s *postgresql.Spec) { s.Replicas = 1 },
		"version cannot be changed":      func(s *postgresql.Spec) { s.Version = 15 },
		"Unsupported value":              func(s *postgresql.Spec) { s.Expose = "Everybody" },
	} {
		pg := &postgresql.Postgresql{}
		w.must(w.get(pg, "db"))
		change(&pg.Spec)
		if err := w.Update(w.Context(), pg); err == nil || !strings.Contains(err.Error(), want) {
			w.Errorf("got %v, want it refused with %q", err, want)
		}
	}
	for value, want := range map[string]bool{"10": true, "Infinite": true, "often": false} {
		b := w.backUp("with-" + strings.ToLower(value))
		b.Spec.MaxRetries = new(intstr.FromString(value))
		if err := w.Create(w.Context(), b); (err == nil) != want {
			w.Errorf("maxRetries %s: got %v", value, err)
		}
	}
}
