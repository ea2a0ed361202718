package transfers

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// asKind gives errors of the engine the kind that callers act on. An error of the storage, which may be one of the network as
// well, keeps its kind.
func asKind(err error) error {
	if errors.Is(err, ErrStorage) || errors.Is(err, ErrFull) {
		return err
	}
	return sqldb.AsKind(sqldb.Undecided(err), ErrStore)
}

// sqlStore has every statement of this package.
type sqlStore struct{ db *sqldb.DB }

const columns = "id, sender, receiver, name, media, size, sha256, status, reason, bytes, state, content, created, updated, expires"

func scan(r interface{ Scan(dest ...any) error }) (t Transfer, err error) {
	var content, created, updated, expires int64
	err = r.Scan(&t.ID, &t.From, &t.To, &t.Name, &t.Media, &t.Size, &t.SHA256, &t.Status, &t.Reason, &t.Stored, &t.state, &content, &created, &updated, &expires)
	t.Content, t.Created, t.Updated, t.Expires = content != 0, sqldb.Time(created), sqldb.Time(updated), sqldb.Time(expires)
	return t, err
}

func collect(found *sql.Rows, err error) ([]Transfer, error) {
	return sqldb.Collect(found, err, func(r *sql.Rows) (Transfer, error) { return scan(r) })
}

// one returns a transfer. ErrUnknown.
func (s *sqlStore) one(ctx context.Context, q sqldb.Querier, id ID, lock string) (Transfer, error) {
	t, err := scan(q.QueryRowContext(ctx, "SELECT "+columns+" FROM transfers WHERE id = ?"+lock, id))
	return t, sqldb.Missing(err, ErrUnknown)
}

func (s *sqlStore) get(ctx context.Context, id ID) (Transfer, error) { return s.one(ctx, s.db, id, "") }

// parts returns the parts of a transfer, in order.
func (s *sqlStore) parts(ctx context.Context, q sqldb.Querier, id ID) ([]part, error) {
	found, err := q.QueryContext(ctx, "SELECT start, size, name FROM transfer_parts WHERE transfer = ? ORDER BY start", id)
	return sqldb.Collect(found, err, func(r *sql.Rows) (p part, err error) {
		err = r.Scan(&p.start, &p.size, &p.name)
		return p, err
	})
}

// countParts returns how many parts a transfer has.
func (s *sqlStore) countParts(ctx context.Context, id ID) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM transfer_parts WHERE transfer = ?", id).Scan(&n)
	return n, err
}

const countOpen = "SELECT COUNT(*) FROM transfers WHERE sender = ? AND status IN (?, ?)"

// insert adds an offer, unless its sender has offered as much as a day allows or has too
// many unfinished ones, and reports whether an earlier try has made it: t is what became of that one then.
// ErrQuota, ErrOpen, ErrUnknown.
func (s *sqlStore) insert(ctx context.Context, t *Transfer, cfg Settings) (made bool, err error) {
	offer := *t
	put := s.db.Dialect().Compile(sqldb.Upsert{Table: "transfer_quotas", Columns: []string{"user_id", "day", "files", "bytes"}, Key: []string{"user_id", "day"},
		Set: []string{"files = files + {new.files}", "bytes = bytes + {new.bytes}"}})
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		*t = offer // a transaction may be run again
		t.Created, t.Updated, t.Expires = tx.Now(), tx.Now(), tx.Now().Add(cfg.OfferFor)
		if t.Status == Transferring {
			t.Expires = tx.Now().Add(cfg.IdleFor)
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO transfers ("+columns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", // first, so that two tries meet here
			t.ID, t.From, t.To, t.Name, t.Media, t.Size, t.SHA256, t.Status, t.Reason, 0, []byte{}, 0, t.Created.UnixMilli(), t.Updated.UnixMilli(), t.Expires.UnixMilli())
		if made = sqldb.IsDuplicate(err); made {
			if *t, err = s.one(ctx, tx, offer.ID, tx.Dialect().ForUpdate()); err == nil && t.From != offer.From {
				err = ErrUnknown
			}
			return err
		}
		if err != nil {
			return err
		}
		// The row of the day is locked from here on: of two offers at once one sees the other.
		if _, err := tx.ExecContext(ctx, put.For(1), t.From, dayOf(tx.Now()), 1, t.Size); err != nil {
			return err
		}
		var files, bytes, open int64
		if err := tx.QueryRowContext(ctx, "SELECT files, bytes FROM transfer_quotas WHERE user_id = ? AND day = ?", t.From, dayOf(tx.Now())).Scan(&files, &bytes); err != nil {
			return err
		}
		if files > int64(cfg.DayFiles) || bytes > cfg.DayBytes {
			return ErrQuota
		}
		if err := tx.QueryRowContext(ctx, countOpen, t.From, Pending, Transferring).Scan(&open); err != nil {
			return err
		}
		if open > int64(cfg.Open) {
			return ErrOpen
		}
		return nil
	})
	return made, err
}

