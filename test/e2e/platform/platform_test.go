package platform

import (
	"os"
	"path/filepath"
	"testing"
)

func TestARelativeFolderOfComponentsIsFoundFromEverywhere(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{"": "", "bin": filepath.Join(here, "bin"), "/somewhere/bin": "/somewhere/bin"} {
		o := Options{Bin: given}
		if err := o.complete(); err != nil || o.Bin != want {
			t.Errorf("%q becomes %q (%v), want %q", given, o.Bin, err, want)
		}
	}
}
