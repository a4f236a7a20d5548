package operator

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	backup "gitbind.dev/test/postgres/api/backup/v1beta3"
)

func TestARestoreThatWasInterruptedIsNotMadeAgain(t *testing.T) {
	o := &backup.Restore{}
	o.UID = "begun-by-an-operator-that-has-ended"
	begin(&o.Status.Conditions)
	again := (&restores{}).restore(t.Context(), o)
	c := meta.FindStatusCondition(o.Status.Conditions, backup.PermanentlyFailed)
	if c == nil || c.Message != errUnknown.Error() || !finished(o.Status.Conditions) || again.RequeueAfter != 0 {
		t.Errorf("it goes on after %s with %+v", again.RequeueAfter, o.Status.Conditions)
	}
}

func TestABackupIsTriedAgainAsOftenAsItSays(t *testing.T) {
	for _, c := range []struct {
		given *intstr.IntOrString
		want  int
	}{
		{nil, 10}, {new(intstr.FromInt32(3)), 3}, {new(intstr.FromString("0")), 0}, {new(intstr.FromString("Infinite")), -1},
	} {
		if got := retries(c.given); got != c.want {
			t.Errorf("%v is %d, want %d", c.given, got, c.want)
		}
	}
	for tries, want := range map[int32]time.Duration{0: time.Second, 3: 8 * time.Second, 5: 30 * time.Second, 1 << 30: 30 * time.Second} {
		if got := backOff(tries); got != want {
			t.Errorf("after %d tries %s, want %s", tries, got, want)
		}
	}
}
