package hostile

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
)

// push is what is sent to a repository: which branch is to become what, with the
// pack beside it.
type push struct {
	updates []update
	pack    []byte
}

type update struct{ ref, to string }

// target is the repository that is attacked.
type target struct {
	// head is main's commit.
	head string
	// root are the entries of the root of its tree that an attack leaves alone, as
	// tree takes them: a konnector may not change them, and a push that did would
	// be refused for that.
	root [][2]string
	// email is that of a committer whom the host takes.
	email string
}

// An attack makes a push.
type attack struct {
	name string
	make func(target) push
}

func (t target) packer() *packer { return &packer{email: t.email} }

// withBindings adds the root of the tree with so many bindings, "" for none.
func (t target) withBindings(p *packer, bindings string) string {
	entries := slices.Clone(t.root)
	if bindings != "" {
		entries = append(entries, [2]string{"40000 bindings", bindings})
	}
	return p.add(treeObject, tree(entries...))
}

func (p *packer) push(ref, to string) push {
	return push{updates: []update{{ref, to}}, pack: p.pack()}
}

const mainBranch = "refs/heads/main"

// attacks are those of the review, by their letters there.
func attacks() []attack {
	return []attack{
		{"H1 a tree of a million paths", pathBomb},
		{"H1 a tree of a thousand folders, one in the other", deepTree},
		{"H2 commits with long messages", longMessages},
		{"H3 a delta that makes a blob of a gibibyte", deltaBomb},
		{"H4 a commit with thousands of parents", manyParents},
		{"H4 thousands of branches", manyBranches},
		{"H4 a file after the other", fill},
	}
}

func pathBomb(t target) push {
	p := t.packer()
	below := p.add(treeObject, tree([2]string{"100644 a.yaml", p.add(blobObject, []byte("x: 1\n"))}, [2]string{"100644 b.yaml", nameOf("blob", []byte("x: 1\n"))}))
	for range 20 {
		below = p.add(treeObject, tree([2]string{"40000 a", below}, [2]string{"40000 b", below}))
	}
	root := t.withBindings(p, below)
	return p.push(mainBranch, p.commit(root, []string{t.head}, "Paths\n"))
}

func deepTree(t target) push {
	p := t.packer()
	below := p.add(treeObject, tree([2]string{"100644 a.yaml", p.add(blobObject, []byte("x: 1\n"))}))
	for range 1000 {
		below = p.add(treeObject, tree([2]string{"40000 " + strings.Repeat("d", 200), below}))
	}
	root := t.withBindings(p, below)
	return p.push(mainBranch, p.commit(root, []string{t.head}, "Depth\n"))
}

func longMessages(t target) push {
	p := t.packer()
	root := t.withBindings(p, "")
	message := "Words\n\n" + strings.Repeat("a long word. ", 1<<20/13)
	head := t.head
	for range 16 {
		head = p.commit(root, []string{head}, message)
	}
	return p.push(mainBranch, head)
}

func deltaBomb(t target) push {
	p := t.packer()
	base := make([]byte, 1<<20)
	file := p.add(blobObject, base)
	p.explode(base, 1<<10)
	root := t.withBindings(p, p.add(treeObject, tree([2]string{"100644 file", file})))
	return p.push(mainBranch, p.commit(root, []string{t.head}, "Delta\n"))
}

func manyParents(t target) push {
	p := t.packer()
	root := t.withBindings(p, "")
	var parents []string
	for i := range 2000 {
		parents = append(parents, p.commit(root, []string{t.head}, fmt.Sprintf("Parent %d\n", i)))
	}
	return p.push(mainBranch, p.commit(root, parents, "Child\n"))
}

func manyBranches(t target) push {
	p := t.packer()
	root := t.withBindings(p, "")
	to := p.commit(root, []string{t.head}, "Branch\n")
	out := push{pack: p.pack()}
	for i := range 2000 {
		out.updates = append(out.updates, update{fmt.Sprintf("refs/heads/changes/postgresqlinstances.anynines.com/team-a/%s", rand.Text()+fmt.Sprint(i)), to})
	}
	return out
}

// fill adds 16 files that cannot be compressed, each as large as a file may be.
func fill(t target) push {
	p := t.packer()
	var entries [][2]string
	for i := range 16 {
		data := make([]byte, 1<<20-1<<10)
		_, _ = rand.Read(data)
		entries = append(entries, [2]string{fmt.Sprintf("100644 %02d.bin", i), p.add(blobObject, data)})
	}
	folder := p.add(treeObject, tree(entries...))
	bindings := p.add(treeObject, tree([2]string{"40000 files", folder}))
	root := t.withBindings(p, bindings)
	return p.push(mainBranch, p.commit(root, []string{t.head}, "Files\n"))
}
