package crossplaneapi

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// accepted are claims that each kind takes, by what is in their spec.
var accepted = map[string][]string{
	"PostgresqlInstance": {
		"{service: a9s-postgresql13, plan: postgresql-single-nano}",
		"{service: a9s-postgresql14, plan: postgresql-replica-medium, expose: LoadBalancer, acceptsIncomplete: true, compositionRef: {name: a8s-postgresql}, parameters: {maxConnections: 100, maxLocksPerTransaction: 10, sslCiphers: HIGH, sslMinProtocolVersion: TLSv1.3}}",
		"{service: a9s-postgresql13, plan: postgresql-single-nano-ssl-bionic, compositionRef: {name: a9s-postgresql}}",
		"{service: a9s-postgresql15, plan: postgresql-replica-small-ssl, compositionRef: {name: a9s-postgresql}, parameters: {dataChecksums: enabled, rolePrivileges: [CREATEDB], walLevelLogical: true, workMem: 8MB}}",
		"{service: a9s-postgresql17, plan: postgresql-single-big, compositionRef: {name: a9s-postgresql}, parameters: {tempFileLimit: -1, trackIoTiming: 'on', archiveTimeout: 60, statementTimeout: 0, walWriterDelay: 200, synchronousCommit: remote_write, logMinMessages: PANIC, clientMinMessages: DEBUG5, logErrorVerbosity: TERSE}}",
		"{service: a9s-postgresql17, plan: postgresql-replica-medium, compositionRef: {name: postgresql-frankfurt}}", // a platform's own
	},
	"MariadbInstance": {
		"{service: a9s-mariadb106, plan: mariadb-single-nano, parameters: {binlogExpireDays: 1, databases: [a, b], grantPerformanceSchemaPermissions: true}}",
		"{service: a9s-mariadb1011, plan: mariadb-cluster-big-ssl, compositionRef: {name: a9s-mariadb}}",
	},
	"MongodbInstance": {
		"{service: a9s-mongodb50, plan: mongodbsspl-single-nano}",
		"{service: a9s-mongodb70, plan: mongodbsspl-replica-big-ssl, parameters: {setClusterParameter: {changeStreamOptions: {preAndPostImages: {expireAfterSeconds: 'off'}}}}}",
		"{service: a9s-mongodb70, plan: mongodbsspl-replica-big-ssl, parameters: {setClusterParameter: {changeStreamOptions: {preAndPostImages: {expireAfterSeconds: 0}}}}}",
	},
	"MessagingInstance": {
		"{service: a9s-messaging310, plan: messaging-single-nano}",
		"{service: a9s-messaging312, plan: messaging-cluster-small}",
		"{service: a9s-messaging313, plan: messaging-cluster-big}",
		"{service: a9s-messaging4, plan: messaging-cluster-big-ssl, parameters: {consumerTimeout: 1800000, tlsProtocols: [tlsv1.2, tlsv1.3], tlsCiphers: [A]}}",
	},
	"SearchInstance": {
		"{service: a9s-search2, plan: search-single-nano-ssl, parameters: {javaHeapspace: 256, javaMaxmetaspace: 1024, javaGarbageCollector: UseG1GC, tlsProtocols: [TLSv1.3], tlsCiphers: [A]}}",
		"{service: a9s-search2, plan: search-cluster-big-ssl}",
	},
	"Logme2Instance": {
		"{service: a9s-logme2, plan: logme-single-small-ssl, parameters: {javaHeapspace: 512, javaMaxmetaspace: 256, javaGarbageCollector: UseParallelGC, ismJobInterval: 60, ismDeletionAfter: 1h, ismJitter: 0.5, tlsProtocols: [TLSv1.2], opensearchTlsProtocols: [TLSv1.2, TLSv1.3], opensearchTlsCiphers: [A], fluentdUdp: 60001, fluentdTcp: 60002, fluentdTls: 60003, fluentdTlsVersion: TLS1_3, groks: [{pattern: '%{WORD:Some}'}]}}",
		"{service: a9s-logme2, plan: logme-cluster-small-ssl}",
	},
	"PrometheusInstance": {
		"{service: a9s-prometheus, plan: promgraf2-single-small, parameters: {mappingStrictMatch: true, scrapeConfigs: [{job_name: a, static_configs: [{targets: [b]}]}]}}",
		"{service: a9s-prometheus, plan: prometheus2-grafana10-single-big}",
	},
	"KeyvalueInstance": {
		"{service: a9s-keyvalue8, plan: keyvalue-single-nano-ssl, parameters: {maxmemoryPolicy: allkeys-lru, maxclients: 10, maxmemory: dynamic, snapshot: '[]', notifyKeyspaceEvents: KEA, lazyfreeLazyExpire: 'yes'}}",
		`{service: a9s-keyvalue8, plan: keyvalue-replica-medium-ssl, parameters: {failoverTimeout: 0, minReplicasToWrite: 1, replBacklogSize: 100mb, maxmemory: 512mb, snapshot: "['save 900 1','save 300 10']", notifyKeyspaceEvents: ''}}`,
	},
	"ServiceBinding": {
		"{instanceRef: orders, serviceInstanceType: postgresql, acceptsIncomplete: true, region: eu, policy: ro}",
		"{instanceRef: orders, serviceInstanceType: keyvalue, compositionRef: {name: a9s-servicebinding}}",
	},
	"Backup": {
		"{instanceRef: orders, serviceInstanceType: postgresql}",
		"{instanceRef: orders, serviceInstanceType: mariadb, compositionRef: {name: a9s-backup}}",
	},
	"Restore": {
		"{backupRef: orders, instanceRef: orders, serviceInstanceType: postgresql}",
		"{backupRef: orders, serviceInstanceType: logme2, compositionRef: {name: a9s-restore}}",
	},
}

