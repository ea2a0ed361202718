package mail

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// boxSize is the number of mails that the development box stores: enough to browse, too few to fill a disk.
const boxSize = 500

// maxShown is the largest number of mails that Newest returns.
const maxShown = 100

// Box stores mails in the SQL table dev_mails instead of sending them, the newest 500. It is for development only,
// because its page shows the codes of all users.
type Box struct{ db *sqldb.DB }

// NewBox returns the box in db.
func NewBox(db *sqldb.DB) *Box { return &Box{db} }

// Send implements [Sender].
func (b *Box) Send(ctx context.Context, m Message) error {
	if _, err := m.address(); err != nil {
		return err
	}
	err := b.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		res, err := tx.ExecContext(ctx, "INSERT INTO dev_mails (recipient, subject, body, sent) VALUES (?, ?, ?, ?)",
			m.To, m.Subject, m.Text, tx.Now().UnixMilli())
		if err != nil {
			return err
		}
		id, err := res.LastInsertId()
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM dev_mails WHERE id <= ?", id-boxSize)
		return err
	})
	if err != nil {
		return fmt.Errorf("mail.Box: %w", err)
	}
	return nil
}

// Newest returns the last 100 mails to that address, or to all addresses if it is empty, newest first. It ignores the
// case of the address.
func (b *Box) Newest(ctx context.Context, to string) (_ []Sent, err error) {
	defer errs.Wrap(&err, "mail.Newest")
	rows, err := b.db.QueryContext(ctx, `SELECT recipient, subject, body, sent FROM dev_mails
		WHERE ? = '' OR LOWER(recipient) = ? ORDER BY id DESC LIMIT ?`, to, strings.ToLower(to), maxShown)
	mails, err := sqldb.Collect(rows, err, func(rows *sql.Rows) (m Sent, err error) {
		var at int64
		err = rows.Scan(&m.To, &m.Subject, &m.Text, &at)
		m.At = api.At(sqldb.Time(at))
		m.Code = sixDigits.FindString(m.Text)
		return m, err
	})
	return append([]Sent{}, mails...), err
}

var sixDigits = regexp.MustCompile(`\b[0-9]{6}\b`)
