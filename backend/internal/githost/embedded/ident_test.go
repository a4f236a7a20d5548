package embedded

import (
	"strings"
	"testing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/contract"
)

// Identities as they stand in a commit: of a user of the cluster, of gitbridge, and of
// a person.
const (
	asUser   = "Bob <bob@" + cluster + ".clusters.gitbind.dev> 1700000000 +0000"
	asBridge = "gitbridge <gitbridge@control-plane.gitbind.dev> 1700000000 +0000"
	asPerson = "Alice <alice@example.com> 1700000000 +0000"
)

func TestEachRoleIsBothAuthorAndCommitterOfItsCommits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role              access.Role
		author, committer string
		refused           string
	}{
		{access.Konnector, asUser, asUser, ""},
		{access.Konnector, asPerson, asUser, "its author is <alice@example.com>, but the konnector"},
		{access.Konnector, asUser, asPerson, "its committer is <alice@example.com>, but the konnector"},
		{access.Konnector, asUser, asBridge, "its committer is <gitbridge@control-plane.gitbind.dev>, but the konnector"},
		{access.Konnector, "", asUser, "its author line"},
		{access.Bridge, asBridge, asBridge, ""},
		{access.Bridge, asUser, asBridge, "its author is <bob@"},
		{access.Bridge, asBridge, asPerson, "its committer is <alice@example.com>, but the bridge"},
		{access.Owner, asPerson, asPerson, ""},
		{access.Owner, asUser, asPerson, "its author names gitbind.dev"},
		{access.Owner, asPerson, asUser, "its committer names gitbind.dev"},
		{access.Owner, asPerson, asBridge, "its committer names gitbind.dev"},
		{access.Owner, asPerson, "Alice <alice@example.com>", "its committer line"},
		// A role that this code does not know has the rules of a person.
		{0, asUser, asPerson, "its author names gitbind.dev"},
	} {
		why := identityRule(access.Caller{Role: c.role, Cluster: cluster}, commit{Author: c.author, Committer: c.committer})
		if (why != "") != (c.refused != "") || !strings.Contains(why, c.refused) {
			t.Errorf("%s, author %q, committer %q: %q, want %q", c.role, c.author, c.committer, why, c.refused)
		}
	}
}

func TestACommitOfEachRoleIsInUTF8(t *testing.T) {
	t.Parallel()
	for role, who := range map[access.Role]string{access.Konnector: asUser, access.Bridge: asBridge, access.Owner: asPerson} {
		for encoding, want := range map[string]string{
			"": "", "UTF-8": "", "utf-8": "", "Utf-8": "",
			"UTF-7": `its encoding is "UTF-7": commit in UTF-8`, "ISO-8859-1": `its encoding is "ISO-8859-1"`,
			"UTF-16": "its encoding", "UTF-8" + " ": "its encoding", "UTF8": "its encoding",
			strings.Repeat("x", 81): `its encoding is "` + strings.Repeat("x", 80) + `…"`,
		} {
			why := identityRule(access.Caller{Role: role, Cluster: cluster}, commit{Author: who, Committer: who, Encoding: encoding})
			if (why != "") != (want != "") || !strings.Contains(why, want) {
				t.Errorf("%s, encoding %q: %q, want %q", role, encoding, why, want)
			}
		}
	}
}

