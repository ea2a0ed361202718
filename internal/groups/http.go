package groups

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Limits for each user.
var (
	createLimit = ratelimit.Limit{Max: 30, Window: time.Hour}
	inviteLimit = ratelimit.Limit{Max: 60, Window: time.Minute}
	joinLimit   = ratelimit.Limit{Max: 30, Window: time.Minute} // slows down guessing of links
)

// Routes adds the domain's operations to a.
func (s *Service) Routes(a *web.API) {
	tags := []string{"groups"}
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/groups", ID: "groups.create", Tags: tags, Limit: createLimit,
		Status:  http.StatusCreated,
		Summary: "Create a group with friends", Errors: []*errs.Error{ErrText, ids.ErrMalformed, ErrNotFriend, ErrFull, ErrGroups, ErrGroup,
			accounts.ErrNoUser, ErrStore}}, s.postGroup)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/groups", ID: "groups.list", Tags: tags,
		Summary:     "List the caller's groups",
		Description: "The group that the caller joined last comes first.", Errors: []*errs.Error{ErrStore}}, s.getGroups)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/groups/{group}", ID: "groups.get", Tags: tags,
		Summary: "Get a group",
		Description: "Includes the caller's membership. Other users get the group, without its announcement, only if users may join without " +
			"an invitation.",
		Errors: []*errs.Error{ErrGroup, ErrStore}}, s.getGroup)
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: "/v1/groups/{group}", ID: "groups.update", Tags: tags,
		Summary: "Update a group", Errors: []*errs.Error{ErrGroup, ErrMay, ErrText, ErrUntil, ErrStore}}, s.patchGroup)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/groups/{group}", ID: "groups.dissolve", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Dissolve a group", Errors: []*errs.Error{ErrGroup, ErrMay, ErrStore}}, s.deleteGroup)
	s.pictureRoutes(a, tags)
	s.cardRoutes(a, tags)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/groups/{group}/owner", ID: "groups.transfer", Tags: tags,
		Summary:     "Transfer the ownership of a group",
		Description: "The caller becomes an admin.", Errors: []*errs.Error{ErrGroup, ErrMember, ErrMay, ErrSelf, ErrStore}}, s.putOwner)
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: "/v1/groups/{group}/me", ID: "groups.set_me", Tags: tags,
		Summary:     "Update the caller's group settings",
		Description: "Changes the nickname, the remark or the notifications, or marks the announcement as seen.",
		Errors:      []*errs.Error{ErrGroup, ErrText, ErrStore}}, s.patchMe)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/groups/{group}/me", ID: "groups.leave", Tags: tags,
		Status:      http.StatusNoContent,
		Summary:     "Leave a group",
		Description: "The owner must transfer the group first. When the last member leaves, the group is dissolved.",
		Errors:      []*errs.Error{ErrGroup, ErrOwner, ErrStore}}, s.deleteMe)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/groups/{group}/seen", ID: "groups.seen", Tags: tags,
		Summary: "Count readers of the announcement", Errors: []*errs.Error{ErrGroup, ErrMay, ErrStore}}, s.getSeen)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/groups/{group}/members", ID: "groups.members", Tags: tags, HeavyQuery: "q",
		Summary: "List members of a group",
		Description: "Higher roles come first, then earlier members. To store the list, a client reads all pages and then lists the changes " +
			"since the version of the first page. With q, the list has only members whose nickname or name, or the caller's remark about them, " +
			"contains each word. A word may be a part of a longer one. One call searches 1,000 members, so a page may be empty and still have " +
			"a next.",
		Errors: []*errs.Error{ErrGroup, ErrCursor, ErrQuery, ErrStore}}, s.getMembers)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/groups/{group}/changes", ID: "groups.changes", Tags: tags,
		Summary:     "List group changes since a version",
		Description: "Former members are listed for at least 90 days. If older changes are missing, `reset` is true: read the whole list.",
		Errors:      []*errs.Error{ErrGroup, ErrStore}}, s.getChanges)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/groups/{group}/members", ID: "groups.invite", Tags: tags, Limit: inviteLimit,
		Summary: "Add friends to a group", Errors: []*errs.Error{ErrGroup, ErrMay, ids.ErrMalformed, ErrNotFriend, ErrTheyBanned, ErrFull,
			ErrGroups, accounts.ErrNoUser, ErrStore}}, s.postMembers)
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: "/v1/groups/{group}/members/{user}", ID: "groups.set_member", Tags: tags,
		Summary:     "Update a member of a group",
		Description: "Appoints or dismisses an admin, or mutes or unmutes a member.",
		Errors:      []*errs.Error{ErrGroup, ErrMember, ErrMay, ErrRank, ErrAdmins, ErrUntil, ErrStore}}, s.patchMember)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/groups/{group}/members/{user}", ID: "groups.remove", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Remove a member", Errors: []*errs.Error{ErrGroup, ErrMember, ErrMay, ErrRank, ErrStore}}, s.deleteMember)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/groups/{group}/bans", ID: "groups.bans", Tags: tags,
		Summary:     "List bans of a group",
		Description: "Newest first.", Errors: []*errs.Error{ErrGroup, ErrMay, ErrCursor, ErrStore}}, s.getBans)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/groups/{group}/bans/{user}", ID: "groups.ban", Tags: tags,
		Status:      http.StatusNoContent,
		Summary:     "Ban a user from a group",
		Description: "A member is removed.", Errors: []*errs.Error{ErrGroup, ErrMay, ErrRank, ErrSelf, accounts.ErrNoUser, ErrStore}}, s.putBan)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/groups/{group}/bans/{user}", ID: "groups.unban", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Lift a ban", Errors: []*errs.Error{ErrGroup, ErrMay, ErrNoBan, ErrStore}}, s.deleteBan)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/groups/{group}/links", ID: "groups.new_link", Tags: tags, Limit: inviteLimit,
		Status:  http.StatusCreated,
		Summary: "Create an invite link", Errors: []*errs.Error{ErrGroup, ErrMay, ErrLinks, ErrStore}}, s.postLink)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/groups/{group}/links", ID: "groups.links", Tags: tags,
		Summary:     "List invite links",
		Description: "Admins get all links of the group, members their own.", Errors: []*errs.Error{ErrGroup, ErrStore}}, s.getLinks)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/groups/{group}/links/{link}", ID: "groups.revoke_link", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Revoke an invite link", Errors: []*errs.Error{ErrGroup, ErrLink, ErrMay, ErrStore}}, s.deleteLink)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/group-links/{link}", ID: "groups.look", Tags: tags, Limit: joinLimit,
		Summary: "Get the group of a link", Errors: []*errs.Error{ErrLink, ErrStore}}, s.getLink)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/group-links/{link}", ID: "groups.join", Tags: tags, Limit: joinLimit,
		Summary:     "Join a group by link",
		Description: "If admins decide who joins, a card opens a request to join. The response then has the request instead of the membership.",
		Errors:      []*errs.Error{ErrLink, ErrText, ErrAlready, ErrBanned, ErrFull, ErrGroups, ErrRequests, accounts.ErrNoUser, ErrStore}},
		s.postJoin)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/groups/{group}/requests", ID: "groups.ask", Tags: tags, Limit: joinLimit,
		Summary:     "Request to join a group",
		Description: "An open group admits the caller at once. A second request changes nothing.",
		Errors:      []*errs.Error{ErrGroup, ErrText, ErrAlready, ErrBanned, ErrFull, ErrGroups, ErrRequests, accounts.ErrNoUser, ErrStore}},
		s.postRequest)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/groups/{group}/requests", ID: "groups.requests", Tags: tags,
		Summary:     "List pending requests to join",
		Description: "Oldest first.", Errors: []*errs.Error{ErrGroup, ErrMay, ErrCursor, ErrStore}}, s.getRequests)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/groups/{group}/requests/mine", ID: "groups.withdraw", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Withdraw the caller's request", Errors: []*errs.Error{ErrNoRequest, ErrStore}}, s.deleteRequest)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/groups/{group}/requests/{request}/accept", ID: "groups.accept", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Accept a request to join", Errors: []*errs.Error{ErrGroup, ErrMay, ErrNoRequest, ErrFull, ErrGroups, accounts.ErrNoUser,
			ErrStore}}, s.postAccept)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/groups/{group}/requests/{request}/refuse", ID: "groups.refuse", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Refuse a request", Errors: []*errs.Error{ErrGroup, ErrMay, ErrNoRequest, ErrStore}}, s.postRefuse)
}

