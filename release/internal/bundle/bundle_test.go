package bundle

import (
	"path/filepath"
	"regexp"
	"testing"

	"gitbind.dev/test/env"
)

var imageLine = regexp.MustCompile(`(?m)^ +image: (.*)$`)

// TestManifestsNameTheImagesOfTheRelease renders what a release has of manifests.
func TestManifestsNameTheImagesOfTheRelease(t *testing.T) {
	t.Parallel()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	for overlay, names := range map[string][]string{"konnector": {"gitbind-konnector"}, "control-plane": {"gitbind-backend", "gitbind-gitbridge"}} {
		for registry, prefix := range map[string]string{"": "", "registry.example.com:5000/gitbind": "registry.example.com:5000/gitbind/"} {
			text, err := Render(filepath.Join(root, "kustomize", overlay), registry, "v1.2.3+dirty")
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]bool{}
			for _, m := range imageLine.FindAllSubmatch(text, -1) {
				found[string(m[1])] = true
			}
			for _, name := range names {
				if want := prefix + name + ":v1.2.3-dirty"; !found[want] || len(found) != len(names) {
					t.Errorf("%s in %q has the images %v, want %s", overlay, registry, found, want)
				}
			}
		}
	}
}
