package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/mail"
)

// codeNotice is the payload of [TopicCode]. It has the code's seed and not the
// code, which the server's secret makes of it when the mail is written: who
// reads the outbox, or a dead letter, can log in nowhere.
type codeNotice struct {
	To      string  `json:"to"`
	Purpose Purpose `json:"purpose"`
	Known   bool    `json:"known"` // the address has an account
	Seed    string  `json:"seed"`
	Expires int64   `json:"expires"` // Unix milliseconds
}

// mailCode handles [TopicCode]. A code that has expired meanwhile is not worth a
// mail. An error that wraps mail.ErrRefused will not pass.
func (s *Service) mailCode(ctx context.Context, payload []byte) (err error) {
	defer errs.Wrap(&err, "accounts.mailCode")
	var n codeNotice
	if err := json.Unmarshal(payload, &n); err != nil {
		return errors.Join(mail.ErrRefused, err)
	}
	e, err := ParseEmail(n.To)
	if err != nil {
		return errors.Join(mail.ErrRefused, err)
	}
	if s.db.Now().UnixMilli() >= n.Expires {
		return nil
	}
	m := codeMail(n.Purpose, n.Known, s.mint.code(e, n.Purpose, n.Seed), s.cfg.CodeLife)
	m.To = e.Given
	return s.mail.Send(ctx, m)
}

// codeMail returns what is mailed when somebody asked for a code. The answer to
// the asking is the same for known and unknown addresses; only who reads the
// address learns whether it has an account.
func codeMail(p Purpose, known bool, code string, life time.Duration) mail.Message {
	switch {
	case p == ForRegister && known:
		return mail.Message{Subject: "You already have an account",
			Text: "Somebody, probably you, asked to register this address. It has an account already: log in instead.\n\n" +
				"If it was not you, there is nothing to do.\n"}
	case p == ForLogin && !known:
		return mail.Message{Subject: "There is no account with this address",
			Text: "Somebody, probably you, asked to log in with this address. It has no account yet: register first.\n\n" +
				"If it was not you, there is nothing to do.\n"}
	}
	subject, what := "Your code to log in", "to log in"
	if p == ForRegister {
		subject, what = "Your code to register", "to finish your registration"
	}
	return mail.Message{Subject: subject,
		Text: fmt.Sprintf("%s is your code %s. It can be used once, within %d minutes.\n\n"+
			"Never tell it to anybody. If you did not ask for it, there is nothing to do.\n", code, what, int(life.Minutes()))}
}
