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

// asKind gives database errors the kind that callers act on. An error of the storage, which may be a network error as
// well, keeps its kind.
func asKind(err error) error {
	if errors.Is(err, ErrStorage) || errors.Is(err, ErrFull) {
		return err
	}
	return sqldb.AsKind(sqldb.Undecided(err), ErrStore)
}

// sqlStore has all SQL statements of this package.
type sqlStore struct{ db *sqldb.DB }

const columns = "id, sender, receiver, name, media, size, sha256, status, reason, bytes, state, content, created, updated, expires"

func scan(r interface{ Scan(dest ...any) error }) (t Transfer, err error) {
	var content, created, updated, expires int64
	err = r.Scan(&t.ID, &t.From, &t.To, &t.Name, &t.Media, &t.Size, &t.SHA256, &t.Status, &t.Reason, &t.Stored, &t.state, &content, &created,
		&updated, &expires)
	t.Content, t.Created, t.Updated, t.Expires = content != 0, sqldb.Time(created), sqldb.Time(updated), sqldb.Time(expires)
	return t, err
}

func collect(found *sql.Rows, err error) ([]Transfer, error) {
	return sqldb.Collect(found, err, func(r *sql.Rows) (Transfer, error) { return scan(r) })
}

// one returns a transfer, or ErrUnknown.
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

// countParts returns the number of a transfer's parts.
func (s *sqlStore) countParts(ctx context.Context, id ID) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM transfer_parts WHERE transfer = ?", id).Scan(&n)
	return n, err
}

const countOpen = "SELECT COUNT(*) FROM transfers WHERE sender = ? AND status IN (?, ?)"

