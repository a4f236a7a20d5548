package env

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
)

// A part is one program of the environment. Its version is what the go.mod of
// its module below parts/ says.
type part struct {
	name    string   // of the program, and of its entry in the cache
	dir     string   // of its module, below parts/
	module  string   // that holds its source
	pkg     string   // package of the program, relative to module
	cgo     bool     // whether it can only be built with a C compiler
	tags    string   // build tags
	own     string   // file with the program, if it is not the module's: beside the go.mod below parts/
	extra   bool     // built only where it is asked for
	ldflags string   // VERSION stands for the module's version
	files   []string // directories of the module that are kept beside the program
	edits   []edit
	asset   string   // name below $KUBEBUILDER_ASSETS, if it may be used instead
	minimum [2]int   // version that an asset must have at least
	flags   []string // that make the asset say its version
}

// An edit changes a source file for the build, for what a program has no flag
// for. It must match exactly once, so that a new version is looked at.
type edit struct {
	file, old, new string
}

const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	kubectl           = "kubectl"
	crossplane        = "crossplane"
	function          = "function-patch-and-transform"
	provider          = "provider-kubernetes"
	dex               = "dex"
	gitea             = "gitea"
	certManager       = "cert-manager"
	zitadel           = "zitadel"
	tilt              = "tilt"
	kubelet           = "kubelet"
	scheduler         = "kube-scheduler"
	kubeProxy         = "kube-proxy"
	coreDNS           = "coredns"
)

const kubeVersion = "-X k8s.io/component-base/version.gitVersion=VERSION " +
	"-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"

// allParts are in the order in which they are built: what others wait for
// comes first.
func allParts() []part {
	return []part{
		{
			name: etcd, dir: "etcd", module: "go.etcd.io/etcd/server/v3",
			asset: "etcd", minimum: [2]int{3, 5}, flags: []string{"--version"},
		},
		{
			name: apiServer, dir: "kubernetes", module: "k8s.io/kubernetes", pkg: "/cmd/kube-apiserver",
			ldflags: kubeVersion,
			// 1.36 is the first that serves MutatingAdmissionPolicy v1.
			asset: "kube-apiserver", minimum: [2]int{1, 36}, flags: []string{"--version"},
		},
		{
			name: controllerManager, dir: "kubernetes", module: "k8s.io/kubernetes", pkg: "/cmd/kube-controller-manager",
			ldflags: kubeVersion,
			asset:   "kube-controller-manager", minimum: [2]int{1, 36}, flags: []string{"--version"},
		},
		{
			name: kubectl, dir: "kubernetes", module: "k8s.io/kubernetes", pkg: "/cmd/kubectl",
			ldflags: kubeVersion,
			asset:   "kubectl", minimum: [2]int{1, 28}, flags: []string{"version", "--client"},
		},
		{
			name: dex, dir: "dex", module: "github.com/dexidp/dex", pkg: "/cmd/dex",
			cgo: true,
		},
		{
			name: crossplane, dir: "crossplane", module: "github.com/crossplane/crossplane/v2", pkg: "/cmd/crossplane",
			ldflags: "-X github.com/crossplane/crossplane-runtime/v2/pkg/version.version=VERSION",
			files:   []string{"cluster/crds", "cluster/webhookconfigurations"},
		},
		{
			name: function, dir: "function-patch-and-transform", module: "github.com/crossplane-contrib/function-patch-and-transform",
		},
		{
			name: provider, dir: "provider-kubernetes", module: "github.com/crossplane-contrib/provider-kubernetes", pkg: "/cmd/provider",
			files: []string{"package/crds"},
			// It listens on fixed ports of all addresses, 8080 for metrics and
			// 9443 for its webhook: two environments would exclude each other.
			ldflags: "-X sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=0",
			edits: []edit{{
				file: "cmd/provider/main.go",
				old:  "\t\t\tCertDir: certDir,\n",
				new: "\t\t\tCertDir: certDir,\n\t\t\tHost: \"127.0.0.1\",\n" +
					"\t\t\tPort: func() (port int) { _, _ = fmt.Sscan(os.Getenv(\"WEBHOOK_PORT\"), &port); return port }(),\n",
			}},
		},
		{
			name: zitadel, dir: "zitadel", module: "github.com/zitadel/oidc/v3", pkg: "/example/server",
			edits: []edit{
				{file: "example/server/main.go", old: `":" + cfg.Port`, new: `"127.0.0.1:" + cfg.Port`},
				// A public client may use the device code grant too, and is
				// asked to wait a second only.
				{
					file: "example/server/storage/client.go",
					old:  "oidc.GrantTypeCode, oidc.GrantTypeRefreshToken},",
					new:  "oidc.GrantTypeCode, oidc.GrantTypeRefreshToken, oidc.GrantTypeDeviceCode},",
				},
				{file: "example/server/exampleop/op.go", old: "PollInterval: 5 * time.Second", new: "PollInterval: time.Second"},
				// Its button needs JavaScript.
				{
					file: "example/server/exampleop/templates/confirm_device.html",
					old:  `<button onclick="location.href='./confirm?action=allowed'" type="button" class="green">Allow</button>`,
					new:  `<form method="POST" action="./confirm"><input type="hidden" name="action" value="allowed"><button>Allow</button></form>`,
				},
			},
		},
		{
			name: gitea, dir: "gitea", module: "code.gitea.io/gitea", extra: true,
			cgo: true, tags: "sqlite sqlite_unlock_notify",
			files: []string{"templates", "options", "public"},
		},
		{
			name: certManager, dir: "cert-manager", module: "github.com/cert-manager/cert-manager", own: "main.go", extra: true,
			files: []string{"deploy/crds"},
		},
		{name: kubelet, dir: "node", module: "k8s.io/kubernetes", pkg: "/cmd/kubelet", ldflags: kubeVersion, extra: true},
		{name: scheduler, dir: "node", module: "k8s.io/kubernetes", pkg: "/cmd/kube-scheduler", ldflags: kubeVersion, extra: true},
		{name: kubeProxy, dir: "node", module: "k8s.io/kubernetes", pkg: "/cmd/kube-proxy", ldflags: kubeVersion, extra: true},
		{name: coreDNS, dir: "coredns", module: "github.com/coredns/coredns", extra: true},
		{
			name: tilt, dir: "tilt", module: "github.com/tilt-dev/tilt", pkg: "/cmd/tilt", extra: true,
			cgo: true,
			// Its module lacks the web page, which is made with other tools than Go. It
			// serves ours in its place, from the file that $TILT_WEB_PAGE names.
			edits: []edit{
				{file: "pkg/assets/embedded.go", old: "\t\"net/http\"\n", new: "\t\"net/http\"\n\t\"os\"\n"},
				{file: "pkg/assets/embedded.go", old: `build.ReadFile("build/index.html")`, new: `os.ReadFile(os.Getenv("TILT_WEB_PAGE"))`},
			},
		},
	}
}

