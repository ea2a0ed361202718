package accounts

import (
	"context"

	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

func (s *Service) endAll(ctx context.Context, user ID, except DeviceID, commit func(ctx context.Context, tx *sqldb.Tx) error) error {
	err := s.caches.Change(ctx, func(ctx context.Context) error {
		return s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := commit(ctx, tx); err != nil {
				return err
			}
			devices, err := lockDevices(ctx, tx, user)
			if err != nil {
				return err
			}
			kept := devices[:0]
			for _, d := range devices {
				if d != except {
					kept = append(kept, d)
				}
			}
			if len(kept) == 0 {
				return nil
			}
			_, err = s.end(ctx, tx, user, kept)
			return err
		})
	}, PasswordChanged.Of(s.caches, user)...)
	return loadError(ctx, err)
}

func (s *Service) ended(ctx context.Context, user ID, devices []DeviceID) error {
	var graves []sessionCopy
	for _, d := range devices {
		graves = append(graves, grave(user, d))
	}
	if len(graves) == 0 {
		return nil
	}
	return s.fast.put(ctx, s.db.Now(), graves...)
}
