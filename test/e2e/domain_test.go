package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"gitbind.dev/test/env"
	"gitbind.dev/test/scan"
)

// testOtherDomain binds an API that is no database and has nothing to do with
// Crossplane, as docs/your-own-api.md says it.
func testOtherDomain(t *testing.T, c *tenant) {
	ctx := t.Context()
	examples := filepath.Join(c.Root, "docs", "examples")
	must(t)(c.Kubectl(ctx, c.Control(), "apply", "--server-side", "-f", filepath.Join(examples, "certificates-offer.yaml")))
	must(t)(c.Kubectl(ctx, c.Control(), "wait", "--for=condition=Offered", "--timeout=2m", "apiserviceexporttemplate/certificates"))
	ca := startCA(t, c)
	out := must(t)(c.Plugin(ctx, c.user, c.admin(), "catalog"))
	if !strings.Contains(out, "Certificate") || !strings.Contains(out, "Security") {
		t.Errorf("the catalogue has no certificates:\n%s", out)
	}
	must(t)(c.Plugin(ctx, c.user, c.admin(), "bind", "certificates"))
	// Otherwise no object of the new kind, and nothing that it owns, goes for half a minute.
	for _, name := range []string{env.Control, c.cluster} {
		if err := c.Cluster(name).Rediscover(ctx); err != nil {
			t.Fatal(err)
		}
	}
	must(t)(c.Kubectl(ctx, c.admin(), "apply", "-f", filepath.Join(examples, "certificate.yaml")))
	ready := func(want string) {
		t.Helper()
		eventually(t, "the claim says "+want, func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, c.admin(), "get", "certificate", "shop", "-n", "team-a", "-o",
				`jsonpath={range .status.gitbind.conditions[?(@.type=="Ready")]}{.status} {.reason}: {.message}{end}`)
			return out, err == nil && out == want
		})
	}
	ready("False WaitingForApproval: an administrator must approve shop.example.com")
	c.get(t, "an administrator must approve shop.example.com")
	ca.approved.Store(true)
	ready("True Issued: ")

	serial := func() string {
		out, err := c.Kubectl(ctx, c.admin(), "get", "secret", "shop-tls", "-n", "team-a", "--ignore-not-found", "-o", `jsonpath={.type} {.data.tls\.crt} {.data.internal}`)
		parts := strings.Split(out, " ")
		if err != nil || len(parts) != 3 {
			return "none"
		}
		if parts[0] != string(corev1.SecretTypeTLS) || parts[2] != "" {
			t.Errorf("the Secret has type %s, and its key that does not travel has %q", parts[0], parts[2])
		}
		text, _ := base64.StdEncoding.DecodeString(parts[1])
		block, _ := pem.Decode(text)
		if block == nil {
			return "no certificate"
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || certificate.VerifyHostname("shop.example.com") != nil {
			t.Errorf("it is not for shop.example.com: %v", err)
			return "another certificate"
		}
		return certificate.SerialNumber.String()
	}
	for _, want := range []string{"1", "2"} {
		eventually(t, "certificate number "+want+" is in the app cluster", func(context.Context) (string, bool) {
			is := serial()
			return is, is == want
		})
		ca.number.Store(2)
	}

	must(t)(c.Kubectl(ctx, c.admin(), "delete", "certificate", "shop", "-n", "team-a", "--timeout=2m"))
	eventually(t, "the Secret went with its claim", func(context.Context) (string, bool) {
		is := serial()
		return is, is == "none"
	})
	if err := c.FindSecrets(ctx, ca.keys); err != nil || ca.keys.Known() < 2 {
		t.Errorf("%d lines of private keys: %v", ca.keys.Known(), err)
	}
}

// ca is the operator of the certificates.
type ca struct {
	objects dynamic.ResourceInterface
	client  kubernetes.Interface
	// keys are the private keys that it made.
	keys *scan.Scan
	// approved lets it issue, and number is that of the certificate that it issues.
	approved atomic.Bool
	number   atomic.Int64
}

// startCA serves the tenant's claims of team-a until the test ends.
func startCA(t *testing.T, c *tenant) *ca {
	t.Helper()
	config := c.Cluster(env.Control).Config()
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ca := &ca{client: client, keys: scan.New(), objects: objects.Resource(schema.GroupVersionResource{Group: "pki.example.com", Version: "v1", Resource: "certificates"}).Namespace(c.claimNamespace())}
	ca.number.Store(1)
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			if err := ca.serve(ctx); err != nil && ctx.Err() == nil {
				t.Logf("the certificates' operator: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { cancel(); working.Wait() })
	return ca
}

func (ca *ca) serve(ctx context.Context) error {
	list, err := ca.objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		u := &list.Items[i]
		if u.GetDeletionTimestamp() != nil {
			continue
		}
		want := map[string]any{"conditions": []any{map[string]any{
			"type": "Issued", "status": "False", "reason": "WaitingForApproval",
			"message": "an administrator must approve " + names(u)[0],
		}}}
		if ca.approved.Load() {
			number := ca.number.Load()
			if err := ca.issue(ctx, u, number); err != nil {
				return err
			}
			want = map[string]any{
				"secretName": u.GetName() + "-tls", "serial": fmt.Sprint(number),
				"conditions": []any{map[string]any{"type": "Issued", "status": "True", "reason": "Issued", "message": ""}},
			}
		}
		if is, _, _ := unstructured.NestedMap(u.Object, "status"); fmt.Sprint(is) == fmt.Sprint(want) {
			continue
		}
		u.Object["status"] = want
		if _, err := ca.objects.UpdateStatus(ctx, u, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func names(u *unstructured.Unstructured) []string {
	names, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "dnsNames")
	return names
}

// issue has a certificate with this number in the claim's Secret.
func (ca *ca) issue(ctx context.Context, u *unstructured.Unstructured, number int64) error {
	secrets := ca.client.CoreV1().Secrets(u.GetNamespace())
	present, err := secrets.Get(ctx, u.GetName()+"-tls", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) || err == nil && present.Annotations["serial"] == fmt.Sprint(number) {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(number), DNSNames: names(u), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "-----") {
			ca.keys.Add(strings.TrimSpace(line))
		}
	}
	yes := true
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: u.GetName() + "-tls", Annotations: map[string]string{"serial": fmt.Sprint(number)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), Controller: &yes}},
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			"tls.crt":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}),
			"tls.key":  text,
			"internal": []byte("of the authority alone"),
		},
	}
	if present.UID == "" {
		_, err = secrets.Create(ctx, s, metav1.CreateOptions{})
	} else {
		s.ResourceVersion = present.ResourceVersion
		_, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
	}
	return err
}
