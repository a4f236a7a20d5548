package env

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// convertedCRD is the one CRD of the provider with a conversion webhook.
const convertedCRD = "objects.kubernetes.crossplane.io"

// installProvider installs provider-kubernetes' CRDs, starts it and configures
// it.
func (x *Crossplane) installProvider(ctx context.Context) error {
	kubeconfig, err := x.cluster.certificateKubeconfig(provider, provider, "system:masters")
	if err != nil {
		return err
	}
	end := x.env.phase("provider-kubernetes: CRDs")
	if err := x.createCRDs(ctx, x.env.programs.files(provider, "package/crds")); err != nil {
		return err
	}
	end()
	defer x.env.phase("provider-kubernetes")()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return x.startProvider(ctx, kubeconfig) })
	group.Go(func() error { return x.configureProvider(ctx, kubeconfig) })
	return group.Wait()
}

func (x *Crossplane) startProvider(ctx context.Context, kubeconfig string) error {
	cert, err := x.ca.server()
	if err != nil {
		return err
	}
	certs := filepath.Join(x.dir, "provider")
	if err := writeTLS(certs, cert, x.ca); err != nil {
		return err
	}
	return withPorts(ctx, 2, func(ctx context.Context, ports []int) error {
		if err := x.setWebhook(ctx, "https://"+address(ports[0])+"/convert"); err != nil {
			return err
		}
		health := address(ports[1])
		x.Provider = x.env.process(x.cluster.Name+"-"+provider, provider, []string{
			"--poll=" + x.poll.String(), "--health-probe-bind-addr=" + health,
			// With it a change of what an Object with "watch: true" made is
			// seen at once.
			"--enable-watches",
		}, httpReady("http://"+health+"/readyz", nil))
		x.Provider.env = []string{
			"KUBECONFIG=" + kubeconfig, fmt.Sprintf("WEBHOOK_PORT=%d", ports[0]),
			"TLS_SERVER_CERTS_DIR=" + certs, "WEBHOOK_TLS_CERT_DIR=" + certs,
		}
		return x.Provider.Start(ctx)
	})
}

// setWebhook tells the API server where the provider will convert Objects.
func (x *Crossplane) setWebhook(ctx context.Context, url string) error {
	type object map[string]any
	patch, err := json.Marshal(object{"spec": object{"conversion": object{"webhook": object{
		"clientConfig": object{"service": nil, "url": url, "caBundle": x.ca.certPEM},
	}}}})
	if err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: convertedCRD}}
	if err := x.client.Patch(ctx, crd, mergePatch(patch)); err != nil {
		return fmt.Errorf("set the conversion webhook of %s: %w", convertedCRD, err)
	}
	return nil
}

// configureProvider makes the configurations by which Objects of both kinds
// lead to the cluster itself, and waits until the provider has seen them.
func (x *Crossplane) configureProvider(ctx context.Context, kubeconfig string) error {
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		return err
	}
	spec := map[string]any{"credentials": map[string]any{
		"source":    "Secret",
		"secretRef": map[string]any{"namespace": crossplaneNamespace, "name": ProviderConfigName, "key": "kubeconfig"},
	}}
	if err := x.create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: crossplaneNamespace, Name: ProviderConfigName},
		Data:       map[string][]byte{"kubeconfig": content},
	}); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "kubernetes.crossplane.io", Version: "v1alpha1", Kind: "ProviderConfig"},
		{Group: "kubernetes.m.crossplane.io", Version: "v1alpha1", Kind: "ClusterProviderConfig"},
	} {
		group.Go(func() error {
			o := object(gvk, ProviderConfigName)
			o.Object["spec"] = spec
			if err := x.create(ctx, o); err != nil {
				return err
			}
			return x.waitForFinalizer(ctx, o)
		})
	}
	return group.Wait()
}

// waitForFinalizer waits for the first thing that the provider's controllers do
// with a configuration.
func (x *Crossplane) waitForFinalizer(ctx context.Context, o *unstructured.Unstructured) error {
	return until(ctx, "the provider to look at its "+o.GetKind(), func(ctx context.Context) (bool, error) {
		err := x.client.Get(ctx, client.ObjectKeyFromObject(o), o)
		return err == nil && len(o.GetFinalizers()) > 0, err
	})
}