// insert adds an offer. It returns ErrQuota if the sender has reached the day's limit, and ErrOpen if the sender has
// too many unfinished transfers. made reports whether an earlier try inserted it; t is then its present state. It
// returns ErrUnknown if another user's transfer has the id.
func (s *sqlStore) insert(ctx context.Context, t *Transfer, cfg Settings) (made bool, err error) {
	offer := *t
	put := s.db.Dialect().Compile(sqldb.Upsert{Table: "transfer_quotas", Columns: []string{"user_id", "day", "files", "bytes"},
		Key: []string{"user_id", "day"},
		Set: []string{"files = files + {new.files}", "bytes = bytes + {new.bytes}"}})
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		*t = offer // a transaction may run more than once
		t.Created, t.Updated, t.Expires = tx.Now(), tx.Now(), tx.Now().Add(cfg.OfferFor)
		if t.Status == Transferring {
			t.Expires = tx.Now().Add(cfg.IdleFor)
		}
		// first, so that two tries conflict here
		_, err = tx.ExecContext(ctx, "INSERT INTO transfers ("+columns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			t.ID, t.From, t.To, t.Name, t.Media, t.Size, t.SHA256, t.Status, t.Reason, 0, []byte{}, 0, t.Created.UnixMilli(), t.Updated.UnixMilli(),
			t.Expires.UnixMilli())
		if made = sqldb.IsDuplicate(err); made {
			if *t, err = s.one(ctx, tx, offer.ID, tx.Dialect().ForUpdate()); err == nil && t.From != offer.From {
				err = ErrUnknown
			}
			return err
		}
		if err != nil {
			return err
		}
		// The day's row is locked from here on, so that of two concurrent offers one counts the other.
		if _, err := tx.ExecContext(ctx, put.For(1), t.From, dayOf(tx.Now()), 1, t.Size); err != nil {
			return err
		}
		var files, bytes, open int64
		if err := tx.QueryRowContext(ctx, "SELECT files, bytes FROM transfer_quotas WHERE user_id = ? AND day = ?", t.From,
			dayOf(tx.Now())).Scan(&files, &bytes); err != nil {
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

// dayOf returns the number of a quota's day (UTC).
func dayOf(at time.Time) int64 { return at.Unix() / (24 * 60 * 60) }

// change lets decide update a transfer. It returns the transfer and the parts to delete, if the transfer no longer has
// content. A transfer that ends returns the unused part of its size to its day's quota. Errors of decide are returned
// unchanged.
func (s *sqlStore) change(ctx context.Context, id ID,
	decide func(t *Transfer, now time.Time) error) (t Transfer, gone []string, err error) {
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

// write stores the new state of a locked transfer, and returns the parts to delete.
func (s *sqlStore) write(ctx context.Context, tx *sqldb.Tx, before, t *Transfer) (gone []string, err error) {
	t.Updated = tx.Now()
	if t.state == nil {
		t.state = []byte{}
	}
	if _, err := tx.ExecContext(ctx, "UPDATE transfers SET sha256 = ?, status = ?, reason = ?, bytes = ?, state = ?, content = ?, updated "+
		"= ?, expires = ? WHERE id = ?",
		t.SHA256, t.Status, t.Reason, t.Stored, t.state, sqldb.Bit(t.Content), t.Updated.UnixMilli(), t.Expires.UnixMilli(), t.ID); err != nil {
		return nil, err
	}
	if t.description != nil {
		if err := s.insertDescription(ctx, tx, t); err != nil {
			return nil, err
		}
	}
	if !before.Status.final() && t.Status.final() {
		if err := s.refundQuota(ctx, tx, t); err != nil {
			return nil, err
		}
	}
	if t.Content || !before.Content {
		return nil, nil
	}
	return s.dropParts(ctx, tx, t.ID)
}

// refundQuota returns the unused part of an ended transfer's size to its day's quota.
func (s *sqlStore) refundQuota(ctx context.Context, tx *sqldb.Tx, t *Transfer) error {
	unused := t.Size - t.Stored
	if unused <= 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, "UPDATE transfer_quotas SET bytes = bytes - ? WHERE user_id = ? AND day = ?", unused, t.From,
		dayOf(t.Created))
	return err
}

// dropParts deletes the rows of a transfer's parts and thumbnails, and returns their names.
func (s *sqlStore) dropParts(ctx context.Context, tx *sqldb.Tx, id ID) (names []string, err error) {
	for _, table := range []string{"transfer_parts", "transfer_thumbnails"} {
		batch, err := sqldb.Column[string](tx.QueryContext(ctx, "SELECT name FROM "+table+" WHERE transfer = ?", id))
		if err != nil {
			return nil, err
		}
		names = append(names, batch...)
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

// commit makes consecutive parts count that begin where the transfer ends, and lets decide update the transfer. It
// returns ErrOffset if the transfer has another number of stored bytes, and ErrEnded if it is not being uploaded.
func (s *sqlStore) commit(ctx context.Context, id ID, parts []part,
	decide func(t *Transfer, now time.Time)) (t Transfer, gone []string, err error) {
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
		if _, err = tx.ExecContext(ctx, "INSERT INTO transfer_parts (transfer, start, size, name) VALUES "+sqldb.Tuples(4, len(parts)),
			args...); err != nil {
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

// A user may have many files of messages, which never expire. So the query finds the user's other transfers by their
// expiry. The plus keeps SQLite from the index that has the order, but includes all files of messages.
const (
	listSent = "SELECT " + columns + " FROM transfers WHERE sender = ? AND expires < ? AND (+created < ? OR +created = ? AND id < ?) " +
		"ORDER BY +created DESC, id DESC LIMIT ?"
	listReceived = "SELECT " + columns + " FROM transfers WHERE receiver = ? AND expires < ? AND (created < ? OR created = ? AND id < ?) " +
		"ORDER BY created DESC, id DESC LIMIT ?"
)

// list returns transfers of a user before a place, newest first. Files that messages have are excluded.
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

// due returns expired transfers.
func (s *sqlStore) due(ctx context.Context, now time.Time, n int) ([]Transfer, error) {
	return collect(s.db.QueryContext(ctx, "SELECT "+columns+" FROM transfers WHERE expires <= ? ORDER BY expires LIMIT ?", now.UnixMilli(), n))
}

// waiting returns completely stored transfers to finish, after a given transfer, that were last updated before a time.
func (s *sqlStore) waiting(ctx context.Context, before time.Time, after Transfer, n int) ([]Transfer, error) {
	at := after.Updated.UnixMilli()
	return collect(s.db.QueryContext(ctx, "SELECT "+columns+
		" FROM transfers WHERE status = ? AND bytes = size AND updated <= ? AND (updated > ? OR updated = ? AND id > ?) ORDER BY updated, id "+
		"LIMIT ?",
		Transferring, before.UnixMilli(), at, at, after.ID, n))
}

// listByUser returns transfers of a user, on either side.
func (s *sqlStore) listByUser(ctx context.Context, user accounts.ID, n int) ([]Transfer, error) {
	return collect(s.db.QueryContext(ctx, "SELECT "+columns+" FROM transfers WHERE sender = ? OR receiver = ? LIMIT ?", user, user, n))
}

// forget deletes a transfer that expires no later than by, and returns the parts to delete. It returns ErrUnknown if
// there is none.
func (s *sqlStore) forget(ctx context.Context, id ID, by time.Time) (gone []string, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		gone = nil
		t, err := s.one(ctx, tx, id, tx.Dialect().ForUpdate())
		if err == nil && t.Expires.After(by) {
			err = ErrUnknown // a message got it meanwhile
		}
		if err != nil {
			return err
		}
		if !t.Status.final() { // it ends with the account of the sender or receiver
			if err = s.refundQuota(ctx, tx, &t); err != nil {
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

// forgetQuotas deletes the quotas of a user.
func (s *sqlStore) forgetQuotas(ctx context.Context, user accounts.ID) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM transfer_quotas WHERE user_id = ?", user)
	return err
}

// forgetOldQuotas deletes at most n quotas of days before a day, and returns their number.
func (s *sqlStore) forgetOldQuotas(ctx context.Context, before int64, n int) (int64, error) {
	return sqldb.DeleteSome(ctx, s.db, "transfer_quotas", []string{"user_id", "day"}, n, "day < ?", before)
}

// counted returns which of the named parts of some transfers count.
func (s *sqlStore) counted(ctx context.Context, ids []ID, names []string) (map[string]bool, error) {
	found, err := s.db.QueryContext(ctx, "SELECT name FROM transfer_parts WHERE transfer IN (?) AND name IN (?) UNION ALL SELECT name FROM "+
		"transfer_thumbnails WHERE transfer IN (?) AND name IN (?)",
		bun.List(ids), bun.List(names), bun.List(ids), bun.List(names))
	all, err := sqldb.Column[string](found, err)
	set := make(map[string]bool, len(all))
	for _, name := range all {
		set[name] = true
	}
	return set, err
}
