package decision

import (
	"fmt"
	"strings"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func (f Facts) message(why Reason) string {
	file := f.Key.Path()
	switch why {
	case HistoryReplaced:
		return f.Replaced
	case Copied:
		return f.Copied
	case NameUnfit:
		return fmt.Sprintf("This object cannot be committed: %s. Delete it, and create it with another name.", f.Unfit)
	case ChangedAndRemoved:
		return fmt.Sprintf("%s was removed from main, but this object was changed since both last agreed. The control plane acts on main, and deletes the service. "+decide+": delete lets this object go too, keep puts the file back on main, which orders a new, empty service if the old one is gone.", file)
	case FileMissing:
		return fmt.Sprintf("%s is not on main, and nothing in main's history since this object was last in step with it shows a removal. The service is kept. "+decide+": keep puts the file back on main, delete deletes the service.", file)
	case CommitLost:
		return fmt.Sprintf("%s differs from this object, and main lacks commit %.10s, which had this object's version: the Git host has lost it, as after a crash or a restored backup. Neither was changed. It ends by itself when that commit is on main again. Else "+decideHere+": cluster commits this object over the file, file writes the file into it and keeps the object's version on a branch.", file, f.BaseCommit)
	case HistoryTooLong:
		return f.historyTooLong(file)
	case FileInvalid:
		if f.Live == nil {
			return fmt.Sprintf("%s. Correct the file on main.", f.Problem)
		}
		return fmt.Sprintf("%s. This object stays as it is, and its changes wait. Correct the file on main.", f.Problem)
	case NamespaceMissing:
		return fmt.Sprintf("Namespace %s does not exist in this cluster: the object that %s orders cannot be created. Create the namespace, or remove the file from main.", f.Key.Namespace, file)
	case FileRefused:
		return fmt.Sprintf("This cluster refuses %s: %s. Correct the file on main.", file, f.Refusal)
	case DeletedAndChanged:
		return fmt.Sprintf("This object was deleted, but %s was changed on main since they last agreed. The service is kept. "+decide+": "+deleteOrRelease, file)
	case FileCameBack:
		return fmt.Sprintf("%s was removed and came back while this object was being deleted. A delete that has begun cannot be undone. "+decide+": "+deleteOrRelease, file)
	case NamespaceDeleted, APIDeleted:
		if f.NamespaceMissing {
			return f.leftBehind(file)
		}
		return fmt.Sprintf("This object is deleted only because its %s was. The service is kept. "+decide+": delete removes %s from main and deletes the service, release lets this object go and leaves file and service as they are.", f.Ending, file)
	case OwnerDeleted:
		return fmt.Sprintf("This object was deleted, and %s. Kubernetes deletes an object by itself when none of its owners stays, which says nothing of the service. The service is kept. "+decide+": delete removes %s from main and deletes the service, release lets this object go and keeps the service: the object is then created again from the file, without owners.", f.noOwner(), file)
	case FlipFlop:
		return fmt.Sprintf("%s Main stays as it is in %s until it is clear who writes what. Stop one of the two, or say in spec.writer of APIServiceBinding %s where claims are written. Then "+decideHere+": cluster commits this object, file writes the file into it.", f.FlipWords, file, f.Key.Binding)
	case ManyWrites:
		return fmt.Sprintf("Each commit and write of this claim is answered by another one, in %s: nothing more is written to this object or to %s. Stop what keeps writing, or say in spec.writer of APIServiceBinding %s where claims are written. Then "+decideHere+": %s", f.ManyWrites, file, f.Key.Binding, f.manyWritesChoices())
	case ManyRemovals, Moved:
		return f.Removal.Message
	case NotServed:
		return f.Elsewhere
	case GitWrites:
		return f.gitWrites(file)
	case ClusterWrites:
		return f.clusterWrites(file)
	case Rejected:
		return f.rejectedMessage()
	case Paused:
		return fmt.Sprintf("This claim is paused: what changes here or in %s stays as it is. To go on: kubectl annotate this object %s-", file, v1alpha1.PauseAnnotation)
	}
	return string(why)
}

const (
	decideHere      = "decide (kubectl gitbind resolve)"
	decide          = "Decide (kubectl gitbind resolve)"
	deleteOrRelease = "delete removes the file from main and deletes the service, release lets this object go and keeps the service: the object is then created again from the file."
)

// noOwner is why it is not known that an owner stays.
func (f Facts) noOwner() string {
	if f.Owners > MaxOwners {
		return fmt.Sprintf("has %d owners in its metadata.ownerReferences: of more than %d the konnector does not look whether one stays", f.Owners, MaxOwners)
	}
	return "of the owners in its metadata.ownerReferences there is none of which the konnector knows that it stays: each is gone, or goes, or the konnector may not read it, or this cluster has no such kind or name"
}

// historyTooLong is for what the history tells that is too far back.
func (f Facts) historyTooLong(file string) string {
	const more = "main has more history since than the konnector reads (64 MiB of commits)"
	switch {
	case f.File != nil:
		return fmt.Sprintf("%s differs from this object, and it cannot be told whether main has commit %.10s, at which both were the same: "+more+". Neither was changed. "+decide+": cluster commits this object over the file, file writes the file into it and keeps the object's version on a branch.", file, f.BaseCommit)
	case f.Base != nil:
		return fmt.Sprintf("%s is not on main, and it cannot be told whether a commit removed it after %.10s, at which both were the same: "+more+". The service is kept. "+decide+": keep puts the file back on main, delete deletes the service.", file, f.BaseCommit)
	}
	return fmt.Sprintf("%s is not on main, and it cannot be told whether it was there since this object was made, and was removed: "+more+". Nothing was ordered or deleted for it. "+decide+": keep puts the file on main, which orders a new, empty service if there is none, delete deletes this object.", file)
}

// gitWrites is for an API of which only Git may say what is wanted.
func (f Facts) gitWrites(file string) string {
	if f.Terminating {
		return fmt.Sprintf("This object was deleted, but claims of this API are written in Git only: %s is on main, and the service is kept. "+decide+": "+deleteOrRelease, file)
	}
	return fmt.Sprintf("This object was created here, but claims of this API are written in Git only: nothing is ordered. Put it on main as %s, or delete this object.", file)
}

// leftBehind is for an object in a namespace that is gone.
func (f Facts) leftBehind(file string) string {
	what := "changes of " + file + " do not reach it"
	if f.Terminating {
		what = "nothing can be decided on it; what " + file + " on main says, and the service, stay as they are"
	}
	return fmt.Sprintf("Namespace %[1]s was removed by force, before this object was gone. This cluster's API server changes nothing in it: %[2]s. Create the namespace again (kubectl create namespace %[1]s), then decide (kubectl gitbind resolve), and delete it again if it is to go.", f.Key.Namespace, what)
}

// clusterWrites is for an API of which only this cluster may say what is wanted.
func (f Facts) clusterWrites(file string) string {
	if f.File == nil {
		return fmt.Sprintf("%s was removed from main by others, but claims of this API are written in this cluster only. The service is kept. "+decide+": keep puts the file back on main, delete deletes the service.", file)
	}
	return fmt.Sprintf("%s was changed on main by others, but claims of this API are written in this cluster only. This object stays as it is. "+decide+": cluster commits this object over the file, file writes the file into it.", file)
}

// lostMessage says what a conflict was about, and where the version that lost is.
func (f Facts) lostMessage() string {
	what := map[Reason]string{
		BothExist: "This object and the file were made independently and differ",
		GitWrites: "Claims of this API are written in Git only",
		Rejected:  "A change of this object was rejected",
	}[f.Lost.Reason]
	if what == "" {
		what = "This object and the file were both changed"
		if len(f.Lost.Fields) > 0 {
			what += " in " + strings.Join(f.Lost.Fields, ", ")
		}
	}
	by := ""
	if len(f.Lost.Users) > 0 {
		by = " (by " + strings.Join(f.Lost.Users, ", ") + ")"
	}
	again := ": cluster brings it back, file leaves things as they are."
	switch {
	case f.LostRefusal != "":
		again = ". It cannot be brought back: " + f.LostRefusal
	case f.Lost.Reason == GitWrites:
		again = ": file leaves things as they are. To have it after all, merge the branch into main."
	}
	return fmt.Sprintf("%s: %s on main won. What was in the cluster%s is kept on branch %s. "+decide+"%s", what, f.Key.Path(), by, f.Lost.Branch, again)
}

func (f Facts) manyWritesChoices() string {
	const toFile = "file writes the file into this object."
	if f.Writer == v1alpha1.WriterGit {
		return toFile
	}
	return "cluster commits this object, " + toFile
}
