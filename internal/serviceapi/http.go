package serviceapi

import (
	"context"
	"net/http"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/servicekeys"
)

// ErrTo reports a message without a recipient, or with two.
var ErrTo = errs.New(errs.Invalid, "service.to", "A message goes either to a user or into a group.")

// Service provides the operations.
type Service struct {
	Accounts *accounts.Service
	Groups   *groups.Service
	Messages *messaging.Service
}

type ofUser struct {
	User string `path:"user" maxLength:"200" doc:"the user's id, or external: and the external id"`
}

type ofGroup struct {
	Group groups.ID `path:"group" maxLength:"64" unknown:"group.unknown" doc:"the group's id"`
}

// importBody is the largest size of 1,000 ids or 500 users.
const importBody = 1 << 20

// Routes adds the operations to a.
func (s Service) Routes(a *web.API) {
	add := func(op web.Op) web.Op { op.Tags = []string{"service"}; return op }
	web.Handle(a, add(web.Op{Method: http.MethodPost, Path: "/v1/service/users", ID: "service.users", MaxBody: importBody,
		Summary:     "Create accounts for external users",
		Description: "Existing accounts are returned unchanged, so that the call can be repeated.",
		Errors:      []*errs.Error{accounts.ErrExternalID, accounts.ErrName, accounts.ErrBio, civil.ErrZone}}), s.postUsers)
	web.Handle(a, add(web.Op{Method: http.MethodGet, Path: "/v1/service/users/{user}", ID: "service.user", Summary: "Get a user"}), s.getUser)
	web.Handle(a, add(web.Op{Method: http.MethodPatch, Path: "/v1/service/users/{user}", ID: "service.user_update", Summary: "Update a user",
		Errors: []*errs.Error{accounts.ErrName, accounts.ErrBio, civil.ErrZone}}), s.patchUser)
	web.Handle(a, add(web.Op{Method: http.MethodDelete, Path: "/v1/service/users/{user}", ID: "service.user_delete",
		Summary: "Delete a user's account",
		Description: "Logs out all devices, and other users see a deleted user. A log-in within the grace period restores the account; with " +
			"now it is erased for good within seconds."}), s.deleteUser)
	web.Handle(a, add(web.Op{Method: http.MethodPut, Path: "/v1/service/users/{user}/ban", ID: "service.user_ban",
		Status:      http.StatusNoContent,
		Summary:     "Ban a user",
		Description: "All devices are logged out.", Errors: []*errs.Error{accounts.ErrBan}}), s.putBan)
	web.Handle(a, add(web.Op{Method: http.MethodDelete, Path: "/v1/service/users/{user}/ban", ID: "service.user_unban",
		Status:  http.StatusNoContent,
		Summary: "Lift a ban"}), s.deleteBan)
	web.Handle(a, add(web.Op{Method: http.MethodDelete, Path: "/v1/service/users/{user}/sessions", ID: "service.user_logout",
		Status:  http.StatusNoContent,
		Summary: "Log out all devices"}), s.deleteSessions)
	web.Handle(a, add(web.Op{Method: http.MethodPost, Path: "/v1/service/users/{user}/tokens", ID: "service.user_tokens",
		Status: http.StatusCreated, NoReplay: true, Creates: true,
		Summary: "Log in a user's device",
		Description: "For an app with its own log-in: it passes the tokens to the user's device, which refreshes them like any other device. " +
			"A retry with the same Idempotency-Key gets new tokens of the same session.",
		Errors: []*errs.Error{accounts.ErrDeviceName, accounts.ErrCredentials}}), s.postTokens)
	web.Handle(a, add(web.Op{Method: http.MethodPost, Path: "/v1/service/messages", ID: "service.messages", Status: http.StatusCreated,
		Summary: "Send a message as a user",
		Description: "It reaches each recipient who has not blocked the sender, whatever their settings are, and a mute of the sender in a " +
			"group does not apply. " +
			"A message of kind system has only a text, and the chat shows it as a message of the app. A retry with the same client_id and " +
			"content is the same message.",
		Errors: []*errs.Error{ErrTo, messaging.ErrChat, messaging.ErrSelf, messaging.ErrClientID, messaging.ErrContent, messaging.ErrReply,
			messaging.ErrMessage, messaging.ErrRecalled, messaging.ErrReused, messaging.ErrFile,
			messaging.ErrRefused, messaging.ErrYouBlock, messaging.ErrSystem, groups.ErrMay, messaging.ErrStore}}), s.postMessage)
	web.Handle(a, add(web.Op{Method: http.MethodPost, Path: "/v1/service/groups", ID: "service.group_create", Status: http.StatusCreated,
		MaxBody: importBody,
		Summary: "Create a group of any users", Errors: []*errs.Error{groups.ErrText, groups.ErrFull, groups.ErrGroups, groups.ErrGroup,
			groups.ErrStore}}), s.postGroup)
	web.Handle(a, add(web.Op{Method: http.MethodPost, Path: "/v1/service/groups/{group}/members", ID: "service.group_join",
		MaxBody: importBody,
		Summary: "Add members to a group", Errors: []*errs.Error{groups.ErrGroup, groups.ErrTheyBanned, groups.ErrFull, groups.ErrGroups,
			groups.ErrStore}}), s.postMembers)
	web.Handle(a, add(web.Op{Method: http.MethodDelete, Path: "/v1/service/groups/{group}/members/{user}", ID: "service.group_remove",
		Status:  http.StatusNoContent,
		Summary: "Remove a member from a group", Errors: []*errs.Error{groups.ErrGroup, groups.ErrMember, groups.ErrRank, groups.ErrStore}}),
		s.deleteMember)
}

