package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gitbind.dev/test/env"
	backup "gitbind.dev/test/postgres/api/backup/v1beta3"
	postgresql "gitbind.dev/test/postgres/api/postgresql/v1beta3"
	servicebinding "gitbind.dev/test/postgres/api/servicebinding/v1beta3"
)

const clusterName = "postgres"

// asOperator makes the test's binary an operator that can be killed.
const asOperator = "GITBIND_TEST_AS_OPERATOR"

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // What matters is in statuses.
	if os.Getenv(asOperator) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err == nil {
		err = Run(ctx, Options{Config: config, Dir: os.Args[2], Namespaces: []string{os.Args[3]}, HealthListen: os.Args[4]})
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A world is a namespace with an operator of its own.
type world struct {
	*testing.T
	client.Client
	env       *env.Env
	namespace string
	dir       string
	stop      func()
}

func newWorld(t *testing.T, e *env.Env, namespace string) *world {
	t.Helper()
	t.Parallel()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(e.Cluster(clusterName).Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := e.Shared()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, Client: c, env: e, namespace: namespace, dir: dir, stop: func() {}}
	w.must(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	t.Cleanup(func() {
		w.stop()
		if left := serversBelow(dir); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
	})
	return w
}

// start starts the operator in this process.
func (w *world) start() {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Config: w.env.Cluster(clusterName).Config(), Dir: w.dir, Namespaces: []string{w.namespace}})
	}()
	w.stop = func() {
		cancel()
		w.stop = func() {}
		if err := <-ended; err != nil {
			w.Errorf("the operator ended: %v", err)
		}
	}
}

// startProcess starts it as a process of its own.
func (w *world) startProcess() *env.Process {
	w.Helper()
	binary, err := os.Executable()
	w.must(err)
	address := func(ports []int) string { return fmt.Sprintf("127.0.0.1:%d", ports[0]) }
	p, _, err := w.env.Run(w.Context(), env.Program{
		Name: "operator", Path: binary, Env: []string{asOperator + "=yes"}, Ports: 1,
		Args: func(ports []int) []string {
			return []string{w.env.Cluster(clusterName).Kubeconfig, w.dir, w.namespace, address(ports)}
		},
		Ready: func(ports []int) string { return "http://" + address(ports) + "/readyz" },
	})
	w.must(err)
	w.stop = func() {
		if err := p.Stop(context.Background()); err != nil {
			w.Error(err)
		}
	}
	return p
}

// serversBelow are the processes on data below a directory.
func serversBelow(dir string) []string {
	var found []string
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil && strings.HasPrefix(cwd, dir+"/") {
			found = append(found, filepath.Base(filepath.Dir(link)))
		}
	}
	return found
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) eventually(what string, look func() error) {
	w.Helper()
	if err := env.Await(2*time.Minute, look); err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

func (w *world) get(o client.Object, name string) error {
	return w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, o)
}

// order orders an instance named db.
func (w *world) order(change func(*postgresql.Spec)) {
	w.Helper()
	pg := &postgresql.Postgresql{ObjectMeta: w.meta("db"), Spec: postgresql.Spec{Version: 14, VolumeSize: new(resource.MustParse("3Gi"))}}
	if change != nil {
		change(&pg.Spec)
	}
	w.must(w.Create(w.Context(), pg))
}

// change changes the instance.
func (w *world) change(change func(*postgresql.Spec)) {
	w.Helper()
	pg := &postgresql.Postgresql{}
	w.must(w.get(pg, "db"))
	before := pg.DeepCopy()
	change(&pg.Spec)
	w.must(w.Patch(w.Context(), pg, client.MergeFrom(before)))
}

