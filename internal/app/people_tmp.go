package app

import (
	"context"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
)

type cardless struct{ *accounts.Service }

func (cardless) CardOwner(context.Context, string) (accounts.ID, error) {
	return accounts.ID{}, errs.New(errs.NotFound, "card.unknown", "no such card")
}
