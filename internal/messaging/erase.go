package messaging

import (
	"context"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
)

// eraseAtOnce is how many of a user's chats one transaction erases.
const eraseAtOnce = 50

// Erase removes what a user has said, reacted with and set. In the others' chats the
// user's messages keep their places without content, as if they had been recalled. It may
// be called again.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "messaging.Erase %s", user)
	for {
		n, err := s.store.eraseSome(ctx, user, eraseAtOnce)
		if err != nil || n == 0 {
			return asKind(ctx, err)
		}
	}
}
