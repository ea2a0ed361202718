package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestConfirm_NeedsPrefix(t *testing.T) {
	for typed, agrees := range map[string]bool{"old\n": true, " old \n": true, "old": true, "yes\n": false, "\n": false, "": false,
		"older\n": false} {
		var asked bytes.Buffer
		err := confirm(strings.NewReader(typed), &asked, "old", 12)
		if agrees != (err == nil) {
			t.Errorf("%q: got %v", typed, err)
		}
		if want := "This removes 12 keys with the prefix old for good."; !strings.HasPrefix(asked.String(), want) {
			t.Errorf("asked %q, want %q", &asked, want)
		}
	}
}
