package session

import (
	"fmt"

	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
)

const wayOn = "Nothing is applied or deleted meanwhile. To take main as it is: kubectl gitbind approve --main %s"

// wordsOfMain says why a head of main is not accepted, and what can be done.
func wordsOfMain(v guard.Verdict, accepted store.Hash) string {
	head := store.Hash(v.Commit)
	switch v.Reason {
	case guard.MainMissing:
		return "the repository has no branch main. Nothing is applied or deleted until it has"
	case guard.MainRewritten:
		return fmt.Sprintf("main is at %s, which does not descend from %s, the last commit that was accepted. "+wayOn, head.Short(), accepted, head)
	case guard.MainEmptied:
		return fmt.Sprintf("main was emptied by commit %s. "+wayOn, head.Short(), head)
	case guard.MainUnsigned:
		merge := ""
		if accepted != "" {
			merge = fmt.Sprintf("A person who has such a key can merge it: git switch --detach %s, git merge --no-ff -S %s, git push origin HEAD:main. ", accepted, head)
		}
		return fmt.Sprintf("main is at %s, and its commit %s is signed neither by the cluster's konnector nor with a key of spec.signatures. "+merge+wayOn, head.Short(), v.Unsigned, head)
	}
	return fmt.Sprintf("the branch status is not the one that was written here, so it is not known what was applied before. "+wayOn, head)
}

// wordsOfRemovals says what is held, "" for nothing.
func wordsOfRemovals(held map[string]Removal, head store.Hash) string {
	if len(held) == 0 {
		return ""
	}
	commits := map[string]int{}
	for _, r := range held {
		commits[r.Commit]++
	}
	newest := string(head)
	if len(commits) == 1 {
		for commit := range commits {
			newest = commit
		}
	}
	return fmt.Sprintf("%d services stay though their files are not on main: the answer to each says why. "+
		"To let them go: kubectl gitbind approve --removals %s. To keep them, put their files back", len(held), newest)
}