// sourceDir is where the modules of the parts are. They cannot be embedded,
// because a module's files do not include those of nested modules.
func sourceDir() (string, error) {
	root, err := Root()
	if err != nil {
		return "", fmt.Errorf("find the modules of the parts: %w", err)
	}
	return filepath.Join(root, "test", "env", "parts"), nil
}

// Root is the checkout's top folder: where the program's source lies, or, when it was
// built with -trimpath, above the working directory.
func Root() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Dir(file)
	if !filepath.IsAbs(dir) {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return "", err
		}
	}
	for at := dir; ; at = filepath.Dir(at) {
		mod, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module gitbind.dev\n")) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("there is no checkout of gitbind at %s: run it in one", dir)
		}
	}
}

// version reads the part's version from the go.mod of its module.
func (p part) version(mod []byte) (string, error) {
	re := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(p.module) + `\s+(v\S+)`)
	m := re.FindSubmatch(mod)
	if m == nil {
		return "", fmt.Errorf("parts/%s/go.mod does not require %s", p.dir, p.module)
	}
	return string(m[1]), nil
}

// identify says the part's version and the name of its entry in the cache,
// which changes with all that its program is made from.
func (p part) identify(source string) (version, entry string, err error) {
	mod, err := os.ReadFile(filepath.Join(source, p.dir, "go.mod"))
	if err != nil {
		return "", "", err
	}
	sum, err := os.ReadFile(filepath.Join(source, p.dir, "go.sum"))
	if err != nil {
		return "", "", err
	}
	if version, err = p.version(mod); err != nil {
		return "", "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %v %q %q %q %s/%s", mod, sum, p.pkg, p.cgo, p.ldflags, p.files, p.edits, runtime.GOOS, runtime.GOARCH)
	if p.tags != "" {
		fmt.Fprintf(h, " %q", p.tags)
	}
	if p.own != "" {
		program, err := os.ReadFile(filepath.Join(source, p.dir, p.own))
		if err != nil {
			return "", "", err
		}
		fmt.Fprintf(h, " %q", program)
	}
	return version, fmt.Sprintf("%s-%s-%s", p.name, version, hex.EncodeToString(h.Sum(nil))[:12]), nil
}
