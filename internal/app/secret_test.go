package app

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPreviousSecret_RefusesAnEmptyFile(t *testing.T) {
	for _, text := range []string{"", "\n", "short\n"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, previousFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := previousSecret(Config{Data: dir}); err == nil {
			t.Errorf("a file with %q: got the secret %q", text, got)
		}
	}
}
