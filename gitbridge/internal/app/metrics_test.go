package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/app"
	"gitbind.dev/gitbridge/program"
	"gitbind.dev/test/env"
)

// scrape reads /metrics: values by "name{labels}" as they are written there.
func scrape(address string) (map[string]float64, error) {
	res, err := http.Get("http://" + address + "/metrics") //nolint:noctx // a local one
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for line := range strings.SplitSeq(string(body), "\n") {
		if help, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, words, _ := strings.Cut(help, " ")
			out["help "+name] = float64(len(words))
		}
		i := strings.LastIndex(line, " ")
		if value, err := strconv.ParseFloat(line[i+1:], 64); i > 0 && line[0] != '#' && err == nil {
			out[line[:i]] = value
		}
	}
	return out, nil
}

func TestC9_GitbridgeTellsPrometheusWhatItDoes(test *testing.T) {
	w := newWorld(test)
	postgresql, brokers := w.define(postgresqlFile), w.define(brokersFile)
	address := env.FreeAddress(test)
	w.startBridgeWith(app.Options{Options: program.Options{MetricsListen: address}})
	t := w.tenant(postgresql, brokers)
	// What is on main at first contact is not news.
	t.wantSynced("Following")
	orders, bad, events := path(postgresql, "team-a", "orders"), path(postgresql, "team-a", "bad"), path(brokers, "team-a", "events")
	t.push("Order", map[string]string{
		orders: manifest(orders, nano), bad: manifest(bad, nano+"\n  pan: x"), events: manifest(events, rich), "bindings/made.up/claims/a/b.yaml": "x",
	})
	t.wantAnswer(orders, contract.Applied)
	t.wantAnswer(bad, contract.Invalid)
	t.wantAnswer(events, contract.Applied)
	t.setStatus(orders, map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": "2026-01-01T00:00:00Z"}}})
	t.wantReady(orders)
	t.edit(events, `{"spec":{"mode":"safe"}}`)
	t.eventually("it is set back", func() error {
		mode, _, _ := unstructured.NestedString(t.object(events).Object, "spec", "mode")
		return is(mode, "fast")
	})
	t.must(t.admin.Delete(t.Context(), t.object(orders)))
	t.wantAnswer(orders, contract.Lost)

	label := fmt.Sprintf(`{cluster="%s",shard="default"}`, t.id)
	of := func(binding, key, value string) string {
		return fmt.Sprintf(`{binding="%s",cluster="%s",%s="%s",shard="default"}`, binding, t.id, key, value)
	}
	atLeast := map[string]float64{
		`gitbind_git_pushes_total{branch="status",cluster="` + t.id + `",result="ok",shard="default"}`: 3,
		`gitbind_git_commits_total{branch="status",cluster="` + t.id + `",shard="default"}`:            3,
		`gitbind_git_push_seconds_count{branch="status",cluster="` + t.id + `",shard="default"}`:       3,
		`gitbind_git_fetches_total{branch="main",cluster="` + t.id + `",result="ok",shard="default"}`:  1,
		`gitbind_git_fetch_seconds_count{branch="main",cluster="` + t.id + `",shard="default"}`:        1,
		"gitbind_bridge_apply_seconds_count" + label:                                                   2,
		"gitbind_bridge_status_seconds_count" + label:                                                  1,
	}
	exactly := map[string]float64{
		"gitbind_bridge_claims" + of("postgresqlinstances.anynines.com", "result", "Lost"):                             1,
		"gitbind_bridge_claims" + of("postgresqlinstances.anynines.com", "result", "Applied"):                          0,
		"gitbind_bridge_claims" + of("postgresqlinstances.anynines.com", "result", "Invalid"):                          1,
		"gitbind_bridge_claims" + of("brokers.example.net", "result", "Applied"):                                       1,
		"gitbind_bridge_claims" + of("other", "result", "Invalid"):                                                     1,
		"gitbind_bridge_holds_total" + of("postgresqlinstances.anynines.com", "reason", "Lost"):                        1,
		"gitbind_bridge_holds_total" + of("postgresqlinstances.anynines.com", "reason", "ManyRemovals"):                0,
		`gitbind_bridge_drift_corrections_total{binding="brokers.example.net",cluster="` + t.id + `",shard="default"}`: 1,
		"gitbind_bridge_following" + label:                                                                             1,
	}
	w.eventually("the numbers are right", func() error {
		got, err := scrape(address)
		if err != nil {
			return err
		}
		for name, want := range atLeast {
			if got[name] < want {
				return fmt.Errorf("%s is %v, want %v or more", name, got[name], want)
			}
		}
		for name, want := range exactly {
			if value, ok := got[name]; !ok || value != want {
				return fmt.Errorf("%s is %v (%t), want %v", name, value, ok, want)
			}
		}
		for name := range got {
			series, _, _ := strings.Cut(name, "{")
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				series = strings.TrimSuffix(series, suffix)
			}
			if strings.HasPrefix(series, "gitbind_") && got["help "+series] < 10 {
				return fmt.Errorf("%s has no help", series)
			}
			if strings.HasPrefix(name, "gitbind_") && strings.Contains(name, "made.up") {
				return fmt.Errorf("a repository made the label of %s", name)
			}
		}
		return nil
	})

	t.must(t.admin.Delete(t.Context(), t.clusterBinding()))
	w.eventually("a cluster that is gone has no numbers", func() error {
		got, err := scrape(address)
		if err != nil {
			return err
		}
		for name, value := range got {
			if strings.HasPrefix(name, "gitbind_") && strings.Contains(name, t.id) {
				return fmt.Errorf("%s is %v", name, value)
			}
		}
		return nil
	})
}
