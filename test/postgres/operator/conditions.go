package operator

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backup "gitbind.dev/test/postgres/api/backup/v1beta3"
)

// finished tells that nothing more is done.
func finished(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, backup.Complete) || meta.IsStatusConditionTrue(conditions, backup.PermanentlyFailed)
}

// begin tells whether that was not said before.
func begin(conditions *[]metav1.Condition) bool {
	return set(conditions, backup.InProgress, metav1.ConditionTrue, "Started", "")
}

func complete(conditions *[]metav1.Condition) {
	set(conditions, backup.InProgress, metav1.ConditionFalse, "Done", "")
	if meta.FindStatusCondition(*conditions, backup.Failed) != nil {
		set(conditions, backup.Failed, metav1.ConditionFalse, "Done", "")
	}
	set(conditions, backup.Complete, metav1.ConditionTrue, "Done", "")
}

// fail says what went wrong, in a condition of the type Failed or PermanentlyFailed.
func fail(conditions *[]metav1.Condition, how, reason string, err error) {
	set(conditions, backup.InProgress, metav1.ConditionFalse, reason, "")
	set(conditions, backup.Complete, metav1.ConditionFalse, reason, "")
	set(conditions, how, metav1.ConditionTrue, reason, err.Error())
}

func set(conditions *[]metav1.Condition, kind string, status metav1.ConditionStatus, reason, message string) bool {
	return meta.SetStatusCondition(conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
}
