package appcluster

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestChoose(t *testing.T) {
	prod := v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}
	one := []v1alpha1.Connection{prod}
	two := []v1alpha1.Connection{prod, {ObjectMeta: metav1.ObjectMeta{Name: "dev"}}}
	for _, c := range []struct {
		what      string
		all       []v1alpha1.Connection
		name      string
		want, err string
	}{
		{"none", nil, "", "", "kubectl gitbind connect URL"},
		{"the only one", one, "", "prod", ""},
		{"the named one", two, "dev", "dev", ""},
		{"one of two", two, "", "", "has the connections dev, prod: choose one with --connection"},
		{"another name", one, "dev", "", `no connection "dev"; it has prod`},
	} {
		got, err := choose(c.all, c.name)
		switch {
		case c.err == "" && (err != nil || got.Name != c.want):
			t.Errorf("%s: %v, %v", c.what, got, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: error is %v", c.what, err)
		}
	}
}

func TestOnlyStatesThatLastAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		a := announcer{tell: func(c metav1.Condition) { told = append(told, c.Reason) }}
		state := func(reason string, lasts time.Duration) {
			a.becomes(&metav1.Condition{Reason: reason})
			time.Sleep(lasts)
			synctest.Wait()
		}
		state("Connecting", lasting/2)
		state("Unreachable", lasting/2)
		state("Unreachable", lasting)
		state("Unreachable", 2*lasting)
		state("Connecting", lasting/2)
		if got := a.last(); got.Reason != "Connecting" {
			t.Errorf("the last is %s", got.Reason)
		}
		time.Sleep(2 * lasting)
		synctest.Wait()
		if strings.Join(told, " ") != "Unreachable" {
			t.Errorf("told %v", told)
		}
	})
}