// refused are claims that are not taken, and what is said of them.
var refused = []struct{ kind, spec, words string }{
	{"PostgresqlInstance", "{plan: postgresql-single-nano}", "spec.service: Required value"},
	{"PostgresqlInstance", "{service: a9s-postgresql13}", "spec.plan: Required value"},
	{"PostgresqlInstance", "{service: a9s-postgresql12, plan: postgresql-single-nano}", `spec.service: Unsupported value: "a9s-postgresql12"`},
	{"PostgresqlInstance", "{service: a9s-postgresql13, plan: postgresql-single-huge}", `spec.plan: Unsupported value: "postgresql-single-huge"`},
	{"PostgresqlInstance", "{service: a9s-postgresql13, plan: postgresql-single-nano, expose: Everybody}", `spec.expose: Unsupported value: "Everybody": supported values: "Internal", "LoadBalancer"`},
	{"PostgresqlInstance", "{service: a9s-postgresql15, plan: postgresql-single-nano}", "spec.service: Invalid value: a8s-postgresql, which is the default, has a9s-postgresql13 and a9s-postgresql14"},
	{"PostgresqlInstance", "{service: a9s-postgresql15, plan: postgresql-single-nano, compositionRef: {name: a8s-postgresql}}", "spec.service: Invalid value: a8s-postgresql"},
	{"PostgresqlInstance", "{service: a9s-postgresql14, plan: postgresql-single-nano, compositionRef: {name: a9s-postgresql}}", "spec.service: Invalid value: a9s-postgresql has a9s-postgresql13, a9s-postgresql15 and a9s-postgresql17"},
	{"PostgresqlInstance", "{service: a9s-postgresql13, plan: postgresql-single-nano-ssl}", "spec.plan: Invalid value: a8s-postgresql, which is the default, has postgresql-{single,replica}-{nano,small,medium,big}"},
	{"PostgresqlInstance", "{service: a9s-postgresql13, plan: postgresql-single-nano-bionic}", "spec.plan: Invalid value: a8s-postgresql"},
	{"PostgresqlInstance", "{service: a9s-postgresql13, plan: postgresql-single-medium, compositionRef: {name: a9s-postgresql}}", "spec.plan: Invalid value: a9s-postgresql has single-{nano,small,big} and replica-{small,big}"},
	{"PostgresqlInstance", "{service: a9s-postgresql13, plan: postgresql-replica-nano, compositionRef: {name: a9s-postgresql}}", "spec.plan: Invalid value: a9s-postgresql has"},
	{"PostgresqlInstance", "{service: a9s-postgresql15, plan: postgresql-single-nano-bionic, compositionRef: {name: a9s-postgresql}}", "spec.plan: Invalid value: bionic plans are for a9s-postgresql13 only"},
	{"PostgresqlInstance", "{service: a9s-postgresql13, plan: postgresql-single-nano, parameters: {dataChecksums: enabled}}", "spec.parameters: Invalid value: dataChecksums, effectiveCacheSize, "},
	{"PostgresqlInstance", "{service: a9s-postgresql13, plan: postgresql-single-nano, compositionRef: {name: a9s-postgresql}, parameters: {sslCiphers: HIGH}}", "spec.parameters: Invalid value: maxLocksPerTransaction, sslCiphers and sslMinProtocolVersion are a8s-postgresql's only"},
	{"PostgresqlInstance", "{service: a9s-postgresql13, plan: postgresql-single-nano, parameters: {maxConnections: 0}}", "spec.parameters.maxConnections: Invalid value: 0"},
	{"PostgresqlInstance", "{service: a9s-postgresql13, plan: postgresql-single-nano, parameters: {tempFileLimit: 0}}", "tempFileLimit must be -1, which is no limit, or a number of kB from 1"},
	{"PostgresqlInstance", "{service: a9s-postgresql13, plan: postgresql-single-nano, parameters: {logStatement: some}}", `supported values: "none", "ddl", "mod", "all"`},
	{"PostgresqlInstance", "{service: a9s-postgresql13, plan: postgresql-single-nano, parameters: {maxConections: 5}}", `unknown field "spec.parameters.maxConections"`},
	{"MariadbInstance", "{service: a9s-mariadb1011, plan: mariadb-single-nano}", "spec.plan: Invalid value: a9s-mariadb1011 has ssl plans only, for example mariadb-single-nano-ssl"},
	{"MariadbInstance", "{service: a9s-mariadb106, plan: mariadb-replica-small}", "spec.plan: Unsupported value"},
	{"MariadbInstance", "{service: a9s-mariadb106, plan: mariadb-single-nano, parameters: {binlogExpireDays: 0}}", "spec.parameters.binlogExpireDays: Invalid value: 0"},
	{"MariadbInstance", "{service: a9s-mariadb106, plan: mariadb-single-nano, compositionRef: {name: a8s-mariadb}}", "spec.compositionRef: Invalid value: a8s has PostgreSQL only; leave it out, or say a9s-mariadb"},
	{"MongodbInstance", "{service: a9s-mongodb44, plan: mongodbsspl-single-nano}", "spec.service: Unsupported value"},
	{"MongodbInstance", "{service: a9s-mongodb70, plan: mongodb-single-nano}", "spec.plan: Unsupported value"},
	{"MongodbInstance", "{service: a9s-mongodb70, plan: mongodbsspl-single-nano, parameters: {setClusterParameter: {changeStreamOptions: {preAndPostImages: {expireAfterSeconds: 'on'}}}}}", "expireAfterSeconds must be 'off', or a number of seconds from 0"},
	{"MongodbInstance", "{service: a9s-mongodb70, plan: mongodbsspl-single-nano, parameters: {setClusterParameter: {changeStreamOptions: {preAndPostImages: {expireAfterSeconds: -1}}}}}", "expireAfterSeconds must be 'off'"},
	{"MessagingInstance", "{service: a9s-messaging4, plan: messaging-single-nano, parameters: {consumerTimeout: 1799999}}", "should be greater than or equal to 1800000"},
	{"MessagingInstance", "{service: a9s-messaging4, plan: messaging-single-nano, parameters: {tlsProtocols: [tlsv1.1]}}", `supported values: "tlsv1.2", "tlsv1.3"`},
	{"SearchInstance", "{service: a9s-search2, plan: search-cluster-nano-ssl}", "spec.plan: Unsupported value"},
	{"SearchInstance", "{service: a9s-search2, plan: search-single-nano}", "spec.plan: Unsupported value"},
	{"SearchInstance", "{service: a9s-search2, plan: search-single-nano-ssl, parameters: {javaHeapspace: 255}}", "spec.parameters.javaHeapspace: Invalid value: 255"},
	{"SearchInstance", "{service: a9s-search2, plan: search-single-nano-ssl, parameters: {tlsProtocols: [TLSv1.1]}}", `supported values: "TLSv1.2", "TLSv1.3"`},
	{"Logme2Instance", "{service: a9s-logme2, plan: logme-single-big-ssl}", "spec.plan: Unsupported value"},
	{"Logme2Instance", "{service: a9s-logme2, plan: logme-single-small-ssl, parameters: {ismDeletionAfter: soon}}", "spec.parameters.ismDeletionAfter: Invalid value"},
	{"PrometheusInstance", "{service: a9s-prometheus, plan: prometheus-single-nano}", "spec.plan: Unsupported value"},
	{"PrometheusInstance", "{service: a9s-prometheus, plan: prometheus-single-small, parameters: {scrapeConfigs: [a]}}", "must be of type object"},
	{"KeyvalueInstance", "{service: a9s-keyvalue8, plan: keyvalue-replica-nano-ssl}", "spec.plan: Unsupported value"},
	{"KeyvalueInstance", "{service: a9s-keyvalue8, plan: keyvalue-single-nano-ssl, parameters: {failoverTimeout: 1}}", "spec.parameters: Invalid value: hostnameResolution, downAfterMilliseconds, failoverTimeout, minReplicasMaxLag, minReplicasToWrite and replBacklogSize are for replica plans only"},
	{"KeyvalueInstance", "{service: a9s-keyvalue8, plan: keyvalue-single-nano-ssl, parameters: {maxmemoryPolicy: never}}", "spec.parameters.maxmemoryPolicy: Unsupported value"},
	{"KeyvalueInstance", "{service: a9s-keyvalue8, plan: keyvalue-single-nano-ssl, parameters: {maxclients: -1}}", "spec.parameters.maxclients: Invalid value: -1"},
	{"KeyvalueInstance", "{service: a9s-keyvalue8, plan: keyvalue-single-nano-ssl, parameters: {snapshot: 'save 1 1'}}", "snapshot must be [], or a list such as ['save 900 1','save 300 10']"},
	{"KeyvalueInstance", "{service: a9s-keyvalue8, plan: keyvalue-single-nano-ssl, parameters: {notifyKeyspaceEvents: A}}", "spec.parameters.notifyKeyspaceEvents: Invalid value"},
	{"ServiceBinding", "{serviceInstanceType: postgresql}", "spec.instanceRef: Required value"},
	{"ServiceBinding", "{instanceRef: orders}", "spec.serviceInstanceType: Required value"},
	{"ServiceBinding", "{instanceRef: '', serviceInstanceType: postgresql}", "spec.instanceRef: Invalid value"},
	{"ServiceBinding", "{instanceRef: orders, serviceInstanceType: redis}", "spec.serviceInstanceType: Unsupported value"},
	{"ServiceBinding", "{instanceRef: orders, serviceInstanceType: mariadb}", "spec.serviceInstanceType: Invalid value: a8s-servicebinding, which is the default, is for postgresql only; for others say compositionRef: {name: a9s-servicebinding}"},
	{"ServiceBinding", "{instanceRef: orders, serviceInstanceType: mariadb, compositionRef: {name: a8s-servicebinding}}", "is for postgresql only"},
	{"Backup", "{instanceRef: orders, serviceInstanceType: mariadb}", "a8s-backup, which is the default, is for postgresql only"},
	{"Restore", "{instanceRef: orders, serviceInstanceType: postgresql}", "spec.backupRef: Required value"},
	{"Restore", "{backupRef: orders, serviceInstanceType: postgresql}", "spec.instanceRef: Invalid value: a8s-restore, which is the default, needs the name of the instance to restore into"},
	{"Restore", "{backupRef: orders, instanceRef: orders, serviceInstanceType: mariadb}", "a8s-restore, which is the default, is for postgresql only"},
}

