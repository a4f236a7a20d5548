package object

import "gitbind.dev/gitbridge/store/internal/deflate"

// short is the size in bytes below which packing saves nothing.
const short = 128

// keep takes a file's content into memory of the node's own, as a tree outlives
// what was received or is about to be sent.
func (n *Node) keep(data []byte, pack bool) {
	if pack && len(data) >= short {
		if small := words.Pack(data); len(small) < len(data)*3/4 {
			n.data, n.packed = small, true
			return
		}
	}
	n.data, n.packed = append(make([]byte, 0, len(data)), data...), false
}

// words are what the files of both branches have in common, whatever API they are of.
// Against the words of one vendor's API, its own claims would pack to 62 bytes instead
// of 147, and those of others to no less.
var words = deflate.New(`message: object: gb-reason: lastTransitionTime: "2026-observedGeneration: type: Synced
status: "False"
writeConnectionSecretToRef:
app.kubernetes.io/component: app.kubernetes.io/part-of: annotations:
    labels:
apiVersion: gitbind.dev/v1alpha1
kind: ClaimStatus
metadata:
  name: namespace: answers:
  blob: commit: result: Applied
uid: status:
  conditions:
  - lastTransitionTime: "2026-11-21T12:00:00Z"
    message: ""
    reason: Available
    status: "True"
    type: Ready
  - lastTransitionTime: "2026-11-21T12:00:00Z"
    message: ""
    reason: ReconcileSuccess
    status: "True"
    type: Synced
apiVersion: example.org/v1
kind: Database
metadata:
  name: namespace: team-a
spec:
  version: size: parameters:
    `)
