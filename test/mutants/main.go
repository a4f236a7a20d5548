// Command mutants tells how much of what decides is held by tests. It changes one
// operator, condition or statement of a package after the other, and runs the package's
// tests each time: they should fail. A change that they do not notice is a case that is
// missing, or changes nothing that can be observed.
//
// It changes no file of the tree, and runs only tests that need neither time nor parts.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// target is a package that is changed.
type target struct {
	Dir string
	// Files are those that are changed, all of them if there are none here.
	Files []string
	// Run are the tests that should notice, as in go test -run.
	Run string
}

var targets = []target{
	{Dir: "konnector/internal/agent/decision"},
	{Dir: "gitbridge/internal/decision"},
	{Dir: "konnector/internal/agent/merge"},
	{Dir: "gitbridge/contract"},
	{Dir: "gitbridge/breaker"},
	{Dir: "gitbridge/guard"},
	{
		Dir:   "backend/internal/githost/embedded",
		Files: []string{"ident.go", "objects.go", "pktline.go", "request.go", "rolerefs.go"},
		Run:   "^(TestRefRule.*|TestChangeOutside.*|TestIdentRule|TestWhatTheComponentsCommitAsIsLetIn|TestEachRoleIsBothAuthorAndCommitterOfItsCommits|TestACommitOfEachRoleIsInUTF8|TestAMessageOfAPerson.*|TestTheMessageRulesAreForPeopleOnly|TestParse.*|TestValidRef|TestRefusedPush.*|FuzzParse.*)$",
	},
}

func main() {
	atLeast := flag.Float64("min", 0, "fail when the tests of a package notice fewer of its mutants, in percent")
	workers := flag.Int("workers", 2, "how many mutants are tried at the same time")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Usage: mutants [flags] [DIRECTORY...]\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(flag.Args(), *atLeast, *workers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dirs []string, atLeast float64, workers int) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var few []string
	for _, t := range targets {
		if len(dirs) > 0 && !slices.Contains(dirs, t.Dir) {
			continue
		}
		all, lived, err := t.try(ctx, workers)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Dir, err)
		}
		noticed := 100 * float64(all-len(lived)) / float64(all)
		fmt.Printf("%s: %d of %d mutants noticed, %.1f %%\n", t.Dir, all-len(lived), all, noticed)
		for _, m := range lived {
			fmt.Printf("  %s:%d:%d: %s\n", filepath.Base(m.Pos.Filename), m.Pos.Line, m.Pos.Column, m.What)
		}
		if noticed < atLeast {
			few = append(few, t.Dir)
		}
	}
	if len(few) > 0 {
		return fmt.Errorf("fewer than %v %% noticed in %s", atLeast, strings.Join(few, ", "))
	}
	return nil
}

// listed is what go list tells of a package.
type listed struct {
	Dir, ImportPath, Name, Export string
	GoFiles                       []string
}

// try runs the tests with each mutant of a package, and gives those that lived.
func (t target) try(ctx context.Context, workers int) (all int, lived []mutant, err error) {
	tmp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return 0, nil, err
	}
	defer os.RemoveAll(tmp)
	pkg, exports, err := list(ctx, t.Dir)
	if err != nil {
		return 0, nil, err
	}
	m, overlay, err := t.mutate(pkg, exports, tmp)
	if err != nil {
		return 0, nil, err
	}
	binary := filepath.Join(tmp, "package.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, pkg.ImportPath)
	if out, err := build.CombinedOutput(); err != nil {
		return 0, nil, fmt.Errorf("%w: %s", err, out)
	}
	args := []string{"-test.short", "-test.failfast", "-test.run", t.Run}
	test := func(n int, limit time.Duration) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, args...)
		// Property tests draw the same each time, and leave no files in the tree.
		cmd.Dir, cmd.Env = pkg.Dir, append(os.Environ(), fmt.Sprintf("MUTANT=%d", n), "GOMAXPROCS=1", "RAPID_SEED=1", "RAPID_NOFAILFILE=true")
		return cmd.Run()
	}
	start := time.Now()
	if err := test(0, 10*time.Minute); err != nil {
		return 0, nil, fmt.Errorf("without a mutant: %w", err)
	}
	limit := 10*time.Since(start) + 10*time.Second

	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		queue = make(chan int)
	)
	for range workers {
		wg.Go(func() {
			for n := range queue {
				if test(n, limit) == nil {
					mu.Lock()
					lived = append(lived, m.mutants[n-1])
					mu.Unlock()
				}
			}
		})
	}
	for n := range m.mutants {
		queue <- n + 1
	}
	close(queue)
	wg.Wait()
	slices.SortFunc(lived, func(a, b mutant) int {
		if a.Pos.Filename != b.Pos.Filename {
			return strings.Compare(a.Pos.Filename, b.Pos.Filename)
		}
		return a.Pos.Offset - b.Pos.Offset
	})
	return len(m.mutants), lived, ctx.Err()
}

// list gives a package, and the compiled forms of all that it imports.
func list(ctx context.Context, dir string) (pkg listed, exports map[string]string, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=Dir,ImportPath,Name,Export,GoFiles", "./"+dir).Output()
	if err != nil {
		return listed{}, nil, fmt.Errorf("go list: %w", err)
	}
	exports = map[string]string{}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var next listed
		if err := in.Decode(&next); errors.Is(err, io.EOF) {
			return pkg, exports, nil
		} else if err != nil {
			return listed{}, nil, err
		}
		exports[next.ImportPath] = next.Export
		pkg = next // The package itself comes after what it imports.
	}
}

// mutate writes the changed files to tmp, and a file that puts them in the place of
// those of the package.
func (t target) mutate(pkg listed, exports map[string]string, tmp string) (*mutator, string, error) {
	m := &mutator{fset: token.NewFileSet(), info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}}
	var files []*ast.File
	for _, name := range pkg.GoFiles {
		f, err := parser.ParseFile(m.fset, filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, "", err
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: importer.ForCompiler(m.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	if _, err := conf.Check(pkg.ImportPath, m.fset, files, m.info); err != nil {
		return nil, "", err
	}
	replace := map[string]string{}
	write := func(name string, content []byte) error {
		to := filepath.Join(tmp, name)
		replace[filepath.Join(pkg.Dir, name)] = to
		return os.WriteFile(to, content, 0o600)
	}
	if err := write("mutants_of_this_package.go", fmt.Appendf(nil, helpers, pkg.Name)); err != nil {
		return nil, "", err
	}
	for i, name := range pkg.GoFiles {
		if len(t.Files) > 0 && !slices.Contains(t.Files, name) {
			continue
		}
		src, err := os.ReadFile(filepath.Join(pkg.Dir, name))
		if err != nil {
			return nil, "", err
		}
		if err := write(name, m.rewrite(files[i], src)); err != nil {
			return nil, "", err
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, "", err
	}
	overlay := filepath.Join(tmp, "overlay.json")
	return m, overlay, os.WriteFile(overlay, b, 0o600)
}
