package notices

import (
	"context"
	"net/http"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
)

// Routes adds the domain's operations to a.
func (s *Service) Routes(a *web.API) {
	tags := []string{"notices"}
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/notices", ID: "notices.list", Tags: tags,
		Summary: "List notices, newest first",
		Description: "Announcements are in the language of the Accept-Language header. New notices arrive as notice.new events. Open the " +
			"socket or event stream before this call, so that you miss none.",
		Errors: []*errs.Error{ErrCursor, ErrStore, accounts.ErrStore}}, s.getNotices)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/notices/counts", ID: "notices.counts", Tags: tags,
		Summary: "Get unread counts by category", Errors: []*errs.Error{ErrStore}}, s.getCounts)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/notices/mark", ID: "notices.mark", Tags: tags, Status: http.StatusOK,
		Summary: "Mark notices as read",
		Description: "Marks all notices up to a number as read. Send the highest number that the client shows, so that newer notices stay " +
			"unread. The mark never moves back.",
		Errors: []*errs.Error{ErrStore}}, s.putMark)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/notices/{seq}/read", ID: "notices.read", Tags: tags, Status: http.StatusOK,
		Summary: "Mark one notice as read", Errors: []*errs.Error{ErrNotice, ErrStore}}, s.putRead)
}

func (s *Service) getNotices(ctx context.Context, caller accounts.Caller, in *struct {
	Cursor string `query:"cursor" maxLength:"20" doc:"the next field of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"30" doc:"the largest number of notices to return"`
}) (*web.Body[api.Notices], error) {
	list, next, c, err := s.List(ctx, caller.User, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	if err := s.fillAnnouncements(ctx, list); err != nil {
		return nil, asKind(err)
	}
	profiles, err := s.people.Profiles(ctx, usersAbout(list))
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.Notices{Notices: web.List(list, func(n Notice) api.Notice {
		return n.wire(profiles)
	}), Next: next, Counts: c.wire()}), nil
}

func countsBody(c Counts, err error) (*web.Body[api.NoticeCounts], error) {
	if err != nil {
		return nil, err
	}
	return web.NewBody(c.wire()), nil
}

func (s *Service) getCounts(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.NoticeCounts], error) {
	return countsBody(s.Counts(ctx, caller.User))
}

func (s *Service) putMark(ctx context.Context, caller accounts.Caller, in *web.Body[api.NoticeMark]) (*web.Body[api.NoticeCounts], error) {
	return countsBody(s.Mark(ctx, caller.User, in.Body.Read))
}

type noticeInput struct {
	Seq int64 `path:"seq" minimum:"1" doc:"the notice's number in the caller's list"`
}

func (s *Service) putRead(ctx context.Context, caller accounts.Caller, in *noticeInput) (*web.Body[api.NoticeCounts], error) {
	return countsBody(s.Read(ctx, caller.User, in.Seq))
}