// changes are from one spec to another; words are empty where it is allowed.
var changes = []struct{ kind, common, from, to, words string }{
	{"PostgresqlInstance", "service: a9s-postgresql13", "plan: postgresql-single-nano", "plan: postgresql-single-small", ""},
	{"PostgresqlInstance", "service: a9s-postgresql13", "plan: postgresql-single-nano", "plan: postgresql-replica-nano", ""},
	{"PostgresqlInstance", "service: a9s-postgresql13", "plan: postgresql-single-small", "plan: postgresql-replica-big", ""},
	{"PostgresqlInstance", "service: a9s-postgresql13", "plan: postgresql-single-small", "plan: postgresql-single-nano", `spec.plan: Invalid value: "postgresql-single-nano": plan cannot become smaller`},
	{"PostgresqlInstance", "service: a9s-postgresql13", "plan: postgresql-single-medium", "plan: postgresql-single-small", "plan cannot become smaller"},
	{"PostgresqlInstance", "service: a9s-postgresql13", "plan: postgresql-single-big", "plan: postgresql-single-medium", "plan cannot become smaller"},
	{"PostgresqlInstance", "service: a9s-postgresql13", "plan: postgresql-single-big", "plan: postgresql-replica-nano", "plan cannot become smaller"},
	{"PostgresqlInstance", "service: a9s-postgresql13", "plan: postgresql-replica-small", "plan: postgresql-single-big", "plan cannot go from replica back to single"},
	{"PostgresqlInstance", "plan: postgresql-single-nano", "service: a9s-postgresql13", "service: a9s-postgresql14", "service cannot be changed"},
	{"PostgresqlInstance", "service: a9s-postgresql13, compositionRef: {name: a9s-postgresql}", "plan: postgresql-single-small-ssl", "plan: postgresql-replica-big-ssl", ""},
	{"PostgresqlInstance", "service: a9s-postgresql13, compositionRef: {name: a9s-postgresql}", "plan: postgresql-single-small", "plan: postgresql-single-small-ssl", "plan cannot change between ssl and non-ssl"},
	{"PostgresqlInstance", "service: a9s-postgresql13, compositionRef: {name: a9s-postgresql}", "plan: postgresql-single-small-ssl", "plan: postgresql-single-small", "plan cannot change between ssl and non-ssl"},
	{"PostgresqlInstance", "service: a9s-postgresql13, compositionRef: {name: a9s-postgresql}", "plan: postgresql-single-small", "plan: postgresql-single-small-bionic", "plan cannot change between bionic and non-bionic"},
	{"PostgresqlInstance", "service: a9s-postgresql13, compositionRef: {name: a9s-postgresql}", "plan: postgresql-single-small-bionic", "plan: postgresql-single-small", "plan cannot change between bionic and non-bionic"},
	{"PostgresqlInstance", "service: a9s-postgresql13, plan: postgresql-single-nano", "compositionRef: {name: a8s-postgresql}", "compositionRef: {name: a9s-postgresql}", "spec.compositionRef: Invalid value: compositionRef cannot change between a8s and a9s"},
	{"PostgresqlInstance", "service: a9s-postgresql13, plan: postgresql-single-nano", "compositionRef: {name: a9s-postgresql}", "compositionRef: {name: a8s-postgresql}", "compositionRef cannot change between a8s and a9s"},
	{"PostgresqlInstance", "service: a9s-postgresql13, plan: postgresql-single-nano", "expose: Internal", "compositionRef: {name: a9s-postgresql}", "compositionRef cannot change between a8s and a9s"},
	{"PostgresqlInstance", "service: a9s-postgresql13, plan: postgresql-single-nano", "compositionRef: {name: a9s-postgresql}", "expose: Internal", "compositionRef cannot change between a8s and a9s"},
	{"PostgresqlInstance", "service: a9s-postgresql13, plan: postgresql-single-nano", "compositionRef: {name: a8s-postgresql}", "compositionRef: {name: postgresql-frankfurt}", ""},
	{"PostgresqlInstance", "service: a9s-postgresql13, plan: postgresql-single-nano", "expose: Internal", "compositionRef: {name: a8s-postgresql}", ""}, // as Crossplane does
	{"MariadbInstance", "service: a9s-mariadb106", "plan: mariadb-single-small", "plan: mariadb-cluster-big", ""},
	{"MariadbInstance", "service: a9s-mariadb106", "plan: mariadb-cluster-big", "plan: mariadb-cluster-small", "plan cannot become smaller"},
	{"MariadbInstance", "service: a9s-mariadb106", "plan: mariadb-cluster-small", "plan: mariadb-single-small", "plan cannot go from cluster back to single"},
	{"MariadbInstance", "service: a9s-mariadb106", "plan: mariadb-single-small", "plan: mariadb-single-small-ssl", "plan cannot change between ssl and non-ssl"},
	{"MariadbInstance", "plan: mariadb-single-small-ssl", "service: a9s-mariadb106", "service: a9s-mariadb1011", "service cannot be changed"},
	{"MongodbInstance", "service: a9s-mongodb70", "plan: mongodbsspl-single-small", "plan: mongodbsspl-replica-small", ""},
	{"MongodbInstance", "service: a9s-mongodb70", "plan: mongodbsspl-replica-small", "plan: mongodbsspl-single-small", "plan cannot go from replica back to single"},
	{"MongodbInstance", "service: a9s-mongodb70", "plan: mongodbsspl-single-small", "plan: mongodbsspl-single-nano", "plan cannot become smaller"},
	{"MongodbInstance", "service: a9s-mongodb70", "plan: mongodbsspl-single-small-ssl", "plan: mongodbsspl-single-small", "plan cannot change between ssl and non-ssl"},
	{"MongodbInstance", "plan: mongodbsspl-single-nano", "service: a9s-mongodb50", "service: a9s-mongodb70", "service cannot be changed"},
	{"MessagingInstance", "service: a9s-messaging4", "plan: messaging-single-nano", "plan: messaging-cluster-big", ""},
	{"MessagingInstance", "service: a9s-messaging4", "plan: messaging-cluster-big", "plan: messaging-single-big", "plan cannot go from cluster back to single"},
	{"MessagingInstance", "service: a9s-messaging4", "plan: messaging-single-big", "plan: messaging-single-nano", "plan cannot become smaller"},
	{"MessagingInstance", "service: a9s-messaging4", "plan: messaging-single-big", "plan: messaging-single-big-ssl", "plan cannot change between ssl and non-ssl"},
	{"MessagingInstance", "plan: messaging-single-nano", "service: a9s-messaging313", "service: a9s-messaging4", "service cannot be changed"},
	{"SearchInstance", "service: a9s-search2", "plan: search-single-medium-ssl", "plan: search-cluster-medium-ssl", ""},
	{"SearchInstance", "service: a9s-search2", "plan: search-cluster-medium-ssl", "plan: search-single-big-ssl", "plan cannot go from cluster back to single"},
	{"SearchInstance", "service: a9s-search2", "plan: search-single-big-ssl", "plan: search-single-medium-ssl", "plan cannot become smaller"},
	{"Logme2Instance", "service: a9s-logme2", "plan: logme-single-small-ssl", "plan: logme-cluster-small-ssl", "plan cannot go from single to cluster or back"},
	{"Logme2Instance", "service: a9s-logme2", "plan: logme-cluster-small-ssl", "plan: logme-single-small-ssl", "plan cannot go from single to cluster or back"},
	{"PrometheusInstance", "service: a9s-prometheus", "plan: prometheus-single-small", "plan: prometheus-single-big", "plan cannot be changed for Prometheus"},
	{"KeyvalueInstance", "service: a9s-keyvalue8", "plan: keyvalue-single-nano-ssl", "plan: keyvalue-single-big-ssl", ""},
	{"KeyvalueInstance", "service: a9s-keyvalue8", "plan: keyvalue-single-big-ssl", "plan: keyvalue-single-nano-ssl", "plan cannot become smaller"},
	{"KeyvalueInstance", "service: a9s-keyvalue8", "plan: keyvalue-single-small-ssl", "plan: keyvalue-replica-small-ssl", "plan cannot go from single to replica or back"},
	{"KeyvalueInstance", "service: a9s-keyvalue8", "plan: keyvalue-replica-small-ssl", "plan: keyvalue-single-small-ssl", "plan cannot go from single to replica or back"},
	{"ServiceBinding", "serviceInstanceType: postgresql", "instanceRef: a", "instanceRef: b", "instanceRef cannot be changed: order a new binding"},
	{"ServiceBinding", "instanceRef: a, compositionRef: {name: a9s-servicebinding}", "serviceInstanceType: postgresql", "serviceInstanceType: mariadb", "serviceInstanceType cannot be changed"},
	{"ServiceBinding", "instanceRef: a, serviceInstanceType: postgresql", "compositionRef: {name: a8s-servicebinding}", "compositionRef: {name: a9s-servicebinding}", "compositionRef cannot change between a8s and a9s"},
	{"Backup", "serviceInstanceType: postgresql", "instanceRef: a", "instanceRef: b", "instanceRef cannot be changed: order a new backup"},
	{"Restore", "instanceRef: a, serviceInstanceType: postgresql", "backupRef: a", "backupRef: b", "backupRef cannot be changed: order a new restore"},
	{"Restore", "backupRef: a, serviceInstanceType: postgresql", "instanceRef: a", "instanceRef: b", "instanceRef cannot be changed: order a new restore"},
}

