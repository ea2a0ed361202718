package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGateway_StartsWithoutAFolderForFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		cfg := Config{Data: t.TempDir(), SQL: "sqlite", Redis: "embedded", Dev: "true", Roles: []string{role}}
		cfg.Files.Storage = "folder:" + filepath.Join(file, "files") // root can write to a read-only folder, but not below a file
		a, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
		switch {
		case role == roleGateway && err != nil:
			t.Errorf("a gateway does not start: %v", err)
		case role != roleGateway && (err == nil || !strings.Contains(err.Error(), "set files.storage to a writable folder")):
			t.Errorf("%s: got %v, want an error that names the setting", role, err)
		}
		if err == nil {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
