package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/env"
)

func TestC9_TheKonnectorTellsPrometheusWhatItDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.metrics = env.FreeAddress(t)
	w.loop()
	w.apply("orders", spec("small"))
	w.committed("orders")
	homeless := contract.Key{Binding: w.binding, Namespace: "nowhere", Name: "x"}
	w.put(w.person, "Order", homeless.Path(), []byte(strings.ReplaceAll(string(w.file("x", "  service: a9s-postgresql13", "  plan: small")), w.namespace, "nowhere")))
	w.heldFile("NamespaceMissing", "")

	of := func(key, value string) string {
		return fmt.Sprintf(`{binding="%s",cluster="%s",%s="%s"}`, w.binding, clusterID, key, value)
	}
	want := map[string]float64{
		"gitbind_konnector_claims" + of("state", "Held"):                                                           1,
		"gitbind_konnector_claims" + of("state", "InSync"):                                                         1,
		`gitbind_konnector_actions_total{action="Commit",binding="` + w.binding + `",cluster="` + clusterID + `"}`: 1,
		"gitbind_konnector_holds_total" + of("reason", "NamespaceMissing"):                                         1,
	}
	some := []string{
		`gitbind_git_pushes_total{branch="main",cluster="` + clusterID + `",result="ok"}`,
		`gitbind_git_commits_total{branch="main",cluster="` + clusterID + `"}`,
		`gitbind_git_fetches_total{branch="status",cluster="` + clusterID + `",result="ok"}`,
		`gitbind_git_push_seconds_count{branch="main",cluster="` + clusterID + `"}`,
	}
	w.eventually("the numbers are right", func() error {
		got, err := scrape(w.metrics)
		if err != nil {
			return err
		}
		for name, value := range want {
			if got[name] != value {
				return fmt.Errorf("%s is %v, want %v; there are %v", name, got[name], value, ours(got))
			}
		}
		for _, name := range some {
			if got[name] == 0 {
				return fmt.Errorf("%s is 0; there are %v", name, ours(got))
			}
		}
		return nil
	})
}

// scrape reads /metrics: values by "name{labels}" as they are written there.
func scrape(address string) (map[string]float64, error) {
	res, err := http.Get("http://" + address + "/metrics")
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
		i := strings.LastIndex(line, " ")
		if value, err := strconv.ParseFloat(line[i+1:], 64); i > 0 && line[0] != '#' && err == nil {
			out[line[:i]] = value
		}
	}
	return out, nil
}

func ours(all map[string]float64) (names []string) {
	for name, value := range all {
		if strings.HasPrefix(name, "gitbind_konnector_") {
			names = append(names, fmt.Sprint(name, " ", value))
		}
	}
	return names
}
