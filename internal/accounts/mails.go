package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/mail"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// mailCode handles [codes.Topic]. An error that wraps mail.ErrRefused is permanent.
func (s *Service) mailCode(ctx context.Context, n codes.Notice) (err error) {
	defer errs.Wrap(&err, "accounts.mailCode")
	m, good, err := s.codes.Message(n)
	if err != nil || !good {
		return err
	}
	return s.mail.Send(ctx, m)
}

// notice is the payload of [TopicNotice].
type notice struct {
	To   string `json:"to"`
	Kind string `json:"kind"` // see api.AccountNotice
	At   int64  `json:"at"`   // Unix milliseconds

	// Until is the last time at which the change can be undone, in Unix milliseconds; 0 means never.
	Until int64 `json:"until,omitempty"`

	// User and Seed create the token that undoes a change of address.
	User ID     `json:"user,omitzero"`
	Seed string `json:"seed,omitempty"`

	Lang i18n.Language `json:"lang,omitempty"` // language of the account
}

// notify enqueues the mail of a notice, sent after the commit of tx. to is an address that the user is known to read,
// which after a change of address is the old one.
func notify(ctx context.Context, tx *sqldb.Tx, user ID, to, kind string) error {
	return notice{To: to, Kind: kind}.enqueue(ctx, tx, user)
}

// enqueue enqueues n in the language of the account, because the actor may be another person: a thief or an operator.
// An account without a language uses the language of the actor.
func (n notice) enqueue(ctx context.Context, tx *sqldb.Tx, user ID) error {
	if n.To == "" { // the account has no address
		return nil
	}
	lang, err := languageOf(ctx, tx, user)
	if err != nil {
		return err
	}
	n.At, n.Lang = tx.Now().UnixMilli(), cmp.Or(lang, i18n.From(ctx))
	return tx.EnqueueJSON(ctx, sqldb.Message{Topic: TopicNotice, Key: user.String(), NoDedup: true}, n)
}

// mailNotice handles [TopicNotice]. An error that wraps mail.ErrRefused is permanent.
func (s *Service) mailNotice(ctx context.Context, n notice) (err error) {
	defer errs.Wrap(&err, "accounts.mailNotice")
	m, ok := noticeMails[n.Kind]
	if !ok {
		return fmt.Errorf("%w: there is no notice %q", mail.ErrRefused, n.Kind)
	}
	m.To, m.Subject, m.Text = n.To, n.Lang.Translate(m.Subject), n.Lang.Sprintf(m.Text, moment(n.At))
	switch {
	case n.Until != 0 && n.Seed != "":
		token := s.mint.undoToken(n.User, n.Seed)
		if s.previous != nil { // the node that stored the offer may have used the previous secret
			if _, err := selectUndo(ctx, s.db, hash(token)); errors.Is(err, ErrUndo) {
				token = s.previous.undoToken(n.User, n.Seed)
			} else if err != nil {
				return asKind(err)
			}
		}
		m.Text += n.Lang.Sprintf(undoText, moment(n.Until), s.pageLink(n.Lang, "#/undo/"+token))
	case n.Until != 0:
		m.Text += n.Lang.Sprintf(undoDeletionText, moment(n.Until))
	}
	return s.mail.Send(ctx, m)
}

func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04 MST") }

// undoDeletionText is added to notices of changes that a log-in can undo.
const undoDeletionText = "\nUntil %s you can take that back: log in. Then everything is erased for good.\n"

// undoText is added to the mail to the old address.
const undoText = "\nIf it was not you, you can take that back until %s:\n\n%s\n\n" +
	"Then this is the address of your account again, all devices are logged out, and there is no password any more: " +
	"log in by a code that is mailed to this address. Show this link to nobody.\n"

// pageLink returns a link to the page. Without a configured page it returns only the part after the address. It does
// not use the Host of a request, because any client can set that.
func (s *Service) pageLink(l i18n.Language, fragment string) string {
	if s.page == "" {
		return l.Translate("(the address of this service)") + "/" + fragment
	}
	return s.page + "/" + fragment
}

// noticeMails contain a verb for the time in their text.
var noticeMails = map[string]mail.Message{
	api.NoticePasswordChanged: {Subject: "Your password was changed",
		Text: "The password of your account was changed on %s, and your other devices were logged out.\n\n" +
			"If it was not you, ask for a code for a new password at once: it logs everybody else out.\n"},
	api.NoticeEmailChanged: {Subject: "Your address was changed",
		Text: "Your account got another address on %s. This one cannot be used to log in any more.\n"},
	api.NoticeEmailUndone: {Subject: "A change of address was taken back",
		Text: "On %s an account got back the address that it had before, by the link that was mailed to that address. " +
			"All its devices were logged out, and it has no password any more: log in by a code that is mailed to the address it has again.\n"},
	api.NoticeDeletion: {Subject: "Your account was deleted",
		Text: "Your account was deleted on %s, and all its devices were logged out.\n"},
	api.NoticeRestored: {Subject: "Your account is back",
		Text: "Your account, which had been deleted, was brought back by a log-in on %s.\n\n" +
			"If it was not you, ask for a code for a new password at once: it logs everybody else out.\n"},
}
