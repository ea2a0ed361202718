package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/queue"
)

// erased has everybody remove what they hold of a user. What fails is tried
// again, together with what did not: erasing twice changes nothing.
func (a *App) erased(ctx context.Context, d queue.Delivery) error {
	var e accounts.Erasure
	if err := json.Unmarshal(d.Payload, &e); err != nil {
		return fmt.Errorf("%w: %w", queue.ErrGiveUp, err)
	}
	if err := errors.Join(a.checkin.Erase(ctx, e.User), a.social.Erase(ctx, e.User), a.api.Erase(ctx, e.User.String())); err != nil {
		return err
	}
	return a.accounts.ErasedEverywhere(ctx, e)
}