func wireUser(u accounts.User, external string, now time.Time) api.ServiceUser {
	w := api.ServiceUser{ID: u.ID.String(), ExternalID: external, Name: u.Name, Bio: u.Bio, Avatar: u.Avatar, Email: u.Email,
		Zone: u.Clock.In(now), Created: api.At(u.Created)}
	if u.BannedAt(now) {
		w.BannedUntil = new(api.At(u.Banned))
	}
	if u.Deleted() {
		w.Erased = new(api.At(u.Erased))
	}
	return w
}

func (s Service) postUsers(ctx context.Context, key *servicekeys.Caller,
	in *web.Body[api.ExternalUsers]) (*web.Body[api.ServiceUsers], error) {
	list := make([]accounts.External, len(in.Body.Users))
	for i, u := range in.Body.Users {
		list[i] = accounts.External{ID: u.ExternalID, Name: u.Name, Bio: u.Bio, Zone: u.Zone}
	}
	all, err := s.Accounts.Provide(trail.By(ctx, key.Name), list)
	if err != nil {
		return nil, err
	}
	out := api.ServiceUsers{Users: make([]api.ServiceUser, len(all))}
	for i, p := range all {
		out.Users[i] = wireUser(p.User, p.External, time.Now())
		out.Users[i].New = p.New
	}
	return web.NewBody(out), nil
}

// of calls fn with the user of a path, in a context where the key acts.
func (s Service) of(ctx context.Context, key *servicekeys.Caller, user string, fn func(ctx context.Context, user accounts.ID) error) error {
	id, err := s.Accounts.Resolve(ctx, user)
	if err != nil {
		return err
	}
	return fn(trail.By(ctx, key.Name), id)
}

func (s Service) getUser(ctx context.Context, key *servicekeys.Caller, in *ofUser) (out *web.Body[api.ServiceUser], err error) {
	err = s.of(ctx, key, in.User, func(ctx context.Context, id accounts.ID) error {
		u, err := s.Accounts.User(ctx, id)
		if err != nil {
			return err
		}
		external, err := s.Accounts.ExternalID(ctx, id)
		out = web.NewBody(wireUser(u, external, time.Now()))
		return err
	})
	return out, err
}

func (s Service) patchUser(ctx context.Context, key *servicekeys.Caller, in *struct {
	ofUser
	Body api.ServiceUserUpdate
}) (out *web.Body[api.ServiceUser], err error) {
	err = s.of(ctx, key, in.User, func(ctx context.Context, id accounts.ID) error {
		u, err := s.Accounts.Update(ctx, id, accounts.Change{Name: in.Body.Name, Bio: in.Body.Bio, Zone: in.Body.Zone})
		if err != nil {
			return err
		}
		external, err := s.Accounts.ExternalID(ctx, id)
		out = web.NewBody(wireUser(u, external, time.Now()))
		return err
	})
	return out, err
}

func (s Service) deleteUser(ctx context.Context, key *servicekeys.Caller, in *struct {
	ofUser
	Now bool `query:"now" doc:"without grace"`
}) (out *web.Body[api.AccountDeleted], err error) {
	err = s.of(ctx, key, in.User, func(ctx context.Context, id accounts.ID) error {
		grace := s.Accounts.Grace()
		if in.Now {
			grace = 0
		}
		erased, err := s.Accounts.DeleteFor(ctx, id, grace)
		out = web.NewBody(api.AccountDeleted{Erased: api.At(erased)})
		return err
	})
	return out, err
}

