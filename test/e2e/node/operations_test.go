//go:build linux

package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

// operations are what operators do, and what befalls them, while somebody orders.
func operations(t *testing.T, p *platform.Platform) {
	step := func(name string, do func(t *testing.T)) {
		began := time.Now()
		if !t.Run(name, do) {
			t.FailNow()
		}
		t.Logf("%6s  %s", time.Since(began).Round(100*time.Millisecond), name)
	}
	o := &operator{Platform: p, load: newLoad(t, p)}
	step("another API is offered and bound", o.offer)
	step("a certificate is renewed and nothing restarts", o.certificateIsRenewed)
	step("a leading bridge that is deleted is followed by the other", o.leaderIsDeleted(env.Control, "gitbind-gitbridge", "gitbind-gitbridge"))
	step("a leading konnector that is deleted is followed by the other", o.leaderIsDeleted(env.App, "konnector", "gitbind-konnector"))
	step("a node of the control plane crashes", o.nodeCrashes)
	step("a bridge that hangs is started again", o.bridgeHangs)
	step("a node is drained", o.drain)
	step("an upgrade and its rollback lose nothing", o.upgrade)
	step("an image that is not there stops nothing that runs", o.imageIsMissing)
	step("a wrong flag is told where its author looks", o.wrongFlag)
	step("a full volume is told, and what was ordered waits", o.fullVolume)
	step("each order is one commit", func(t *testing.T) { o.load.onceEach(t, o.clone(t)) })
	step("taken out again it leaves nothing but what was to stay", o.uninstall)
}

type operator struct {
	*platform.Platform
	load *load
}

