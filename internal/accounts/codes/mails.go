package codes

import (
	"errors"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/mail"
)

// Topic is the outbox topic that mails a code; the payload is a [Notice].
const Topic = "accounts.code"

// Notice is the payload of [Topic]. It contains the seed of the code and not the code, which is derived with the
// server's secret when the mail is written. So a reader of the outbox, or of a dead letter, cannot log in.
type Notice struct {
	To      string  `json:"to"`
	Purpose Purpose `json:"purpose"`
	User    string  `json:"user,omitempty"` // the requesting user, if logged in
	Known   bool    `json:"known"`          // the address has an account, other than that of the requesting user
	Seed    string  `json:"seed"`
	Expires int64   `json:"expires"` // Unix milliseconds

	Lang i18n.Language `json:"lang,omitempty"` // of the requesting user
}

// Message returns the mail of a notice, or false if its code has already expired. An error wraps [mail.ErrRefused] and
// is permanent.
func (s *Service) Message(n Notice) (_ mail.Message, good bool, err error) {
	e, err := emails.Parse(n.To)
	if err != nil {
		return mail.Message{}, false, errors.Join(mail.ErrRefused, err)
	}
	if s.db.Now().UnixMilli() >= n.Expires {
		return mail.Message{}, false, nil
	}
	m := codeMail(n.Lang, n.Purpose, n.Known, s.mac.code(Proof{e, n.Purpose, n.User}, n.Seed), s.life)
	m.To = e.Given
	return m, true, nil
}

// codeMail returns the mail for a request of a code. The response to the request is the same for known and unknown
// addresses; only the mail shows whether the address has an account.
func codeMail(l i18n.Language, p Purpose, known bool, code string, life time.Duration) mail.Message {
	var subject, purpose string
	switch p {
	case ForRegister:
		if known {
			return noCode(l, "You already have an account", "asked to register this address. It has an account already: log in instead.")
		}
		subject, purpose = "Your code to register", "to finish your registration"
	case ForLogin:
		if !known {
			return noCode(l, noAccount, "asked to log in with this address. It has no account yet: register first.")
		}
		subject, purpose = "Your code to log in", "to log in"
	case ForResetPassword:
		if !known {
			return noCode(l, noAccount, "asked for a new password for this address. It has no account yet: register first.")
		}
		subject, purpose = "Your code for a new password", "to set a new password. All devices will be logged out"
	case ForChangeEmail:
		if known {
			return noCode(l, "This address has an account already",
				"asked to use this address for another account. It has an account of its own, and an address can have one only.")
		}
		subject, purpose = "Your code to change your address", "to use this address for your account"
	case ForSetPassword:
		subject, purpose = "Your code to set a password", "to set a password for your account. All other devices will be logged out"
	case ForLeaveEmail:
		subject, purpose = "Your code to leave this address", "to have another address for your account in place of this one"
	}
	return mail.Message{Subject: l.Translate(subject), Text: l.Sprintf(codeText, code, l.Translate(purpose), int(life.Minutes()))}
}

const (
	codeText = "%s is your code %s. It can be used once, within %d minutes.\n\n" +
		"Never tell it to anybody. If you did not ask for it, there is nothing to do.\n"
	noAccount  = "There is no account with this address"
	noCodeText = "Somebody, probably you, %s\n\nIf it was not you, there is nothing to do.\n"
)

func noCode(l i18n.Language, subject, purpose string) mail.Message {
	return mail.Message{Subject: l.Translate(subject), Text: l.Sprintf(noCodeText, l.Translate(purpose))}
}
