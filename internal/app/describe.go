package app

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/obs"
)

// Description describes a node of this build, for the generated reference.
type Description struct {
	OpenAPI []byte       // the OpenAPI 3.1 document, as JSON
	Metrics []obs.Metric // by name
}

// Describe returns the description of a node with default settings. The node uses embedded engines in a temporary
// folder, which Describe removes. It serves no requests.
func Describe(ctx context.Context) (d Description, err error) {
	defer errs.Wrap(&err, "describe")
	dir, err := os.MkdirTemp("", "stoa-describe-")
	if err != nil {
		return Description{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	a, err := New(ctx, Config{Data: dir, Redis: "embedded", SQL: "sqlite", KeyPrefix: "stoa", Dev: "true", Limits: true},
		slog.New(slog.DiscardHandler))
	if err != nil {
		return Description{}, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	d.OpenAPI = a.api.OpenAPI()
	d.Metrics, err = obs.Describe(a.reg)
	return d, err
}

// OpenAPI returns the description of the API, as JSON. Do not change the slice.
func (a *App) OpenAPI() []byte { return a.api.OpenAPI() }