// GroupPath identifies a group.
type GroupPath struct {
	Group ID `path:"group" maxLength:"64" unknown:"group.unknown,group.request_unknown" doc:"the group's id"`
}

// MemberPath identifies a user in a group.
type MemberPath struct {
	GroupPath
	User accounts.ID `path:"user" maxLength:"64" unknown:"group.member_unknown,account.unknown,group.ban_unknown" doc:"the user's id"`
}

// LinkPath identifies a link.
type LinkPath struct {
	Link LinkID `path:"link" maxLength:"64" unknown:"group.link_unknown" doc:"the link's id"`
}

func parseUsers(texts []string) ([]accounts.ID, error) {
	users := make([]accounts.ID, len(texts))
	for i, text := range texts {
		var err error
		if users[i], err = ids.Parse[accounts.User](text); err != nil {
			return nil, err
		}
	}
	return users, nil
}

func (s *Service) postGroup(ctx context.Context, caller accounts.Caller,
	in *web.Body[api.GroupNew]) (*web.Body[api.GroupMembership], error) {
	members, err := parseUsers(in.Body.Members)
	if err != nil {
		return nil, err
	}
	g, me, err := s.Create(ctx, caller.User, web.NewID[Group](ctx), in.Body.Name, members)
	return web.NewBody(membershipWire(g, &me)), err
}

