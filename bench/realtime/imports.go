package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
)

// imported is the number of members in a backend's call, the maximum.
const imported = 1_000

// imports measures an app's backend that fills two groups with a service key, as when the app moves to Stoa.
func (b *bench) imports(ctx context.Context) (err error) {
	key, err := exec.CommandContext(ctx, b.binary, "keys-service", "create", "import", "--scope", "groups:manage", "--json", "--data", b.dir,
		"--sql", b.sqlURL).Output()
	if err != nil {
		return fmt.Errorf("a service key: %w", err)
	}
	var made struct{ Token string }
	if err := json.Unmarshal(key, &made); err != nil {
		return err
	}
	s, err := b.stoa(b.redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	backend, err := client.New("http://"+s.Addr, client.WithServiceKey(made.Token))
	if err != nil {
		return err
	}
	var joined int
	var took time.Duration
	for half := range 2 {
		all := b.people[half**crowdOf : (half+1)**crowdOf]
		group, err := backend.MakeGroup(ctx, api.ServiceGroup{Owner: all[0].id, Name: "Imported"})
		if err != nil {
			return err
		}
		began := time.Now()
		for i := 1; i < len(all); i += imported {
			var users []string
			for _, p := range all[i:min(len(all), i+imported)] {
				users = append(users, p.id)
			}
			if _, err := backend.AddMembers(ctx, group.ID, api.ServiceMembers{Members: users, Silent: true}); err != nil {
				return err
			}
			joined += len(users)
		}
		took += time.Since(began)
	}
	fmt.Printf("6. %d members joined two groups by import, %d a call, one call after another: %.1f s (aim: 10,000 in 5 s)\n", joined, imported,
		took.Seconds())
	return nil
}
