package decision

import (
	"fmt"

	"gitbind.dev/konnector/api/v1alpha1"
)

// hold says what happened and what a person can do about it.
func (f Facts) hold(why Reason) Decision {
	return Decision{Action: Hold, Reason: why, Message: f.message(why)}
}

func (f Facts) message(why Reason) string {
	file := f.Key.Path()
	switch why {
	case HistoryReplaced:
		return f.Replaced
	case NameUnfit:
		return fmt.Sprintf("This object cannot be committed: %s. Delete it, and create it with another name.", f.Unfit)
	case BothExist:
		return fmt.Sprintf("This object and %s on main were made independently and differ. Nothing was overwritten. Make them equal: change this object or the file.", file)
	case BothChanged:
		return fmt.Sprintf("This object and %s on main were both changed since they last agreed. Nothing was overwritten. Make them equal: change this object or the file.", file)
	case ChangedAndRemoved:
		return fmt.Sprintf("%s was removed from main, but this object was changed since. Delete this object to delete the service, or put the file back on main to keep it.", file)
	case FileMissing:
		return fmt.Sprintf("%s is not on main, and nothing in main's history since this object was last in step with it shows a removal. The service is kept. Delete this object to delete the service, or put the file back on main to keep it.", file)
	case FileInvalid:
		if f.Live == nil {
			return fmt.Sprintf("%s. Correct the file on main.", f.Problem)
		}
		return fmt.Sprintf("%s. This object stays as it is, and its changes wait. Correct the file on main.", f.Problem)
	case NamespaceMissing:
		return fmt.Sprintf("Namespace %s does not exist in this cluster: the object that %s orders cannot be created. Create the namespace, or remove the file from main.", f.Key.Namespace, file)
	case FileRefused:
		return fmt.Sprintf("This cluster's API server refuses %s: %s. Correct the file on main.", file, f.Refusal)
	case DeletedAndChanged:
		return fmt.Sprintf("This object was deleted, but %s was changed on main since they last agreed. The service is kept. Remove the file from main to delete the service, or take the finalizer %s off this object to keep it: it is then created again from the file.", file, v1alpha1.Finalizer)
	case FileCameBack:
		return fmt.Sprintf("%s was removed and came back while this object was being deleted. A delete that has begun cannot be undone. Remove the file from main to delete the service, or take the finalizer %s off this object: it is then created again from the file.", file, v1alpha1.Finalizer)
	case NamespaceDeleted, APIDeleted:
		return fmt.Sprintf("This object is deleted only because its %s is. The service is kept. Remove %s from main to delete the service, or take the finalizer %s off this object to leave the service as it is.", f.Ending, file, v1alpha1.Finalizer)
	}
	return string(why)
}