// testSchemas asks the API server: each creation and change is a dry run.
func testSchemas(c *cluster) {
	strict := client.WithFieldValidation(c.Client, "Strict")
	for kind, specs := range accepted {
		c.eventually(kind+" is served", func() string {
			return problem(strict.Create(c.Context(), c.claim(kind, specs[0]), client.DryRunAll))
		}, "")
		for _, spec := range specs[1:] {
			if err := strict.Create(c.Context(), c.claim(kind, spec), client.DryRunAll); err != nil {
				c.Errorf("%s %s: %v", kind, spec, err)
			}
		}
	}
	for _, r := range refused {
		if err := strict.Create(c.Context(), c.claim(r.kind, r.spec), client.DryRunAll); err == nil || !strings.Contains(err.Error(), r.words) {
			c.Errorf("%s %s: got %v, want %q", r.kind, r.spec, err, r.words)
		}
	}
	for i, change := range changes {
		claim := c.claim(change.kind, "{"+change.common+", "+change.from+"}")
		claim.SetName(fmt.Sprintf("change-%d", i))
		// Nothing is ordered.
		claim.SetAnnotations(map[string]string{"crossplane.io/paused": "true"})
		if err := c.serverSide(claim); err != nil {
			c.Errorf("%s %s: %v", change.kind, change.from, err)
			continue
		}
		claim.Object["spec"] = c.claim(change.kind, "{"+change.common+", "+change.to+"}").Object["spec"]
		err := c.serverSide(claim, client.DryRunAll)
		if (err == nil) != (change.words == "") || err != nil && !strings.Contains(err.Error(), change.words) {
			c.Errorf("%s from %s to %s: got %v, want %q", change.kind, change.from, change.to, err, change.words)
		}
		if err := c.Delete(c.Context(), claim); err != nil {
			c.Error(err)
		}
	}
}

func (c *cluster) claim(kind, spec string) *unstructured.Unstructured {
	c.Helper()
	return c.object(fmt.Sprintf("apiVersion: anynines.com/v1\nkind: %s\nmetadata: {name: example, namespace: default}\nspec: %s\n", kind, spec))
}

func (c *cluster) object(manifest string) *unstructured.Unstructured {
	c.Helper()
	data, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		c.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		c.Fatal(err)
	}
	return u
}

func testKlutchManifests(c *cluster) {
	strict := client.WithFieldValidation(c.Client, "Strict")
	for _, claim := range c.klutchManifests() {
		if err := strict.Create(c.Context(), claim, client.DryRunAll); err != nil {
			c.Errorf("%s %s: %v", claim.GetKind(), claim.GetName(), err)
		}
	}
}

func (c *cluster) klutchManifests() (all []*unstructured.Unstructured) {
	c.Helper()
	data, err := os.ReadFile("testdata/klutch.yaml")
	if err != nil {
		c.Fatal(err)
	}
	for manifest := range strings.SplitSeq(string(data), "---\n") {
		all = append(all, c.object(manifest))
	}
	return all
}
