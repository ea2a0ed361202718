package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// A thief who has taken over an account may change its address. The old address gets a mail with a link that undoes the
// change and all later ones:
//
//	offerUndo  in the transaction of the change: stores a row with the hash of the link's token
//	mailNotice creates the token from its seed and mails it to the old address
//	UndoEmail  restores the old address, and resets everything else that was set since

// undoLife is how long a change of address can be undone.
const undoLife = 72 * time.Hour

// ErrUndo reports a link that undoes nothing.
var ErrUndo = errs.New(errs.Invalid, "auth.undo_invalid", "The link is wrong, used or older than three days.")

// An undo is a stored offer to undo a change of address.
type undo struct {
	tokenHash string
	user      ID
	email     string // the old one
	at        int64  // of the change, Unix milliseconds
}

// offerUndo stores the address of u and enqueues the mail to it. The message contains a seed from which the server's
// secret derives the token, as with codes.
func (s *Service) offerUndo(ctx context.Context, tx *sqldb.Tx, u User) error {
	n := notice{To: u.Email, Kind: api.NoticeEmailChanged, Until: tx.Now().Add(undoLife).UnixMilli(), User: u.ID, Seed: newNonce()}
	row := undo{hash(s.mint.undoToken(u.ID, n.Seed)), u.ID, u.Email, tx.Now().UnixMilli()}
	if err := insertUndo(ctx, tx, row, n.Until); err != nil {
		return err
	}
	return n.enqueue(ctx, tx, u.ID)
}

// UndoEmail restores the address to which the link with that token was mailed. It ends all sessions and removes the
// password, which the thief may have set: then log-in is by a code to the address. It invalidates the links of later
// changes; a link of an earlier change still works. A deleted account stays deleted until its owner logs in. It returns
// ErrEmailTaken if the address has another account in the meantime; the link then stays valid.
func (s *Service) UndoEmail(ctx context.Context, token, clientNet string) (err error) {
	defer errs.Wrap(&err, "accounts.UndoEmail")
	back, err := selectUndo(ctx, s.db, hash(token))
	if err != nil {
		return asKind(err)
	}
	err = s.endAll(ctx, back.user, DeviceID{}, func(ctx context.Context, tx *sqldb.Tx) error {
		now, err := lockAccount(ctx, tx, back.user)
		if err != nil {
			return err
		}
		if err := consumeUndo(ctx, tx, back); err != nil {
			return err
		}
		if err := updateEmail(ctx, tx, back.user, emails.Address{Given: back.email, Key: emails.Key(back.email)}); err != nil {
			return err
		}
		if err := updatePassword(ctx, tx, back.user, ""); err != nil {
			return err
		}
		for _, to := range []string{back.email, now.Email} {
			if err := notify(ctx, tx, back.user, to, api.NoticeEmailUndone); err != nil {
				return err
			}
		}
		return s.write(ctx, tx, back.user, DeviceID{}, trail.EmailUndone, clientNet)
	}, append(EmailChanged.Of(s.caches.Runtime, back.user), PasswordChanged.Of(s.caches.Runtime, back.user)...)...)
	if errors.Is(err, ErrNoUser) { // erased in the meantime
		err = ErrUndo
	}
	return err
}