// dayOf numbers the days (UTC) on which quotas count.
func dayOf(at time.Time) int64 { return at.Unix() / (24 * 60 * 60) }

// change lets decide alter a transfer, and returns it with the parts that are to be removed:
// those of a transfer that has no content then. What a transfer that ended did not use of its
// day's quota, it gives back. The errors of decide are returned as they are.
func (s *sqlStore) change(ctx context.Context, id ID, decide func(t *Transfer, now time.Time) error) (t Transfer, gone []string, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		gone = nil
		if t, err = s.one(ctx, tx, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		before := t
		if err = decide(&t, tx.Now()); err != nil {
			return err
		}
		gone, err = s.write(ctx, tx, &before, &t)
		return err
	})
	return t, gone, err
}

// write stores what has become of a locked transfer, and returns the parts that are to go.
func (s *sqlStore) write(ctx context.Context, tx *sqldb.Tx, before, t *Transfer) (gone []string, err error) {
	t.Updated = tx.Now()
	if t.state == nil {
		t.state = []byte{}
	}
	if _, err := tx.ExecContext(ctx, "UPDATE transfers SET sha256 = ?, status = ?, reason = ?, bytes = ?, state = ?, content = ?, updated = ?, expires = ? WHERE id = ?",
		t.SHA256, t.Status, t.Reason, t.Stored, t.state, sqldb.Bit(t.Content), t.Updated.UnixMilli(), t.Expires.UnixMilli(), t.ID); err != nil {
		return nil, err
	}
	if t.looks != nil {
		if err := s.insertLooks(ctx, tx, t); err != nil {
			return nil, err
		}
	}
	if !before.Status.final() && t.Status.final() {
		if err := s.giveBack(ctx, tx, t); err != nil {
			return nil, err
		}
	}
	if t.Content || !before.Content {
		return nil, nil
	}
	return s.dropParts(ctx, tx, t.ID)
}

// giveBack gives its day's quota back what a transfer that ends did not use of it.
func (s *sqlStore) giveBack(ctx context.Context, tx *sqldb.Tx, t *Transfer) error {
	unused := t.Size - t.Stored
	if unused <= 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, "UPDATE transfer_quotas SET bytes = bytes - ? WHERE user_id = ? AND day = ?", unused, t.From, dayOf(t.Created))
	return err
}

// dropParts removes the rows of a transfer's parts and thumbnails, and returns their names.
func (s *sqlStore) dropParts(ctx context.Context, tx *sqldb.Tx, id ID) (names []string, err error) {
	for _, table := range []string{"transfer_parts", "transfer_thumbnails"} {
		some, err := sqldb.Column[string](tx.QueryContext(ctx, "SELECT name FROM "+table+" WHERE transfer = ?", id))
		if err != nil {
			return nil, err
		}
		names = append(names, some...)
	}
	if len(names) == 0 {
		return nil, nil
	}
	for _, table := range []string{"transfer_parts", "transfer_thumbnails", "transfer_looks"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE transfer = ?", id); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// commit has parts count that follow on each other from where the transfer stands, and lets
// decide say what the transfer is then. ErrOffset where it stands elsewhere by now, ErrEnded where it is not
// being uploaded.
func (s *sqlStore) commit(ctx context.Context, id ID, parts []part, decide func(t *Transfer, now time.Time)) (t Transfer, gone []string, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		gone = nil
		if t, err = s.one(ctx, tx, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		switch {
		case t.Status != Transferring:
			return ErrEnded
		case t.Stored != parts[0].start:
			return ErrOffset
		}
		args := make([]any, 0, 4*len(parts))
		for _, p := range parts {
			args = append(args, id, p.start, p.size, p.name)
			t.Stored += p.size
		}
		if _, err = tx.ExecContext(ctx, "INSERT INTO transfer_parts (transfer, start, size, name) VALUES "+sqldb.Tuples(4, len(parts)), args...); err != nil {
			return err
		}
		before := t
		t.Content, before.Content = true, true
		decide(&t, tx.Now())
		gone, err = s.write(ctx, tx, &before, &t)
		return err
	})
	return t, gone, err
}

// A user's files of messages, which never expire, may be many: what that user has sent besides is found by when it expires. The plus
// keeps SQLite from the index that has the order, and all of them.
const (
	listSent     = "SELECT " + columns + " FROM transfers WHERE sender = ? AND expires < ? AND (+created < ? OR +created = ? AND id < ?) ORDER BY +created DESC, id DESC LIMIT ?"
	listReceived = "SELECT " + columns + " FROM transfers WHERE receiver = ? AND expires < ? AND (created < ? OR created = ? AND id < ?) ORDER BY created DESC, id DESC LIMIT ?"
)

// list returns transfers of a user from before a place on, newest first; files that messages have are none any more.
func (s *sqlStore) list(ctx context.Context, user accounts.ID, at int64, id string, n int) ([]Transfer, error) {
	var all []Transfer
	for _, query := range []string{listSent, listReceived} {
		found, err := collect(s.db.QueryContext(ctx, query, user, never.UnixMilli(), at, at, id, n))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b Transfer) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return b.ID.Compare(a.ID)
	})
	return all[:min(n, len(all))], nil
}