func (s *Service) getGroups(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.Groups], error) {
	list, mine, err := s.Groups(ctx, caller.User)
	out := api.Groups{Groups: make([]api.GroupMembership, len(list))}
	for i, g := range list {
		out.Groups[i] = membershipWire(g, &mine[i])
	}
	return web.NewBody(out), err
}

func (s *Service) getGroup(ctx context.Context, caller accounts.Caller, in *GroupPath) (*web.Body[api.GroupMembership], error) {
	g, me, err := s.Group(ctx, caller.User, in.Group)
	return web.NewBody(membershipWire(g, me)), err
}

func (s *Service) patchGroup(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	Body api.GroupUpdate
}) (*web.Body[api.GroupMembership], error) {
	u := Update{Name: in.Body.Name, Announcement: in.Body.Announcement, Joins: web.Value[Joins](in.Body.Joins, joins[:]),
		Question: in.Body.Question, MutedUntil: in.Body.MutedUntil.Std()}
	if in.Body.Inviters != nil {
		admins := *in.Body.Inviters == api.RoleAdmin
		u.AdminsInvite = &admins
	}
	g, me, err := s.Update(ctx, caller.User, in.Group, u)
	return web.NewBody(membershipWire(g, &me)), err
}

func (s *Service) deleteGroup(ctx context.Context, caller accounts.Caller, in *GroupPath) (*web.Empty, error) {
	return &web.Empty{}, s.Dissolve(ctx, caller.User, in.Group)
}

func (s *Service) putOwner(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	Body api.GroupOwner
}) (*web.Body[api.GroupMembership], error) {
	to, err := ids.Parse[accounts.User](in.Body.User)
	if err != nil {
		return nil, ErrMember
	}
	g, me, err := s.Transfer(ctx, caller.User, in.Group, to)
	return web.NewBody(membershipWire(g, &me)), err
}

func (s *Service) patchMe(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	Body api.GroupSelfUpdate
}) (*web.Body[api.GroupMembership], error) {
	g, me, err := s.SetOwn(ctx, caller.User, in.Group, OwnUpdate{Nickname: in.Body.Nickname, Remark: in.Body.Remark,
		Notify: web.Value[Notify](in.Body.Notify, notifies[:]), Seen: in.Body.Seen})
	return web.NewBody(membershipWire(g, &me)), err
}

func (s *Service) deleteMe(ctx context.Context, caller accounts.Caller, in *GroupPath) (*web.Empty, error) {
	return &web.Empty{}, s.Leave(ctx, caller.User, in.Group)
}

func (s *Service) getSeen(ctx context.Context, caller accounts.Caller, in *GroupPath) (*web.Body[api.GroupSeen], error) {
	g, n, err := s.Seen(ctx, caller.User, in.Group)
	return web.NewBody(api.GroupSeen{Announced: g.Announced, Seen: n, Members: g.Members}), err
}

