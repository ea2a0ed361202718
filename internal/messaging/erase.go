package messaging

import (
	"context"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
)

// maxEraseChats is the largest number of a user's chats that one transaction erases.
const maxEraseChats = 50

// Erase removes the user's messages, reactions and settings. In other members' chats the user's messages keep their seq
// without content, like recalled ones. It may be called again.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "messaging.Erase %s", user)
	for {
		at := s.sql.db.Now()
		s.projection.Begin(at)
		list, err := s.sql.eraseFromChats(ctx, user, maxEraseChats, s.removeFileReferences)
		if len(list) == 0 {
			s.projection.Done(at)
			if err == nil {
				err = s.redis.deleteChats(ctx, user, nil)
			}
			return asKind(ctx, err)
		}
		var since []time.Time
		var changes []change
		for i, conv := range list {
			if i > 0 {
				s.projection.Begin(at)
			}
			since, changes = append(since, at), append(changes, change{conv: conv.id, kind: conv.kind})
		}
		if err != nil { // it may be committed, and then the next try finds nothing to do
			for _, c := range changes {
				s.settleFailed(at, c, err)
			}
			return asKind(ctx, err)
		}
		s.apply(ctx, since, changes...)
		if err := s.publishMissed(ctx, changes); err != nil {
			return asKind(ctx, err)
		}
		if err := s.redis.deleteChats(ctx, user, list); err != nil {
			return asKind(ctx, err)
		}
	}
}
