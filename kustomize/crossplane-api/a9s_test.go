package crossplaneapi

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// a9s is what becomes of claims that are all named alike: the spec of what is composed.
var a9s = []struct{ kind, spec, composed string }{
	{
		"PostgresqlInstance",
		"{service: a9s-postgresql15, plan: postgresql-replica-small-ssl, acceptsIncomplete: false, compositionRef: {name: a9s-postgresql}, parameters: {dataChecksums: enabled, rolePrivileges: [CREATEDB], maxConnections: 7}}",
		"{providerConfigRef: {name: postgresql-service-broker}, forProvider: {serviceName: a9s-postgresql15, planName: postgresql-replica-small-ssl, acceptsIncomplete: false, parameters: {data_checksums: enabled, role_privileges: [CREATEDB], max_connections: 7}, " + guids + "}}",
	},
	{
		"MariadbInstance",
		"{service: a9s-mariadb106, plan: mariadb-single-nano, parameters: {binlogExpireDays: 1}}",
		"{providerConfigRef: {name: mariadb-service-broker}, forProvider: {serviceName: a9s-mariadb106, planName: mariadb-single-nano, acceptsIncomplete: true, parameters: {binlog_expire_days: 1}, " + guids + "}}",
	},
	{
		"MongodbInstance",
		"{service: a9s-mongodb70, plan: mongodbsspl-single-nano, parameters: {setClusterParameter: {changeStreamOptions: {preAndPostImages: {expireAfterSeconds: 0}}}}}",
		"{providerConfigRef: {name: mongodb-service-broker}, forProvider: {serviceName: a9s-mongodb70, planName: mongodbsspl-single-nano, acceptsIncomplete: true, parameters: {set_cluster_parameter: {changeStreamOptions: {preAndPostImages: {expireAfterSeconds: 0}}}}, " + guids + "}}",
	},
	{
		"MessagingInstance",
		"{service: a9s-messaging4, plan: messaging-cluster-big-ssl, parameters: {consumerTimeout: 1800000, tlsProtocols: [tlsv1.3]}}",
		"{providerConfigRef: {name: messaging-service-broker}, forProvider: {serviceName: a9s-messaging4, planName: messaging-cluster-big-ssl, acceptsIncomplete: true, parameters: {consumer_timeout: 1800000, tls-protocols: [tlsv1.3]}, " + guids + "}}",
	},
	{
		"SearchInstance",
		"{service: a9s-search2, plan: search-single-nano-ssl, parameters: {javaHeapspace: 256}}",
		"{providerConfigRef: {name: search-service-broker}, forProvider: {serviceName: a9s-search2, planName: search-single-nano-ssl, acceptsIncomplete: true, parameters: {java_heapspace: 256}, " + guids + "}}",
	},
	{
		"Logme2Instance",
		"{service: a9s-logme2, plan: logme-single-small-ssl, parameters: {javaHeapspace: 512}}",
		"{providerConfigRef: {name: logme2-service-broker}, forProvider: {serviceName: a9s-logme2, planName: logme-single-small-ssl, acceptsIncomplete: true, parameters: {java_heapspace: 512}, " + guids + "}}",
	},
	{
		"PrometheusInstance",
		"{service: a9s-prometheus, plan: promgraf2-single-small}",
		"{providerConfigRef: {name: prometheus-service-broker}, forProvider: {serviceName: a9s-prometheus, planName: promgraf2-single-small, acceptsIncomplete: true, " + guids + "}}",
	},
	{
		"KeyvalueInstance",
		"{service: a9s-keyvalue8, plan: keyvalue-single-nano-ssl, parameters: {maxmemoryPolicy: allkeys-lru, maxclients: 10}}",
		"{providerConfigRef: {name: keyvalue-service-broker}, forProvider: {serviceName: a9s-keyvalue8, planName: keyvalue-single-nano-ssl, acceptsIncomplete: true, parameters: {maxmemory-policy: allkeys-lru, maxclients: 10}, " + guids + "}}",
	},
	{
		"ServiceBinding",
		"{instanceRef: nine, serviceInstanceType: keyvalue, compositionRef: {name: a9s-servicebinding}}",
		"{providerConfigRef: {name: keyvalue-service-broker}, forProvider: {instanceName: nine, acceptsIncomplete: true}, writeConnectionSecretToRef: {namespace: default, name: nine-creds}}",
	},
	{
		"Backup",
		"{instanceRef: nine, serviceInstanceType: mariadb, compositionRef: {name: a9s-backup}}",
		"{providerConfigRef: {name: mariadb-backup-manager}, forProvider: {instanceName: nine}}",
	},
	{
		"Restore",
		"{backupRef: nine, serviceInstanceType: logme2, compositionRef: {name: a9s-restore}}",
		"{providerConfigRef: {name: logme2-backup-manager}, forProvider: {backupName: nine}}",
	},
}

const guids = "organizationGuid: a9000000-0000-4000-8000-000000000001, spaceGuid: a9000000-0000-4000-8000-000000000002"

// testA9s orders all at once, and answers as the provider of a9s does.
func testA9s(c *cluster) {
	var claims []*unstructured.Unstructured
	for _, one := range a9s {
		claim := c.claim(one.kind, one.spec)
		claim.SetName("nine")
		c.eventually(one.kind+" is taken", func() string { return problem(c.serverSide(claim)) }, "")
		claims = append(claims, claim)
	}
	for i, claim := range claims {
		composed := a9sObject(claim)
		c.wantSpec(composed, a9s[i].composed)
		if got := composed.GetLabels(); got["crossplane.io/claim-name"] != "nine" || got["crossplane.io/claim-namespace"] != "default" {
			c.Errorf("the %s for a %s has the labels %v", composed.GetKind(), claim.GetKind(), got)
		}
		if ready := c.condition(claim, "Ready"); ready == "True" {
			c.Errorf("%s is ready before a9s said so", claim.GetKind())
		}
		c.eventually("an answer of a9s is taken", func() string {
			u := c.get(composed)
			if err := json.Unmarshal([]byte(`{"status": `+c.json("{conditions: ["+condition("Ready", "True")+"]}")+`}`), &u.Object); err != nil {
				return err.Error()
			}
			return problem(c.Status().Update(c.Context(), u))
		}, "")
	}
	for _, claim := range claims {
		c.eventually(claim.GetKind()+" is ready", func() string { return c.condition(claim, "Ready") }, "True")
		if err := c.Delete(c.Context(), claim, client.PropagationPolicy("Foreground")); err != nil {
			c.Fatal(err)
		}
	}
	for _, claim := range claims {
		c.eventually(claim.GetKind()+" is gone", func() string { return c.existence(claim) }, "gone")
		if composed := a9sObject(claim); c.existence(composed) != "gone" {
			c.Errorf("the %s of a9s is there after its %s has gone", composed.GetKind(), claim.GetKind())
		}
	}
}

// a9sObject is what is composed for a claim, by its name.
func a9sObject(claim *unstructured.Unstructured) *unstructured.Unstructured {
	kind := claim.GetKind()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("dataservices.anynines.com/v1")
	u.SetName(strings.ToLower(kind) + ".default.nine")
	if strings.HasSuffix(kind, "Instance") {
		kind = "ServiceInstance"
	}
	u.SetKind(kind)
	return u
}