// await waits for a status of the instance; error is a part of what it says.
func (w *world) await(cluster string, ready int32, trouble string) *postgresql.Postgresql {
	w.Helper()
	pg := &postgresql.Postgresql{}
	w.eventually("the instance is "+cluster, func() error {
		if err := w.get(pg, "db"); err != nil {
			return err
		}
		s := pg.Status
		if s.ClusterStatus != cluster || s.ReadyReplicas != ready || !strings.Contains(s.Error, trouble) || trouble == "" && s.Error != "" {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})
	return pg
}

// bind makes a binding and returns its Secret.
func (w *world) bind(name string) *corev1.Secret {
	w.Helper()
	w.must(w.Create(w.Context(), &servicebinding.ServiceBinding{ObjectMeta: w.meta(name), Spec: servicebinding.Spec{Instance: servicebinding.Instance{
		APIVersion: postgresql.GroupVersion.String(), Kind: "Postgresql",
		NamespacedName: servicebinding.NamespacedName{Namespace: w.namespace, Name: "db"},
	}}}))
	b := &servicebinding.ServiceBinding{}
	w.eventually("the binding is implemented", func() error {
		if err := w.get(b, name); err != nil {
			return err
		}
		if !b.Status.Implemented || b.Status.Secret == nil {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		return nil
	})
	secret := &corev1.Secret{}
	w.must(w.get(secret, b.Status.Secret.Name))
	return secret
}

// connect connects as an application does.
func (w *world) connect(secret *corev1.Secret) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("sslmode=disable")
	w.must(err)
	at := func(key string) string { return string(secret.Data[key]) }
	port, err := net.LookupPort("tcp", at("port"))
	w.must(err)
	config.Host, config.Port, config.User, config.Password, config.Database = at("host"), uint16(port), at("username"), at("password"), at("database")
	config.Fallbacks = nil
	conn, err := pgx.ConnectConfig(w.Context(), config)
	if err == nil {
		w.Cleanup(func() { _ = conn.Close(context.Background()) })
	}
	return conn, err
}

func (w *world) mustConnect(secret *corev1.Secret) *pgx.Conn {
	w.Helper()
	conn, err := w.connect(secret)
	w.must(err)
	return conn
}

func (w *world) exec(conn *pgx.Conn, sql string, args ...any) {
	w.Helper()
	_, err := conn.Exec(w.Context(), sql, args...)
	w.must(err)
}

// answer is PostgreSQL's, as text.
func (w *world) answer(conn *pgx.Conn, sql string) string {
	w.Helper()
	var text string
	w.must(conn.QueryRow(w.Context(), sql).Scan(&text))
	return text
}

// awaitAnswer waits until a server gives it. The Secret is read before each try: a
// server that was restarted may have another port.
func (w *world) awaitAnswer(secret func() (*corev1.Secret, error), sql, want string) {
	w.Helper()
	w.eventually(sql+" is "+want, func() error {
		s, err := secret()
		if err != nil {
			return err
		}
		conn, err := w.connect(s)
		if err != nil {
			return err
		}
		var text string
		if err := conn.QueryRow(w.Context(), sql).Scan(&text); err != nil {
			return err
		}
		if text != want {
			return fmt.Errorf("it is %s", text)
		}
		return nil
	})
}

// fresh reads a Secret whenever it is asked.
func (w *world) fresh(secret *corev1.Secret) func() (*corev1.Secret, error) {
	return func() (*corev1.Secret, error) { return secret, w.get(secret, secret.Name) }
}

// awaitCondition waits until a condition is true, and returns its message.
func (w *world) awaitCondition(o client.Object, name, kind string) (message string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%T %s is %s", o, name, kind), func() error {
		if err := w.get(o, name); err != nil {
			return err
		}
		var conditions []metav1.Condition
		switch o := o.(type) {
		case *backup.Backup:
			conditions = o.Status.Conditions
		case *backup.Restore:
			conditions = o.Status.Conditions
		}
		c := meta.FindStatusCondition(conditions, kind)
		if c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("its conditions are %+v", conditions)
		}
		message = c.Message
		return nil
	})
	return message
}

func (w *world) backUp(name string) *backup.Backup {
	return &backup.Backup{ObjectMeta: w.meta(name), Spec: backup.BackupSpec{
		ServiceInstance: backup.ServiceInstance{APIGroup: postgresql.GroupVersion.Group, Kind: "Postgresql", Name: "db"},
	}}
}

func (w *world) restore(name, from string) *backup.Restore {
	return &backup.Restore{ObjectMeta: w.meta(name), Spec: backup.RestoreSpec{
		ServiceInstance: backup.ServiceInstance{APIGroup: postgresql.GroupVersion.Group, Kind: "Postgresql", Name: "db"},
		BackupName:      from,
	}}
}

// remove deletes an object and waits until it is gone.
func (w *world) remove(o client.Object) {
	w.Helper()
	w.must(w.Delete(w.Context(), o))
	w.eventually("it is gone", func() error {
		err := w.Get(w.Context(), client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}
