package env

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	authv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// tokenLifetime outlasts every test and every day of work with testenv.
const tokenLifetime = 24 * 60 * 60

// KubeconfigFor writes a kubeconfig with a token of a service account, which
// must be there, and returns its path. The token is good for 24 hours.
func (c *Cluster) KubeconfigFor(ctx context.Context, namespace, serviceAccount string) (string, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return "", err
	}
	expiry := int64(tokenLifetime)
	request := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &expiry}}
	request, err = client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("get a token of service account %s/%s in %s: %w", namespace, serviceAccount, c.Name, err)
	}
	return c.writeKubeconfig(
		"sa-"+namespace+"-"+serviceAccount, serviceAccount, namespace,
		&api.AuthInfo{Token: request.Status.Token},
	)
}

// UserKubeconfig writes a kubeconfig with a client certificate of an ordinary
// user, and returns its path. The user has no rights but those that the cluster
// grants to the name and the groups.
func (c *Cluster) UserKubeconfig(name string, groups ...string) (string, error) {
	file := "user-" + strings.Join(append([]string{name}, groups...), "-")
	return c.certificateKubeconfig(file, name, groups...)
}

func (c *Cluster) certificateKubeconfig(file, name string, groups ...string) (string, error) {
	cert, err := c.ca.client(name, groups...)
	if err != nil {
		return "", err
	}
	return c.writeKubeconfig(file, name, "", &api.AuthInfo{ClientCertificateData: cert.cert, ClientKeyData: cert.key})
}

func (c *Cluster) writeKubeconfig(file, user, namespace string, auth *api.AuthInfo) (string, error) {
	config := api.Config{
		Clusters:       map[string]*api.Cluster{c.Name: {Server: c.URL, CertificateAuthorityData: c.ca.certPEM}},
		AuthInfos:      map[string]*api.AuthInfo{user: auth},
		Contexts:       map[string]*api.Context{c.Name: {Cluster: c.Name, AuthInfo: user, Namespace: namespace}},
		CurrentContext: c.Name,
	}
	// A colon in a path would split $KUBECONFIG, hence the escape.
	path := filepath.Join(c.env.Dir, "kubeconfigs", c.Name+"-"+url.QueryEscape(file)+".yaml")
	if err := clientcmd.WriteToFile(config, path); err != nil {
		return "", fmt.Errorf("write kubeconfig of %s in %s: %w", user, c.Name, err)
	}
	return path, nil
}