func TestAMessageOfAPersonCreditsNobodyOfACluster(t *testing.T) {
	t.Parallel()
	const bob = "Bob <bob@" + cluster + ".clusters.gitbind.dev>"
	for _, c := range []struct {
		name, message string
		// line is what the reason quotes, "" for a message that is let in.
		line string
	}{
		{"no message", "", ""},
		{"text", "Order a database\n\nIt is for team-a.\n", ""},
		{"the domain in text", "See gitbind.dev, as bob@clusters.gitbind.dev said.\n", ""},
		{"a credit to somebody else", "Order\n\nCo-authored-by: Carol <carol@example.com>\n", ""},
		{"a credit to somebody else above text with the domain", "Order\n\nCo-authored-by: Carol <carol@example.com>\n\nSee gitbind.dev.\n", ""},
		{"a credit to somebody else below text with the domain", "See gitbind.dev.\nCo-authored-by: Carol <carol@example.com>\n", ""},
		{"a line that goes on, of text", "See\n gitbind.dev\n\tgitbind.dev\n", ""},
		{"the words within a line", "We saw: co-authored-by: " + bob + "\n", ""},
		{"a key that does not end in -by", "Standby: " + bob + "\n", ""},
		{"a credit", "Order\n\nCo-authored-by: " + bob + "\n", "Co-authored-by: " + bob},
		{"a credit in the first line", "Co-authored-by: " + bob, "Co-authored-by: " + bob},
		{"a credit above more text", "Order\n\nCo-authored-by: " + bob + "\n\nmore\n", "Co-authored-by: " + bob},
		{"a credit below another one", "Signed-off-by: Carol <carol@example.com>\nReviewed-by: " + bob + "\n", "Reviewed-by: " + bob},
		{"a credit in capitals", "CO-AUTHORED-BY: BOB@GITBIND.DEV\n", "CO-AUTHORED-BY: BOB@GITBIND.DEV"},
		{"a credit with white space before the colon", "Tested-by \t: " + bob + "\n", "Tested-by \\t: " + bob},
		{"a credit to gitbridge", "Acked-by: gitbridge@control-plane.gitbind.dev\n", "Acked-by: gitbridge@control-plane.gitbind.dev"},
		{"a credit that goes on after a space", "Co-authored-by: Bob\n <bob@gitbind.dev>\n", "<bob@gitbind.dev>"},
		{"a credit that goes on after a tab", "Co-authored-by: Bob\n\t<bob@gitbind.dev>\n", "<bob@gitbind.dev>"},
		{"a credit that goes on for three lines", "Co-authored-by:\n Bob\n\t \n <bob@gitbind.dev>\n", "<bob@gitbind.dev>"},
		{"a credit that ended before the domain", "Co-authored-by: Carol\nand\n gitbind.dev\n", ""},
	} {
		why := identityRule(access.Caller{Role: access.Owner, Cluster: cluster}, commit{Author: asPerson, Committer: asPerson, Message: c.message})
		if c.line == "" && why != "" || c.line != "" && !strings.HasPrefix(why, `its message has the line "`+c.line+`", and only gitbind's own agents`) {
			t.Errorf("%s: %q, want the line %q", c.name, why, c.line)
		}
	}
}

func TestTheMessageRulesAreForPeopleOnly(t *testing.T) {
	t.Parallel()
	credit := "Order\n\nCo-authored-by: Bob <bob@" + contract.ClusterDomain(cluster) + ">\n"
	for _, c := range []struct {
		role access.Role
		who  string
		ok   bool
	}{
		{access.Konnector, asUser, true}, {access.Bridge, asBridge, true}, {access.Owner, asPerson, false}, {0, asPerson, false},
	} {
		why := identityRule(access.Caller{Role: c.role, Cluster: cluster}, commit{Author: c.who, Committer: c.who, Message: credit})
		if (why == "") != c.ok {
			t.Errorf("%s: %q, want allowed=%v", c.role, why, c.ok)
		}
	}
}

func TestH2_AMessageHasAtMostOneMebibyte(t *testing.T) {
	t.Parallel()
	// The domain makes the rule read the message; its end is read, too.
	const text, credit = "gitbind.dev\n", "\nAcked-by: gitbind.dev"
	long := func(n int, end string) string { return text + strings.Repeat(".", n-len(text)-len(end)) + end }
	for _, c := range []struct{ message, refused string }{
		{long(1<<20, ""), ""},
		{long(1<<20, credit), `its message has the line "Acked-by: gitbind.dev"`},
		{long(1<<20+1, ""), "its message has 1048577 bytes, at most 1048576: shorten it with git commit --amend"},
		{strings.Repeat("x", 1<<20), ""},
		{strings.Repeat("x", 1<<20+1), "its message has 1048577 bytes"},
	} {
		const person = "alice <alice@example.com> 1 +0000"
		why := identityRule(access.Caller{Role: access.Owner, Cluster: cluster}, commit{Author: person, Committer: person, Message: c.message})
		if (why != "") != (c.refused != "") || !strings.Contains(why, c.refused) {
			t.Errorf("%d bytes: %q, want %q", len(c.message), why, c.refused)
		}
	}
}

// TestACommitThatNoBranchGetsIsJudgedToo: a later push could put a branch on it, when the
// repository has it, and what that has was judged.
func TestACommitThatNoBranchGetsIsJudgedToo(t *testing.T) {
	t.Parallel()
	b := newBased(t)
	ofKonnector := "mallory <mallory@" + contract.ClusterDomain(cluster) + "> 1700000000 +0000"
	o := &objects{}
	o.add(typeCommit, commitText(b.root, ofKonnector, ofKonnector, "\n\nhidden\n", b.head))
	head := b.change(o, o.tree("100644 one", b.one))
	_, answer := b.post(t, access.Owner, "git-receive-pack", pushBody(b.head, head, handmadePack(o.entries...)))
	if !strings.Contains(answer, "ng "+mainRef) || !strings.Contains(answer, "only gitbind's own agents commit as") {
		t.Errorf("a push with a hidden commit is answered: %q", answer)
	}
}
