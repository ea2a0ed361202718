//go:build unix

package cli_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

// Redis reads the file, as another user.
func TestReplaceFile_AtomicAndKeepsOwner(t *testing.T) {
	t.Chdir(t.TempDir())
	const before = "user app on #01 ~old\n"
	owner := os.Geteuid()
	if owner == 0 {
		owner = 12345
	}
	for _, err := range []error{
		os.WriteFile("users.acl", []byte(before), 0o600),
		os.Chmod("users.acl", 0o640),
		os.Chown("users.acl", owner, -1),
		os.Symlink("users.acl", "link.acl"),
		os.Mkdir("users.acl.part", 0o700), // prevents writing next to the file
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	text := func() string {
		text, err := os.ReadFile("users.acl")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	expect(t, cli.ExitFailed, "users.acl.part", "acl", "--into", "users.acl")
	if got := text(); got != before {
		t.Errorf("after a fault the file is %q, want %q", got, before)
	}
	if err := os.Remove("users.acl.part"); err != nil {
		t.Fatal(err)
	}
	expect(t, cli.ExitOK, "", "acl", "--into", "link.acl")
	if got := text(); !strings.HasPrefix(got, "user app on #01 resetchannels ") {
		t.Errorf("the file is %q", got)
	}
	is, err := os.Stat("users.acl")
	if err != nil {
		t.Fatal(err)
	}
	if got := int(is.Sys().(*syscall.Stat_t).Uid); got != owner || is.Mode().Perm() != 0o640 {
		t.Errorf("the file belongs to %d with the mode %v, want %d and 0640", got, is.Mode(), owner)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) != 2 {
		t.Errorf("next to the file and its link: %v, %v", left, err)
	}
}
