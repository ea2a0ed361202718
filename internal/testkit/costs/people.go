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
	end := now.Add(24 * time.Hour).UnixMilli()
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
			device := ids.New[accounts.Session]().String()
			var secret [32]byte
			_, _ = rand.Read(secret[:]) // never fails: see crypto/rand
			token := "sa_" + u.ID.String() + "." + device + "." + base64.RawURLEncoding.EncodeToString(secret[:])
			sum := sha256.Sum256([]byte(token))
			hash := base64.RawURLEncoding.EncodeToString(sum[:])
			rows = append(rows, u.ID, device, "costs", "127.0.0.1", now.UnixMilli(), now.UnixMilli(), hash, end, hash, end, "", 0, "")
			all = append(all, api.Tokens{AccessToken: token, User: api.User{ID: u.ID.String()}, Device: device, ExpiresIn: 24 * 60 * 60})
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO sessions (user_id, device_id, name, ip, created, used, access_hash, access_expires, "+
			"refresh_hash, refresh_expires, prev_refresh_hash, prev_until, nonce) VALUES "+sqldb.Tuples(13, n), rows...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, social.Befriend(ctx, db, pairs)
}