func (s Service) putBan(ctx context.Context, key *servicekeys.Caller, in *struct {
	ofUser
	Body api.ServiceBan
}) (*web.Empty, error) {
	until := accounts.Forever
	if in.Body.Until != nil {
		until = in.Body.Until.Time
	}
	return &web.Empty{}, s.of(ctx, key, in.User, func(ctx context.Context, id accounts.ID) error {
		return s.Accounts.Ban(ctx, id, until, in.Body.Reason)
	})
}

func (s Service) deleteBan(ctx context.Context, key *servicekeys.Caller, in *ofUser) (*web.Empty, error) {
	return &web.Empty{}, s.of(ctx, key, in.User, s.Accounts.Unban)
}

func (s Service) deleteSessions(ctx context.Context, key *servicekeys.Caller, in *ofUser) (*web.Empty, error) {
	return &web.Empty{}, s.of(ctx, key, in.User, s.Accounts.KickAll)
}

func (s Service) postTokens(ctx context.Context, key *servicekeys.Caller, in *struct {
	ofUser
	Body api.ServiceTokens
}) (out *web.Body[api.Tokens], err error) {
	err = s.of(ctx, key, in.User, func(ctx context.Context, id accounts.ID) error {
		// The address of the device is unknown. The backend's own address must not become a known client network of the
		// account.
		t, err := s.Accounts.SignIn(ctx, id, accounts.Login{Device: in.Body.Device, Session: web.NewID[accounts.Session](ctx)})
		if err == nil {
			out = web.NewBody(s.Accounts.WireTokens(t))
		}
		return err
	})
	return out, err
}

func (s Service) postMessage(ctx context.Context, _ *servicekeys.Caller, in *web.Body[api.ServiceMessage]) (*web.Body[api.Sent], error) {
	m := in.Body
	if (m.To == "") == (m.In == "") {
		return nil, ErrTo
	}
	from, err := s.Accounts.Resolve(ctx, m.From)
	if err != nil {
		return nil, err
	}
	var chat messaging.ChatRef
	if m.To != "" {
		to, err := s.Accounts.Resolve(ctx, m.To)
		if err != nil {
			return nil, err
		}
		chat = messaging.With(to)
	} else {
		group, err := ids.Parse[groups.Group](m.In)
		if err != nil {
			return nil, messaging.ErrChat
		}
		chat = messaging.In(group)
	}
	if _, err := s.Accounts.Acting(ctx, from, false); err != nil {
		return nil, err
	}
	sent, _, err := s.Messages.Post(ctx, from, chat, m.Send)
	if err != nil {
		return nil, err
	}
	return web.NewBody(sent), nil
}

func (s Service) postGroup(ctx context.Context, _ *servicekeys.Caller, in *web.Body[api.ServiceGroup]) (*web.Body[api.Group], error) {
	owner, err := s.Accounts.Resolve(ctx, in.Body.Owner)
	if err != nil {
		return nil, err
	}
	if _, err := s.Accounts.Acting(ctx, owner, false); err != nil {
		return nil, err
	}
	members, err := s.Accounts.ResolveAll(ctx, in.Body.Members)
	if err != nil {
		return nil, err
	}
	g, err := s.Groups.CreateFor(ctx, owner, web.NewID[groups.Group](ctx), in.Body.Name, members)
	if err != nil {
		return nil, err
	}
	return web.NewBody(g.Wire()), nil
}

func (s Service) postMembers(ctx context.Context, _ *servicekeys.Caller, in *struct {
	ofGroup
	Body api.ServiceMembers
}) (*web.Body[api.ServiceJoined], error) {
	users, err := s.Accounts.ResolveAll(ctx, in.Body.Members)
	if err != nil {
		return nil, err
	}
	g, added, err := s.Groups.AddMembers(ctx, in.Group, users, in.Body.Silent)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.ServiceJoined{Group: g.Wire(), Added: added}), nil
}

func (s Service) deleteMember(ctx context.Context, _ *servicekeys.Caller, in *struct {
	ofGroup
	ofUser
}) (*web.Empty, error) {
	user, err := s.Accounts.Resolve(ctx, in.User)
	if err != nil {
		return nil, err
	}
	return &web.Empty{}, s.Groups.RemoveMember(ctx, in.Group, user)
}