func (o *operator) kubectl(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	out, err := o.Kubectl(t.Context(), kubeconfig, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (o *operator) plugin(t *testing.T, args ...string) string {
	t.Helper()
	out, err := o.Plugin(t.Context(), env.Alice, o.App(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// clone is a fresh one of the app cluster's repository.
func (o *operator) clone(t *testing.T) string {
	t.Helper()
	url, err := o.CloneURL(t.Context(), env.App)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "clone")
	if _, err := o.Git(t.Context(), env.Alice, t.TempDir(), "clone", "--quiet", url, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (o *operator) offer(t *testing.T) {
	offer := filepath.Join(o.Root, "docs", "examples", "certificates-offer.yaml")
	o.kubectl(t, o.Control(), "apply", "--server-side", "-f", offer)
	o.kubectl(t, o.Control(), "wait", "--for=condition=Offered", "--timeout=1m", "apiserviceexporttemplate/certificates")
	o.plugin(t, "bind", "certificates")
	o.kubectl(t, o.App(), "create", "namespace", loadNamespace)
	o.load.during(t, func(context.Context) error { return nil })
}

func (o *operator) leader(ctx context.Context, cluster, lease string) (string, error) {
	return o.Kubectl(ctx, o.Cluster(cluster).Kubeconfig, "get", "lease", lease, "-n", "gitbind-system", "-o", "jsonpath={.spec.holderIdentity}")
}

// leads returns when another pod than the one before leads.
func (o *operator) leads(ctx context.Context, cluster, lease, before string) error {
	return env.Await(time.Minute, func() error {
		now, err := o.leader(ctx, cluster, lease)
		if err == nil && (now == before || now == "") {
			err = fmt.Errorf("%s leads", before)
		}
		return err
	})
}

func (o *operator) leaderIsDeleted(cluster, deployment, lease string) func(t *testing.T) {
	return func(t *testing.T) {
		o.load.during(t, func(ctx context.Context) error {
			pod, err := o.leader(ctx, cluster, lease)
			if err != nil {
				return err
			}
			began := time.Now()
			if _, err := o.Kubectl(ctx, o.Cluster(cluster).Kubeconfig, "delete", "pod", pod, "-n", "gitbind-system", "--wait=false"); err != nil {
				return err
			}
			if err := o.leads(ctx, cluster, lease, pod); err != nil {
				return err
			}
			t.Logf("another one leads %s later", time.Since(began).Round(time.Millisecond))
			return o.RolledOut(ctx, o.Cluster(cluster).Kubeconfig, deployment)
		})
	}
}

// certificateIsRenewed has cert-manager renew the backend's certificate. The kubelet brings it
// into the pod a minute or so later.
func (o *operator) certificateIsRenewed(t *testing.T) {
	pods := func() string {
		return o.kubectl(t, o.Control(), "get", "pods", "-n", "gitbind-system", "--sort-by=.metadata.name", "-o",
			`jsonpath={range .items[*]}{.metadata.name}: {.status.containerStatuses[0].restartCount} restarts, {end}`)
	}
	before, runs := o.serial(t), pods()
	o.load.during(t, func(ctx context.Context) error {
		began := time.Now()
		if err := o.Cluster(env.Control).RenewCertificate(ctx, "gitbind-system", "gitbind-backend"); err != nil {
			return err
		}
		return env.Await(3*time.Minute, func() error {
			if o.serial(t) == before {
				return errors.New("the backend still has the old certificate")
			}
			t.Logf("the backend has the new certificate %s later", time.Since(began).Round(time.Second))
			return nil
		})
	})
	if now := pods(); now != runs {
		t.Errorf("the pods were %s; now they are %s", runs, now)
	}
}

// serial is the number of the certificate that the backend shows, which people trust.
func (o *operator) serial(t *testing.T) string {
	t.Helper()
	ca, err := os.ReadFile(o.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(o.BackendURL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// nodeCrashes ends the node of the leading bridge as a power cut does: its Lease has to run
// out. The backend is on the other one; where it has to move, its volume goes along, which
// depends on who provides volumes.
func (o *operator) nodeCrashes(t *testing.T) {
	nodes := map[string]*env.Node{}
	for _, n := range o.Cluster(env.Control).Nodes {
		nodes[n.Name] = n
	}
	pod, err := o.leader(t.Context(), env.Control, "gitbind-gitbridge")
	if err != nil {
		t.Fatal(err)
	}
	node := o.kubectl(t, o.Control(), "get", "pod", pod, "-n", "gitbind-system", "-o", "jsonpath={.spec.nodeName}")
	restarts := o.restarts(t, pod)
	o.kubectl(t, o.Control(), "cordon", node)
	for other := range strings.FieldsSeq(o.kubectl(t, o.Control(), "get", "pods", "-n", "gitbind-system", "-o", "name")) {
		if other != "pod/"+pod {
			o.kubectl(t, o.Control(), "delete", other, "-n", "gitbind-system")
		}
	}
	if err := o.RolledOut(t.Context(), o.Control(), "gitbind-backend", "gitbind-gitbridge"); err != nil {
		t.Fatal(err)
	}
	o.load.during(t, func(ctx context.Context) error {
		began := time.Now()
		if err := nodes[node].Crash(ctx); err != nil {
			return err
		}
		if err := o.leads(ctx, env.Control, "gitbind-gitbridge", pod); err != nil {
			return err
		}
		t.Logf("another one leads %s later", time.Since(began).Round(time.Millisecond))
		return nil
	})
	o.kubectl(t, o.Control(), "uncordon", node)
	if err := nodes[node].Kubelet.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := o.restarted(t.Context(), pod, restarts); err != nil {
		t.Fatal(err)
	}
}

// restarts is how often the container of a pod of the control plane was started again.
func (o *operator) restarts(t *testing.T, pod string) string {
	t.Helper()
	return o.kubectl(t, o.Control(), "get", "pod", pod, "-n", "gitbind-system", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
}

// restarted returns when it was started once more, and is ready.
func (o *operator) restarted(ctx context.Context, pod, before string) error {
	return env.Await(2*time.Minute, func() error {
		out, err := o.Kubectl(ctx, o.Control(), "get", "pod", pod, "-n", "gitbind-system", "-o", "jsonpath={.status.containerStatuses[0].ready} {.status.containerStatuses[0].restartCount}")
		if err == nil && (out == "true "+before || !strings.HasPrefix(out, "true ")) {
			err = fmt.Errorf("readiness and restarts of %s: %s; %s restarts before", pod, out, before)
		}
		return err
	})
}

// bridgeHangs stops the process of the leading bridge: the other one follows when the Lease
// has run out, and the kubelet starts the container again when its probe has failed.
func (o *operator) bridgeHangs(t *testing.T) {
	o.load.during(t, func(ctx context.Context) error {
		pod, err := o.leader(ctx, env.Control, "gitbind-gitbridge")
		if err != nil {
			return err
		}
		restarts := o.restarts(t, pod)
		pid, err := processOf(pod)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		if err := o.leads(ctx, env.Control, "gitbind-gitbridge", pod); err != nil {
			return err
		}
		t.Logf("another one leads %s later", time.Since(began).Round(time.Millisecond))
		return o.restarted(ctx, pod, restarts)
	})
}

// processOf is the process of a pod's container.
func processOf(pod string) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return 0, err
	}
	for _, file := range all {
		// One that has ended meanwhile is not the one.
		content, _ := os.ReadFile(file)
		if slices.Contains(strings.Split(string(content), "\x00"), "POD_NAME="+pod) {
			return strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	return 0, fmt.Errorf("no process of %s", pod)
}

// drain empties the node that the backend is on; then the pods are on the other one.
func (o *operator) drain(t *testing.T) {
	node := o.kubectl(t, o.Control(), "get", "pods", "-n", "gitbind-system", "-l", "app.kubernetes.io/name=gitbind-backend", "-o", "jsonpath={.items[0].spec.nodeName}")
	o.load.during(t, func(ctx context.Context) error {
		began := time.Now()
		if _, err := o.Kubectl(ctx, o.Control(), "drain", node, "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=2m"); err != nil {
			return err
		}
		if err := o.RolledOut(ctx, o.Control(), "gitbind-backend", "gitbind-gitbridge"); err != nil {
			return err
		}
		t.Logf("%s is empty and all runs elsewhere %s later", node, time.Since(began).Round(time.Millisecond))
		left, err := o.Kubectl(ctx, o.Control(), "get", "pods", "-A", "-o", "name", "--field-selector=spec.nodeName="+node)
		if err == nil && strings.TrimSpace(left) != "" {
			err = fmt.Errorf("still on %s: %s", node, left)
		}
		return err
	})
	o.kubectl(t, o.Control(), "uncordon", node)
}

// upgrade brings both sides to the next release as docs/installing.md says, and back.
func (o *operator) upgrade(t *testing.T) {
	before := o.Bin
	defer func() { o.Bin = before }()
	for _, release := range []string{releases[1], releases[0]} {
		o.load.during(t, func(ctx context.Context) error {
			began := time.Now()
			if err := o.Upgrade(ctx, release); err != nil {
				return err
			}
			t.Logf("the control plane has %s after %s", release, time.Since(began).Round(100*time.Millisecond))
			o.Bin = all.bin(release)
			_, err := o.Connect(ctx, env.Alice, env.App)
			return err
		})
		t.Logf("both sides have %s", release)
		if out := o.plugin(t, "version"); strings.Count(out, release) < 2 || strings.Contains(out, "being rolled out") {
			t.Errorf("kubectl gitbind version says\n%s", out)
		}
	}
}

// imageIsMissing is an upgrade to images that no node can get. The bridge that runs goes
// on; the backend, of which there may be only one, is away until the version before is
// applied again.
func (o *operator) imageIsMissing(t *testing.T) {
	o.load.during(t, func(ctx context.Context) error {
		if err := o.Install(ctx, "v9.9.9"); err != nil {
			return err
		}
		for _, name := range []string{"gitbind-gitbridge", "gitbind-backend"} {
			if err := env.Await(time.Minute, func() error {
				out, err := o.Kubectl(ctx, o.Control(), "get", "pods", "-n", "gitbind-system", "-l", "app.kubernetes.io/name="+name)
				if err == nil && !strings.Contains(out, "ErrImagePull") && !strings.Contains(out, "ImagePullBackOff") {
					err = fmt.Errorf("no pod says that its image is missing:\n%s", out)
				}
				return err
			}); err != nil {
				return err
			}
		}
		return o.Upgrade(ctx, releases[0])
	})
}

// wrongFlag is a new version of the Deployment with a flag that there is not.
func (o *operator) wrongFlag(t *testing.T) {
	o.load.during(t, func(ctx context.Context) error {
		patch := `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--worker=3"}]`
		if _, err := o.Kubectl(ctx, o.Control(), "patch", "deployment/gitbind-gitbridge", "-n", "gitbind-system", "--type=json", "-p", patch); err != nil {
			return err
		}
		return env.Await(time.Minute, func() error {
			out, err := o.Kubectl(ctx, o.Control(), "logs", "-n", "gitbind-system", "-l", "app.kubernetes.io/name=gitbind-gitbridge", "--tail=3", "--prefix")
			if err == nil && !strings.Contains(out, "--worker") {
				err = fmt.Errorf("the logs do not name the flag:\n%s", out)
			}
			if err == nil {
				t.Log(out)
			}
			return err
		})
	})
	o.kubectl(t, o.Control(), "rollout", "undo", "deployment/gitbind-gitbridge", "-n", "gitbind-system")
	if err := o.RolledOut(t.Context(), o.Control(), "gitbind-gitbridge"); err != nil {
		t.Fatal(err)
	}
}

// fullVolume fills the volume of the repositories. What is ordered waits, and says so.
func (o *operator) fullVolume(t *testing.T) {
	filler := filepath.Join(o.GitDir, "filler")
	o.load.during(t, func(ctx context.Context) error {
		if err := fill(filler); err != nil {
			return err
		}
		err := env.Await(time.Minute, func() error {
			out, err := o.Plugin(ctx, env.Alice, o.App(), "get")
			if err == nil && !strings.Contains(out, "The Git host cannot store the commit: gitbind: the disk of the Git host is full") {
				err = fmt.Errorf("no claim says so:\n%s", out)
			}
			return err
		})
		return errors.Join(err, os.Remove(filler))
	})
}

// fill writes a file until there is no room.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<20); ; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			if len(block) == 1 {
				return nil
			}
			block = block[:len(block)/2]
		} else if err != nil {
			return err
		}
	}
}

// uninstall takes gitbind out of both clusters. The services of the one API stay, as was
// asked for, and those of the others go.
func (o *operator) uninstall(t *testing.T) {
	before := o.kubectl(t, o.Control(), "get", "certificates.pki.example.com", "-A", "-o", "name")
	for _, api := range []string{"restore", "backup", "servicebinding", "postgresql"} {
		o.plugin(t, "unbind", api, "--claims=delete", "--yes")
	}
	o.plugin(t, "unbind", "certificates", "--claims=orphan", "--yes")
	t.Log(o.plugin(t, "disconnect", "--all", "--yes"))
	o.nothingIn(t, o.App())
	if err := o.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := o.kubectl(t, o.Control(), "get", "certificates.pki.example.com", "-A", "-o", "name"); after != before || after == "" {
		t.Errorf("services that were to stay: %d bytes of names before, %d after", len(before), len(after))
	}
	o.nothingIn(t, o.Control())
}

// ours are the names of what gitbind makes, but namespaces of claims.
var ours = regexp.MustCompile("gitbind|konnector|^namespace/gb-[a-z0-9]+$")

// nothingIn fails the test for an object of gitbind in a cluster.
func (o *operator) nothingIn(t *testing.T, kubeconfig string) {
	t.Helper()
	// What is on offer is the platform's.
	offered := strings.Fields(o.kubectl(t, kubeconfig, "get", "clusterroles", "-l", "gitbind.dev/offered", "-o", "name"))
	if err := env.Await(time.Minute, func() error {
		kinds := strings.Fields(o.kubectl(t, kubeconfig, "api-resources", "--verbs=list", "-o", "name"))
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return strings.HasPrefix(kind, "events") })
		out, err := o.Kubectl(t.Context(), kubeconfig, "get", strings.Join(kinds, ","), "-A", "-o", "name", "--ignore-not-found")
		if err != nil {
			return err
		}
		var left []string
		for name := range strings.FieldsSeq(out) {
			if ours.MatchString(name) && !slices.Contains(offered, name) {
				left = append(left, name)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("left behind: %s", left)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
