package costs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// groupSize is the number of members of the group that gets messages.
const groupSize = 10

// People inserts n users, each with a session of a day. The first user is a friend of the next ones, who are the
// members of the group. The database has its tables, and no server has used it.
func People(ctx context.Context, db *sqldb.DB, n int) (all []api.Tokens, err error) {
	users := make([]accounts.User, n)
	for i := range users {
		if users[i], err = accounts.NewUser(fmt.Sprintf("person%d@example.org", i), "Person", "UTC"); err != nil {
			return nil, err
		}
	}
	now := db.Now()
	var pairs [][2]accounts.ID
	for _, u := range users[1:groupSize] {
		pairs = append(pairs, [2]accounts.ID{users[0].ID, u.ID})
	}
	err = db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := accounts.InsertUsers(ctx, tx, users); err != nil {
			return err
		}
		var rows []any
		for _, u := range users {
			tokens, row := NewSession(u.ID, now)
			all, rows = append(all, tokens), append(rows, row...)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO "+SessionTable+" VALUES "+sqldb.Tuples(SessionColumns, n), rows...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, social.Befriend(ctx, db, pairs)
}

// SessionTable is the table of sessions with the columns of a row of [NewSession], and SessionColumns is their number.
const (
	SessionTable = "sessions (user_id, device_id, name, ip, created, used, access_hash, access_expires, refresh_hash, refresh_expires, " +
		"prev_refresh_hash, prev_until, nonce)"
	SessionColumns = 13
)

// NewSession returns a session of a day for a user, as tokens and as a row.
func NewSession(user accounts.ID, now time.Time) (api.Tokens, []any) {
	device := ids.New[accounts.Session]().String()
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails: see crypto/rand
	token := "sa_" + user.String() + "." + device + "." + base64.RawURLEncoding.EncodeToString(secret[:])
	sum := sha256.Sum256([]byte(token))
	hash, ms, end := base64.RawURLEncoding.EncodeToString(sum[:]), now.UnixMilli(), now.Add(24*time.Hour).UnixMilli()
	return api.Tokens{AccessToken: token, User: api.User{ID: user.String()}, Device: device, ExpiresIn: 24 * 60 * 60},
		[]any{user, device, "bench", "127.0.0.1", ms, ms, hash, end, hash, end, "", 0, ""}
}