func (s *Service) getMembers(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	web.PageQuery
	Q string `query:"q" maxLength:"100" example:"ann" doc:"words to search for"`
}) (*web.Body[api.GroupMembers], error) {
	var list []Membership
	var next string
	var g Group
	var err error
	if in.Q == "" {
		list, next, g, err = s.Members(ctx, caller.User, in.Group, in.Cursor, in.Limit)
	} else {
		list, next, g, err = s.Search(ctx, caller.User, in.Group, in.Q, in.Cursor, in.Limit)
	}
	if err != nil {
		return nil, err
	}
	profiles, err := s.people.Profiles(ctx, usersOf(list))
	return web.NewBody(api.GroupMembers{Members: web.List(list, func(m Membership) api.GroupMember { return m.wire(profiles) }), Next: next,
		Version: g.Version}), err
}

func usersOf(list []Membership) []accounts.ID {
	return web.List(list, func(m Membership) accounts.ID { return m.User })
}

func (s *Service) getChanges(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	Since int64 `query:"since" minimum:"0" default:"0" doc:"the version that the caller has; 0: none"`
	Limit int   `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"maximum number of results"`
}) (*web.Body[api.GroupChanges], error) {
	c, err := s.Changes(ctx, caller.User, in.Group, in.Since, in.Limit)
	if err != nil {
		return nil, err
	}
	profiles, err := s.people.Profiles(ctx, usersOf(c.Changed))
	return web.NewBody(api.GroupChanges{Group: c.Group.Wire(), Changed: web.List(c.Changed, func(m Membership) api.GroupMember {
		return m.wire(profiles)
	}),
		Removed: web.List(c.Removed, accounts.ID.String), Version: c.Version, More: c.More, Reset: c.Reset}), err
}

func (s *Service) postMembers(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	Body api.GroupInvite
}) (*web.Body[api.GroupAdded], error) {
	users, err := parseUsers(in.Body.Users)
	if err != nil {
		return nil, err
	}
	added, err := s.Invite(ctx, caller.User, in.Group, users)
	if err != nil {
		return nil, err
	}
	profiles := s.people.ProfilesOrNone(ctx, usersOf(added)...)
	return web.NewBody(api.GroupAdded{Added: web.List(added, func(m Membership) api.GroupMember { return m.wire(profiles) })}), nil
}

func (s *Service) patchMember(ctx context.Context, caller accounts.Caller, in *struct {
	MemberPath
	Body api.GroupMemberUpdate
}) (*web.Body[api.GroupMember], error) {
	m, err := s.SetMember(ctx, caller.User, in.Group, in.User, MemberUpdate{Role: web.Value[Role](in.Body.Role, roles[:]),
		MutedUntil: in.Body.MutedUntil.Std()})
	if err != nil {
		return nil, err
	}
	return web.NewBody(m.wire(s.people.ProfilesOrNone(ctx, in.User))), nil
}

func (s *Service) deleteMember(ctx context.Context, caller accounts.Caller, in *MemberPath) (*web.Empty, error) {
	return &web.Empty{}, s.Remove(ctx, caller.User, in.Group, in.User)
}

func (s *Service) getBans(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	web.PageQuery
}) (*web.Body[api.GroupBans], error) {
	list, next, err := s.Bans(ctx, caller.User, in.Group, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	profiles, err := s.people.Profiles(ctx, web.List(list, func(b Ban) accounts.ID { return b.User }))
	wire := func(b Ban) api.GroupBan {
		return api.GroupBan{User: profiles.Wire(b.User), By: b.By.String(), At: api.At(sqldb.Time(b.At))}
	}
	return web.NewBody(api.GroupBans{Bans: web.List(list, wire), Next: next}), err
}

func (s *Service) putBan(ctx context.Context, caller accounts.Caller, in *MemberPath) (*web.Empty, error) {
	return &web.Empty{}, s.Ban(ctx, caller.User, in.Group, in.User)
}

func (s *Service) deleteBan(ctx context.Context, caller accounts.Caller, in *MemberPath) (*web.Empty, error) {
	return &web.Empty{}, s.Unban(ctx, caller.User, in.Group, in.User)
}

func linkWire(l Link) api.GroupLink {
	return api.GroupLink{ID: l.ID.String(), By: l.By.String(), Created: api.At(sqldb.Time(l.Created)), Expires: api.At(sqldb.Time(l.Expires)),
		Uses: l.Uses, Most: l.MaxUses, Card: l.Card}
}

func (s *Service) postLink(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	Body api.GroupLinkNew
}) (*web.Body[api.GroupLink], error) {
	l, err := s.NewLink(ctx, caller.User, in.Group, web.NewID[Link](ctx), time.Duration(cmp.Or(in.Body.Hours, 168))*time.Hour, in.Body.Uses)
	return web.NewBody(linkWire(l)), err
}

