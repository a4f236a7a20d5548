package app_test

import (
	"testing"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/app"
)

const (
	postgresqlFile = "../export/testdata/postgresqlinstances.live.yaml"
	cachesFile     = "../export/testdata/namespacedxr.live.yaml"

	nano  = "  service: a9s-postgresql13\n  plan: postgresql-single-nano"
	small = "  service: a9s-postgresql13\n  plan: postgresql-single-small"
)

// apis are those that the control plane of the tests offers: one has the shape
// of a Crossplane claim, one that of a namespaced composite, and two are nothing
// of Crossplane's.
type apis struct{ postgresql, caches, widgets, gadgets v1alpha1.ExportedAPI }

// A bridgeCase is a part of a test that shares its world with others.
type bridgeCase struct {
	name string
	run  func(*world, apis)
}

// offering starts a world with a bridge that offers all APIs of the tests.
func offering(t *testing.T, o app.Options) (*world, apis) {
	w := newWorld(t)
	offers := apis{w.define(postgresqlFile), w.define(cachesFile), w.define("testdata/plain.yaml"), w.define("testdata/gadgets.yaml")}
	// Otherwise it takes half a minute until its objects are deleted.
	w.must(w.control().Rediscover(t.Context()))
	w.startBridgeWith(o)
	w.offered(offers.postgresql.BindingName())
	return w, offers
}

// TestBridge shares one control plane between its cases, which have a tenant
// each.
func TestBridge(t *testing.T) {
	w, offers := offering(t, app.Options{SignCommits: true})
	t.Run("beside each other", func(t *testing.T) {
		for _, test := range []bridgeCase{
			{"a claim lives and goes", testLife},
			{"the history of status reads well", testHistory},
			{"a map that lost its last entry is empty", testEmptied},
			{"a service is gone when it is really gone", testDeleteWaits},
			{"L11 a claim that comes back while it goes is ordered again once a person says so", testBackWhileGoing},
			{"a namespaced composite", testComposite},
			{"an API that is not Crossplane's", testPlain},
			{"bad input is refused by name and stops nothing else", testBadInput},
			{"a bad change leaves the service as it is", testBadChange},
			{"what an app cluster must not set does not pass", testMachinery},
			{"a policy's denial is passed on", testPolicy},
			{"two app clusters", testIsolation},
			{"a hostile repository reaches nothing but its own", testHostile},
			{"a namespace that the bridge did not make is not used", testForeignNamespace},
			{"a claim waits for its rights", testLateRights},
			{"what travels up and down", testUpAndDown},
			{"requests in Git", testRequests},
			{"foreign objects", testForeign},
			{"what is not signed is not applied", testSignatures},
			{"a deleted ClusterBinding deletes nothing else", testClusterBindingDeleted},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(w.with(t), offers)
			})
		}
	})
	w.oneByOne(offers, []bridgeCase{
		// Before the host goes down, after which conditions still change.
		{"a restart writes nothing", testRestart},
		// It changes a definition that the others use.
		{"an export is published, follows its definition, and is withdrawn", testExport},
		// Nobody else may bind an API meanwhile.
		{"hostile requests in Git", testHostileRequests},
		{"a refused credential is said, and read again", testCredential},
		{"a repository is reached over SSH by a key and known hosts", testSSH},
		{"a Git host that is down is said, and waited for", testHostDown},
		{"an API server that was down is waited for", testAPIServerDown},
	})
}

// TestBridgeStartsAgain has the cases that stop the bridge and start another.
func TestBridgeStartsAgain(t *testing.T) {
	w, offers := offering(t, app.Options{})
	w.oneByOne(offers, []bridgeCase{
		{"schemas that change", testBreaking},
		{"a request that nobody removed unbinds nothing", testUnprovenRequest},
		{"foreign objects", testForeignObject},
		{"an object that somebody deleted is lost, and not made again", testLost},
		{"a main that does not descend deletes nothing", testRewritten},
		{"what came and went while the bridge was away gets its tombstone", testCameAndWent},
		{"a file that was removed while the bridge was away is deleted", testRemovedWhileAway},
		{"an object that was never answered goes with its file", testRemovedBeforeItsAnswer},
	})
}

// oneByOne runs cases that others could not run beside.
func (w *world) oneByOne(offers apis, cases []bridgeCase) {
	for _, test := range cases {
		if !w.Run(test.name, func(t *testing.T) { test.run(w.with(t), offers) }) && w.bridge.ready("/ping") == 0 {
			w.Fatal("the bridge does not run any more")
		}
	}
}

// with gives a world's tools to another test.
func (w *world) with(t *testing.T) *world {
	out := *w
	out.T = t
	return &out
}
