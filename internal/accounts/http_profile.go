package accounts

import (
	"context"
	"net/http"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// searchLimit is enough for a person who looks for friends, and too little to enumerate addresses.
var searchLimit = ratelimit.Limit{Max: 30, Window: time.Hour}

func (s *Service) profileRoutes(a *web.API) {
	tags := []string{"people"}
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/users/{user}", ID: "users.get", Summary: "Get a user's profile", Tags: tags,
		Description: "For a deleted user only the id is returned.",
		Errors:      []*errs.Error{ErrUserNotFound}}, s.getUser)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/users", ID: "users.list", Summary: "Get several profiles", Tags: tags,
		Description: "Returns users that exist or existed, in the order of the request, and leaves out unknown ids.",
		Errors:      []*errs.Error{ids.ErrMalformed}}, s.getUsers)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/users/search", ID: "users.search", Summary: "Find a user", Tags: tags,
		Description: "Exact match only, for users who allow it. The error is the same for an unknown user and for a user who cannot be found.",
		Limit:       searchLimit, Errors: []*errs.Error{ErrSearch, emails.ErrInvalid, ErrUserNotFound}}, s.searchUsers)
}

func (s *Service) getUser(ctx context.Context, _ Caller, in *struct {
	User ID `path:"user" unknown:"user.not_found" doc:"the user's id"`
}) (*web.Body[api.Profile], error) {
	return profile(s.Profile(ctx, in.User))
}

func (s *Service) getUsers(ctx context.Context, _ Caller, in *struct {
	IDs []ID `query:"ids" required:"true" minItems:"1" maxItems:"100" doc:"ids, separated by commas"`
}) (*web.Body[api.Profiles], error) {
	found, err := s.Profiles(ctx, in.IDs)
	if err != nil {
		return nil, err
	}
	out := api.Profiles{Users: make([]api.Profile, 0, len(in.IDs))}
	for _, id := range in.IDs {
		if p, ok := found[id]; ok {
			out.Users = append(out.Users, p.Wire())
		}
	}
	return web.NewBody(out), nil
}

func (s *Service) searchUsers(ctx context.Context, _ Caller, in *struct {
	ID    string `query:"id" doc:"the user's id; or send email"`
	Email string `query:"email" maxLength:"254" doc:"the user's address; or send id"`
}) (*web.Body[api.Profile], error) {
	if (in.ID == "") == (in.Email == "") {
		return nil, ErrSearch
	}
	if in.Email != "" {
		return profile(s.FindByEmail(ctx, in.Email))
	}
	id, err := ids.Parse[User](in.ID)
	if err != nil {
		return nil, ErrUserNotFound
	}
	return profile(s.FindByID(ctx, id))
}

func profile(p Profile, err error) (*web.Body[api.Profile], error) {
	if err != nil {
		return nil, err
	}
	return web.NewBody(p.Wire()), nil
}
