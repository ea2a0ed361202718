package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

// imported is how many members a call of a backend brings, the most that it may.
const imported = 1_000

// imports has an app's backend fill two groups with a service key, as it would when it moves to Stoa.
func (b *bench) imports(ctx context.Context) (err error) {
	key, err := exec.CommandContext(ctx, b.binary, "keys-service", "create", "import", "--scope", "groups:manage", "--json", "--data", b.dir, "--sql", b.sqlURL).Output()
	if err != nil {
		return fmt.Errorf("a service key: %w", err)
	}
	var made struct{ Token string }
	if err := json.Unmarshal(key, &made); err != nil {
		return err
	}
	s, err := b.stoa()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	call := func(path string, body, answer any) error {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Addr+path, bytes.NewReader(data))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+made.Token)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		got, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			return err
		}
		if res.StatusCode >= 300 {
			return fmt.Errorf("%s answers %d: %s", path, res.StatusCode, strings.TrimSpace(string(got)))
		}
		return json.Unmarshal(got, answer)
	}
	var joined int
	var took time.Duration
	for half := range 2 {
		all := b.people[half**crowdOf : (half+1)**crowdOf]
		var group struct{ ID string }
		if err := call("/v1/service/groups", map[string]any{"owner": all[0].id, "name": "Imported"}, &group); err != nil {
			return err
		}
		began := time.Now()
		for i := 1; i < len(all); i += imported {
			var users []string
			for _, p := range all[i:min(len(all), i+imported)] {
				users = append(users, p.id)
			}
			var answer json.RawMessage
			if err := call("/v1/service/groups/"+group.ID+"/members", map[string]any{"members": users, "silent": true}, &answer); err != nil {
				return err
			}
			joined += len(users)
		}
		took += time.Since(began)
	}
	fmt.Printf("6. %d members joined two groups by import, %d a call, one call after another: %.1f s (aim: 10,000 in 5 s)\n", joined, imported, took.Seconds())
	return nil
}