// due returns transfers whose time is over.
func (s *sqlStore) due(ctx context.Context, now time.Time, n int) ([]Transfer, error) {
	return collect(s.db.QueryContext(ctx, "SELECT "+columns+" FROM transfers WHERE expires <= ? ORDER BY expires LIMIT ?", now.UnixMilli(), n))
}

// waiting returns transfers behind one of them that are stored as a whole, and were before a moment, and are to be finished.
func (s *sqlStore) waiting(ctx context.Context, before time.Time, after Transfer, n int) ([]Transfer, error) {
	at := after.Updated.UnixMilli()
	return collect(s.db.QueryContext(ctx, "SELECT "+columns+" FROM transfers WHERE status = ? AND bytes = size AND updated <= ? AND (updated > ? OR updated = ? AND id > ?) ORDER BY updated, id LIMIT ?",
		Transferring, before.UnixMilli(), at, at, after.ID, n))
}

// of returns transfers of a user, on either side.
func (s *sqlStore) of(ctx context.Context, user accounts.ID, n int) ([]Transfer, error) {
	return collect(s.db.QueryContext(ctx, "SELECT "+columns+" FROM transfers WHERE sender = ? OR receiver = ? LIMIT ?", user, user, n))
}

// forget removes a transfer that has expired by a moment, and returns the parts that are to go. ErrUnknown.
func (s *sqlStore) forget(ctx context.Context, id ID, by time.Time) (gone []string, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		gone = nil
		t, err := s.one(ctx, tx, id, tx.Dialect().ForUpdate())
		if err == nil && t.Expires.After(by) {
			err = ErrUnknown // a message has taken it meanwhile
		}
		if err != nil {
			return err
		}
		if !t.Status.final() { // it ends with the account of one of the two
			if err = s.giveBack(ctx, tx, &t); err != nil {
				return err
			}
		}
		if gone, err = s.dropParts(ctx, tx, id); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM transfers WHERE id = ?", id)
		return err
	})
	return gone, err
}

// forgetQuotas removes the quotas of a user.
func (s *sqlStore) forgetQuotas(ctx context.Context, user accounts.ID) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM transfer_quotas WHERE user_id = ?", user)
	return err
}

// forgetOldQuotas removes up to n quotas of days before one, and returns how many.
func (s *sqlStore) forgetOldQuotas(ctx context.Context, before int64, n int) (int64, error) {
	return sqldb.DeleteSome(ctx, s.db, "transfer_quotas", []string{"user_id", "day"}, n, "day < ?", before)
}

// counted returns those of some parts, which belong to some transfers, that count.
func (s *sqlStore) counted(ctx context.Context, ids []ID, names []string) (map[string]bool, error) {
	found, err := s.db.QueryContext(ctx, "SELECT name FROM transfer_parts WHERE transfer IN (?) AND name IN (?) UNION ALL SELECT name FROM transfer_thumbnails WHERE transfer IN (?) AND name IN (?)",
		bun.List(ids), bun.List(names), bun.List(ids), bun.List(names))
	all, err := sqldb.Column[string](found, err)
	set := make(map[string]bool, len(all))
	for _, name := range all {
		set[name] = true
	}
	return set, err
}
