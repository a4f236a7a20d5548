package scan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Files looks at all files below a folder, and at all objects of the repositories there.
// What it finds is the error. Folders with one of the names in but are left out.
func (s *Scan) Files(ctx context.Context, dir string, but ...string) error {
	var found []error
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // It went meanwhile.
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(but, d.Name()):
			return filepath.SkipDir
		case d.IsDir() && d.Name() == "objects" && isRepository(filepath.Dir(path)):
			found = append(found, s.repository(ctx, filepath.Dir(path)))
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		found = append(found, s.file(ctx, path))
		return nil
	})
	return errors.Join(append(found, err)...)
}

func isRepository(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "HEAD"))
	return err == nil
}

func (s *Scan) file(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return s.read(ctx, path, f)
}

// repository looks at each object of a repository, reachable or not.
func (s *Scan) repository(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "git", "-C", dir, "-c", "safe.directory=*", "cat-file", "--batch", "--batch-all-objects", "--unordered")
	var words strings.Builder
	cmd.Stderr = &words
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	found := s.read(ctx, "an object of "+dir, out)
	if found != nil {
		_ = cmd.Process.Kill() // The first one says enough.
		_ = cmd.Wait()
		return found
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("read the objects of %s: %w: %s", dir, err, words.String())
	}
	return nil
}

// Objects looks at all objects of a cluster but Secrets, Events among them.
func (s *Scan) Objects(ctx context.Context, name string, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // Also kinds that are deprecated are looked at.
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	lists, err := kinds.ServerPreferredResources()
	if err != nil {
		return fmt.Errorf("find the kinds of cluster %s: %w", name, err)
	}
	var found []error
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "get"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, kind := range list.APIResources {
			if version.Group == "" && kind.Name == "secrets" {
				continue
			}
			all, err := objects.Resource(version.WithResource(kind.Name)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("list %s in cluster %s: %w", kind.Name, name, err)
			}
			for i := range all.Items {
				data, err := all.Items[i].MarshalJSON()
				if err != nil {
					return err
				}
				found = append(found, s.look(fmt.Sprintf("cluster %s, %s %s/%s", name, kind.Name, all.Items[i].GetNamespace(), all.Items[i].GetName()), data))
			}
		}
	}
	return errors.Join(found...)
}

// Page looks at what a URL answers.
func (s *Scan) Page(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, answer.Status)
	}
	return s.read(ctx, url, answer.Body)
}