func (s *Service) getLinks(ctx context.Context, caller accounts.Caller, in *GroupPath) (*web.Body[api.GroupLinks], error) {
	list, err := s.Links(ctx, caller.User, in.Group)
	return web.NewBody(api.GroupLinks{Links: web.List(list, linkWire)}), err
}

func (s *Service) deleteLink(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	LinkPath
}) (*web.Empty, error) {
	return &web.Empty{}, s.Revoke(ctx, caller.User, in.Group, in.Link)
}

func (s *Service) getLink(ctx context.Context, caller accounts.Caller, in *LinkPath) (*web.Body[api.GroupMembership], error) {
	g, me, err := s.GroupOfLink(ctx, caller.User, in.Link)
	return web.NewBody(membershipWire(g, me)), err
}

func (s *Service) postJoin(ctx context.Context, caller accounts.Caller, in *struct {
	LinkPath
	Body *api.GroupRequestNew
}) (*web.Body[api.GroupMembership], error) {
	answer := ""
	if in.Body != nil {
		answer = in.Body.Answer
	}
	g, me, r, err := s.Join(ctx, caller.User, in.Link, answer)
	if err != nil {
		return nil, err
	}
	out := membershipWire(g, me)
	if r != nil {
		request := r.wire(s.people.ProfilesOrNone(ctx, caller.User))
		out.Request = &request
	}
	return web.NewBody(out), nil
}

func (s *Service) postRequest(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	Body api.GroupRequestNew
}) (*web.Body[api.GroupRequestReply], error) {
	r, err := s.RequestJoin(ctx, caller.User, in.Group, in.Body.Answer)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return web.NewBody(api.GroupRequestReply{Joined: true}), nil
	}
	wire := r.wire(s.people.ProfilesOrNone(ctx, caller.User))
	return web.NewBody(api.GroupRequestReply{Request: &wire}), nil
}

func (s *Service) getRequests(ctx context.Context, caller accounts.Caller, in *struct {
	GroupPath
	web.PageQuery
}) (*web.Body[api.GroupRequests], error) {
	list, next, err := s.Requests(ctx, caller.User, in.Group, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	profiles, err := s.people.Profiles(ctx, web.List(list, func(r Request) accounts.ID { return r.User }))
	return web.NewBody(api.GroupRequests{Requests: web.List(list, func(r Request) api.GroupRequest { return r.wire(profiles) }),
		Next: next}), err
}

func (s *Service) deleteRequest(ctx context.Context, caller accounts.Caller, in *GroupPath) (*web.Empty, error) {
	return &web.Empty{}, s.Withdraw(ctx, caller.User, in.Group)
}

// RequestPath identifies a request in a group.
type RequestPath struct {
	GroupPath
	Request RequestID `path:"request" maxLength:"64" unknown:"group.request_unknown" doc:"the request's id"`
}

func (s *Service) postAccept(ctx context.Context, caller accounts.Caller, in *RequestPath) (*web.Empty, error) {
	return s.answerRequest(ctx, caller, in, true)
}

func (s *Service) postRefuse(ctx context.Context, caller accounts.Caller, in *RequestPath) (*web.Empty, error) {
	return s.answerRequest(ctx, caller, in, false)
}

func (s *Service) answerRequest(ctx context.Context, caller accounts.Caller, in *RequestPath, accept bool) (*web.Empty, error) {
	return &web.Empty{}, s.Decide(ctx, caller.User, in.Group, in.Request, accept)
}
