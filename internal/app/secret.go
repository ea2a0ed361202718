package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

const (
	secretFile   = "secret"          // in the data folder
	previousFile = "secret_previous" // in the data folder, next to the secret; see RotateSecret
	secretSum    = "secret_sum"      // the setting's name in the database
)

var errSecret = errors.New("the secret is not the one of this database: name the right folder with --data, copy the file secret of " +
	"another node or of a backup, or set STOA_SECRET as on the other nodes. If the secret is lost, see \"A lost secret\" in docs/operate.md")

// withSource adds the source of this node's secret to errSecret.
func (c Config) withSource(err error) error {
	if !errors.Is(err, errSecret) {
		return err
	}
	from := "the setting secret"
	if c.Secret == "" {
		from = filepath.Join(c.Data, secretFile)
		if abs, err := filepath.Abs(from); err == nil {
			from = abs
		}
	}
	return fmt.Errorf("%s: %w", from, err)
}

// sumOf returns the hash of a secret that the database stores.
func sumOf(secret []byte) string {
	sum := sha256.Sum256(append([]byte("stoa node secret "), secret...))
	return hex.EncodeToString(sum[:16])
}

// secrets are the secrets of a node.
type secrets struct {
	current  []byte
	previous []byte // nil unless the secret is being rotated
	agreed   []byte // one of the two: the secret that the nodes have used so far
}

// read reads the current and the previous secret. It reports whether it has generated the current one.
func (s *secrets) read(cfg Config) (isNew bool, err error) {
	if s.current, isNew, err = secret(cfg); err != nil {
		return false, err
	}
	s.previous, err = previousSecret(cfg)
	return isNew, err
}

// secret returns the configured secret, or the one in the data folder. If there is none, it generates one, and reports
// that the file is new.
func secret(cfg Config) (key []byte, isNew bool, err error) {
	if cfg.Secret != "" {
		return []byte(cfg.Secret), false, nil
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, false, err
	}
	path := filepath.Join(cfg.Data, secretFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		switch err := writeOnce(path, rand.Text()+rand.Text()); {
		case err == nil:
			isNew = true
		case !errors.Is(err, fs.ErrExist):
			return nil, false, err
		}
		text, err = os.ReadFile(path)
	}
	key, err = checkSecret(path, text, err)
	return key, isNew, err
}

// checkSecret returns the secret of a file. It refuses an empty secret, because its signatures could be forged.
func checkSecret(path string, text []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if text := strings.TrimSpace(string(text)); len(text) >= 32 {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("%s is damaged: a secret has at least 32 characters. Restore the file from a backup", path)
}

// previousSecret returns the configured previous secret. If the secret is in the data folder, it returns the previous
// one there. It returns nil if there is none.
func previousSecret(cfg Config) ([]byte, error) {
	if cfg.SecretPrevious != "" {
		return []byte(cfg.SecretPrevious), nil
	}
	if cfg.Secret != "" {
		return nil, nil
	}
	path := filepath.Join(cfg.Data, previousFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return checkSecret(path, text, err)
}

// ErrRotating reports a rotation before the previous one has ended.
var ErrRotating = errors.New("secret_previous exists: the last rotation is not over. Restart all nodes, remove it two days later, and " +
	"rotate again")

// RotateSecret returns a new secret. If the data folder has the secret, RotateSecret stores the new one there for the
// next start, next to the previous one. It then returns the path of that file.
func RotateSecret(cfg Config) (next, path string, err error) {
	next = rand.Text() + rand.Text()
	if cfg.Secret != "" {
		return next, "", nil
	}
	path = filepath.Join(cfg.Data, secretFile)
	before, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", noSecret(cfg.Data, path)
	case err != nil:
		return "", "", err
	}
	if _, err := checkSecret(path, before, nil); err != nil {
		return "", "", err
	}
	switch err := writeOnce(filepath.Join(cfg.Data, previousFile), strings.TrimSpace(string(before))); {
	case errors.Is(err, fs.ErrExist): // it may be the only copy of the secret whose hash is in the database
		return "", "", ErrRotating
	case err != nil:
		return "", "", err
	}
	return next, path, replaceFile(path, next+"\n")
}

// noSecret returns an error that explains how to provide the missing secret.
func noSecret(data, path string) error {
	shown := path
	if abs, err := filepath.Abs(path); err == nil {
		shown = abs
	}
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: there is no such folder: name the server's data folder with --data, or set STOA_SECRET as on the nodes",
			filepath.Dir(shown))
	}
	return fmt.Errorf("%s is missing: name the server's data folder with --data, or set STOA_SECRET as on the nodes. If the file is lost, "+
		"restore it from a backup, or see \"A lost secret\" in docs/operate.md", shown)
}

// replaceFile replaces a file atomically.
func replaceFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "secret-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// writeOnce creates the file atomically, even if two processes start at once. The first process creates it, and the
// other one gets fs.ErrExist.
func writeOnce(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "secret-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}

// agree ensures that all nodes on one database have the same secret. Otherwise a node would refuse codes and cards of
// another node. During a rotation a node has two secrets. agree returns errSecret if the nodes have used neither of the
// two.
func (s *secrets) agree(ctx context.Context, db *sqldb.DB) error {
	mine := sumOf(s.current)
	put := db.Dialect().Compile(sqldb.Upsert{Table: "settings", Columns: []string{"name", "value"}, Key: []string{"name"}})
	var held string
	err := db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.ExecContext(ctx, put.For(1), secretSum, mine); err != nil {
			return err
		}
		return tx.NewRaw("SELECT value FROM settings WHERE name = ?"+tx.Dialect().ForUpdate(), secretSum).Scan(ctx, &held)
	})
	switch {
	case err != nil:
		return err
	case held == mine:
		s.agreed = s.current
	case s.previous != nil && held == sumOf(s.previous):
		s.agreed = s.previous
	default:
		return errSecret
	}
	return nil
}

// rotated reports whether this node is the first one with its current secret.
func (s *secrets) rotated() bool { return !bytes.Equal(s.agreed, s.current) }

// use makes the current secret required for other nodes, as their current or previous one.
func (s *secrets) use(ctx context.Context, db *sqldb.DB) error {
	_, err := db.ExecContext(ctx, "UPDATE settings SET value = ? WHERE name = ?", sumOf(s.current), secretSum)
	return err
}

// confirmSecret stores the key of pushes, so that no read of it writes. If this node is the first one with its secret,
// confirmSecret makes the secret required.
func (a *App) confirmSecret(ctx context.Context) error {
	_, err := a.push.Key(ctx)
	if !a.secrets.rotated() {
		return nil
	}
	if err != nil { // the key must be stored before the earlier secret may be removed
		return err
	}
	return a.secrets.use(ctx, a.db)
}

// tryWrite commits a small change, to find out whether the database accepts the server's writes.
func (a *App) tryWrite(ctx context.Context) error {
	put := a.db.Dialect().Compile(sqldb.Upsert{Table: "settings", Columns: []string{"name", "value"}, Key: []string{"name"},
		Set: []string{"value"}})
	_, err := a.db.ExecContext(ctx, put.For(1), lastWrite, a.db.Now().Format(time.RFC3339Nano))
	return err
}

// lastWrite is the setting that [App.tryWrite] changes.
const lastWrite = "last_trial_write"
